/*
 * One filter for every list of the console. Words that are all to be true:
 *
 *     text             TEXT stands somewhere in the row, in whatever case
 *     name:text        it stands in the column NAME; name:a|b is one or the other;
 *                      2xx, 4xx and so on stand for a class of status codes
 *     name>10ms        the column's number is above (or <: below) that many; sizes take K M G,
 *     name<4K          times us ms s m h
 *     slower:10ms      the same as took>10ms
 *     !word            the word is not true
 *
 * A word about a column that a list does not have is passed over there. Pure; one thread.
 */
#ifndef CONSOLE_FILTER_H
#define CONSOLE_FILTER_H

#include "console/ui/table.h"

#include <stdbool.h>
#include <stddef.h>

enum { FILTER_BYTES = 200, FILTER_WORDS = 16 };

struct filter_word {
    bool negated;
    char compare;                /* ':' '<' '>', or '\0' for text anywhere */
    char name[TABLE_NAME_BYTES]; /* of the column */
    char text[FILTER_BYTES];     /* in small letters */
    double number;
};

struct filter {
    char text[FILTER_BYTES]; /* as typed; "": all rows are shown */
    struct filter_word word[FILTER_WORDS];
    size_t words;
};

/* Sets FILTER from TEXT. Returns 0, or -1 with a sentence in WHY: FILTER is then as before. */
int filter_set(struct filter *filter, const char *text, char *why, size_t size);

/* True when there is something to filter by. */
bool filter_active(const struct filter *filter);

bool filter_matches(const struct filter *filter, const struct column *columns, size_t count,
                    const struct cell *cells);

/*
 * Adds the word NAME:TEXT, or takes it out again when it is there. Blanks and '|' in TEXT become
 * '?', which stands for any one character. Returns 0, or -1 when it would be too long.
 */
int filter_toggle(struct filter *filter, const char *name, const char *text);

#endif
