/*
 * Who may come in: requests by the rate limit of their client's address. On the serving thread.
 */
#ifndef DAEMON_ADMISSION_H
#define DAEMON_ADMISSION_H

#include "daemon/exchange.h"

/*
 * Counts a request that is looked at for the first time against its client's rate, while the limit
 * is on. False: it is over, and exchange->retry_after_s says when to try again.
 */
bool admission_of_request(struct exchange *exchange);

#endif
