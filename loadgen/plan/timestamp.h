/* Times in logs and recordings, as seconds since 1970; NAN: none, or invalid. Pure. */
#ifndef LOADGEN_TIMESTAMP_H
#define LOADGEN_TIMESTAMP_H

/* The first "[21/Nov/2026:06:18:30 +0000]" in TEXT. */
double timestamp_read_log(const char *text);

/* "2026-11-21T06:18:30.123Z" or with an offset such as "+01:00"; the fraction is optional. */
double timestamp_read_iso(const char *text);

#endif
