#include "daemon/http/qvalue.h"

#include <stdbool.h>

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t';
}

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

static struct span trim(struct span text)
{
    while (text.length > 0 && is_blank(text.start[0]))
        text = (struct span){text.start + 1, text.length - 1};
    while (text.length > 0 && is_blank(text.start[text.length - 1]))
        text.length--;
    return text;
}

struct span qvalue_cut(struct span *text, char separator)
{
    const char *found = memchr(text->start, separator, text->length);
    size_t length = found != NULL ? (size_t)(found - text->start) : text->length;
    struct span piece = {text->start, length};
    size_t past = found != NULL ? length + 1 : length;

    *text = (struct span){text->start + past, text->length - past};
    return trim(piece);
}

int qvalue_read(struct span text)
{
    int value = 0;
    int place = 1000;

    if (text.length == 0 || text.length > 5 || (text.start[0] != '0' && text.start[0] != '1') ||
        (text.length > 1 && text.start[1] != '.'))
        return -1;
    for (size_t i = 0; i < text.length; i++) {
        if (i == 1)
            continue;
        if (!is_digit(text.start[i]))
            return -1;
        value += (text.start[i] - '0') * place;
        place /= 10;
    }
    return value <= 1000 ? value : -1;
}
