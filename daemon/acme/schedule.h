/* When a certificate is requested next. Times in seconds since 1970, or in seconds. Pure. */
#ifndef DAEMON_ACME_SCHEDULE_H
#define DAEMON_ACME_SCHEDULE_H

#include <stdint.h>

enum { SCHEDULE_RETRY_MAX_S = 12 * 3600, SCHEDULE_WAIT_MAX_S = 7 * 86400 };

/*
 * Time to renew a certificate with these times: at two thirds of its life, and by RANDOM up to a
 * twentieth of it earlier, so that the certificates of many servers are not renewed at once.
 */
int64_t schedule_renewal(int64_t not_before_s, int64_t not_after_s, uint32_t random);

/* The time that RANDOM selects between the two, as RFC 9773 wants it: all equally likely. */
int64_t schedule_window(int64_t start_s, int64_t end_s, uint32_t random);

/*
 * Delay after the failure number FAILURES (from 1) in a row: RETRY_S, doubled with each further one up to
 * SCHEDULE_RETRY_MAX_S, and by RANDOM up to a tenth more; at least AFTER_S, the authority's own.
 */
int64_t schedule_retry(uint32_t failures, uint32_t retry_s, uint32_t after_s, uint32_t random);

/*
 * Time of the attempt after a failure that was planned for PLANNED_S, now that it is NOW_S. A time so far
 * ahead that it cannot have been planned means that the clock was changed: then now.
 */
int64_t schedule_planned(int64_t planned_s, int64_t now_s);

#endif
