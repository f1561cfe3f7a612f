/*
 * Parses the text of a configuration into entries (section, key, value), with inih. inih gives its
 * handler no line number, splits lines of more than 199 bytes, ignores sections without keys and
 * continues after a malformed line. So this reader feeds it line by line, keeps the line for
 * messages, checks section lines, and reports what inih would misread. Pure; any thread.
 *
 * The format: lines "key = value" below "[section]". An indented line continues the value above it,
 * joined by a blank. A line that begins with '#' or ';' is a comment, and so is the rest of a line
 * after a blank and ';'.
 */
#ifndef DAEMON_CONFIG_READER_H
#define DAEMON_CONFIG_READER_H

#include "daemon/config/report.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    CONFIG_LINE_MAX = 199,         /* bytes; inih splits longer lines */
    CONFIG_TEXT_MAX = 1024 * 1024, /* bytes */
};

/* The part of a value that is on one line. */
struct config_piece {
    size_t value_offset; /* where it begins in the value */
    size_t line;         /* from 1; 0: no number */
    struct span text;    /* the whole line */
    size_t text_offset;  /* where it begins in the line */
};

/* A key with its value. Borrowed: the lines live as long as the text, the rest during the call. */
struct config_entry {
    const char *section;  /* a valid one */
    struct span argument; /* of the section, "/prefix" in [headers /prefix]; length 0: none */
    struct span key;      /* empty: the line [host …] itself */
    struct config_place key_place;
    const char *value; /* may be empty */
    const struct config_piece *piece;
    size_t piece_count; /* at least 1 */
};

/* The place of LENGTH bytes at OFFSET of ENTRY's value, cut at the end of the line. */
struct config_place config_entry_place(const struct config_entry *entry, size_t offset,
                                       size_t length);

/*
 * Reports quotes around the value, and a '#' or ';' that looks like a comment but is not. Returns 0
 * or -1.
 */
int config_entry_check(const struct config_entry *entry, struct config_report *report);

/* The same for values with quoted words. */
int config_entry_check_words(const struct config_entry *entry, struct config_report *report);

/* Reports control characters in LINE. Returns 0 or -1. */
int config_line_check(const struct config_place *line, struct config_report *report);

/* True if TEXT has at least one byte, and all of them are in BYTES. */
bool config_consists_of(struct span text, const char *bytes);

/* The same for a token of RFC 9110 section 5.6.2. */
bool config_is_token(struct span text);

/* Reports that ENTRY's key is already set on line FIRST of the file. */
void config_report_duplicate(struct config_report *report, const struct config_entry *entry,
                             size_t first);

typedef void config_entry_handler(void *owner, const struct config_entry *entry);

/*
 * Parses LENGTH bytes at TEXT; NAME is the source in messages. Passes well-formed entries in valid
 * sections to HANDLE, in order, and errors to REPORT.
 */
void config_read(const char *name, const char *text, size_t length, struct config_report *report,
                 config_entry_handler *handle, void *owner);

#endif
