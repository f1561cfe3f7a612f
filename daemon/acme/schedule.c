#include "daemon/acme/schedule.h"

/* The part of VALUE, from none to all, that RANDOM selects. */
static int64_t part(int64_t value, uint32_t random)
{
    return (int64_t)((double)value * ((double)random / UINT32_MAX));
}

int64_t schedule_renewal(int64_t not_before_s, int64_t not_after_s, uint32_t random)
{
    int64_t life = not_after_s - not_before_s;

    return not_before_s + life * 2 / 3 - part(life / 20, random);
}

int64_t schedule_window(int64_t start_s, int64_t end_s, uint32_t random)
{
    return start_s + part(end_s - start_s, random);
}

int64_t schedule_retry(uint32_t failures, uint32_t retry_s, uint32_t after_s, uint32_t random)
{
    int64_t delay = retry_s;

    for (uint32_t i = 1; i < failures && delay < SCHEDULE_RETRY_MAX_S; i++)
        delay *= 2;
    if (delay > SCHEDULE_RETRY_MAX_S)
        delay = SCHEDULE_RETRY_MAX_S;
    delay += part(delay / 10, random);
    return delay > after_s ? delay : after_s;
}

int64_t schedule_planned(int64_t planned_s, int64_t now_s)
{
    return planned_s > now_s + SCHEDULE_WAIT_MAX_S ? now_s : planned_s;
}
