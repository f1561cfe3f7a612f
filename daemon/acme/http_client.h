/*
 * HTTPS requests to the authority, one after the other. libcurl is loaded when the client is made, so
 * that no other process of the server has it in its memory. The ACME process.
 */
#ifndef DAEMON_ACME_HTTP_CLIENT_H
#define DAEMON_ACME_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HTTP_BODY_MAX = 512 * 1024, HTTP_FIELD_MAX = 1024 };

struct http_client;

struct http_response {
    long status;
    char *body; /* ends with a NUL; never NULL */
    size_t length;
    char nonce[HTTP_FIELD_MAX]; /* fields; "": none, or too long */
    char location[HTTP_FIELD_MAX];
    uint32_t retry_after_s; /* 0: none */
};

/*
 * CA: certificates in PEM format that verify the authority; "": those of the system. PULSE(CONTEXT) is
 * called at least once a second during a request; if it returns false, the request ends. Before the
 * sandbox is entered. NULL with WHY.
 */
struct http_client *http_client_new(const char *ca, bool (*pulse)(void *context), void *context,
                                    char *why, size_t size);
void http_client_free(struct http_client *client);

/*
 * Sends METHOD to URL, with BODY (application/jose+json) unless it is NULL. Redirects are not
 * followed. Returns 0 with RESPONSE, whatever its status; the caller calls http_response_free(). -1
 * with WHY: no complete response came.
 */
int http_client_send(struct http_client *client, const char *method, const char *url,
                     const char *body, struct http_response *response, char *why, size_t size);
void http_response_free(struct http_response *response);

/* Seconds of a Retry-After field, which has LENGTH bytes; NOW_S is the wall clock. 0: not valid. Pure. */
uint32_t http_retry_after(const char *text, size_t length, int64_t now_s);

#endif
