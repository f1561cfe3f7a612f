#include "loadgen/run/server_check.h"

#include "common/clock.h"
#include "common/segment_reader.h"

#include "loadgen/base/resources.h"
#include "loadgen/run/server_find.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { PATIENCE_MS = 1000, STEP_MS = 10 };

struct server_check {
    struct segment_reader reader;
    uint64_t before;
    uint64_t begun_ns, cpu_ns; /* when, and what its processes had used by then */
};

/* Processor time of its processes so far. One that ends takes its part along. */
static uint64_t cpu_of(const struct server_check *check)
{
    const struct segment *map = &check->reader.map;
    uint64_t ns = resources_process_cpu_ns(map->header->master_pid) +
                  resources_process_cpu_ns(atomic_load(&segment_logger(map)->pid));

    for (uint32_t i = 0; i < segment_count(map, SEGMENT_WORKERS); i++)
        if (segment_slot_reserved(segment_worker_slot(map, i)))
            ns += resources_process_cpu_ns(atomic_load(&segment_worker(map, i)->pid));
    return ns;
}

static double cores_of(const struct server_check *check)
{
    uint64_t cpu_ns = cpu_of(check), now_ns = clock_monotonic_ns();

    if (cpu_ns <= check->cpu_ns || now_ns <= check->begun_ns)
        return NAN;
    return (double)(cpu_ns - check->cpu_ns) / (double)(now_ns - check->begun_ns);
}

struct server_check *server_check_begin(const struct request_plan *request_plan)
{
    struct server_check *check = calloc(1, sizeof(*check));

    if (check == NULL || !server_find(request_plan, &check->reader)) {
        free(check);
        return NULL;
    }
    check->before = segment_reader_sum(&check->reader, METRIC_requests);
    check->cpu_ns = cpu_of(check);
    check->begun_ns = clock_monotonic_ns();
    return check;
}

void server_check_end(struct server_check *check, uint64_t answered,
                      struct server_check_result *result)
{
    const struct timespec step = {0, STEP_MS * (long)NS_PER_MS};

    *result =
        (struct server_check_result){.outcome = SERVER_CHECK_NONE, .sent = answered, .cores = NAN};
    if (check == NULL)
        return;
    result->cores = cores_of(check);
    for (int waited = 0; waited <= PATIENCE_MS; waited += STEP_MS) {
        result->counted = segment_reader_sum(&check->reader, METRIC_requests) - check->before;
        if (result->counted >= answered)
            break;
        nanosleep(&step, NULL);
    }
    result->outcome = result->counted == answered ? SERVER_CHECK_SAME : SERVER_CHECK_DIFFERS;
    snprintf(result->name, sizeof(result->name), "%s", check->reader.map.header->name);
    segment_detach(&check->reader);
    free(check);
}
