/*
 * An HTTP client on one socket that sends exactly the given bytes, valid or not, and parses
 * responses strictly. A malformed response, or none before the deadline, fails the running test.
 * Single- threaded.
 */
#ifndef TESTS_HTTP_CLIENT_H
#define TESTS_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_client {
    int fd;
    char *bytes; /* received but not yet consumed */
    size_t length, room;
};

enum { HTTP_FIELDS_MAX = 32 };

struct http_response {
    int status;
    char *head; /* as received, including the empty line */
    char *body; /* without chunk framing; NUL-terminated, not counted in body_length */
    size_t body_length;
    char *copy; /* copy of the head that the fields below point into */
    size_t field_count;
    const char *name[HTTP_FIELDS_MAX], *value[HTTP_FIELDS_MAX];
};

enum http_body { HTTP_WITH_BODY, HTTP_HEAD_ONLY /* the response to a HEAD */ };

void http_open(struct http_client *client, uint16_t port);
void http_close(struct http_client *client);

void http_send(struct http_client *client, const char *text);
void http_say_bytes(struct http_client *client, const void *bytes, size_t length);

/* Reads one response. The caller must free it. */
void http_receive(struct http_client *client, enum http_body body, struct http_response *response);
void http_response_free(struct http_response *response);

/* Reads one response, which must have STATUS and BODY; NULL: any body. */
void http_expect_response(struct http_client *client, int status, const char *body);

/* Parses HEAD, which it owns from now on, into RESPONSE. */
void http_response_set_head(struct http_response *response, char *head);

/* Returns the value of field NAME (case-insensitive), or NULL. A repeated field fails the test. */
const char *http_field(const struct http_response *response, const char *name);

/* True if the server has neither closed the connection nor sent anything. */
bool http_is_open(const struct http_client *client);

/* Waits until the server closes the connection. Bytes before that fail the test. */
void http_expect_closed(struct http_client *client);

/* Waits for a close or reset. Bytes received before it are in client->bytes. */
void http_read_to_end(struct http_client *client);

/* Opens a connection and gets TARGET, with status 200. The connection stays open. */
void http_open_and_get(struct http_client *client, uint16_t port, const char *target);

/* Sends one request on a new connection and closes it after the response. */
void http_request(uint16_t port, const char *request, struct http_response *response);

/* The same for a GET; the response must have STATUS. */
void http_get(uint16_t port, const char *target, int status, struct http_response *response);

/* The same, for tests that need only the status. */
void http_expect(uint16_t port, const char *target, int status);

#endif
