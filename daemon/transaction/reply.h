/*
 * Composing an answer in the thread's output: the head, field by field or prepared, the body, and the
 * record for the log. An answer is reply_begin(), fields, the empty line, then reply_account(), and
 * perhaps a body. It must fit in OUTPUT_ANSWER_MAX.
 */
#ifndef DAEMON_REPLY_H
#define DAEMON_REPLY_H

#include "common/span.h"
#include "daemon/content/resource.h"
#include "daemon/http/range.h"
#include "daemon/transaction/transaction.h"

/* The methods that every resource has: the value of Allow. */
#define REPLY_ALLOWED "GET, HEAD, OPTIONS"

/*
 * The status line, Date, Server and Connection. Decides whether the connection goes on. Fields
 * follow.
 */
void reply_begin(const struct exchange *exchange, int status);

void reply_put(const struct exchange *exchange, struct span text);

/* The configured fields for the path that was asked for; but for those of the content. */
void reply_put_headers(const struct exchange *exchange);

/* Packs the record; BODY_BYTES is the body's length, sent or (HEAD) not. After the head. */
void reply_account(const struct exchange *exchange, int status, enum outcome outcome,
                   uint64_t body_bytes);

/* False for HEAD. */
bool reply_wants_body(const struct exchange *exchange);

/*
 * PART of the body of RESOURCE as the end of the output, but for HEAD: copied when small, else
 * borrowed. HELD: the caller's reference goes with it.
 */
void reply_body(const struct exchange *exchange, struct resource *resource, struct byte_range part,
                bool held);

/* Gives the caller's reference back. */
void reply_drop(const struct exchange *exchange, struct resource *resource);

/*
 * The answer for a file, as the request's preconditions and Range want it: 200, 206, 304, 412, 416.
 * HELD: the caller's reference goes with the answer. May wait, for an error page.
 */
enum exchange_result reply_resource(struct exchange *exchange, struct resource *resource,
                                    bool held);

/* The whole answer for a page, whose reference goes with it: STATUS, and its fields and body; or what
 * the request's conditions make of a 200. */
enum exchange_result reply_page(struct exchange *exchange, int status, struct resource *page);

/* STATUS with the site's own page if there is one, else with a small built-in one. May wait. */
enum exchange_result reply_error(struct exchange *exchange, int status);

/* 503, and counted: the offload queue has no room for what the request asks. Does not wait. */
enum exchange_result reply_overloaded(struct exchange *exchange);

#endif
