#include "daemon/config/internal.h"

#include "common/escape.h"

#include <ctype.h>
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
    struct config_place place = entry->key_place;

    if (entry->written > 0) { /* the value is not as in the line */
        offset = 0;
        length = entry->written;
    }
    place.offset = entry->value_offset + offset;
    if (place.offset > place.text.length)
        place.offset = place.text.length;
    place.length =
        length < place.text.length - place.offset ? length : place.text.length - place.offset;
    return place;
}

int config_entry_check_words(const struct config_entry *entry, struct config_report *report)
{
    struct config_place place;

    for (size_t i = 0; entry->value[i] != '\0'; i++) {
        if (strchr(";#", entry->value[i]) == NULL ||
            (i > 0 && !isspace((unsigned char)entry->value[i - 1])))
            continue;
        place = config_entry_place(entry, i, strlen(entry->value + i));
        config_report_error(report, &place,
                            entry->value[i] == ';'
                                ? "put a comment on a line of its own; a ';' of the value follows "
                                  "its word without a blank"
                                : "put the comment on a line of its own",
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
                             const struct config_line *first)
{
    if (first->source == entry->key_place.source)
        config_report_error(report, &entry->key_place, "remove one of the two lines",
                            "'%.*s' is already set on line %zu", CONFIG_QUOTED(entry->key),
                            first->number);
    else
        config_report_error(report, &entry->key_place, "remove one of the two lines",
                            "'%.*s' is already set in %s:%zu", CONFIG_QUOTED(entry->key),
                            first->source, first->number);
}

/* Reading. */

enum section_state { SECTION_NONE, SECTION_KNOWN, SECTION_INVALID };

struct reader {
    const char *name;
    struct span rest;   /* the text after the current line */
    struct span line;   /* the current one, without its end */
    size_t line_number; /* of the current one, from 1 */
    enum section_state state;
    const char *section;  /* the current one */
    struct span argument; /* of the section */
    char *expanded;       /* what argument points to if it had variables */

    struct config_report *report;
    config_entry_handler *handle;
    void *owner;
};

/* WORD in the current line. */
static struct config_place place_of_word(const struct reader *reader, struct span word)
{
    return (struct config_place){reader->name, reader->line_number, reader->line,
                                 (size_t)(word.start - reader->line.start), word.length};
}

const char *config_find_equals(struct span line)
{
    bool quoted = false;

    for (size_t i = 0; i < line.length; i++) {
        quoted = quoted != (line.start[i] == '"');
        if (line.start[i] == '=' && !quoted)
            return line.start + i;
    }
    return memchr(line.start, '=', line.length);
}

/* In these values a ';' after a blank may be meant, so it begins no comment. */
static bool value_may_have_semicolons(const char *section, struct span key)
{
    return strcmp(section, "headers") == 0 || strcmp(section, "mime") == 0 ||
           span_is(key, SPAN("realm")) || span_is(key, SPAN("hsts"));
}

static struct span without_comment(struct span value)
{
    for (size_t i = 0; i < value.length; i++)
        if (value.start[i] == ';' && (i == 0 || isspace((unsigned char)value.start[i - 1])))
            return config_trim((struct span){value.start, i});
    return value;
}

/* Reports a key that is empty or outside a section. */
static void report_stray_key(const struct reader *reader, struct span key)
{
    char advice[CONFIG_ADVICE_MAX] = "every key belongs to a section: write [section] above it";
    const struct config_place place = place_of_word(reader, key);
    const struct config_key *meant;

    if (key.length == 0) {
        config_report_error(reader->report, &place, "write key = value", "no key before the '='");
        return;
    }
    meant = config_key_guess(key);
    if (meant != NULL)
        snprintf(advice, sizeof(advice), "'%s' belongs to [%s]", meant->name, meant->section);
    config_report_error(reader->report, &place, advice, "the key '%.*s' is not in a section",
                        CONFIG_QUOTED(key));
}

/* LINE has no '='. */
static void report_malformed(const struct reader *reader, struct span line)
{
    const struct config_place place = place_of_word(reader, line);
    struct span word = {line.start, 0};
    char advice[CONFIG_ADVICE_MAX] = "write key = value, [section] or # comment";

    while (word.length < line.length && line.start[word.length] != ':' &&
           !isspace((unsigned char)line.start[word.length]))
        word.length++;
    if (reader->state == SECTION_KNOWN && config_key_find(reader->section, word) != NULL)
        snprintf(advice, sizeof(advice), "write %.*s = VALUE", CONFIG_QUOTED(word));
    else if (line.start > reader->line.start && reader->state == SECTION_KNOWN)
        snprintf(advice, sizeof(advice), "write a value on one line, after key =");
    config_report_error(reader->report, &place, advice, "the line has no '='");
}

/* True if a credential in the value of KEY stands for its path. */
static bool value_is_path(const char *section, struct span key)
{
    const struct config_key *type = section != NULL ? config_key_find(section, key) : NULL;

    if (section != NULL && strcmp(section, "host") == 0)
        for (int i = 0; i < HOST_KEY_COUNT && type == NULL; i++)
            if (span_is(key, span_of(config_host_key_names[i])))
                type = config_host_key_type((enum config_host_key)i);
    return type != NULL
               ? type->type == CONFIG_PATH || type->type == CONFIG_PATHS
               : section == NULL || (strcmp(section, "access") == 0 && span_is(key, SPAN("users")));
}

/* LINE has no blanks around it. */
static void read_entry(const struct reader *reader, struct span line)
{
    const char *equals = config_find_equals(line), *end = line.start + line.length;
    struct config_entry entry = {.section = reader->section, .argument = reader->argument};
    struct config_place place;
    struct span value;
    bool failed = false;
    char *copy;

    if (reader->state == SECTION_INVALID)
        return; /* the section has been reported */
    if (equals == NULL) {
        report_malformed(reader, line);
        return;
    }
    entry.key = config_trim((struct span){line.start, (size_t)(equals - line.start)});
    if (span_is(entry.key, SPAN("include")))
        entry.section = NULL;
    else if (entry.key.length == 0 || reader->state == SECTION_NONE) {
        report_stray_key(reader, entry.key);
        return;
    }
    value = config_trim((struct span){equals + 1, (size_t)(end - equals - 1)});
    if (entry.section == NULL || !value_may_have_semicolons(reader->section, entry.key))
        value = without_comment(value);
    place = place_of_word(reader, value);
    copy = config_variables_expand(&place, value_is_path(entry.section, entry.key), &failed,
                                   reader->report);
    if (copy != NULL)
        entry.written = value.length;
    else if (!failed)
        copy = strndup(value.start, value.length);
    entry.key_place = place_of_word(reader, entry.key);
    entry.value = copy;
    entry.value_offset = (size_t)(value.start - reader->line.start);
    if (copy != NULL)
        reader->handle(reader->owner, &entry);
    else if (!failed)
        config_report_error(reader->report, &entry.key_place, "", "out of memory");
    free(copy);
}

/* Sections. */

static void report_section_line(struct reader *reader, struct span word, const char *advice,
                                const char *problem)
{
    const struct config_place place = place_of_word(reader, word);

    reader->state = SECTION_INVALID;
    config_report_error(reader->report, &place, advice, "%s", problem);
}

/* A [host] exists even without keys: reports it as an entry without a key. */
static void deliver_host(const struct reader *reader, struct span name)
{
    const struct config_entry entry = {.section = reader->section,
                                       .argument = reader->argument,
                                       .key = {name.start, 0},
                                       .key_place = place_of_word(reader, name),
                                       .value = ""};

    reader->handle(reader->owner, &entry);
}

/* Enters the section of LINE, which begins with '[' and has no blanks around it. */
static void enter_section(struct reader *reader, struct span line)
{
    const char *end = memchr(line.start, ']', line.length);
    char advice[CONFIG_ADVICE_MAX], problem[CONFIG_PROBLEM_MAX];
    const struct config_section *section;
    struct span name, argument, after;
    struct config_place place;
    bool failed = false;

    if (end == NULL) {
        report_section_line(reader, line, "write [section]", "the ']' is missing");
        return;
    }
    name = config_trim((struct span){line.start + 1, (size_t)(end - line.start - 1)});
    after = config_trim((struct span){end + 1, line.length - (size_t)(end - line.start) - 1});
    config_section_split(&name, &argument);
    section = config_section_find(name);
    if (section == NULL) {
        config_section_advice(name, advice, sizeof(advice));
        snprintf(problem, sizeof(problem), "unknown section [%.*s]", CONFIG_QUOTED(name));
        report_section_line(reader, name, advice, problem);
        return;
    }
    reader->state = SECTION_KNOWN;
    reader->section = section->name;
    place = place_of_word(reader, argument);
    free(reader->expanded);
    reader->expanded = config_variables_expand(&place, false, &failed, reader->report);
    reader->argument = reader->expanded != NULL ? config_trim(span_of(reader->expanded)) : argument;
    if (failed)
        reader->state = SECTION_INVALID;
    else if (reader->argument.length > 0 &&
             !config_section_argument_fits(section->name, reader->argument, advice, sizeof(advice)))
        report_section_line(reader, argument, advice, "the section does not take this argument");
    else if (after.length > 0 && after.start[0] != '#' && after.start[0] != ';')
        report_section_line(reader, after, "put keys on a line of their own",
                            "text after the section");
    else if (strcmp(section->name, "host") == 0)
        deliver_host(reader, name);
}

/* Lines. */

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
static bool line_is_valid(const struct reader *reader)
{
    const struct config_place line = place_of_word(reader, (struct span){reader->line.start, 0});
    struct config_place end = line;

    if (config_line_check(&line, reader->report) != 0)
        return false;
    if (reader->line.length <= CONFIG_LINE_MAX)
        return true;
    end.offset = CONFIG_LINE_MAX;
    end.length = 1;
    config_report_error(reader->report, &end, "shorten it; many networks can be in a file: @FILE",
                        "the line has %zu bytes (at most %d)", reader->line.length,
                        CONFIG_LINE_MAX);
    return false;
}

static void read_line(struct reader *reader)
{
    struct span line = config_trim(reader->line);

    if (line.length == 0 || line.start[0] == '#' || line.start[0] == ';' || !line_is_valid(reader))
        return;
    if (line.start[0] == '[')
        enter_section(reader, line);
    else
        read_entry(reader, line);
}

/* Text. */

struct span config_skip_mark(struct span text)
{
    static const char mark[] = {'\xef', '\xbb', '\xbf'};

    return text.length >= sizeof(mark) && memcmp(text.start, mark, sizeof(mark)) == 0
               ? (struct span){text.start + sizeof(mark), text.length - sizeof(mark)}
               : text;
}

void config_read(const char *name, const char *text, size_t length, struct config_report *report,
                 config_entry_handler *handle, void *owner)
{
    struct reader reader = {.name = name,
                            .rest = config_skip_mark((struct span){text, length}),
                            .report = report,
                            .handle = handle,
                            .owner = owner};
    const struct config_place file = {.source = name};

    if (length >= 2 && (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0)) {
        config_report_error(report, &file, "save it as UTF-8", "the file is in UTF-16");
        return;
    }
    while (next_line_of_text(&reader))
        read_line(&reader);
    free(reader.expanded);
}
