/*
 * The command line behind ':': the daemon's commands as wsctl takes them, and a few words of the
 * console's own.
 */

#include "console/app/session.h"

#include "common/macros.h"
#include "common/tables.h"
#include "console/app/settings.h"
#include "console/data/instances.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Words of the console. Each acts on what stands behind it. */

static void order_quit(struct program *program, const char *rest)
{
    (void)rest;
    program->ending = true;
}

static void say_no_view(struct program *program, const char *word)
{
    const char *names[VIEW_COUNT], *nearest;

    for (size_t i = 0; i < VIEW_COUNT; i++)
        names[i] = view_table[i]->name;
    nearest = nearest_word(word, names, VIEW_COUNT);
    if (nearest != NULL)
        controller_report(program->controller, true, "there is no view '%.40s'; did you mean '%s'?",
                          word, nearest);
    else
        controller_report(program->controller, true,
                          "there is no view '%.40s'; Tab lists them, or keys 1 to 9", word);
}

static void order_view(struct program *program, const char *rest)
{
    const struct view *view = view_named(rest);

    if (view == NULL)
        say_no_view(program, rest);
    for (size_t i = 0; i < VIEW_COUNT; i++)
        if (view_table[i] == view)
            program_show_view(program, i);
}

static void order_filter(struct program *program, const char *rest)
{
    char why[CONTROLLER_TEXT];

    if (filter_set(&program->filter, rest, why, sizeof(why)) != 0)
        controller_report(program->controller, true, "%s", why);
}

static void say_no_column(struct program *program, const struct grid *grid, const char *word)
{
    char names[CONTROLLER_TEXT / 2] = "", name[TABLE_NAME_BYTES];

    for (size_t i = 0; grid->list != NULL && i < grid->list->column_count; i++)
        snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s", i > 0 ? " " : "",
                 column_name(&grid->list->columns[i], name));
    if (names[0] == '\0')
        controller_report(program->controller, true, "there is no list in this view to sort");
    else
        controller_report(program->controller, true, "there is no column '%.20s'; there are %s",
                          word, names);
}

static void order_sort(struct program *program, const char *rest)
{
    struct grid *grid = program_grid(program);
    char name[TABLE_NAME_BYTES];

    for (size_t i = 0; grid->list != NULL && i < grid->list->column_count; i++)
        if (strcmp(column_name(&grid->list->columns[i], name), rest) == 0) {
            grid->sorted_by = grid->list->columns[i].right ? -((int)i + 1) : (int)i + 1;
            return;
        }
    say_no_column(program, grid, rest);
}

static void order_instance(struct program *program, const char *rest)
{
    static struct instance list[INSTANCES_MAX]; /* not for the stack */
    size_t count = instances_find(list);

    for (size_t i = 0; i < count; i++)
        if (rest[0] == '\0' || strcmp(list[i].name, rest) == 0) {
            program_turn_to(program, rest);
            return;
        }
    controller_report(program->controller, true, "no webserverd named '%.40s' is running", rest);
}

/* Puts in force what has been set. */
static void take_over(struct program *program, const struct options *options)
{
    *program->options = *options;
    screen_adjust(&program->screen, options->theme, options->ascii, !options->no_mouse);
    program->next_sample_ns = 0;
}

static bool may_be_set(struct program *program, const char *name, const struct options *options)
{
    const char *why = NULL;

    if (strcmp(name, "name") == 0)
        why = "the server is chosen by :instance NAME";
    else if (program->options->readonly && !options->readonly)
        why = "read-only is left by starting anew without --readonly";
    if (why != NULL)
        controller_report(program->controller, true, "%s", why);
    return why == NULL;
}

/* What a setting is, when no value is given. */
static void say_setting(struct program *program, const char *name)
{
    struct options copy = *program->options;
    const char *names[SETTINGS_MOST];
    char value[CONTROLLER_TEXT / 2];
    size_t count = settings_names(names);

    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0) {
            settings_value(&copy, name, value, sizeof(value));
            controller_report(program->controller, false, "%s = %s", name,
                              value[0] != '\0' ? value : "(default)");
            return;
        }
    settings_set(&copy, name, ""); /* says why there is none */
    controller_report(program->controller, true, "%s",
                      name[0] != '\0' ? copy.why
                                      : "which one? set NAME VALUE, Tab lists the names");
}

static void order_set(struct program *program, const char *rest)
{
    struct options copy = *program->options;
    char name[CONTROLLER_TEXT / 4];
    size_t length = strcspn(rest, " =");
    const char *value = rest + length + strspn(rest + length, " =");

    snprintf(name, sizeof(name), "%.*s", (int)length, rest);
    if (*value == '\0') {
        say_setting(program, name);
        return;
    }
    if (settings_set(&copy, name, value) != OPTIONS_RUN) {
        controller_report(program->controller, true, "%s", copy.why);
        return;
    }
    if (!may_be_set(program, name, &copy))
        return;
    take_over(program, &copy);
    controller_report(program->controller, false, "%s = %s; :save keeps it", name, value);
}

static void order_save(struct program *program, const char *rest)
{
    char said[CONTROLLER_TEXT];

    if (rest[0] != '\0')
        controller_report(program->controller, true,
                          "save takes no argument; it writes console.ini");
    else if (program->options->readonly)
        controller_report(program->controller, true, "this console was started with --readonly");
    else if (program->lab != NULL)
        controller_report(program->controller, true, "the settings of a scenario are not kept");
    else if (settings_save(program->options, said, sizeof(said)) != 0)
        controller_report(program->controller, true, "%s", said);
    else
        controller_report(program->controller, false, "%s", said);
}

static void order_lab(struct program *program, const char *rest)
{
    const struct lab_scenario *scenario = lab_scenario_named(rest);

    if (scenario != NULL || rest[0] == '\0')
        program_turn_to_lab(program, scenario);
    else
        controller_report(program->controller, true,
                          "there is no scenario '%.40s': lab alone lists them", rest);
}

static const struct {
    const char *name, *arguments, *help;
    void (*act)(struct program *program, const char *rest);
} own[] = {
    {"view", "NAME", "Show a view of this console", order_view},
    {"filter", "[WORDS]", "Filter all lists, or no more", order_filter},
    {"instance", "[NAME]", "Watch another server of this machine", order_instance},
    {"sort", "COLUMN", "Sort the list that is shown", order_sort},
    {"lab", "[NAME]", "Play a guided scenario on a server of its own", order_lab},
    {"set", "NAME VALUE", "Change a setting of this console", order_set},
    {"save", "", "Write the settings into console.ini", order_save},
    {"quit", "", "Leave the console; the server runs on", order_quit},
};

/* What a word may be completed to: the first one by the commands, what follows by what it takes. */

static size_t add_command_names(const char **words)
{
    size_t count = 0;

    for (int i = 0; i < COMMAND_COUNT; i++)
        words[count++] = command_table[i].name;
    for (size_t i = 0; i < ARRAY_LENGTH(own); i++)
        words[count++] = own[i].name;
    return count;
}

/* The choices in a usage such as "[debug | info | warn]": words in small letters. */
static size_t add_choices(const char *arguments, char *copy, size_t size, const char **words,
                          size_t most)
{
    size_t count = 0;
    char *rest = NULL;

    snprintf(copy, size, "%s", arguments);
    for (char *word = strtok_r(copy, "[]| ", &rest); word != NULL && count < most;
         word = strtok_r(NULL, "[]| ", &rest))
        if (word[0] >= 'a' && word[0] <= 'z')
            words[count++] = word;
    return count;
}

static const char *arguments_of(const char *line)
{
    size_t length = strcspn(line, " ");

    for (int i = 0; i < COMMAND_COUNT; i++)
        if (strlen(command_table[i].name) == length &&
            strncmp(command_table[i].name, line, length) == 0)
            return command_table[i].arguments;
    return "";
}

/* What the setting that is named in "set NAME " may be set to. */
static size_t add_values(const char *line, const char **words)
{
    static const char *const on_off[] = {"on", "off"};
    size_t count = 0;

    if (strncmp(line, "set theme ", 10) == 0)
        for (; count < THEME_COUNT; count++)
            words[count] = theme_names[count];
    else if (strncmp(line, "set view ", 9) == 0)
        for (; count < VIEW_COUNT; count++)
            words[count] = view_table[count]->name;
    else if (strncmp(line, "set ascii ", 10) == 0 || strncmp(line, "set no-mouse ", 13) == 0 ||
             strncmp(line, "set readonly ", 13) == 0)
        for (; count < ARRAY_LENGTH(on_off); count++)
            words[count] = on_off[count];
    return count;
}

static size_t complete(struct edit *edit)
{
    static struct instance list[INSTANCES_MAX]; /* not for the stack */
    const char *words[COMMAND_COUNT + ARRAY_LENGTH(own) + VIEW_COUNT + INSTANCES_MAX];
    char copy[256];
    size_t count = 0;

    if (memchr(edit->text, ' ', edit->cursor) == NULL)
        count = add_command_names(words);
    else if (strncmp(edit->text, "view ", 5) == 0)
        for (; count < VIEW_COUNT; count++)
            words[count] = view_table[count]->name;
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
        count =
            add_choices(arguments_of(edit->text), copy, sizeof(copy), words, ARRAY_LENGTH(words));
    return edit_complete(edit, words, count);
}

/* What the command takes, or which ones begin like this. */

static bool hint_whole(const char *name, const char *arguments, const char *help, const char *text,
                       char *buffer, size_t size)
{
    size_t length = strlen(name);

    if (strncmp(text, name, length) != 0 || (text[length] != ' ' && text[length] != '\0'))
        return false;
    snprintf(buffer, size, "%s%s%s: %s", name, arguments[0] != '\0' ? " " : "", arguments, help);
    return true;
}

static void hint_beginning(const char *text, char *buffer, size_t size)
{
    const char *words[COMMAND_COUNT + ARRAY_LENGTH(own)];
    size_t count = add_command_names(words), used = 0;

    buffer[0] = '\0';
    for (size_t i = 0; i < count; i++)
        if (strncmp(words[i], text, strlen(text)) == 0 && used + strlen(words[i]) + 3 < size)
            used += (size_t)snprintf(buffer + used, size - used, "%s%s", used > 0 ? "  " : "",
                                     words[i]);
    if (used == 0)
        snprintf(buffer, size, "no command begins like this");
}

static void hint(const char *text, char *buffer, size_t size)
{
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (hint_whole(command_table[i].name, command_table[i].arguments, command_table[i].help,
                       text, buffer, size))
            return;
    for (size_t i = 0; i < ARRAY_LENGTH(own); i++)
        if (hint_whole(own[i].name, own[i].arguments, own[i].help, text, buffer, size))
            return;
    hint_beginning(text, buffer, size);
}

static void entered(void *context, const char *text)
{
    struct program *program = context;
    char copy[EDIT_BYTES];
    const char *line = copy;
    size_t length = strlen(text);

    while (length > 0 && text[length - 1] == ' ')
        length--; /* completion leaves one */
    snprintf(copy, sizeof(copy), "%.*s", (int)length, text);
    line += strspn(line, " ");
    length = strcspn(line, " ");
    if (length == 0)
        return;
    for (size_t i = 0; i < ARRAY_LENGTH(own); i++)
        if (strlen(own[i].name) == length && strncmp(own[i].name, line, length) == 0) {
            own[i].act(program, line + length + strspn(line + length, " "));
            return;
        }
    program->help = false; /* it would hide the answer */
    program->page_scroll = (struct scroll){0};
    controller_close_page(program->controller);
    controller_command(program->controller, line);
}

void order_open(struct program *program)
{
    struct dialog *dialog = controller_dialog(program->controller);

    controller_prompt(program->controller, ":", "", entered, program);
    dialog->history = &program->commands;
    dialog->complete = complete;
    dialog->hint = hint;
    program->commands.at = program->commands.count;
}
