#include "loadgen/run/internal.h"

#include "common/macros.h"
#include "common/units.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

enum { WORD_MAX = 32, LINE_BYTES = 256, WHY_TEXT = 256 };

static const struct {
    const char *word;
    enum change_kind kind;
} change_words[] = {
    {"rate", CHANGE_RATE},
    {"connections", CHANGE_CONNECTIONS},
    {"threads", CHANGE_THREADS},
    {"stop", CHANGE_STOP},
};

/* "2000", "2.5k", "+50", "-10%". */
static bool read_change_value(const char *text, struct change *change)
{
    bool relative = *text == '+' || *text == '-';
    const char *number = text + (relative ? 1 : 0);
    size_t digits = strspn(number, "0123456789.");
    uint64_t count;
    char *end;

    change->way = relative ? CHANGE_BY : CHANGE_TO;
    change->value = strtod(number, &end);
    if (digits == 0 || end != number + digits)
        return false;
    if (strcmp(end, "%") == 0 && relative)
        change->way = CHANGE_BY_PERCENT;
    else if (units_parse_count(number, &count) == 0)
        change->value = (double)count;
    else if (*end != '\0')
        return false;
    if (*text == '-')
        change->value = -change->value;
    return true;
}

int change_parse_line(const char *line, struct change *change, char *why, size_t size)
{
    char word[WORD_MAX], value[WORD_MAX], rest[2];
    int count = sscanf(line, "%31s %31s %1s", word, value, rest);

    *change = (struct change){0};
    for (size_t i = 0; count >= 1 && i < ARRAY_LENGTH(change_words); i++) {
        if (strcmp(change_words[i].word, word) != 0)
            continue;
        change->kind = change_words[i].kind;
        if (count == 1 && change->kind == CHANGE_STOP)
            return 0;
        if (count == 2 && change->kind != CHANGE_STOP && read_change_value(value, change))
            return 0;
        snprintf(why, size, "invalid change '%s': %s", line,
                 change->kind == CHANGE_STOP ? "stop takes no value"
                                             : "needs one number (examples: 50, +10, -10%)");
        return -1;
    }
    snprintf(why, size, "unknown change '%s' (rate N, connections N, threads N, stop)", line);
    return -1;
}

/* Returns false if KEY has no meaning. */
static bool change_of_key(char key, struct change *change)
{
    static const struct {
        char key;
        struct change change;
    } keys[] = {
        {'+', {CHANGE_LOAD, CHANGE_BY_PERCENT, 10}},
        {'=', {CHANGE_LOAD, CHANGE_BY_PERCENT, 10}},
        {'-', {CHANGE_LOAD, CHANGE_BY_PERCENT, -10}},
        {'C', {CHANGE_CONNECTIONS, CHANGE_BY_PERCENT, 10}},
        {'c', {CHANGE_CONNECTIONS, CHANGE_BY_PERCENT, -10}},
        {'T', {CHANGE_THREADS, CHANGE_BY, 1}},
        {'t', {CHANGE_THREADS, CHANGE_BY, -1}},
        {'q', {CHANGE_STOP, CHANGE_TO, 0}},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(keys); i++)
        if (keys[i].key == key) {
            *change = keys[i].change;
            return true;
        }
    return false;
}

double change_apply(const struct change *change, double value)
{
    double changed = change->way == CHANGE_TO   ? change->value
                     : change->way == CHANGE_BY ? value + change->value
                                                : value + value * change->value / 100;

    if (change->kind == CHANGE_RATE)
        return changed > 0 ? changed : value;
    if (change->way == CHANGE_BY_PERCENT) /* at least one step even after rounding */
        changed =
            changed > value ? fmax(floor(changed), value + 1) : fmin(ceil(changed), value - 1);
    changed = floor(changed);
    return changed >= 1 ? changed : 1;
}

/* ---- The terminal ---- */

static struct termios terminal_before;
static bool terminal_changed;

bool terminal_keys_begin(void)
{
    static bool registered;
    struct termios keys;

    /* A background process is stopped (SIGTTOU) if it changes the terminal. */
    if (!isatty(STDIN_FILENO) || tcgetpgrp(STDIN_FILENO) != getpgrp() ||
        tcgetattr(STDIN_FILENO, &terminal_before) != 0)
        return false;
    keys = terminal_before;
    keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    keys.c_cc[VMIN] = 1;
    keys.c_cc[VTIME] = 0;
    if (!registered)
        atexit(terminal_keys_end);
    registered = true;
    terminal_changed = tcsetattr(STDIN_FILENO, TCSANOW, &keys) == 0;
    return terminal_changed;
}

void terminal_keys_end(void)
{
    if (terminal_changed)
        tcsetattr(STDIN_FILENO, TCSANOW, &terminal_before);
    terminal_changed = false;
}

/* ---- Lines and keys ---- */

struct control {
    control_change *on_change;
    void *context;
    struct event *lines, *keys;
    char line[LINE_BYTES]; /* the incomplete line */
    size_t length;
    int file;
};

static void take_change_line(struct control *control, const char *line)
{
    struct change change;
    char why[WHY_TEXT];

    if (line[strspn(line, " \t\r")] == '\0')
        return;
    if (change_parse_line(line, &change, why, sizeof(why)) == 0)
        control->on_change(control->context, &change, NULL);
    else
        control->on_change(control->context, NULL, why);
}

/* Handles the complete lines. A line that is too long is cut off, which makes it invalid. */
static void take_change_lines(struct control *control)
{
    char *end;

    control->line[control->length] = '\0';
    while ((end = strchr(control->line, '\n')) != NULL) {
        *end = '\0';
        take_change_line(control, control->line);
        control->length -= (size_t)(end + 1 - control->line);
        memmove(control->line, end + 1, control->length + 1);
    }
    if (control->length == sizeof(control->line) - 1) {
        take_change_line(control, control->line);
        control->length = 0;
    }
}

static void on_lines(evutil_socket_t fd, short events, void *context)
{
    struct control *control = context;
    ssize_t n =
        read(fd, control->line + control->length, sizeof(control->line) - 1 - control->length);

    (void)events;
    if (n > 0) {
        control->length += (size_t)n;
        take_change_lines(control);
    } else if (n == 0 || errno != EAGAIN) {
        event_del(control->lines);
    }
}

/* epoll does not accept regular files, so a file is read completely at the start. */
static void on_file(evutil_socket_t fd, short events, void *context)
{
    struct control *control = context;
    ssize_t n;

    (void)fd;
    (void)events;
    while ((n = read(control->file, control->line + control->length,
                     sizeof(control->line) - 1 - control->length)) > 0) {
        control->length += (size_t)n;
        take_change_lines(control);
    }
}

static void on_key(evutil_socket_t fd, short events, void *context)
{
    struct control *control = context;
    struct change change;
    char key;

    (void)events;
    if (read(fd, &key, 1) != 1)
        event_del(control->keys);
    else if (change_of_key(key, &change))
        control->on_change(control->context, &change, NULL);
}

static struct event *watch_input(struct control *control, struct event_base *base, int fd,
                                 event_callback_fn function)
{
    struct event *event = event_new(base, fd, EV_READ | EV_PERSIST, function, control);

    if (event != NULL && event_add(event, NULL) != 0) {
        event_free(event);
        event = NULL;
    }
    return event;
}

struct control *control_create(struct event_base *base, int fd, bool keys,
                               control_change *on_change, void *context)
{
    struct control *control = calloc(1, sizeof(*control));

    if (control == NULL)
        return NULL;
    control->on_change = on_change;
    control->context = context;
    if (fd >= 0) {
        const struct timeval now = {0, 0};

        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
        control->file = fd;
        control->lines = watch_input(control, base, fd, on_lines);
        if (control->lines == NULL &&
            event_base_once(base, -1, EV_TIMEOUT, on_file, control, &now) != 0) {
            free(control);
            return NULL;
        }
    }
    if (keys && terminal_keys_begin())
        control->keys = watch_input(control, base, STDIN_FILENO, on_key);
    return control;
}

bool control_has_keys(const struct control *control)
{
    return control->keys != NULL;
}

void control_destroy(struct control *control)
{
    if (control == NULL)
        return;
    if (control->lines != NULL)
        event_free(control->lines);
    if (control->keys != NULL)
        event_free(control->keys);
    terminal_keys_end();
    free(control);
}
