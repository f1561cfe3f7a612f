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

#include "daemon/config/entry.h"

#include <stddef.h>

enum {
    CONFIG_LINE_MAX = 199,         /* bytes; what inih takes in one piece */
    CONFIG_TEXT_MAX = 1024 * 1024, /* bytes; a larger file is no configuration */
};

/* Takes one entry. */
typedef void config_taker(void *owner, const struct config_entry *entry);

/*
 * Reads LENGTH bytes at TEXT, which are called NAME in messages. Entries that are well formed and
 * stand in a known section go to TAKE in the order of the text; everything else is told to REPORT.
 */
void config_read(const char *name, const char *text, size_t length, struct config_report *report,
                 config_taker *take, void *owner);

#endif
