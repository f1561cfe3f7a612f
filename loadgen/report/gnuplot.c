#include "loadgen/report/gnuplot.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PLOT_WIDTH = 700, PLOT_HEIGHT = 420, TITLE_HEIGHT = 40, TITLE = 512 };

/* The colours of the HTML pages, which colour-blind readers can tell apart; dashes for print. */
static const struct {
    const char *colour, *pale, *dashes;
} styles[PLOT_LINES_MAX] = {
    {"#0072b2", "#99c7e0", "solid"},  {"#c05600", "#e6bb99", "(14,6)"},
    {"#00785a", "#99c9bd", "(4,6)"},  {"#7b3fa0", "#cab2d9", "(18,6,4,6)"},
    {"#a8185b", "#dca3bd", "(24,8)"}, {"#666666", "#c2c2c2", "(8,4)"},
};

bool gnuplot_is_installed(void)
{
    const char *path = getenv("PATH");
    char *directories = strdup(path != NULL ? path : "/usr/bin:/bin"), *rest = NULL;
    bool found = false;

    for (char *directory = directories != NULL ? strtok_r(directories, ":", &rest) : NULL;
         directory != NULL && !found; directory = strtok_r(NULL, ":", &rest)) {
        char file[4096];

        snprintf(file, sizeof(file), "%s/gnuplot", directory);
        found = access(file, X_OK) == 0;
    }
    free(directories);
    return found;
}

/* ---- The script ---- */

/* In single quotes only the quote is special; it is doubled. */
static void put_quoted(FILE *script, const char *text)
{
    fputc('\'', script);
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            fputc('\'', script);
        fputc(*text, script);
    }
    fputc('\'', script);
}

/* A tick's label is a format, in which a percent sign is doubled. */
static void put_label(FILE *script, const char *label)
{
    char text[2 * PLOT_LABEL];
    size_t length = 0;

    for (; *label != '\0'; label++) {
        if (*label == '%')
            text[length++] = '%';
        text[length++] = *label;
    }
    text[length] = '\0';
    put_quoted(script, text);
}

static void put_axis(FILE *script, const struct plot *plot, char axis)
{
    struct plot_scale scale = plot_scale_of(plot, axis == 'x');

    fprintf(script, "%s logscale %c\n", scale.logarithmic ? "set" : "unset", axis);
    fprintf(script, "set %crange [%.17g:%.17g]\nset %ctics (", axis, scale.least, scale.most, axis);
    for (size_t i = 0; i < scale.tick_count; i++) {
        put_label(script, scale.tick[i].label);
        fprintf(script, " %.17g%s", scale.tick[i].at, i + 1 < scale.tick_count ? ", " : "");
    }
    fputs(")\n", script);
}

/* Writes the data block $dPLOT_LINE; its columns are x, y, and the two ends of the error bar. */
static void put_data(FILE *script, const struct plot_line *line, size_t plot, size_t number)
{
    fprintf(script, "$d%zu_%zu << END\n", plot, number);
    for (size_t i = 0; i < line->count; i++)
        fprintf(script, "%.17g %.17g %.17g %.17g\n", line->points[i].x, line->points[i].y,
                line->bars != NULL ? line->bars[i].low : NAN,
                line->bars != NULL ? line->bars[i].high : NAN);
    fputs("END\n", script);
}

/* Draws the error bars first, so that the line covers them. */
static void put_line(FILE *script, const struct plot_line *line, size_t plot, size_t number)
{
    if (line->bars != NULL)
        fprintf(script, "$d%zu_%zu using 1:2:3:4 with yerrorbars lw 3 pt 0 lc rgb '%s' notitle, ",
                plot, number, styles[number].pale);
    fprintf(script, "$d%zu_%zu using 1:2 with %s lw 2 lc rgb '%s' dt %s title ", plot, number,
            line->smooth ? "lines" : "linespoints pt 7 ps 0.6", styles[number].colour,
            styles[number].dashes);
    put_quoted(script, line->name);
}

/* HEADING, if there is one, goes before the title. */
static void put_plot(FILE *script, const struct plot *plot, size_t number, const char *heading)
{
    char title[TITLE];
    bool begun = false;

    for (size_t i = 0; i < plot->line_count; i++)
        if (plot->line[i].count > 0)
            put_data(script, &plot->line[i], number, i);
    snprintf(title, sizeof(title), "%s%s%s", heading != NULL ? heading : "",
             heading != NULL ? ": " : "", plot->title);
    fputs("set title ", script);
    put_quoted(script, title);
    fputc('\n', script);
    put_axis(script, plot, 'x');
    put_axis(script, plot, 'y');
    for (size_t i = 0; i < plot->line_count; i++) {
        if (plot->line[i].count == 0)
            continue;
        fputs(begun ? ", " : "plot ", script);
        put_line(script, &plot->line[i], number, i);
        begun = true;
    }
    fputc('\n', script);
}

static void put_begin(FILE *script, const struct document *document, size_t plots)
{
    const struct document_section *section = &document->sections[0];
    size_t columns = plots > 1 ? 2 : 1, rows = plots > 0 ? (plots + columns - 1) / columns : 1;
    char title[TITLE];
    size_t used = (size_t)snprintf(title, sizeof(title), "%.160s", document->title);

    for (size_t i = 0; i < section->fact_count; i++)
        if (section->facts[i].tone == DOCUMENT_STRONG)
            snprintf(title + used, sizeof(title) - used, ": %s", section->facts[i].text);
    fprintf(script,
            "size_of = 'size %zu,%zu'\n"
            "if (strstrt(GPVAL_TERMINALS, 'pngcairo') > 0) {\n"
            "  eval 'set terminal pngcairo noenhanced font \"sans,11\" background rgb \"white\" '"
            ".size_of\n"
            "} else { eval 'set terminal png noenhanced '.size_of }\n"
            "set encoding utf8\n"
            "set key below\n"
            "set grid ytics back lt 1 lw 1 lc rgb '#d8dde4'\n"
            "set pointintervalbox 0\nset errorbars 0\n"
            "set border 3\nset tics nomirror\n"
            "set multiplot layout %zu,%zu title ",
            PLOT_WIDTH * columns, PLOT_HEIGHT * rows + TITLE_HEIGHT, rows, columns);
    put_quoted(script, title);
    fputc('\n', script);
}

static void put_script(FILE *script, const struct document *document)
{
    size_t number = 0;

    for (size_t i = 0; i < document->section_count; i++)
        for (size_t k = 0; k < document->sections[i].plot_count; k++)
            number += plot_has_points(&document->sections[i].plots[k]);
    put_begin(script, document, number);
    number = 0;
    for (size_t i = 0; i < document->section_count; i++) {
        const struct document_section *section = &document->sections[i];

        for (size_t k = 0; k < section->plot_count; k++)
            if (plot_has_points(&section->plots[k]))
                put_plot(script, &section->plots[k], number++, section->heading);
    }
    fputs("unset multiplot\n", script);
}

/* ---- The program ---- */

/* Starts gnuplot with its input from SCRIPT and its output to PIPE. Returns 0 or an errno. */
static int start(int script, int pipe, pid_t *pid)
{
    char *const words[] = {(char *)"gnuplot", (char *)"-", NULL};
    posix_spawn_file_actions_t actions;
    int error;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, script, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, pipe, STDOUT_FILENO);
    error = posix_spawnp(pid, words[0], &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

static void copy(int from, FILE *out)
{
    char bytes[16384];
    ssize_t n;

    while ((n = read(from, bytes, sizeof(bytes))) > 0 || (n < 0 && errno == EINTR))
        if (n > 0)
            fwrite(bytes, 1, (size_t)n, out);
}

static int finish(pid_t pid)
{
    int status;

    while (waitpid(pid, &status, 0) != pid)
        if (errno != EINTR)
            return -1;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    errno = EIO;
    return -1;
}

static int draw_script(FILE *script, FILE *out)
{
    int ends[2], error;
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    error = start(fileno(script), ends[1], &pid);
    close(ends[1]);
    if (error == 0)
        copy(ends[0], out);
    close(ends[0]);
    if (error == 0)
        return finish(pid);
    errno = error;
    return -1;
}

/* The script is a temporary file: with two pipes each program could block on the other. */
int document_write_png(FILE *out, const struct document *document)
{
    FILE *script;
    int result = -1, error;

    if (document->failed) {
        errno = ENOMEM;
        return -1;
    }
    script = tmpfile();
    if (script == NULL)
        return -1;
    put_script(script, document);
    if (fflush(script) == 0 && lseek(fileno(script), 0, SEEK_SET) == 0)
        result = draw_script(script, out);
    error = errno;
    fclose(script);
    errno = error;
    return result;
}
