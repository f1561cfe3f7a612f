/* One request to a server at its own address: shows that a worker answers, not only the master. */
#ifndef CONSOLE_CHECK_H
#define CONSOLE_CHECK_H

#include "common/segment_reader.h"

#include <stddef.h>
#include <stdint.h>

struct check {
    char address[256];
    int status; /* of the response; also an error is an answer */
    uint64_t ns;
};

/*
 * Sends "OPTIONS *" to the first listen address without TLS. Returns 0; or -1 with WHY if nothing
 * that is HTTP answers within TIMEOUT_MS.
 */
int check_request(struct check *check, const struct segment_reader *reader, int timeout_ms,
                  char *why, size_t size);

#endif
