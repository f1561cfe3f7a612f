/*
 * The size of TLS records. A client can decrypt a record only when all of it has arrived. On a new
 * connection, whose congestion window is small, a large record would arrive in several round trips;
 * so the first records fit into one TCP segment each. Later ones are larger, because each costs 22
 * to 29 bytes and a call of the cipher. After a pause the congestion window is small again.
 *
 * The sizes and the pause are those of Cloudflare's patch for nginx, "dynamic TLS records"; the
 * first step ends with the initial congestion window of ten segments (RFC 6928). Pure; any thread.
 */
#ifndef DAEMON_TLS_RECORD_SIZE_H
#define DAEMON_TLS_RECORD_SIZE_H

#include <stddef.h>
#include <stdint.h>

enum {
    RECORD_SEGMENT_BYTES = 1369,   /* fits a segment with IPv6 and TCP options */
    RECORD_SEGMENTS_BYTES = 4229,  /* fits three segments */
    RECORD_MAX_BYTES = 16 * 1024,  /* RFC 8446 section 5.1 */
    RECORD_COLD_BYTES = 16 * 1024, /* sent in records of one segment */
    RECORD_WARM_BYTES = 64 * 1024, /* sent before records have the maximum size */
    RECORD_PAUSE_MS = 1000,        /* a longer pause makes the connection cold again */
};

struct record_size {
    uint64_t last_ns; /* time of the last write, monotonic */
    uint32_t sent;    /* bytes since the last pause, at most RECORD_WARM_BYTES */
};

/*
 * Bytes of LENGTH, which is not 0, that the next record takes. A write that fits three segments is
 * always one record: all of it is in the first round trip.
 */
size_t record_size_next(struct record_size *size, uint64_t now_ns, size_t length);

/* A record of LENGTH bytes was sent. */
void record_size_sent(struct record_size *size, size_t length);

#endif
