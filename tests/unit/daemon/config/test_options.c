/* The command line of webserverd. */
#include "common/macros.h"
#include "daemon/config/options.h"
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>

enum { WORDS_MAX = 8 };

struct line {
    const char *words[WORDS_MAX]; /* after the program name */
    enum options_action action;
    const char *file;
    const char *overrides[WORDS_MAX];
    const char *message; /* the first line of it */
};

static const struct line lines[] = {
    {{NULL}, OPTIONS_RUN, NULL, {NULL}, NULL},
    {{"-f", "a.ini"}, OPTIONS_RUN, "a.ini", {NULL}, NULL},
    {{"-fa.ini", "-t"}, OPTIONS_CHECK, "a.ini", {NULL}, NULL},
    {{"--config=a.ini", "--test"}, OPTIONS_CHECK, "a.ini", {NULL}, NULL},
    {{"-T", "-t"}, OPTIONS_DUMP, NULL, {NULL}, NULL},
    {{"-tT"}, OPTIONS_DUMP, NULL, {NULL}, NULL},
    {{"--dump"}, OPTIONS_DUMP, NULL, {NULL}, NULL},
    {{"-o", "a.b=c", "--override", "d.e=f"}, OPTIONS_RUN, NULL, {"a.b=c", "d.e=f"}, NULL},
    {{"-V"}, OPTIONS_VERSION, NULL, {NULL}, NULL},
    {{"--version"}, OPTIONS_VERSION, NULL, {NULL}, NULL},
    {{"-h", "-z"}, OPTIONS_HELP, NULL, {NULL}, NULL},
    {{"--help"}, OPTIONS_HELP, NULL, {NULL}, NULL},
    {{"-f", "a.ini", "-x"}, OPTIONS_WRONG, "a.ini", {NULL}, "unknown option -x"},
    {{"-tz"}, OPTIONS_WRONG, NULL, {NULL}, "unknown option -z"},
    {{"--tset"}, OPTIONS_WRONG, NULL, {NULL}, "unknown option --tset; did you mean --test?"},
    {{"-t", "--overide=a.b=c"},
     OPTIONS_WRONG,
     NULL,
     {NULL},
     "unknown option --overide; did you mean --override?"},
    {{"--qqqqq"}, OPTIONS_WRONG, NULL, {NULL}, "unknown option --qqqqq"},
    {{"-f"}, OPTIONS_WRONG, NULL, {NULL}, "-f (--config) needs an argument: FILE"},
    {{"--override"},
     OPTIONS_WRONG,
     NULL,
     {NULL},
     "-o (--override) needs an argument: SECTION.KEY=VALUE"},
    {{"--test=yes"}, OPTIONS_WRONG, NULL, {NULL}, "--test takes no argument"},
    {{"a.ini"},
     OPTIONS_WRONG,
     NULL,
     {NULL},
     "'a.ini' is not an option; name a configuration file with -f FILE"},
    {{"--", "-t"},
     OPTIONS_WRONG,
     NULL,
     {NULL},
     "'-t' is not an option; name a configuration file with -f FILE"},
};

static void check_message(const struct line *line, const char *message)
{
    char expected[256];

    if (line->message == NULL) {
        assert_string_equal(message, "");
        return;
    }
    snprintf(expected, sizeof(expected), "webserverd: %s\ntry webserverd -h\n", line->message);
    assert_string_equal(message, expected);
}

static void check_line(const struct line *line)
{
    char *argv[WORDS_MAX + 2], *message, *text;
    struct options options;
    size_t length, overrides = 0;
    int argc = 0;
    FILE *errors = open_memstream(&message, &length);

    argv[argc++] = (char *)"webserverd";
    while (argc <= WORDS_MAX && line->words[argc - 1] != NULL) {
        argv[argc] = (char *)line->words[argc - 1];
        argc++;
    }
    argv[argc] = NULL;
    assert_int_equal(options_parse(&options, argc, argv, errors), line->action);
    assert_int_equal(fclose(errors), 0);
    text = options.file == NULL ? NULL : strdup(options.file);
    if (line->file == NULL)
        assert_null(text);
    else
        assert_string_equal(text, line->file);
    free(text);
    for (; overrides < WORDS_MAX && line->overrides[overrides] != NULL; overrides++)
        assert_string_equal(options.overrides[overrides], line->overrides[overrides]);
    assert_int_equal(options.override_count, overrides);
    check_message(line, message);
    free(message);
    options_free(&options);
}

TEST(command_lines_are_parsed)
{
    for (size_t i = 0; i < ARRAY_LENGTH(lines); i++)
        check_line(&lines[i]);
}

static char *printed(void (*print)(FILE *out))
{
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    print(out);
    assert_int_equal(fclose(out), 0);
    return text;
}

TEST(usage_lists_every_option_in_80_columns)
{
    static const char *const options[] = {
        "-f, --config FILE ", "-o, --override SECTION.KEY=VALUE ", "-t, --test ",
        "-T, --dump ",        "-S, --self-signed DIRECTORY ",      "-V, --version ",
        "-h, --help "};
    char *text = printed(options_print_usage);

    for (size_t i = 0; i < ARRAY_LENGTH(options); i++)
        assert_non_null(strstr(text, options[i]));
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") <= 80);
    free(text);
}

static void print_version(FILE *out)
{
    options_print_version(out, "Landlock 7");
}

TEST(version_has_the_sandbox)
{
    char *text = printed(print_version);

    assert_string_equal(text,
                        "webserverd " WEBSERVERD_VERSION "\nsandbox of workers: Landlock 7\n");
    free(text);
}
