#include "loadgen/run/trial.h"

#include "loadgen/base/resources.h"
#include "loadgen/plan/work.h"

/* A host that nobody knows is a run in which nothing was answered, not a wrong use. */
enum trial_outcome trial(const struct plan *plan, const struct run_observer *observer,
                         struct result *result, char *why, size_t size)
{
    enum trial_outcome outcome = TRIAL_WRONG;
    struct request_plan request_plan;

    if (request_plan_prepare(&request_plan, plan, why, size) == 0 &&
        resources_reserve_descriptors(plan->connections, plan->threads, why, size) == 0) {
        if (request_plan_resolve(&request_plan, why, size) != 0)
            outcome = TRIAL_UNKNOWN_HOST;
        else if (run_plan(plan, &request_plan, observer, result, why, size) == 0)
            outcome = TRIAL_DONE;
    }
    request_plan_free(&request_plan);
    return outcome;
}

enum result_status trial_status(enum trial_outcome outcome, const struct result *result)
{
    switch (outcome) {
    case TRIAL_DONE:
        return result_status(result);
    case TRIAL_UNKNOWN_HOST:
        return RESULT_NOTHING;
    case TRIAL_WRONG:
        break;
    }
    return RESULT_WRONG_USE;
}
