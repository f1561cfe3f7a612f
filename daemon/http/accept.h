/* Which media type a client prefers: proactive negotiation by Accept, RFC 9110 section 12.5.1. Pure. */
#ifndef DAEMON_ACCEPT_H
#define DAEMON_ACCEPT_H

#include "daemon/http/request.h"

/*
 * The weight of the media type TYPE/SUBTYPE, 0 to 1000: that of the most specific range which has
 * it. Without Accept all types have 1000; parameters of a range but its weight are passed over.
 */
int accept_weight(const struct request *request, struct span type, struct span subtype);

/* True when JSON is preferred to text of the kind SUBTYPE (text/html, text/plain), our own choice. */
static inline bool accept_prefers_json(const struct request *request, struct span subtype)
{
    return accept_weight(request, SPAN("application"), SPAN("json")) >
           accept_weight(request, SPAN("text"), subtype);
}

#endif
