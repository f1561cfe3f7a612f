/* A sweep for a terminal: a table and its meaning for each curve, at most 80 columns wide. */
#include "loadgen/sweep/sweep_report.h"

#include "loadgen/report/report_page.h"

#include <inttypes.h>

static const int widths[SWEEP_COLUMNS] = {
    [SWEEP_CONNECTIONS] = 13, [SWEEP_RATE] = 11,   [SWEEP_SURE] = 6,
    [SWEEP_P50] = 8,          [SWEEP_P99] = 8,     [SWEEP_ERRORS] = 8,
    [SWEEP_CLIENT] = 8,       [SWEEP_MACHINE] = 8, [SWEEP_ZONE] = 9,
};

static const char *style_of(const struct page *page, const struct sweep_curve *curve,
                            const struct sweep_point *point)
{
    if (point == &curve->points[curve->zones.best])
        return page_style(page, PAGE_BOLD);
    return point->client_bound ? page_style(page, PAGE_YELLOW) : "";
}

static void put_table(const struct page *page, const struct sweep_curve *curve)
{
    char cell[SWEEP_CELL];

    for (size_t i = 0; i < SWEEP_COLUMNS; i++)
        fprintf(page->out, "%*s", widths[i], sweep_heads[i]);
    fputc('\n', page->out);
    for (size_t k = 0; k < curve->measured; k++) {
        fputs(style_of(page, curve, &curve->points[k]), page->out);
        for (size_t i = 0; i < SWEEP_COLUMNS; i++)
            fprintf(page->out, "%*s", widths[i],
                    sweep_cell(cell, &curve->points[k], (enum sweep_column)i));
        fprintf(page->out, "%s\n", page_style(page, PAGE_PLAIN));
    }
}

static void put_findings(const struct page *page, const struct sweep_finding *findings,
                         size_t count)
{
    for (size_t i = 0; i < count; i++) {
        fprintf(page->out, "  %s-%s", page_style(page, PAGE_CYAN), page_style(page, PAGE_PLAIN));
        page_wrap(page, 3, findings[i].text);
    }
}

static void put_curve(const struct page *page, const struct sweep_curve *curve)
{
    if (curve->measured == 0)
        return;
    fprintf(page->out, "\n%s%c%s%s\n", page_style(page, PAGE_BOLD), curve->name[0] - 'a' + 'A',
            curve->name + 1, page_style(page, PAGE_PLAIN));
    put_table(page, curve);
    put_findings(page, curve->finding, curve->finding_count);
}

int sweep_text(FILE *out, const struct sweep *sweep, bool colour)
{
    const struct page page = {out, colour};
    char setting[SWEEP_SETTING];

    fprintf(out, "%sSweep of %s %s%s\n", page_style(&page, PAGE_BOLD), sweep->plan->method,
            sweep->plan->urls[0], page_style(&page, PAGE_PLAIN));
    fputs(sweep_setting(setting, sweep), out);
    fputc('\n', out);
    for (size_t i = 0; i < sweep->curve_count; i++)
        put_curve(&page, &sweep->curves[i]);
    if (sweep->note_count > 0)
        fputc('\n', out);
    put_findings(&page, sweep->note, sweep->note_count);
    return 0;
}
