#include "daemon/http/range.h"

#include "daemon/http/request.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

struct reader {
    const char *at, *end;
    bool empty_suffix; /* "-5" of an empty representation: satisfiable, with no bytes */
};

static void skip_blanks(struct reader *reader)
{
    while (reader->at < reader->end && http_is_blank(*reader->at))
        reader->at++;
}

static bool skip_byte(struct reader *reader, char byte)
{
    if (reader->at == reader->end || *reader->at != byte)
        return false;
    reader->at++;
    return true;
}

/* A number that overflows 64 bits becomes UINT64_MAX: past the end of any file. */
static bool read_range_number(struct reader *reader, uint64_t *number)
{
    const char *start = reader->at;

    *number = 0;
    for (; reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9'; reader->at++) {
        uint64_t digit = (uint64_t)(*reader->at - '0');

        *number = *number > (UINT64_MAX - digit) / 10 ? UINT64_MAX : *number * 10 + digit;
    }
    return reader->at > start;
}

/* Reads one member; length 0 if it is past the end. Returns false if it is malformed. */
static bool read_spec(struct reader *reader, uint64_t size, struct byte_range *range)
{
    uint64_t first, last = UINT64_MAX;

    *range = (struct byte_range){0, 0};
    if (skip_byte(reader, '-')) {
        if (!read_range_number(reader, &last))
            return false;
        range->length = last < size ? last : size;
        range->first = size - range->length;
        reader->empty_suffix |= size == 0 && last > 0;
        return true;
    }
    if (!read_range_number(reader, &first) || !skip_byte(reader, '-'))
        return false;
    if (reader->at < reader->end && *reader->at != ',' && !http_is_blank(*reader->at) &&
        !read_range_number(reader, &last))
        return false;
    if (last < first)
        return false;
    if (first >= size)
        return true;
    range->first = first;
    range->length = (last < size - 1 ? last : size - 1) - first + 1;
    return true;
}

static bool touch(const struct byte_range *a, const struct byte_range *b)
{
    return a->first <= b->first + b->length && b->first <= a->first + a->length;
}

static void unite(struct byte_range *into, const struct byte_range *other)
{
    uint64_t end = into->first + into->length, other_end = other->first + other->length;

    into->first = into->first < other->first ? into->first : other->first;
    into->length = (end > other_end ? end : other_end) - into->first;
}

/* Adds RANGE, merging all ranges that it touches in the place of the first of them. */
static uint32_t add_range(struct byte_range *list, uint32_t count, struct byte_range range)
{
    uint32_t kept = 0, place = UINT32_MAX;

    for (uint32_t i = 0; i < count; i++)
        if (touch(&list[i], &range))
            unite(&range, &list[i]);
    for (uint32_t i = 0; i < count; i++) {
        if (!touch(&list[i], &range))
            list[kept++] = list[i];
        else if (place == UINT32_MAX)
            place = kept++;
    }
    list[place == UINT32_MAX ? kept++ : place] = range;
    return kept;
}

static bool read_unit(struct reader *reader)
{
    static const struct span unit = {"bytes=", 6};
    size_t length = (size_t)(reader->end - reader->at);

    if (length < unit.length || !span_is_nocase((struct span){reader->at, unit.length}, unit))
        return false;
    reader->at += unit.length;
    return true;
}

/*
 * Fills LIST (RANGE_SPECS_MAX) with the satisfiable ranges; *SPECS counts all members. Returns
 * false if the set is malformed or too long.
 */
static bool read_set(struct reader *reader, uint64_t size, struct byte_range *list, uint32_t *count,
                     uint32_t *specs)
{
    *count = *specs = 0;
    while (reader->at < reader->end) {
        struct byte_range range;

        skip_blanks(reader);
        if (reader->at < reader->end && *reader->at != ',') {
            if (*specs == RANGE_SPECS_MAX || !read_spec(reader, size, &range))
                return false;
            ++*specs;
            if (range.length > 0)
                *count = add_range(list, *count, range);
            skip_blanks(reader);
        }
        if (reader->at < reader->end && !skip_byte(reader, ','))
            return false;
    }
    return *specs > 0;
}

enum range_result range_parse(struct span field, uint64_t size, struct range_set *set)
{
    struct reader reader = {field.start, field.start + field.length, false};
    struct byte_range list[RANGE_SPECS_MAX];
    uint32_t count, specs;

    if (!read_unit(&reader) || !read_set(&reader, size, list, &count, &specs))
        return RANGE_WHOLE;
    if (count == 0) /* Content-Range cannot describe an empty representation */
        return reader.empty_suffix ? RANGE_WHOLE : RANGE_UNSATISFIABLE;
    if (count > RANGE_PARTS_MAX)
        return RANGE_WHOLE;
    set->count = count;
    memcpy(set->range, list, count * sizeof(list[0]));
    return RANGE_PARTIAL;
}

/* multipart/byteranges */

/* Two delimiters and a Content-Range with three numbers of 20 digits. */
enum { PART_TEXT_MAX = BYTERANGES_BOUNDARY + 128 };

static int make_boundary(char *boundary)
{
    uint64_t random[2];

    if (getrandom(random, sizeof(random), 0) != sizeof(random))
        return -1;
    snprintf(boundary, BYTERANGES_BOUNDARY + 1, "%016" PRIx64 "%016" PRIx64, random[0], random[1]);
    return 0;
}

static size_t write_part(char *text, const struct byteranges *parts, uint32_t number,
                         struct span type_fields, uint64_t size)
{
    const struct byte_range *bytes = &parts->part[number].bytes;

    return (size_t)snprintf(text, PART_TEXT_MAX + type_fields.length,
                            "\r\n--%s\r\n%.*sContent-Range: bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64
                            "\r\n\r\n",
                            parts->boundary, (int)type_fields.length, type_fields.start,
                            bytes->first, bytes->first + bytes->length - 1, size);
}

static void write_texts(struct byteranges *parts, const struct range_set *set,
                        struct span type_fields, uint64_t size)
{
    char *text = parts->texts;

    for (uint32_t i = 0; i < set->count; i++) {
        size_t length;

        parts->part[i].bytes = set->range[i];
        length = write_part(text, parts, i, type_fields, size);
        parts->part[i].text = (struct span){text, length};
        parts->length += length + set->range[i].length;
        text += length;
    }
    parts->part[set->count].text = (struct span){
        text, (size_t)snprintf(text, PART_TEXT_MAX, "\r\n--%s--\r\n", parts->boundary)};
    parts->length += parts->part[set->count].text.length;
    parts->count = set->count + 1;
}

struct byteranges *byteranges_new(const struct range_set *set, struct span type_fields,
                                  uint64_t size)
{
    size_t texts = (set->count + 1) * (PART_TEXT_MAX + type_fields.length);
    struct byteranges *parts = calloc(1, sizeof(*parts) + texts);

    if (parts == NULL)
        return NULL;
    if (make_boundary(parts->boundary) != 0) {
        free(parts);
        return NULL;
    }
    write_texts(parts, set, type_fields, size);
    return parts;
}
