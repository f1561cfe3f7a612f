/*
 * The header fields of a request and its HTTP/1 message. Both engines send the same bytes: libcurl
 * gets the list of fields, the raw engine the complete message. Main thread unless noted otherwise.
 */
#ifndef LOADGEN_MESSAGE_H
#define LOADGEN_MESSAGE_H

#include "loadgen/plan/request_plan.h"

#define USER_AGENT "wsload/" WEBSERVERD_VERSION

/* The characters of a token, such as a method or a field name (RFC 9110 section 5.6.2). */
#define MESSAGE_TOKEN_CHARACTERS                                                                   \
    "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

bool message_is_token(const char *text);

/* Whether TEXT can be the value of a field: no control characters but tabs. */
bool message_is_value(const char *text);

/* Whether FIELD, "Name: value", is a field Connection with the option "close". */
bool message_closes(const char *field);

/*
 * Makes the header fields and the message of each request from its own parts and the plan. A field
 * of the plan replaces a request's own field of that name. Returns false if out of memory.
 */
bool message_make_all(struct request_plan *request_plan);

/* The same for one request that is not part of the request plan. Any thread. */
bool message_make(const struct plan *plan, struct request *request);

#endif
