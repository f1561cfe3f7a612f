/*
 * One key with its value, as a file or an override has it, and the way from a word of the value back
 * to its place in the text. Pure; any thread.
 */
#ifndef DAEMON_CONFIG_ENTRY_H
#define DAEMON_CONFIG_ENTRY_H

#include "daemon/config/report.h"

#include <stddef.h>

/* One line's part of a value. */
struct config_piece {
    size_t value_offset; /* where it begins in the value */
    size_t line;         /* from 1; 0: no number */
    struct span text;    /* the whole line */
    size_t text_offset;  /* where it begins in the line */
};

/* All of it is borrowed: the lines as long as the text, the rest for the time of the call. */
struct config_entry {
    const char *section;  /* a known one */
    struct span argument; /* of the section, "/prefix" in [headers /prefix]; length 0: none */
    struct span key;
    struct config_place key_place;
    const char *value; /* may be empty */
    const struct config_piece *piece;
    size_t piece_count; /* at least 1 */
};

/* Where LENGTH bytes of ENTRY's value at OFFSET stand; what goes on in the next line is cut. */
struct config_place config_entry_place(const struct config_entry *entry, size_t offset,
                                       size_t length);

/*
 * Complains about what no value may have and a file could not carry: quotes around it, and a
 * comment sign that is not one. Returns 0 or -1.
 */
int config_entry_check(const struct config_entry *entry, struct config_report *report);

/* The same where quotes do have a meaning. */
int config_entry_check_words(const struct config_entry *entry, struct config_report *report);

/* Complains about a byte in the place's line that is not text. Returns 0 or -1. */
int config_line_check(const struct config_place *line, struct config_report *report);

#endif
