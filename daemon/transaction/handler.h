/*
 * What answers a request that the thread cache does not know: one function for each kind of thing
 * that is served. route_answer() (daemon/transaction/route.c) chooses; each composes an answer with the verbs of
 * daemon/transaction/reply.h, or gives work to an offload thread and says EXCHANGE_WAITING: then it is called
 * again with the same request when that is done.
 */
#ifndef DAEMON_HANDLER_H
#define DAEMON_HANDLER_H

#include "daemon/http/target.h"
#include "daemon/transaction/transaction.h"

/* TARGET is the request's, decoded and folded. */
typedef enum exchange_result handler(struct exchange *exchange, const struct target *target);

/* Files and folders below the root. */
handler handler_files;

/* Exact arithmetic, below [arithmetic] prefix. */
handler handler_arithmetic;

/* Whether PATH is one of those. */
bool handler_arithmetic_owns(const struct config *config, const char *path);

/* The contents of a folder. */
handler handler_listing;

/* OPTIONS for any path, or for the server as a whole (RFC 9110 section 9.3.7): TARGET may be NULL. */
handler handler_options;

#endif
