/* Input files: their text, lines, tables and times. Main thread. */
#ifndef LOADGEN_INPUT_H
#define LOADGEN_INPUT_H

#include "common/macros.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Reads all of FILE into *text, which has a NUL after its *length bytes. The caller frees *text in
 * either case. Returns false with errno.
 */
bool input_read(const char *file, char **text, size_t *length);

/* A line of a file, and where its fault is described: WHY with SIZE bytes. All borrowed. */
struct input_place {
    const char *file;
    uint32_t line;
    char *why;
    size_t size;
};

/*
 * Calls READ with each line of FILE and its LENGTH, with the line end, until it returns a number
 * other than 0, which is then returned. Returns 0 at the end, or -1 with WHY if FILE cannot be
 * read.
 */
int input_each_line(const char *file, int (*read)(void *context, char *text, size_t length),
                    void *context, char *why, size_t size);

/* Describes a fault: "FILE:LINE: " and the message. Returns -1. */
int input_fail(struct input_place place, const char *format, ...) PRINTF_LIKE(2, 3);

/*
 * Reads a table in the form of RFC 4180: values separated by commas, quoted with '"' if they
 * contain commas, quotes or line breaks. The first row has the names of the columns; empty lines
 * are skipped. Main thread.
 */

struct csv_file {
    const char *file_name; /* borrowed */
    char *text;            /* the cells point into it */
    char **cells;          /* row by row; the names first */
    uint32_t *row_lines;   /* the line on which each row begins; the names first */
    size_t columns;
    size_t rows; /* without the names */
    size_t cell_count, cell_capacity;
    size_t line_capacity;
};

/* Returns 0, or -1 with WHY. Release with csv_file_free() in either case. */
int csv_file_read(struct csv_file *csv, const char *file, char *why, size_t size);

void csv_file_free(struct csv_file *csv);

/* The value of COLUMN in ROW, both from 0. */
const char *csv_file_value(const struct csv_file *csv, size_t row, size_t column);

/* The value in ROW of the column whose name is NAME, of this length; NULL: there is none. */
const char *csv_file_find(const struct csv_file *csv, size_t row, const char *name, size_t length);

enum { CSV_FILE_NAMES = 200 };

/*
 * Writes the first names of the columns, separated by commas, to BUFFER of CSV_FILE_NAMES bytes;
 * returns BUFFER.
 */
char *csv_file_names(const struct csv_file *csv, char *buffer);

/* The line on which ROW begins. */
uint32_t csv_file_line(const struct csv_file *csv, size_t row);

/*
 * Times in logs and recordings, as seconds since 1970; NAN: none, or invalid. Pure.
 */

/* The first "[21/Nov/2026:06:18:30 +0000]" in TEXT. */
double timestamp_read_log(const char *text);

/* "2026-11-21T06:18:30.123Z" or with an offset such as "+01:00"; the fraction is optional. */
double timestamp_read_iso(const char *text);

#endif
