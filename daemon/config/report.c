#include "daemon/config/internal.h"

#include "common/escape.h"

#include <stdarg.h>
#include <string.h>

enum {
    MESSAGE_MAX = 1024,
    /* of a longer line, only the part around the word */
    LINE_SHOWN_MAX = 200,
    BEFORE_WORD_MAX = 100,
    INDENT = 4,
};

/*
 * Removes the first character of TEXT and returns it; each byte that is not printable counts as
 * one.
 */
static struct span take_character(struct span *text)
{
    size_t length = escape_printable(text->start, text->length);
    struct span character = {text->start, length == 0 ? 1 : length};

    text->start += character.length;
    text->length -= character.length;
    return character;
}

static size_t count_characters(struct span text)
{
    size_t count = 0;

    for (; text.length > 0; count++)
        take_character(&text);
    return count;
}

/* Prints TEXT with '?' for bytes that are not printable, except tabs. */
static void print_clean(FILE *out, struct span text)
{
    while (text.length > 0) {
        struct span character = take_character(&text);

        if (escape_printable(character.start, character.length) > 0 || character.start[0] == '\t')
            fwrite(character.start, 1, character.length, out);
        else
            fputc('?', out);
    }
}

/* Moves OFFSET back to the start of a UTF-8 character, if there is one. */
static size_t at_character(struct span text, size_t offset)
{
    for (size_t back = 0; back < 4 && back <= offset && offset < text.length; back++)
        if (((unsigned char)text.start[offset - back] & 0xc0) != 0x80)
            return offset - back;
    return offset;
}

/* TEXT up to the '=', if it sets a secret. */
static struct span without_secret(struct span text)
{
    const char *equals = memchr(text.start, '=', text.length), *dot;
    struct span name;

    if (equals == NULL)
        return text;
    name = config_trim((struct span){text.start, (size_t)(equals - text.start)});
    dot = memrchr(name.start, '.', name.length); /* of an override */
    if (dot != NULL)
        name = (struct span){dot + 1, name.length - (size_t)(dot + 1 - name.start)};
    for (size_t i = 0; i < KEY_COUNT; i++)
        if (config_keys[i].type == CONFIG_SECRET && span_is(name, span_of(config_keys[i].name)))
            return (struct span){text.start, (size_t)(equals + 1 - text.start)};
    return text;
}

/* The line, or of a longer one the part around the word, and carets under the word. */
static void print_line(FILE *out, const struct config_place *place)
{
    struct span line = without_secret(place->text), before, word;
    size_t first = 0, end, word_end = place->offset + place->length, carets;

    if (word_end > line.length) {
        fprintf(out, "%*s", INDENT, "");
        print_clean(out, line);
        fputs(" (hidden)\n", out);
        return;
    }
    if (line.length > LINE_SHOWN_MAX && place->offset > BEFORE_WORD_MAX)
        first = at_character(line, place->offset - BEFORE_WORD_MAX);
    end = line.length - first > LINE_SHOWN_MAX ? at_character(line, first + LINE_SHOWN_MAX)
                                               : line.length;
    fprintf(out, "%*s%s", INDENT, "", first > 0 ? "..." : "");
    print_clean(out, (struct span){line.start + first, end - first});
    fprintf(out, "%s\n%*s", end < line.length ? "..." : "", INDENT + (first > 0 ? 3 : 0), "");
    before = (struct span){line.start + first, place->offset - first};
    while (before.length > 0) /* as wide, and with its tabs */
        fputc(take_character(&before).start[0] == '\t' ? '\t' : ' ', out);
    word = (struct span){line.start + place->offset,
                         (word_end < end ? word_end : end) - place->offset};
    carets = count_characters(word);
    for (size_t i = 0; i < (carets == 0 ? 1 : carets); i++)
        fputc('^', out);
    fputc('\n', out);
}

void config_report_error(struct config_report *report, const struct config_place *place,
                         const char *advice, const char *format, ...)
{
    struct span before = {place->text.start, place->offset};
    char message[MESSAGE_MAX];
    va_list arguments;

    if (++report->errors > CONFIG_ERRORS_SHOWN)
        return;
    va_start(arguments, format);
    vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    print_clean(report->out, span_of(place->source));
    if (place->line > 0)
        fprintf(report->out, ":%zu:%zu", place->line, count_characters(before) + 1);
    fputs(": error: ", report->out);
    print_clean(report->out, span_of(message));
    fputc('\n', report->out);
    if (place->text.start != NULL)
        print_line(report->out, place);
    if (advice[0] == '\0')
        return;
    fprintf(report->out, "%*s", INDENT, "");
    print_clean(report->out, span_of(advice));
    fputc('\n', report->out);
}

void config_report_end(const struct config_report *report)
{
    size_t more = report->errors > CONFIG_ERRORS_SHOWN ? report->errors - CONFIG_ERRORS_SHOWN : 0;

    if (more > 0)
        fprintf(report->out, "and %zu more error%s\n", more, more == 1 ? "" : "s");
}

int config_fault_report(const struct config_faults *faults, size_t offset, size_t length,
                        const char *advice, const char *format, ...)
{
    char problem[CONFIG_PROBLEM_MAX];
    struct config_fault fault = {offset, length, problem, advice};
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(problem, sizeof(problem), format, arguments);
    va_end(arguments);
    faults->report(faults->owner, &fault);
    return -1;
}

int config_fault_memory(const struct config_faults *faults)
{
    return config_fault_report(faults, 0, 0, "", "out of memory");
}
