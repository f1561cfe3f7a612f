/*
 * How many connections each client address has open. A worker counts its own in a table in the
 * segment, which the workers add up: each table has one writing process, so the master can zero that
 * of a worker that died.
 */
#ifndef DAEMON_PEERS_H
#define DAEMON_PEERS_H

#include "common/segment.h"

struct peers;

/* The table of worker slot WORKER, all zero. NULL: out of memory. */
struct peers *peers_new(const struct segment *segment, uint32_t worker);
void peers_free(struct peers *peers);

/* What becomes of a connection that comes in. */
enum peers_verdict {
    PEERS_COUNTED,   /* owed a peers_leave() */
    PEERS_UNCOUNTED, /* it may come in; there was no room to count it */
    PEERS_TOO_MANY,  /* its address has MOST connections already */
};

/*
 * Counts a connection of the address KEY (see client_key(); not 0), if there are fewer than MOST
 * in all workers. Two that come at the same moment may both be too many where one would have fitted; never
 * do both fit where one does. Any serving thread of the worker.
 */
enum peers_verdict peers_enter(struct peers *peers, uint64_t key, uint32_t most);
void peers_leave(struct peers *peers, uint64_t key);

/* Connections that all workers count for KEY. Any thread. */
uint64_t peers_count(const struct segment *segment, uint64_t key);

#endif
