#include "loadgen/lab/session.h"

#include "common/units.h"

#include "loadgen/base/sha256.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PATH_BYTES = 4096,
    DIGEST_SHOWN = 16, /* digits */
    READ_BYTES = 65536,
};

/* ---- Conditions ---- */

/* Writes "" if the program cannot be read. */
static void read_digest(char *digits, size_t size, pid_t pid)
{
    static uint8_t bytes[READ_BYTES];
    uint8_t digest[SHA256_BYTES];
    struct sha256 sha = {NULL};
    char path[64];
    FILE *file;
    size_t got;

    digits[0] = '\0';
    snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
    file = fopen(path, "re");
    if (file == NULL)
        return;
    if (sha256_open(&sha)) {
        sha256_begin(&sha);
        while ((got = fread(bytes, 1, sizeof(bytes), file)) > 0)
            sha256_add(&sha, bytes, got);
        sha256_end(&sha, digest);
        for (size_t i = 0; !ferror(file) && 2 * i + 3 <= size; i++)
            snprintf(digits + 2 * i, 3, "%02x", digest[i]);
    }
    sha256_close(&sha);
    fclose(file);
}

void store_describe_program(char *text, const char *version, pid_t pid)
{
    char digest[DIGEST_SHOWN + 1];

    read_digest(digest, sizeof(digest), pid);
    snprintf(text, STORE_PROGRAM, "%.64s%s%s", version, digest[0] != '\0' ? ", SHA-256 " : "",
             digest);
}

PRINTF_LIKE(3, 4)
static void add_condition(json_t *conditions, const char *label, const char *format, ...)
{
    char text[MACHINE_TEXT];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    json_object_set_new(conditions, label, json_string(text));
}

json_t *store_conditions(const struct lab *lab, const struct machine *machine, const char *server,
                         const char *client)
{
    json_t *conditions = json_object();

    if (conditions == NULL)
        return NULL;
    add_condition(conditions, "--quick", "%s", lab->quick ? "yes" : "no");
    add_condition(conditions, "--rounds", "%u", lab->rounds);
    add_condition(conditions, "--duration", "%" PRIu64 "ms", lab->trial_ms);
    add_condition(conditions, "--until-decided", "%" PRIu64 "ms", lab->until_ms);
    if (lab->constant_rate > 0)
        add_condition(conditions, "--rate", "%.0f", lab->constant_rate);
    else
        add_condition(conditions, "--rate", "none");
    for (size_t i = 0; i < machine->count; i++)
        if (!machine->fact[i].changes)
            add_condition(conditions, machine->fact[i].label, "%s", machine->fact[i].text);
    add_condition(conditions, "webserverd", "%s", server);
    add_condition(conditions, "wsload", "%s", client);
    return conditions;
}

/* The first difference, as "Kernel: 'A', now 'B'". Returns false if there is none. */
static bool find_changed_condition(json_t *old, json_t *now, char *text, size_t size)
{
    const char *label;
    json_t *value;

    json_object_foreach(now, label, value)
    {
        const char *before = json_string_value(json_object_get(old, label));
        const char *after = json_string_value(value);

        if (before != NULL && after != NULL && strcmp(before, after) == 0)
            continue;
        snprintf(text, size, "%s: '%s', now '%s'", label, before != NULL ? before : "unknown",
                 after != NULL ? after : "unknown");
        return true;
    }
    return false;
}

/* ---- Findings as JSON, to be read again by the same version ---- */

/* The names of the formats of axes. */
static const struct {
    const char *name;
    void (*format)(char *label, double value);
} axis_formats[] = {{"count", axis_count}, {"rate", axis_rate},           {"seconds", axis_seconds},
                    {"time", axis_time},   {"mebibytes", axis_mebibytes}, {"percent", axis_percent},
                    {"tail", axis_tail}};

static json_t *array_of(size_t count, json_t *(*item)(const void *of, size_t index), const void *of)
{
    json_t *array = json_array();

    for (size_t i = 0; i < count; i++)
        json_array_append_new(array, item(of, i));
    return array;
}

/* Text may be NULL. */
static json_t *text_or_null(const char *text)
{
    return text != NULL ? json_string(text) : json_null();
}

/* JSON has no NAN and no infinity. */
static json_t *finite_or_null(double number)
{
    return isfinite(number) ? json_real(number) : json_null();
}

static json_t *fact_json(const void *section, size_t index)
{
    const struct document_fact *fact = &((const struct document_section *)section)->facts[index];

    return json_pack("{s:i,s:s,s:s}", "tone", (int)fact->tone, "label", fact->label, "text",
                     fact->text);
}

static json_t *note_json(const void *section, size_t index)
{
    const struct document_note *note = &((const struct document_section *)section)->notes[index];

    return json_pack("{s:i,s:s,s:s}", "tone", (int)note->tone, "lead", note->lead, "text",
                     note->text);
}

static json_t *column_json(const void *table, size_t index)
{
    const struct document_column *column = &((const struct document_table *)table)->columns[index];

    return json_pack("{s:o,s:i,s:i}", "head", text_or_null(column->head), "align",
                     (int)column->align, "width", (int)column->width);
}

static json_t *row_json(const void *of, size_t index)
{
    const struct document_table *table = of;
    json_t *cells = json_array();

    for (size_t i = 0; i < table->column_count; i++)
        json_array_append_new(cells, json_string(table->rows[index].cells[i]));
    return json_pack("{s:i,s:o}", "tone", (int)table->rows[index].tone, "cells", cells);
}

static json_t *table_json(const void *section, size_t index)
{
    const struct document_table *table = &((const struct document_section *)section)->tables[index];

    return json_pack("{s:o,s:i,s:i,s:o,s:o}", "title", text_or_null(table->title), "media",
                     (int)table->media, "gap", (int)table->column_gap, "columns",
                     array_of(table->column_count, column_json, table), "rows",
                     array_of(table->row_count, row_json, table));
}

static json_t *axis_json(const struct plot_axis *axis)
{
    const char *format = "count";

    for (size_t i = 0; i < ARRAY_LENGTH(axis_formats); i++)
        if (axis_formats[i].format == axis->format)
            format = axis_formats[i].name;
    return json_pack("{s:b,s:s}", "logarithmic", axis->logarithmic, "format", format);
}

static json_t *point_json(const void *of, size_t index)
{
    const struct plot_line *line = of;
    const struct plot_point *point = &line->points[index];

    if (line->bars == NULL)
        return json_pack("[oo]", finite_or_null(point->x), finite_or_null(point->y));
    return json_pack("[oooo]", finite_or_null(point->x), finite_or_null(point->y),
                     finite_or_null(line->bars[index].low), finite_or_null(line->bars[index].high));
}

static json_t *line_json(const void *plot, size_t index)
{
    const struct plot_line *line = &((const struct plot *)plot)->line[index];

    return json_pack("{s:s,s:b,s:o}", "name", line->name, "smooth", line->smooth, "points",
                     array_of(line->count, point_json, line));
}

static json_t *plot_json(const void *section, size_t index)
{
    const struct plot *plot = &((const struct document_section *)section)->plots[index];

    return json_pack("{s:s,s:o,s:o,s:o,s:o}", "title", plot->title, "x", axis_json(&plot->x), "y",
                     axis_json(&plot->y), "shaded_to", finite_or_null(plot->shaded_to), "lines",
                     array_of(plot->line_count, line_json, plot));
}

static json_t *section_json(const void *document, size_t index)
{
    const struct document_section *section = &((const struct document *)document)->sections[index];

    return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o}", "heading", text_or_null(section->heading), "link",
                     text_or_null(section->link), "facts",
                     array_of(section->fact_count, fact_json, section), "tables",
                     array_of(section->table_count, table_json, section), "plots",
                     array_of(section->plot_count, plot_json, section), "notes",
                     array_of(section->note_count, note_json, section));
}

/* Returns NULL if the document is incomplete or memory runs out. */
static json_t *document_to_json(const struct document *document)
{
    if (document->failed)
        return NULL;
    return json_pack("{s:o,s:o,s:o,s:o,s:o}", "title", text_or_null(document->title), "subtitle",
                     text_or_null(document->subtitle), "legend", text_or_null(document->legend),
                     "fold", text_or_null(document->fold), "sections",
                     array_of(document->section_count, section_json, document));
}

static const char *text_at(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* An enum value; values out of range are those of the first one. */
static int choice_at(const json_t *object, const char *key, int most)
{
    json_int_t value = json_integer_value(json_object_get(object, key));

    return value >= 0 && value <= most ? (int)value : 0;
}

static double finite_or_nan(const json_t *number)
{
    return json_is_number(number) ? json_number_value(number) : NAN;
}

static enum document_tone tone_of(const json_t *object)
{
    return (enum document_tone)choice_at(object, "tone", DOCUMENT_QUIET);
}

static const char *or_empty(const char *text)
{
    return text != NULL ? text : "";
}

static void read_table(struct document *document, const json_t *json)
{
    struct document_column columns[DOCUMENT_COLUMNS_MAX];
    struct document_table *table;
    const json_t *item, *cell;
    size_t count = 0, i, k;

    json_array_foreach(json_object_get(json, "columns"), i, item)
    {
        if (count == DOCUMENT_COLUMNS_MAX)
            return;
        columns[count++] = (struct document_column){
            text_at(item, "head"), (enum document_align)choice_at(item, "align", DOCUMENT_BAR),
            (unsigned)choice_at(item, "width", 1000)};
    }
    if (count == 0)
        return;
    table = document_table(document, text_at(json, "title"), columns, count);
    if (table == NULL)
        return;
    table->media = (enum document_media)choice_at(json, "media", DOCUMENT_IN_HTML);
    table->column_gap = (unsigned)choice_at(json, "gap", 1000);
    json_array_foreach(json_object_get(json, "rows"), i, item)
    {
        document_row(document, tone_of(item));
        json_array_foreach(json_object_get(item, "cells"), k, cell)
            document_cell(document, "%s", or_empty(json_string_value(cell)));
    }
}

static struct plot_axis axis_of(const json_t *json)
{
    const char *name = text_at(json, "format");
    struct plot_axis axis = {json_is_true(json_object_get(json, "logarithmic")), axis_count};

    for (size_t i = 0; i < ARRAY_LENGTH(axis_formats); i++)
        if (name != NULL && strcmp(axis_formats[i].name, name) == 0)
            axis.format = axis_formats[i].format;
    return axis;
}

static void read_line(struct document *document, const json_t *json)
{
    const json_t *point;
    size_t i;

    document_line(document, or_empty(text_at(json, "name")),
                  json_is_true(json_object_get(json, "smooth")));
    json_array_foreach(json_object_get(json, "points"), i, point) document_point_between(
        document, finite_or_nan(json_array_get(point, 0)), finite_or_nan(json_array_get(point, 1)),
        finite_or_nan(json_array_get(point, 2)), finite_or_nan(json_array_get(point, 3)));
}

static void read_plot(struct document *document, const json_t *json)
{
    const json_t *line;
    size_t i;

    document_plot(document, or_empty(text_at(json, "title")), axis_of(json_object_get(json, "x")),
                  axis_of(json_object_get(json, "y")));
    document_shade(document, json_number_value(json_object_get(json, "shaded_to")));
    json_array_foreach(json_object_get(json, "lines"), i, line) read_line(document, line);
}

static void read_section(struct document *document, const json_t *json)
{
    const json_t *item;
    size_t i;

    json_array_foreach(json_object_get(json, "facts"), i, item)
        document_fact(document, tone_of(item), or_empty(text_at(item, "label")), "%s",
                      or_empty(text_at(item, "text")));
    json_array_foreach(json_object_get(json, "tables"), i, item) read_table(document, item);
    json_array_foreach(json_object_get(json, "plots"), i, item) read_plot(document, item);
    json_array_foreach(json_object_get(json, "notes"), i, item)
        document_note(document, tone_of(item), or_empty(text_at(item, "lead")), "%s",
                      or_empty(text_at(item, "text")));
}

/*
 * Adds to DOCUMENT, which is empty, what document_to_json() wrote. Returns 0, or -1: not such JSON,
 * or out of memory.
 */
static int document_from_json(struct document *document, const json_t *json)
{
    const json_t *sections = json_object_get(json, "sections"), *section;
    size_t i;

    if (json_array_size(sections) == 0)
        return -1;
    if (text_at(json, "title") != NULL)
        document_title(document, "%s", text_at(json, "title"));
    if (text_at(json, "subtitle") != NULL)
        document_subtitle(document, "%s", text_at(json, "subtitle"));
    if (text_at(json, "legend") != NULL)
        document_legend(document, "%s", text_at(json, "legend"));
    if (text_at(json, "fold") != NULL)
        document_fold(document, text_at(json, "fold"));
    json_array_foreach(sections, i, section)
    {
        if (i > 0)
            document_section(document, text_at(section, "heading"), text_at(section, "link"));
        read_section(document, section);
    }
    return document->failed ? -1 : 0;
}

/* ---- Files ---- */

static void make_findings_path(char *path, const char *directory, const char *name)
{
    snprintf(path, PATH_BYTES, "%.4000s/%s.json", directory, name);
}

int store_replace(const char *path, const char *text, size_t length, char *why, size_t size)
{
    char new_path[PATH_BYTES + 8];
    bool good;
    FILE *file;

    errno = 0;
    snprintf(new_path, sizeof(new_path), "%s.new", path);
    file = fopen(new_path, "we");
    good = file != NULL && fwrite(text, 1, length, file) == length;
    if (file != NULL && fclose(file) != 0)
        good = false;
    if (good && rename(new_path, path) == 0)
        return 0;
    snprintf(why, size, "cannot write %s: %s", path, strerror(errno != 0 ? errno : EIO));
    if (file != NULL)
        unlink(new_path);
    return -1;
}

static json_t *machine_json(const struct machine *machine)
{
    json_t *facts = json_array();

    for (size_t i = 0; i < machine->count; i++)
        json_array_append_new(facts, json_pack("{s:s,s:s,s:b}", "label", machine->fact[i].label,
                                               "text", machine->fact[i].text, "changes",
                                               machine->fact[i].changes));
    return facts;
}

static void read_machine(struct machine *machine, const json_t *facts)
{
    const json_t *fact;
    size_t i;

    machine->count = 0;
    json_array_foreach(facts, i, fact)
    {
        const char *label = json_string_value(json_object_get(fact, "label"));
        const char *text = json_string_value(json_object_get(fact, "text"));

        if (label != NULL && text != NULL)
            machine_add(machine, label, text, json_is_true(json_object_get(fact, "changes")));
    }
}

int store_write(const char *directory, const char *name, const json_t *conditions,
                const struct machine *machine, const struct document *findings, char *why,
                size_t size)
{
    json_t *whole = json_pack("{s:O,s:o,s:o}", "conditions", conditions, "machine",
                              machine_json(machine), "findings", document_to_json(findings));
    char *text = whole != NULL ? json_dumps(whole, JSON_INDENT(1)) : NULL;
    char path[PATH_BYTES];
    int result = -1;

    make_findings_path(path, directory, name);
    if (text == NULL)
        snprintf(why, size, "cannot write %s: out of memory", path);
    else
        result = store_replace(path, text, strlen(text), why, size);
    free(text);
    json_decref(whole);
    return result;
}

static enum store_outcome check_conditions(const json_t *whole, const char *path,
                                           const json_t *conditions, char *why, size_t size)
{
    char difference[2 * MACHINE_TEXT + 64];

    if (find_changed_condition(json_object_get(whole, "conditions"),
                               (json_t *)(uintptr_t)conditions, difference, sizeof(difference))) {
        snprintf(
            why, size,
            "cannot resume: %.200s has other conditions: %s; leave out --resume to start again",
            path, difference);
        return STORE_REFUSED;
    }
    return STORE_FOUND;
}

enum store_outcome store_read(const char *directory, const char *name, const json_t *conditions,
                              struct machine *machine, struct document **findings, char *why,
                              size_t size)
{
    enum store_outcome outcome = STORE_FOUND;
    char path[PATH_BYTES];
    json_error_t error;
    json_t *whole;

    make_findings_path(path, directory, name);
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return STORE_MISSING;
    whole = json_load_file(path, 0, &error);
    if (whole != NULL)
        outcome = check_conditions(whole, path, conditions, why, size);
    if (outcome == STORE_REFUSED) {
        json_decref(whole);
        return outcome;
    }
    *findings = findings_create("");
    read_machine(machine, json_object_get(whole, "machine"));
    if (*findings == NULL ||
        document_from_json(*findings, json_object_get(whole, "findings")) != 0) {
        document_free(*findings);
        snprintf(why, size, "cannot resume: %.200s has no findings; remove it", path);
        outcome = STORE_REFUSED;
    }
    json_decref(whole);
    return outcome;
}

int store_forget(const char *directory, const char *name, char *why, size_t size)
{
    char path[PATH_BYTES];

    make_findings_path(path, directory, name);
    if (unlink(path) == 0 || errno == ENOENT)
        return 0;
    return snprintf(why, size, "cannot remove %s: %s", path, strerror(errno)), -1;
}
