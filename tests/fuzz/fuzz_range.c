/*
 * The Range field. The first 8 bytes are the size of the representation. The parts lie within the
 * representation, do not overlap, and do not exceed the limit.
 */
#include "daemon/http/range.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

static void check_parts(const struct range_set *set, uint64_t size)
{
    MUST(set->count >= 1 && set->count <= RANGE_PARTS_MAX);
    for (uint32_t i = 0; i < set->count; i++) {
        const struct byte_range *one = &set->range[i];

        MUST(one->length > 0 && one->first < size && one->length <= size - one->first);
        for (uint32_t j = 0; j < i; j++) {
            const struct byte_range *other = &set->range[j];

            MUST(one->first > other->first + other->length ||
                 other->first > one->first + one->length);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct range_set set;
    uint64_t bytes;
    char *copy;

    if (size < sizeof(bytes))
        return 0;
    memcpy(&bytes, data, sizeof(bytes));
    bytes &= INT64_MAX;
    size -= sizeof(bytes);
    copy = malloc(size > 0 ? size : 1);
    MUST(copy != NULL);
    memcpy(copy, data + sizeof(bytes), size);
    switch (range_parse((struct span){copy, size}, bytes, &set)) {
    case RANGE_PARTIAL:
        check_parts(&set, bytes);
        break;
    case RANGE_UNSATISFIABLE:
    case RANGE_WHOLE:
        break;
    }
    free(copy);
    return 0;
}
