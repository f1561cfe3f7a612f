/*
 * An HTTP/2 connection (RFC 9113) and its streams. A connection starts as HTTP/1 and becomes one of
 * HTTP/2 after the client's preface. Its frames are processed in order; each request is a
 * transaction as in HTTP/1, and all frames of one read are sent in one write.
 *
 *   readable ─▶ receive frames ─▶ HEADERS: transaction ─▶ HEADERS and a small body ─┐
 *                  │                  └─▶ offload job ─▶ resume: the same request   ├─▶ write
 *                  └─▶ answers to SETTINGS, PING … ─────────────────────────────────┤
 *   WINDOW_UPDATE, writable ─▶ DATA of the streams that may send, by priority ──────┘
 *
 * A connection with open streams moves between threads of a worker as it is, and never to another
 * worker.
 */
#ifndef DAEMON_HTTP2_CONNECTION_H
#define DAEMON_HTTP2_CONNECTION_H

#include "daemon/connection/connection.h"
#include "daemon/connection/file_window.h"
#include "daemon/http2/frame.h"

#include <nghttp2/nghttp2.h>

/*
 * Limits of what costs a client little and the server much: frames of some kinds are counted per
 * connection and second.
 *
 * FLOOD(NAME, limit per second)
 *
 * A browser that leaves a page resets all its streams at once, up to max_concurrent_streams. The
 * other limits are far above what clients send.
 */
#define HTTP2_FLOODS                                                                               \
    FLOOD(RESETS, 1000)                                                                            \
    FLOOD(SETTINGS, 50)                                                                            \
    FLOOD(PINGS, 100)                                                                              \
    FLOOD(PRIORITIES, 1000) /* PRIORITY and PRIORITY_UPDATE */                                     \
    FLOOD(EMPTY, 100)       /* frames without content that end nothing */                          \
    FLOOD(WINDOWS, 1000)    /* WINDOW_UPDATE, besides those of http2_allow_window_updates() */     \
    FLOOD(ERRORS, 500)      /* requests that we answer with RST_STREAM */

enum http2_flood {
#define FLOOD(name, limit) FLOOD_##name,
    HTTP2_FLOODS
#undef FLOOD
        FLOOD_COUNT
};

struct http2_floods {
    uint64_t from_ns; /* start of the second in which frames are counted; monotonic */
    uint32_t count[FLOOD_COUNT];
};

struct http2_stream {
    TAILQ_ENTRY(http2_stream) link;       /* links the streams of the connection */
    TAILQ_ENTRY(http2_stream) ready_link; /* links the ready ones of its urgency, if is_ready */
    struct http2_connection *http2;
    struct transaction_state state;
    uint32_t id;
    uint16_t opened_with; /* open streams when it was opened, this one included */
    int32_t send_window, receive_window;
    struct http2_priority priority;
    bool receiving; /* the client has not ended its side */
    bool reading;   /* an offload job loads for its request, or reads its file */
    bool runnable;  /* its request must be processed */
    bool sending;   /* its response has begun; body, text and record are valid */
    bool is_ready;  /* it is in a list of ready streams */
    bool dead;      /* reset; freed when the offload job is done */
    int status;     /* the request is rejected with it; 0: process the request */

    /* The request, if it waits for its body or an offload job. */
    struct request request;
    char *head;              /* its bytes; NULL: none */
    uint64_t content_length; /* UINT64_MAX: unknown */
    uint64_t received;       /* bytes of its body */
    uint64_t received_ns;    /* when body_timeout began */

    /* The response, if part of its body is not sent. */
    struct body_source body;
    struct span text; /* what a multipart body has before its next part */
    uint64_t body_sent;
    struct file_window window;
    uint64_t measured_ns;    /* the client's rate is measured since then... */
    uint64_t measured_bytes; /* ...and these have been sent */
    uint64_t *record;        /* the log record of the response */
    bool reserved;           /* the record's words are counted in ring_reserved */
};

TAILQ_HEAD(http2_streams, http2_stream);

enum http2_goaway {
    GOAWAY_NONE,
    GOAWAY_ANNOUNCED, /* the client should open no more streams; those that arrive are served */
    GOAWAY_FINAL,     /* no more streams are served; the connection closes after the open ones */
};

struct http2_connection {
    struct connection connection; /* first */
    nghttp2_hd_inflater *inflater;
    struct http2_streams streams;              /* the open and the dead ones */
    struct http2_streams ready[URGENCY_COUNT]; /* those that have something to send, by urgency */
    uint32_t stream_count, dead_count, ready_count;
    struct http2_stream *spare; /* is reused while the connection is busy; NULL: none */
    struct http2_settings settings;
    int32_t send_window, receive_window;
    uint32_t last_stream; /* highest number of a stream that the client has opened */
    /* Bit n: stream last_stream - 2 n was opened; it was reset by us. */
    uint64_t opened, reset_by_us;

    /* A header block that continues in the next frame; NULL: none. */
    char *block;
    size_t block_length;
    uint32_t block_stream;
    bool block_ends_stream;
    bool block_depends_on_itself; /* it has a priority that says so */

    size_t burst; /* bytes of bodies to write at once */
    enum http2_goaway goaway;
    bool started;          /* the client's SETTINGS have arrived */
    bool failed;           /* GOAWAY with an error is sent: nothing more is received */
    bool table_update_due; /* the next header block must begin with a dynamic table size update */
    uint64_t body_bytes_sent; /* includes all streams */
    struct http2_floods floods;
    uint32_t window_updates; /* WINDOW_UPDATE frames that are not counted */
};

/*
 * For a response or a frame of DATA: a client that takes much may send many WINDOW_UPDATE, as some
 * do for each part of a frame that they read.
 */
static inline void http2_allow_window_updates(struct http2_connection *http2)
{
    enum { EACH = 10, MOST = 20 * 1000 };

    if (http2->window_updates < MOST)
        http2->window_updates += EACH;
}

static inline struct http2_connection *http2_of(struct connection *connection)
{
    return (struct http2_connection *)connection;
}

static inline struct transaction_context *http2_context(const struct http2_connection *http2)
{
    return &http2->connection.loop->context;
}

extern const struct connection_protocol http2_protocol;

#endif
