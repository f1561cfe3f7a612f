/*
 * A request's body that comes in: it is read and thrown away, so that the next request starts where
 * it should, and the request is answered when all of it is here. While it comes only the head of its
 * request is kept.
 *
 *   head parsed ─▶ receiving_look ─▶ all there ────────────────────────────▶ the answer
 *                        ├─▶ more to come ─▶ (100) ─▶ receiving_take … ──▶ receiving_look
 *                        └─▶ refused: 400, 408, 413, 431
 *
 * The owning thread.
 */
#ifndef DAEMON_RECEIVING_H
#define DAEMON_RECEIVING_H

#include "daemon/connection/connection.h"
#include "daemon/http/request.h"

/*
 * For a request with a body, whose head is the first HEAD of LENGTH bytes at DATA. Returns how many
 * of them belong to the request when it can be answered, 0 when more of its body has to come, or
 * minus the status to refuse it with. Gives the same answer when it is asked again.
 */
int receiving_look(struct connection *connection, const struct request *request, const char *data,
                   size_t length, size_t head);

/* More bytes came; those behind the body's end are kept. True when there is something to look at. */
bool receiving_take(struct connection *connection, const char *data, size_t length);

/* No more of it will be waited for: receiving_look() says 408. */
void receiving_give_up(struct connection *connection);

/* More of a body has to come for the request under way. */
bool receiving_waits(const struct connection *connection);

/* How long the head of that request is. */
size_t receiving_head(const struct connection *connection);

/*
 * Tells a client that asked for it to go on (RFC 9110 section 10.1.1), once. Returns as the write
 * does, or 1 when there is nothing to tell. All answers before this one have been sent.
 */
ssize_t receiving_continue(struct connection *connection);

/* The request has been answered. */
void receiving_end(struct connection *connection);

#endif
