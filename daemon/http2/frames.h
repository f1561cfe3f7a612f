/* Receives frames: their order and sizes, and what each type does (RFC 9113 sections 4 to 6). */
#ifndef DAEMON_HTTP2_FRAMES_H
#define DAEMON_HTTP2_FRAMES_H

#include "daemon/http2/connection.h"

/*
 * Processes the first frame of DATA if it is complete, and stores its length in *USED; else 0.
 * Returns the error to end the connection with. The output buffer has room.
 */
enum http2_error frames_receive(struct http2_connection *http2, const char *data, size_t length,
                                size_t *used);

/* Counts a frame whose number is limited. Returns ENHANCE_YOUR_CALM if there are too many. */
enum http2_error frames_count(struct http2_connection *http2, enum http2_flood kind);

/* The payload of the PING that asks whether the client has seen GOAWAY. */
extern const char frames_drain_ping[FRAME_PING_BYTES];

#endif
