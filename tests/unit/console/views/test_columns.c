/* One name for one thing: the columns of all lists, and the numbers that the help explains. */
#include "console/ui/filter.h"
#include "console/views/subject.h"
#include "console/views/views.h"
#include "tests/test.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { COLUMNS_MOST = 200, SCREEN_BYTES = 100000 };

static const struct column *all[COLUMNS_MOST];
static size_t count;

static void add_list(const struct list *list)
{
    for (size_t i = 0; i < list->column_count && count < COLUMNS_MOST; i++)
        all[count++] = &list->columns[i];
}

static int collect(void **state)
{
    (void)state;
    for (size_t i = 0; i < VIEW_COUNT; i++) {
        const struct view *view = view_table[i];

        for (size_t j = 0; j < view->list_count; j++)
            add_list(&view->lists[j]);
        if (view->list_count == 0 && view->list != NULL)
            add_list(view->list);
    }
    assert_true(count < COLUMNS_MOST);
    return 0;
}

const struct test_fixture test_group_fixture = {collect, NULL};

TEST(same_title_is_same_name)
{
    char left[TABLE_NAME_BYTES], right[TABLE_NAME_BYTES];

    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < i; j++) {
            bool title = strcmp(all[i]->title, all[j]->title) == 0;
            bool name = strcmp(column_name(all[i], left), column_name(all[j], right)) == 0;

            if (title != name || (title && all[i]->output != all[j]->output))
                fail_msg("columns %s (%s) and %s (%s)", all[i]->title, left, all[j]->title, right);
        }
}

TEST(word_names_one_column_of_a_list)
{
    char name[TABLE_NAME_BYTES];

    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++) {
            if (strcmp(all[i]->title, all[j]->title) == 0)
                continue;
            if (column_is_named(all[j], column_name(all[i], name)) ||
                column_is_named(all[j], column_output_name(all[i], name)))
                fail_msg("'%s' is %s and %s", name, all[i]->title, all[j]->title);
        }
}

/* As a user types what the screen shows. */
TEST(title_in_lower_case_is_a_name)
{
    char text[FILTER_BYTES], why[128];
    struct filter filter;

    for (size_t i = 0; i < count; i++) {
        if (strchr(all[i]->title, ' ') != NULL)
            continue;
        snprintf(text, sizeof(text), "%s:1", all[i]->title);
        for (char *c = text; *c != '\0'; c++)
            *c = (char)tolower((unsigned char)*c);
        if (filter_set(&filter, text, why, sizeof(why)) != 0 ||
            views_check_filter(&filter, why, sizeof(why)) != 0)
            fail_msg("%s: %s", text, why);
        assert_int_equal(filter.word[0].compare, ':');
    }
}

TEST(unknown_name_is_rejected_with_nearest)
{
    static const char *const cases[][2] = {
        {"statsu:404", "unknown column 'statsu' in the filter; did you mean 'status'?"},
        {"conn>5", "unknown column 'conn' in the filter; did you mean 'conns'?"},
        {"reqs/s>5", "unknown column 'reqs_s' in the filter; did you mean 'req_s'?"},
        {"zebra:1", "unknown column 'zebra' in the filter (examples: status, path, client)"},
    };
    char why[128];
    struct filter filter;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(filter_set(&filter, cases[i][0], why, sizeof(why)), 0);
        assert_int_equal(views_check_filter(&filter, why, sizeof(why)), -1);
        assert_string_equal(why, cases[i][1]);
    }
}

static bool is_title(const struct view *view, const char *label)
{
    for (size_t i = 0; i < (view->list_count > 0 ? view->list_count : view->list != NULL); i++) {
        const struct list *list = view->list_count > 0 ? &view->lists[i] : view->list;

        for (size_t j = 0; j < list->column_count; j++)
            if (!list->columns[j].hidden && strcmp(list->columns[j].title, label) == 0)
                return true;
    }
    return false;
}

static const char *screen_of(const struct view *view)
{
    static char text[SCREEN_BYTES];
    char path[512];
    size_t length;
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s-200x50.txt", GOLDEN, view->name);
    file = fopen(path, "re");
    if (file == NULL)
        fail_msg("%s: %s", path, strerror(errno));
    length = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[length] = '\0';
    return text;
}

/* A label such as "p50, p99" stands for several numbers. */
static void check_labels(const struct view *view, const char *screen)
{
    for (const struct view_number *number = view->numbers; number->label != NULL; number++) {
        char labels[64], *rest = labels, *label;

        if (number->kind == NUMBER_TEXT)
            continue; /* may be of a part that is not always there */
        snprintf(labels, sizeof(labels), "%s", number->label);
        while ((label = strsep(&rest, ",")) != NULL) {
            label += strspn(label, " ");
            if (!is_title(view, label) && strstr(screen, label) == NULL)
                fail_msg("%s does not show '%s', which its help explains", view->name, label);
        }
    }
}

TEST(help_explains_numbers_that_the_view_shows)
{
    for (size_t i = 0; i < VIEW_COUNT; i++)
        if (view_table[i]->numbers != NULL)
            check_labels(view_table[i], screen_of(view_table[i]));
    check_labels(&subject_view, screen_of(&subject_view));
}
