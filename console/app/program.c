#include "console/app/program.h"

#include "common/clock.h"
#include "common/escape.h"
#include "common/macros.h"
#include "common/private_server.h"
#include "console/app/session.h"
#include "console/data/instances.h"
#include "console/lab/scenario.h"
#include "console/ui/dialog.h"
#include "console/ui/grid.h"
#include "console/ui/text.h"

#include <curses.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
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
    size_t count, selected, top; /* items; top: the first visible one. Of a grid: see there */
    struct grid grid;            /* shows the items, if it has a list */
    struct filter filter, filter_before; /* of the grid; the one before the prompt */
    struct edit_history filters;
    struct dialog dialog;
    char why[160]; /* what is wrong with the filter; "": nothing */
    bool help;
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

/* A list that is a grid */

/* An incomplete word may be invalid: then the filter is unchanged. */
static void menu_filter_changed(void *context, const char *text)
{
    struct menu *menu = context;
    struct filter filter;

    if (filter_set(&filter, text, menu->why, sizeof(menu->why)) != 0)
        return;
    for (size_t i = 0; i < filter.words; i++) {
        const char *name = filter.word[i].column;

        if (filter.word[i].compare != '\0' && list_column(menu->grid.list, name) < 0) {
            snprintf(menu->why, sizeof(menu->why), "unknown column '%s' in the filter", name);
            return;
        }
    }
    menu->filter = filter;
    menu->why[0] = '\0';
}

static void menu_filter_entered(void *context, const char *text)
{
    struct menu *menu = context;

    menu_filter_changed(menu, text);
    if (menu->why[0] != '\0')
        menu->filter = menu->filter_before;
}

static void menu_filter_cancelled(void *context)
{
    struct menu *menu = context;

    menu->filter = menu->filter_before;
    menu->why[0] = '\0';
}

static void open_menu_filter(struct menu *menu)
{
    menu->filter_before = menu->filter;
    menu->why[0] = '\0';
    menu->dialog = (struct dialog){.kind = DIALOG_PROMPT,
                                   .label = " filter: ",
                                   .history = &menu->filters,
                                   .changed = menu_filter_changed,
                                   .done = menu_filter_entered,
                                   .gone = menu_filter_cancelled,
                                   .context = menu};
    edit_set(&menu->dialog.edit, menu->filter.text);
}

/* One row is always selected. */
static void update_menu_grid(struct menu *menu)
{
    grid_update(&menu->grid, NULL);
    if (!menu->grid.selecting)
        grid_key(&menu->grid, NULL, ACTION_FIRST);
}

static void act_in_grid(struct menu *menu, enum action action)
{
    size_t row;

    update_menu_grid(menu);
    if (action == ACTION_HELP)
        menu->help = !menu->help;
    else if (menu->help && (action == ACTION_CLOSE || action == ACTION_QUIT))
        menu->help = false;
    else if (action == ACTION_FILTER)
        open_menu_filter(menu);
    else if (action == ACTION_CLOSE && filter_active(&menu->filter))
        menu->filter = (struct filter){0};
    else if (action == ACTION_OPEN)
        menu->chosen = menu->ended = grid_selected(&menu->grid, &row);
    else if (!grid_key(&menu->grid, NULL, action))
        act_in_menu(menu, action);
}

static void click_grid(struct menu *menu, int y, int x)
{
    bool again;

    if (menu->help)
        menu->help = false;
    else if (grid_click(&menu->grid, NULL, y, x, &again) && again)
        act_in_grid(menu, ACTION_OPEN);
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
static void click_menu(struct menu *menu, int y, int x)
{
    size_t item = menu->top + (size_t)(y - HEAD_LINES);

    if (menu->grid.list != NULL)
        click_grid(menu, y, x);
    else if (y < HEAD_LINES || y >= menu->screen.all.height - 1 || item >= menu->count)
        return;
    else if (item == menu->selected)
        act_in_menu(menu, ACTION_OPEN);
    else
        menu->selected = item;
}

static void handle_menu_keys(struct menu *menu, short events)
{
    int code, keys = 0;

    for (; !menu->ended && (code = screen_key()) != -1; keys++) {
        void (*act)(struct menu * menu, enum action action) =
            menu->grid.list != NULL ? act_in_grid : act_in_menu;
        struct pointer_event event = screen_pointer();

        if (dialog_open(&menu->dialog) && (code & KEY_PASTED) != 0)
            dialog_paste(&menu->dialog, code & ~KEY_PASTED);
        else if (dialog_open(&menu->dialog) && code != KEY_MOUSE)
            dialog_key(&menu->dialog, code);
        else if (code == KEY_MOUSE && event.what == POINTER_CLICK)
            click_menu(menu, event.y, event.x);
        else if (code == KEY_MOUSE)
            act(menu, event.what == POINTER_WHEEL_UP ? ACTION_UP : ACTION_DOWN);
        else
            act(menu, key_action(code));
    }
    if (keys == 0 && (events & (POLLHUP | POLLERR | POLLNVAL)) != 0)
        menu->ended = menu->interrupted = true;
}

static void loop_menu(struct menu *menu, int signals)
{
    while (!menu->ended) {
        struct pollfd waits[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                                 {.fd = signals, .events = POLLIN},
                                 {.events = POLLOUT}};

        if (screen_ready()) {
            screen_begin();
            menu->draw(menu);
            screen_show();
        }
        waits[2].fd = screen_output();
        if (poll(waits, ARRAY_LENGTH(waits), menu->refresh_ms) == 0)
            menu->update(menu);
        if (waits[1].revents != 0 && screen_signalled(&menu->screen, signals))
            menu->ended = menu->interrupted = true;
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

/* The selection stays at its instance while others start and stop. */
static void find_instances(struct menu *menu)
{
    menu->refresh_ms = menu->count > 0 ? REFRESH_MS : INSTANCES_LOOK_MS;
    menu->count = instances_find(menu->instance);
}

enum fleet_column {
    NAME,
    STATE,
    REQUESTS,
    RECENT,
    P99,
    ERRORS,
    CONNECTIONS,
    CPU,
    WORKERS,
    UP,
    PID,
    VERSION,
    LISTENING,
    FLEET_COLUMNS
};

enum { RECENT_WIDTH = 11 };

static const struct column fleet_columns[FLEET_COLUMNS] = {
    [NAME] = {.title = "  NAME",
              .name = "name",
              .width = 18,
              .min_width = 12,
              .importance = 13,
              .stretch = 1},
    [STATE] = {.title = "STATE", .width = 8, .importance = 11},
    [REQUESTS] = {.title = "REQ/S", .width = 6, .importance = 12, .right = true},
    [RECENT] = {.title = "LAST MINUTE", .width = RECENT_WIDTH, .importance = 5},
    [P99] = {.title = "P99", .width = 7, .importance = 10, .right = true, .output = OUTPUT_NS},
    [ERRORS] = {.title = "ERR/S", .width = 6, .importance = 9, .right = true},
    [CONNECTIONS] = {.title = "CONNS", .width = 6, .importance = 8, .right = true},
    [CPU] = {.title = "CPU", .width = 6, .importance = 7, .right = true},
    [WORKERS] = {.title = "WORKERS", .width = 8, .importance = 6},
    [UP] = {.title = "UP", .width = 9, .importance = 4, .right = true, .output = OUTPUT_NS},
    [PID] = {.title = "PID", .width = 7, .importance = 1, .right = true},
    [VERSION] = {.title = "VERSION", .width = 7, .importance = 2},
    [LISTENING] = {.title = "LISTENING", .width = 16, .importance = 3, .stretch = 1},
};

static size_t fleet_count(void *state, const struct scene *scene)
{
    (void)scene;
    return ((struct menu *)state)->count;
}

static uint64_t fleet_id(void *state, const struct scene *scene, size_t row)
{
    uint64_t id = 0;

    (void)scene;
    for (const char *c = ((struct menu *)state)->instance[row].name; *c != '\0'; c++)
        id = id * 257 + (unsigned char)*c;
    return id;
}

/* Draws the requests per second of the last minute. */
static void fill_recent(struct cell *cell, const struct menu *menu, const double *recent)
{
    wchar_t cells[RECENT_WIDTH + 1] = {0};
    size_t peak = graph_peak(recent, INSTANCE_RECENT);

    graph_draw(menu->screen.style, recent, INSTANCE_RECENT,
               peak < INSTANCE_RECENT ? recent[peak] : 1, 1, RECENT_WIDTH, cells);
    cell_print(cell, TONE_GRAPH, "%ls", cells);
}

static void fleet_fill(void *state, const struct scene *scene, size_t row, struct cell *cells)
{
    const struct menu *menu = state;
    const struct instance *instance = &menu->instance[row];
    const struct instance_load *load = &instance->load;
    bool well = strcmp(load->state, "serving") == 0;

    (void)scene;
    cell_print(&cells[NAME], TONE_NORMAL, "  %s", instance->name);
    cell_text(&cells[STATE], well ? TONE_GOOD : TONE_WARN, load->state);
    cell_rate(&cells[REQUESTS], TONE_VALUE, load->requests);
    fill_recent(&cells[RECENT], menu, instance->recent);
    cell_latency(&cells[P99], TONE_NORMAL, load->p99_ns);
    cell_rate(&cells[ERRORS], load->errors > 0 ? TONE_BAD : TONE_NORMAL, load->errors);
    cell_count(&cells[CONNECTIONS], TONE_NORMAL, load->connections);
    cell_percent(&cells[CPU], TONE_NORMAL, load->cores);
    if (load->workers_wanted == 0) /* of another program */
        cell_count(&cells[WORKERS], TONE_NORMAL, load->workers);
    else
        cell_print(&cells[WORKERS], load->workers < load->workers_wanted ? TONE_WARN : TONE_NORMAL,
                   "%" PRIu32 " of %" PRIu32, load->workers, load->workers_wanted);
    cell_age(&cells[UP], TONE_NORMAL, instance->age_ns);
    cell_exact(&cells[PID], TONE_DIM, (uint64_t)instance->pid);
    cell_text(&cells[VERSION], TONE_DIM, instance->version);
    cell_text(&cells[LISTENING], TONE_NORMAL, instance->listening);
}

static const struct list fleet = {.columns = fleet_columns,
                                  .column_count = FLEET_COLUMNS,
                                  .count = fleet_count,
                                  .fill = fleet_fill,
                                  .id = fleet_id,
                                  .sorted_by = NAME + 1};

static void select_instance(struct menu *menu, const char *name)
{
    for (size_t i = 0; i < menu->count; i++)
        if (strcmp(menu->instance[i].name, name) == 0) {
            menu->grid.selecting = true;
            menu->grid.selected_id = fleet_id(menu, NULL, i);
        }
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
        return menu->switching ? "Enter opens; ? help, q returns" : "Enter opens; ? help, q quits";
    if (menu->switching)
        return "Enter opens, / filters, s sorts, ? help, q returns";
    return menu->always ? "Enter opens, / filters, s sorts, ? help, q quits; I returns here"
                        : "Enter opens, / filters, s sorts, ? help, q quits; -n NAME skips this";
}

static void draw_fleet_help(const struct canvas *canvas)
{
    static const enum action keys[] = {ACTION_UP, ACTION_PAGE_UP, ACTION_OPEN, ACTION_SORT,
                                       ACTION_SORT_REVERSE};
    int y = 0;

    for (size_t i = 0; i < ARRAY_LENGTH(keys); i++, y++) {
        canvas_text(canvas, y, 2, TONE_VALUE, key_table[keys[i]].shown);
        canvas_text(canvas, y, 14, TONE_NORMAL,
                    keys[i] == ACTION_OPEN ? "Open the selected server" : key_table[keys[i]].help);
    }
    canvas_text(canvas, y, 2, TONE_VALUE, key_table[ACTION_FILTER].shown);
    canvas_text(canvas, y, 14, TONE_NORMAL,
                "Filter: text, state:silent, req/s>100, p99>10ms, !not");
    y += 2;
    for (size_t i = 0; i < FLEET_COLUMNS; i++, y++) {
        static const char *const texts[FLEET_COLUMNS] = {
            [NAME] = "Name of the instance: wsconsole -n NAME opens it",
            [STATE] =
                "serving, starting (workers are missing), stopping, or silent: it does not respond",
            [REQUESTS] = "Requests per second since the last look, a second ago",
            [RECENT] = "The same of each second of the last minute",
            [P99] = "99th percentile of the latency since the last look",
            [ERRORS] = "Responses with status 400 and above per second",
            [CONNECTIONS] = "Open connections",
            [CPU] = "CPU time of the workers, in percent of a core",
            [WORKERS] = "Workers that serve, and how many there should be",
            [UP] = "Time since the start",
            [PID] = "Pid of the master",
            [VERSION] = "Version of the program",
            [LISTENING] = "Addresses and ports",
        };
        const char *title = fleet_columns[i].title;

        canvas_text(canvas, y, 2, TONE_TITLE, title + strspn(title, " "));
        canvas_text(canvas, y, 14, TONE_NORMAL, texts[i]);
    }
}

static void draw_fleet_foot(struct menu *menu, const struct canvas *body)
{
    const struct canvas *all = &menu->screen.all;
    struct canvas foot = canvas_part(all, all->height - 1, 0, 1, all->width);
    char text[64];
    int x;

    if (dialog_open(&menu->dialog)) {
        dialog_draw(&menu->dialog, &foot, body, clock_monotonic_ns());
    } else if (menu->why[0] != '\0') {
        canvas_text(&foot, 0, 0, TONE_BAD, menu->why);
    } else {
        x = canvas_text(&foot, 0, 0, TONE_DIM, menu->help ? "? closes" : instances_hint(menu));
        if (filter_active(&menu->filter))
            canvas_item(&foot, 0, x + 2, TONE_NOTE, "filter: %s", menu->filter.text);
        else if (menu->grid.shown > menu->grid.page)
            canvas_item(&foot, 0, x + 2, TONE_NOTE, "%s",
                        grid_summary(&menu->grid, text, sizeof(text)));
    }
}

static void draw_instances(struct menu *menu)
{
    const struct canvas *all = &menu->screen.all;
    struct canvas body = canvas_part(all, 1, 0, all->height - 2, all->width);
    int x = canvas_print(all, 0, 0, TONE_TITLE, "%zu running server%s. Select one:", menu->count,
                         menu->count == 1 ? "" : "s");

    draw_totals(menu, all, x);
    update_menu_grid(menu);
    if (menu->help) {
        draw_fleet_help(&body);
    } else if (menu->count > 0) {
        grid_draw(&menu->grid, NULL, &body);
        canvas_text(&menu->grid.rows, (int)(menu->grid.selected - menu->grid.top), 0, TONE_SELECTED,
                    menu->grid.shown > 0 ? ">" : "");
    } else {
        canvas_text(all, HEAD_LINES, 2, TONE_DIM,
                    "Start one in another terminal: webserverd -f FILE");
    }
    draw_fleet_foot(menu, &body);
}

static enum menu_result run_instances(struct menu *menu, struct options *options, char *why,
                                      size_t size)
{
    enum menu_result result = run_menu(menu, options, !options->no_mouse, why, size);
    size_t row;

    if (result == MENU_CHOSEN && grid_selected(&menu->grid, &row))
        memcpy(options->name, menu->instance[row].name, sizeof(options->name));
    grid_release(&menu->grid);
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
    grid_start(&menu.grid, &fleet, &menu, &menu.filter);
    menu.grid.ascii = &menu.screen.ascii;
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
