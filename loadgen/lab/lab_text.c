#include "loadgen/lab/lab_report.h"

#include "loadgen/lab/published.h"
#include "loadgen/report/plot_text.h"
#include "loadgen/report/report_page.h"

#include <string.h>

enum { LABEL = 11, GAP = 2 };

const char *lab_report_mark(enum findings_kind kind)
{
    static const char *const marks[] = {
        [FINDINGS_LESSON] = "",           [FINDINGS_MET] = "Met: ",
        [FINDINGS_NOT_MET] = "Not met: ", [FINDINGS_UNDECIDED] = "Not decided: ",
        [FINDINGS_CAUTION] = "Note: ",
    };

    return marks[kind];
}

/* Columns that TEXT takes: characters, not bytes. */
static size_t width_of(const char *text)
{
    size_t width = 0;

    for (; *text != '\0'; text++)
        width += ((unsigned char)*text & 0xC0) != 0x80;
    return width;
}

void lab_text_machine(FILE *out, const struct machine *machine)
{
    const struct page page = {out, false};

    for (size_t i = 0; i < machine->count; i++) {
        fprintf(out, "%-*s", LABEL, machine->fact[i].label);
        page_wrap(&page, LABEL, machine->fact[i].text);
    }
}

/* ---- Tables ---- */

static void put_cell(FILE *out, const char *text, size_t width, bool left)
{
    int blanks = (int)(width - width_of(text));

    if (left)
        fprintf(out, "%s%*s", text, blanks, "");
    else
        fprintf(out, "%*s%*s%s", GAP, "", blanks, "", text);
}

static void put_row(FILE *out, const struct findings_table *table, const size_t *widths,
                    const char (*cell)[FINDINGS_CELL])
{
    for (size_t i = 0; i < table->columns; i++)
        put_cell(out, cell[i], widths[i], i == 0);
    fputc('\n', out);
}

static void put_table(FILE *out, const struct findings_table *table)
{
    size_t widths[FINDINGS_COLUMNS] = {0};

    for (size_t i = 0; i < table->columns; i++) {
        widths[i] = width_of(table->head[i]);
        for (size_t row = 0; row < table->rows; row++) {
            size_t width = width_of(table->cell[row][i]);

            widths[i] = width > widths[i] ? width : widths[i];
        }
    }
    fprintf(out, "\n%s\n", table->title);
    put_row(out, table, widths, table->head);
    for (size_t row = 0; row < table->rows; row++)
        put_row(out, table, widths, table->cell[row]);
}

static void put_plots(FILE *out, const struct findings *findings)
{
    for (size_t i = 0; i < findings->plots; i++) {
        struct plot plot = findings_drawn(&findings->plot[i]);

        fputc('\n', out);
        plot_write_text(out, &plot);
    }
}

static void put_published(FILE *out, const char *experiment)
{
    const struct published *one = published_next(experiment, NULL);

    if (one == NULL)
        return;
    fputs("\nPublished by others, of their servers on their machines\n", out);
    for (; one != NULL; one = published_next(experiment, one))
        fprintf(out, "  %s: %s\n", one->setting, one->figure);
}

/* ---- Sentences ---- */

static void put_sentences(FILE *out, const struct findings *findings)
{
    const struct page page = {out, false};

    fputc('\n', out);
    for (size_t i = 0; i < findings->sentences; i++) {
        const struct findings_sentence *sentence = &findings->sentence[i];
        char text[FINDINGS_SENTENCE + 16];

        snprintf(text, sizeof(text), "%s%s", lab_report_mark(sentence->kind), sentence->text);
        fputc('-', out);
        page_wrap(&page, 1, text);
    }
}

void lab_text_findings(FILE *out, const struct findings *findings)
{
    fprintf(out, "\n%s\n", findings->title);
    for (size_t i = width_of(findings->title); i > 0; i--)
        fputc('-', out);
    fputc('\n', out);
    for (size_t i = 0; i < findings->tables; i++)
        put_table(out, &findings->table[i]);
    put_plots(out, findings);
    put_published(out, findings->name);
    put_sentences(out, findings);
    fflush(out);
}
