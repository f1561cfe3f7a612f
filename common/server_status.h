/*
 * The status of a server, as the command "status" and /status.json report it: read from the segment
 * alone, so that every process that maps it gives the same answer. What the server does not publish
 * is null or left out.
 */
#ifndef COMMON_SERVER_STATUS_H
#define COMMON_SERVER_STATUS_H

#include "common/segment_reader.h"

#include <jansson.h>

/* The caller releases it. NULL: out of memory. */
json_t *server_status(const struct segment *segment);

/* The same of a server of any version, or of another program. */
json_t *server_status_read(const struct segment_reader *reader);

/* Concurrency model of the workers, as the master last published it: "events". */
const char *server_model(const struct segment *segment);

/* Number of workers, and of those that serve, as the master last published it. */
uint32_t server_workers(const struct segment *segment);
uint32_t server_workers_serving(const struct segment *segment);

/* The hosts that the command maintenance names; "*" alone: all. The caller releases it. */
json_t *server_hosts_in_maintenance(const struct segment *segment);

#endif
