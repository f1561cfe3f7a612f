/* The command line of the lab, and findings that are stored and read again. */
#include "loadgen/lab/session.h"

#include "tests/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORDS = 16 };

static char rejection[512];

/* Reads the words of LINE. */
static int read_line(struct lab_options *options, const char *line)
{
    static char text[256];
    char *words[WORDS] = {(char *)"lab"}, *rest = NULL;
    int count = 1;

    rejection[0] = '\0';
    snprintf(text, sizeof(text), "%s", line);
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        words[count++] = word;
    return lab_options_parse(options, count, words, rejection, sizeof(rejection));
}

TEST(options_are_parsed)
{
    struct lab_options options;

    assert_int_equal(read_line(&options, ""), 0);
    assert_int_equal(options.count, 0);
    assert_string_equal(options.page_directory, "wsload-lab");
    assert_int_equal(read_line(&options, "baseline --quick -o there concurrency"), 0);
    assert_int_equal(options.count, 2);
    assert_string_equal(options.chosen[0]->name, "baseline");
    assert_string_equal(options.chosen[1]->name, "concurrency");
    assert_true(options.quick);
    assert_string_equal(options.page_directory, "there");
    assert_int_equal(read_line(&options, "--duration=1500ms --rounds 7 -othere -h"), 0);
    assert_int_equal(options.duration_ms, 1500);
    assert_int_equal(options.rounds, 7);
    assert_int_equal(options.rate, 0);
    assert_int_equal(read_line(&options, "--rate 2k"), 0);
    assert_int_equal(options.rate, 2000);
    assert_int_equal(read_line(&options, "--duration=1500ms --rounds 7 -othere -h"), 0);
    assert_string_equal(options.page_directory, "there");
    assert_true(options.help);
    assert_false(options.resume);
    assert_int_equal(options.until_ms, 0);
    assert_int_equal(read_line(&options, "--until-decided baseline"), 0);
    assert_int_equal(options.until_ms, 5 * 60 * 1000);
    assert_int_equal(options.count, 1);
    assert_int_equal(read_line(&options, "--until-decided=30s baseline"), 0);
    assert_int_equal(options.until_ms, 30 * 1000);
    assert_int_equal(read_line(&options, "baseline --resume cache baseline"), 0);
    assert_true(options.resume);
    assert_int_equal(options.count, 2);
}

TEST(all_chooses_every_experiment_in_order)
{
    struct lab_options options;

    assert_int_equal(read_line(&options, "all"), 0);
    assert_int_equal(options.count, lab_experiment_count);
    for (size_t i = 0; i < lab_experiment_count; i++)
        assert_ptr_equal(options.chosen[i], &lab_experiments[i]);
}

TEST(invalid_arguments_are_rejected)
{
    static const struct {
        const char *line, *words;
    } cases[] = {
        {"basline", "did you mean 'baseline'?"},
        {"qqqqqqqqqqqq", "wsload lab lists them"},
        {"--quik", "did you mean --quick?"},
        {"-x", "unknown option -x"},
        {"--quick=yes", "--quick takes no value"},
        {"--rounds", "--rounds needs a value: --rounds N"},
        {"--rate 0", "--rate: '0' is out of range (1-10000000)"},
        {"--rate fast", "is out of range"},
        {"--rounds 0", "is out of range (1-101)"},
        {"--rounds 1000", "is out of range (1-101)"},
        {"--rounds two", "is out of range (1-101)"},
        {"-d 0", "invalid time '"},
        {"-d 48h", "invalid time '"},
        {"--until-decided=soon", "--until-decided: invalid time 'soon'"},
        {"--output=", "the value is empty"},
        {"--resume", "--resume needs the names of the experiments, or all"},
    };
    struct lab_options options;

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        assert_int_equal(read_line(&options, cases[i].line), -1);
        if (strstr(rejection, cases[i].words) == NULL)
            fail_msg("'%s' was rejected with: %s", cases[i].line, rejection);
    }
}

TEST(help_fits_80_columns)
{
    char *text, *rest = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    lab_help(out);
    fclose(out);
    for (size_t i = 0; i < lab_experiment_count; i++)
        assert_non_null(strstr(text, lab_experiments[i].question));
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        if (strlen(line) > 80)
            fail_msg("longer than 80 columns: %s", line);
    free(text);
}

static char directory[] = "/tmp/wsload-store-XXXXXX";
static const struct machine machine = {{{"Processor", "two cores", false}}, 1};
static const struct lab settings = {.rounds = 3, .trial_ms = 400};

static int make_directory(void **state)
{
    (void)state;
    return mkdtemp(directory) != NULL ? 0 : -1;
}

static int remove_directory(void **state)
{
    (void)state;
    return rmdir(directory);
}

const struct test_fixture test_group_fixture = {make_directory, remove_directory};

static struct document *create_findings(void)
{
    static const struct document_column columns[] = {{"a", DOCUMENT_LEFT, 0},
                                                     {"b", DOCUMENT_RIGHT, 0}};
    struct document *findings = findings_create("Title");

    assert_non_null(findings);
    document_subtitle(findings, "Subtitle");
    document_legend(findings, "Took %d s.", 3);
    document_fact(findings, DOCUMENT_STRONG, "rate", "12 \"and\" <more>");
    document_table(findings, "t", columns, 2);
    document_row(findings, DOCUMENT_BAD);
    document_cell(findings, "1 µs");
    document_plot(findings, "p", (struct plot_axis){true, axis_count},
                  (struct plot_axis){false, axis_mebibytes});
    document_shade(findings, 1.5);
    document_line(findings, "l", false);
    document_point_between(findings, 1, 0.1, NAN, NAN);
    document_point_between(findings, 2, 3, 2.5, 1.0 / 3 + 4);
    document_line(findings, "m", true);
    document_point(findings, 1, NAN);
    document_point(findings, 2, 2);
    document_note(findings, DOCUMENT_WARNING, "Met:", "100 %%");
    document_section(findings, "Section", "link.html");
    document_note(findings, DOCUMENT_QUIET, "", "text");
    return findings;
}

/* Both forms that people read. */
static char *written(const struct document *document)
{
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    assert_int_equal(document_write_text(out, document, false), 0);
    assert_int_equal(document_write_html(out, document), 0);
    fclose(out);
    return text;
}

static enum store_outcome read_findings(const char *name, const json_t *conditions,
                                        struct document **findings, char *why, size_t size)
{
    struct machine read;

    *findings = NULL;
    return store_read(directory, name, conditions, &read, findings, why, size);
}

TEST(findings_read_again_are_the_same)
{
    json_t *conditions = store_conditions(&settings, &machine, "server 1", "client 1");
    struct document *findings = create_findings(), *again;
    char why[256] = "", *before, *after;

    assert_int_equal(store_write(directory, "x", conditions, &machine, findings, why, sizeof(why)),
                     0);
    assert_int_equal(read_findings("x", conditions, &again, why, sizeof(why)), STORE_FOUND);
    before = written(findings);
    after = written(again);
    assert_string_equal(before, after);
    free(before);
    free(after);
    document_free(findings);
    document_free(again);
    assert_int_equal(store_forget(directory, "x", why, sizeof(why)), 0);
    assert_int_equal(read_findings("x", conditions, &again, why, sizeof(why)), STORE_MISSING);
    json_decref(conditions);
}

TEST(other_files_are_refused)
{
    static const char *const texts[] = {"", "{}", "{\"findings\": {\"sections\": []}}", "[1, 2]"};
    json_t *none = json_object();
    char path[64], why[256];
    struct document *again;

    snprintf(path, sizeof(path), "%s/y.json", directory);
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
        assert_int_equal(store_replace(path, texts[i], strlen(texts[i]), why, sizeof(why)), 0);
        assert_int_equal(read_findings("y", none, &again, why, sizeof(why)), STORE_REFUSED);
        assert_non_null(strstr(why, "has no findings; remove it"));
    }
    assert_int_equal(store_forget(directory, "y", why, sizeof(why)), 0);
    json_decref(none);
}
