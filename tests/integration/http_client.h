/*
 * A client made of one socket, for tests that care about every byte: it sends what it is told,
 * however wrong, and reads answers strictly. A malformed answer, or none within the deadline, fails
 * the running test. One thread.
 */
#ifndef TESTS_HTTP_CLIENT_H
#define TESTS_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_client {
    int fd;
    char *bytes; /* read and not yet taken */
    size_t length, room;
};

enum { HTTP_FIELDS_MAX = 32 };

struct http_answer {
    int status;
    char *head; /* as it came, with its empty line */
    char *body; /* without its chunking; a NUL that body_length does not count stands behind it */
    size_t body_length;
    char *copy; /* of the head, cut into the fields below */
    size_t field_count;
    const char *name[HTTP_FIELDS_MAX], *value[HTTP_FIELDS_MAX];
};

enum http_body { HTTP_WITH_BODY, HTTP_HEAD_ONLY /* the answer to a HEAD */ };

void http_open(struct http_client *client, uint16_t port);
void http_close(struct http_client *client);

void http_say(struct http_client *client, const char *text);
void http_say_bytes(struct http_client *client, const void *bytes, size_t length);

/* Reads one answer; the caller frees it. */
void http_take(struct http_client *client, enum http_body body, struct http_answer *answer);
void http_answer_free(struct http_answer *answer);

/* The value of the field NAME (any case), or NULL. Two of one name fail the test. */
const char *http_field(const struct http_answer *answer, const char *name);

/* Waits until the server has closed the connection. Bytes before that fail the test. */
void http_expect_closed(struct http_client *client);

/* Waits for the end of the connection in any form; what comes before is in client->bytes. */
void http_gather(struct http_client *client);

/* One request on a connection of its own, which is closed after the answer. */
void http_ask(uint16_t port, const char *request, struct http_answer *answer);

/* The same for a GET in HTTP/1.1 that has to be answered with STATUS. */
void http_get(uint16_t port, const char *target, int status, struct http_answer *answer);

/* The same where only the status is of interest. */
void http_expect(uint16_t port, const char *target, int status);

#endif
