/*
 * Handlers respond to the requests that the thread cache cannot serve, one for each kind of
 * content. process.c selects one. A handler composes a response with reply.h; or it submits an
 * offload job and returns TRANSACTION_WAITING, and is called again with the same request when the
 * job is done.
 */
#ifndef DAEMON_TRANSACTION_HANDLER_H
#define DAEMON_TRANSACTION_HANDLER_H

#include "daemon/http/target.h"
#include "daemon/transaction/transaction.h"

/* TARGET is the request's, decoded and canonical. */
typedef enum transaction_result handler(struct transaction *transaction,
                                        const struct target *target);

/* Files and directories below the root. */
handler handler_files;

/* What a rule of [redirect] says: another URL, or a status. */
handler handler_redirect;

/* Redirects "/directory" to "/directory/". */
handler handler_redirect_directory;

/*
 * Answers REQUEST, before anything else looks at it, if it is for the pending challenge of ACME. True if so, with
 * *RESULT.
 */
bool handler_challenge(struct transaction *transaction, enum transaction_result *result);

/* Exact arithmetic, below [arithmetic] prefix. */
handler handler_arithmetic;

/* True if PATH belongs to handler_arithmetic(). */
bool handler_arithmetic_owns(const struct config *config, const char *path);

#endif
