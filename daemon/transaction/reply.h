/*
 * Composes a response in the thread's output buffer: the head in the encoding of the request's HTTP
 * version, and the body as a source. The functions for complete responses come first. They consist
 * of the parts below: reply_begin(), fields, reply_end_head(), reply_account(), and then the body.
 * A head must fit in OUTPUT_RESPONSE_MAX.
 */
#ifndef DAEMON_TRANSACTION_REPLY_H
#define DAEMON_TRANSACTION_REPLY_H

#include "daemon/transaction/transaction.h"

/* The methods of every resource: the value of Allow. */
#define REPLY_ALLOWED "GET, HEAD, OPTIONS"

/*
 * Composes the response for a file as the request's preconditions and Range require: 200, 206, 304,
 * 412, 416. If OWNED, it takes over the caller's reference. May wait, for an error page.
 */
enum transaction_result reply_resource(struct transaction *transaction, struct resource *resource,
                                       bool owned);

/*
 * Composes the response for a page and owns its reference: STATUS; instead of a 200 also 304 or
 * 412.
 */
enum transaction_result reply_page(struct transaction *transaction, int status,
                                   struct resource *page);

/*
 * Composes a redirect with STATUS to LOCATION (a URI reference, at most REPLY_LOCATION_MAX bytes) with the page NOTE
 * as body, and owns its reference.
 */
enum { REPLY_LOCATION_MAX = 6 * 1024 };
enum transaction_result reply_redirect(struct transaction *transaction, int status,
                                       struct span location, struct resource *note);

/*
 * Composes an error response with the configured error page if there is one, else the built-in one.
 * May wait.
 */
enum transaction_result reply_error(struct transaction *transaction, int status);

/* Composes a 503, counted as rejected, because the offload queue is full. Does not wait. */
enum transaction_result reply_queue_full(struct transaction *transaction);

/* Parts */

/* Writes the status, Date, Server and Connection. Decides whether the connection persists. */
void reply_begin(const struct transaction *transaction, int status);

/* Writes LINES ("Name: value CRLF" each) in the encoding of the request's version. */
void reply_put_fields(const struct transaction *transaction, struct span lines);

/*
 * Writes the configured fields for a response with STATUS and the request's path, except those that
 * describe the content.
 */
void reply_put_configured_fields(const struct transaction *transaction, int status);

/* Ends the head. */
void reply_end_head(const struct transaction *transaction);

/*
 * Packs the log record; call it after the head. BODY_BYTES: length of the body, even if HEAD omits
 * it.
 */
void reply_account(const struct transaction *transaction, int status, enum outcome outcome,
                   uint64_t body_bytes);

#endif
