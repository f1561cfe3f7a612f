/* The header fields of requests in the form of HTTP/2. Thread that owns them. */
#ifndef LOADGEN_HTTP2_FIELDS_H
#define LOADGEN_HTTP2_FIELDS_H

#include "loadgen/plan/request_plan.h"

#include <nghttp2/nghttp2.h>

/* All zero: not made yet. */
struct http2_fields {
    nghttp2_nv *field; /* pseudo-header fields first */
    size_t count;
    char *text; /* the fields point into it */
};

/*
 * Makes the fields of REQUEST from its HTTP/1 message: names in lower case, without those that are
 * specific to a connection (RFC 9113 section 8.2.2). Returns false if out of memory.
 */
bool http2_fields_make(struct http2_fields *fields, const struct request *request);

/*
 * Submits a request with FIELDS, a field Cookie unless COOKIES is NULL, and BODY, which may be
 * NULL. Returns the number of the stream, or an error of nghttp2.
 */
int32_t http2_fields_submit(const struct http2_fields *fields, const char *cookies,
                            nghttp2_session *session, const nghttp2_data_provider *body,
                            void *stream);

void http2_fields_free(struct http2_fields *fields);

#endif
