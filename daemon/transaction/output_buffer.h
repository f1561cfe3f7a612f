/*
 * What a serving thread is about to send on one connection: the answers to all requests that one
 * read brought, gathered so that they leave in one system call. Heads and small bodies are copied
 * into the buffer; a large body is borrowed and must be the last.
 *
 *   buffer: [head body][head body][head] ──▶ body of the last one (memory or file)
 *   records: one for each answer, to be finished and logged when it has been sent
 */
#ifndef DAEMON_OUTPUT_H
#define DAEMON_OUTPUT_H

#include "common/log_record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct byteranges;
struct resource;

enum {
    OUTPUT_BUFFER = 32 * 1024,
    OUTPUT_ANSWER_MAX = 12 * 1024, /* room that must be free before an answer is composed */
    OUTPUT_COPY_MAX = 4 * 1024,    /* larger bodies are borrowed */
    OUTPUT_RECORD_WORDS = 8 * 1024,
};

struct output {
    size_t used;
    struct resource *body; /* NULL: all is in the buffer */
    bool body_held;        /* a reference goes with it */
    uint64_t body_offset, body_left;
    struct byteranges *parts; /* the body is these parts of it; owned; NULL: it is one piece */
    uint64_t record_words;
    uint64_t *last_record; /* NULL: none yet */
    char buffer[OUTPUT_BUFFER];
    uint64_t records[OUTPUT_RECORD_WORDS];
};

/* True when another answer and its record surely fit. */
static inline bool output_has_room(const struct output *output)
{
    return output->body == NULL && output->used + OUTPUT_ANSWER_MAX <= OUTPUT_BUFFER &&
           output->record_words + LOG_RECORD_WORDS_MAX <= OUTPUT_RECORD_WORDS;
}

static inline bool output_is_empty(const struct output *output)
{
    return output->last_record == NULL;
}

static inline void output_put(struct output *output, const char *bytes, size_t length)
{
    memcpy(output->buffer + output->used, bytes, length);
    output->used += length;
}

static inline void output_clear(struct output *output)
{
    output->used = 0;
    output->body = NULL;
    output->body_held = false;
    output->body_left = 0;
    output->parts = NULL;
    output->record_words = 0;
    output->last_record = NULL;
}

#endif
