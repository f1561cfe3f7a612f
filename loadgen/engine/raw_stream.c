#include "loadgen/engine/raw_stream.h"

#include "loadgen/base/interrupts.h"
#include "loadgen/engine/curl_handle.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- Bytes ---- */

static ssize_t result_of(CURLcode code, size_t n)
{
    if (code == CURLE_OK)
        return (ssize_t)n;
    errno = code == CURLE_AGAIN ? EAGAIN : ECONNRESET;
    return -1;
}

ssize_t raw_stream_receive(const struct raw_stream *stream, char *buffer, size_t size)
{
    size_t n = 0;
    CURLcode code;

    if (!stream->tls)
        return recv(stream->fd, buffer, size, MSG_DONTWAIT);
    code = curl_easy_recv(stream->easy, buffer, size, &n);
    return result_of(code, n);
}

ssize_t raw_stream_send(const struct raw_stream *stream, const char *bytes, size_t length)
{
    size_t n = 0;
    CURLcode code;

    if (!stream->tls)
        return send(stream->fd, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL);
    code = curl_easy_send(stream->easy, bytes, length, &n);
    return result_of(code, n);
}

bool raw_stream_would_block(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

/* ---- Connecting and closing ---- */

/* CURLOPT_PREREQFUNCTION: connected. The session of TLS can be read only now. */
static int stream_on_connected(void *context, char *remote, char *local, int remote_port,
                               int local_port)
{
    struct raw_stream *stream = context;

    (void)remote, (void)local, (void)remote_port, (void)local_port;
    stream->negotiated = curl_handle_negotiation(stream->easy, stream->config->plan,
                                                 &stream->negotiation, &stream->resumed);
    return CURL_PREREQFUNC_OK;
}

/* Closes libcurl's descriptor, too. */
static void stream_leave_multi(struct raw_stream *stream)
{
    curl_multi_remove_handle(stream->group->multi, stream->easy);
    stream->in_multi = false;
}

void raw_stream_close(struct raw_stream *stream)
{
    if (stream->readable != NULL)
        event_free(stream->readable);
    if (stream->writable != NULL)
        event_free(stream->writable);
    stream->readable = stream->writable = NULL;
    if (stream->in_multi)
        stream_leave_multi(stream);
    else if (stream->fd >= 0)
        close(stream->fd);
    stream->fd = -1;
}

void raw_stream_connect(struct raw_stream *stream, const struct request *request)
{
    stream->in_multi = true;
    stream->tls = request->target.tls;
    stream->negotiated = stream->resumed = false;
    stream->error_text[0] = '\0';
    curl_easy_setopt(stream->easy, CURLOPT_CURLU, request->target.url);
    curl_easy_setopt(stream->easy, CURLOPT_RESOLVE, request->addresses);
    curl_multi_add_handle(stream->group->multi, stream->easy);
    /* connect() may fail at once; the end must then come from the loop. */
    curl_group_call_again(stream->group);
}

bool raw_stream_take_socket(struct raw_stream *stream)
{
    curl_socket_t fd = CURL_SOCKET_BAD;

    if (stream->negotiated)
        negotiations_record(stream->config->negotiations, &stream->negotiation, 1);
    curl_easy_getinfo(stream->easy, CURLINFO_ACTIVESOCKET, &fd);
    if (stream->tls) {
        stream->fd = fd;
    } else {
        stream->fd = fd != CURL_SOCKET_BAD ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
        stream_leave_multi(stream);
    }
    return stream->fd >= 0;
}

bool raw_stream_watch(struct raw_stream *stream, event_callback_fn on_readable,
                      event_callback_fn on_writable, void *context)
{
    stream->readable =
        event_new(stream->config->base, stream->fd, EV_READ | EV_PERSIST, on_readable, context);
    stream->writable = event_new(stream->config->base, stream->fd, EV_WRITE, on_writable, context);
    return stream->readable != NULL && stream->writable != NULL &&
           event_add(stream->readable, NULL) == 0;
}

void raw_stream_begin_reading(const struct raw_stream *stream, short events)
{
    event_remove_timer(stream->readable);
    if ((events & EV_TIMEOUT) != 0)
        events_add(stream->readable, NULL);
}

/*
 * The socket is still readable, unless libcurl holds the rest of a TLS record. A timeout of zero
 * removes the event from the loop when it fires; raw_stream_begin_reading() adds it again.
 */
void raw_stream_read_later(const struct raw_stream *stream)
{
    static const struct timeval next_iteration = {0};

    if (stream->tls)
        events_add(stream->readable, &next_iteration);
}

enum error_kind raw_stream_failure(const struct raw_stream *stream, CURLcode code)
{
    const struct curl_ending ending = {
        .easy = stream->easy, .code = code, .error_text = stream->error_text};
    enum error_kind error = curl_handle_result(&ending).error;

    error_texts_record(stream->config->error_texts, error, curl_handle_error_text(&ending));
    return error;
}

/* ---- Life cycle ---- */

bool raw_stream_init(struct raw_stream *stream, const struct engine_config *config,
                     struct curl_group *group, struct curl_sockets *sockets, void *owner)
{
    CURL *easy = curl_easy_init();

    stream->config = config;
    stream->group = group;
    stream->easy = easy;
    stream->fd = -1;
    return easy != NULL && curl_easy_setopt(easy, CURLOPT_PRIVATE, owner) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, stream->error_text) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, stream_on_connected) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PREREQDATA, stream) == CURLE_OK &&
           curl_handle_set_connection(config->plan, config->request_plan, easy) &&
           curl_sockets_adopt(sockets, easy);
}

void raw_stream_destroy(struct raw_stream *stream)
{
    if (stream->easy != NULL)
        raw_stream_close(stream);
    curl_easy_cleanup(stream->easy);
}

/* ---- Timeouts ---- */

enum {
    SWEEPS_IN_TIMEOUT = 20, /* timeout checks within one --timeout */
    SWEEP_MS_MIN = 5,
    SWEEP_MS_MAX = 250,
};

struct event *raw_sweep_start(const struct engine_config *config, event_callback_fn sweep,
                              void *context)
{
    uint64_t ms = config->plan->timeout_ms / SWEEPS_IN_TIMEOUT;
    struct event *event = event_new(config->base, -1, EV_PERSIST, sweep, context);
    struct timeval period;

    ms = ms < SWEEP_MS_MIN ? SWEEP_MS_MIN : ms > SWEEP_MS_MAX ? SWEEP_MS_MAX : ms;
    period = (struct timeval){0, (suseconds_t)(ms * 1000)};
    if (event != NULL && event_add(event, &period) == 0)
        return event;
    if (event != NULL)
        event_free(event);
    return NULL;
}
