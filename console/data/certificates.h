/* The certificates that a server uses. The console's only thread. */
#ifndef CONSOLE_CERTIFICATES_H
#define CONSOLE_CERTIFICATES_H

#include "common/segment_reader.h"

#include <stddef.h>

struct certificate_list {
    struct certificate_copy row[SEGMENT_CERTIFICATES_MAX]; /* texts without control characters */
    size_t count;
};

/* Reads them; none if the server is older than its certificates in shared memory. */
void certificate_list_take(struct certificate_list *list, const struct segment_reader *reader);

#endif
