#include "loadgen/plan/plan.h"

#include "common/units.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

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

bool plan_parse_statuses(struct plan_checks *checks, const char *list)
{
    char text[256], *rest = NULL;
    bool good = strlen(list) < sizeof(text);

    snprintf(text, sizeof(text), "%s", list);
    for (char *word = strtok_r(text, ",", &rest); word && good; word = strtok_r(NULL, ",", &rest)) {
        uint64_t status;

        good = checks->status_count < PLAN_STATUSES_MAX && units_parse_number(word, &status) == 0 &&
               status >= 100 && status <= 999;
        if (good)
            checks->statuses[checks->status_count++] = (uint16_t)status;
    }
    return good && checks->status_count > 0;
}

bool plan_parse_think(const char *think, uint64_t *min_ms, uint64_t *max_ms)
{
    char text[64], *dash;

    snprintf(text, sizeof(text), "%s", think);
    dash = strchr(text, '-');
    if (dash != NULL)
        *dash = '\0';
    return units_parse_time_ms(text, min_ms) == 0 &&
           units_parse_time_ms(dash != NULL ? dash + 1 : text, max_ms) == 0 && *min_ms <= *max_ms &&
           *max_ms <= PLAN_TIME_MAX_MS;
}
