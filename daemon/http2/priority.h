/* Priorities of RFC 9218: the Priority field and the PRIORITY_UPDATE frame. Pure. */
#ifndef DAEMON_HTTP2_PRIORITY_H
#define DAEMON_HTTP2_PRIORITY_H

#include "common/span.h"

#include <stdint.h>

enum { URGENCY_DEFAULT = 3, URGENCY_COUNT = 8 };

struct http2_priority {
    uint8_t urgency; /* 0: the most urgent */
    bool incremental;
};

/*
 * Parses a dictionary (RFC 8941 section 3.2), "u=1, i". Members that are unknown or have a value of
 * another type or out of range are ignored, and so is all of a field that is not a dictionary.
 */
struct http2_priority http2_priority_read(struct span field);

#endif
