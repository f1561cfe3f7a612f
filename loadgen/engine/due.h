/*
 * Which request of an open loop is due next, and when: by a rate (arrivals.h), or by the times of a
 * log that is replayed. One thread.
 */
#ifndef LOADGEN_DUE_H
#define LOADGEN_DUE_H

#include "loadgen/plan/arrivals.h"
#include "loadgen/plan/work.h"

struct due {
    struct work *work;
    uint64_t origin_ns;             /* the run's begin, monotonic */
    struct arrivals arrivals;       /* of a rate; set up by the owner */
    const struct work_entry *entry; /* of a replay: the next one, NULL when there is none */
    bool replay;
};

void due_begin(struct due *due, struct work *work, uint64_t origin_ns);

/* When, monotonic ns; UINT64_MAX: no request is due any more. */
uint64_t due_next_ns(const struct due *due);

/* Which; the one behind it becomes the next. Only while one is due. */
const struct request *due_take(struct due *due, uint64_t *random);

#endif
