/*
 * What a transaction needs from the worker and the thread that it runs on: worker_context is shared
 * by all threads of a worker, transaction_context belongs to one of them.
 */
#ifndef DAEMON_TRANSACTION_CONTEXT_H
#define DAEMON_TRANSACTION_CONTEXT_H

#include "common/client_address.h"
#include "common/log_record.h"
#include "common/segment.h"
#include "daemon/base/mailbox.h"
#include "daemon/base/offload.h"
#include "daemon/config/config.h"
#include "daemon/content/cache.h"
#include "daemon/content/files.h"
#include "daemon/content/thread_cache.h"
#include "daemon/http/negotiation.h"
#include "daemon/http/range.h"
#include "daemon/http/response.h"
#include "daemon/transaction/limits.h"
#include "daemon/transaction/site.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* See shortage.h. */
enum shortage {
    SHORTAGE_LOG,         /* lost: access log records */
    SHORTAGE_CONNECTIONS, /* connections.max; lost, as in the following ones: idle connections */
    SHORTAGE_DESCRIPTORS,
    SHORTAGE_MEMORY,
    SHORTAGE_THREADS, /* of the model thread; lost: attempts to start one */
    SHORTAGE_COUNT
};

/* Shared by all threads of a worker; initially zero. */
struct worker_shortages {
    struct {
        _Atomic uint64_t noted_ns; /* when a thread last noted it, monotonic clock; 0: none */
        _Atomic uint64_t lost;     /* counted from its beginning */
    } of[SHORTAGE_COUNT];
    _Atomic uint32_t memory;   /* enum memory_level: what the control group has left */
    struct mailbox_item sweep; /* the main thread makes all drop what the cache has evicted */
    mailbox_deliver_fn *deliver_sweep; /* runs on the main thread */
    _Atomic bool sweep_posted;         /* and not taken yet */
};

/*
 * The body of a response, or the rest of it that is not sent yet: bytes in memory or in a file, or
 * several parts of a representation. The protocol takes it from the output buffer and sends it. The
 * thread that sends the response.
 */
struct body_source {
    struct resource *resource; /* NULL: there is no body, or it is static */
    bool owned;                /* holds a reference to resource */
    const char *memory;        /* the next byte; NULL: it is in the file, at offset */
    uint64_t offset, left;     /* what remains of the piece that is being sent */
    struct byteranges *parts;  /* owned; NULL: the body is one piece */
};

/* True if another part follows the piece that is being sent. */
static inline bool body_source_has_parts(const struct body_source *body)
{
    return body->parts != NULL && body->parts->next < body->parts->count;
}

static inline bool body_source_is_empty(const struct body_source *body)
{
    return body->left == 0 && !body_source_has_parts(body);
}

static inline void body_source_advance(struct body_source *body, uint64_t length)
{
    if (body->memory != NULL)
        body->memory += length;
    body->offset += length;
    body->left -= length;
}

/* Begins the next part and returns the text to send before it. */
static inline struct span body_source_next_part(struct body_source *body)
{
    const struct byteranges_part *part = &body->parts->part[body->parts->next++];
    const char *start = body->resource->body;

    body->memory = start != NULL ? start + part->bytes.first : NULL;
    body->offset = part->bytes.first;
    body->left = part->bytes.length;
    return part->text;
}

/* Takes a reference to the resource, so that the body lives as long as its response. */
static inline void body_source_keep(struct body_source *body)
{
    if (body->resource != NULL && !body->owned)
        cache_acquire(&body->resource->entry);
    body->owned = body->resource != NULL;
}

/* Frees what it owns; it is then empty. */
static inline void body_source_release(struct body_source *body, struct cache *cache)
{
    if (body->owned)
        resource_release(cache, body->resource);
    free(body->parts);
    *body = (struct body_source){.resource = NULL};
}

struct waiting_record;
struct logins;
struct client;
struct host_place;
struct tls_context;

/* Fixed while the worker's threads live. */
struct worker_context {
    const struct config *config;
    const struct segment *segment;
    uint32_t worker_slot;
    struct sites sites;
    const struct host_place *host_places; /* [sites.count]; NULL: hosts are not counted */
    struct mime_table *mime;
    struct cache *cache;        /* NULL: off */
    uint32_t cache_descriptors; /* maximum number of files that the cache keeps open */
    struct offload *offload;
    struct client_limit *client_limit;
    struct rate_guard *rate_guard;
    struct logins *logins;
    struct tls_context *tls; /* of new threads; NULL: no listen socket needs it */
    /* True if the TLS connection of CLIENT may carry requests for HOST, host[:port]. */
    bool (*tls_covers)(const struct client *client, struct span host);
    struct worker_shortages *shortages;
    struct mailbox *main; /* the worker's main thread receives it */
    int doorbell;         /* eventfd: wakes the logger */
};

enum {
    OUTPUT_BUFFER_BYTES = 64 * 1024,
    OUTPUT_RESPONSE_MAX = 14 * 1024, /* free space required to compose a response */
    OUTPUT_RECORD_WORDS = 8 * 1024,
};

/*
 * Responses to all requests of one read, collected so that one system call sends them. A
 * transaction appends its head and sets the body; before the next one, the protocol copies the body
 * into the buffer, takes it away, or sends everything.
 *
 *   bytes:   [head body][head body][head] ──▶ body of the last response
 *   records: one per response, finished and logged when it has been sent
 */
struct output_buffer {
    size_t used;
    struct body_source body; /* the last response's */
    uint64_t record_words;
    uint64_t *last_record; /* NULL: the buffer holds no response */
    char bytes[OUTPUT_BUFFER_BYTES];
    uint64_t records[OUTPUT_RECORD_WORDS];
};

/* A thread's last Accept-Encoding value, parsed: most clients send one of a few. */
struct accept_encoding_memo {
    size_t length;
    coding_preference preference;
    char value[108];
};

/* Belongs to one serving thread; no other uses it. */
struct transaction_context {
    const struct worker_context *worker;
    struct mailbox *mailbox; /* receives finished offload jobs */
    uint32_t jobs_out;       /* offload jobs not finished yet */
    bool unavailable; /* all requests are answered 503: a full queue has dropped the connections */
    bool closing_connections; /* all connections close after their next response... */
    bool closing_secure;      /* ...or those over TLS */

    /* Time of the loop iteration: the clock is read once per wake-up. */
    uint64_t loop_now_ns;    /* monotonic; 0: not read in this iteration */
    uint64_t wall_offset_ns; /* wall clock minus monotonic clock, updated every second */

    struct thread_cache *thread_cache; /* NULL: cache off */
    struct accept_encoding_memo accept_encoding;
    struct site_memo site;
    struct directory_check directory;      /* the directory in which files were checked last */
    struct negative_cache *negative_cache; /* NULL: cache off, or files are checked at every use */

    /* The thread's block in the segment. */
    struct segment_activity *activity;
    _Atomic uint64_t *metrics;
    struct histogram *latency;               /* by outcome */
    struct segment_host_counts *host_counts; /* by entry; NULL: hosts are not counted */
    struct log_ring *ring;                   /* NULL: all access logs are off */
    bool ring_half_full;                     /* and the logger has been woken */
    uint64_t ring_reserved;                  /* words reserved for responses that are being sent */
    uint64_t log_wait_from_ns; /* monotonic; 0: no connection waits for space in the ring */
    bool log_dropping;         /* records without space are dropped, until half of it is free */
    /* Records that wait for space, in order; NULL: none. New requests wait meanwhile. */
    struct waiting_record *first_waiting, *last_waiting;

    uint8_t forwarded[CLIENT_ADDRESS_BYTES]; /* the client that the current request names */

    uint64_t connections_open; /* in all workers, cached... */
    uint64_t counted_open_ns;  /* ...for the iteration of this time; 0: not counted */

    struct response_prefixes prefixes;
    struct output_buffer output;
};

/* Wall-clock time of the loop iteration. */
static inline uint64_t context_wall_ns(const struct transaction_context *context)
{
    return context->loop_now_ns + context->wall_offset_ns;
}

/* True if another response and its record fit. */
static inline bool output_has_room(const struct output_buffer *output)
{
    return body_source_is_empty(&output->body) &&
           output->used + OUTPUT_RESPONSE_MAX <= OUTPUT_BUFFER_BYTES &&
           output->record_words + LOG_RECORD_WORDS_MAX <= OUTPUT_RECORD_WORDS;
}

static inline bool output_is_empty(const struct output_buffer *output)
{
    return output->last_record == NULL;
}

static inline void output_put(struct output_buffer *output, const char *bytes, size_t length)
{
    memcpy(output->bytes + output->used, bytes, length);
    output->used += length;
}

/* The body has been taken away or released. */
static inline void output_clear(struct output_buffer *output)
{
    output->used = 0;
    output->record_words = 0;
    output->last_record = NULL;
}

#endif
