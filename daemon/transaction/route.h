/* Which handler answers: by method and path. */
#ifndef DAEMON_ROUTE_H
#define DAEMON_ROUTE_H

#include "daemon/transaction/transaction.h"

/* Some resource has this method: a request with it is not an error for its method alone. */
bool route_has_method(enum http_method method);

enum exchange_result route_answer(struct exchange *exchange);

#endif
