#include "daemon/config/entry.h"

#include <ctype.h>
#include <string.h>

int config_line_check(const struct config_place *line, struct config_report *report)
{
    struct config_place place = *line;

    for (size_t i = 0; i < line->text.length; i++) {
        unsigned char byte = (unsigned char)line->text.start[i];

        if ((byte >= 0x20 && byte != 0x7f) || byte == '\t')
            continue;
        place.offset = i;
        place.length = 1;
        config_report_error(report, &place, "take it out; is this a text file?",
                            "the line has a control character (byte 0x%02x)", byte);
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

static int check_quotes(const struct config_entry *entry, struct config_report *report)
{
    size_t length = strlen(entry->value);
    struct config_place place = config_entry_place(entry, 0, length);
    char quote = entry->value[0];

    if (length < 2 || (quote != '"' && quote != '\'') || entry->value[length - 1] != quote)
        return 0;
    config_report_error(report, &place, "a value goes to the end of its line: take the quotes away",
                        "quotes have no meaning here");
    return -1;
}

int config_entry_check_words(const struct config_entry *entry, struct config_report *report)
{
    struct config_place place;

    for (size_t i = 0; entry->value[i] != '\0'; i++) {
        if (strchr(";#", entry->value[i]) == NULL ||
            (i > 0 && !isspace((unsigned char)entry->value[i - 1])))
            continue;
        place = config_entry_place(entry, i, strlen(entry->value + i));
        config_report_error(report, &place, "write the comment in a line of its own",
                            "'%c' can't begin a word of a value", entry->value[i]);
        return -1;
    }
    return 0;
}

int config_entry_check(const struct config_entry *entry, struct config_report *report)
{
    return config_entry_check_words(entry, report) == 0 ? check_quotes(entry, report) : -1;
}
