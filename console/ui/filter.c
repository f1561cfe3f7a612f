#include "console/ui/filter.h"

#include "common/macros.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool filter_active(const struct filter *filter)
{
    return filter != NULL && filter->words > 0;
}

static void copy_lower(char *to, size_t size, const char *from, size_t length)
{
    size_t i;

    for (i = 0; i < length && i + 1 < size; i++)
        to[i] = (char)tolower((unsigned char)from[i]);
    to[i] = '\0';
}

/* Parses LENGTH characters: a number with an optional unit. */
static int read_number(const char *start, size_t length, double *number)
{
    static const struct {
        const char *name;
        double factor;
    } units[] = {{"", 1},     {"ns", 1},          {"us", 1e3},         {"ms", 1e6},
                 {"s", 1e9},  {"m", 60e9},        {"h", 3600e9},       {"k", 1e3},
                 {"K", 1024}, {"M", 1024 * 1024}, {"G", 1073741824.0}, {"T", 1099511627776.0}};
    char text[32], *end;

    if (length == 0 || length >= sizeof(text) || !isdigit((unsigned char)*start))
        return -1;
    memcpy(text, start, length);
    text[length] = '\0';
    *number = strtod(text, &end);
    for (size_t i = 0; i < ARRAY_LENGTH(units); i++)
        if (strcmp(end, units[i].name) == 0) {
            *number *= units[i].factor;
            return 0;
        }
    return -1;
}

static bool is_name_character(char character)
{
    return isalnum((unsigned char)character) || character == '_';
}

/*
 * The length of the column name at START. A name may end like a title: "req/s", "p99.9"; then one
 * character is between that and the comparison.
 */
static size_t name_length(const char *start, size_t length)
{
    size_t name = 0;

    while (name < length && is_name_character(start[name]))
        name++;
    if (name > 0 && name + 2 < length && (start[name] == '/' || start[name] == '.') &&
        is_name_character(start[name + 1]) && strchr(":=<>", start[name + 2]) != NULL)
        name += 2;
    return name;
}

static int read_word(struct filter_word *word, const char *start, size_t length, char *why,
                     size_t size)
{
    size_t name;

    *word = (struct filter_word){.negated = *start == '!' && length > 1};
    start += word->negated;
    length -= word->negated;
    name = name_length(start, length);
    if (name > 0 && name < TABLE_NAME_BYTES && name + 1 < length &&
        strchr(":=<>", start[name]) != NULL) {
        word->compare = start[name];
        copy_lower(word->column, sizeof(word->column), start, name);
        for (char *c = word->column; *c != '\0'; c++)
            *c = is_name_character(*c) ? *c : '_';
        start += name + 1;
        length -= name + 1;
    }
    copy_lower(word->text, sizeof(word->text), start, length);
    if (strcmp(word->column, "slower") == 0 && word->compare == ':') {
        snprintf(word->column, sizeof(word->column), "took");
        word->compare = '>';
    }
    if ((word->compare != '<' && word->compare != '>') ||
        read_number(start, length, &word->number) == 0)
        return 0;
    snprintf(why, size, "'%.40s' in the filter is not a number (examples: 200, 4K, 10ms)",
             word->text);
    return -1;
}

int filter_set(struct filter *filter, const char *text, char *why, size_t size)
{
    struct filter fresh = {0};

    if (strlen(text) >= sizeof(fresh.text)) {
        snprintf(why, size, "the filter is longer than %zu characters", sizeof(fresh.text) - 1);
        return -1;
    }
    snprintf(fresh.text, sizeof(fresh.text), "%s", text);
    for (const char *at = text + strspn(text, " "); *at != '\0'; at += strspn(at, " ")) {
        size_t length = strcspn(at, " ");

        if (fresh.words == FILTER_WORDS) {
            snprintf(why, size, "the filter has more than %d words", FILTER_WORDS);
            return -1;
        }
        if (read_word(&fresh.word[fresh.words++], at, length, why, size) != 0)
            return -1;
        at += length;
    }
    *filter = fresh;
    return 0;
}

static char lower_case(char character)
{
    return (char)(character >= 'A' && character <= 'Z' ? character | 0x20 : character);
}

/* True if TEXT contains the first LENGTH characters of PATTERN. */
static bool contains_pattern(const char *text, const char *pattern, size_t length)
{
    for (; *text != '\0'; text++) {
        size_t i = 0;

        while (i < length && text[i] != '\0' &&
               (pattern[i] == '?' || pattern[i] == lower_case(text[i])))
            i++;
        if (i == length)
            return true;
    }
    return length == 0;
}

/*
 * PATTERN has alternatives separated by '|'. "4xx" matches three-digit numbers that begin with 4;
 * any other pattern matches as a substring, or with EXACT as the whole text.
 */
static bool any_alternative(const char *text, const char *pattern, bool exact)
{
    for (;;) {
        size_t length = strcspn(pattern, "|");
        bool class = !exact && length == 3 && isdigit((unsigned char)pattern[0]) &&
                     pattern[1] == 'x' && pattern[2] == 'x' && strlen(text) == 3;

        if (class ? text[0] == pattern[0]
                  : (!exact || strlen(text) == length) && contains_pattern(text, pattern, length))
            return true;
        if (pattern[length] == '\0')
            return false;
        pattern += length + 1;
    }
}

struct filter_plan filter_plan_for(const struct filter *filter, const struct column *columns,
                                   size_t count)
{
    struct filter_plan plan = {.filter = filter, .count = count};

    for (size_t i = 0; filter != NULL && i < filter->words; i++) {
        const struct filter_word *word = &filter->word[i];

        plan.column[i] = -1;
        for (size_t j = 0; j < count; j++) {
            bool named = word->compare != '\0' && plan.column[i] < 0 &&
                         column_is_named(&columns[j], word->column);

            plan.column[i] = named ? (int)j : plan.column[i];
            plan.reads[j] |= named || word->compare == '\0';
        }
    }
    return plan;
}

static bool any_cell_contains(const struct filter_word *word, size_t count,
                              const struct cell *cells)
{
    for (size_t i = 0; i < count; i++)
        if (any_alternative(cells[i].text, word->text, false))
            return true;
    return false;
}

static bool cell_matches(const struct filter_word *word, const struct cell *cell)
{
    const char *text = cell->text + strspn(cell->text, " ");

    return word->compare == '<'   ? cell->number < word->number
           : word->compare == '>' ? cell->number > word->number
                                  : any_alternative(text, word->text, word->compare == '=');
}

bool filter_matches(const struct filter_plan *plan, const struct cell *cells)
{
    for (size_t i = 0; plan->filter != NULL && i < plan->filter->words; i++) {
        const struct filter_word *word = &plan->filter->word[i];

        if (word->compare == '\0'
                ? any_cell_contains(word, plan->count, cells) == word->negated
                : plan->column[i] >= 0 &&
                      cell_matches(word, &cells[plan->column[i]]) == word->negated)
            return false;
    }
    return true;
}

int filter_toggle(struct filter *filter, const char *name, const char *text, bool exact)
{
    char word[FILTER_BYTES], fresh[2 * FILTER_BYTES + 2], why[128];
    size_t length;
    char *at;

    if ((size_t)snprintf(word, sizeof(word), "%s%c%s", name, exact ? '=' : ':', text) >=
        sizeof(word))
        return -1;
    for (char *c = word; *c != '\0'; c++)
        if (*c == ' ' || *c == '|')
            *c = '?';
    length = strlen(word);
    snprintf(fresh, sizeof(fresh), "%s", filter->text);
    at = strstr(fresh, word);
    if (at != NULL && (at == fresh || at[-1] == ' ') && (at[length] == '\0' || at[length] == ' ')) {
        const char *end = at + length + strspn(at + length, " ");

        memmove(at, end, strlen(end) + 1);
        for (size_t last = strlen(fresh); last > 0 && fresh[last - 1] == ' '; last--)
            fresh[last - 1] = '\0';
    } else {
        snprintf(fresh, sizeof(fresh), "%s%s%s", filter->text, filter->text[0] ? " " : "", word);
    }
    return filter_set(filter, fresh, why, sizeof(why));
}
