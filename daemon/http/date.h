/* HTTP dates, RFC 9110 section 5.6.7: written as IMF-fixdate, read in all three forms. Pure. */
#ifndef DAEMON_HTTP_DATE_H
#define DAEMON_HTTP_DATE_H

#include "common/span.h"

#include <stdint.h>

enum { HTTP_DATE_BYTES = 29 }; /* "Sun, 06 Nov 1994 08:49:37 GMT", without a NUL */

/* Writes HTTP_DATE_BYTES bytes, no NUL. SECONDS since 1970, UTC, up to the year 9999. */
void http_date_write(int64_t seconds, char *buffer);

/*
 * Reads IMF-fixdate, RFC 850 or asctime form. NOW (seconds) places two-digit years: one that would
 * be more than 50 years ahead is in the past. Returns 0 and stores, or -1 when it is none of them.
 */
int http_date_read(struct span text, int64_t now, int64_t *seconds);

#endif
