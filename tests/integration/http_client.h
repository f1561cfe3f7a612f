/*
 * An HTTP client on one socket that sends exactly the given bytes, valid or not, and parses answers
 * strictly. A malformed answer, or none before the deadline, fails the running test. Single-
 * threaded.
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

struct http_answer {
    int status;
    char *head; /* as received, including the empty line */
    char *body; /* without chunk framing; NUL-terminated, not counted in body_length */
    size_t body_length;
    char *copy; /* copy of the head that the fields below point into */
    size_t field_count;
    const char *name[HTTP_FIELDS_MAX], *value[HTTP_FIELDS_MAX];
};

enum http_body { HTTP_WITH_BODY, HTTP_HEAD_ONLY /* the answer to a HEAD */ };

void http_open(struct http_client *client, uint16_t port);
void http_close(struct http_client *client);

void http_say(struct http_client *client, const char *text);
void http_say_bytes(struct http_client *client, const void *bytes, size_t length);

/* Reads one answer. The caller must free it. */
void http_take(struct http_client *client, enum http_body body, struct http_answer *answer);
void http_answer_free(struct http_answer *answer);

/* Returns the value of field NAME (case-insensitive), or NULL. A repeated field fails the test. */
const char *http_field(const struct http_answer *answer, const char *name);

/* Waits until the server closes the connection. Bytes before that fail the test. */
void http_expect_closed(struct http_client *client);

/* Waits for a close or reset. Bytes received before it are in client->bytes. */
void http_gather(struct http_client *client);

/* Sends one request on a new connection and closes it after the answer. */
void http_ask(uint16_t port, const char *request, struct http_answer *answer);

/* The same for a GET; the answer must have STATUS. */
void http_get(uint16_t port, const char *target, int status, struct http_answer *answer);

/* The same, for tests that need only the status. */
void http_expect(uint16_t port, const char *target, int status);

#endif
