/* Which handler answers: by method and path. */
#ifndef DAEMON_ROUTE_H
#define DAEMON_ROUTE_H

#include "daemon/exchange.h"

enum exchange_result route_answer(struct exchange *exchange);

#endif
