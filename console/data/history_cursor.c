#include "console/data/history_cursor.h"

#include "common/clock.h"

#include <stdlib.h>
#include <string.h>

struct past {
    struct snapshot snapshot;
    uint32_t room; /* of its threads */
    struct model *model;
};

struct past *past_create(void)
{
    struct past *past = calloc(1, sizeof(*past));

    if (past == NULL)
        return NULL;
    past->model = model_create();
    if (past->model == NULL) {
        free(past);
        return NULL;
    }
    return past;
}

void past_destroy(struct past *past)
{
    if (past == NULL)
        return;
    model_destroy(past->model);
    snapshot_release(&past->snapshot);
    free(past);
}

static uint32_t state_of_letter(const struct server *server, char letter)
{
    for (uint32_t state = 0; state < server->state_count; state++)
        if (server->states[state].letter == letter)
            return state;
    return THREAD_STATE_NONE;
}

static const struct thread_sample *tenant_of(const struct snapshot *present, uint32_t slot)
{
    for (uint32_t i = 0; i < present->thread_count; i++)
        if (present->threads[i].slot == slot)
            return &present->threads[i];
    return NULL;
}

static void add_thread(struct snapshot *then, const struct snapshot *present, uint32_t slot,
                       char letter)
{
    const struct thread_sample *tenant = tenant_of(present, slot);
    struct thread_sample *thread = &then->threads[then->thread_count++];

    *thread = (struct thread_sample){.slot = slot, .worker = SEGMENT_NO_WORKER};
    if (tenant != NULL) {
        thread->worker = tenant->worker;
        thread->thread = tenant->thread;
    }
    thread->activity.state = state_of_letter(&then->server, letter);
    thread->activity.since_ns = then->time_ns;
}

/* What is wanted of the past is not known, nor what workers were doing: both stay zero. */
static void describe(struct snapshot *then, const struct snapshot *present,
                     const struct sample_copy *sample)
{
    uint64_t ago_ns = present->wall_ns > sample->time_ns ? present->wall_ns - sample->time_ns : 0;

    then->server = present->server;
    then->dispatch_master = present->dispatch_master;
    then->wall_ns = sample->time_ns;
    then->time_ns = present->time_ns > ago_ns ? present->time_ns - ago_ns : 0;
    then->log_level = present->log_level;
    memcpy(then->sums, sample->values, sizeof(then->sums));
    then->worker_count = 0;
    for (uint32_t i = 0; i < present->worker_count; i++) {
        struct worker_sample *worker = &then->workers[then->worker_count++];

        *worker = (struct worker_sample){.slot = present->workers[i].slot,
                                         .pid = present->workers[i].pid,
                                         .state = present->workers[i].state,
                                         .started_ns = present->workers[i].started_ns};
    }
}

static int make_room(struct past *past, const struct snapshot *present)
{
    struct snapshot *then = &past->snapshot;

    if (then->thread_room == present->thread_room && then->worker_room == present->worker_room)
        return 0;
    snapshot_release(then);
    then->threads = calloc(present->thread_room, sizeof(*then->threads));
    then->workers = calloc(present->worker_room, sizeof(*then->workers));
    if (then->threads == NULL || then->workers == NULL) {
        snapshot_release(then);
        return -1;
    }
    then->thread_room = present->thread_room;
    then->worker_room = present->worker_room;
    return 0;
}

size_t past_set(struct past *past, const struct history *history, const struct snapshot *present,
                size_t back)
{
    const struct sample_copy *sample, *before;
    const char *letters;
    struct snapshot *then = &past->snapshot;

    if (back >= history_length(history))
        back = history_length(history) > 0 ? history_length(history) - 1 : 0;
    while (back > 0 && !history_second(history, back, &sample, &letters, &before))
        back--;
    if (back == 0 || make_room(past, present) != 0)
        return 0;
    describe(then, present, sample);
    then->thread_count = 0;
    for (uint32_t slot = 0; slot < then->thread_room && slot < HISTORY_LETTERS; slot++)
        if (letters[slot] != '\0')
            add_thread(then, present, slot, letters[slot]);
    model_take_past(past->model, then, before, sample);
    return back;
}

const struct model *past_model(const struct past *past)
{
    return past->model;
}
