#include "console/app/lab_menu.h"

#include "console/ui/keys.h"
#include "console/ui/screen.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { HEAD_LINES = 2, NAME_WIDTH = 14, ABOUT_MOST = 100 }; /* columns, to be read with ease */

struct menu {
    struct screen screen;
    int selected;
    bool ended, chosen, cut_off;
};

static void draw_title(const struct canvas *all, int number, bool selected)
{
    const struct lab_scenario *scenario = lab_scenario_table[number];
    enum tone tone = selected ? TONE_SELECTED : TONE_NORMAL;

    canvas_repeat(all, HEAD_LINES + number, 0, all->width, tone, L' ');
    canvas_print(all, HEAD_LINES + number, 0, tone, "%s %-*s %s", selected ? ">" : " ", NAME_WIDTH,
                 scenario->name, scenario->title);
}

/* What the selected one is about, whole, below the list. */
static void draw_about(const struct canvas *all, const char *text)
{
    struct canvas place = canvas_part(all, HEAD_LINES + LAB_SCENARIO_COUNT + 1, 2,
                                      all->height - HEAD_LINES - LAB_SCENARIO_COUNT - 3,
                                      all->width - 4 < ABOUT_MOST ? all->width - 4 : ABOUT_MOST);

    canvas_wrapped(&place, 0, TONE_NOTE, text);
}

static void draw(const struct menu *menu)
{
    const struct canvas *all = &menu->screen.all;
    int x;

    screen_begin();
    canvas_text(all, 0, 0, TONE_TITLE, "Guided scenarios. Which one?");
    for (int i = 0; i < LAB_SCENARIO_COUNT; i++)
        draw_title(all, i, i == menu->selected);
    draw_about(all, lab_scenario_table[menu->selected]->about);
    x = canvas_text(all, all->height - 1, 0, TONE_DIM, "Up and Down move, Enter begins, q leaves");
    canvas_item(all, all->height - 1, x, TONE_DIM, ". Each has a server of its own.");
    screen_show();
}

static void act(struct menu *menu, enum action action)
{
    switch (action) {
    case ACTION_UP:
        menu->selected -= menu->selected > 0;
        break;
    case ACTION_DOWN:
        menu->selected += menu->selected + 1 < LAB_SCENARIO_COUNT;
        break;
    case ACTION_OPEN:
        menu->chosen = menu->ended = true;
        break;
    case ACTION_QUIT:
    case ACTION_CLOSE:
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
        act(menu, key_action(code));
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
