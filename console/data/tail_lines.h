/*
 * The newest lines of the log: records as they were read, which become lines when a view asks for
 * them. Keeping a record therefore costs little more than copying it. The console's only thread.
 */
#ifndef CONSOLE_TAIL_LINES_H
#define CONSOLE_TAIL_LINES_H

#include "common/log_record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
    const uint64_t *words;   /* as packed; texts longer than those of a line may be cut */
    struct log_record log;   /* the same, unpacked */
    uint32_t request_bytes;  /* of the request line as received */
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
    uint8_t tls;                           /* see log_record_read_tls(); 0: not over TLS */
    uint16_t streams;                      /* of the HTTP/2 connection; 0: not HTTP/2 */
    uint8_t address[CLIENT_ADDRESS_BYTES]; /* see tail_address() */
    uint32_t request_bytes;                /* of the request line as received */
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
 * request line was not valid, or the record is of an older server.
 */
char *tail_protocol(const struct tail_line *line, char *buffer);

/* The same of the members PROTOCOL and TLS of a record. */
char *tail_protocol_text(uint8_t protocol, uint8_t tls, char *buffer);

struct tail_lines;

/* NULL: out of memory. */
struct tail_lines *tail_lines_create(void);
void tail_lines_destroy(struct tail_lines *lines);

/*
 * Returns the place for WORDS more words, to be filled with records, which tail_lines_keep() keeps.
 * Valid until the next call. NULL: out of memory.
 */
uint64_t *tail_lines_room(struct tail_lines *lines, size_t words);

/* Keeps RECORD, whose WORDS follow those of the previous record in the place. */
void tail_lines_keep(struct tail_lines *lines, const struct tail_record *record, size_t words);

/* Skips WORDS in the place. */
void tail_lines_skip(struct tail_lines *lines, size_t words);

/* Lines since the start; of these, the last TAIL_LINES are kept. */
uint64_t tail_lines_total(const struct tail_lines *lines);

/*
 * Line BACK, counted from the newest (0), also as a record. Orders the lines that were kept since the
 * last call by time. Valid until the next tail_lines_room().
 */
const struct tail_line *tail_lines_line(struct tail_lines *lines, size_t back);
void tail_lines_record(struct tail_lines *lines, size_t back, struct tail_record *record);
uint64_t tail_lines_time_ns(struct tail_lines *lines, size_t back);

/* Makes COPY hold the lines of LINES. Returns 0, or -1: out of memory. */
int tail_lines_copy(struct tail_lines *copy, const struct tail_lines *lines);

#endif
