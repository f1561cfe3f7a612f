/*
 * The access log record of one request. A serving thread packs it into its log ring; the logger and
 * the consoles unpack, filter and format it.
 *
 *   word 0     words in the record (low 16 bits), host (16), format version (8), outcome (8),
 *              status (16)
 *   word 1     time of the request's start, wall clock, ns
 *   word 2     duration, ns (56 bits), length of the requested host (8)
 *   word 3     bytes of body sent (48 bits), open streams of the HTTP/2 connection (16)
 *   word 4, 5  client address (see client_address.h)
 *   word 6     lengths: request line (13 bits); content coding (2), bit 5 of the length of the
 *              request ID (1); referer (11), the other bits of the request ID (5), agent (13); TLS
 *              group (3), cipher suite (5), resumed (1); protocol (2), length of the user name (8)
 *   then       the four texts, that host and the request ID without NUL, padded with zeros to a word
 *
 * As a line of the access log:
 *
 *   common    192.0.2.7 - USER [21/Nov/2026:06:18:30 +0000] "GET / HTTP/1.1" 200 2326
 *   combined  the same, then "Referer" "User-Agent"
 *   json      {"time":"2026-11-21T06:18:30.123Z","address":"192.0.2.7","request":"GET / HTTP/1.1",
 *             "status":200,"bytes":2326,"duration_us":84,"outcome":"hit","referer":"","agent":""}
 *             with a user also "user":"USER" before request, then of a server with [host] sections
 *             "host":"NAME", the first name of its section, "*" if it matches none;
 *             "requested_host":"NAME" as the client sent it, unless only "host" is possible; at the end also
 *             "protocol":"HTTP/1.1", if the request line was valid,
 *             over HTTP/2 "streams":4, the open streams of the connection, this one included,
 *             over TLS "tls":"1.3","cipher":"TLS_AES_128_GCM_SHA256","tls_group":"x25519",
 *             "resumed":false
 *             of a response with a coding "coding":"br", of a request with X-Request-ID
 *             "request_id":"ID", if [log] fields names them
 *
 * Control characters, quotes, backslashes and all non-ASCII bytes are written as \xHH, in JSON as
 * \u00HH, so a client cannot forge or split a line.
 *
 * Pure, except for a per-thread cache of the formatted time; any thread.
 */
#ifndef COMMON_LOG_RECORD_H
#define COMMON_LOG_RECORD_H

#include "common/client_address.h"
#include "common/log_ring.h"
#include "common/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LOG_RECORD_VERSION = 3,
    LOG_RECORD_HEAD_WORDS = 7,
    /* Longer texts are cut. */
    LOG_REQUEST_LINE_MAX = 4096,
    LOG_REFERER_MAX = 1024,
    LOG_AGENT_MAX = 512,
    LOG_USER_MAX = 128,
    LOG_REQUEST_ID_MAX = 63,
    LOG_BODY_BITS = 48, /* the others of word 3 are the streams */
    LOG_DURATION_BITS = 56,
    LOG_HOST_MAX = 255, /* host_name is not cut */
    LOG_RECORD_WORDS_MAX =
        LOG_RECORD_HEAD_WORDS + (LOG_REQUEST_LINE_MAX + LOG_REFERER_MAX + LOG_AGENT_MAX +
                                 LOG_USER_MAX + LOG_HOST_MAX + LOG_REQUEST_ID_MAX + 7) /
                                    8,
    LOG_CODINGS = 4,
};

enum log_protocol {
    LOG_PROTOCOL_UNKNOWN, /* the request line was not valid */
    LOG_PROTOCOL_HTTP_1_0,
    LOG_PROTOCOL_HTTP_1_1,
    LOG_PROTOCOL_HTTP_2,
    LOG_PROTOCOLS
};

/* "HTTP/1.1" and so on, as in request lines; NULL: unknown. */
extern const char *const log_protocol_names[LOG_PROTOCOLS];

/* "gzip" and so on; the first is identity. */
extern const char *const log_coding_names[LOG_CODINGS];

struct log_record {
    uint64_t time_ns;
    uint64_t duration_ns; /* below 2^LOG_DURATION_BITS */
    uint64_t body_bytes;  /* below 2^LOG_BODY_BITS */
    uint16_t status;
    uint16_t streams;      /* open on the HTTP/2 connection when the request began; 0: not HTTP/2 */
    uint16_t host;         /* entry in section HOSTS of the segment; 0 if hosts are not counted */
    uint8_t outcome;       /* enum outcome */
    uint16_t tls;          /* see log_record_tls(); 0: not over TLS */
    uint8_t protocol;      /* enum log_protocol */
    uint8_t coding;        /* of log_coding_names; 0: none, or not recorded */
    struct span host_name; /* for LOG_FORMAT_JSON; not packed; empty: unknown */
    uint8_t address[CLIENT_ADDRESS_BYTES];
    struct span request_line;
    struct span referer; /* empty: no such field */
    struct span agent;
    struct span user;           /* whose password was verified; empty: none */
    struct span requested_host; /* as the client sent it; empty: not recorded */
    struct span request_id;     /* the field X-Request-ID; empty: none, or not recorded */
};

/*
 * The member tls of a connection with the cipher suite ID, by its number, whose keys were exchanged
 * by GROUP (NULL: none). Not 0.
 */
uint16_t log_record_tls(unsigned int id, const char *group, bool resumed);

/* What a member tls says. The texts are constants. */
struct log_tls {
    /* "1.3", "TLS_AES_128_GCM_SHA256", "x25519"; "?" if unknown */
    const char *version, *cipher, *group;
    bool resumed;
};

struct log_tls log_record_read_tls(uint16_t tls);

/* Packs RECORD into WORDS (LOG_RECORD_WORDS_MAX of them) and returns the number of words used. */
uint64_t log_record_pack(const struct log_record *record, uint64_t *words);

/*
 * Unpacks WORDS; the texts of *record point into them. Returns 0, or -1 if they are not a valid
 * record of this version. The words come from shared memory and are not trusted.
 */
int log_record_unpack(const uint64_t *words, struct log_record *record);

/* The host in the words of a record, valid or not. */
static inline uint64_t log_record_host(const uint64_t *words)
{
    return words[0] >> 16 & UINT16_MAX;
}

/* Replaces it. */
static inline void log_record_set_host(uint64_t *words, uint16_t host)
{
    words[0] = (words[0] & ~((uint64_t)UINT16_MAX << 16)) | (uint64_t)host << 16;
}

/*
 * Position of the first record in RING at or after FROM; HEAD if there is none. The ring does not
 * mark where records start, so this is a guess: the first position from which 64 plausible
 * records follow each other, or fewer exactly up to HEAD. Callers must check what they read from
 * there. Any thread or process.
 */
uint64_t log_record_first(const struct log_ring *ring, uint64_t from, uint64_t head);

enum log_format { LOG_FORMAT_COMMON, LOG_FORMAT_COMBINED, LOG_FORMAT_JSON, LOG_FORMAT_COUNT };

enum { LOG_LINE_MAX = 64 * 1024 }; /* longest line in bytes: every byte escaped */

/*
 * Writes RECORD as a line, newline included, into LINE (LOG_LINE_MAX bytes) and returns the length.
 * Bytes after that length are undefined.
 */
size_t log_record_format(enum log_format format, const struct log_record *record, char *line);

#endif
