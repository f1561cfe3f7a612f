/*
 * Which variant of a file an answer gets: proactive negotiation by Accept-Encoding, RFC 9110 section
 * 12.5.3. The client's order decides among those that there are: the file itself, precompressed
 * files beside it, and gzip made by an offload thread, for which the first request waits.
 */
#ifndef DAEMON_NEGOTIATION_H
#define DAEMON_NEGOTIATION_H

#include "daemon/content/resource.h"
#include "daemon/transaction/transaction.h"

/* What the request accepts. A thread remembers the last field's meaning: most clients send one of a
 * few. */
coding_preference negotiation_accepts(struct serving_thread *thread, const struct request *request);

/*
 * Puts the variant of *RESOURCE, a file's own, that EXCHANGE accepts best in its place; the reference
 * changes with it. Returns 0; or LOOKUP_MUST_WAIT, LOOKUP_NOT_ACCEPTABLE, or an errno, and the
 * reference has been given back.
 */
int negotiation_choose(struct exchange *exchange, struct resource **resource);

#endif
