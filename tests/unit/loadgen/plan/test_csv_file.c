/* Tables in the form of RFC 4180. */
#include "scratch_file.h"

#include "common/macros.h"
#include "loadgen/plan/input.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct test_fixture test_group_fixture = {make_files, remove_files};

static char why[256];

static int read_text(struct csv_file *csv, const char *text, size_t length)
{
    write_bytes(path, text, length);
    return csv_file_read(csv, path, why, sizeof(why));
}

TEST(rows_have_values_by_column)
{
    static const struct {
        const char *text;
        size_t rows;
        uint32_t line;              /* of the last row */
        const char *first, *second; /* values of the last row */
    } cases[] = {
        {"a,b\n1,2\n", 1, 2, "1", "2"},
        {"a,b\r\n1,2\r\n3,4", 2, 3, "3", "4"},
        {"\xef\xbb\xbf\"a\",b\n\"1,\"\"x\"\"\",\n", 1, 2, "1,\"x\"", ""},
        {"a,b\n\n\"1\r\n2\",\"\"\n\r\n x ,\"y\"", 2, 6, " x ", "y"},
        {"a,b\n,\n", 1, 2, "", ""},
        {"a,b\n\"\"\"\",\"\"\"\"\"\"", 1, 2, "\"", "\"\""},
        {"a,b\n1,2\r3\n", 1, 2, "1", "2\r3"},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct csv_file csv;

        if (read_text(&csv, cases[i].text, strlen(cases[i].text)) != 0)
            fail_msg("%zu: %s", i, why);
        assert_int_equal(csv.columns, 2);
        assert_string_equal(csv.cells[0], "a");
        assert_string_equal(csv.cells[1], "b");
        assert_int_equal(csv.rows, cases[i].rows);
        assert_int_equal(csv_file_line(&csv, csv.rows - 1), cases[i].line);
        assert_string_equal(csv_file_value(&csv, csv.rows - 1, 0), cases[i].first);
        assert_string_equal(csv_file_value(&csv, csv.rows - 1, 1), cases[i].second);
        csv_file_free(&csv);
    }
}

TEST(many_rows_are_read)
{
    enum { ROWS = 5000 };
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    struct csv_file csv;

    fputs("n\n", out);
    for (int i = 0; i < ROWS; i++)
        fprintf(out, "%d\n", i);
    fclose(out);
    assert_int_equal(read_text(&csv, text, length), 0);
    assert_int_equal(csv.rows, ROWS);
    for (int i = 0; i < ROWS; i++) {
        assert_int_equal(atoi(csv_file_value(&csv, (size_t)i, 0)), i);
        assert_int_equal(csv_file_line(&csv, (size_t)i), i + 2);
    }
    csv_file_free(&csv);
    free(text);
}

TEST(invalid_table_is_rejected_with_its_line)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"", ":1: no rows (the first line has the names of the columns)"},
        {"a,b\n", ":1: no rows (the first line has the names of the columns)"},
        {"a,b\n1,2\n3\n", ":3: 1 values, but the first row has 2 names"},
        {"a,b\n\"1\n\",2\n3,4,5\n", ":4: 3 values, but the first row has 2 names"},
        {"a\n1\n\"2\n3\n", ":3: quoted value without a closing quote"},
        {"a\n\"1\"2\n", ":2: text after a closing quote"},
        {"a\n1\"2\"\n", ":2: quote in a value that is not quoted"},
        {"a,a\n1,2\n", ":1: two columns have the name 'a'"},
        {"a,\n1,2\n", ":1: invalid name '' of column 2"},
        {"{{a}}\n1\n", ":1: invalid name '{{a}}' of column 1 (no braces)"},
    };
    struct csv_file csv;

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        assert_int_equal(read_text(&csv, cases[i].text, strlen(cases[i].text)), -1);
        if (strstr(why, cases[i].why) == NULL)
            fail_msg("%zu: %s", i, why);
        csv_file_free(&csv);
    }
    assert_int_equal(read_text(&csv, "a\n\0\n", 4), -1);
    assert_non_null(strstr(why, ":1: not text: it contains a NUL byte"));
    csv_file_free(&csv);
    assert_int_equal(csv_file_read(&csv, "/nowhere/at/all", why, sizeof(why)), -1);
    assert_string_equal(why, "cannot read '/nowhere/at/all': No such file or directory");
    csv_file_free(&csv);
}
