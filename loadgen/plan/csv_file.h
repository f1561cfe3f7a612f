/*
 * Reads a table in the form of RFC 4180: values separated by commas, quoted with '"' if they contain commas, quotes
 * or line breaks. The first row has the names of the columns; empty lines are skipped. Main thread.
 */
#ifndef LOADGEN_CSV_FILE_H
#define LOADGEN_CSV_FILE_H

#include <stddef.h>
#include <stdint.h>

struct csv_file {
    const char *name; /* the file's; borrowed */
    char *text;       /* that the cells point into */
    char **cells;     /* row by row; the names first */
    uint32_t *lines;  /* on which each row begins, of the names first */
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

/* Writes the first names of the columns, separated by commas, to BUFFER of CSV_FILE_NAMES bytes; returns BUFFER. */
char *csv_file_names(const struct csv_file *csv, char *buffer);

/* The line on which ROW begins. */
uint32_t csv_file_line(const struct csv_file *csv, size_t row);

#endif
