#include "console/lab/player.h"

#include "common/clock.h"
#include "common/macros.h"
#include "console/data/server_info.h"
#include "console/lab/testbed.h"
#include "console/scene/scene.h"
#include "console/ui/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SETTLE_S = 1, WHY_BYTES = 512 };

/* settle_s of the scenarios is for this time of a step. */
#define STEP_NS (LAB_STEP_MS * NS_PER_MS)

struct lab {
    const struct lab_scenario *scenario;
    struct testbed *testbed;
    int step; /* counted from 0 */
    enum lab_phase phase;
    bool begun;   /* the first actions of the step were executed */
    bool pressed; /* key L was pressed in a step that waits for it */
    bool ended;
    uint64_t done_ns, now_ns;
    uint64_t begun_ns;           /* when the step began; wall clock */
    uint64_t base[METRIC_COUNT]; /* when the step began */
    struct lab_window window;
    double before[LAB_MEASURE_COUNT], now[LAB_MEASURE_COUNT];
    char action_error[WHY_BYTES]; /* "": none */
};

struct lab *lab_open(const struct lab_scenario *scenario, uint64_t step_ms, char *why, size_t size)
{
    struct lab *lab = calloc(1, sizeof(*lab));

    if (lab == NULL) {
        snprintf(why, size, "out of memory");
        return NULL;
    }
    lab->scenario = scenario;
    lab->window.span_ns = step_ms * NS_PER_MS;
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

const char *lab_instance(const struct lab *lab, const char **socket)
{
    return testbed_instance(lab->testbed, socket);
}

static const struct lab_step *step_of(const struct lab *lab)
{
    return &lab->scenario->steps[lab->step];
}

static void execute_actions(struct lab *lab, const struct lab_action actions[LAB_ACTIONS],
                            const struct snapshot *now)
{
    pid_t worker = 0; /* the first that is serving */

    for (uint32_t i = 0; i < now->worker_count && worker == 0; i++)
        if (now->workers[i].state == WORKER_SERVING)
            worker = now->workers[i].pid;
    for (size_t i = 0; i < LAB_ACTIONS; i++)
        if (testbed_execute(lab->testbed, &actions[i], worker, lab->action_error,
                            sizeof(lab->action_error)) != 0)
            return;
    lab->action_error[0] = '\0';
}

/* The server published the event TEXT since the step began. */
static bool event_occurred(const struct lab *lab, const struct scene *scene, const char *text)
{
    enum { NEWEST = 16 };
    const struct event_row *rows[NEWEST];
    size_t count =
        event_list_rows(scene->events, true, LEVEL_DEBUG, UINT64_MAX, rows, ARRAY_LENGTH(rows));

    for (size_t i = 0; i < count && rows[i]->last_ns >= lab->begun_ns; i++)
        if (strcmp(rows[i]->text, text) == 0)
            return true;
    return false;
}

static bool condition_holds(const struct lab *lab, const struct lab_condition *condition,
                            const struct scene *scene, const struct view *view)
{
    const struct snapshot *now = model_now(scene->model);
    char value[CONFIG_VALUE_BYTES];

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
        return config_text_value(scene->config, condition->key, value, sizeof(value)) &&
               strcmp(value, condition->text) == 0;
    case LAB_EVENT:
        return event_occurred(lab, scene, condition->text);
    }
    return false;
}

static uint64_t settle_ns(const struct lab *lab)
{
    uint64_t seconds = step_of(lab)->settle_s > 0 ? step_of(lab)->settle_s : SETTLE_S;

    return seconds * NS_PER_S * lab->window.span_ns / STEP_NS;
}

/* Drops the samples taken while the server settles. */
static void take_measures(struct lab *lab, const struct model *model)
{
    if (lab->phase == LAB_MEASURING && lab->now_ns < lab->done_ns + settle_ns(lab))
        lab->window.taken = 0;
    lab_window_take(&lab->window, model, testbed_failed_requests(lab->testbed));
    lab_window_values(&lab->window, lab->now);
    if (lab->phase == LAB_MEASURING && lab_window_full(&lab->window))
        lab->phase = LAB_EXPLAINED;
}

void lab_update(struct lab *lab, const struct scene *scene, const struct view *view, bool ended)
{
    const struct snapshot *now = model_now(scene->model);
    const struct lab_step *step = step_of(lab);

    lab->ended = ended;
    testbed_update(lab->testbed, clock_monotonic_ns());
    if (now == NULL || ended || scene->moment != MOMENT_LIVE)
        return;
    lab->now_ns = now->time_ns;
    if (!lab->begun) {
        execute_actions(lab, step->first, now);
        memcpy(lab->base, now->sums, sizeof(lab->base));
        lab_window_rebase(&lab->window);
        lab->begun_ns = now->wall_ns;
        lab->begun = true;
        lab->pressed = false;
    }
    if (lab->phase == LAB_PENDING && condition_holds(lab, &step->done, scene, view) &&
        (step->also.until == LAB_PRESSED || condition_holds(lab, &step->also, scene, view))) {
        execute_actions(lab, step->then, now);
        for (size_t i = 0; i < LAB_ACTIONS; i++)
            if (step->then[i].act == LAB_KILL)
                lab_window_killed(&lab->window, scene->model);
        lab->phase = LAB_MEASURING;
        lab->done_ns = lab->now_ns;
    }
    take_measures(lab, scene->model);
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
    double left_s = (double)(settle_ns(lab) + lab->window.span_ns) / (double)NS_PER_S - passed_s;

    return (struct lab_state){
        .scenario = lab->scenario,
        .step = step_of(lab),
        .number = lab->step + 1,
        .count = lab_scenario_steps(lab->scenario),
        .phase = lab->phase,
        .left_s = left_s > 0 ? left_s : 0,
        .before = lab->before,
        .now = lab->now,
        .error = lab->action_error[0] != '\0' ? lab->action_error : testbed_error(lab->testbed),
        .ended = lab->ended,
    };
}

/* Panel */

enum {
    BESIDE_FROM = 118, /* width of the body */
    PANEL_WIDTH = 40,
    LEAST_HEIGHT = 4,
    MOST_HEIGHT = 11,
    LINES_MOST = 64,
    LINE_BYTES = 256,
    WIDTH_MOST = 100, /* columns, for readability */
    LABEL_WIDTH = 18,
    NUMBER_WIDTH = 8,
};

struct line {
    enum tone tone;
    char text[LINE_BYTES];
};

struct lines {
    struct line line[LINES_MOST];
    int count, width;
};

void lab_panel_layout(const struct canvas *body, bool whole, struct canvas *view,
                      struct canvas *panel)
{
    int height = body->height / 2 > MOST_HEIGHT ? MOST_HEIGHT : body->height / 2;

    height = height < LEAST_HEIGHT ? LEAST_HEIGHT : height;
    if (whole || body->height <= LEAST_HEIGHT) {
        *view = canvas_part(body, 0, 0, 0, body->width);
        *panel = *body;
    } else if (body->width >= BESIDE_FROM) {
        *view = canvas_part(body, 0, 0, body->height, body->width - PANEL_WIDTH - 1);
        *panel = canvas_part(body, 0, body->width - PANEL_WIDTH, body->height, PANEL_WIDTH);
    } else {
        *view = canvas_part(body, 0, 0, body->height - height, body->width);
        *panel = canvas_part(body, body->height - height, 0, height, body->width);
    }
}

/* Adds TEXT, wrapped at blanks. */
static void add_panel_line(struct lines *lines, enum tone tone, const char *text)
{
    while (*text != '\0' && lines->count < LINES_MOST) {
        struct line *line = &lines->line[lines->count++];
        size_t length = text_piece(text, lines->width);

        line->tone = tone;
        snprintf(line->text, sizeof(line->text), "%.*s", (int)length, text);
        text += length;
        text += strspn(text, " ");
    }
}

/* Adds the measures: the current values, after the previous ones from the second step on. */
static void add_measures(struct lines *lines, const struct lab_state *state)
{
    for (size_t i = 0; i < LAB_SHOWN && state->step->shown[i] != LAB_MEASURE_NONE; i++) {
        enum lab_measure measure = state->step->shown[i];
        char before[TEXT_SHORT], now[TEXT_SHORT], text[LINE_BYTES];

        lab_measure_text(measure, state->before[measure], before);
        lab_measure_text(measure, state->now[measure], now);
        if (state->number == 1)
            snprintf(text, sizeof(text), "%-*s%*s", LABEL_WIDTH, lab_measure_label(measure),
                     NUMBER_WIDTH, now);
        else
            snprintf(text, sizeof(text), "%-*s%*s, now %s", LABEL_WIDTH, lab_measure_label(measure),
                     NUMBER_WIDTH, before, now);
        add_panel_line(lines, state->phase == LAB_EXPLAINED ? TONE_VALUE : TONE_DIM, text);
    }
}

/* Reports numbers that differ from the explanation, as on a machine with other things to do. */
static void add_differences(struct lines *lines, const struct lab_state *state)
{
    char why[LINE_BYTES], text[2 * LINE_BYTES];
    bool all = true;

    for (size_t i = 0; i < LAB_CLAIMS && state->step->claims[i].measure != LAB_MEASURE_NONE; i++) {
        if (lab_claim_holds(&state->step->claims[i], state->before, state->now, why, sizeof(why)))
            continue;
        snprintf(text, sizeof(text), "Different here: %s.", why);
        add_panel_line(lines, TONE_WARN, text);
        all = false;
    }
    if (!all)
        add_panel_line(lines, TONE_WARN, "Is the machine busy? --step-time 10s measures longer.");
}

static void add_step(struct lines *lines, const struct lab_state *state)
{
    char text[LINE_BYTES];

    switch (state->phase) {
    case LAB_PENDING:
        add_panel_line(lines, TONE_VALUE, state->step->todo);
        add_panel_line(lines, TONE_NORMAL, state->step->watch);
        add_measures(lines, state);
        break;
    case LAB_MEASURING:
        snprintf(text, sizeof(text), "Done. Measuring, %.0f s left.", ceil(state->left_s));
        add_panel_line(lines, TONE_NOTE, text);
        add_measures(lines, state);
        add_panel_line(lines, TONE_NORMAL, state->step->watch);
        break;
    case LAB_EXPLAINED:
        add_measures(lines, state);
        add_differences(lines, state);
        add_panel_line(lines, TONE_NORMAL, state->step->why);
        break;
    }
}

static void draw_lab_title(const struct lab_state *state, const struct canvas *panel)
{
    static const char *const words[] = {
        [LAB_PENDING] = "to do", [LAB_MEASURING] = "measuring", [LAB_EXPLAINED] = "done, L: next"};
    bool over = state->phase == LAB_EXPLAINED && state->number == state->count;
    char right[40];
    int end;

    canvas_repeat(panel, 0, 0, panel->width, TONE_BAR, L' ');
    snprintf(right, sizeof(right), "%d of %d: %s", state->number, state->count,
             over ? "done, L: end" : words[state->phase]);
    end = canvas_right(panel, 0, panel->width - 1, TONE_BAR_KEY, right);
    canvas_print(panel, 0, 1, TONE_BAR, "%.*s", end > 3 ? end - 3 : 0,
                 (int)strlen(state->scenario->title) <= end - 3 ? state->scenario->title
                                                                : state->scenario->name);
}

void lab_panel_draw(const struct lab_state *state, const struct canvas *panel,
                    struct scroll *scroll, bool ascii)
{
    static struct lines lines; /* too large for the stack */
    int room = panel->height - 1, top = 0;
    char more[32];

    lines.count = 0;
    lines.width = panel->width - 1 < WIDTH_MOST ? panel->width - 1 : WIDTH_MOST;
    if (state->error != NULL)
        add_panel_line(&lines, TONE_BAD, state->error);
    if (state->ended)
        add_panel_line(&lines, TONE_WARN, "The server has exited. L leaves.");
    else
        add_step(&lines, state);
    draw_lab_title(state, panel);
    if (scroll != NULL) {
        scroll_fit(scroll, lines.count, room);
        top = scroll->top;
    }
    for (int i = 0; i < room && top + i < lines.count; i++)
        canvas_text(panel, 1 + i, 0, lines.line[top + i].tone, lines.line[top + i].text);
    if (lines.count - top > room && room > 0) {
        snprintf(more, sizeof(more), "%s %s", ascii ? "..." : "…",
                 scroll != NULL ? "PgDn" : "l shows all");
        canvas_right(panel, room, panel->width, TONE_BAR_KEY, more);
    }
}
