#include "loadgen/report/markdown.h"

#include <errno.h>
#include <string.h>

/* Escapes markup characters and the cell separator. */
static void put_text(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (strchr("\\`*_[]<>|", *text) != NULL)
            fputc('\\', out);
        fputc(*text, out);
    }
}

static void put_facts(FILE *out, const struct document_section *section)
{
    if (section->fact_count > 0)
        fputs("\n| | |\n|:--|:--|\n", out);
    for (size_t i = 0; i < section->fact_count; i++) {
        const struct document_fact *fact = &section->facts[i];
        const char *strong = fact->tone == DOCUMENT_STRONG ? "**" : "";

        fprintf(out, "| %s | %s", fact->label, strong);
        put_text(out, fact->text);
        fprintf(out, "%s |\n", strong);
    }
}

static void put_table(FILE *out, const struct document_table *table)
{
    if (table->title != NULL)
        fprintf(out, "\n%s\n", table->title);
    fputc('\n', out);
    for (size_t i = 0; i < table->column_count; i++) {
        fputs("| ", out);
        put_text(out, table->columns[i].head != NULL ? table->columns[i].head : "");
        fputc(' ', out);
    }
    fputs("|\n", out);
    for (size_t i = 0; i < table->column_count; i++)
        fputs(table->columns[i].align == DOCUMENT_RIGHT ? "|--:" : "|:--", out);
    fputs("|\n", out);
    for (size_t row = 0; row < table->row_count; row++) {
        for (size_t i = 0; i < table->column_count; i++) {
            fputs("| ", out);
            put_text(out, table->rows[row].cells[i]);
            fputc(' ', out);
        }
        fputs("|\n", out);
    }
}

static void put_notes(FILE *out, const struct document_section *section)
{
    if (section->note_count > 0)
        fputc('\n', out);
    for (size_t i = 0; i < section->note_count; i++) {
        const struct document_note *note = &section->notes[i];

        fprintf(out, "- %s%s", note->lead, note->lead[0] != '\0' ? " " : "");
        put_text(out, note->text);
        fputc('\n', out);
    }
}

static void put_section(FILE *out, const struct document_section *section)
{
    put_facts(out, section);
    for (size_t i = 0; i < section->table_count; i++)
        if (section->tables[i].media != DOCUMENT_IN_TEXT)
            put_table(out, &section->tables[i]);
}

int document_write_markdown(FILE *out, const struct document *document)
{
    if (document->failed) {
        errno = ENOMEM;
        return -1;
    }
    fputs("### ", out);
    put_text(out, document->title);
    if (document->subtitle != NULL)
        fprintf(out, "\n\n%s (%s %s)", document->subtitle, document->program, WEBSERVERD_VERSION);
    fputc('\n', out);
    put_section(out, &document->sections[0]);
    for (size_t i = 1; i < document->section_count; i++) {
        fputs("\n#### ", out);
        put_text(out, document->sections[i].heading);
        fputc('\n', out);
        put_section(out, &document->sections[i]);
        put_notes(out, &document->sections[i]);
    }
    put_notes(out, &document->sections[0]);
    return 0;
}
