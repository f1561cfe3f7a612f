#include "loadgen/lab/lab_report.h"

#include "loadgen/lab/published.h"

#include <string.h>

enum { WIDTH = 80, LABEL = 12, GAP = 2 };

const char *lab_report_mark(enum findings_kind kind)
{
    static const char *const marks[] = {
        [FINDINGS_LESSON] = "",
        [FINDINGS_MET] = "Met: ",
        [FINDINGS_NOT_MET] = "Not met: ",
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

/* Words of TEXT in lines that begin with INDENT blanks; the first is begun already, at column AT. */
static void put_wrapped(FILE *out, const char *text, size_t at, size_t indent)
{
    bool first = true;

    while (*text != '\0') {
        size_t length = strcspn(text, " ");
        char word[FINDINGS_SENTENCE];
        size_t width;

        snprintf(word, sizeof(word), "%.*s", (int)length, text);
        width = width_of(word);
        if (!first && at + 1 + width > WIDTH) {
            fprintf(out, "\n%*s", (int)indent, "");
            at = indent;
            first = true;
        }
        fprintf(out, "%s%s", first ? "" : " ", word);
        at += width + (first ? 0 : 1);
        first = false;
        text += length;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

static void put_labelled(FILE *out, const char *label, const char *text)
{
    fprintf(out, "%-*s", LABEL, label);
    put_wrapped(out, text, LABEL, LABEL);
}

void lab_text_machine(FILE *out, const struct machine *machine)
{
    for (size_t i = 0; i < machine->count; i++)
        put_labelled(out, machine->fact[i].label, machine->fact[i].text);
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
    size_t widths[FINDINGS_COLUMNS];

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
    fputc('\n', out);
    for (size_t i = 0; i < findings->sentences; i++) {
        const struct findings_sentence *sentence = &findings->sentence[i];
        const char *mark = lab_report_mark(sentence->kind);

        fprintf(out, "- %s", mark);
        put_wrapped(out, sentence->text, 2 + width_of(mark), 2);
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
    put_published(out, findings->name);
    put_sentences(out, findings);
    fflush(out);
}
