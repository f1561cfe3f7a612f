/*
 * Request accounting: the log record, the counters and the latency histogram that an answered request
 * leaves in shared memory. The record is packed when the response is composed, while the request's bytes
 * exist, and finished when the response has been sent and its duration is known. The owning thread.
 */
#ifndef DAEMON_TRANSACTION_ACCOUNTING_H
#define DAEMON_TRANSACTION_ACCOUNTING_H

#include "daemon/transaction/transaction.h"

/*
 * With `when_full = wait` space in the log ring is reserved before it is needed. Returns true if a new
 * request may begin, whose response is composed in the output buffer.
 */
bool accounting_may_begin(const struct transaction_context *context);

/* The same for WORDS of a record that was packed by another thread. */
bool accounting_has_room(const struct transaction_context *context, uint64_t words);

/* Packs the record of a response into the output buffer. BODY_BYTES: what will be sent of the body. */
void accounting_pack(const struct transaction *transaction, int status, enum outcome outcome,
                     uint64_t body_bytes);

/* The response of RECORD has been sent or aborted: counts, times and logs it. */
void accounting_finish(struct transaction_context *context, uint64_t *record, uint64_t now_ns);

/* Sets the body bytes of an aborted response to those really sent. */
void accounting_correct(uint64_t *record, uint64_t body_bytes);

/* Wakes the logger if it sleeps. */
void accounting_wake_logger(const struct transaction_context *context);

/* Length of a packed record in words. */
static inline uint64_t accounting_words(const uint64_t *record)
{
    return record[0] & UINT32_MAX;
}

#endif
