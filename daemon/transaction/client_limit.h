/*
 * Client limit ([connections] max_per_ip): limits the open connections per client address. A worker
 * counts its own in a table in the segment; the sum over all tables is compared with the limit.
 * Each table has one writing process, so that the master can clear the table of a dead worker. The
 * /48 of an IPv6 client has CLIENT_SITE_FACTOR times the limit.
 */
#ifndef DAEMON_TRANSACTION_CLIENT_LIMIT_H
#define DAEMON_TRANSACTION_CLIENT_LIMIT_H

#include "common/segment.h"

struct client_limit;

/* Uses the table of worker slot WORKER, which must be all zero. NULL: out of memory. */
struct client_limit *client_limit_new(const struct segment *segment, uint32_t worker);
void client_limit_free(struct client_limit *limit);

enum client_limit_verdict {
    CLIENT_LIMIT_COUNTED,   /* admitted; the caller must call client_limit_leave() */
    CLIENT_LIMIT_UNCOUNTED, /* admitted; not limited, or the table is full */
    CLIENT_LIMIT_EXCEEDED,  /* the address has the maximum number of connections */
};

/*
 * Counts a connection of the address KEY (see client_key(); not 0) if all workers count fewer than
 * MAX. Two concurrent calls for the last place may both be rejected, but never both admitted. Any
 * serving thread of the worker.
 */
enum client_limit_verdict client_limit_enter(struct client_limit *limit, uint64_t key,
                                             uint32_t max);
void client_limit_leave(struct client_limit *limit, uint64_t key);

/* Connections that all workers count for KEY, which may be a site's. Any thread. */
uint64_t client_limit_count(const struct segment *segment, uint64_t key);

/* True if all workers count more than MAX connections for KEY. Any thread. */
bool client_limit_exceeds(const struct segment *segment, uint64_t key, uint32_t max);

#endif
