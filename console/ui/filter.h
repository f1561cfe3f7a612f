/*
 * One filter for all lists of the console: words that must all match.
 *
 *     text             a cell of the row contains TEXT, ignoring case
 *     name:text        the cell in column NAME contains TEXT; name:a|b contains either;
 *                      2xx, 4xx and so on match a class of status codes
 *     name=text        the cell in column NAME is TEXT, ignoring case; alternatives as above
 *     name>10ms        the number in column NAME is above (<: below) the given one; sizes take
 *     name<4K          K M G, times us ms s m h
 *     slower:10ms      same as took>10ms
 *     !word            matches rows that WORD does not match
 *
 * A word about a column that a list does not have matches every row of it; views_check_filter()
 * rejects a column that no list has. Pure; one thread.
 */
#ifndef CONSOLE_FILTER_H
#define CONSOLE_FILTER_H

#include "console/ui/table.h"

#include <stdbool.h>
#include <stddef.h>

enum { FILTER_BYTES = 200, FILTER_WORDS = 16 };

struct filter_word {
    bool negated;
    char compare; /* ':' '=' '<' '>'; '\0': any cell contains the text */
    char column[TABLE_NAME_BYTES];
    char text[FILTER_BYTES]; /* lower case */
    double number;
};

struct filter {
    char text[FILTER_BYTES]; /* as typed; "": every row matches */
    struct filter_word word[FILTER_WORDS];
    size_t words;
};

/* Parses TEXT. Returns 0, or -1 with a message in WHY and FILTER unchanged. */
int filter_set(struct filter *filter, const char *text, char *why, size_t size);

/* True if the filter has at least one word. */
bool filter_active(const struct filter *filter);

/*
 * Which cells a filter reads of a list with COUNT columns, which are borrowed. Found once, not for each row.
 */
struct filter_plan {
    const struct filter *filter; /* NULL or without words: every row matches */
    size_t count;
    int column[FILTER_WORDS]; /* that each word is about; -1: the list has none */
    bool reads[TABLE_COLUMNS_MAX];
};

struct filter_plan filter_plan_for(const struct filter *filter, const struct column *columns,
                                   size_t count);

/* CELLS has all columns of the list; only those that the plan reads need be filled. */
bool filter_matches(const struct filter_plan *plan, const struct cell *cells);

/*
 * Adds the word NAME=TEXT (NAME:TEXT unless EXACT), or removes it if it is there. Blanks and '|' in
 * TEXT become '?', which matches any character. Returns 0, or -1 if the filter would be too long.
 */
int filter_toggle(struct filter *filter, const char *name, const char *text, bool exact);

#endif
