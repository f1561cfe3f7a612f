/*
 * The requests from the log rings of all threads, merged by time. The server does not wait for this
 * reader, which may be overrun and then counts the missed records. At 20,000 requests per second a
 * ring of the default size holds the last 50 ms or so: tail_due_ns() says when to read it again.
 * The reader reads at most TAIL_WORDS_PER_S; if there is more, it reads the same part of each ring,
 * the newest records. The console's only thread.
 */
#ifndef CONSOLE_TAIL_H
#define CONSOLE_TAIL_H

#include "common/log_record.h"
#include "common/segment_reader.h"
#include "console/data/hosts.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TAIL_WORDS_PER_S = 1 << 20, /* times the number of rings: 20,000 records of 52 words */
    TAIL_PAUSE_MIN_NS = 10 * 1000 * 1000,
    TAIL_PAUSE_MAX_NS = 40 * 1000 * 1000,
};

enum {
    TAIL_LINES = 4096,
    TAIL_ADDRESS_TEXT = CLIENT_ADDRESS_TEXT + 1,
    TAIL_REQUEST_BYTES = 1024, /* request line, readable, with the NUL; the rest is cut */
    TAIL_REFERER_BYTES = 128,  /* same */
    TAIL_AGENT_BYTES = 128,
    TAIL_PROTOCOL_TEXT = 96,
    TAIL_NO_THREAD = 0xffff,
};

/* A record and the thread that logged it. The texts are valid until the next tail_read(). */
struct tail_record {
    struct log_record log;   /* texts longer than those of a line may be cut */
    uint32_t request_bytes;  /* length of the request line as received */
    const char *host;        /* see struct host_row; "": the server has no [host] sections */
    uint32_t thread;         /* slot */
    uint16_t worker, number; /* owner of the slot when read; TAIL_NO_THREAD: none */
};

struct tail_line {
    uint64_t time_ns; /* wall clock, start of the request */
    uint64_t duration_ns;
    uint64_t body_bytes;
    const char *host; /* see struct tail_record, as the next two */
    uint32_t thread;
    uint16_t worker, number;
    uint16_t status;
    uint8_t outcome;                       /* enum outcome */
    uint8_t protocol;                      /* enum log_protocol */
    uint16_t tls;                          /* see log_record_read_tls(); 0: not over TLS */
    uint16_t streams;                      /* open on the HTTP/2 connection; 0: not HTTP/2 */
    uint8_t address[CLIENT_ADDRESS_BYTES]; /* see tail_address() */
    uint32_t request_bytes;                /* length of the request line as received */
    bool request_cut;                      /* REQUEST is only its beginning */
    char referer[TAIL_REFERER_BYTES];      /* "": not sent; see tail_readable() */
    char agent[TAIL_AGENT_BYTES];
    char request[TAIL_REQUEST_BYTES]; /* last: written only up to its end */
};

/* Of each text, at most as many bytes as were received are made readable as a line has room for. */
void tail_fill_line(struct tail_line *line, const struct tail_record *record);

/*
 * Writes LENGTH BYTES as UTF-8 for people: unsafe characters and bytes that are not UTF-8 as \xHH;
 * percent-encoded characters beyond ASCII as themselves if they are safe. A text that does not fit
 * is cut between characters. Returns whether all of it fitted.
 */
bool tail_readable(char *buffer, size_t size, const char *bytes, size_t length);

/* Writes the client's address to BUFFER (TAIL_ADDRESS_TEXT bytes), which is returned. */
char *tail_address(const struct tail_line *line, char *buffer);

/*
 * Writes what client and server negotiated to BUFFER (TAIL_PROTOCOL_TEXT bytes), which is returned:
 * "HTTP/2.0 TLS 1.3 TLS_AES_128_GCM_SHA256, resumed". The version of HTTP is left out if the
 * request line was not valid.
 */
char *tail_protocol(const struct tail_line *line, char *buffer);

/* The same of the members PROTOCOL and TLS of a record. */
char *tail_protocol_text(uint8_t protocol, uint16_t tls, char *buffer);

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
 * When to call tail_read() again, by the monotonic clock: TAIL_PAUSE_MAX_NS after the last call,
 * but earlier, down to TAIL_PAUSE_MIN_NS, if a ring would be written by a quarter and more till
 * then.
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

/*
 * Orders the lines read so far by the start of the request; lines that are read later follow them. So do
 * the functions below, whose lines keep their number from then on.
 */
void tail_order(const struct tail *tail);

/* Number of lines kept. */
size_t tail_count(const struct tail *tail);

/* Line BACK, counted from the newest (0), also as a record. Valid until the next tail_read(). */
const struct tail_line *tail_line(const struct tail *tail, size_t back);
void tail_line_record(const struct tail *tail, size_t back, struct tail_record *record);

/*
 * Makes COPY (a tail of its own, or NULL at first) hold the lines of TAIL. Returns the copy, or
 * NULL if out of memory.
 */
struct tail *tail_copy(struct tail *copy, const struct tail *tail);

/* Number of lines that started after WALL_NS, which a view of that time does not show. */
size_t tail_younger(const struct tail *tail, uint64_t wall_ns);

/* Lines read since the start: grows by one with each line. */
uint64_t tail_total(const struct tail *tail);

/*
 * Estimated number of records missed, because a ring was overrun or there were too many to read.
 * The words are counted exactly; the number assumes records of average size.
 */
uint64_t tail_missed(const struct tail *tail);

#endif
