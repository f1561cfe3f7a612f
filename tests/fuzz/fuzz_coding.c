/*
 * Accept-Encoding. A preference lists each coding at most once, and one line with many members
 * equals one line per member (RFC 9110 section 5.3).
 */
#include "daemon/http/negotiation.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

static coding_preference read_whole(const char *text, size_t size)
{
    struct coding_weights weights = CODING_WEIGHTS_NONE;

    coding_read(&weights, (struct span){text, size});
    return coding_prefer(&weights);
}

static coding_preference read_members(const char *text, size_t size)
{
    struct coding_weights weights = CODING_WEIGHTS_NONE;
    const char *at = text, *end = text + size;

    while (at < end) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const char *stop = comma != NULL ? comma : end;

        coding_read(&weights, (struct span){at, (size_t)(stop - at)});
        at = comma != NULL ? comma + 1 : end;
    }
    return coding_prefer(&weights);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size > 0 ? size : 1);
    coding_preference preference, groups;
    struct coding_group group;
    size_t grouped = 0;
    bool seen[CODING_COUNT] = {false};
    enum coding coding;

    MUST(copy != NULL);
    memcpy(copy, data, size);
    preference = read_whole(copy, size);
    MUST(preference == read_members(copy, size));
    groups = preference;
    while (coding_next_group(&groups, &group))
        grouped += group.count;
    for (; coding_next(&preference, &coding); grouped--) {
        MUST((int)coding >= 0 && coding < CODING_COUNT && !seen[coding]);
        seen[coding] = true;
    }
    MUST(grouped == 0);
    free(copy);
    return 0;
}
