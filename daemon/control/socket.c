#include "daemon/control/socket.h"

#include "common/clock.h"
#include "common/escape.h"
#include "common/instance.h"
#include "common/units.h"
#include "daemon/base/directory.h"
#include "daemon/base/loop.h"

#include <errno.h>
#include <event2/bufferevent.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    OUTPUT_HIGH =
        256 * 1024, /* with more unread bytes, a client gets no further replies until it reads */
    IDLE_S = 3600,  /* a client that is silent for longer is closed */
    SILENT_S = 5,   /* a client that is silent for longer may be closed to admit another */
    STUCK_S = 30,   /* a client that reads nothing for longer is closed */
    POLL_MS = 20,
    BACKLOG = 1024,
    ACCEPTS_PER_ITERATION = 32,
};

struct client {
    LIST_ENTRY(client) link;
    struct control_socket *control;
    struct bufferevent *stream;
    unsigned uid;
    int pid;
    struct control_reply pending; /* if in_force is set: the reply is sent later... */
    uint64_t pending_until_ns;    /* ...but by then; monotonic clock */
    bool ending;                  /* close when the output is sent */
    bool failed;                  /* a reply was lost: close now */
    bool half_closed;             /* the client sends no more lines: close after the last reply */
    uint64_t active_ns;           /* time of its last line, monotonic clock */
};

struct control_socket {
    struct event_base *base;
    control_run *run;
    void *owner;
    char path[INSTANCE_PATH_MAX];
    int fd;
    ino_t file_inode; /* to detect that a new server has replaced the file */
    struct event *readable;
    struct event *accept_again; /* a timer, set when accept() failed */
    struct event
        *poll; /* runs while a reply is pending, because some changes show only in the segment */
    LIST_HEAD(, client) clients;
    unsigned client_count;
};

static void client_close(struct client *client)
{
    LIST_REMOVE(client, link);
    client->control->client_count--;
    bufferevent_free(client->stream);
    free(client);
}

/* Replies */

json_t *control_error(const char *format, ...)
{
    char text[8192];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    return json_pack("{s:b, s:o}", "ok", 0, "error", json_text(text));
}

/*
 * Without memory, Jansson builds incomplete values without an error; such a reply must not be sent.
 * True if an allocation has failed since the last reply.
 */
static bool memory_failed;

static void *checked_malloc(size_t size)
{
    void *memory = malloc(size);

    memory_failed |= memory == NULL;
    return memory;
}

/* Returns the line without its newline, or NULL: out of memory. Releases REPLY. */
static char *format_reply(json_t *reply)
{
    char *text = reply != NULL ? json_dumps(reply, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;
    char *safe = text != NULL && !memory_failed ? escape_json_text(text) : NULL;

    json_decref(reply);
    free(text);
    memory_failed = false;
    return safe;
}

static void send_reply(struct client *client, json_t *reply)
{
    char *text = format_reply(reply);

    if (text == NULL)
        text = strdup("{\"ok\":false,\"error\":\"out of memory\"}");
    if (text == NULL ||
        evbuffer_add_printf(bufferevent_get_output(client->stream), "%s\n", text) < 0)
        client->failed = true; /* close the connection, because the client would wait for a reply */
    free(text);
}

static bool is_pending(const struct client *client)
{
    return client->pending.in_force != NULL;
}

static void poll_soon(const struct control_socket *control)
{
    loop_start_timer(control->poll,
                     POLL_MS); /* the master's tick calls control_socket_check(), too */
}

/* Lines */

static enum control_line check_line(const char *line, size_t length)
{
    if (length >= CONTROL_LINE_MAX)
        return CONTROL_LINE_TOO_LONG;
    return strlen(line) == length && escape_utf8_valid(line) ? CONTROL_LINE_WHOLE
                                                             : CONTROL_LINE_INVALID;
}

enum control_line control_line_read(struct evbuffer *input, char **line)
{
    size_t length;

    *line = evbuffer_readln(input, &length, EVBUFFER_EOL_CRLF);
    if (*line != NULL) {
        enum control_line result = check_line(*line, length);

        if (result != CONTROL_LINE_WHOLE) {
            free(*line);
            *line = NULL;
        }
        return result;
    }
    if (evbuffer_search_eol(input, NULL, NULL, EVBUFFER_EOL_CRLF).pos >= 0)
        return CONTROL_LINE_NO_MEMORY;
    return evbuffer_get_length(input) >
                   CONTROL_LINE_MAX /* one more byte: the line may end in CRLF */
               ? CONTROL_LINE_TOO_LONG
               : CONTROL_LINE_INCOMPLETE;
}

static void run_line(struct client *client, char *line)
{
    const struct control_socket *control = client->control;
    struct control_reply reply = control->run(control->owner, line, client->uid, client->pid);

    if (reply.in_force == NULL) {
        send_reply(client, reply.json);
    } else {
        client->pending = reply;
        client->pending_until_ns = clock_monotonic_ns() + reply.wait_limit_ms * NS_PER_MS;
        poll_soon(control);
    }
}

static bool takes_lines(const struct client *client)
{
    return !is_pending(client) && !client->ending && !client->failed &&
           evbuffer_get_length(bufferevent_get_output(client->stream)) < OUTPUT_HIGH;
}

/* Runs lines until a reply is pending or too much output is unread; on_output() then continues. */
static void run_lines(struct client *client)
{
    struct evbuffer *input = bufferevent_get_input(client->stream);
    enum control_line result = CONTROL_LINE_WHOLE;
    char *line;

    while ((result == CONTROL_LINE_WHOLE || result == CONTROL_LINE_INVALID) &&
           takes_lines(client)) {
        result = control_line_read(input, &line);
        if (result == CONTROL_LINE_WHOLE)
            run_line(client, line);
        else if (result == CONTROL_LINE_INVALID)
            send_reply(client, control_error("the command has a NUL byte or is not UTF-8"));
        free(line);
    }
    if (result == CONTROL_LINE_NO_MEMORY)
        client->failed = true;
    if (result != CONTROL_LINE_TOO_LONG)
        return;
    send_reply(client, control_error("line too long (limit: %d bytes)", CONTROL_LINE_MAX - 1));
    client->ending = true;
}

/*
 * Bounds the input by pausing reads. Libevent's high watermark would do so, but crashes without
 * memory.
 */
static void update_reading(struct client *client)
{
    size_t length = evbuffer_get_length(bufferevent_get_input(client->stream));

    if (length > CONTROL_LINE_MAX || client->ending || client->half_closed)
        bufferevent_disable(client->stream, EV_READ);
    else if (bufferevent_enable(client->stream, EV_READ) != 0)
        client->failed = true; /* without memory to read its lines */
}

/* Returns false if the client was closed. */
static bool advance_client(struct client *client)
{
    client->active_ns = clock_monotonic_ns();
    run_lines(client);
    update_reading(client);
    if (!client->failed)
        return true;
    client_close(client);
    return false;
}

static void on_input(struct bufferevent *stream, void *argument)
{
    (void)stream;
    advance_client(argument);
}

static void on_output(struct bufferevent *stream, void *argument)
{
    struct client *client = argument;
    bool done;

    if (!client->ending && !advance_client(client))
        return;
    done = client->ending || (client->half_closed && !is_pending(client));
    if (done && evbuffer_get_length(bufferevent_get_output(stream)) == 0)
        client_close(client);
}

/* True unless the client has closed its socket, rather than only shut down its sending side. */
static bool still_reads(struct bufferevent *stream)
{
    struct pollfd fd = {.fd = bufferevent_getfd(stream)};

    return poll(&fd, 1, 0) == 0;
}

/*
 * A client may shut down its sending side after its last line ("echo ping | nc -N -U ...") and
 * still read.
 */
static void on_end(struct bufferevent *stream, short what, void *argument)
{
    struct client *client = argument;
    bool unsent = evbuffer_get_length(bufferevent_get_output(stream)) > 0;

    if ((what & BEV_EVENT_EOF) != 0 && (is_pending(client) || unsent) && still_reads(stream))
        client->half_closed = true;
    else
        client_close(client);
}

static void send_pending(struct client *client, json_t *reply)
{
    client->pending = (struct control_reply){0};
    send_reply(client, reply);
    advance_client(client);
}

static void check_pending(struct client *client, uint64_t now_ns)
{
    void *owner = client->control->owner;
    const struct control_reply *pending = &client->pending;

    if (pending->in_force(owner, pending->token))
        send_pending(client, pending->report(owner, pending->token));
    else if (now_ns > client->pending_until_ns)
        send_pending(client, control_error("the change is not complete after %.0f s: a worker does "
                                           "not respond; see status and the error log",
                                           (double)pending->wait_limit_ms / 1000));
    else
        poll_soon(client->control);
}

void control_socket_check(struct control_socket *control)
{
    struct client *client = LIST_FIRST(&control->clients);
    uint64_t now_ns = clock_monotonic_ns();

    while (client != NULL) {
        struct client *next = LIST_NEXT(client, link);

        if (is_pending(client))
            check_pending(client, now_ns);
        client = next;
    }
}

static void on_poll(evutil_socket_t fd, short what, void *argument)
{
    (void)fd, (void)what;
    control_socket_check(argument);
}

/* Clients */

/* Root and the server's user, who may use the reserved places. */
static bool is_privileged(uid_t uid)
{
    return uid == 0 || uid == geteuid();
}

/*
 * At the limit for clients of user UID, closes the one that was silent for longest, so that idle
 * clients do not block others. Returns false if there is none that UID may replace.
 */
static bool make_room_for_control_client(struct control_socket *control, uid_t uid)
{
    unsigned limit = CONTROL_CLIENTS_MAX - (is_privileged(uid) ? 0 : CONTROL_CLIENTS_RESERVED);
    uint64_t latest = clock_monotonic_ns() - SILENT_S * NS_PER_S;
    struct client *client, *oldest = NULL;

    if (control->client_count < limit)
        return true;
    LIST_FOREACH(client, &control->clients, link)
    {
        if (!is_pending(client) && client->active_ns < latest &&
            (is_privileged(uid) || !is_privileged(client->uid))) {
            latest = client->active_ns;
            oldest = client;
        }
    }
    if (oldest != NULL)
        client_close(oldest);
    return oldest != NULL;
}

static void refuse_client(int fd)
{
    static const char reply[] = "{\"ok\":false,\"error\":\"too many control clients\"}\n";

    send(fd, reply, sizeof(reply) - 1, MSG_NOSIGNAL);
    close(fd);
}

static void client_open(struct control_socket *control, int fd)
{
    static const struct timeval idle = {.tv_sec = IDLE_S}, stuck = {.tv_sec = STUCK_S};
    struct ucred credentials = {.uid = (uid_t)-1};
    socklen_t length = sizeof(credentials);
    struct client *client;

    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length);
    if (!make_room_for_control_client(control, credentials.uid)) {
        refuse_client(fd);
        return;
    }
    client = calloc(1, sizeof(*client));
    if (client == NULL || (client->stream = bufferevent_socket_new(
                               control->base, fd, BEV_OPT_CLOSE_ON_FREE)) == NULL) {
        free(client);
        close(fd);
        return;
    }
    client->uid = credentials.uid;
    client->pid = credentials.pid;
    client->control = control;
    client->active_ns = clock_monotonic_ns();
    LIST_INSERT_HEAD(&control->clients, client, link);
    control->client_count++;
    bufferevent_setcb(client->stream, on_input, on_output, on_end, client);
    bufferevent_set_timeouts(client->stream, &idle, &stuck);
    if (bufferevent_enable(client->stream, EV_READ | EV_WRITE) != 0)
        client_close(client);
}

/* Out of descriptors or memory: accept() would keep failing. */
static void pause_clients(struct control_socket *control)
{
    static const struct timeval second = {.tv_sec = 1};

    if (event_add(control->accept_again, &second) == 0)
        event_del(control->readable);
}

static void on_connect(evutil_socket_t listener, short what, void *argument)
{
    struct control_socket *control = argument;

    (void)what;
    for (int i = 0; i < ACCEPTS_PER_ITERATION; i++) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0) {
            client_open(control, fd);
            continue;
        }
        if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
            pause_clients(control);
        return;
    }
}

static void on_accept_again(evutil_socket_t fd, short what, void *argument)
{
    struct control_socket *control = argument;

    (void)fd, (void)what;
    if (event_add(control->readable, NULL) != 0)
        pause_clients(control);
}

/* Opening and closing */

/*
 * Only this user can connect until control_socket_set_access(). Returns the socket, or -1 with
 * errno.
 */
static int bind_socket(struct control_socket *control)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), error;
    struct stat status;

    if (fd < 0)
        return -1;
    if (directory_bind(fd, control->path, 0600, &status) == 0) {
        control->file_inode = status.st_ino;
        if (listen(fd, BACKLOG) == 0)
            return fd;
        directory_remove(control->path);
    }
    error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* Returns 0 if there is no such file. */
static ino_t inode_of(const char *path)
{
    struct stat status;

    return lstat(path, &status) == 0 ? status.st_ino : 0;
}

/* NAME is a group or a number. Returns 0, or -1 if there is no such group. */
static int find_socket_group(const char *name, gid_t *group)
{
    const struct group *entry = getgrnam(name);
    uint64_t number;

    if (entry != NULL) {
        *group = entry->gr_gid;
        return 0;
    }
    if (units_parse_number(name, &number) != 0 || number >= (gid_t)-1)
        return -1;
    *group = (gid_t)number;
    return 0;
}

/*
 * Sets mode and group of the socket's file. Through a descriptor, because somebody may replace the
 * path where control.socket is in a directory of others. A service manager may forbid chown(2)
 * altogether, so it is not called without need. Returns 0, or -1 with errno.
 */
static int set_mode_and_group(const struct control_socket *control, mode_t mode, gid_t group)
{
    int fd = open(control->path, O_PATH | O_NOFOLLOW | O_CLOEXEC), result = -1, error;
    struct stat status;
    char path[32];

    if (fd < 0)
        return -1;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (fstat(fd, &status) == 0 &&
        (status.st_ino != control->file_inode || !S_ISSOCK(status.st_mode)))
        errno = ESTALE;
    else if (status.st_gid == group || fchownat(fd, "", (uid_t)-1, group, AT_EMPTY_PATH) == 0)
        result = (status.st_mode & ALLPERMS) == mode ? 0 : chmod(path, mode);
    error = errno;
    close(fd);
    errno = error;
    return result;
}

int control_socket_set_access(const struct control_socket *control, const struct config *config,
                              char *why, size_t size)
{
    mode_t mode = (mode_t)config->control_mode;
    gid_t group = getegid();

    if (config->control_group[0] != '\0') {
        mode |= 0060;
        if (find_socket_group(config->control_group, &group) != 0) {
            snprintf(why, size, "control.group: unknown group '%s'", config->control_group);
            return -1;
        }
    }
    if (set_mode_and_group(control, mode, group) == 0)
        return 0;
    snprintf(why, size, "cannot set group and mode of the control socket %s: %s", control->path,
             strerror(errno));
    return -1;
}

static int make_control_events(struct control_socket *control)
{
    struct event_base *base = control->base;

    control->poll = event_new(base, -1, 0, on_poll, control);
    control->accept_again = event_new(base, -1, 0, on_accept_again, control);
    control->readable = event_new(base, control->fd, EV_READ | EV_PERSIST, on_connect, control);
    if (control->poll == NULL || control->accept_again == NULL || control->readable == NULL)
        return -1;
    return event_add(control->readable, NULL);
}

/*
 * The socket's path, with the suffix ".new" if it must not replace the present one. Returns 0, or
 * -1 with errno.
 */
static int make_path(char path[INSTANCE_PATH_MAX], const struct config *config, bool beside)
{
    int length =
        snprintf(path, INSTANCE_PATH_MAX, "%s%s", config->control_socket, beside ? ".new" : "");

    if (length < INSTANCE_PATH_MAX)
        return 0;
    errno = ENAMETOOLONG;
    return -1;
}

void control_socket_remove_new(const struct config *config)
{
    char path[INSTANCE_PATH_MAX];

    if (make_path(path, config, true) == 0)
        directory_remove(path);
}

int control_socket_promote(struct control_socket *control, const struct config *config)
{
    if (directory_rename(control->path, config->control_socket) != 0)
        return -1;
    snprintf(control->path, sizeof(control->path), "%s", config->control_socket);
    return 0;
}

void control_socket_close(struct control_socket *control, bool remove)
{
    if (control == NULL)
        return;
    while (!LIST_EMPTY(&control->clients))
        client_close(LIST_FIRST(&control->clients));
    loop_free_event(control->readable);
    loop_free_event(control->poll);
    loop_free_event(control->accept_again);
    if (control->fd >= 0)
        close(control->fd);
    if (remove && control->file_inode != 0 && inode_of(control->path) == control->file_inode)
        directory_remove(control->path);
    free(control);
}

struct control_socket *control_socket_open(const struct config *config, bool beside,
                                           struct event_base *base, control_run *run, void *owner,
                                           char *why, size_t size)
{
    struct control_socket *control = calloc(1, sizeof(*control));

    if (control == NULL) {
        snprintf(why, size, "out of memory");
        return NULL;
    }
    json_set_alloc_funcs(checked_malloc, free);
    control->base = base;
    control->run = run;
    control->owner = owner;
    LIST_INIT(&control->clients);
    if (beside)
        control_socket_remove_new(config);
    control->fd = make_path(control->path, config, beside) == 0 ? bind_socket(control) : -1;
    if (control->fd < 0 || make_control_events(control) != 0) {
        snprintf(why, size, "cannot open the control socket %s: %s", control->path,
                 strerror(errno));
        control_socket_close(control, true);
        return NULL;
    }
    if (control_socket_set_access(control, config, why, size) != 0) {
        control_socket_close(control, true);
        return NULL;
    }
    return control;
}
