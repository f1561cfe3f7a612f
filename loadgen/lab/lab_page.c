#include "loadgen/lab/lab_report.h"

#include "common/escape.h"

#include "loadgen/lab/published.h"
#include "loadgen/report/report_style.h"

static void put_text(FILE *out, const char *before, const char *text, const char *after)
{
    fputs(before, out);
    escape_html(out, text);
    fputs(after, out);
}

static void put_head(FILE *out, const char *title)
{
    put_text(out,
             "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
             "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
             title, "</title>\n<style>\n" REPORT_STYLE);
    put_text(out,
             "a{color:var(--c0)}ul{padding-left:1.2rem}li{margin:.3rem 0}"
             ".theirs td{white-space:normal}.theirs td:last-child{text-align:left}\n"
             "</style>\n<h1>",
             title, "</h1>\n");
}

static void put_foot(FILE *out)
{
    fputs("<footer><p>wsload lab " WEBSERVERD_VERSION "</p></footer>\n</html>\n", out);
}

/* ---- Parts of a page ---- */

static void put_row(FILE *out, const struct findings_table *table, const char *tag,
                    const char (*cell)[FINDINGS_CELL])
{
    fputs("<tr>", out);
    for (size_t i = 0; i < table->columns; i++) {
        fprintf(out, "<%s>", tag);
        escape_html(out, cell[i]);
    }
    fputc('\n', out);
}

static void put_table(FILE *out, const struct findings_table *table)
{
    put_text(out, "<h2>", table->title, "</h2>\n<div class=\"wide\"><table>\n");
    put_row(out, table, "th", table->head);
    for (size_t row = 0; row < table->rows; row++)
        put_row(out, table, "td", table->cell[row]);
    fputs("</table></div>\n", out);
}

static void put_plots(FILE *out, const struct findings *findings)
{
    fputs("<div class=\"plots\">\n", out);
    for (size_t i = 0; i < findings->plots; i++) {
        struct plot plot = findings_drawn(&findings->plot[i]);

        plot_write(out, &plot);
    }
    fputs("</div>\n", out);
}

static void put_sentences(FILE *out, const struct findings *findings)
{
    fputs("<ul>\n", out);
    for (size_t i = 0; i < findings->sentences; i++) {
        const struct findings_sentence *sentence = &findings->sentence[i];

        fprintf(out, "<li%s><b>%s</b>", sentence->kind == FINDINGS_NOT_MET ? " class=\"bad\"" : "",
                lab_report_mark(sentence->kind));
        put_text(out, "", sentence->text, "\n");
    }
    fputs("</ul>\n", out);
}

static void put_published(FILE *out, const char *experiment)
{
    const struct published *one = published_next(experiment, NULL);

    if (one == NULL)
        return;
    fputs("<h2>Published by others, of their servers on their machines</h2>\n"
          "<div class=\"wide\"><table class=\"theirs\">\n",
          out);
    for (; one != NULL; one = published_next(experiment, one)) {
        put_text(out, "<tr><td>", one->setting, "");
        put_text(out, "<td>", one->figure, "\n");
    }
    fputs("</table></div>\n", out);
}

static void put_machine(FILE *out, const struct machine *machine)
{
    fputs("<h2>The machine</h2>\n<dl>\n", out);
    for (size_t i = 0; i < machine->count; i++) {
        fprintf(out, "<dt>%s", machine->fact[i].label);
        put_text(out, "<dd>", machine->fact[i].text, "\n");
    }
    fputs("</dl>\n", out);
}

/* ---- Pages ---- */

void lab_page_findings(FILE *out, const struct findings *findings, const struct machine *machine)
{
    put_head(out, findings->title);
    put_sentences(out, findings);
    put_plots(out, findings);
    for (size_t i = 0; i < findings->tables; i++)
        put_table(out, &findings->table[i]);
    put_published(out, findings->name);
    put_machine(out, machine);
    fprintf(out, "<p class=\"soft\">Took %.0f s.</p>\n", findings->seconds);
    put_foot(out);
}

void lab_page_index(FILE *out, const struct findings *const *findings, size_t count,
                    const struct machine *machine)
{
    put_head(out, "Experiments");
    for (size_t i = 0; i < count; i++) {
        fprintf(out, "<h2><a href=\"%s.html\">", findings[i]->name);
        put_text(out, "", findings[i]->title, "</a></h2>\n");
        put_sentences(out, findings[i]);
    }
    put_machine(out, machine);
    put_foot(out);
}
