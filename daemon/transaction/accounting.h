/*
 * Counting and logging: what an answered request leaves behind in shared memory. A record is packed
 * when the answer is composed (the request's bytes are at hand then) and finished when the answer
 * has been sent (its duration is known then).
 */
#ifndef DAEMON_ACCOUNT_H
#define DAEMON_ACCOUNT_H

#include "daemon/connection/connection.h"
#include "daemon/http/request.h"

/*
 * With when_full = wait a record's room in the log ring is promised before: to a request that begins,
 * by the first, and to WORDS of an answer that came from another thread, by the second.
 */
bool account_may_begin(const struct serving_thread *thread);
bool account_has_room(const struct serving_thread *thread, uint64_t words);

/*
 * Packs the record of an answer into the thread's output. BODY_BYTES is what will be sent of a
 * body; BEGAN_NS the monotonic time at which the request was first looked at.
 */
void account_pack(struct connection *connection, const struct request *request, int status,
                  enum outcome outcome, uint64_t body_bytes, uint64_t began_ns);

/* The answer of RECORD has left, or was given up: counts, times and logs it. */
void account_finish(struct serving_thread *thread, uint64_t *record, uint64_t now_ns);

/* For an answer that was cut: BODY_BYTES is what was really sent. */
void account_correct(uint64_t *record, uint64_t body_bytes);

/* Wakes the logger if it sleeps. */
void account_wake_logger(const struct serving_thread *thread);

/* Length of a packed record in words. */
static inline uint64_t account_words(const uint64_t *record)
{
    return record[0] & UINT32_MAX;
}

#endif
