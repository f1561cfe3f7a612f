/*
 * The requests from the log rings of all threads, merged by time. The server does not wait for this
 * reader, which may be overrun and then counts the missed records. At 20,000 requests per second a
 * ring of the default size holds the last 50 ms or so: tail_due_ns() says when to read it again. The
 * reader reads at most TAIL_WORDS_PER_S; if there is more, it reads the same part of each ring, the
 * newest records. The console's only thread.
 */
#ifndef CONSOLE_TAIL_H
#define CONSOLE_TAIL_H

#include "common/segment_reader.h"
#include "console/data/hosts.h"
#include "console/data/tail_lines.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TAIL_WORDS_PER_S = 1 << 20, /* times the number of rings: 20,000 records of 52 words */
    TAIL_PAUSE_MIN_NS = 10 * 1000 * 1000,
    TAIL_PAUSE_MAX_NS = 40 * 1000 * 1000,
};

struct tail;

/* NAMES is borrowed; the lines, also those of copies, point into it. NULL: out of memory. */
struct tail *tail_create(struct host_names *names);
void tail_destroy(struct tail *tail);

/*
 * Starts with another segment; the lines so far are kept. Only the newest READABLE words of a ring
 * can be read (UINT64_MAX: all). The next tail_read() also reads records that are already in the
 * rings. Returns 0, or -1: out of memory.
 */
int tail_attach(struct tail *tail, const struct segment_reader *reader, uint64_t readable);

/* Receives a record. It is valid during the call. */
typedef void tail_take(void *context, const struct tail_record *record);

/*
 * Reads the new records, passes each to TAKE, and keeps the last ones. READER is the attached one;
 * NOW_NS is the monotonic clock, which never decreases. Returns the number of records.
 */
uint64_t tail_read(struct tail *tail, const struct segment_reader *reader, uint64_t now_ns,
                   tail_take *take, void *context);

/*
 * When to call tail_read() again, by the monotonic clock: TAIL_PAUSE_MAX_NS after the last call, but
 * earlier, down to TAIL_PAUSE_MIN_NS, if a ring would be written by a quarter and more till then.
 */
uint64_t tail_due_ns(const struct tail *tail);

/*
 * Call after the first tail_read(): passes the records that were in the rings before it to TAKE,
 * ring by ring, oldest first. Returns the time since which no request is missing (wall clock, ns);
 * records older than that are not passed. 0: since the start of the daemon; UINT64_MAX: a ring was
 * overrun meanwhile.
 */
uint64_t tail_read_backlog(struct tail *tail, const struct segment_reader *reader, tail_take *take,
                           void *context);

/* Number of lines kept. */
size_t tail_count(const struct tail *tail);

/* Line BACK, counted from the newest (0), also as a record. Valid until the next tail_read(). */
const struct tail_line *tail_line(const struct tail *tail, size_t back);
void tail_line_record(const struct tail *tail, size_t back, struct tail_record *record);

/*
 * Makes COPY (a tail of its own, or NULL at first) hold the lines of TAIL. Returns the copy, or NULL if
 * out of memory.
 */
struct tail *tail_copy(struct tail *copy, const struct tail *tail);

/* Number of lines that started after WALL_NS, which a view of that time does not show. */
size_t tail_younger(const struct tail *tail, uint64_t wall_ns);

/* Lines read since the start: grows by one with each line. */
uint64_t tail_total(const struct tail *tail);

/*
 * Estimated number of records missed, because a ring was overrun or there were too many to read. The
 * words are counted exactly; the number assumes records of average size.
 */
uint64_t tail_missed(const struct tail *tail);

#endif
