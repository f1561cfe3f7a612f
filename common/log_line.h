/*
 * Lines of the access log from records. Pure but for a cache of the time's text, kept by each
 * thread; any thread.
 *
 *   common    192.0.2.7 - - [21/Nov/2026:06:18:30 +0000] "GET / HTTP/1.1" 200 2326
 *   combined  the same, then "Referer" "User-Agent"
 *   json      {"time":"2026-11-21T06:18:30.123Z","address":"192.0.2.7","request":"GET / HTTP/1.1",
 *             "status":200,"bytes":2326,"duration_us":84,"outcome":"hit","referer":"","agent":""}
 *
 * Bytes that could forge or break a line (control characters, quotes, backslashes, and all that is
 * not ASCII) are written as \xHH, in JSON as \u00HH: a line is ASCII and one line, whatever was
 * sent.
 */
#ifndef COMMON_LOG_LINE_H
#define COMMON_LOG_LINE_H

#include "common/log_record.h"

enum log_format { LOG_FORMAT_COMMON, LOG_FORMAT_COMBINED, LOG_FORMAT_JSON, LOG_FORMAT_COUNT };

enum { LOG_LINE_MAX = 64 * 1024 }; /* room for any record as a line, every byte escaped */

/*
 * Writes RECORD with its newline into LINE and returns its length. LINE has room for LOG_LINE_MAX
 * bytes; those behind the length may be written, too.
 */
size_t log_line(enum log_format format, const struct log_record *record, char *line);

#endif
