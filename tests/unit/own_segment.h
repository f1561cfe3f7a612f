/* A segment that only the test uses. */
#ifndef TESTS_OWN_SEGMENT_H
#define TESTS_OWN_SEGMENT_H

#include "common/clock.h"
#include "common/segment_writer.h"

#include <stdio.h>
#include <unistd.h>

/*
 * Creates a segment for PLAN, whose name only this process has. The test destroys it. Members of
 * PLAN that are 0 become small values. Returns 0, or -1 after printing the reason.
 */
static inline int own_segment_create(struct segment *segment, struct segment_plan plan)
{
    char name[INSTANCE_NAME_MAX + 1], why[256];

    /* A test that was killed leaves its segment, and its pid may be reused. */
    snprintf(name, sizeof(name), "unit-%d-%llx", (int)getpid(),
             (unsigned long long)clock_wall_ns());
    plan.name = name;
    plan.socket_path = plan.listening = "";
    plan.max_workers = plan.max_workers > 0 ? plan.max_workers : 1;
    plan.max_threads = plan.max_threads > 0 ? plan.max_threads : 1;
    plan.cache_entries = plan.cache_entries > 0 ? plan.cache_entries : 1;
    plan.ring_bytes = plan.ring_bytes > 0 ? plan.ring_bytes : 4096;
    if (segment_create(segment, &plan, why, sizeof(why)) == 0)
        return 0;
    fprintf(stderr, "%s\n", why);
    return -1;
}

#endif
