#include "loadgen/run/trials.h"

#include "common/clock.h"
#include "common/units.h"

#include "loadgen/base/interrupts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { LABEL = 96 };

struct course {
    struct trials *trials;
    const struct trials_setup *setup;
    size_t done; /* trials, of all points */
    uint64_t begun_ns;
    struct result *result;
    enum trial_outcome outcome;
    char *why;
    size_t size;
};

/* "7/50, 100 connections, 1m 05s left" */
static void write_label(const struct course *course, size_t point, char *label, size_t size)
{
    const struct trials_setup *setup = course->setup;
    size_t all = setup->point_count * setup->rounds;
    uint64_t spent_ns = clock_monotonic_ns() - course->begun_ns;
    const char *name = setup->points[point].name;
    char left[UNITS_TEXT] = "";

    if (course->done > 0)
        units_format_age(left, sizeof(left), spent_ns / course->done * (all - course->done));
    snprintf(label, size, "%zu/%zu%s%s%s%s%s", course->done + 1, all, name != NULL ? ", " : "",
             name != NULL ? name : "", left[0] != '\0' ? ", " : "", left,
             left[0] != '\0' ? " left" : "");
}

static enum trials_end take_result(struct course *course, size_t point)
{
    const struct result *result = course->result;
    struct measures measures;

    if (course->setup->after != NULL)
        course->setup->after(course->setup->context, point, result);
    if (result->interrupted)
        return TRIALS_INTERRUPTED;
    if (result->aborted_by != NULL)
        return TRIALS_ABORTED;
    result_measure(result, &measures);
    trials_add(course->trials, point, &measures);
    return TRIALS_COMPLETE;
}

static enum trials_end run_one(struct course *course, size_t point)
{
    const struct trials_setup *setup = course->setup;
    struct plan plan = *setup->points[point].plan;
    char label[LABEL];
    enum trials_end end;

    if (interrupts_take() > 0)
        return TRIALS_INTERRUPTED;
    if (setup->before != NULL &&
        setup->before(setup->context, point, course->why, course->size) != 0) {
        course->outcome = TRIAL_WRONG;
        return TRIALS_FAILED;
    }
    write_label(course, point, label, sizeof(label));
    plan.label = label;
    course->outcome = trial(&plan, setup->observer, course->result, course->why, course->size);
    if (course->outcome != TRIAL_DONE)
        return TRIALS_FAILED;
    course->result->plan = setup->points[point].plan;
    course->done++;
    end = take_result(course, point);
    result_free(course->result);
    return end;
}

static enum trials_end run_rounds(struct course *course)
{
    size_t count = course->setup->point_count;

    for (uint32_t round = 0; round < course->setup->rounds; round++)
        for (size_t i = 0; i < count; i++) {
            enum trials_end end = run_one(course, round % 2 == 0 ? i : count - 1 - i);

            if (end != TRIALS_COMPLETE)
                return end;
        }
    return TRIALS_COMPLETE;
}

enum trials_end trials_run(struct trials *trials, const struct trials_setup *setup,
                           enum trial_outcome *outcome, char *why, size_t size)
{
    struct course course = {.trials = trials,
                            .setup = setup,
                            .begun_ns = clock_monotonic_ns(),
                            .result = malloc(sizeof(*course.result)),
                            .outcome = TRIAL_WRONG,
                            .why = why,
                            .size = size};
    enum trials_end end = TRIALS_FAILED;

    if (course.result == NULL || interrupts_begin() != 0) {
        snprintf(why, size, "out of memory or descriptors");
    } else {
        end = run_rounds(&course);
        interrupts_end();
    }
    free(course.result);
    *outcome = course.outcome;
    return end;
}
