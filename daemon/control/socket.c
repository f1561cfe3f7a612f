#include "daemon/control/socket.h"

#include "common/clock.h"
#include "common/units.h"
#include "daemon/base/events.h"
#include "daemon/base/loop.h"
#include "daemon/control/control_line.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    OUTPUT_HIGH = 256 * 1024, /* a client that has so much to read gets no further answer for now */
    IDLE_S = 3600,
    SILENT_S = 5, /* for so long no client has to go for another */
    STUCK_S = 30, /* how long a client may read nothing of its answers */
    LOOK_AGAIN_MS = 20,
    BACKLOG = 1024,
    ACCEPTS_A_TURN = 32,
};

struct control_peer {
    LIST_ENTRY(control_peer) link;
    struct control *control;
    struct bufferevent *stream;
    unsigned uid;
    int pid;
    struct command_result waiting; /* answer NULL and in_force set: it waits */
    bool ending;                   /* close when the output is out */
    bool lost;                     /* an answer was: close now */
    bool said_all;                 /* the client has ended its side: close when all is answered */
    uint64_t active_ns;            /* when it last said something, monotonic clock */
};

struct control {
    struct master *master;
    char path[INSTANCE_PATH_MAX];
    int fd;
    ino_t inode; /* of the socket's name: a successor may have taken it */
    struct event *readable;
    struct event *accept_again; /* accepting failed: in a second */
    struct event *look_again;   /* some changes show only in shared memory: while one is awaited */
    LIST_HEAD(, control_peer) peers;
    unsigned peer_count;
};

static void peer_close(struct control_peer *peer)
{
    LIST_REMOVE(peer, link);
    peer->control->peer_count--;
    bufferevent_free(peer->stream);
    free(peer);
}

/* What Jansson has no memory for it leaves out, of lists, objects and their text: then nothing is said. */
static bool memory_failed; /* since the last answer */

static void *noting_malloc(size_t size)
{
    void *memory = malloc(size);

    memory_failed |= memory == NULL;
    return memory;
}

/* The answer as a line, without its newline; NULL: there was no memory for all of it. Takes ANSWER. */
static char *text_of(json_t *answer)
{
    char *text = answer != NULL ? json_dumps(answer, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;

    json_decref(answer);
    if (memory_failed) {
        free(text);
        text = NULL;
    }
    memory_failed = false;
    return text;
}

static void send_answer(struct control_peer *peer, json_t *answer)
{
    char *text = text_of(answer);

    if (text == NULL)
        text = strdup("{\"ok\":false,\"error\":\"out of memory\"}");
    if (text == NULL || evbuffer_add_printf(bufferevent_get_output(peer->stream), "%s\n", text) < 0)
        peer->lost = true; /* better no connection than one on which no answer comes */
    free(text);
}

static bool is_waiting(const struct control_peer *peer)
{
    return peer->waiting.in_force != NULL;
}

static void wait_for_change(struct control_peer *peer, struct command_result result)
{
    static const struct timeval soon = {.tv_usec = LOOK_AGAIN_MS * 1000};

    peer->waiting = result;
    event_add(peer->control->look_again, &soon);
}

/* One line. */
static void run_line(struct control_peer *peer, char *line)
{
    struct command_result result;

    if (line[0] == '\0')
        return;
    result = command_run(peer->control->master, line, peer->uid, peer->pid);
    if (result.answer != NULL || result.in_force == NULL) /* neither: out of memory */
        send_answer(peer, result.answer);
    else
        wait_for_change(peer, result);
}

static bool takes_lines(const struct control_peer *peer)
{
    return !is_waiting(peer) && !peer->ending && !peer->lost &&
           evbuffer_get_length(bufferevent_get_output(peer->stream)) < OUTPUT_HIGH;
}

/* Lines one after the other, until one has to wait, or its answers do: on_output() goes on. */
static void run_lines(struct control_peer *peer)
{
    struct evbuffer *input = bufferevent_get_input(peer->stream);
    enum control_line framed = CONTROL_LINE_WHOLE;
    char *line;

    while (framed == CONTROL_LINE_WHOLE && takes_lines(peer)) {
        framed = control_line_take(input, &line);
        if (framed == CONTROL_LINE_WHOLE)
            run_line(peer, line);
        free(line);
    }
    if (framed == CONTROL_LINE_NO_MEMORY)
        peer->lost = true;
    if (framed != CONTROL_LINE_TOO_LONG)
        return;
    send_answer(peer, command_refusal("the line is longer than %d bytes", CONTROL_LINE_MAX - 1));
    peer->ending = true;
}

/* Who sends more than is taken has to wait. Libevent's high watermark would do the same, but crashes
 * when there is no memory for it. */
static void mind_input(struct control_peer *peer)
{
    size_t length = evbuffer_get_length(bufferevent_get_input(peer->stream));

    if (length > CONTROL_LINE_MAX || peer->ending || peer->said_all)
        bufferevent_disable(peer->stream, EV_READ);
    else if (bufferevent_enable(peer->stream, EV_READ) != 0)
        peer->lost = true; /* out of memory: it would not be heard */
}

/* False: the peer is gone. */
static bool go_on(struct control_peer *peer)
{
    peer->active_ns = clock_monotonic_ns();
    run_lines(peer);
    mind_input(peer);
    if (!peer->lost)
        return true;
    peer_close(peer);
    return false;
}

static void on_input(struct bufferevent *stream, void *argument)
{
    (void)stream;
    go_on(argument);
}

static void on_output(struct bufferevent *stream, void *argument)
{
    struct control_peer *peer = argument;
    bool done;

    if (!peer->ending && !go_on(peer))
        return;
    done = peer->ending || (peer->said_all && !is_waiting(peer));
    if (done && evbuffer_get_length(bufferevent_get_output(stream)) == 0)
        peer_close(peer);
}

/* False when the client has closed its socket, not only its side of the conversation. */
static bool still_listens(struct bufferevent *stream)
{
    struct pollfd peer = {.fd = bufferevent_getfd(stream)};

    return poll(&peer, 1, 0) == 0;
}

/* A client may end its side behind its last line ("echo ping | nc -N -U ...") and still listen. */
static void on_end(struct bufferevent *stream, short what, void *argument)
{
    struct control_peer *peer = argument;
    bool answers_left = evbuffer_get_length(bufferevent_get_output(stream)) > 0;

    if ((what & BEV_EVENT_EOF) != 0 && (is_waiting(peer) || answers_left) && still_listens(stream))
        peer->said_all = true;
    else
        peer_close(peer);
}

static void answer_waiting(struct control_peer *peer)
{
    json_t *answer = peer->waiting.report(peer->control->master, peer->waiting.token);

    peer->waiting = (struct command_result){0};
    send_answer(peer, answer);
    go_on(peer);
}

void control_changed(struct control *control)
{
    struct control_peer *peer = LIST_FIRST(&control->peers);

    while (peer != NULL) {
        struct control_peer *next = LIST_NEXT(peer, link);

        if (is_waiting(peer) && peer->waiting.in_force(control->master, peer->waiting.token))
            answer_waiting(peer);
        else if (is_waiting(peer))
            wait_for_change(peer, peer->waiting);
        peer = next;
    }
}

static void on_look_again(evutil_socket_t fd, short what, void *argument)
{
    (void)fd, (void)what;
    control_changed(argument);
}

/* Clients */

/*
 * Room for one more client: there is some, or whoever has said nothing for longest goes, so that silent
 * clients keep nobody out.
 */
static bool make_room(struct control *control)
{
    uint64_t latest = clock_monotonic_ns() - SILENT_S * NS_PER_S;
    struct control_peer *peer, *oldest = NULL;

    if (control->peer_count < CONTROL_CLIENTS_MAX)
        return true;
    LIST_FOREACH(peer, &control->peers, link)
    {
        if (!is_waiting(peer) && peer->active_ns < latest) {
            latest = peer->active_ns;
            oldest = peer;
        }
    }
    if (oldest != NULL)
        peer_close(oldest);
    return oldest != NULL;
}

static void peer_open(struct control *control, int fd)
{
    static const struct timeval idle = {.tv_sec = IDLE_S}, stuck = {.tv_sec = STUCK_S};
    struct control_peer *peer = calloc(1, sizeof(*peer));
    struct ucred credentials = {.uid = (uid_t)-1};
    socklen_t length = sizeof(credentials);

    if (peer == NULL || (peer->stream = bufferevent_socket_new(control->master->base, fd,
                                                               BEV_OPT_CLOSE_ON_FREE)) == NULL) {
        free(peer);
        close(fd);
        return;
    }
    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length);
    peer->uid = credentials.uid;
    peer->pid = credentials.pid;
    peer->control = control;
    peer->active_ns = clock_monotonic_ns();
    LIST_INSERT_HEAD(&control->peers, peer, link);
    control->peer_count++;
    bufferevent_setcb(peer->stream, on_input, on_output, on_end, peer);
    bufferevent_set_timeouts(peer->stream, &idle, &stuck);
    if (bufferevent_enable(peer->stream, EV_READ | EV_WRITE) != 0)
        peer_close(peer);
}

static void pause_accepting(struct control *control, const struct timeval *time)
{
    event_del(control->readable);
    event_add(control->accept_again, time);
}

static void on_connect(evutil_socket_t listener, short what, void *argument)
{
    static const struct timeval second = {.tv_sec = 1};
    static const struct timeval soon = {.tv_usec = LOOK_AGAIN_MS * 1000};
    struct control *control = argument;

    (void)what;
    for (int i = 0; i < ACCEPTS_A_TURN; i++) {
        int fd;

        if (!make_room(control)) { /* the others wait their turn in the socket's queue */
            pause_accepting(control, &soon);
            return;
        }
        fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            peer_open(control, fd);
            continue;
        }
        if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
            pause_accepting(control, &second);
        return;
    }
}

static void on_accept_again(evutil_socket_t fd, short what, void *argument)
{
    struct control *control = argument;

    (void)fd, (void)what;
    event_add(control->readable, NULL);
}

/* Opening and closing */

/* Nobody else can connect before control_set_access() has said who may. */
static int bind_socket(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), error;
    mode_t before;

    if (fd < 0)
        return -1;
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    before = umask(0177);
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 && listen(fd, BACKLOG) == 0) {
        umask(before);
        return fd;
    }
    error = errno;
    umask(before);
    close(fd);
    errno = error;
    return -1;
}

/* 0 when there is nothing of that name. */
static ino_t inode_of(const char *path)
{
    struct stat status;

    return lstat(path, &status) == 0 ? status.st_ino : 0;
}

/* "adm" or "4"; -1 with errno when there is no such group. */
static int find_group(const char *name, gid_t *group)
{
    const struct group *entry = getgrnam(name);
    uint64_t number;

    if (entry != NULL) {
        *group = entry->gr_gid;
        return 0;
    }
    errno = EINVAL;
    if (units_parse_number(name, &number) != 0 || number >= (gid_t)-1)
        return -1;
    *group = (gid_t)number;
    return 0;
}

int control_set_access(const struct control *control, const struct config *config, char *why,
                       size_t size)
{
    mode_t mode = (mode_t)config->control_mode;
    gid_t group = (gid_t)-1;

    if (config->control_group[0] != '\0') {
        mode |= 0060;
        if (find_group(config->control_group, &group) != 0) {
            snprintf(why, size, "[control] group = %s: there is no such group",
                     config->control_group);
            return -1;
        }
    }
    if (chown(control->path, (uid_t)-1, group) == 0 && chmod(control->path, mode) == 0)
        return 0;
    snprintf(why, size, "cannot set who may use the control socket %s: %s", control->path,
             strerror(errno));
    return -1;
}

static int make_events(struct control *control)
{
    struct event_base *base = control->master->base;

    control->look_again = event_new(base, -1, 0, on_look_again, control);
    control->accept_again = event_new(base, -1, 0, on_accept_again, control);
    control->readable = event_new(base, control->fd, EV_READ | EV_PERSIST, on_connect, control);
    if (control->look_again == NULL || control->accept_again == NULL || control->readable == NULL)
        return -1;
    return event_add(control->readable, NULL);
}

static const char suffix[] = ".new"; /* of a socket beside another */

static int name_socket(char path[INSTANCE_PATH_MAX], const struct config *config, bool beside)
{
    int length =
        snprintf(path, INSTANCE_PATH_MAX, "%s%s", config->control_socket, beside ? suffix : "");

    if (length < INSTANCE_PATH_MAX)
        return 0;
    errno = ENAMETOOLONG;
    return -1;
}

void control_remove_new(const struct config *config)
{
    char path[INSTANCE_PATH_MAX];

    if (name_socket(path, config, true) == 0)
        unlink(path);
}

int control_promote(struct control *control)
{
    const char *name = control->master->config->control_socket;

    if (rename(control->path, name) != 0)
        return -1;
    snprintf(control->path, sizeof(control->path), "%s", name);
    return 0;
}

struct control *control_open(struct master *master, bool beside, char *why, size_t size)
{
    const struct config *config = master->config;
    struct control *control = calloc(1, sizeof(*control));

    if (control == NULL) {
        snprintf(why, size, "out of memory");
        return NULL;
    }
    json_set_alloc_funcs(noting_malloc, free);
    control->master = master;
    LIST_INIT(&control->peers);
    if (beside)
        control_remove_new(config);
    control->fd = name_socket(control->path, config, beside) == 0 ? bind_socket(control->path) : -1;
    if (control->fd < 0 || make_events(control) != 0) {
        snprintf(why, size, "cannot open the control socket %s: %s", control->path,
                 strerror(errno));
        control_close_all(control, false);
        return NULL;
    }
    control->inode = inode_of(control->path);
    if (control_set_access(control, config, why, size) != 0) {
        control_close_all(control, true);
        return NULL;
    }
    return control;
}

void control_close_all(struct control *control, bool remove)
{
    if (control == NULL)
        return;
    while (!LIST_EMPTY(&control->peers))
        peer_close(LIST_FIRST(&control->peers));
    loop_free_event(control->readable);
    loop_free_event(control->look_again);
    loop_free_event(control->accept_again);
    if (control->fd >= 0)
        close(control->fd);
    if (remove && inode_of(control->path) == control->inode)
        unlink(control->path);
    free(control);
}
