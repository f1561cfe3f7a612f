#include "loadgen/plan/input.h"

#include "common/macros.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>

enum { STEP = 64 * 1024 };

static bool read_all(FILE *file, char **text, size_t *length)
{
    size_t capacity = 0;

    do {
        char *grown = realloc(*text, capacity + STEP + 1);

        if (grown == NULL)
            return false;
        *text = grown;
        capacity += STEP;
        *length += fread(*text + *length, 1, capacity - *length, file);
    } while (*length == capacity);
    (*text)[*length] = '\0';
    return ferror(file) == 0;
}

bool input_read(const char *file, char **text, size_t *length)
{
    FILE *in = fopen(file, "re");
    bool good;
    int error;

    *text = NULL;
    *length = 0;
    if (in == NULL)
        return false;
    good = read_all(in, text, length);
    error = errno;
    fclose(in);
    errno = error;
    return good;
}

int input_each_line(const char *file, int (*read)(void *context, char *text, size_t length),
                    void *context, char *why, size_t size)
{
    FILE *in = fopen(file, "re");
    char *text = NULL;
    size_t capacity = 0;
    ssize_t length;
    int result = 0;

    if (in == NULL) {
        snprintf(why, size, "cannot read '%s': %s", file, strerror(errno));
        return -1;
    }
    while (result == 0 && (length = getline(&text, &capacity, in)) > 0)
        result = read(context, text, (size_t)length);
    if (result == 0 && !feof(in)) {
        snprintf(why, size, "cannot read '%s': %s", file, strerror(errno));
        result = -1;
    }
    free(text);
    fclose(in);
    return result;
}

int input_fail(struct input_place place, const char *format, ...)
{
    va_list arguments;
    int used = snprintf(place.why, place.size, "%s:%u: ", place.file, place.line);

    va_start(arguments, format);
    if (used >= 0 && (size_t)used < place.size)
        vsnprintf(place.why + used, place.size - (size_t)used, format, arguments);
    va_end(arguments);
    return -1;
}

/* ---- Tables ---- */

struct csv_reader {
    struct csv_file *csv;
    char *at; /* the next character */
    uint32_t line;
    char *why;
    size_t size;
};

static struct input_place at_line(const struct csv_reader *reader, uint32_t line)
{
    return (struct input_place){reader->csv->file_name, line, reader->why, reader->size};
}

/* ---- Cells ---- */

static bool add_cell(struct csv_file *csv, char *cell)
{
    if (csv->cell_count == csv->cell_capacity) {
        size_t capacity = csv->cell_capacity > 0 ? 2 * csv->cell_capacity : 64;
        char **grown = realloc(csv->cells, capacity * sizeof(*grown));

        if (grown == NULL)
            return false;
        csv->cells = grown;
        csv->cell_capacity = capacity;
    }
    csv->cells[csv->cell_count++] = cell;
    return true;
}

/* ROW 0: that of the names. */
static bool set_line(struct csv_file *csv, size_t row, uint32_t line)
{
    if (row == csv->line_capacity) {
        size_t capacity = row > 0 ? 2 * row : 64;
        uint32_t *grown = realloc(csv->row_lines, capacity * sizeof(*grown));

        if (grown == NULL)
            return false;
        csv->row_lines = grown;
        csv->line_capacity = capacity;
    }
    csv->row_lines[row] = line;
    return true;
}

static bool ends_cell(const char *at)
{
    return *at == ',' || *at == '\n' || *at == '\0' || (at[0] == '\r' && at[1] == '\n');
}

/* Reads a quoted cell and unquotes it in place; reader->at is behind the opening quote. */
static int read_quoted_cell(struct csv_reader *reader)
{
    uint32_t begun = reader->line;
    char *to = reader->at;

    for (; reader->at[0] != '"' || reader->at[1] == '"'; reader->at++) {
        if (*reader->at == '\0')
            return input_fail(at_line(reader, begun), "quoted value without a closing quote");
        reader->line += *reader->at == '\n';
        reader->at += *reader->at == '"';
        *to++ = *reader->at;
    }
    reader->at++;
    if (!ends_cell(reader->at))
        return input_fail(at_line(reader, reader->line), "text after a closing quote");
    *to = '\0'; /* over the closing quote, or before it */
    return 0;
}

static int read_plain_cell(struct csv_reader *reader)
{
    while (!ends_cell(reader->at)) {
        if (*reader->at == '"')
            return input_fail(at_line(reader, reader->line),
                              "quote in a value that is not quoted (write \"a \"\"b\"\" c\")");
        reader->at++;
    }
    return 0;
}

/* Reads a cell and its separator. Sets *last if the row ends with it. */
static int read_cell(struct csv_reader *reader, bool *last)
{
    bool quoted = *reader->at == '"';
    char *cell = reader->at + quoted, *end;

    reader->at = cell;
    if ((quoted ? read_quoted_cell(reader) : read_plain_cell(reader)) != 0)
        return -1;
    if (!add_cell(reader->csv, cell))
        return input_fail(at_line(reader, reader->line), "out of memory");
    end = reader->at;
    *last = *end != ',';
    reader->line += *last;
    reader->at += *end == '\r' ? 2 : *end != '\0';
    *end = '\0';
    return 0;
}

/* ---- Rows ---- */

static int read_row(struct csv_reader *reader, size_t row)
{
    struct csv_file *csv = reader->csv;
    size_t first = csv->cell_count;
    uint32_t line = reader->line;
    bool last = false;

    if (!set_line(csv, row, line))
        return input_fail(at_line(reader, line), "out of memory");
    while (!last)
        if (read_cell(reader, &last) != 0)
            return -1;
    if (row > 0 && csv->cell_count - first != csv->columns)
        return input_fail(at_line(reader, line), "%zu values, but the first row has %zu names",
                          csv->cell_count - first, csv->columns);
    return 0;
}

static void skip_empty_lines(struct csv_reader *reader)
{
    while (reader->at[0] == '\n' || (reader->at[0] == '\r' && reader->at[1] == '\n')) {
        reader->at += reader->at[0] == '\r' ? 2 : 1;
        reader->line++;
    }
}

static int check_names(const struct csv_reader *reader)
{
    const struct csv_file *csv = reader->csv;

    for (size_t i = 0; i < csv->columns; i++) {
        if (csv->cells[i][0] == '\0' || strpbrk(csv->cells[i], "{}\r\n") != NULL)
            return input_fail(at_line(reader, csv->row_lines[0]),
                              "invalid name '%s' of column %zu (no braces)", csv->cells[i], i + 1);
        for (size_t k = 0; k < i; k++)
            if (strcmp(csv->cells[i], csv->cells[k]) == 0)
                return input_fail(at_line(reader, csv->row_lines[0]),
                                  "two columns have the name '%s'", csv->cells[i]);
    }
    return 0;
}

static int read_rows(struct csv_reader *reader)
{
    struct csv_file *csv = reader->csv;

    skip_empty_lines(reader);
    if (*reader->at != '\0') {
        if (read_row(reader, 0) != 0)
            return -1;
        csv->columns = csv->cell_count;
        if (check_names(reader) != 0)
            return -1;
    }
    for (skip_empty_lines(reader); *reader->at != '\0'; skip_empty_lines(reader))
        if (read_row(reader, ++csv->rows) != 0)
            return -1;
    return csv->rows > 0 ? 0
                         : input_fail(at_line(reader, 1),
                                      "no rows (the first line has the names of the columns)");
}

int csv_file_read(struct csv_file *csv, const char *file, char *why, size_t size)
{
    struct csv_reader reader = {.csv = csv, .line = 1, .why = why, .size = size};
    size_t length;

    *csv = (struct csv_file){.file_name = file};
    if (!input_read(file, &csv->text, &length)) {
        snprintf(why, size, "cannot read '%s': %s", file, strerror(errno));
        return -1;
    }
    if (strlen(csv->text) != length)
        return input_fail(at_line(&reader, 1), "not text: it contains a NUL byte");
    reader.at = csv->text + (strncmp(csv->text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0);
    return read_rows(&reader);
}

const char *csv_file_value(const struct csv_file *csv, size_t row, size_t column)
{
    return csv->cells[(row + 1) * csv->columns + column];
}

const char *csv_file_find(const struct csv_file *csv, size_t row, const char *name, size_t length)
{
    for (size_t i = 0; i < csv->columns; i++)
        if (strlen(csv->cells[i]) == length && memcmp(csv->cells[i], name, length) == 0)
            return csv_file_value(csv, row, i);
    return NULL;
}

char *csv_file_names(const struct csv_file *csv, char *buffer)
{
    size_t used = 0;

    buffer[0] = '\0';
    for (size_t i = 0; i < csv->columns && used + strlen(csv->cells[i]) + 3 < CSV_FILE_NAMES; i++)
        used += (size_t)snprintf(buffer + used, CSV_FILE_NAMES - used, "%s%s", i > 0 ? ", " : "",
                                 csv->cells[i]);
    return buffer;
}

uint32_t csv_file_line(const struct csv_file *csv, size_t row)
{
    return csv->row_lines[row + 1];
}

void csv_file_free(struct csv_file *csv)
{
    free(csv->text);
    free(csv->cells);
    free(csv->row_lines);
    *csv = (struct csv_file){0};
}

/* ---- Times in logs and recordings ---- */

/* NAN for an invalid date, such as February 30. */
static double seconds_of(const struct tm *parts)
{
    struct tm filled = *parts;
    time_t seconds = timegm(&filled);

    return filled.tm_mday == parts->tm_mday ? (double)seconds : NAN;
}

double timestamp_read_log(const char *text)
{
    const char *open = strchr(text, '[');
    struct tm parts = {0};
    long offset;

    if (open == NULL || strptime(open + 1, "%d/%b/%Y:%H:%M:%S %z", &parts) == NULL)
        return NAN;
    offset = parts.tm_gmtoff;
    return seconds_of(&parts) - (double)offset;
}

double timestamp_read_iso(const char *text)
{
    struct tm parts = {0}, zone = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &parts);
    double fraction = 0;
    long offset = 0;

    if (rest == NULL)
        return NAN;
    if (*rest == '.') {
        char *end;

        fraction = strtod(rest, &end);
        rest = end;
    }
    if ((*rest == '+' || *rest == '-') && strptime(rest, "%z", &zone) != NULL)
        offset = zone.tm_gmtoff;
    return seconds_of(&parts) - (double)offset + fraction;
}
