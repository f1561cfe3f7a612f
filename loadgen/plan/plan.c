#include "loadgen/plan/plan.h"

#include <netinet/in.h>

enum { DEFAULT_CONNECTIONS = 50 };

void plan_begin(struct plan *plan, uint32_t cores)
{
    *plan = (struct plan){
        .replay_speed = 1,
        .streams = 1,
        .keepalive = true,
        .resume = true,
        .family = AF_UNSPEC,
        .connections_requested = DEFAULT_CONNECTIONS,
        .threads_requested = cores,
        .timeout_ms = 30000,
        .connect_timeout_ms = 5000,
        .grace_ms = 1000,
        .control_fd = -1,
        .frames_per_second = 10,
        .format = PLAN_FORMAT_COUNT,
    };
}

void plan_set_connections(struct plan *plan, uint32_t connections)
{
    plan->connections_requested = connections;
    plan->connections = connections;
    if (plan->requests != 0 && plan->requests < connections && !plan_is_open(plan))
        plan->connections = (uint32_t)plan->requests;
    plan->threads =
        plan->threads_requested < plan->connections ? plan->threads_requested : plan->connections;
}

bool plan_accepts_status(const struct plan_checks *checks, uint32_t status)
{
    for (size_t i = 0; i < checks->status_count; i++)
        if (checks->statuses[i] == status)
            return true;
    return checks->status_count == 0 && status >= 200 && status <= 399;
}
