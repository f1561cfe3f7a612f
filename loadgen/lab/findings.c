#include "loadgen/lab/findings.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct findings *findings_create(const char *name, const char *title)
{
    struct findings *findings = calloc(1, sizeof(*findings));

    if (findings == NULL)
        return NULL;
    findings->name = name;
    findings->title = title;
    return findings;
}

void findings_table(struct findings *findings, const char *title, const char *const *heads)
{
    struct findings_table *table;

    if (findings->tables == FINDINGS_TABLES)
        return;
    table = &findings->table[findings->tables++];
    snprintf(table->title, sizeof(table->title), "%s", title);
    for (; table->columns < FINDINGS_COLUMNS && heads[table->columns] != NULL; table->columns++)
        snprintf(table->head[table->columns], FINDINGS_CELL, "%s", heads[table->columns]);
}

void findings_row(struct findings *findings)
{
    struct findings_table *table = &findings->table[findings->tables - 1];

    if (table->rows < FINDINGS_ROWS)
        table->rows++;
}

/* The first cell of the row that is still empty. */
void findings_cell(struct findings *findings, const char *format, ...)
{
    struct findings_table *table = &findings->table[findings->tables - 1];
    char(*cell)[FINDINGS_CELL] = table->cell[table->rows - 1];
    va_list arguments;
    size_t i = 0;

    while (i < table->columns && cell[i][0] != '\0')
        i++;
    if (i == table->columns)
        return;
    va_start(arguments, format);
    vsnprintf(cell[i], FINDINGS_CELL, format, arguments);
    va_end(arguments);
}

void findings_plot(struct findings *findings, const char *title, struct plot_axis x,
                   struct plot_axis y)
{
    struct findings_plot *plot;

    if (findings->plots == FINDINGS_PLOTS)
        return;
    plot = &findings->plot[findings->plots++];
    snprintf(plot->title, sizeof(plot->title), "%s", title);
    plot->x = x;
    plot->y = y;
}

void findings_shade(struct findings *findings, double to)
{
    findings->plot[findings->plots - 1].shaded_to = to;
}

void findings_line(struct findings *findings, const char *name)
{
    struct findings_plot *plot = &findings->plot[findings->plots - 1];

    if (plot->lines < PLOT_LINES_MAX)
        snprintf(plot->name[plot->lines++], FINDINGS_CELL, "%s", name);
}

void findings_dot(struct findings *findings, double x, double y)
{
    struct findings_plot *plot = &findings->plot[findings->plots - 1];
    size_t line = plot->lines - 1;

    if (plot->count[line] < FINDINGS_POINTS)
        plot->point[line][plot->count[line]++] = (struct plot_point){x, y};
}

void findings_bar(struct findings *findings, double low, double high)
{
    struct findings_plot *plot = &findings->plot[findings->plots - 1];
    size_t line = plot->lines - 1, dots = plot->count[line];

    if (dots == 0)
        return;
    plot->bar[line][dots - 1] = (struct plot_bar){low, high};
    plot->barred[line] = true;
}

void findings_say(struct findings *findings, enum findings_kind kind, const char *format, ...)
{
    struct findings_sentence *sentence = &findings->sentence[findings->sentences];
    va_list arguments;

    if (findings->sentences == FINDINGS_SENTENCES)
        return;
    findings->sentences++;
    sentence->kind = kind;
    va_start(arguments, format);
    vsnprintf(sentence->text, sizeof(sentence->text), format, arguments);
    va_end(arguments);
}

struct plot findings_drawn(const struct findings_plot *of)
{
    struct plot plot = {.title = of->title,
                        .x = of->x,
                        .y = of->y,
                        .line_count = of->lines,
                        .shaded_to = of->shaded_to};

    for (size_t i = 0; i < of->lines; i++)
        plot.line[i] = (struct plot_line){.name = of->name[i],
                                          .points = of->point[i],
                                          .count = of->count[i],
                                          .bars = of->barred[i] ? of->bar[i] : NULL};
    return plot;
}
