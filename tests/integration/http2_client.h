/*
 * An HTTP/2 client on one socket that sends exactly the given frames, valid or not, and reads frames
 * one by one. nghttp2 encodes and decodes header blocks. A malformed frame, or none before the
 * deadline, fails the running test. Single-threaded.
 */
#ifndef TESTS_HTTP2_CLIENT_H
#define TESTS_HTTP2_CLIENT_H

#include "http_client.h"

#include "daemon/http2/frame.h"

#include <nghttp2/nghttp2.h>

struct http2_client {
    struct http_client http; /* the socket and its buffer */
    nghttp2_hd_deflater *deflater;
    nghttp2_hd_inflater *inflater;
};

struct http2_frame {
    struct frame_head head;
    char payload[64 * 1024];
};

/* Connects, sends the preface and SETTINGS with these PAIRS ({setting, value}, up to {0, 0}). */
void http2_open(struct http2_client *client, uint16_t port, const uint32_t (*pairs)[2]);
void http2_close(struct http2_client *client);

void http2_send(struct http2_client *client, struct frame_head head, const void *payload);

/* Sends HEADERS for REQUEST: "METHOD target\nname: value\n..."; FLAGS in addition to END_HEADERS. */
void http2_request(struct http2_client *client, uint32_t stream, uint8_t flags,
                   const char *request);

/* Encodes REQUEST to BLOCK and returns its length. */
size_t http2_encode(struct http2_client *client, const char *request, char *block, size_t size);

/* WINDOW_UPDATE. */
void http2_open_window(struct http2_client *client, uint32_t stream, uint32_t increment);

/* SETTINGS with one setting. */
void http2_set(struct http2_client *client, enum frame_setting setting, uint32_t value);

/* RST_STREAM with CANCEL. */
void http2_reset(struct http2_client *client, uint32_t stream);

/* PING with a PAYLOAD of 8 bytes. */
void http2_ping(struct http2_client *client, uint8_t flags, const char *payload);

/* Reads the next frame; false: the server has closed or reset the connection. */
bool http2_next(struct http2_client *client, struct http2_frame *frame);

/*
 * Reads frames, and ignores others, up to one of TYPE on STREAM. Fails the test if the connection
 * closes before.
 */
void http2_expect(struct http2_client *client, enum frame_type type, uint32_t stream,
                  struct http2_frame *frame);

/* The same for RST_STREAM and GOAWAY with ERROR. */
void http2_expect_reset(struct http2_client *client, uint32_t stream, enum http2_error error);
void http2_expect_goaway(struct http2_client *client, uint32_t last_stream, enum http2_error error);

/* Reads to the end of the connection; a GOAWAY before it must have ERROR. */
void http2_expect_end(struct http2_client *client, enum http2_error error);

/*
 * Reads the response on STREAM to its end, and opens windows. Frames on other streams fail the test.
 * The head is that of HTTP/1 with the same fields, so all checks for responses apply.
 */
void http2_receive(struct http2_client *client, uint32_t stream, struct http_response *response);

/* Sends a request without a body and checks the status of the response, and the BODY unless NULL. */
void http2_check(struct http2_client *client, uint32_t stream, const char *request, int status,
                 const char *body);

/* The status in a HEADERS frame. */
int http2_status(struct http2_client *client, const struct http2_frame *frame);

#endif
