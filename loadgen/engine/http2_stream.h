/*
 * The state of the raw engine's HTTP/2 connections and their streams, which http2_callbacks.c changes for what
 * arrives and http2_connection.c for all else. The engine's thread.
 */
#ifndef LOADGEN_HTTP2_STREAM_H
#define LOADGEN_HTTP2_STREAM_H

#include "loadgen/engine/cookie_jar.h"
#include "loadgen/engine/http2_fields.h"
#include "loadgen/engine/raw_stream.h"

struct http2_connection;
struct http2_stream;

/* Shared by the connections of an engine; outlives them. */
struct http2_shared {
    struct engine_config config;
    struct http2_fields *fields; /* of each request of the request plan */
    nghttp2_session_callbacks *callbacks;
    char *buffer;                     /* receive buffer */
    struct http2_connection *dirty;   /* a list of connections with something to send */
    struct http2_stream *ended;       /* a list of requests whose end is not reported yet */
    struct http2_stream **ended_tail; /* its last link */
    struct event *report;             /* calls http2_report() in the next loop iteration */
    struct error_texts error_texts;
    struct negotiations negotiations;
};

enum { OUTPUT_BYTES = 64 * 1024 }; /* frames to send are collected up to this size */

enum stream_state {
    STREAM_FREE,
    STREAM_WAITING, /* for a connection */
    STREAM_SENT,    /* submitted to nghttp2 */
    STREAM_ENDED,   /* in the list of http2_shared */
};

/* A slot and the stream of its request. */
struct http2_stream {
    struct http2_connection *connection;
    const struct request *request;
    enum stream_state state;
    bool off;       /* not in use for now */
    bool opener;    /* the connection is established for this request */
    bool complete;  /* the response has ended */
    bool malformed; /* nghttp2 rejected a frame */
    int32_t id;
    enum error_kind error; /* of STREAM_ENDED */
    uint32_t status;
    uint64_t begun_ns, first_byte_ns, ended_ns;
    uint64_t connect_ns, handshake_ns; /* of an opener */
    uint64_t head_bytes, body_bytes;
    size_t sent; /* of the request body */
    struct body_check check;
    struct cookie_jar cookies;  /* of the slot, over all of its requests */
    struct http2_fields fields; /* of a request that is not part of the request plan */
    struct http2_stream *next_ended;
};

enum connection_state { CONNECTION_DOWN, CONNECTION_CONNECTING, CONNECTION_UP, CONNECTION_BROKEN };

struct http2_connection {
    struct http2_shared *shared;
    struct raw_stream stream;
    nghttp2_session *session; /* NULL unless UP or BROKEN */
    struct event *readable, *writable;
    enum connection_state state;
    uint32_t first_slot, stream_count;
    uint32_t in_flight, waiting; /* streams SENT, streams WAITING */
    uint32_t off;
    uint32_t requests; /* on this connection */
    size_t out_length, out_sent;
    bool dirty;
    struct http2_connection *next_dirty;
    uint8_t out[OUTPUT_BYTES];
    struct http2_stream streams[];
};

struct http2_stream *http2_stream_of(struct http2_connection *connection, uint32_t slot);
uint32_t http2_slot_of(const struct http2_stream *stream);

/* The transcript that the stream's request is part of; NULL: none. */
struct transcript *http2_transcript_of(const struct http2_stream *stream);

/* The connection has something to send. */
void http2_mark_dirty(struct http2_connection *connection);

/* Puts a request that is WAITING or SENT into the list of those that have ended. */
void http2_end_stream(struct http2_stream *stream, enum error_kind error);

#endif
