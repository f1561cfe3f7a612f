/* The script for gnuplot, and a gnuplot that is missing or fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "loadgen/report/gnuplot.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[] = "/tmp/wsload-gnuplot-XXXXXX";
static char *old_path;

/* Installs a shell script with the text SCRIPT as gnuplot in PATH. */
static void put_gnuplot(const char *script)
{
    char file[128];
    FILE *out;

    snprintf(file, sizeof(file), "%s/gnuplot", directory);
    out = fopen(file, "w");
    assert_non_null(out);
    fprintf(out, "#!/bin/sh\n%s\n", script);
    fclose(out);
    assert_int_equal(chmod(file, 0700), 0);
    setenv("PATH", directory, 1);
}

static int set_up(void **state)
{
    (void)state;
    old_path = strdup(getenv("PATH"));
    return mkdtemp(directory) != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    char file[128];

    (void)state;
    snprintf(file, sizeof(file), "%s/gnuplot", directory);
    unlink(file);
    rmdir(directory);
    setenv("PATH", old_path, 1);
    free(old_path);
    return 0;
}

/* A plot with two lines, and one without points. */
static struct document *make_document(void)
{
    struct document *document = document_create("wsload", (struct document_layout){0});

    assert_non_null(document);
    document_title(document, "a 'title'\nin two");
    document_plot(document, "It's one", (struct plot_axis){true, axis_count},
                  (struct plot_axis){false, axis_percent});
    document_line(document, "measured", false);
    document_point_between(document, 1, 100, 90, 110);
    document_point(document, 10, 1000);
    document_point_between(document, 100, 2000, 1900, 2100);
    document_line(document, "law", true);
    document_point(document, 1, 100);
    document_point(document, 10, 1000);
    document_plot(document, "nothing", (struct plot_axis){false, axis_count},
                  (struct plot_axis){false, axis_count});
    document_line(document, "none", false);
    return document;
}

static char *draw(int expected, int error)
{
    struct document *document = make_document();
    FILE *out = tmpfile();
    char *text = calloc(1, 65536);
    int result;

    assert_non_null(out);
    assert_non_null(text);
    errno = 0;
    result = document_write_png(out, document);
    assert_int_equal(result, expected);
    if (result != 0)
        assert_int_equal(errno, error);
    document_free(document);
    rewind(out);
    assert_true(fread(text, 1, 65535, out) < 65535);
    fclose(out);
    return text;
}

static void script_has_data_axes_and_lines(void **state)
{
    static const char *const parts[] = {
        "set multiplot layout 1,1 title 'a ''title''\\x0ain two'\n",
        "$d0_0 << END\n1 100 90 110\n10 1000 nan nan\n100 2000 1900 2100\nEND\n",
        "set title 'It''s one'\nset logscale x\nset xrange [1:100]\nset xtics ('1' 1, ",
        "unset logscale y\nset yrange [0:2000]\nset ytics ('0%%' 0, '500%%' 500, ",
        "plot $d0_0 using 1:2:3:4 with yerrorbars",
        "$d0_0 using 1:2 with linespoints pt 7 ps 0.6 lw 2 lc rgb '#0072b2'",
        " dt solid title 'measured'",
        ", $d0_1 using 1:2 with lines lw 2",
        "unset multiplot\n",
    };
    char *text;

    (void)state;
    put_gnuplot("exec /bin/cat");
    assert_true(gnuplot_is_installed());
    text = draw(0, 0);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (strstr(text, parts[i]) == NULL)
            fail_msg("no %s in\n%s", parts[i], text);
    assert_null(strstr(text, "nothing"));
    free(text);
}

static void missing_or_failing_gnuplot_is_an_error(void **state)
{
    (void)state;
    put_gnuplot("/bin/cat >/dev/null; exit 3");
    free(draw(-1, EIO));
    setenv("PATH", "/nonexistent", 1);
    assert_false(gnuplot_is_installed());
    free(draw(-1, ENOENT));
    setenv("PATH", old_path, 1);
}

static void installed_gnuplot_draws_png(void **state)
{
    char *text;

    (void)state;
    setenv("PATH", old_path, 1);
    if (!gnuplot_is_installed())
        skip();
    text = draw(0, 0);
    assert_memory_equal(text, "\x89PNG\r\n", 6);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(script_has_data_axes_and_lines),
        cmocka_unit_test(missing_or_failing_gnuplot_is_an_error),
        cmocka_unit_test(installed_gnuplot_draws_png),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
