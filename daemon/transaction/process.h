/*
 * Processes a request up to its response: rate limit, thread cache, handler.
 *
 *   process ─▶ admission.h ─▶ lookup.h: thread cache ─────────────────▶ reply.h ─▶ accounting.h
 *                                 └─ not there ─▶ handler.h ─▶ lookup.h ──┘
 *                                                    └─▶ loading.h: TRANSACTION_WAITING
 */
#ifndef DAEMON_TRANSACTION_PROCESS_H
#define DAEMON_TRANSACTION_PROCESS_H

#include "daemon/transaction/transaction.h"

enum transaction_result transaction_process(struct transaction_context *context,
                                            struct client *client, struct transaction_state *state,
                                            const struct request *request);

/*
 * Responds to a malformed or incomplete request with STATUS. The connection closes after the
 * response.
 */
enum transaction_result transaction_reject(struct transaction_context *context,
                                           struct client *client, struct transaction_state *state,
                                           const struct request *request, int status);

/* True if some resource supports METHOD. */
bool transaction_supports_method(enum http_method method);

#endif
