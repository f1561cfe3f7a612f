#include "daemon/http2/flood.h"

#include "common/clock.h"

#include <string.h>

static const uint32_t limits[] = {
#define FLOOD(name, limit) limit,
    HTTP2_FLOODS
#undef FLOOD
};

bool http2_flood_count(struct http2_floods *floods, enum http2_flood kind, uint64_t now_ns)
{
    if (now_ns - floods->from_ns >= NS_PER_S) {
        floods->from_ns = now_ns;
        memset(floods->count, 0, sizeof(floods->count));
    }
    return ++floods->count[kind] <= limits[kind];
}
