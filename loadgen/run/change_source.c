#include "loadgen/run/change_source.h"

#include "loadgen/run/terminal_keys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES = 256, WHY_TEXT = 256 };

struct change_source {
    change_taker *take;
    void *context;
    struct event *lines, *keys;
    char line[LINE_BYTES]; /* so far */
    size_t length;
    int file; /* where lines come from that cannot be waited for */
};

static void take_line(struct change_source *source, const char *line)
{
    struct change change;
    char why[WHY_TEXT];

    if (line[strspn(line, " \t\r")] == '\0')
        return;
    if (control_read_line(line, &change, why, sizeof(why)) == 0)
        source->take(source->context, &change, NULL);
    else
        source->take(source->context, NULL, why);
}

/* Takes the whole lines out of what came. One that is too long is cut, and then not understood. */
static void take_lines(struct change_source *source)
{
    char *end;

    source->line[source->length] = '\0';
    while ((end = strchr(source->line, '\n')) != NULL) {
        *end = '\0';
        take_line(source, source->line);
        source->length -= (size_t)(end + 1 - source->line);
        memmove(source->line, end + 1, source->length + 1);
    }
    if (source->length == sizeof(source->line) - 1) {
        take_line(source, source->line);
        source->length = 0;
    }
}

static void on_lines(evutil_socket_t fd, short events, void *context)
{
    struct change_source *source = context;
    ssize_t n = read(fd, source->line + source->length, sizeof(source->line) - 1 - source->length);

    (void)events;
    if (n > 0) {
        source->length += (size_t)n;
        take_lines(source);
    } else if (n == 0 || errno != EAGAIN) {
        event_del(source->lines);
    }
}

/* A file, or nothing, cannot be waited for: all that it says holds from the begin. */
static void on_file(evutil_socket_t fd, short events, void *context)
{
    struct change_source *source = context;
    ssize_t n;

    (void)fd;
    (void)events;
    while ((n = read(source->file, source->line + source->length,
                     sizeof(source->line) - 1 - source->length)) > 0) {
        source->length += (size_t)n;
        take_lines(source);
    }
}

static bool read_at_once(struct change_source *source, struct event_base *base, int fd)
{
    const struct timeval now = {0, 0};

    source->file = fd;
    return event_base_once(base, -1, EV_TIMEOUT, on_file, source, &now) == 0;
}

static void on_key(evutil_socket_t fd, short events, void *context)
{
    struct change_source *source = context;
    struct change change;
    char key;

    (void)events;
    if (read(fd, &key, 1) != 1)
        event_del(source->keys);
    else if (control_read_key(key, &change))
        source->take(source->context, &change, NULL);
}

static struct event *watch(struct change_source *source, struct event_base *base, int fd,
                           event_callback_fn function)
{
    struct event *event = event_new(base, fd, EV_READ | EV_PERSIST, function, source);

    if (event != NULL && event_add(event, NULL) != 0) {
        event_free(event);
        event = NULL;
    }
    return event;
}

struct change_source *change_source_create(struct event_base *base, int fd, bool keys,
                                           change_taker *take, void *context)
{
    struct change_source *source = calloc(1, sizeof(*source));

    if (source == NULL)
        return NULL;
    source->take = take;
    source->context = context;
    if (fd >= 0) {
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
        source->lines = watch(source, base, fd, on_lines);
        if (source->lines == NULL && !read_at_once(source, base, fd)) {
            free(source);
            return NULL;
        }
    }
    if (keys && terminal_keys_begin())
        source->keys = watch(source, base, STDIN_FILENO, on_key);
    return source;
}

bool change_source_has_keys(const struct change_source *source)
{
    return source->keys != NULL;
}

void change_source_destroy(struct change_source *source)
{
    if (source == NULL)
        return;
    if (source->lines != NULL)
        event_free(source->lines);
    if (source->keys != NULL)
        event_free(source->keys);
    terminal_keys_end();
    free(source);
}
