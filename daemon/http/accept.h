/*
 * Proactive negotiation: lists of members with weights (RFC 9110 sections 5.6.1 and 12.4.2), and
 * Accept (section 12.5.1). Pure.
 */
#ifndef DAEMON_ACCEPT_H
#define DAEMON_ACCEPT_H

#include "common/span.h"
#include "daemon/http/request.h"

/* Removes the text before the first SEPARATOR from *TEXT; returns it without surrounding blanks. */
struct span qvalue_cut(struct span *text, char separator);

/* Parses a weight, in thousandths: "0.123" is 123, "1" is 1000; -1: malformed. */
int qvalue_read(struct span text);

/*
 * The weight of the media type TYPE/SUBTYPE, 0 to 1000: that of the most specific range that
 * matches. Without Accept it is 1000. Parameters of a range other than q are ignored.
 */
int accept_weight(const struct request *request, struct span type, struct span subtype);

/* True if JSON is preferred to text/SUBTYPE (html, plain), which is the default. */
static inline bool accept_prefers_json(const struct request *request, struct span subtype)
{
    return accept_weight(request, SPAN("application"), SPAN("json")) >
           accept_weight(request, SPAN("text"), subtype);
}

#endif
