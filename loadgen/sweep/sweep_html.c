/* A sweep as one HTML page that needs nothing beside it. */
#include "loadgen/sweep/sweep_report.h"

#include "common/escape.h"

#include "loadgen/report/report_style.h"
#include "loadgen/sweep/sweep_plots.h"

static void put_plot(void *context, const struct plot *plot)
{
    plot_write(context, plot);
}

static void put_head(FILE *out, const struct sweep *sweep)
{
    char setting[SWEEP_SETTING];

    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<title>wsload sweep: ",
          out);
    escape_html(out, sweep->plan->urls[0]);
    fputs("</title>\n<style>\n" REPORT_STYLE
          "li{margin:.2rem 0}ul{padding-left:1.2rem;margin:.6rem 0}"
          "tr.best td{font-weight:600}td.busy{color:var(--bad)}\n"
          "</style>\n<h1>Sweep of ",
          out);
    escape_html(out, sweep->plan->method);
    fputc(' ', out);
    escape_html(out, sweep->plan->urls[0]);
    fprintf(out, "</h1>\n<p class=\"soft\">%s</p>\n", sweep_setting(setting, sweep));
}

static void put_findings(FILE *out, const struct sweep_finding *findings, size_t count)
{
    if (count == 0)
        return;
    fputs("<ul>\n", out);
    for (size_t i = 0; i < count; i++) {
        fputs("<li>", out);
        escape_html(out, findings[i].text);
        fputc('\n', out);
    }
    fputs("</ul>\n", out);
}

static void put_point(FILE *out, const struct sweep_curve *curve, const struct sweep_point *point)
{
    char cell[SWEEP_CELL];

    fputs(point == &curve->points[curve->zones.best] ? "<tr class=\"best\">" : "<tr>", out);
    for (size_t i = 0; i < SWEEP_COLUMNS; i++)
        fprintf(out, "<td%s>%s", i == SWEEP_CLIENT && point->client_bound ? " class=\"busy\"" : "",
                sweep_cell(cell, point, (enum sweep_column)i));
    fputc('\n', out);
}

static void put_table(FILE *out, const struct sweep_curve *curve)
{
    fputs("<div class=\"wide\"><table>\n<tr>", out);
    for (size_t i = 0; i < SWEEP_COLUMNS; i++)
        fprintf(out, "<th>%s", i == SWEEP_SURE ? "±" : sweep_heads[i]);
    fputc('\n', out);
    for (size_t i = 0; i < curve->measured; i++)
        put_point(out, curve, &curve->points[i]);
    fputs("</table></div>\n", out);
}

static void put_curve(FILE *out, const struct sweep_curve *curve)
{
    if (curve->measured == 0)
        return;
    fprintf(out, "<h2>%c%s</h2>\n", curve->name[0] - 'a' + 'A', curve->name + 1);
    put_findings(out, curve->finding, curve->finding_count);
    fputs("<div class=\"plots\">\n", out);
    sweep_curve_plots(curve, put_plot, out);
    fputs("</div>\n", out);
    put_table(out, curve);
}

int sweep_html(FILE *out, const struct sweep *sweep, bool colour)
{
    (void)colour;
    put_head(out, sweep);
    put_findings(out, sweep->note, sweep->note_count);
    fputs("<div class=\"plots\">\n", out);
    sweep_overview_plots(sweep, put_plot, out);
    fputs("</div>\n", out);
    for (size_t i = 0; i < sweep->curve_count; i++)
        put_curve(out, &sweep->curves[i]);
    fputs("<footer><p>Bars and &plusmn;: 95 % confidence. Client: of a core for each of its "
          "threads; ! marks where it was the limit. wsload " WEBSERVERD_VERSION
          "</p></footer>\n</html>\n",
          out);
    return 0;
}
