/*
 * The byte stream of a connection of the raw engine. libcurl establishes it (names, TLS, proxies,
 * UNIX sockets) with CURLOPT_CONNECT_ONLY.
 *
 * A plain connection is taken from libcurl by duplicating its descriptor. A TLS connection stays
 * with its easy handle, alone in a multi handle: when libcurl adds a connection to a multi handle,
 * it checks the existing ones and closes those that have data to read.
 *
 * All functions: the engine's thread.
 */
#ifndef LOADGEN_RAW_STREAM_H
#define LOADGEN_RAW_STREAM_H

#include "loadgen/engine/curl_sockets.h"
#include "loadgen/engine/engine.h"

#include <sys/types.h>

struct raw_stream {
    const struct engine_config *config;
    struct curl_group *group; /* whose multi handle establishes the connection */
    CURL *easy;
    int fd;                            /* -1: not connected */
    struct event *readable, *writable; /* NULL unless watched */
    bool tls;
    bool in_multi; /* the socket is in the multi handle: connecting, or TLS */
    bool negotiated, resumed;
    struct negotiation negotiation; /* if negotiated */
    char error_text[CURL_ERROR_SIZE];
};

/*
 * Initializes *stream, all zero before. CONFIG must outlive it. OWNER: the CURLINFO_PRIVATE of the easy handle, in the
 * messages of the group's multi handle. Returns false if out of memory; call raw_stream_destroy()
 * in either case.
 */
bool raw_stream_init(struct raw_stream *stream, const struct engine_config *config,
                     struct curl_group *group, struct curl_sockets *sockets, void *owner);
void raw_stream_destroy(struct raw_stream *stream);

/* Begins to connect to the origin of REQUEST. The multi handle reports the end from the loop. */
void raw_stream_connect(struct raw_stream *stream, const struct request *request);

/*
 * Connected: takes the socket over from libcurl and records what was negotiated.
 * Returns false with errno set if out of descriptors.
 */
bool raw_stream_take_socket(struct raw_stream *stream);

/*
 * Watches a connected socket: adds an event for reading that persists, and makes stream->writable.
 * Returns false on failure.
 */
bool raw_stream_watch(struct raw_stream *stream, event_callback_fn on_readable,
                      event_callback_fn on_writable, void *context);

/* Begin and end of the callback for reading: one that has not read all is called again. */
void raw_stream_begin_reading(const struct raw_stream *stream, short events);
void raw_stream_read_later(const struct raw_stream *stream);

/* libcurl did not connect: records the text of CODE and returns what kind of error it is. */
enum error_kind raw_stream_failure(const struct raw_stream *stream, CURLcode code);

void raw_stream_close(struct raw_stream *stream);

/* Never block; results as of recv() and send(). */
ssize_t raw_stream_receive(const struct raw_stream *stream, char *buffer, size_t size);
ssize_t raw_stream_send(const struct raw_stream *stream, const char *bytes, size_t length);

/* Whether ERROR, an errno of these, means to try later. */
bool raw_stream_would_block(int error);

/* ---- Timeouts ---- */

/*
 * A running timer that calls SWEEP, which checks the timeouts of all connections, often enough for
 * the timeout of the plan. Returns NULL on failure; release with event_free().
 */
struct event *raw_sweep_start(const struct engine_config *config, event_callback_fn sweep,
                              void *context);

#endif
