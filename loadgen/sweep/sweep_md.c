/* A sweep as Markdown with tables, as forges show it. */
#include "loadgen/sweep/sweep_report.h"

#include "loadgen/report/report.h"

static void put_findings(FILE *out, const struct sweep_finding *findings, size_t count)
{
    if (count > 0)
        fputc('\n', out);
    for (size_t i = 0; i < count; i++) {
        fputs("- ", out);
        report_md_text(out, findings[i].text);
        fputc('\n', out);
    }
}

static void put_curve(FILE *out, const struct sweep_curve *curve)
{
    char cell[SWEEP_CELL];

    if (curve->measured == 0)
        return;
    fprintf(out, "\n#### %c%s\n\n", curve->name[0] - 'a' + 'A', curve->name + 1);
    for (size_t i = 0; i < SWEEP_COLUMNS; i++)
        fprintf(out, "| %s ", i == SWEEP_SURE ? "±" : sweep_heads[i]);
    fputs("|\n", out);
    for (size_t i = 0; i < SWEEP_COLUMNS; i++)
        fputs(i == SWEEP_ZONE ? "|:--" : "|--:", out);
    fputs("|\n", out);
    for (size_t k = 0; k < curve->measured; k++) {
        for (size_t i = 0; i < SWEEP_COLUMNS; i++)
            fprintf(out, "| %s ", sweep_cell(cell, &curve->points[k], (enum sweep_column)i));
        fputs("|\n", out);
    }
    put_findings(out, curve->finding, curve->finding_count);
}

int sweep_md(FILE *out, const struct sweep *sweep, bool colour)
{
    char setting[SWEEP_SETTING];

    (void)colour;
    fputs("### Sweep of ", out);
    report_md_text(out, sweep->plan->method);
    fputc(' ', out);
    report_md_text(out, sweep->plan->urls[0]);
    fprintf(out, "\n\n%s (wsload %s)\n", sweep_setting(setting, sweep), WEBSERVERD_VERSION);
    for (size_t i = 0; i < sweep->curve_count; i++)
        put_curve(out, &sweep->curves[i]);
    put_findings(out, sweep->note, sweep->note_count);
    return 0;
}
