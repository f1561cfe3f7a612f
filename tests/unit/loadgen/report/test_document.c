/* Documents: no loss of data, plots drawn as text. */
#include "loadgen/report/document.h"

#include "tests/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 3000 };

static const struct document_column columns[] = {{"a", DOCUMENT_LEFT, 0}, {"b", DOCUMENT_RIGHT, 0}};

static struct document *create(void)
{
    struct document *document = document_create("test", (struct document_layout){.column_gap = 2});

    assert_non_null(document);
    document_title(document, "Title");
    return document;
}

TEST(everything_is_kept_however_much_it_is)
{
    struct document *document = create();
    const struct document_section *section;
    char text[16];

    for (int i = 0; i < 100; i++)
        document_table(document, "t", columns, 2);
    for (int i = 0; i < MANY; i++) {
        document_row(document, DOCUMENT_NORMAL);
        document_cell(document, "%d", i);
        document_cell(document, "%d", -i);
        document_note(document, DOCUMENT_NORMAL, "", "%d", i);
        document_fact(document, DOCUMENT_NORMAL, "label", "%d", i);
    }
    for (int i = 0; i < 100; i++)
        document_plot(document, "p", (struct plot_axis){false, axis_count},
                      (struct plot_axis){false, axis_count});
    document_line(document, "l", false);
    for (int i = 0; i < MANY; i++)
        document_point(document, i, 2 * i);
    assert_false(document->failed);
    section = &document->sections[0];
    assert_int_equal(section->table_count, 100);
    assert_int_equal(section->tables[99].row_count, MANY);
    assert_int_equal(section->plot_count, 100);
    assert_int_equal(section->plots[99].line[0].count, MANY);
    for (int i = 0; i < MANY; i++) {
        snprintf(text, sizeof(text), "%d", i);
        assert_string_equal(section->tables[99].rows[i].cells[0], text);
        assert_string_equal(section->notes[i].text, text);
        assert_string_equal(section->facts[i].text, text);
        assert_true(section->plots[99].line[0].points[i].y == 2 * i);
    }
    document_free(document);
}

TEST(incomplete_document_is_not_written)
{
    struct document *document = create();
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    document->failed = true;
    errno = 0;
    assert_int_equal(document_write_text(out, document, false), -1);
    assert_int_equal(errno, ENOMEM);
    fclose(out);
    assert_string_equal(text, "");
    free(text);
    document_free(document);
}

/* ---- Plots as text ---- */

static struct document *create_plot(struct plot_axis x, struct plot_axis y)
{
    struct document *document =
        document_create("test", (struct document_layout){.draws_plots = true});

    assert_non_null(document);
    document_plot(document, "Title", x, y);
    return document;
}

/* The lines of the plot, LINES of them; frees DOCUMENT. */
static char *draw(struct document *document, char **lines, size_t count)
{
    char *text, *rest;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    assert_int_equal(document_write_text(out, document, false), 0);
    fclose(out);
    document_free(document);
    lines[0] = strtok_r(text, "\n", &rest);
    for (size_t i = 1; i < count; i++)
        lines[i] = strtok_r(NULL, "\n", &rest);
    return text;
}

TEST(points_lie_at_their_values)
{
    struct document *document =
        create_plot((struct plot_axis){false, axis_count}, (struct plot_axis){false, axis_rate});
    char *lines[15], *text;

    document_line(document, "rising", false);
    document_point(document, 0, 0);
    document_point(document, 63, 900);
    document_line(document, "flat", false);
    document_point(document, 0, 500);
    document_point(document, 63, 500);
    text = draw(document, lines, 15);
    assert_string_equal(lines[0], "Title");
    assert_non_null(strstr(lines[1], "1.00k/s |"));
    assert_int_equal(lines[2][strlen(lines[2]) - 1], 'o'); /* 900 of 1000: the ninth of ten rows */
    assert_int_equal(strlen(lines[2]), 12 + 2 + 64);
    assert_int_equal(lines[5][12 + 2], 'x'); /* 500 of 1000 */
    assert_int_equal(lines[5][strlen(lines[5]) - 1], 'x');
    assert_memory_equal(lines[10], "         0/s |o", 15);
    assert_string_equal(lines[13], "              o rising");
    assert_string_equal(lines[14], "              x flat");
    free(text);
}

TEST(logarithmic_axis_omits_values_that_are_not_positive)
{
    struct document *document =
        create_plot((struct plot_axis){true, axis_count}, (struct plot_axis){true, axis_time});
    char *lines[14], *text;
    size_t marks = 0;

    document_line(document, "only", false);
    document_point(document, 0, 5);
    document_point(document, 1, 0);
    document_point(document, 10, 1000);
    document_point(document, 1000, 100000);
    text = draw(document, lines, 14);
    for (size_t i = 1; i < 12; i++)
        for (const char *at = strchr(lines[i], 'o'); at != NULL; at = strchr(at + 1, 'o'))
            marks++;
    assert_int_equal(marks, 2);
    for (size_t i = 0; i < 14; i++)
        assert_true(strlen(lines[i]) <= 81); /* the µ takes two bytes */
    free(text);
}

TEST(plot_without_points_is_empty)
{
    struct document *document =
        create_plot((struct plot_axis){true, axis_count}, (struct plot_axis){true, axis_time});
    char *lines[1];

    free(draw(document, lines, 1));
    assert_null(lines[0]);
}
