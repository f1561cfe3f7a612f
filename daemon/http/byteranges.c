#include "daemon/http/byteranges.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

/* The two delimiters, and a Content-Range with three numbers of 20 digits. */
enum { PART_TEXT_MAX = BYTERANGES_BOUNDARY + 128 };

static int draw_boundary(char *boundary)
{
    uint64_t chance[2];

    if (getrandom(chance, sizeof(chance), 0) != sizeof(chance))
        return -1;
    snprintf(boundary, BYTERANGES_BOUNDARY + 1, "%016" PRIx64 "%016" PRIx64, chance[0], chance[1]);
    return 0;
}

static size_t write_part(char *text, const struct byteranges *parts, uint32_t number,
                         struct span typing, uint64_t size)
{
    const struct byte_range *bytes = &parts->part[number].bytes;

    return (size_t)snprintf(text, PART_TEXT_MAX + typing.length,
                            "%s--%s\r\n%.*sContent-Range: bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64
                            "\r\n\r\n",
                            number > 0 ? "\r\n" : "", parts->boundary, (int)typing.length,
                            typing.start, bytes->first, bytes->first + bytes->length - 1, size);
}

static void write_texts(struct byteranges *parts, const struct range_set *set, struct span typing,
                        uint64_t size)
{
    char *text = parts->texts;

    for (uint32_t i = 0; i < set->count; i++) {
        size_t length;

        parts->part[i].bytes = set->range[i];
        length = write_part(text, parts, i, typing, size);
        parts->part[i].text = (struct span){text, length};
        parts->length += length + set->range[i].length;
        text += length;
    }
    parts->part[set->count].text = (struct span){
        text, (size_t)snprintf(text, PART_TEXT_MAX, "\r\n--%s--\r\n", parts->boundary)};
    parts->length += parts->part[set->count].text.length;
    parts->count = set->count + 1;
}

struct byteranges *byteranges_new(const struct range_set *set, struct span typing, uint64_t size)
{
    size_t texts = (set->count + 1) * (PART_TEXT_MAX + typing.length);
    struct byteranges *parts = calloc(1, sizeof(*parts) + texts);

    if (parts == NULL)
        return NULL;
    if (draw_boundary(parts->boundary) != 0) {
        free(parts);
        return NULL;
    }
    write_texts(parts, set, typing, size);
    return parts;
}
