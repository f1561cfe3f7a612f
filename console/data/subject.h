/*
 * One subject: the requests that have certain values, such as one path, client, status or thread.
 * They are counted as they are read from the log rings: rate by second, statuses, latency, the last
 * requests. Pure; the console's only thread.
 */
#ifndef CONSOLE_SUBJECT_H
#define CONSOLE_SUBJECT_H

#include "common/histogram.h"
#include "common/segment.h"
#include "console/data/tail.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The columns of the log that a subject can be chosen by; their names are those of the log. */
enum subject_column {
    SUBJECT_PATH,
    SUBJECT_CLIENT,
    SUBJECT_STATUS,
    SUBJECT_THREAD,
    SUBJECT_WORKER,
    SUBJECT_OUTCOME,
    SUBJECT_AGENT,
    SUBJECT_REFERER,
    SUBJECT_PROTOCOL,
    SUBJECT_HOST,
    SUBJECT_COLUMNS
};
extern const char *const subject_column_names[SUBJECT_COLUMNS];

enum {
    SUBJECT_TERMS = 4,
    SUBJECT_TEXT_BYTES = 200,
    SUBJECT_SECONDS = SEGMENT_HISTORY_SAMPLES,
    SUBJECT_LINES = 256,
    SUBJECT_STATUSES = 64,
};

/*
 * In TEXT, case is ignored, ? matches any character, and | separates alternatives; "4xx" is a class
 * of statuses.
 */
struct subject_term {
    enum subject_column column;
    bool negated;
    bool whole; /* the value is TEXT; else it contains TEXT */
    char text[SUBJECT_TEXT_BYTES];
};

struct subject_status {
    uint16_t status;
    uint64_t count;
};

/* True if LINE matches all COUNT terms. */
bool subject_matches(const struct subject_term *terms, size_t count, const struct tail_line *line);

struct subject;

/* COUNT terms (at most SUBJECT_TERMS) must all match. NULL: out of memory. */
struct subject *subject_create(const struct subject_term *terms, size_t count);
void subject_destroy(struct subject *subject);

/* Forgets what was counted. */
void subject_clear(struct subject *subject);

/* Counts LINE if it is one of the subject's requests. */
void subject_add(struct subject *subject, const struct tail_line *line);

/* Number of requests, and of bytes sent, since the first line that was added. */
uint64_t subject_requests(const struct subject *subject);
uint64_t subject_bytes(const struct subject *subject);

/* Wall clock of the oldest line added, whether it matched or not; 0: none. */
uint64_t subject_since_ns(const struct subject *subject);

/*
 * Requests in each of the COUNT seconds up to END_NS (wall clock), oldest first; NAN: not counted.
 */
void subject_rates(const struct subject *subject, uint64_t end_ns, double *values, size_t count);

/* Latency of all requests. */
const struct histogram *subject_latency(const struct subject *subject);

/* The statuses, most frequent first; returns their number. Valid until the next subject_add(). */
size_t subject_statuses(const struct subject *subject, struct subject_status *statuses);

/* The last requests: line BACK, counted from the newest (0). Valid until the next subject_add(). */
size_t subject_line_count(const struct subject *subject);
const struct tail_line *subject_line(const struct subject *subject, size_t back);

#endif
