/*
 * Connections that failed before their first request, in the error log: TLS handshakes, and headers of the
 * PROXY protocol. A line says what the counters tls_failed_... or proxy_failed_... have gained, by reason. The
 * first failure is logged at once; while others follow, there is a line after a minute, then after
 * two, up to one an hour, so that clients cannot fill the log. The master.
 */
#ifndef DAEMON_HANDSHAKE_FAILURES_H
#define DAEMON_HANDSHAKE_FAILURES_H

#include "common/segment.h"

enum { HANDSHAKE_FAILURE_REASONS = 6 };

/* What fails, and its counters: at most HANDSHAKE_FAILURE_REASONS, then one without text. */
struct handshake_kind {
    const char *title;
    struct {
        enum metric metric;
        const char *text;
    } reason[HANDSHAKE_FAILURE_REASONS + 1];
};

extern const struct handshake_kind handshake_of_tls, handshake_of_proxy;

/* All zero at first. One for each kind. */
struct handshake_failures {
    uint64_t logged[HANDSHAKE_FAILURE_REASONS]; /* counters at the last line */
    uint64_t last_ns;                           /* when it was logged, monotonic; 0: never */
    uint64_t interval_ns;                       /* from it to the next one */
};

/* Logs what is due at NOW_NS. Once a second. */
void handshake_failures_log(struct handshake_failures *failures, const struct handshake_kind *kind,
                            const struct segment *segment, uint64_t now_ns);

/*
 * What it logs of KIND if the counters are COUNT: returns true with TEXT, or false if nothing is due. Pure.
 */
bool handshake_failures_text(struct handshake_failures *failures, const struct handshake_kind *kind,
                             const uint64_t count[HANDSHAKE_FAILURE_REASONS], uint64_t now_ns,
                             char *text, size_t size);

#endif
