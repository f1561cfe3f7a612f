/* HTTP dates, RFC 9110 section 5.6.7: written as IMF-fixdate, parsed in all three formats. Pure. */
#ifndef DAEMON_HTTP_DATE_H
#define DAEMON_HTTP_DATE_H

#include "common/span.h"

#include <stdint.h>

enum { HTTP_DATE_BYTES = 29 }; /* "Sun, 06 Nov 1994 08:49:37 GMT", without a NUL */

/* Writes HTTP_DATE_BYTES bytes, no NUL. SECONDS since 1970, UTC, clamped to the years 0 to 9999. */
void http_date_write(int64_t seconds, char *buffer);

/*
 * Parses IMF-fixdate, RFC 850 or asctime format. A two-digit year that would be more than 50 years
 * after NOW (seconds) is in the past. Returns 0 and stores the date, or -1 if it is malformed.
 */
int http_date_read(struct span text, int64_t now, int64_t *seconds);

#endif
