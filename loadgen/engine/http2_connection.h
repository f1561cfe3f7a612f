/*
 * A connection of the raw engine for HTTP/2: a slot for each of its streams. libcurl establishes
 * it, nghttp2 makes and parses the frames.
 *
 * A request that begins while the connection is not established waits for it. A request that the
 * connection no longer takes (GOAWAY, --max-reqs-per-conn) waits until those in flight have ended
 * and is sent on a new connection.
 *
 * The owner is called from http2_report() and from events of the loop only. All functions: the
 * engine's thread.
 */
#ifndef LOADGEN_HTTP2_CONNECTION_H
#define LOADGEN_HTTP2_CONNECTION_H

#include "loadgen/engine/cookie_jar.h"
#include "loadgen/engine/http2_fields.h"
#include "loadgen/engine/raw_stream.h"

struct http2_connection;
struct http2_stream;

/* Shared by the connections of an engine; outlives them. */
struct http2_shared {
    struct engine_config config;
    struct http2_fields *fields; /* one for each request of the request plan */
    nghttp2_session_callbacks *callbacks;
    char *buffer;                     /* receive buffer */
    struct http2_connection *dirty;   /* a list of connections with something to send */
    struct http2_stream *ended;       /* a list of requests whose end is not reported yet */
    struct http2_stream **ended_tail; /* its last link */
    struct event *report;             /* calls http2_report() in the next loop iteration */
};

/* Returns false if out of memory; call http2_shared_end() in either case. */
bool http2_shared_begin(struct http2_shared *shared, const struct engine_config *config);
void http2_shared_end(struct http2_shared *shared);

/*
 * Reports the requests that have ended to the owner, and sends those that it begins. From the loop.
 */
void http2_report(struct http2_shared *shared);

/* Sends what the connections have to send. Does not call the owner. */
void http2_flush(struct http2_shared *shared);

/* Returns NULL if out of memory. FIRST_SLOT: the number of its first slot. */
struct http2_connection *http2_connection_create(struct http2_shared *shared,
                                                 struct curl_group *group,
                                                 struct curl_sockets *sockets, uint32_t first_slot);
void http2_connection_destroy(struct http2_connection *connection);

/* Begins REQUEST on a free slot; http2_flush() sends it. */
void http2_connection_begin(struct http2_connection *connection, uint32_t slot,
                            const struct request *request, uint64_t now_ns);

/* Cancels the request in flight on SLOT. Returns whether the connection was established for it. */
bool http2_connection_cancel(struct http2_connection *connection, uint32_t slot);

/* SLOT, which is free, is not in use for now; closes the connection if no slot is. */
void http2_connection_close_slot(struct http2_connection *connection, uint32_t slot);

/* Deletes the cookies of SLOT, which is free. */
void http2_connection_forget(struct http2_connection *connection, uint32_t slot);

/* The result of connecting. From the loop. */
void http2_connection_established(struct http2_connection *connection);
void http2_connection_failed(struct http2_connection *connection, CURLcode code);

/* Fails the requests in flight that exceed the plan's timeout. */
void http2_connection_check_timeouts(struct http2_connection *connection, uint64_t now_ns);

#endif
