/*
 * The body of a response, or the rest of it that is not sent yet: bytes in memory or in a file, or
 * several parts of a representation. The protocol takes it from the output buffer and sends it. The
 * thread that sends the response.
 */
#ifndef DAEMON_TRANSACTION_BODY_SOURCE_H
#define DAEMON_TRANSACTION_BODY_SOURCE_H

#include "daemon/content/resource.h"
#include "daemon/http/range.h"

#include <stdlib.h>

struct body_source {
    struct resource *resource; /* NULL: there is no body, or it is static */
    bool owned;                /* holds a reference to resource */
    const char *memory;        /* the next byte; NULL: it is in the file, at offset */
    uint64_t offset, left;     /* of the piece that is being sent */
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

#endif
