#include "daemon/http/range.h"

#include "common/macros.h"
#include "tests/test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* A field, the size of the representation, and the expected ranges: "first+length first+length". */
struct range_case {
    const char *rule, *field;
    uint64_t size;
    enum range_result result;
    const char *parts;
};

static const struct range_case cases[] = {
    /* RFC 9110 section 14.1.2 */
    {"the first 500", "bytes=0-499", 10000, RANGE_PARTIAL, "0+500"},
    {"the second 500", "bytes=500-999", 10000, RANGE_PARTIAL, "500+500"},
    {"the last 500", "bytes=-500", 10000, RANGE_PARTIAL, "9500+500"},
    {"open", "bytes=9500-", 10000, RANGE_PARTIAL, "9500+500"},
    {"first and last byte", "bytes=0-0,-1", 10000, RANGE_PARTIAL, "0+1 9999+1"},
    {"first, middle, last", "bytes= 0-999, 4500-5499, -1000", 10000, RANGE_PARTIAL,
     "0+1000 4500+1000 9000+1000"},
    {"one byte", "bytes=7-7", 8, RANGE_PARTIAL, "7+1"},
    {"last past the end", "bytes=5-100", 10, RANGE_PARTIAL, "5+5"},
    {"all bytes", "bytes=0-", 10, RANGE_PARTIAL, "0+10"},
    {"suffix longer than the file", "bytes=-100", 10, RANGE_PARTIAL, "0+10"},
    {"unit in upper case", "BYTES=0-1", 10, RANGE_PARTIAL, "0+2"},
    {"numbers with leading zeros", "bytes=0000000000000000000000001-2", 10, RANGE_PARTIAL, "1+2"},
    {"last above 64 bits", "bytes=1-99999999999999999999999", 10, RANGE_PARTIAL, "1+9"},
    {"first above 4 GiB", "bytes=4294967296-4294967297", UINT64_C(1) << 33, RANGE_PARTIAL,
     "4294967296+2"},
    /* 14.1.1: sets are lists, section 5.6.1 */
    {"blanks and empty members", "bytes=,, 0-1 ,\t, 4-5,", 10, RANGE_PARTIAL, "0+2 4+2"},
    {"an unsatisfiable member is dropped", "bytes=0-1,20-30", 10, RANGE_PARTIAL, "0+2"},
    /* 15.3.7.2: ranges that overlap or touch are merged */
    {"overlapping", "bytes=0-5,3-9", 10000, RANGE_PARTIAL, "0+10"},
    {"touching", "bytes=0-4,5-9", 10000, RANGE_PARTIAL, "0+10"},
    {"touching in reverse order", "bytes=5-9,0-4", 10000, RANGE_PARTIAL, "0+10"},
    {"a third joins two", "bytes=0-1,4-5,2-3", 10000, RANGE_PARTIAL, "0+6"},
    {"the same twice", "bytes=3-4,3-4", 10000, RANGE_PARTIAL, "3+2"},
    {"in requested order", "bytes=500-599,0-99", 10000, RANGE_PARTIAL, "500+100 0+100"},
    {"merged in the place of the first", "bytes=500-509,0-9,510-519", 10000, RANGE_PARTIAL,
     "500+20 0+10"},
    /* 14.1.1: invalid is ignored */
    {"last before first", "bytes=5-4", 10, RANGE_WHOLE, ""},
    {"one malformed member", "bytes=0-1,5-4", 10, RANGE_WHOLE, ""},
    {"no member", "bytes=", 10, RANGE_WHOLE, ""},
    {"commas only", "bytes=,,", 10, RANGE_WHOLE, ""},
    {"no numbers", "bytes=-", 10, RANGE_WHOLE, ""},
    {"letters", "bytes=a-b", 10, RANGE_WHOLE, ""},
    {"a sign", "bytes=+1-2", 10, RANGE_WHOLE, ""},
    {"two signs", "bytes=--1", 10, RANGE_WHOLE, ""},
    {"a blank before the dash", "bytes=0 -1", 10, RANGE_WHOLE, ""},
    {"a blank after the dash", "bytes=0- 1", 10, RANGE_WHOLE, ""},
    {"no comma", "bytes=0-1 2-3", 10, RANGE_WHOLE, ""},
    {"no unit", "0-1", 10, RANGE_WHOLE, ""},
    {"no equals sign", "bytes 0-1", 10, RANGE_WHOLE, ""},
    {"a blank before the equals sign", "bytes =0-1", 10, RANGE_WHOLE, ""},
    {"a minus in the middle", "bytes=1-2-3", 10, RANGE_WHOLE, ""},
    {"empty", "", 10, RANGE_WHOLE, ""},
    /* 14.2: an unknown unit is ignored */
    {"another unit", "lines=0-1", 10, RANGE_WHOLE, ""},
    {"a unit with the prefix bytes", "bytesx=0-1", 10, RANGE_WHOLE, ""},
    /* 15.5.17 */
    {"past the end", "bytes=10-", 10, RANGE_UNSATISFIABLE, ""},
    {"past the end, closed", "bytes=10-20", 10, RANGE_UNSATISFIABLE, ""},
    {"all past the end", "bytes=10-20,30-", 10, RANGE_UNSATISFIABLE, ""},
    {"suffix of 0 bytes", "bytes=-0", 10, RANGE_UNSATISFIABLE, ""},
    {"first above 64 bits", "bytes=99999999999999999999999-", 10, RANGE_UNSATISFIABLE, ""},
    {"in an empty file", "bytes=0-0", 0, RANGE_UNSATISFIABLE, ""},
    {"suffix of an empty file", "bytes=-5", 0, RANGE_WHOLE, ""},
};

static void write_set(const struct range_set *set, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < set->count; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%" PRIu64 "+%" PRIu64,
                                 i > 0 ? " " : "", set->range[i].first, set->range[i].length);
}

TEST(ranges_are_parsed_by_section_14)
{
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        const struct range_case *c = &cases[i];
        struct range_set set = {.count = 0};
        char text[512];
        enum range_result result =
            range_parse((struct span){c->field, strlen(c->field)}, c->size, &set);

        write_set(&set, text, sizeof(text));
        if (result != c->result || strcmp(text, c->parts) != 0)
            fail_msg("%s: \"%s\" of %" PRIu64 " gave %d, \"%s\"", c->rule, c->field, c->size,
                     (int)result, text);
    }
}

/* COUNT one-byte ranges, GAP apart. */
static enum range_result parse_many(unsigned count, unsigned gap, struct range_set *set)
{
    char field[16 * 1024] = "bytes=";
    size_t used = 6;

    for (unsigned i = 0; i < count; i++)
        used += (size_t)snprintf(field + used, sizeof(field) - used, "%u-%u,", i * gap, i * gap);
    return range_parse((struct span){field, used}, UINT64_C(1) << 40, set);
}

TEST(too_many_ranges_are_ignored)
{
    struct range_set set;

    assert_int_equal(parse_many(RANGE_PARTS_MAX, 2, &set), RANGE_PARTIAL);
    assert_int_equal(set.count, RANGE_PARTS_MAX);
    assert_int_equal(parse_many(RANGE_PARTS_MAX + 1, 2, &set), RANGE_WHOLE);
    assert_int_equal(parse_many(RANGE_SPECS_MAX, 1, &set), RANGE_PARTIAL);
    assert_int_equal(set.count, 1);
    assert_int_equal(set.range[0].length, RANGE_SPECS_MAX);
    assert_int_equal(parse_many(RANGE_SPECS_MAX + 1, 1, &set), RANGE_WHOLE);
}
