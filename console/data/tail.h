/*
 * The last requests, from the log rings of all threads, merged by time. Reads as an onlooker that
 * no thread knows of: it can be overtaken, and counts what it did not see. However fast the server
 * is, a call reads a bounded amount, and of a ring it has fallen behind on, the newest records. The
 * console's only thread.
 */
#ifndef CONSOLE_TAIL_H
#define CONSOLE_TAIL_H

#include "common/log_record.h"
#include "common/segment_reader.h"

#include <stddef.h>
#include <stdint.h>

enum {
    TAIL_LINES = 4096, /* more than one call reads, so that nothing read is missed */
    TAIL_ADDRESS_TEXT = CLIENT_ADDRESS_TEXT + 1,
    TAIL_REQUEST_BYTES = 256, /* of the request line, escaped, with the NUL; the rest is cut */
    TAIL_REFERER_BYTES = 128, /* the same of the other two texts */
    TAIL_AGENT_BYTES = 128,
    TAIL_NO_THREAD = 0xffff,
};

struct tail_line {
    uint64_t time_ns; /* wall clock, the request's start */
    uint64_t duration_ns;
    uint64_t body_bytes;
    uint32_t thread;         /* slot */
    uint16_t worker, number; /* whose slot it was when read; TAIL_NO_THREAD: nobody's */
    uint16_t status;
    uint8_t outcome;                       /* enum outcome */
    uint8_t address[CLIENT_ADDRESS_BYTES]; /* see tail_address() */
    char request[TAIL_REQUEST_BYTES];      /* printable ASCII; other bytes as \xHH */
    char referer[TAIL_REFERER_BYTES];      /* "": none was sent */
    char agent[TAIL_AGENT_BYTES];
};

struct tail;

struct tail *tail_create(void);
void tail_destroy(struct tail *tail);

/*
 * Begins with another segment. Lines that are kept stay. Records that lie in the rings already are
 * read by the next tail_read(), as far as their beginnings can be found. Returns 0, or -1 when
 * memory is out.
 */
int tail_attach(struct tail *tail, const struct segment_reader *reader);

/* Takes what is new. READER is the one attached. Returns how many lines came that are kept. */
size_t tail_read(struct tail *tail, const struct segment_reader *reader);

/*
 * After the first tail_read(): hands what lies in the rings from before it, as far as they reach, to
 * TAKE, which may not keep the line; ring by ring, the oldest first. Returns from when on no request
 * is missing (wall clock, ns): 0 when the rings still hold all since the daemon's start, UINT64_MAX
 * when they were overtaken meanwhile. What is older than that moment is not handed over.
 */
typedef void tail_take(void *context, const struct tail_line *line);
uint64_t tail_read_backlog(struct tail *tail, const struct segment_reader *reader, tail_take *take,
                           void *context);

/* Lines that are kept; line 0 is the newest. */
size_t tail_count(const struct tail *tail);
const struct tail_line *tail_line(const struct tail *tail, size_t back);

/* How many of the newest lines began after WALL_NS: a moment that has gone by does not show them. */
size_t tail_younger(const struct tail *tail, uint64_t wall_ns);

/* The client's address as text; BUFFER has TAIL_ADDRESS_TEXT bytes. Returns BUFFER. */
char *tail_address(const struct tail_line *line, char *buffer);

/* Lines read since the beginning: grows by one with each line. */
uint64_t tail_total(const struct tail *tail);

/*
 * About how many records passed unseen, because a ring went round or they were too many to look at.
 * Their words are known exactly, their number by the usual size of a record.
 */
uint64_t tail_missed(const struct tail *tail);

#endif
