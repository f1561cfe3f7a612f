/*
 * The unsent rest of a connection's last write: a copy of its bytes, the body that follows them
 * (HTTP/1), and the log records of the responses that end in it. It moves with the connection; the
 * records' space in the log ring is reserved in the thread that has it. The owning thread, unless
 * noted.
 */
#ifndef DAEMON_CONNECTION_UNSENT_H
#define DAEMON_CONNECTION_UNSENT_H

#include "daemon/connection/connection.h"

struct unsent_output {
    struct span text; /* what is sent next: the copied rest, then the head of a body's part */
    struct body_source body; /* what follows the text */
    uint64_t body_sent;      /* bytes of the last response's body, with the framing of parts */
    uint64_t *records;       /* they are stored behind the rest */
    uint64_t record_words;
    bool reserved; /* the records' words are counted in ring_reserved */
    char rest[];
};

/*
 * Keeps what is left of COUNT PIECES after SENT bytes, and WORDS of RECORDS. Without memory for
 * them, shrinks the cache and tries again. Returns false if that does not help.
 */
bool unsent_keep(struct connection *connection, const struct iovec *pieces, int count, size_t sent,
                 const uint64_t *records, uint64_t words);

/*
 * Reserves space in the log ring for the records of an unsent rest that came from another thread.
 * Returns false if there is no space and the rest must wait.
 */
bool unsent_reserve_log(struct connection *connection);

/* Ends the reservation: the connection leaves its thread. */
void unsent_end_reservation(struct connection *connection);

/* Everything is sent: counts and logs the responses, and frees. */
void unsent_finish(struct connection *connection);

/* The connection closes: the same, for responses that are cut short. */
void unsent_abort(struct connection *connection);

/* Frees what a connection that no thread owns has not sent. Any thread. */
void unsent_free(struct connection *connection, struct cache *cache);

/* Counts CONNECTION in the gauge connections_busy, or no longer. */
void connection_set_busy(struct connection *connection, bool busy);

/* A write or read has failed with errno: counts it if the client reset the connection. */
void connection_count_reset(const struct connection *connection);

#endif
