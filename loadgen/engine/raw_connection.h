/*
 * A connection of the raw engine for HTTP/1: one slot, which carries one request at a time. The
 * request was built before the run; response.c parses the response. Without TLS a request costs one
 * send() and one recv().
 *
 * All functions: the engine's thread.
 */
#ifndef LOADGEN_RAW_CONNECTION_H
#define LOADGEN_RAW_CONNECTION_H

#include "loadgen/engine/cookie_jar.h"
#include "loadgen/engine/raw_stream.h"
#include "loadgen/engine/response.h"

#include <event2/event.h>

struct raw_connection;

/* Shared by the connections of an engine; outlives them. */
struct raw_shared {
    struct engine_config config;
    char *buffer;                  /* receive buffer */
    struct raw_connection *broken; /* a list of failures not yet reported to the owner */
    struct event *report_broken;   /* reports them in the next loop iteration */
};

/* Returns false if out of memory; call raw_shared_end() in either case. */
bool raw_shared_begin(struct raw_shared *shared, const struct engine_config *config);
void raw_shared_end(struct raw_shared *shared);

enum raw_connection_state {
    RAW_DOWN,
    RAW_CONNECTING,
    RAW_FREE,      /* established, idle */
    RAW_SENDING,   /* part of the request is not sent yet */
    RAW_RECEIVING, /* the request is sent */
    RAW_BROKEN,    /* failed; in the list of raw_shared */
};

struct raw_connection {
    struct raw_shared *shared;
    struct raw_stream stream;
    uint32_t slot;
    enum raw_connection_state state;
    bool fresh; /* established for the request in flight */
    uint32_t origin;
    uint32_t requests; /* requests on this connection */
    const struct request *request;
    const char *message; /* the request's, or with_cookies */
    size_t message_length;
    char *with_cookies;
    struct cookie_jar cookies;
    size_t sent;
    uint64_t begun_ns, connect_ns, handshake_ns, first_byte_ns;
    enum error_kind error; /* if RAW_BROKEN */
    struct response response;
    struct body_check check;
    struct raw_connection *next_broken;
};

/*
 * Initializes *connection, all zero before, for SLOT. Returns false if out of memory. Call
 * raw_connection_destroy() in either case; it also accepts a connection that is all zero.
 */
bool raw_connection_init(struct raw_connection *connection, struct raw_shared *shared,
                         struct curl_group *group, struct curl_sockets *sockets, uint32_t slot);
void raw_connection_destroy(struct raw_connection *connection);

/* Begins REQUEST on an idle connection. The owner is called from the loop when it ends. */
void raw_connection_begin(struct raw_connection *connection, const struct request *request,
                          uint64_t now_ns);

/* Closes the connection if it is open; the owner is not called. */
void raw_connection_close(struct raw_connection *connection);

/* The result of connecting. From the loop. */
void raw_connection_established(struct raw_connection *connection);
void raw_connection_failed(struct raw_connection *connection, CURLcode code);

/* Fails the request in flight if it exceeds the plan's timeout. */
void raw_connection_check_timeout(struct raw_connection *connection, uint64_t now_ns);

#endif
