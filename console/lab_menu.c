#include "console/lab_menu.h"

#include "console/keys.h"
#include "console/screen.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { HEAD_LINES = 2, NAME_WIDTH = 14 };

struct menu {
    struct screen screen;
    int selected;
    bool ended, chosen, cut_off;
};

static const char foot[] =
    "Up and Down move, Enter begins, q leaves. Each has a server of its own.";

static void draw_one(const struct menu *menu, int number)
{
    const struct canvas *all = &menu->screen.all;
    const struct lab_scenario *scenario = lab_scenario_table[number];
    bool about = all->height >= HEAD_LINES + 3 * LAB_SCENARIO_COUNT;
    int y = HEAD_LINES + number * (about ? 3 : 1);
    enum tone tone = number == menu->selected ? TONE_SELECTED : TONE_NORMAL;

    canvas_repeat(all, y, 0, all->width, tone, L' ');
    canvas_print(all, y, 0, tone, "%s %-*s %s", number == menu->selected ? ">" : " ", NAME_WIDTH,
                 scenario->name, scenario->title);
    if (about)
        canvas_text(all, y + 1, 2 + NAME_WIDTH + 1, TONE_DIM, scenario->about);
}

static void draw(const struct menu *menu)
{
    const struct canvas *all = &menu->screen.all;

    screen_begin();
    canvas_text(all, 0, 0, TONE_TITLE, "Guided scenarios. Which one?");
    for (int i = 0; i < LAB_SCENARIO_COUNT; i++)
        draw_one(menu, i);
    canvas_text(all, all->height - 1, 0, TONE_DIM, foot);
    screen_show();
}

static void act(struct menu *menu, enum request request)
{
    switch (request) {
    case REQUEST_UP:
        menu->selected -= menu->selected > 0;
        break;
    case REQUEST_DOWN:
        menu->selected += menu->selected + 1 < LAB_SCENARIO_COUNT;
        break;
    case REQUEST_OPEN:
        menu->chosen = menu->ended = true;
        break;
    case REQUEST_QUIT:
    case REQUEST_CLOSE:
        menu->ended = true;
        break;
    default:
        break;
    }
}

static void handle_signals(struct menu *menu, int signals)
{
    struct signalfd_siginfo info;

    while (read(signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
        if (info.ssi_signo == SIGWINCH)
            screen_resize(&menu->screen);
        else
            menu->ended = menu->cut_off = true;
}

static void handle_keys(struct menu *menu, short events)
{
    int code, keys = 0;

    for (; !menu->ended && (code = screen_key()) != -1; keys++)
        act(menu, key_request(code));
    if (keys == 0 && (events & (POLLHUP | POLLERR | POLLNVAL)) != 0)
        menu->ended = menu->cut_off = true;
}

static void loop(struct menu *menu, int signals)
{
    while (!menu->ended) {
        struct pollfd waits[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                                 {.fd = signals, .events = POLLIN}};

        draw(menu);
        if (poll(waits, 2, -1) < 0)
            continue;
        if (waits[1].revents != 0)
            handle_signals(menu, signals);
        if (waits[0].revents != 0)
            handle_keys(menu, waits[0].revents);
    }
}

const struct lab_scenario *lab_menu_run(const struct options *options, bool *cut_off, char *why,
                                        size_t size)
{
    static int selected; /* the same as last time */
    struct menu menu = {.selected = selected};
    int signals = screen_signals();

    why[0] = '\0';
    if (signals < 0 ||
        screen_start(&menu.screen, options->theme, options->ascii, false, why, size) != 0)
        return NULL;
    loop(&menu, signals);
    screen_stop();
    close(signals);
    *cut_off = menu.cut_off;
    selected = menu.selected;
    return menu.chosen ? lab_scenario_table[menu.selected] : NULL;
}
