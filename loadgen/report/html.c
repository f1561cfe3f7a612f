#include "loadgen/report/document.h"

#include "common/escape.h"

#include <errno.h>
#include <math.h>

/*
 * Light or dark as the reader's system prefers; light in print. Also has the colours of the plots.
 */
static const char style[] =
    ":root{color-scheme:light dark;--back:#fff;--text:#1d2430;--soft:#5b6675;--rule:#d8dde4;"
    "--shade:#eef1f5;--bad:#b42318;--c0:#0072b2;--c1:#c05600;--c2:#00785a;--c3:#7b3fa0;--c4:#"
    "a8185b;--c5:#666}\n"
    "@media (prefers-color-scheme:dark){:root{--back:#14181f;--text:#e6e9ee;--soft:#9aa5b4;"
    "--rule:#343c48;--shade:#20262f;--bad:#ff8a7a;--c0:#56b4e9;--c1:#f0a43a;--c2:#2fc79b;"
    "--c3:#c99bea;--c4:#ff8fc0;--c5:#bbb}}\n"
    "@media print{:root{color-scheme:light;--back:#fff;--text:#000;--soft:#444;--rule:#bbb;"
    "--shade:#eee;--bad:#900;--c0:#0072b2;--c1:#c05600;--c2:#00785a;--c3:#7b3fa0;--c4:#a8185b;--"
    "c5:#666}"
    "figure,tr,li,dl,h2,h3{break-inside:avoid}h2,h3{break-after:avoid}}\n"
    "@page{size:A4 landscape;margin:10mm}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0 auto;padding:1rem;max-width:66rem;background:var(--back);color:var(--text);"
    "font:1rem/1.45 system-ui,sans-serif}\n"
    "h1{font-size:1.25rem;margin:.2rem 0;overflow-wrap:anywhere}\n"
    "h2,h3{font-size:1rem;margin:1.5rem 0 .4rem}\n"
    "section{border-top:1px solid var(--rule);margin-top:2.5rem}\n"
    "section>h2{font-size:1.2rem;margin:1rem 0 .2rem}\n"
    "h3+ul{margin-top:.4rem}\n"
    "p{margin:.2rem 0}\n"
    ".soft,dt,th,footer{color:var(--soft);font-weight:normal}\n"
    ".rate{font-size:2rem;font-weight:600;margin:.6rem 0}\n"
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1rem;margin:.6rem 0}\n"
    "dd{margin:0;overflow-wrap:anywhere}\n"
    ".wide{overflow-x:auto;margin:.8rem 0}\n"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums}\n"
    "th,td{padding:.25rem .7rem;text-align:right;white-space:nowrap;"
    "border-bottom:1px solid var(--rule)}\n"
    "th:first-child,td:first-child{text-align:left;padding-left:0}\n"
    "th{white-space:normal;vertical-align:bottom}\n"
    "@media print,(max-width:64rem){th,td{padding:.25rem .35rem;font-size:.8rem}"
    "td:first-child{white-space:normal}}\n"
    "@media screen and (max-width:30rem){th,td{padding:.25rem .2rem;font-size:.7rem}}\n"
    "summary{cursor:pointer;color:var(--c0);margin:.4rem 0}\n"
    "details.result{border:1px solid var(--rule);padding:.2rem .8rem;margin:.8rem 0}\n"
    ".lead{display:grid;grid-template-columns:minmax(0,3fr) minmax(0,2fr);gap:1.5rem;"
    "align-items:start}.lead>ul{margin-top:.4rem}\n"
    "@media screen and (max-width:48rem){.lead{grid-template-columns:minmax(0,1fr)}}\n"
    "@media print{html{font-size:8.5pt}body{max-width:none;padding:0}.wide{overflow:visible}"
    "th,td{white-space:normal}.more,.result>summary{display:none}"
    ".result::details-content{content-visibility:visible}}\n"
    ".bad{color:var(--bad)}\n"
    "a{color:var(--c0)}ul{padding-left:1.2rem;margin:.8rem 0}li{margin:.3rem 0}\n"
    "li.warning{list-style:none;margin-left:-1.2rem;padding-left:.8rem;"
    "border-left:3px solid var(--bad)}\n"
    "tr.strong td{font-weight:600}tr.warning td{color:var(--bad)}\n"
    ".plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,24rem),1fr));"
    "gap:1rem}\n"
    "figure{margin:.6rem 0 0;min-width:0;max-width:36rem}\n"
    "figcaption{font-weight:600}\n"
    ".legend{display:flex;flex-wrap:wrap;gap:0 1rem;font-weight:normal;font-size:.9rem;"
    "color:var(--soft)}\n"
    ".legend svg{vertical-align:middle;margin-right:.35rem}\n"
    ".plot{display:block;width:100%;height:auto}\n"
    ".axis{fill:var(--soft);font-size:14px}\n"
    ".grid{stroke:var(--rule);fill:none}\n"
    ".shade{fill:var(--shade)}\n"
    ".line{fill:none;stroke-width:2;stroke-linejoin:round}\n"
    ".line0{stroke:var(--c0)}.line1{stroke:var(--c1);stroke-dasharray:7 3}"
    ".line2{stroke:var(--c2);stroke-dasharray:2 3}.line3{stroke:var(--c3);"
    "stroke-dasharray:9 3 2 3}.line4{stroke:var(--c4);stroke-dasharray:12 4}"
    ".line5{stroke:var(--c5);stroke-dasharray:4 2}\n"
    ".bar{fill:none;stroke-width:5;stroke-dasharray:none;opacity:.4}\n"
    "circle.line0,circle.line1,circle.line2,circle.line3,circle.line4,circle.line5{stroke:none}"
    "circle.line0{fill:var(--c0)}circle.line1{fill:var(--c1)}circle.line2{fill:var(--c2)}"
    "circle.line3{fill:var(--c3)}circle.line4{fill:var(--c4)}circle.line5{fill:var(--c5)}\n";

/* ---- Plots, as SVG with the classes of the style sheet ---- */

enum {
    WIDTH = 480,
    HEIGHT = 260,
    LEFT = 74,
    RIGHT = 16,
    TOP = 12,
    BOTTOM = 34,
    DOTS_MAX = 40,
    EDGE = 20
};

static double plot_column(const struct plot_scale *x, double value)
{
    return LEFT + plot_position(x, value) * (WIDTH - LEFT - RIGHT);
}

static double plot_row(const struct plot_scale *y, double value)
{
    return HEIGHT - BOTTOM - plot_position(y, value) * (HEIGHT - TOP - BOTTOM);
}

/* Right-aligns a label near the right edge, so that it is not cut off. */
static void html_ticks(FILE *out, const struct plot_scale *x, const struct plot_scale *y)
{
    for (size_t i = 0; i < x->tick_count; i++) {
        double at = plot_column(x, x->tick[i].at);
        bool near_edge = at > WIDTH - RIGHT - EDGE;

        fprintf(out, "<text class=\"axis\" text-anchor=\"%s\" x=\"%.1f\" y=\"%d\">%s</text>\n",
                near_edge ? "end" : "middle", near_edge ? WIDTH - 1 : at, HEIGHT - BOTTOM + 20,
                x->tick[i].label);
    }
    for (size_t i = 0; i < y->tick_count; i++) {
        double at = plot_row(y, y->tick[i].at);

        fprintf(out,
                "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text class=\"axis\" text-anchor=\"end\" "
                "x=\"%d\" y=\"%.1f\">%s</text>\n",
                LEFT, at, WIDTH - RIGHT, LEFT - 8, at + 5, y->tick[i].label);
    }
}

static void html_bars(FILE *out, const struct plot *plot, size_t number, const struct plot_scale *x,
                      const struct plot_scale *y)
{
    const struct plot_line *line = &plot->line[number];

    for (size_t i = 0; line->bars != NULL && i < line->count; i++) {
        const struct plot_bar *bar = &line->bars[i];

        if (plot_shows(plot, &line->points[i]) && bar->low <= bar->high &&
            (bar->low > 0 || !plot->y.logarithmic))
            fprintf(out, "<path class=\"bar line%zu\" d=\"M%.1f %.1fV%.1f\"/>\n", number,
                    plot_column(x, line->points[i].x), plot_row(y, fmax(bar->low, y->least)),
                    plot_row(y, fmin(bar->high, y->most)));
    }
}

static void html_line(FILE *out, const struct plot *plot, size_t number, const struct plot_scale *x,
                      const struct plot_scale *y)
{
    const struct plot_line *line = &plot->line[number];
    bool begun = false;

    fprintf(out, "<path class=\"line line%zu\" d=\"", number);
    for (size_t i = 0; i < line->count; i++) {
        const struct plot_point *point = &line->points[i];
        bool shown = plot_shows(plot, point);

        if (shown)
            fprintf(out, "%c%.1f %.1f", begun ? 'L' : 'M', plot_column(x, point->x),
                    plot_row(y, point->y));
        begun = shown;
    }
    fputs("\"/>\n", out);
    if (line->smooth || line->count > DOTS_MAX)
        return;
    for (size_t i = 0; i < line->count; i++)
        if (plot_shows(plot, &line->points[i]))
            fprintf(out, "<circle class=\"line%zu\" r=\"2.5\" cx=\"%.1f\" cy=\"%.1f\"/>\n", number,
                    plot_column(x, line->points[i].x), plot_row(y, line->points[i].y));
}

static void html_plot(FILE *out, const struct plot *plot)
{
    struct plot_scale x, y;

    if (!plot_scales(plot, &x, &y))
        return;
    fprintf(out, "<figure>\n<figcaption>%s<span class=\"legend\">", plot->title);
    for (size_t i = 0; i < plot->line_count; i++)
        fprintf(out,
                "<span><svg width=\"26\" height=\"10\" aria-hidden=\"true\"><path class=\"line "
                "line%zu\" d=\"M1 5H25\"/></svg>%s</span>",
                i, plot->line[i].name);
    fputs("</span></figcaption>\n", out);
    fprintf(out, "<svg class=\"plot\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">\n",
            WIDTH, HEIGHT, plot->title);
    if (plot->shaded_to > 0)
        fprintf(out, "<path class=\"shade\" d=\"M%d %dV%dH%.1fV%dz\"/>\n", LEFT, HEIGHT - BOTTOM,
                TOP, plot_column(&x, fmin(plot->shaded_to, x.most)), HEIGHT - BOTTOM);
    html_ticks(out, &x, &y);
    for (size_t i = 0; i < plot->line_count; i++)
        html_bars(out, plot, i, &x, &y);
    for (size_t i = 0; i < plot->line_count; i++)
        html_line(out, plot, i, &x, &y);
    fputs("</svg>\n</figure>\n", out);
}

/* ---- Facts, notes and tables ---- */

static void html_text(FILE *out, const char *before, const char *text, const char *after)
{
    fputs(before, out);
    escape_html(out, text);
    fputs(after, out);
}

/* The class of a row or note; "": none. */
static const char *class_of(enum document_tone tone)
{
    static const char *const classes[] = {[DOCUMENT_NORMAL] = "",
                                          [DOCUMENT_STRONG] = " class=\"strong\"",
                                          [DOCUMENT_WARNING] = " class=\"warning\"",
                                          [DOCUMENT_BAD] = " class=\"bad\"",
                                          [DOCUMENT_QUIET] = ""};

    return classes[tone];
}

static void html_facts(FILE *out, const struct document_section *section)
{
    if (section->fact_count == 0)
        return;
    for (size_t i = 0; i < section->fact_count; i++)
        if (section->facts[i].tone == DOCUMENT_STRONG)
            html_text(out, "<p class=\"rate\">", section->facts[i].text, "</p>\n");
    fputs("<dl>\n", out);
    for (size_t i = 0; i < section->fact_count; i++) {
        if (section->facts[i].tone == DOCUMENT_STRONG)
            continue;
        html_text(out, "<dt>", section->facts[i].label, "</dt>");
        html_text(out, "<dd>", section->facts[i].text, "</dd>\n");
    }
    fputs("</dl>\n", out);
}

static void html_notes(FILE *out, const struct document_section *section)
{
    if (section->note_count == 0)
        return;
    fputs("<ul>\n", out);
    for (size_t i = 0; i < section->note_count; i++) {
        const struct document_note *note = &section->notes[i];

        fprintf(out, "<li%s>", class_of(note->tone));
        if (note->lead[0] != '\0')
            fprintf(out, "<b>%s </b>", note->lead);
        html_text(out, "", note->text, "\n");
    }
    fputs("</ul>\n", out);
}

/* LEVEL is that of the heading: 2 or 3. */
static void html_title(FILE *out, int level, const char *title)
{
    fprintf(out, "<h%d>", level);
    escape_html(out, title);
    fprintf(out, "</h%d>\n", level);
}

static void html_table(FILE *out, const struct document_table *table, int level)
{
    if (table->title != NULL)
        html_title(out, level, table->title);
    fputs("<div class=\"wide\"><table>\n", out);
    if (table->columns[0].head != NULL) {
        fputs("<tr>", out);
        for (size_t i = 0; i < table->column_count; i++)
            html_text(out, "<th>", table->columns[i].head, "");
        fputc('\n', out);
    }
    for (size_t i = 0; i < table->row_count; i++) {
        fprintf(out, "<tr%s>", class_of(table->rows[i].tone));
        for (size_t k = 0; k < table->column_count; k++)
            html_text(out, "<td>", table->rows[i].cells[k], "");
        fputc('\n', out);
    }
    fputs("</table></div>\n", out);
}

/* ---- The page ---- */

/* The plots from number FIRST on, and the tables. */
static void html_figures(FILE *out, const struct document_section *section, size_t first, int level)
{
    if (section->plot_count > first) {
        fputs("<div class=\"plots\">\n", out);
        for (size_t i = first; i < section->plot_count; i++)
            html_plot(out, &section->plots[i]);
        fputs("</div>\n", out);
    }
    for (size_t i = 0; i < section->table_count; i++)
        if (section->tables[i].media != DOCUMENT_IN_TEXT)
            html_table(out, &section->tables[i], level);
}

/* The part after the facts is folded under the text FOLD, unless that is NULL. */
static void html_section(FILE *out, const struct document_section *section, const char *fold,
                         int level)
{
    html_facts(out, section);
    if (fold != NULL)
        html_text(out, "<details class=\"result\"><summary>", fold, "</summary>\n");
    html_notes(out, section);
    html_figures(out, section, 0, level);
    if (fold != NULL)
        fputs("</details>\n", out);
}

/* Sections FIRST to COUNT - 1. */
static void html_sections(FILE *out, const struct document *document, size_t first, size_t count,
                          int level)
{
    for (size_t i = first; i < count; i++) {
        const struct document_section *section = &document->sections[i];

        if (section->link != NULL) {
            html_text(out, "<h2><a href=\"", section->link, "\">");
            html_text(out, "", section->heading, "</a></h2>\n");
        } else if (i > 0) {
            html_title(out, level, section->heading);
        }
        html_section(out, section, i == 0 ? document->fold : NULL, level);
    }
}

/*
 * A chapter leads with its notes and its first plot. The rest is folded, and left out in print, so
 * that a page of many chapters is a summary on paper.
 */
static void html_chapter(FILE *out, const struct html_chapter *chapter)
{
    const struct document *document = chapter->document;
    const struct document_section *first = &document->sections[0];

    html_text(out, "<section id=\"", chapter->anchor, "\">\n");
    html_title(out, 2, document->title);
    html_text(out, "<p class=\"soft\">", chapter->question, "</p>\n");
    html_facts(out, first);
    if (document->fold != NULL)
        html_text(out, "<details class=\"result\"><summary>", document->fold, "</summary>\n");
    fputs("<div class=\"lead\">\n", out);
    html_notes(out, first);
    if (first->plot_count > 0)
        html_plot(out, &first->plots[0]);
    fputs("</div>\n<details class=\"more\"><summary>Tables and further plots</summary>\n", out);
    html_figures(out, first, 1, 3);
    html_sections(out, document, 1, chapter->section_count, 3);
    fputs("</details>\n", out);
    if (document->fold != NULL)
        fputs("</details>\n", out);
    html_text(out, "<p class=\"soft\">", chapter->remark, "</p>\n</section>\n");
}

/* On paper, a page of chapters has two columns and small print. */
static const char chapter_style[] =
    "@media print{html{font-size:7.4pt;line-height:1.25}body{columns:2;column-gap:7mm}"
    "h1{column-span:all}section{margin-top:.7rem}section>h2{font-size:1.1rem;margin:.25rem 0 0}"
    "section>p{margin:0}h2+p,dl{break-after:avoid}details+p{break-before:avoid}ul,ol,dl{margin:."
    "2rem 0}li{margin:.1rem 0}"
    "details.result{border:0;padding:0;margin:0}"
    ".lead{grid-template-columns:minmax(0,5fr) minmax(0,3fr);gap:.6rem}"
    ".lead figure{margin:.2rem 0 0;font-size:.9rem}dl{gap:.05rem .8rem}}\n";

static void html_begin(FILE *out, const struct document *document, const char *more_style)
{
    html_text(out,
              "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
              "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
              document->title, "</title>\n<style>\n");
    fprintf(out, "%s%s</style>\n", style, more_style);
    html_text(out, "<h1>", document->title, "</h1>\n");
    if (document->subtitle != NULL)
        html_text(out, "<p class=\"soft\">", document->subtitle, "</p>\n");
}

int document_write_html(FILE *out, const struct document *document)
{
    return document_write_html_chapters(out, document, NULL, 0);
}

int document_write_html_chapters(FILE *out, const struct document *front,
                                 const struct html_chapter *chapters, size_t count)
{
    bool failed = front->failed;

    for (size_t i = 0; i < count; i++)
        failed = failed || chapters[i].document->failed;
    if (failed) {
        errno = ENOMEM;
        return -1;
    }
    html_begin(out, front, count > 0 ? chapter_style : "");
    html_sections(out, front, 0, front->section_count, 2);
    fputs(count > 0 ? "<nav>\n<h2>Contents</h2>\n<ol>\n" : "", out);
    for (size_t i = 0; i < count; i++) {
        html_text(out, "<li><a href=\"#", chapters[i].anchor, "\">");
        html_text(out, "", chapters[i].document->title, "</a>");
        html_text(out, " <span class=\"soft\">(", chapters[i].summary, ")</span>\n");
    }
    fputs(count > 0 ? "</ol>\n</nav>\n" : "", out);
    for (size_t i = 0; i < count; i++)
        html_chapter(out, &chapters[i]);
    fputs("<footer><p>", out);
    if (front->legend != NULL)
        html_text(out, "", front->legend, " ");
    fprintf(out, "%s %s</p></footer>\n</html>\n", front->program, WEBSERVERD_VERSION);
    return 0;
}
