/*
 * What a thread counts for each host, in its own pages of the segment. The owning thread.
 */
#ifndef DAEMON_TRANSACTION_HOST_COUNTS_H
#define DAEMON_TRANSACTION_HOST_COUNTS_H

#include "common/segment.h"

/* Where the requests of a site are counted; made by the master, which knows all hosts. */
struct host_place {
    uint32_t entry; /* in section HOSTS; several sites may have the same */
    uint64_t id;    /* of that entry */
};

/*
 * Prepares COUNTS of a thread slot for the sites of PLACE: a slot keeps what its previous thread has
 * counted for the same host, and forgets what it has counted for another one.
 */
void host_counts_claim(struct segment_host_counts *counts, const struct host_place *place,
                       size_t count);

/* Counts a response. STATUS is from 200 to 599. */
void host_counts_add(struct segment_host_counts *counts, int status, uint64_t body_bytes,
                     uint64_t duration_ns);

#endif
