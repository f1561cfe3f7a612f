#include "daemon/tls/record_size.h"

#include "common/clock.h"

size_t record_size_next(struct record_size *size, uint64_t now_ns, size_t length)
{
    size_t most;

    if (now_ns - size->last_ns > RECORD_PAUSE_MS * NS_PER_MS)
        size->sent = 0;
    size->last_ns = now_ns;
    if (length <= RECORD_SEGMENTS_BYTES)
        return length;
    most = size->sent < RECORD_COLD_BYTES   ? RECORD_SEGMENT_BYTES
           : size->sent < RECORD_WARM_BYTES ? RECORD_SEGMENTS_BYTES
                                            : RECORD_MAX_BYTES;
    return length < most ? length : most;
}

void record_size_sent(struct record_size *size, size_t length)
{
    size_t sent = size->sent + length;

    size->sent = sent < RECORD_WARM_BYTES ? (uint32_t)sent : RECORD_WARM_BYTES;
}
