#include "console/app/chooser.h"

#include "common/clock.h"
#include "common/units.h"
#include "console/data/instances.h"
#include "console/ui/keys.h"
#include "console/ui/screen.h"
#include "console/ui/scroll.h"

#include <curses.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { HEAD_LINES = 2, LOOK_EVERY_MS = 1000, NARROW = 60, WIDE = 72 };

struct chooser {
    struct screen screen;
    struct instance list[INSTANCES_MAX];
    size_t count, selected, top;
    bool ended, chosen;
    bool again, cut_off; /* there is one to go back to; a signal ended it */
};

static void look(struct chooser *chooser)
{
    chooser->count = instances_find(chooser->list);
    if (chooser->selected >= chooser->count)
        chooser->selected = chooser->count > 0 ? chooser->count - 1 : 0;
}

static void draw_line(const struct canvas *canvas, int y, const struct instance *instance,
                      bool selected)
{
    enum tone tone = selected ? TONE_SELECTED : TONE_NORMAL;
    uint64_t now_ns = clock_wall_ns();
    char age[UNITS_TEXT];

    canvas_repeat(canvas, y, 0, canvas->width, tone, L' ');
    units_format_age(age, sizeof(age),
                     now_ns > instance->started_ns ? now_ns - instance->started_ns : 0);
    if (canvas->width < NARROW)
        canvas_print(canvas, y, 0, tone, "%s %-20s up %s", selected ? ">" : " ", instance->name,
                     age);
    else
        canvas_print(canvas, y, 0, tone, "%s %-20s pid %-8" PRId32 " up %-9s %s",
                     selected ? ">" : " ", instance->name, instance->pid, age, instance->listening);
}

static void draw(struct chooser *chooser)
{
    const struct canvas *all = &chooser->screen.all;
    size_t page = all->height > HEAD_LINES + 1 ? (size_t)(all->height - HEAD_LINES - 1) : 1;

    if (chooser->selected < chooser->top)
        chooser->top = chooser->selected;
    if (chooser->selected >= chooser->top + page)
        chooser->top = chooser->selected - page + 1;
    screen_begin();
    canvas_print(all, 0, 0, TONE_TITLE, "%zu server%s here. Which one?", chooser->count,
                 chooser->count == 1 ? " runs" : "s run");
    for (size_t i = 0; i < page && chooser->top + i < chooser->count; i++)
        draw_line(all, HEAD_LINES + (int)i, &chooser->list[chooser->top + i],
                  chooser->top + i == chooser->selected);
    canvas_text(all, all->height - 1, 0, TONE_DIM,
                all->width < WIDE ? "Up, Down, Enter; q leaves"
                : chooser->again
                    ? "Up and Down move, Enter takes, q goes back"
                    : "Up and Down move, Enter takes, q leaves; wsconsole -n NAME asks nothing");
    screen_show();
}

static void act(struct chooser *chooser, enum action action)
{
    switch (action) {
    case ACTION_UP:
        chooser->selected -= chooser->selected > 0;
        break;
    case ACTION_DOWN:
        chooser->selected += chooser->selected + 1 < chooser->count;
        break;
    case ACTION_OPEN:
        chooser->chosen = chooser->ended = chooser->count > 0;
        break;
    case ACTION_QUIT:
    case ACTION_CLOSE:
        chooser->ended = true;
        break;
    default:
        break;
    }
}

static void click(struct chooser *chooser, int y)
{
    size_t place = chooser->top + (size_t)(y - HEAD_LINES);

    if (y < HEAD_LINES || y >= chooser->screen.all.height - 1 || place >= chooser->count)
        return;
    if (place == chooser->selected)
        act(chooser, ACTION_OPEN);
    chooser->selected = place;
}

/* A click selects, a second one takes. */
static void handle_pointer(struct chooser *chooser)
{
    struct pointer_event events[SCREEN_POINTER_MOST];
    size_t count = screen_pointer(events);

    for (size_t i = 0; i < count && !chooser->ended; i++)
        if (events[i].what == POINTER_CLICK)
            click(chooser, events[i].y);
        else
            act(chooser, events[i].what == POINTER_WHEEL_UP ? ACTION_UP : ACTION_DOWN);
}

static void handle_signals(struct chooser *chooser, int signals)
{
    struct signalfd_siginfo info;

    while (read(signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGWINCH)
            screen_resize(&chooser->screen);
        else
            chooser->ended = chooser->cut_off = true;
    }
}

static void handle_keys(struct chooser *chooser, short events)
{
    int code, keys = 0;

    for (; !chooser->ended && (code = screen_key()) != -1; keys++)
        if (code == KEY_MOUSE)
            handle_pointer(chooser);
        else
            act(chooser, key_action(code));
    if (keys == 0 && (events & (POLLHUP | POLLERR | POLLNVAL)) != 0)
        chooser->ended = chooser->cut_off = true;
}

static void loop(struct chooser *chooser, int signals)
{
    while (!chooser->ended) {
        struct pollfd waits[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                                 {.fd = signals, .events = POLLIN}};

        draw(chooser);
        if (poll(waits, 2, LOOK_EVERY_MS) == 0)
            look(chooser);
        if (waits[1].revents != 0)
            handle_signals(chooser, signals);
        if (waits[0].revents != 0)
            handle_keys(chooser, waits[0].revents);
    }
}

/* Shows the list until one is chosen or the user leaves. */
static enum chooser_result ask(struct chooser *chooser, struct options *options, char *why,
                               size_t size)
{
    int signals = screen_signals();

    if (signals < 0 || screen_start(&chooser->screen, options->theme, options->ascii,
                                    !options->no_mouse, why, size) != 0)
        return CHOOSER_FAILED;
    loop(chooser, signals);
    screen_stop();
    close(signals);
    if (chooser->chosen)
        snprintf(options->name, sizeof(options->name), "%s", chooser->list[chooser->selected].name);
    return chooser->chosen || (chooser->again && !chooser->cut_off) ? CHOOSER_CHOSEN : CHOOSER_LEFT;
}

enum chooser_result chooser_run(struct options *options, char *why, size_t size)
{
    static struct chooser chooser; /* not for the stack */

    if (options->name_given || options->socket != NULL || options->replay != NULL)
        return CHOOSER_CHOSEN;
    look(&chooser);
    if (chooser.count == 1)
        snprintf(options->name, sizeof(options->name), "%s", chooser.list[0].name);
    return chooser.count <= 1 ? CHOOSER_CHOSEN : ask(&chooser, options, why, size);
}

enum chooser_result chooser_run_again(struct options *options, char *why, size_t size)
{
    static struct chooser chooser;

    memset(&chooser, 0, sizeof(chooser));
    chooser.again = true;
    look(&chooser);
    for (size_t i = 0; i < chooser.count; i++)
        if (strcmp(chooser.list[i].name, options->name) == 0)
            chooser.selected = i;
    return ask(&chooser, options, why, size);
}
