#include "console/lab/player.h"

#include "common/clock.h"
#include "console/data/config_text.h"
#include "console/lab/testbed.h"
#include "console/scene/view.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SETTLE_S = 1, WHY_BYTES = 512 };

struct lab {
    const struct lab_scenario *scenario;
    struct testbed *testbed;
    int step; /* from 0 */
    enum lab_phase phase;
    bool begun;   /* the first actions of the step were executed */
    bool pressed; /* key L, if the step waits for it */
    bool ended;
    uint64_t done_ns, now_ns;
    uint64_t base[METRIC_COUNT]; /* when the step began */
    struct lab_window window;
    double before[LAB_MEASURE_COUNT], now[LAB_MEASURE_COUNT];
    char error[WHY_BYTES]; /* of an action; "": none */
};

struct lab *lab_open(const struct lab_scenario *scenario, char *why, size_t size)
{
    struct lab *lab = calloc(1, sizeof(*lab));

    if (lab == NULL) {
        snprintf(why, size, "out of memory");
        return NULL;
    }
    lab->scenario = scenario;
    for (int i = 0; i < LAB_MEASURE_COUNT; i++)
        lab->before[i] = lab->now[i] = NAN;
    lab->testbed = testbed_open(scenario, why, size);
    if (lab->testbed != NULL)
        return lab;
    free(lab);
    return NULL;
}

void lab_close(struct lab *lab)
{
    if (lab == NULL)
        return;
    testbed_close(lab->testbed);
    free(lab);
}

const char *lab_instance(const struct lab *lab)
{
    return testbed_name(lab->testbed);
}

const char *lab_socket(const struct lab *lab)
{
    return testbed_socket(lab->testbed);
}

static const struct lab_step *step_of(const struct lab *lab)
{
    return &lab->scenario->steps[lab->step];
}

/* The first worker that is serving, or 0. */
static pid_t serving_worker(const struct snapshot *now)
{
    for (uint32_t i = 0; i < now->worker_count; i++)
        if (now->workers[i].pid > 0 && now->workers[i].state == WORKER_SERVING)
            return now->workers[i].pid;
    return 0;
}

static void act(struct lab *lab, const struct lab_action actions[LAB_ACTIONS],
                const struct snapshot *now)
{
    for (size_t i = 0; i < LAB_ACTIONS; i++)
        if (testbed_act(lab->testbed, &actions[i], serving_worker(now), lab->error,
                        sizeof(lab->error)) != 0)
            return;
    lab->error[0] = '\0';
}

static bool key_has(const struct scene *scene, const struct lab_condition *condition)
{
    char value[CONFIG_VALUE_BYTES];

    return config_text_value(scene->config, condition->key, value, sizeof(value)) &&
           strcmp(value, condition->text) == 0;
}

static bool holds(const struct lab *lab, const struct lab_condition *condition,
                  const struct scene *scene, const struct view *view)
{
    const struct snapshot *now = model_now(scene->model);

    switch (condition->until) {
    case LAB_PRESSED:
        return lab->pressed;
    case LAB_VIEW:
        return strcmp(view->name, condition->text) == 0;
    case LAB_THREADS:
        return now->threads_wanted >= condition->least;
    case LAB_OFFLOAD:
        return now->offload_max >= condition->least;
    case LAB_VALUE:
        return now->sums[condition->metric] >= condition->least;
    case LAB_INCREASED:
        return now->sums[condition->metric] >= lab->base[condition->metric] + condition->least;
    case LAB_KEY:
        return key_has(scene, condition);
    }
    return false;
}

static bool is_done(const struct lab *lab, const struct scene *scene, const struct view *view)
{
    const struct lab_step *step = step_of(lab);

    return holds(lab, &step->done, scene, view) &&
           (step->also.until == LAB_PRESSED || holds(lab, &step->also, scene, view));
}

static void begin_step(struct lab *lab, const struct snapshot *now)
{
    act(lab, step_of(lab)->first, now);
    memcpy(lab->base, now->sums, sizeof(lab->base));
    lab_window_rebase(&lab->window);
    lab->begun = true;
    lab->pressed = false;
}

static unsigned settle_s(const struct lab *lab)
{
    return step_of(lab)->settle_s > 0 ? step_of(lab)->settle_s : SETTLE_S;
}

/* Samples taken while the server settles do not count. */
static void measure(struct lab *lab, const struct model *model)
{
    if (lab->phase == LAB_MEASURING && lab->now_ns < lab->done_ns + settle_s(lab) * NS_PER_S)
        lab_window_restart(&lab->window);
    lab_window_take(&lab->window, model, testbed_failed_requests(lab->testbed));
    lab_window_values(&lab->window, lab->now);
    if (lab->phase == LAB_MEASURING && lab_window_full(&lab->window))
        lab->phase = LAB_EXPLAINED;
}

void lab_update(struct lab *lab, const struct scene *scene, const struct view *view, bool ended)
{
    const struct snapshot *now = model_now(scene->model);

    lab->ended = ended;
    testbed_update(lab->testbed, clock_monotonic_ns());
    if (now == NULL || ended || scene->moment != MOMENT_LIVE)
        return;
    lab->now_ns = now->time_ns;
    if (!lab->begun)
        begin_step(lab, now);
    if (lab->phase == LAB_PENDING && is_done(lab, scene, view)) {
        act(lab, step_of(lab)->then, now);
        lab->phase = LAB_MEASURING;
        lab->done_ns = lab->now_ns;
    }
    measure(lab, scene->model);
}

bool lab_continue(struct lab *lab)
{
    if (lab->ended)
        return false;
    if (lab->phase == LAB_PENDING)
        lab->pressed = true;
    if (lab->phase != LAB_EXPLAINED)
        return true;
    if (lab->step + 1 == lab_scenario_steps(lab->scenario))
        return false;
    memcpy(lab->before, lab->now, sizeof(lab->before));
    lab->step++;
    lab->phase = LAB_PENDING;
    lab->begun = false;
    return true;
}

struct lab_state lab_state(const struct lab *lab)
{
    double passed_s = (double)(lab->now_ns - lab->done_ns) / (double)NS_PER_S;
    double left_s = (double)(settle_s(lab) + LAB_WINDOW_S) - passed_s;

    return (struct lab_state){
        .scenario = lab->scenario,
        .step = step_of(lab),
        .number = lab->step + 1,
        .count = lab_scenario_steps(lab->scenario),
        .phase = lab->phase,
        .left_s = left_s > 0 ? left_s : 0,
        .before = lab->before,
        .now = lab->now,
        .error = lab->error[0] != '\0' ? lab->error : testbed_error(lab->testbed),
        .ended = lab->ended,
    };
}
