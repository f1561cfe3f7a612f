/*
 * From a configuration's text to its entries (section, key, value), by inih. inih tells its
 * handlers no line number, splits lines of more than 199 bytes, passes over sections without keys
 * and reads on behind a malformed line. So it is fed line by line by our own reader, which keeps
 * the line for the messages, checks section lines, and refuses what inih would bend. Pure; any
 * thread.
 *
 * The format: lines of "key = value" below "[section]"; an indented line continues the value above
 * it, joined by a blank; a line that begins with '#' or ';' is a comment, and so is the rest of a
 * line from a ';' that follows a blank.
 */
#ifndef DAEMON_CONFIG_READER_H
#define DAEMON_CONFIG_READER_H

#include "daemon/config/report.h"

#include <stddef.h>

enum {
    CONFIG_LINE_MAX = 199,         /* bytes; what inih takes in one piece */
    CONFIG_TEXT_MAX = 1024 * 1024, /* bytes; a larger file is no configuration */
};

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

/* Reports that ENTRY's key is already set on line FIRST of the file. */
void config_report_duplicate(struct config_report *report, const struct config_entry *entry,
                             size_t first);

/* Takes one entry. */
typedef void config_taker(void *owner, const struct config_entry *entry);

/*
 * Reads LENGTH bytes at TEXT, which are called NAME in messages. Entries that are well formed and
 * stand in a known section go to TAKE in the order of the text; everything else is told to REPORT.
 */
void config_read(const char *name, const char *text, size_t length, struct config_report *report,
                 config_taker *take, void *owner);

#endif
