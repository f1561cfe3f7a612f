/*
 * One answered request as it travels from a serving thread through its log ring to the logger and
 * the consoles: fields, not a sentence. Whoever reads it formats and filters.
 *
 *   word 0     words in the record (low 32 bits), format version (8), outcome (8), status (16)
 *   word 1     time of the request's start, wall clock, ns
 *   word 2     duration, ns
 *   word 3     bytes of body sent
 *   word 4, 5  client address: 16 bytes, IPv4 as ::ffff:a.b.c.d, all zero for a UNIX socket
 *   word 6     lengths: request line, referer, agent (16 bits each), flags (16)
 *   then       the three texts, one behind the other, without NUL, padded with zero to a word
 *
 * Pure; any thread.
 */
#ifndef COMMON_LOG_RECORD_H
#define COMMON_LOG_RECORD_H

#include "common/client_address.h"
#include "common/log_ring.h"
#include "common/span.h"

#include <stddef.h>
#include <stdint.h>

enum {
    LOG_RECORD_VERSION = 1,
    LOG_RECORD_HEAD_WORDS = 7,
    /* Longer texts are cut when the record is made. */
    LOG_REQUEST_LINE_MAX = 4096,
    LOG_REFERER_MAX = 1024,
    LOG_AGENT_MAX = 512,
    LOG_RECORD_WORDS_MAX =
        LOG_RECORD_HEAD_WORDS + (LOG_REQUEST_LINE_MAX + LOG_REFERER_MAX + LOG_AGENT_MAX) / 8,
};

struct log_record {
    uint64_t time_ns;
    uint64_t duration_ns;
    uint64_t body_bytes;
    uint16_t status;
    uint8_t outcome; /* enum outcome */
    uint8_t address[CLIENT_ADDRESS_BYTES];
    struct span request_line;
    struct span referer; /* length 0: not sent */
    struct span agent;
};

/* Packs RECORD into WORDS (room for LOG_RECORD_WORDS_MAX) and returns how many were used. */
uint64_t log_record_pack(const struct log_record *record, uint64_t *words);

/*
 * The other way. The texts of *record point into WORDS. Returns 0, or -1 when the words are not a
 * record of this version (they come from shared memory: nothing is believed).
 */
int log_record_unpack(const uint64_t *words, struct log_record *record);

/*
 * The position of the first record in RING at FROM or behind it; HEAD when there is none before
 * HEAD. The ring does not say where records begin, except at its very start: a position is taken for
 * a beginning when the records from there on follow each other exactly up to HEAD. log_ring_read()
 * checks again, so the worst that a wrong guess can do is a strange record. Any thread or process.
 */
uint64_t log_record_first(const struct log_ring *ring, uint64_t from, uint64_t head);

enum log_format { LOG_FORMAT_COMMON, LOG_FORMAT_COMBINED, LOG_FORMAT_JSON, LOG_FORMAT_COUNT };

enum { LOG_LINE_MAX = 64 * 1024 }; /* room for any record as a line, every byte escaped */

/*
 * Writes RECORD with its newline into LINE and returns its length. LINE has room for LOG_LINE_MAX
 * bytes; those behind the length may be written, too.
 */
size_t log_record_format(enum log_format format, const struct log_record *record, char *line);

#endif
