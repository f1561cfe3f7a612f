/*
 * What dead workers were doing: what each thread worked on, and its last requests, copied from
 * shared memory before the slot gets its next tenant. The master.
 */
#ifndef DAEMON_POST_MORTEM_H
#define DAEMON_POST_MORTEM_H

#include "common/segment.h"

#include <jansson.h>

enum {
    POST_MORTEM_DEATHS = 8,   /* the last so many are kept */
    POST_MORTEM_REQUESTS = 10 /* of each thread */
};

struct post_mortem {
    json_t *deaths; /* the newest first */
};

/* The worker in SLOT, which has had PID, has died: HOW in words. Its blocks are as it left them. */
void post_mortem_take(struct post_mortem *post_mortem, const struct segment *segment, uint32_t slot,
                      int pid, const char *how);

/* The newest COUNT of them, as a list that the caller owns: no more than fit an answer. */
json_t *post_mortem_list(const struct post_mortem *post_mortem, size_t count);

void post_mortem_free(struct post_mortem *post_mortem);

#endif
