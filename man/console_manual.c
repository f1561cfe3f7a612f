/*
 * Writes wsconsole(1): `console_manual TEMPLATE OUTPUT SCREENS` copies TEMPLATE. Its line
 *
 *     @OPTIONS@      becomes the list of options of console/app/options.def
 *     @SETTINGS@     the options that console.ini may set
 *     @KEYS@         the list of keys of console/ui/keys.def
 *     @MARKS@        the marks on the graphs, from console/data/marks.def
 *     @HEALTH@       the default alert rules, from console/data/health.def
 *     @SCENARIOS@    the guided scenarios of console/lab/scenarios.def
 *     @SCREEN name@  the golden screen SCREENS/name-72x22-ascii.txt of the tests
 */
#include "console/lab/scenario.h"

#include <curses.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { LINE_BYTES = 1024 };

static const char *screens;

static const struct {
    const char *name, *argument, *help;
    char letter;
    bool setting;
} options[] = {
#define FILE                                        true
#define LINE                                        false
#define OPTION(name, letter, argument, place, help) {#name, argument, help, letter, place},
#include "console/app/options.def"
#undef OPTION
#undef LINE
#undef FILE
};

static const struct {
    const char *group, *shown, *help;
} keys[] = {
#define KEY(action, group, shown, brief, first, second, help) {group, shown, help},
#include "console/ui/keys.def"
#undef KEY
};

static const struct {
    char letter;
    const char *help;
} marks[] = {
#define MARK(name, letter, severe, help) {letter, help},
#include "console/data/marks.def"
#undef MARK
};

static const struct {
    const char *rule;
    int hold_s;
} health[] = {
#define HEALTH(rule, severity, hold_s, view, words) {rule, hold_s},
#include "console/data/health.def"
#undef HEALTH
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Writes TEXT, escaped for roff. */
static void put(FILE *out, const char *text)
{
    if (*text == '.' || *text == '\'')
        fputs("\\&", out);
    for (; *text != '\0'; text++) {
        if (*text == '\\')
            fputs("\\e", out);
        else if (*text == '-')
            fputs("\\-", out);
        else
            fputc(*text, out);
    }
}

static void put_name(FILE *out, const char *name)
{
    for (; *name != '\0'; name++)
        fputc(*name == '_' ? '-' : *name, out);
}

static void put_options(FILE *out)
{
    fputs(".Bl -tag -width Ds\n", out);
    for (size_t i = 0; i < COUNT(options); i++) {
        fputs(".It ", out);
        if (options[i].letter != 0)
            fprintf(out, "Fl %c , ", options[i].letter);
        fputs("Fl Fl ", out);
        put_name(out, options[i].name);
        if (options[i].argument[0] != '\0')
            fprintf(out, " Ar \"%s\"", options[i].argument);
        fputs("\n", out);
        put(out, options[i].help);
        fputs("\n", out);
    }
    fputs(".El\n", out);
}

static void put_settings(FILE *out)
{
    bool first = true;

    for (size_t i = 0; i < COUNT(options); i++) {
        if (!options[i].setting)
            continue;
        fprintf(out, "%s.Cm ", first ? "" : " ,\n");
        put_name(out, options[i].name);
        first = false;
    }
    fputs("\n", out);
}

static void put_keys(FILE *out)
{
    for (size_t i = 0; i < COUNT(keys); i++) {
        if (i == 0 || strcmp(keys[i].group, keys[i - 1].group) != 0)
            fprintf(out, "%s%s:\n.Bl -tag -width \"Shift-Tab\" -compact\n",
                    i == 0 ? "" : ".El\n.Pp\n", keys[i].group);
        fprintf(out, ".It Ic \\&");
        put(out, keys[i].shown);
        fputs("\n", out);
        put(out, keys[i].help);
        fputs("\n", out);
    }
    fputs(".El\n", out);
}

static void put_marks(FILE *out)
{
    fputs(".Bl -tag -width Ds -compact\n", out);
    for (size_t i = 0; i < COUNT(marks); i++)
        fprintf(out, ".It Cm \\&%c\n%s\n", marks[i].letter, marks[i].help);
    fputs(".El\n", out);
}

static void put_health(FILE *out)
{
    fputs(".Bl -column \"connections_shed_descriptors\" \"300 s\" -compact\n", out);
    for (size_t i = 0; i < COUNT(health); i++) {
        fputs(".It ", out);
        put(out, health[i].rule);
        fprintf(out, " Ta %d s\n", health[i].hold_s);
    }
    fputs(".El\n", out);
}

/* Writes each sentence on a line of its own, as mandoc -T lint demands. */
static void put_sentences(FILE *out, const char *text)
{
    const char *end;
    char sentence[LINE_BYTES];

    while ((end = strstr(text, ". ")) != NULL) {
        snprintf(sentence, sizeof(sentence), "%.*s", (int)(end + 1 - text), text);
        put(out, sentence);
        fputs("\n", out);
        text = end + 2;
    }
    put(out, text);
    fputs("\n", out);
}

static void put_scenarios(FILE *out)
{
    fputs(".Bl -tag -width Ds -compact\n", out);
    for (size_t i = 0; i < LAB_SCENARIO_COUNT; i++) {
        fprintf(out, ".It Cm %s\n", lab_scenario_table[i]->name);
        put(out, lab_scenario_table[i]->title);
        fputs(".\n", out);
        put_sentences(out, lab_scenario_table[i]->about);
    }
    fputs(".El\n", out);
}

static int put_screen(FILE *out, const char *name)
{
    char path[LINE_BYTES], line[LINE_BYTES];
    FILE *screen;

    snprintf(path, sizeof(path), "%s/%s-72x22-ascii.txt", screens, name);
    screen = fopen(path, "re");
    if (screen == NULL) {
        perror(path);
        return -1;
    }
    fputs(".Bd -literal\n", out);
    while (fgets(line, sizeof(line), screen) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        fputs("\\&", out);
        put(out, line);
        fputs("\n", out);
    }
    fputs(".Ed\n", out);
    fclose(screen);
    return 0;
}

static int put_line(FILE *out, const char *line)
{
    char name[64];

    if (strcmp(line, "@OPTIONS@\n") == 0)
        put_options(out);
    else if (strcmp(line, "@SETTINGS@\n") == 0)
        put_settings(out);
    else if (strcmp(line, "@KEYS@\n") == 0)
        put_keys(out);
    else if (strcmp(line, "@MARKS@\n") == 0)
        put_marks(out);
    else if (strcmp(line, "@HEALTH@\n") == 0)
        put_health(out);
    else if (strcmp(line, "@SCENARIOS@\n") == 0)
        put_scenarios(out);
    else if (sscanf(line, "@SCREEN %63[a-z-]@", name) == 1)
        return put_screen(out, name);
    else
        fputs(line, out);
    return 0;
}

int main(int argc, char **argv)
{
    char line[LINE_BYTES];
    FILE *template, *out;
    int failed = 0;

    if (argc != 4) {
        fprintf(stderr, "usage: console_manual TEMPLATE OUTPUT SCREENS\n");
        return 2;
    }
    screens = argv[3];
    template = fopen(argv[1], "re");
    out = fopen(argv[2], "we");
    if (template == NULL || out == NULL) {
        perror("console_manual");
        return 1;
    }
    while (!failed && fgets(line, sizeof(line), template) != NULL)
        failed = put_line(out, line);
    fclose(template);
    return fclose(out) != 0 || failed ? 1 : 0;
}
