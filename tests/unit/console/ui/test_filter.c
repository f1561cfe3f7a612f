/* The filter: what its words match, and invalid words. */
#include "console/ui/filter.h"

#include "common/macros.h"
#include "tests/test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct column columns[] = {
    {.title = "STATUS", .width = 6, .right = true},
    {.title = "TOOK", .width = 8, .right = true},
    {.title = "PATH", .width = 20, .name = "path"},
};

/* A request: GET /docs/Index.html, answered 404 in 12 ms. */
static void fill(struct cell *cells)
{
    memset(cells, 0, 3 * sizeof(*cells));
    strcpy(cells[0].text, "404");
    cells[0].number = 404;
    strcpy(cells[1].text, "12.0 ms");
    cells[1].number = 12e6;
    strcpy(cells[2].text, "/docs/Index.html");
    cells[2].number = NAN;
}

TEST(words_match_rows)
{
    static const struct {
        const char *text;
        bool matches;
    } cases[] = {
        {"", true},
        {"docs", true},
        {"INDEX", true},
        {"nothing", false},
        {"docs index", true},
        {"docs nothing", false},
        {"!docs", false},
        {"!nothing", true},
        {"status:404", true},
        {"status:4xx", true},
        {"status:5xx", false},
        {"status:5xx|4xx", true},
        {"!status:4xx", false},
        {"status>400", true},
        {"status<400", false},
        {"path:docs", true},
        {"path:404", false},
        {"path:doc?/index", true},
        {"took>10ms", true},
        {"took>20ms", false},
        {"took<1s", true},
        {"slower:10ms", true},
        {"slower:1m", false},
        {"!slower:1m", true},
        {"client:10.0.0.1", true}, /* no such column: matches */
        {"path>5", false},         /* a text has no number */
        {"4xx", true},
        {":", false},
        {"!", false},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct filter filter = {0};
        struct filter_plan plan;
        struct cell cells[3];
        char why[128] = "";

        fill(cells);
        if (filter_set(&filter, cases[i].text, why, sizeof(why)) != 0)
            fail_msg("'%s': %s", cases[i].text, why);
        plan = filter_plan_for(&filter, columns, 3);
        for (size_t j = 0; j < 3; j++)
            if (!plan.reads[j])
                strcpy(cells[j].text, "not read: docs index nothing");
        if (filter_matches(&plan, cells) != cases[i].matches)
            fail_msg("'%s' should %smatch", cases[i].text, cases[i].matches ? "" : "not ");
    }
}

TEST(invalid_words_are_rejected_without_change)
{
    struct filter filter = {0};
    char why[128], many[FILTER_BYTES] = "";

    assert_int_equal(filter_set(&filter, "docs", why, sizeof(why)), 0);
    assert_int_equal(filter_set(&filter, "took>fast", why, sizeof(why)), -1);
    assert_non_null(strstr(why, "'fast' in the filter is not a number"));
    assert_int_equal(filter_set(&filter, "took>12parsecs", why, sizeof(why)), -1);
    for (int i = 0; i <= FILTER_WORDS; i++)
        strcat(many, "a ");
    assert_int_equal(filter_set(&filter, many, why, sizeof(why)), -1);
    assert_non_null(strstr(why, "more than 16 words"));
    assert_string_equal(filter.text, "docs");
}

TEST(toggle_adds_and_removes_a_word)
{
    struct filter filter = {0};
    char why[128];

    assert_int_equal(filter_set(&filter, "status:4xx", why, sizeof(why)), 0);
    assert_int_equal(filter_toggle(&filter, "path", "/a b|c", false), 0);
    assert_string_equal(filter.text, "status:4xx path:/a?b?c");
    assert_int_equal(filter_toggle(&filter, "path", "/a b|c", false), 0);
    assert_string_equal(filter.text, "status:4xx");
    assert_int_equal(filter_toggle(&filter, "status", "4xx", false), 0);
    assert_string_equal(filter.text, "");
    assert_false(filter_active(&filter));
}
