#include "console/app/session.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/tables.h"
#include "common/units.h"
#include "console/app/settings.h"
#include "console/data/instances.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Commands of the console. REST is the text after the command name. */

static void run_quit(struct session *session, const char *rest)
{
    (void)rest;
    session_end(session);
}

static void run_view(struct session *session, const char *rest)
{
    int view = table_find(rest, view_names, VIEW_COUNT);
    char near[DID_YOU_MEAN_SIZE];

    if (view >= 0)
        session_show_view(session, (size_t)view);
    else
        controller_report(session->controller, true, "unknown view '%.40s'%s", rest,
                          did_you_mean(near, rest, WORD_LIST(view_names, VIEW_COUNT),
                                       "; Tab lists them, or keys 1 to 9"));
}

/*
 * Sets the filter; "@NAME" is a saved one. Returns 0, or -1 with a message in WHY and the filter
 * unchanged.
 */
static int set_filter(struct session *session, const char *text, char *why, size_t size)
{
    struct filter filter;
    char saved[FILTER_BYTES];

    if (text[0] == '@') {
        if (filters_find(text + 1, saved, why, size) != 0)
            return -1;
        text = saved;
    }
    if (filter_set(&filter, text, why, size) != 0 || views_check_filter(&filter, why, size) != 0)
        return -1;
    session_set_filter(session, &filter);
    return 0;
}

static void run_save_filter(struct session *session, const char *rest)
{
    char why[CONTROLLER_TEXT];

    if (session->options->readonly)
        controller_report(session->controller, true, "this console is read-only (--readonly)");
    else if (filters_save(rest, session->filter.text, why, sizeof(why)) != 0)
        controller_report(session->controller, true, "%s", why);
    else if (filter_active(&session->filter))
        controller_report(session->controller, false, "saved; :filter @%s applies it", rest);
    else
        controller_report(session->controller, false, "no filter is in force: removed @%s", rest);
}

static void run_filter(struct session *session, const char *rest)
{
    char why[CONTROLLER_TEXT];

    if (set_filter(session, rest, why, sizeof(why)) != 0)
        controller_report(session->controller, true, "%s", why);
}

static void run_show(struct session *session, const char *rest)
{
    char why[CONTROLLER_TEXT];
    struct filter filter;

    if (rest[0] == '\0')
        controller_report(session->controller, true,
                          "missing words: show path=/x, show status:4xx");
    else if (filter_set(&filter, rest, why, sizeof(why)) != 0 ||
             session_show_subject(session, &filter, why, sizeof(why)) != 0)
        controller_report(session->controller, true, "%s", why);
}

static void report_unknown_column(struct session *session, const struct grid *grid,
                                  const char *word)
{
    char names[CONTROLLER_TEXT * 3 / 4] = "", name[TABLE_NAME_BYTES];

    for (size_t i = 0; grid->list != NULL && i < grid->list->column_count; i++)
        if (!grid->columns[i].hidden)
            snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s", i > 0 ? " " : "",
                     column_title_name(&grid->list->columns[i], name));
    if (names[0] == '\0')
        controller_report(session->controller, true, "this view has no list");
    else
        controller_report(session->controller, true, "unknown column '%.20s' (%s)", word, names);
}

static void run_sort(struct session *session, const char *rest)
{
    struct grid *grid = session_grid(session);
    int column = list_column(grid->list, rest);

    if (column < 0)
        report_unknown_column(session, grid, rest);
    else
        grid_sort(grid, column);
}

/* "path,took": only these; "-agent": without it; "all". */
static void run_columns(struct session *session, const char *rest)
{
    struct grid *grid = session_grid(session);
    size_t count = grid->list != NULL ? grid->list->column_count : 0;
    bool hidden[TABLE_COLUMNS_MAX] = {false}, shows = false;
    char copy[EDIT_BYTES], *left = NULL;

    for (size_t i = 0; i < count; i++)
        hidden[i] = grid_hides(grid, i);
    snprintf(copy, sizeof(copy), "%s", rest);
    for (char *word = strtok_r(copy, " ,", &left); word != NULL && count > 0;
         word = strtok_r(NULL, " ,", &left)) {
        bool hides = word[0] == '-', all = strcmp(word, "all") == 0;
        int column = list_column(grid->list, word + hides);

        if (column < 0 && !all) {
            report_unknown_column(session, grid, word + hides);
            return;
        }
        for (size_t i = 0; (all || (!hides && !shows)) && i < count; i++)
            hidden[i] = !all && !grid->list->columns[i].hidden;
        shows |= !hides;
        if (!all)
            hidden[column] = hides;
    }
    if (count == 0 || rest[0] == '\0')
        report_unknown_column(session, grid, rest);
    else if (!grid_hide(grid, hidden))
        controller_report(session->controller, true, "too many columns are hidden");
    else
        session_keep_columns(session);
}

static void run_instance(struct session *session, const char *rest)
{
    static struct instance list[INSTANCES_MAX]; /* too large for the stack */
    size_t count = instances_find(list);

    for (size_t i = 0; i < count; i++)
        if (rest[0] == '\0' || strcmp(list[i].name, rest) == 0) {
            session_switch_instance(session, rest);
            return;
        }
    controller_report(session->controller, true, "no webserverd named '%.40s' is running", rest);
}

/* Runs "set NAME" without a value: shows the value of the setting. */
static void report_setting(struct session *session, const char *name)
{
    struct options copy = *session->options;
    const char *names[SETTINGS_MOST];
    char value[CONTROLLER_TEXT / 2];
    size_t count = settings_names(names);

    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0) {
            settings_value(&copy, name, value, sizeof(value));
            controller_report(session->controller, false, "%s = %s", name,
                              value[0] != '\0' ? value : "(default)");
            return;
        }
    settings_set(&copy, name, ""); /* writes the error message to WHY */
    controller_report(session->controller, true, "%s",
                      name[0] != '\0' ? copy.why
                                      : "missing name: set NAME VALUE, Tab lists the names");
}

static void run_set(struct session *session, const char *rest)
{
    struct options *options = session->options, copy = *options;
    char name[CONTROLLER_TEXT / 4];
    size_t length = strcspn(rest, " =");
    const char *value = rest + length + strspn(rest + length, " =");

    snprintf(name, sizeof(name), "%.*s", (int)length, rest);
    if (*value == '\0') {
        report_setting(session, name);
    } else if (settings_set(&copy, name, value) != OPTIONS_RUN) {
        controller_report(session->controller, true, "%s", copy.why);
    } else if (strcmp(name, "name") == 0) {
        controller_report(session->controller, true, "use :instance NAME to choose the server");
    } else if (options->readonly && !copy.readonly) {
        controller_report(session->controller, true, "restart the console without --readonly");
    } else {
        *options = copy;
        controller_set_readonly(session->controller, options->readonly);
        session_set_alerts(session);
        session_hide_columns(session);
        screen_adjust(&session->screen, options->theme, options->ascii, !options->no_mouse);
        session->timeline.next_sample_ns = 0;
        controller_report(session->controller, false, "%s = %s; :save stores it", name, value);
    }
}

static void run_save(struct session *session, const char *rest)
{
    char said[CONTROLLER_TEXT];

    if (rest[0] != '\0')
        controller_report(session->controller, true, "save takes no argument");
    else if (session->options->readonly)
        controller_report(session->controller, true, "this console is read-only (--readonly)");
    else if (session->lab != NULL)
        controller_report(session->controller, true, "settings of a scenario cannot be saved");
    else if (settings_save(session->options, said, sizeof(said)) != 0)
        controller_report(session->controller, true, "%s", said);
    else
        controller_report(session->controller, false, "%s", said);
}

static void run_lab(struct session *session, const char *rest)
{
    const struct lab_scenario *scenario = lab_scenario_named(rest);

    if (scenario != NULL || rest[0] == '\0')
        session_switch_scenario(session, scenario);
    else
        controller_report(session->controller, true, "unknown scenario '%.40s'; :lab lists them",
                          rest);
}

static void run_alert(struct session *session, const char *rest)
{
    struct alerts alerts = {.count = 0};
    char why[CONTROLLER_TEXT];
    bool off = strncmp(rest, "off", 3) == 0 && (rest[3] == ' ' || rest[3] == '\0');
    const char *rule = rest + 3 + (rest[0] != '\0' && off ? strspn(rest + 3, " ") : 0);

    alerts_add_list(&alerts, session->options->alerts, why, sizeof(why));
    if (rest[0] == '\0') {
        session_show_alerts(session);
        return;
    }
    if (off && rule[0] == '\0')
        alerts.count = 0;
    else if (off && !alerts_remove(&alerts, rule)) {
        controller_report(session->controller, true, "no alert '%.80s'; :alert lists them", rule);
        return;
    } else if (!off && alerts_add(&alerts, rest, why, sizeof(why)) != 0) {
        controller_report(session->controller, true, "%s", why);
        return;
    }
    alerts_write(&alerts, session->options->alerts, sizeof(session->options->alerts));
    session_set_alerts(session);
    controller_report(session->controller, false, "%zu %s; :save stores %s", alerts.count,
                      units_plural(alerts.count, "alert", "alerts"),
                      units_plural(alerts.count, "it", "them"));
}

/* A note about the moment shown. */
static void run_note(struct session *session, const char *rest)
{
    struct scene scene = session_scene(session);
    bool live = scene.moment == MOMENT_LIVE, recorded = watch_recorded(session->watch) > 0;
    char why[CONTROLLER_TEXT];

    if (rest[0] == '\0')
        controller_report(session->controller, true, "missing text: note TEXT");
    else if (watch_replays(session->watch))
        controller_report(session->controller, true,
                          "this is a recording: notes are taken while it is recorded");
    else if (watch_add_note(session->watch, rest, clock_monotonic_ns(),
                            live || scene.wall_ns == 0 ? clock_wall_ns() : scene.wall_ns, why,
                            sizeof(why)) != 0)
        controller_report(session->controller, true, "%s", why);
    else
        controller_report(session->controller, false, "%s",
                          recorded ? "noted and recorded"
                                   : "noted; --record would keep it in a recording");
}

static const struct {
    const char *name, *arguments, *help;
    void (*run)(struct session *session, const char *rest);
} own_commands[] = {
    {"view", "NAME", "Show a view", run_view},
    {"filter", "[WORDS]", "Filter all lists; @NAME: a saved one; without WORDS: remove the filter",
     run_filter},
    {"save-filter", "NAME", "Save the filter in force as NAME", run_save_filter},
    {"show", "WORDS", "Show one path, client, status, thread: path=/x", run_show},
    {"instance", "[NAME]", "Show another server of this machine", run_instance},
    {"sort", "COLUMN", "Sort the list of this view", run_sort},
    {"columns", "NAME ... | -NAME ... | all", "Show only these columns of this list, or hide some",
     run_columns},
    {"alert", "[RULE | off [RULE]]",
     "Alert on a rule such as p99 > 20ms for 5s; alone: list alerts", run_alert},
    {"note", "TEXT", "Note something about the moment shown: an event, a mark, part of a recording",
     run_note},
    {"lab", "[NAME]", "Play a guided scenario on a private server", run_lab},
    {"set", "NAME VALUE", "Change a setting of this console", run_set},
    {"save", "", "Write the settings to console.ini", run_save},
    {"quit", "", "Quit the console; the server continues", run_quit},
};

/* True if NAME is the first word of LINE. */
static bool is_command(const char *name, const char *line)
{
    size_t length = strcspn(line, " ");

    return strlen(name) == length && strncmp(name, line, length) == 0;
}

/* Completion: the first word is a command, the rest depends on it. */

/* The commands of the daemon, then those of the console. */
static size_t add_command_names(const char **words)
{
    size_t count = 0;

    for (int i = 0; i < COMMAND_COUNT; i++)
        words[count++] = command_table[i].name;
    for (size_t i = 0; i < ARRAY_LENGTH(own_commands); i++)
        words[count++] = own_commands[i].name;
    return count;
}

/*
 * Adds the arguments of the daemon's command in LINE: the lower-case words of a usage such as
 * "[debug | info | warn]". COPY receives the words.
 */
static size_t add_choices(const char *line, char *copy, size_t size, const char **words,
                          size_t most)
{
    size_t count = 0;
    char *rest = NULL;

    copy[0] = '\0';
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (is_command(command_table[i].name, line))
            snprintf(copy, size, "%s", command_table[i].arguments);
    for (char *word = strtok_r(copy, "[]| ", &rest); word != NULL && count < most;
         word = strtok_r(NULL, "[]| ", &rest))
        if (word[0] >= 'a' && word[0] <= 'z')
            words[count++] = word;
    return count;
}

/* The values for the setting in "set NAME ". */
static size_t add_values(const char *line, const char **words)
{
    static const char *const on_off[] = {"on", "off"};
    size_t count = 0;

    if (strncmp(line, "set theme ", 10) == 0)
        for (; count < THEME_COUNT; count++)
            words[count] = theme_names[count];
    else if (strncmp(line, "set view ", 9) == 0)
        for (; count < VIEW_COUNT; count++)
            words[count] = view_names[count];
    else if (strncmp(line, "set ascii ", 10) == 0 || strncmp(line, "set no-mouse ", 13) == 0 ||
             strncmp(line, "set readonly ", 13) == 0 || strncmp(line, "set log-scale ", 14) == 0)
        for (; count < ARRAY_LENGTH(on_off); count++)
            words[count] = on_off[count];
    return count;
}

static size_t complete_command(struct edit *edit)
{
    static struct instance list[INSTANCES_MAX]; /* too large for the stack */
    const char *words[COMMAND_COUNT + ARRAY_LENGTH(own_commands) + VIEW_COUNT + INSTANCES_MAX];
    char copy[256];
    size_t count = 0;

    if (memchr(edit->text, ' ', edit->cursor) == NULL)
        count = add_command_names(words);
    else if (strncmp(edit->text, "view ", 5) == 0)
        for (; count < VIEW_COUNT; count++)
            words[count] = view_names[count];
    else if (strncmp(edit->text, "instance ", 9) == 0)
        for (size_t found = instances_find(list); count < found; count++)
            words[count] = list[count].name;
    else if (strncmp(edit->text, "lab ", 4) == 0)
        for (; count < LAB_SCENARIO_COUNT; count++)
            words[count] = lab_scenario_table[count]->name;
    else if (strncmp(edit->text, "help ", 5) == 0)
        count = add_command_names(words);
    else if (strncmp(edit->text, "set ", 4) == 0)
        count = memchr(edit->text + 4, ' ', edit->cursor > 4 ? edit->cursor - 4 : 0) == NULL
                    ? settings_names(words)
                    : add_values(edit->text, words);
    else
        count = add_choices(edit->text, copy, sizeof(copy), words, ARRAY_LENGTH(words));
    return edit_complete(edit, words, count);
}

/* Writes the usage of the command typed, or all commands that begin with the text typed. */
static void hint_command(const char *text, char *buffer, size_t size)
{
    const char *words[COMMAND_COUNT + ARRAY_LENGTH(own_commands)];
    size_t count = add_command_names(words), used = 0;

    buffer[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        bool own = i >= COMMAND_COUNT;
        const char *arguments =
            own ? own_commands[i - COMMAND_COUNT].arguments : command_table[i].arguments;

        if (is_command(words[i], text)) {
            snprintf(buffer, size, "%s%s%s: %s", words[i], arguments[0] != '\0' ? " " : "",
                     arguments, own ? own_commands[i - COMMAND_COUNT].help : command_table[i].help);
            return;
        }
        if (strncmp(words[i], text, strlen(text)) == 0 && used + strlen(words[i]) + 3 < size)
            used += (size_t)snprintf(buffer + used, size - used, "%s%s", used > 0 ? "  " : "",
                                     words[i]);
    }
    if (used == 0)
        snprintf(buffer, size, "no such command");
}

/* Runs a command of the console, or sends one of the daemon. */
static void run_line(void *context, const char *text)
{
    struct session *session = context;
    char copy[EDIT_BYTES];
    const char *line = copy;
    size_t length = strlen(text);

    while (length > 0 && text[length - 1] == ' ')
        length--; /* completion appends one */
    snprintf(copy, sizeof(copy), "%.*s", (int)length, text);
    line += strspn(line, " ");
    length = strcspn(line, " ");
    if (length == 0)
        return;
    for (size_t i = 0; i < ARRAY_LENGTH(own_commands); i++)
        if (is_command(own_commands[i].name, line)) {
            own_commands[i].run(session, line + length + strspn(line + length, " "));
            return;
        }
    session->overlays.help = false; /* the help would cover the answer */
    session->overlays.page_scroll = (struct scroll){0};
    controller_close_page(session->controller);
    controller_command(session->controller, line);
}

void prompt_open_command(struct session *session)
{
    struct dialog *dialog = controller_dialog(session->controller);

    controller_prompt(session->controller, ":", "", run_line, session);
    dialog->history = &session->commands;
    dialog->complete = complete_command;
    dialog->hint = hint_command;
    session->commands.at = session->commands.count;
}

/* The search in the help */

static void search_help(void *context, const char *text)
{
    struct session *session = context;
    struct overlays *overlays = &session->overlays;

    snprintf(overlays->sought, sizeof(overlays->sought), "%s", text);
    if (text[0] != '\0' && !frame_find_in_help(session, 0))
        controller_report(session->controller, true, "the help does not have '%s'",
                          overlays->sought);
}

void prompt_open_search(struct session *session)
{
    controller_prompt(session->controller, " search: ", "", search_help, session);
}

/* The filter */

static void filter_changed(void *context, const char *text)
{
    struct session *session = context;
    char why[CONTROLLER_TEXT];

    /* An incomplete word may be invalid: then the filter is unchanged. */
    set_filter(session, text, why, sizeof(why));
}

/* An invalid text leaves the filter as it was before the prompt. */
static void filter_entered(void *context, const char *text)
{
    struct session *session = context;
    char why[CONTROLLER_TEXT];

    if (set_filter(session, text, why, sizeof(why)) == 0)
        return;
    session_set_filter(session, &session->filter_before);
    controller_report(session->controller, true, "%s", why);
}

static void filter_cancelled(void *context)
{
    struct session *session = context;

    session_set_filter(session, &session->filter_before);
}

void prompt_open_filter(struct session *session)
{
    struct dialog *dialog = controller_dialog(session->controller);

    session->filter_before = session->filter;
    controller_prompt(session->controller, " filter: ", session->filter.text, filter_entered,
                      session);
    dialog->changed = filter_changed;
    dialog->gone = filter_cancelled;
    dialog->history = &session->filters;
}
