#include "daemon/config/internal.h"

#include "common/escape.h"

#include <assert.h>
#include <ctype.h>
#include <ini.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Entries. */

int config_line_check(const struct config_place *line, struct config_report *report)
{
    struct config_place place = *line;

    for (size_t i = 0, length; i < line->text.length; i += length) {
        unsigned char byte = (unsigned char)line->text.start[i];

        length = byte == '\t' ? 1 : escape_printable(line->text.start + i, line->text.length - i);
        if (length > 0)
            continue;
        place.offset = i;
        place.length = 1;
        config_report_error(
            report, &place, "remove it; is this a text file in UTF-8?",
            "the line has %s (byte 0x%02x)",
            byte < 0x80 ? "a control character" : "a control character or is not UTF-8", byte);
        return -1;
    }
    return 0;
}

struct config_place config_entry_place(const struct config_entry *entry, size_t offset,
                                       size_t length)
{
    const struct config_piece *piece = &entry->piece[entry->piece_count - 1];
    size_t in_line, end;

    while (piece > entry->piece && piece->value_offset > offset)
        piece--;
    in_line = piece->text_offset + (offset - piece->value_offset);
    end = in_line + length;
    if (in_line > piece->text.length)
        in_line = piece->text.length;
    if (end > piece->text.length)
        end = piece->text.length;
    return (struct config_place){entry->key_place.source, piece->line, piece->text, in_line,
                                 end - in_line};
}

int config_entry_check_words(const struct config_entry *entry, struct config_report *report)
{
    struct config_place place;

    for (size_t i = 0; entry->value[i] != '\0'; i++) {
        if (strchr(";#", entry->value[i]) == NULL ||
            (i > 0 && !isspace((unsigned char)entry->value[i - 1])))
            continue;
        place = config_entry_place(entry, i, strlen(entry->value + i));
        config_report_error(report, &place, "put the comment on a line of its own",
                            "'%c' cannot start a word of a value", entry->value[i]);
        return -1;
    }
    return 0;
}

int config_entry_check(const struct config_entry *entry, struct config_report *report)
{
    size_t length = strlen(entry->value);
    struct config_place place = config_entry_place(entry, 0, length);
    char quote = entry->value[0];

    if (config_entry_check_words(entry, report) != 0)
        return -1;
    if (length < 2 || (quote != '"' && quote != '\'') || entry->value[length - 1] != quote)
        return 0;
    config_report_error(report, &place, "a value extends to the end of the line: remove the quotes",
                        "values are not quoted");
    return -1;
}

bool config_consists_of(struct span text, const char *bytes)
{
    for (size_t i = 0; i < text.length; i++)
        if (text.start[i] == '\0' || strchr(bytes, text.start[i]) == NULL)
            return false;
    return text.length > 0;
}

bool config_is_token(struct span text)
{
    return config_consists_of(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                    "!#$%&'*+-.^_`|~");
}

void config_report_duplicate(struct config_report *report, const struct config_entry *entry,
                             size_t first)
{
    config_report_error(report, &entry->key_place, "remove one of the two lines",
                        "'%.*s' is already set on line %zu", CONFIG_QUOTED(entry->key), first);
}

/* Reading. */

#define BLANKS " \t\v\f\r"

enum section_state { SECTION_NONE, SECTION_KNOWN, SECTION_INVALID };

struct reader {
    const char *name;
    struct span rest;   /* the text after the current line */
    struct span line;   /* the current one, without its end */
    size_t line_number; /* of the current one, from 1 */
    bool indented;      /* the current line is indented */
    bool handed_over;   /* inih has read the current line but has not yet called the handler */
    bool has_key;       /* inih has a key that an indented line continues */
    bool skipping;      /* skip indented lines: they continue an invalid line */
    enum section_state state;
    const char *section;  /* the current one */
    struct span argument; /* of the section */

    bool open; /* an entry has begun */
    struct config_entry entry;
    char *value; /* of that entry; room for the whole text */
    size_t value_length;
    struct config_piece *piece; /* room for one per line */

    struct config_report *report;
    config_entry_handler *handle;
    void *owner;
};

/* A word of the current line. */
static struct config_place place_here(const struct reader *reader, size_t offset, size_t length)
{
    return (struct config_place){reader->name, reader->line_number, reader->line, offset, length};
}

/* The number of blanks at the start of TEXT. */
static size_t leading_blanks(struct span text)
{
    size_t count = 0;

    while (count < text.length && isspace((unsigned char)text.start[count]))
        count++;
    return count;
}

/* TEXT's length without the blanks at its end. */
static size_t trimmed_length(struct span text)
{
    size_t length = text.length;

    while (length > 0 && isspace((unsigned char)text.start[length - 1]))
        length--;
    return length;
}

/* The current line without the blanks around it. */
static struct config_place place_of_line(const struct reader *reader)
{
    size_t first = leading_blanks(reader->line);

    return place_here(reader, first, trimmed_length(reader->line) - first);
}

/* Entries. */

static void deliver_entry(struct reader *reader)
{
    if (!reader->open)
        return;
    reader->open = false;
    reader->handle(reader->owner, &reader->entry);
}

/* Drops the current entry and the lines that continue it. */
static void drop_entry(struct reader *reader)
{
    reader->open = false;
    reader->skipping = true;
}

static void append_piece(struct reader *reader, const char *text, size_t length, size_t text_offset)
{
    struct config_piece *piece = &reader->piece[reader->entry.piece_count++];

    if (reader->value_length > 0)
        reader->value[reader->value_length++] = ' ';
    *piece =
        (struct config_piece){reader->value_length, reader->line_number, reader->line, text_offset};
    memcpy(reader->value + reader->value_length, text, length);
    reader->value_length += length;
    reader->value[reader->value_length] = '\0';
}

/* Reports the key of the current line: it is empty or outside a valid section. */
static void report_stray_key(struct reader *reader, struct span key,
                             const struct config_place *place)
{
    char advice[CONFIG_ADVICE_MAX] = "every key belongs to a section: write [section] above it";
    const struct config_key *meant;

    drop_entry(reader);
    if (reader->state == SECTION_INVALID)
        return; /* the invalid section has been reported */
    if (key.length == 0) {
        config_report_error(reader->report, place, "write key = value", "no key before the '='");
        return;
    }
    meant = config_key_guess(key);
    if (meant != NULL)
        snprintf(advice, sizeof(advice), "'%s' belongs to [%s]", meant->name, meant->section);
    config_report_error(reader->report, place, advice, "the key '%.*s' is not in a section",
                        CONFIG_QUOTED(key));
}

static void begin_entry(struct reader *reader, const char *name, const char *value)
{
    size_t first = leading_blanks(reader->line);
    size_t key_length = strlen(name);
    struct span key = {reader->line.start + first, key_length};
    struct config_place place = place_here(reader, first, key_length == 0 ? 1 : key_length);
    size_t separator = first + key_length;
    struct span after;

    reader->has_key = key_length > 0;
    if (key_length == 0 || reader->state != SECTION_KNOWN) {
        report_stray_key(reader, key, &place);
        return;
    }
    while (reader->line.start[separator] != '=' && reader->line.start[separator] != ':')
        separator++;
    after = (struct span){reader->line.start + separator + 1, reader->line.length - separator - 1};
    reader->open = true;
    reader->value_length = 0;
    reader->entry = (struct config_entry){.section = reader->section,
                                          .argument = reader->argument,
                                          .key = key,
                                          .key_place = place,
                                          .value = reader->value,
                                          .piece = reader->piece};
    append_piece(reader, value, strlen(value), separator + 1 + leading_blanks(after));
}

/* Some versions of inih do not remove comments from continuation lines. */
static size_t without_comment(const char *text)
{
    size_t length = strlen(text);

    for (size_t i = 1; i < length; i++)
        if (text[i] == ';' && isspace((unsigned char)text[i - 1]))
            return trimmed_length((struct span){text, i});
    return length;
}

/* Called by inih for every key and every continuation line. */
static int handle_inih_entry(void *owner, const char *section, const char *name, const char *value)
{
    struct reader *reader = owner;

    (void)section; /* inih truncates the section name; use ours */
    reader->handed_over = false;
    if (!reader->indented || !reader->has_key)
        begin_entry(reader, name, value);
    else if (reader->open)
        append_piece(reader, value, without_comment(value), leading_blanks(reader->line));
    return 1;
}

/* Lines. */

/* Reports the last line if inih did not call the handler for it. */
static void report_malformed(struct reader *reader)
{
    struct config_place place;
    struct span word;
    char advice[CONFIG_ADVICE_MAX] = "write key = value, [section] or # comment";

    if (!reader->handed_over)
        return;
    reader->handed_over = false;
    drop_entry(reader);
    place = place_of_line(reader);
    word = (struct span){place.text.start + place.offset, 0};
    while (word.length < place.length && !isspace((unsigned char)word.start[word.length]))
        word.length++;
    if (reader->state == SECTION_KNOWN && config_key_find(reader->section, word) != NULL)
        snprintf(advice, sizeof(advice), "write %.*s = VALUE", CONFIG_QUOTED(word));
    config_report_error(reader->report, &place, advice, "the line has no '='");
}

/* Moves to the next line. Returns false at the end. */
static bool next_line_of_text(struct reader *reader)
{
    const char *end;

    if (reader->rest.length == 0)
        return false;
    end = memchr(reader->rest.start, '\n', reader->rest.length);
    reader->line.start = reader->rest.start;
    reader->line.length = end == NULL ? reader->rest.length : (size_t)(end - reader->rest.start);
    reader->rest.start += reader->line.length + (end != NULL);
    reader->rest.length -= reader->line.length + (end != NULL);
    if (reader->line.length > 0 && reader->line.start[reader->line.length - 1] == '\r')
        reader->line.length--;
    reader->line_number++;
    return true;
}

/* Reports characters and a length that a line cannot have. */
static bool line_is_valid(struct reader *reader)
{
    struct config_place line = place_here(reader, 0, 0);
    struct config_place end = place_here(reader, CONFIG_LINE_MAX, 1);

    if (config_line_check(&line, reader->report) != 0)
        return false;
    if (reader->line.length <= CONFIG_LINE_MAX)
        return true;
    config_report_error(
        reader->report, &end, "continue the value on the next line, which starts with blanks",
        "the line has %zu bytes (at most %d)", reader->line.length, CONFIG_LINE_MAX);
    return false;
}

static void report_section_line(struct reader *reader, size_t offset, size_t length,
                                const char *advice, const char *problem)
{
    struct config_place place = place_here(reader, offset, length);

    reader->state = SECTION_INVALID;
    config_report_error(reader->report, &place, advice, "%s", problem);
}

static bool blank_or_comment(struct span text)
{
    size_t first = leading_blanks(text);

    return first == text.length || text.start[first] == '#' || text.start[first] == ';';
}

/* The text between '[' and ']' of LINE, which begins with '['; start NULL: no ']'. */
static struct span section_name(struct span line)
{
    struct span name = {line.start + leading_blanks(line) + 1, 0};
    const char *end = memchr(name.start, ']', line.length - (size_t)(name.start - line.start));

    if (end == NULL)
        return (struct span){NULL, 0};
    name.length = (size_t)(end - name.start);
    return name;
}

/* A [host] exists even without keys: reports it as an entry without a key. */
static void deliver_host(struct reader *reader, struct span name)
{
    struct config_place place =
        place_here(reader, (size_t)(name.start - reader->line.start), name.length);
    const struct config_piece piece = {0, reader->line_number, reader->line, 0};
    const struct config_entry entry = {.section = reader->section,
                                       .argument = reader->argument,
                                       .key = {name.start, 0},
                                       .key_place = place,
                                       .value = "",
                                       .piece = &piece,
                                       .piece_count = 1};

    reader->handle(reader->owner, &entry);
}

/* Enters the section of the current line. */
static void enter_section(struct reader *reader)
{
    struct span line = {reader->line.start, trimmed_length(reader->line)};
    struct span name = section_name(line), argument, after;
    const struct config_section *section;
    char advice[CONFIG_ADVICE_MAX], problem[CONFIG_PROBLEM_MAX];
    size_t end;

    reader->has_key = false;
    reader->skipping = false;
    if (name.start == NULL) {
        report_section_line(reader, leading_blanks(line), line.length - leading_blanks(line),
                            "write [section]", "the ']' is missing");
        return;
    }
    end = (size_t)(name.start - line.start) + name.length + 1;
    after = (struct span){line.start + end, line.length - end};
    config_section_split(&name, &argument);
    section = config_section_find(name);
    if (section == NULL) {
        config_section_advice(name, advice, sizeof(advice));
        snprintf(problem, sizeof(problem), "unknown section [%.*s]", CONFIG_QUOTED(name));
        report_section_line(reader, (size_t)(name.start - line.start), name.length, advice,
                            problem);
        return;
    }
    reader->state = SECTION_KNOWN;
    reader->section = section->name;
    reader->argument = argument;
    if (argument.length > 0 &&
        !config_section_argument_fits(section->name, argument, advice, sizeof(advice)))
        report_section_line(reader, (size_t)(argument.start - line.start), argument.length, advice,
                            "the section does not take this argument");
    else if (!blank_or_comment(after))
        report_section_line(reader, end + leading_blanks(after),
                            after.length - leading_blanks(after), "put keys on a line of their own",
                            "text after the section");
    else if (strcmp(section->name, "host") == 0)
        deliver_host(reader, name);
}

/* True for an indented line whose first word suggests that it was meant as a key or section. */
static bool is_misplaced(const struct reader *reader)
{
    size_t first = leading_blanks(reader->line);
    struct span text = {reader->line.start + first, reader->line.length - first};
    struct span word = {text.start, 0}, after;

    if (text.start[0] == '[')
        return section_name(text).start != NULL && config_section_find(section_name(text)) != NULL;
    while (word.length < text.length && strchr("=:" BLANKS, text.start[word.length]) == NULL)
        word.length++;
    after = (struct span){text.start + word.length, text.length - word.length};
    after.start += leading_blanks(after);
    return reader->state == SECTION_KNOWN && config_key_find(reader->section, word) != NULL &&
           after.start < text.start + text.length && after.start[0] == '=';
}

/* Handles a line that is not empty. Returns true if inih should read it. */
static bool admit_line(struct reader *reader)
{
    bool continues = reader->indented && (reader->has_key || reader->skipping);
    struct config_place place = place_of_line(reader);

    if (!continues) {
        deliver_entry(reader);
        reader->skipping = false;
    }
    if (!line_is_valid(reader)) {
        drop_entry(reader);
        return false;
    }
    if (!continues)
        return true;
    if (reader->has_key && is_misplaced(reader)) {
        deliver_entry(reader);
        reader->skipping = true;
        config_report_error(reader->report, &place, "remove the blanks at its start",
                            "an indented line continues the value above it");
    }
    return !reader->skipping;
}

/* Copies LINE into BUFFER as a string for inih. */
static char *hand_over(char *buffer, struct span line)
{
    memcpy(buffer, line.start, line.length);
    buffer[line.length] = '\0';
    return buffer;
}

/*
 * Called by inih for every line. Lines that inih should skip are replaced by empty ones, and
 * sections by "[]", which resets inih's last key.
 */
static char *feed_inih(char *buffer, int size, void *stream)
{
    struct reader *reader = stream;
    struct span nothing = {"", 0};
    bool continues;

    assert(size > CONFIG_LINE_MAX);
    (void)size;
    report_malformed(reader);
    if (!next_line_of_text(reader)) {
        deliver_entry(reader);
        return NULL;
    }
    if (blank_or_comment(reader->line))
        return hand_over(buffer, nothing);
    reader->indented = leading_blanks(reader->line) > 0;
    continues = reader->indented && (reader->has_key || reader->skipping);
    if (!admit_line(reader))
        return hand_over(buffer, nothing);
    if (!continues && reader->line.start[leading_blanks(reader->line)] == '[') {
        enter_section(reader);
        return hand_over(buffer, SPAN("[]"));
    }
    reader->handed_over = true;
    return hand_over(buffer, reader->line);
}

/* Text. */

/* Skips a byte order mark. Returns -1 after reporting one of UTF-16. */
static int skip_mark(struct reader *reader)
{
    struct config_place file = {.source = reader->name};

    if (reader->rest.length >= 3 && memcmp(reader->rest.start, "\xef\xbb\xbf", 3) == 0) {
        reader->rest.start += 3;
        reader->rest.length -= 3;
    }
    if (reader->rest.length < 2 || (memcmp(reader->rest.start, "\xff\xfe", 2) != 0 &&
                                    memcmp(reader->rest.start, "\xfe\xff", 2) != 0))
        return 0;
    config_report_error(reader->report, &file, "save it as UTF-8", "the file is in UTF-16");
    return -1;
}

void config_read(const char *name, const char *text, size_t length, struct config_report *report,
                 config_entry_handler *handle, void *owner)
{
    struct reader reader = {
        .name = name, .rest = {text, length}, .report = report, .handle = handle, .owner = owner};
    struct config_place file = {.source = name};
    size_t lines = 1;

    if (skip_mark(&reader) != 0)
        return;
    for (size_t i = 0; i < reader.rest.length; i++)
        lines += reader.rest.start[i] == '\n';
    reader.value = malloc(length + 2);
    reader.piece = calloc(lines, sizeof(*reader.piece));
    if (reader.value == NULL || reader.piece == NULL)
        config_report_error(report, &file, "", "out of memory");
    else
        ini_parse_stream(feed_inih, &reader, handle_inih_entry, &reader);
    free(reader.value);
    free(reader.piece);
}
