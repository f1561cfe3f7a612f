#include "console/app/program.h"

#include "common/clock.h"
#include "common/escape.h"
#include "common/private_server.h"
#include "console/app/session.h"
#include "console/data/instances.h"
#include "console/lab/scenario.h"
#include "console/ui/table.h"
#include "console/ui/text.h"

#include <curses.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* The loop of a menu */

enum menu_result {
    MENU_CHOSEN,
    MENU_LEFT,        /* the user chose nothing */
    MENU_INTERRUPTED, /* a signal, or the terminal is gone */
    MENU_FAILED,      /* WHY has the reason */
};

enum {
    HEAD_LINES = 2,
    REFRESH_MS = 1000,
    WIDE = 72,
    NAME_WIDTH = 14,
    ABOUT_MAX = 100, /* columns */
};

struct menu {
    struct screen screen;
    size_t count, selected, top; /* items; top: the first visible one */
    bool chosen, ended, interrupted;
    int refresh_ms;                    /* -1: never */
    void (*update)(struct menu *menu); /* NULL: the items do not change */
    void (*draw)(struct menu *menu);
    struct instance instance[INSTANCES_MAX];
    bool always;    /* --all: shown even if there is nothing to choose from */
    bool switching; /* opened from a session, to which leaving the menu returns */
};

static void act_in_menu(struct menu *menu, enum action action)
{
    switch (action) {
    case ACTION_UP:
        menu->selected -= menu->selected > 0;
        break;
    case ACTION_DOWN:
        menu->selected += menu->selected + 1 < menu->count;
        break;
    case ACTION_OPEN:
        menu->chosen = menu->ended = menu->count > 0;
        break;
    case ACTION_QUIT:
    case ACTION_CLOSE:
        menu->ended = true;
        break;
    default:
        break;
    }
}

/* Scrolls to the selected item. Returns the number of items that there is room for. */
static size_t scroll_menu(struct menu *menu)
{
    int height = menu->screen.all.height - HEAD_LINES - 1;
    size_t page = height > 0 ? (size_t)height : 1;

    if (menu->selected < menu->top)
        menu->top = menu->selected;
    if (menu->selected >= menu->top + page)
        menu->top = menu->selected - page + 1;
    return page;
}

/* In the last line, after column X. */
static void draw_position(const struct menu *menu, size_t page, int x)
{
    if (menu->count > page)
        canvas_item(&menu->screen.all, menu->screen.all.height - 1, x + 2, TONE_NOTE,
                    "%zu to %zu of %zu", menu->top + 1, menu->top + page, menu->count);
}

/* The first click on an item selects it, the second one chooses it. */
static void click_menu(struct menu *menu, int y)
{
    size_t item = menu->top + (size_t)(y - HEAD_LINES);

    if (y < HEAD_LINES || y >= menu->screen.all.height - 1 || item >= menu->count)
        return;
    if (item == menu->selected)
        act_in_menu(menu, ACTION_OPEN);
    menu->selected = item;
}

static void handle_menu_signals(struct menu *menu, int signals)
{
    struct signalfd_siginfo info;

    while (read(signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGWINCH || info.ssi_signo == SIGCONT)
            screen_resize(&menu->screen);
        else
            menu->ended = menu->interrupted = true;
    }
}

static void handle_menu_keys(struct menu *menu, short events)
{
    int code, keys = 0;

    for (; !menu->ended && (code = screen_key()) != -1; keys++) {
        struct pointer_event event = screen_pointer();

        if (code == KEY_MOUSE && event.what == POINTER_CLICK)
            click_menu(menu, event.y);
        else if (code == KEY_MOUSE)
            act_in_menu(menu, event.what == POINTER_WHEEL_UP ? ACTION_UP : ACTION_DOWN);
        else
            act_in_menu(menu, key_action(code));
    }
    if (keys == 0 && (events & (POLLHUP | POLLERR | POLLNVAL)) != 0)
        menu->ended = menu->interrupted = true;
}

static void loop_menu(struct menu *menu, int signals)
{
    while (!menu->ended) {
        struct pollfd waits[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                                 {.fd = signals, .events = POLLIN}};

        screen_begin();
        menu->draw(menu);
        screen_show();
        if (poll(waits, 2, menu->refresh_ms) == 0)
            menu->update(menu);
        if (waits[1].revents != 0)
            handle_menu_signals(menu, signals);
        if (waits[0].revents != 0)
            handle_menu_keys(menu, waits[0].revents);
    }
}

static enum menu_result run_menu(struct menu *menu, const struct options *options, bool mouse,
                                 char *why, size_t size)
{
    int signals = screen_signals();

    if (signals < 0) {
        snprintf(why, size, "cannot receive signals");
        return MENU_FAILED;
    }
    if (screen_start(&menu->screen, options->theme, options->ascii, mouse, why, size) != 0) {
        close(signals);
        return MENU_FAILED;
    }
    loop_menu(menu, signals);
    screen_stop();
    close(signals);
    return menu->chosen ? MENU_CHOSEN : menu->interrupted ? MENU_INTERRUPTED : MENU_LEFT;
}

/* Instances */

static void select_instance(struct menu *menu, const char *name)
{
    for (size_t i = 0; i < menu->count; i++)
        if (strcmp(menu->instance[i].name, name) == 0)
            menu->selected = i;
}

/* The selection stays at its instance while others start and stop. */
static void find_instances(struct menu *menu)
{
    char before[sizeof(menu->instance[0].name)];

    memcpy(before, menu->instance[menu->selected].name, sizeof(before));
    menu->refresh_ms = menu->count > 0 ? REFRESH_MS : INSTANCES_LOOK_MS;
    menu->count = instances_find(menu->instance);
    if (menu->selected >= menu->count)
        menu->selected = menu->count > 0 ? menu->count - 1 : 0;
    select_instance(menu, before);
}

enum fleet_column {
    NAME,
    STATE,
    REQUESTS,
    P99,
    ERRORS,
    CONNECTIONS,
    CPU,
    WORKERS,
    UP,
    PID,
    LISTENING,
    FLEET_COLUMNS
};

static const struct column fleet_columns[FLEET_COLUMNS] = {
    [NAME] = {.title = "  NAME", .width = 18, .min_width = 12, .importance = 11, .stretch = true},
    [STATE] = {.title = "STATE", .width = 8, .importance = 9},
    [REQUESTS] = {.title = "REQ/S", .width = 6, .importance = 10, .right = true},
    [P99] = {.title = "P99", .width = 7, .importance = 8, .right = true},
    [ERRORS] = {.title = "ERR/S", .width = 6, .importance = 7, .right = true},
    [CONNECTIONS] = {.title = "CONNS", .width = 6, .importance = 6, .right = true},
    [CPU] = {.title = "CPU", .width = 6, .importance = 5, .right = true},
    [WORKERS] = {.title = "WORKERS", .width = 7, .importance = 4},
    [UP] = {.title = "UP", .width = 9, .importance = 3, .right = true},
    [PID] = {.title = "PID", .width = 7, .importance = 1, .right = true},
    [LISTENING] = {.title = "LISTENING", .width = 16, .importance = 2, .stretch = true},
};

static void draw_instance(const struct canvas *canvas, int y, const int *widths,
                          const struct instance *instance, bool selected)
{
    const struct instance_load *load = &instance->load;
    bool well = strcmp(load->state, "serving") == 0;
    uint64_t now_ns = clock_wall_ns();
    struct cell cells[FLEET_COLUMNS] = {0};

    cell_print(&cells[NAME], TONE_NORMAL, "%s %s", selected ? ">" : " ", instance->name);
    cell_text(&cells[STATE], well ? TONE_GOOD : TONE_WARN, load->state);
    cell_rate(&cells[REQUESTS], TONE_VALUE, load->requests);
    cell_latency(&cells[P99], TONE_NORMAL, load->p99_ns);
    cell_rate(&cells[ERRORS], load->errors > 0 ? TONE_BAD : TONE_NORMAL, load->errors);
    cell_count(&cells[CONNECTIONS], TONE_NORMAL, load->connections);
    cell_percent(&cells[CPU], TONE_NORMAL, load->cores);
    if (load->workers_wanted == 0) /* of another program */
        cell_count(&cells[WORKERS], TONE_NORMAL, load->workers);
    else
        cell_print(&cells[WORKERS], load->workers < load->workers_wanted ? TONE_WARN : TONE_NORMAL,
                   "%" PRIu32 " of %" PRIu32, load->workers, load->workers_wanted);
    cell_age(&cells[UP], TONE_NORMAL,
             now_ns > instance->started_ns ? now_ns - instance->started_ns : 0);
    cell_exact(&cells[PID], TONE_DIM, (uint64_t)instance->pid);
    cell_text(&cells[LISTENING], TONE_NORMAL, instance->listening);
    if (selected) {
        canvas_repeat(canvas, y, 0, canvas->width, TONE_SELECTED, L' ');
        for (size_t i = 0; i < FLEET_COLUMNS; i++)
            cells[i].tone = TONE_SELECTED;
    }
    table_draw_row(canvas, y, fleet_columns, FLEET_COLUMNS, widths, cells);
}

/* The totals of all instances, after the title in the first line. */
static void draw_totals(const struct menu *menu, const struct canvas *all, int x)
{
    double requests = 0, errors = 0, connections = 0;
    char text[3][TEXT_SHORT];

    for (size_t i = 0; i < menu->count; i++) {
        const struct instance_load *load = &menu->instance[i].load;

        requests += load->requests > 0 ? load->requests : 0;
        errors += load->errors > 0 ? load->errors : 0;
        connections += load->connections;
    }
    canvas_item(all, 0, x + 2, TONE_NOTE, "all: %s requests/s, %s errors/s, %s connections",
                text_count(text[0], requests), text_count(text[1], errors),
                text_count(text[2], connections));
}

static const char *instances_hint(const struct menu *menu)
{
    if (menu->screen.all.width < WIDE)
        return menu->switching ? "Up, Down, Enter; q returns" : "Up, Down, Enter; q quits";
    if (menu->switching)
        return "Up and Down select, Enter opens, q returns";
    return menu->always ? "Up and Down select, Enter opens, q quits; I returns here"
                        : "Up and Down select, Enter opens, q quits; -n NAME skips this menu";
}

static void draw_instances(struct menu *menu)
{
    const struct canvas *all = &menu->screen.all;
    size_t page = scroll_menu(menu);
    int widths[FLEET_COLUMNS], x;

    x = canvas_print(all, 0, 0, TONE_TITLE, "%zu running server%s. Select one:", menu->count,
                     menu->count == 1 ? "" : "s");
    draw_totals(menu, all, x);
    table_fit(fleet_columns, FLEET_COLUMNS, all->width, widths);
    table_draw_row(all, 1, fleet_columns, FLEET_COLUMNS, widths, NULL);
    for (size_t i = 0; i < page && menu->top + i < menu->count; i++)
        draw_instance(all, HEAD_LINES + (int)i, widths, &menu->instance[menu->top + i],
                      menu->top + i == menu->selected);
    if (menu->count == 0)
        canvas_text(all, HEAD_LINES, 2, TONE_DIM,
                    "Start one in another terminal: webserverd -f FILE");
    x = canvas_text(all, all->height - 1, 0, TONE_DIM, instances_hint(menu));
    draw_position(menu, page, x);
}

static enum menu_result run_instances(struct menu *menu, struct options *options, char *why,
                                      size_t size)
{
    enum menu_result result = run_menu(menu, options, !options->no_mouse, why, size);

    const struct instance *chosen = &menu->instance[menu->selected];

    if (result == MENU_CHOSEN)
        memcpy(options->name, chosen->name, sizeof(options->name));
    return result;
}

/* Too large for the stack. */
static struct menu *new_instance_menu(bool switching)
{
    static struct menu menu;

    memset(&menu, 0, sizeof(menu));
    menu.update = find_instances;
    menu.draw = draw_instances;
    menu.switching = switching;
    find_instances(&menu);
    return &menu;
}

/* Sets the name in OPTIONS to the only running instance, or to the one chosen from the menu. If
 * the name was given, or no instance runs, it is unchanged and the result is MENU_CHOSEN. */
static enum menu_result menu_choose_instance(struct options *options, char *why, size_t size)
{
    struct menu *menu;

    if (options->name_given || options->socket != NULL || options->replay != NULL)
        return MENU_CHOSEN;
    menu = new_instance_menu(false);
    menu->always = options->all;
    if (menu->count == 1)
        memcpy(options->name, menu->instance[0].name, sizeof(options->name));
    return menu->count <= 1 && !menu->always ? MENU_CHOSEN
                                             : run_instances(menu, options, why, size);
}

/*
 * Replaces the name in OPTIONS by one chosen from the menu. If the user leaves the menu, returns
 * MENU_CHOSEN and keeps the name.
 */
static enum menu_result menu_choose_other_instance(struct options *options, char *why, size_t size)
{
    struct menu *menu = new_instance_menu(true);
    enum menu_result result;

    select_instance(menu, options->name);
    result = run_instances(menu, options, why, size);
    return result == MENU_LEFT ? MENU_CHOSEN : result;
}

/* Scenarios */

static void draw_scenarios(struct menu *menu)
{
    const struct canvas *all = &menu->screen.all;
    struct canvas about = canvas_part(all, HEAD_LINES + LAB_SCENARIO_COUNT + 1, 2,
                                      all->height - HEAD_LINES - LAB_SCENARIO_COUNT - 3,
                                      all->width - 4 < ABOUT_MAX ? all->width - 4 : ABOUT_MAX);
    size_t page = scroll_menu(menu);
    int x;

    canvas_text(all, 0, 0, TONE_TITLE, "Guided scenarios. Select one:");
    for (size_t i = menu->top; i < menu->count && i < menu->top + page; i++) {
        enum tone tone = i == menu->selected ? TONE_SELECTED : TONE_NORMAL;
        int y = HEAD_LINES + (int)(i - menu->top);

        canvas_repeat(all, y, 0, all->width, tone, L' ');
        canvas_print(all, y, 0, tone, "%s %-*s %s", i == menu->selected ? ">" : " ", NAME_WIDTH,
                     lab_scenario_table[i]->name, lab_scenario_table[i]->title);
    }
    canvas_wrapped(&about, 0, TONE_NOTE, lab_scenario_table[menu->selected]->about);
    x = canvas_text(all, all->height - 1, 0, TONE_DIM,
                    all->width < WIDE ? "Up, Down, Enter; q"
                                      : "Up and Down select, Enter starts, q");
    x = canvas_text(all, all->height - 1, x, TONE_DIM, menu->switching ? " returns" : " quits");
    x = canvas_item(all, all->height - 1, x, TONE_DIM, ". Each uses a private server.");
    draw_position(menu, page, x);
}

/* RETURNS: leaving the menu returns to a session. */
static enum menu_result menu_choose_scenario(const struct options *options, bool returns,
                                             const struct lab_scenario **scenario, char *why,
                                             size_t size)
{
    static struct menu menu; /* static: keeps the selection between calls */
    enum menu_result result;

    menu.count = LAB_SCENARIO_COUNT;
    menu.refresh_ms = -1;
    menu.draw = draw_scenarios;
    menu.switching = returns;
    menu.chosen = menu.ended = menu.interrupted = false;
    result = run_menu(&menu, options, false, why, size);
    if (result == MENU_CHOSEN)
        *scenario = lab_scenario_table[menu.selected];
    return result;
}

/* Sessions */

enum { WHY_BYTES = 512 };

static int report_failure(const char *why)
{
    escape_report("wsconsole", why);
    return EXIT_FAILED;
}

/* Signals are blocked before the test bed is started, so that it is always removed. */
static int play_scenario(const struct options *options, const struct lab_scenario *scenario,
                         struct session_next *next)
{
    struct options own = *options;
    int signals = screen_signals(), status;
    char why[WHY_BYTES];
    struct lab *lab;

    if (signals < 0)
        return report_failure("cannot receive signals");
    printf("Starting a private server for '%s'.\n", scenario->name);
    fflush(stdout);
    lab = lab_open(scenario, options->step_ms, why, sizeof(why));
    if (lab == NULL) {
        close(signals);
        return report_failure(why);
    }
    snprintf(own.name, sizeof(own.name), "%s", lab_instance(lab, &own.socket));
    own.readonly = false;
    own.view = NULL;
    own.record = own.replay = NULL;
    status = session_run(&own, lab, next);
    lab_close(lab);
    close(signals);
    return status;
}

/*
 * Plays SCENARIO (NULL: from the menu; SESSION: opened from one, to which it returns), then the
 * scenarios that the user chooses. NEXT receives the session to follow. Returns the exit status.
 */
static int play_scenarios(const struct options *options, const struct lab_scenario *scenario,
                          bool session, struct session_next *next)
{
    int status = EXIT_DONE;
    char why[WHY_BYTES];

    *next = (struct session_next){.lab = scenario, .lab_wanted = true};
    while (next->lab_wanted && status == EXIT_DONE) {
        scenario = next->lab;
        *next = (struct session_next){.wanted = false};
        if (scenario == NULL) {
            enum menu_result result =
                menu_choose_scenario(options, session, &scenario, why, sizeof(why));

            next->interrupted = result == MENU_INTERRUPTED;
            if (result == MENU_FAILED)
                return report_failure(why);
            if (result != MENU_CHOSEN)
                return status;
        }
        status = play_scenario(options, scenario, next);
    }
    return status;
}

/* After a session: sets OPTIONS for the instance wanted next. */
static enum menu_result switch_instance(struct options *options, const struct session_next *next,
                                        char *why, size_t size)
{
    char before[sizeof(options->name)];
    enum menu_result result = MENU_CHOSEN;

    snprintf(before, sizeof(before), "%s", options->name);
    options->view = next->view;
    if (next->name[0] == '\0')
        result = menu_choose_other_instance(options, why, size);
    else
        snprintf(options->name, sizeof(options->name), "%s", next->name);
    if (strcmp(before, options->name) != 0)
        options->socket = NULL; /* it belongs to the previous instance */
    return result;
}

static int show_servers(struct options *options)
{
    struct session_next next = {.wanted = false};
    char why[WHY_BYTES];
    enum menu_result result = menu_choose_instance(options, why, sizeof(why));

    while (result == MENU_CHOSEN) {
        int status = session_run(options, NULL, &next);

        if (next.lab_wanted) {
            options->view = next.view;
            status = play_scenarios(options, next.lab, true, &next);
            if (!next.wanted && !next.interrupted && status == EXIT_DONE)
                continue; /* back to the same server */
        }
        if (!next.wanted)
            return status;
        result = switch_instance(options, &next, why, sizeof(why));
    }
    return result == MENU_FAILED ? report_failure(why) : EXIT_DONE;
}

int program_run(struct options *options)
{
    struct session_next next;
    int status;

    if (options->lab == NULL)
        return show_servers(options);
    status = play_scenarios(options, options->lab, false, &next);
    if (status != EXIT_DONE || !next.wanted)
        return status;
    snprintf(options->name, sizeof(options->name), "%s", next.name);
    options->name_given = next.name[0] != '\0';
    return show_servers(options);
}
