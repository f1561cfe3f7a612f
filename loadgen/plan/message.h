/*
 * The header fields of a request and its HTTP/1 message. Both engines send the same bytes: libcurl gets the list
 * of fields, the raw engine the complete message. Main thread.
 */
#ifndef LOADGEN_MESSAGE_H
#define LOADGEN_MESSAGE_H

#include "loadgen/plan/request_plan.h"

#define USER_AGENT "wsload/" WEBSERVERD_VERSION

/*
 * Makes the header fields and the message of each request from its own parts and the plan. A field of the plan
 * replaces a request's own field of that name. Returns false if out of memory.
 */
bool message_make_all(struct request_plan *request_plan);

#endif
