/*
 * Post-mortem of dead workers: state, current work and last requests of each thread, copied from
 * the segment before the slot is reused. The master.
 */
#ifndef DAEMON_POST_MORTEM_H
#define DAEMON_POST_MORTEM_H

#include "common/segment.h"

#include <jansson.h>

enum {
    POST_MORTEM_DEATHS = 8,   /* number of deaths kept */
    POST_MORTEM_REQUESTS = 10 /* per thread */
};

struct post_mortem {
    json_t *deaths; /* newest first; NULL: none */
};

/* Records the death of the worker with PID in SLOT, which is not cleared yet; HOW describes it. */
void post_mortem_record(struct post_mortem *post_mortem, const struct segment *segment,
                        uint32_t slot, int pid, const char *how);

/* Returns the newest COUNT deaths, or as many of them as fit a reply. The caller owns the list. */
json_t *post_mortem_list(const struct post_mortem *post_mortem, size_t count);

void post_mortem_free(struct post_mortem *post_mortem);

#endif
