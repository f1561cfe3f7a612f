#include "loadgen/run/trial.h"

#include "loadgen/base/descriptors.h"
#include "loadgen/plan/work.h"

/* A host that nobody knows is a run in which nothing was answered, not a wrong use. */
enum trial_outcome trial(const struct plan *plan, const struct run_observer *observer,
                         struct result *result, char *why, size_t size)
{
    enum trial_outcome outcome = TRIAL_WRONG;
    struct work work;

    if (work_prepare(&work, plan, why, size) == 0 &&
        descriptors_reserve(plan->connections, plan->threads, why, size) == 0) {
        if (work_resolve(&work, why, size) != 0)
            outcome = TRIAL_UNKNOWN_HOST;
        else if (run_plan(plan, &work, observer, result, why, size) == 0)
            outcome = TRIAL_DONE;
    }
    work_free(&work);
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
