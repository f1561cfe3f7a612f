#include "loadgen/report/gnuplot.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PLOT_WIDTH = 700, PLOT_HEIGHT = 420, TITLE_HEIGHT = 40 };

struct gnuplot {
    char *text;
    size_t size, plots;
    FILE *script; /* into TEXT */
};

/* As in the page: colours that are told apart also by those who see few, and dashes for print. */
static const struct {
    const char *colour, *pale, *dashes;
} styles[PLOT_LINES_MAX] = {
    {"#0072b2", "#99c7e0", "solid"},  {"#c05600", "#e6bb99", "(14,6)"},
    {"#00785a", "#99c9bd", "(4,6)"},  {"#7b3fa0", "#cab2d9", "(18,6,4,6)"},
    {"#a8185b", "#dca3bd", "(24,8)"}, {"#666666", "#c2c2c2", "(8,4)"},
};

bool gnuplot_is_there(void)
{
    const char *path = getenv("PATH");
    char *folders = strdup(path != NULL ? path : "/usr/bin:/bin"), *rest = NULL;
    bool found = false;

    for (char *folder = folders != NULL ? strtok_r(folders, ":", &rest) : NULL;
         folder != NULL && !found; folder = strtok_r(NULL, ":", &rest)) {
        char file[4096];

        snprintf(file, sizeof(file), "%s/gnuplot", folder);
        found = access(file, X_OK) == 0;
    }
    free(folders);
    return found;
}

struct gnuplot *gnuplot_create(void)
{
    struct gnuplot *gnuplot = calloc(1, sizeof(*gnuplot));

    if (gnuplot == NULL)
        return NULL;
    gnuplot->script = open_memstream(&gnuplot->text, &gnuplot->size);
    if (gnuplot->script != NULL)
        return gnuplot;
    free(gnuplot);
    return NULL;
}

/* Between single quotes nothing has a meaning but the quote, which is doubled. */
static void put_quoted(FILE *out, const char *text)
{
    fputc('\'', out);
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            fputc('\'', out);
        fputc((unsigned char)*text < ' ' ? ' ' : *text, out);
    }
    fputc('\'', out);
}

/* A tick's label is a format, in which a per cent sign stands twice. */
static void put_label(FILE *out, const char *label)
{
    char text[2 * PLOT_LABEL];
    size_t length = 0;

    for (; *label != '\0'; label++) {
        if (*label == '%')
            text[length++] = '%';
        text[length++] = *label;
    }
    text[length] = '\0';
    put_quoted(out, text);
}

static void put_axis(FILE *out, const struct plot *plot, char axis)
{
    struct plot_scale scale = plot_scale_of(plot, axis == 'x');

    fprintf(out, "%s logscale %c\n", scale.logarithmic ? "set" : "unset", axis);
    fprintf(out, "set %crange [%.17g:%.17g]\nset %ctics (", axis, scale.least, scale.most, axis);
    for (size_t i = 0; i < scale.tick_count; i++) {
        put_label(out, scale.tick[i].label);
        fprintf(out, " %.17g%s", scale.tick[i].at, i + 1 < scale.tick_count ? ", " : "");
    }
    fputs(")\n", out);
}

/* A block of data: x, y, and the ends of the bar, in a name of its own. */
static void put_data(struct gnuplot *gnuplot, const struct plot_line *line, size_t number)
{
    FILE *out = gnuplot->script;

    fprintf(out, "$d%zu_%zu << END\n", gnuplot->plots, number);
    for (size_t i = 0; i < line->count; i++)
        fprintf(out, "%.17g %.17g %.17g %.17g\n", line->points[i].x, line->points[i].y,
                line->bars != NULL ? line->bars[i].low : NAN,
                line->bars != NULL ? line->bars[i].high : NAN);
    fputs("END\n", out);
}

/* The bars lie below the line. */
static void put_line(struct gnuplot *gnuplot, const struct plot_line *line, size_t number)
{
    FILE *out = gnuplot->script;

    if (line->bars != NULL)
        fprintf(out, "$d%zu_%zu using 1:2:3:4 with yerrorbars lw 3 pt 0 lc rgb '%s' notitle, ",
                gnuplot->plots, number, styles[number].pale);
    fprintf(out, "$d%zu_%zu using 1:2 with %s lw 2 lc rgb '%s' dt %s title ", gnuplot->plots,
            number, line->smooth ? "lines" : "linespoints pt 7 ps 0.6", styles[number].colour,
            styles[number].dashes);
    put_quoted(out, line->name);
}

void gnuplot_take(void *context, const struct plot *plot)
{
    struct gnuplot *gnuplot = context;
    bool begun = false;

    if (!plot_has_points(plot))
        return;
    for (size_t i = 0; i < plot->line_count; i++)
        if (plot->line[i].count > 0)
            put_data(gnuplot, &plot->line[i], i);
    fputs("set title ", gnuplot->script);
    put_quoted(gnuplot->script, plot->title);
    fputc('\n', gnuplot->script);
    put_axis(gnuplot->script, plot, 'x');
    put_axis(gnuplot->script, plot, 'y');
    for (size_t i = 0; i < plot->line_count; i++) {
        if (plot->line[i].count == 0)
            continue;
        fputs(begun ? ", " : "plot ", gnuplot->script);
        put_line(gnuplot, &plot->line[i], i);
        begun = true;
    }
    fputc('\n', gnuplot->script);
    gnuplot->plots++;
}

/* ---- Drawing ---- */

static void put_script(FILE *out, const struct gnuplot *gnuplot, const char *title)
{
    size_t columns = gnuplot->plots > 1 ? 2 : 1;
    size_t rows = (gnuplot->plots + columns - 1) / columns;

    rows = rows > 0 ? rows : 1;
    fprintf(out,
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
    put_quoted(out, title);
    fputc('\n', out);
    fwrite(gnuplot->text, 1, gnuplot->size, out);
    fputs("unset multiplot\n", out);
}

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

/* The script is a file, so that neither side waits for the other. */
static int draw(const struct gnuplot *gnuplot, const char *title, FILE *out)
{
    FILE *script = tmpfile();
    int result = -1, error;

    if (script == NULL)
        return -1;
    put_script(script, gnuplot, title);
    if (fflush(script) == 0 && lseek(fileno(script), 0, SEEK_SET) == 0)
        result = draw_script(script, out);
    error = errno;
    fclose(script);
    errno = error;
    return result;
}

void gnuplot_free(struct gnuplot *gnuplot)
{
    if (gnuplot->script != NULL)
        fclose(gnuplot->script);
    free(gnuplot->text);
    free(gnuplot);
}

int gnuplot_draw(struct gnuplot *gnuplot, const char *title, FILE *out)
{
    bool whole = fclose(gnuplot->script) == 0;
    int result = -1, error;

    gnuplot->script = NULL;
    if (whole)
        result = draw(gnuplot, title, out);
    error = errno;
    gnuplot_free(gnuplot);
    errno = error;
    return result;
}
