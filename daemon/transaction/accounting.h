/*
 * Request accounting: the log record, counters and latency histogram of a request in shared memory.
 * The record is packed when the response is composed, while the request's bytes exist, and finished
 * when the response has been sent and its duration is known. The owning thread.
 */
#ifndef DAEMON_TRANSACTION_ACCOUNTING_H
#define DAEMON_TRANSACTION_ACCOUNTING_H

#include "common/segment.h"
#include "daemon/transaction/transaction.h"

/*
 * With `when_full = wait` space in the log ring is reserved in advance, as far as the ring is large
 * enough for all open responses; other records wait in memory. Returns true if there is space for
 * another request, whose response is composed in the output buffer. Always true after a wait of
 * wait_timeout, until half of the ring is free again.
 */
bool accounting_may_begin(const struct transaction_context *context);

/* The same for WORDS of a record that was packed by another thread. */
bool accounting_has_room(const struct transaction_context *context, uint64_t words);

/* Packs the record of a response into the output buffer. BODY_BYTES: bytes of the body to send, which has CODING. */
void accounting_pack(const struct transaction *transaction, int status, enum outcome outcome,
                     enum coding coding, uint64_t body_bytes);

/* Counts, times and logs the response of RECORD, which has been sent or aborted. */
void accounting_finish(struct transaction_context *context, uint64_t *record, uint64_t now_ns);

/* The same for the responses of WORDS of RECORDS. */
void accounting_finish_all(struct transaction_context *context, uint64_t *records, uint64_t words);

/* Sets the body bytes of an aborted response to those actually sent. */
void accounting_correct(uint64_t *record, uint64_t body_bytes);

/* The thread begins or continues to wait for space in its log ring. Wakes the logger. */
void accounting_begin_wait(struct transaction_context *context);

/*
 * Before waiting requests are tried again: logs the records that wait; without any space for
 * wait_timeout, drops records from now on.
 */
void accounting_check_wait(struct transaction_context *context);

/* Drops the records that wait, and records from now on. */
void accounting_drop(struct transaction_context *context);

/* Stops dropping if the ring has space again. Once a second. */
void accounting_check_dropping(struct transaction_context *context);

/* Length of a packed record in words. */
static inline uint64_t accounting_words(const uint64_t *record)
{
    return log_ring_words(record[0]);
}

/* What a thread counts for each host, in its own pages of the segment. */

/* Where the requests of a site are counted; made by the master, which knows all hosts. */
struct host_place {
    uint32_t entry; /* of section HOSTS; several sites may have the same */
    uint64_t id;    /* the entry's */
};

/*
 * Prepares COUNTS of a thread slot for the sites of PLACE: a slot keeps what its previous thread
 * has counted for the same host, and forgets what it has counted for another one.
 */
void host_counts_claim(struct segment_host_counts *counts, const struct host_place *place,
                       size_t count);

/* Counts a response. STATUS is from 200 to 599. */
void host_counts_add(struct segment_host_counts *counts, int status, uint64_t body_bytes,
                     uint64_t duration_ns);

#endif
