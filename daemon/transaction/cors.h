/*
 * The fields by which [cors] permits pages of other origins to read a response, and the answer to a
 * preflight: an OPTIONS request with Origin and Access-Control-Request-Method (Fetch standard, CORS
 * protocol). The owning thread.
 */
#ifndef DAEMON_TRANSACTION_CORS_H
#define DAEMON_TRANSACTION_CORS_H

#include "daemon/transaction/transaction.h"

enum { CORS_FIELDS_MAX = 1536 };

/* True if the request, for a path with a rule, is a preflight. */
bool cors_is_preflight(const struct request *request);

/* True if the rule of the path permits the origin of the request. */
bool cors_allows(const struct transaction *transaction);

/*
 * Writes the field lines for the response, at most CORS_FIELDS_MAX bytes, and returns their length.
 * Unless every origin is permitted, Vary tells caches that the origin decides, also if it is not.
 */
size_t cors_write(const struct transaction *transaction, char *lines);

#endif
