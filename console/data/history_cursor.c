#include "console/data/history_cursor.h"

#include <stdlib.h>
#include <string.h>

struct history_cursor {
    struct snapshot snapshot;
    struct model *model;
    struct past_thread thread[PROCESS_THREADS_MAX];
    uint32_t thread_count;
    struct process_table processes;
};

struct history_cursor *history_cursor_create(void)
{
    struct history_cursor *cursor = calloc(1, sizeof(*cursor));

    if (cursor == NULL)
        return NULL;
    cursor->model = model_create();
    if (cursor->model == NULL) {
        free(cursor);
        return NULL;
    }
    return cursor;
}

void history_cursor_destroy(struct history_cursor *cursor)
{
    if (cursor == NULL)
        return;
    model_destroy(cursor->model);
    snapshot_release(&cursor->snapshot);
    free(cursor);
}

static uint32_t state_of_letter(const struct server *server, char letter)
{
    for (uint32_t state = 0; state < server->state_count; state++)
        if (server->states[state].letter == letter)
            return state;
    return THREAD_STATE_NONE;
}

static const struct thread_sample *thread_in_slot(const struct snapshot *present, uint32_t slot)
{
    for (uint32_t i = 0; i < present->thread_count; i++)
        if (present->threads[i].slot == slot)
            return &present->threads[i];
    return NULL;
}

static void add_thread(struct history_cursor *cursor, const struct snapshot *present, uint32_t slot,
                       char letter)
{
    struct snapshot *then = &cursor->snapshot;
    const struct thread_sample *now = thread_in_slot(present, slot);
    struct thread_sample *thread = &then->threads[then->thread_count++];

    *thread = (struct thread_sample){.slot = slot, .worker = SEGMENT_NO_WORKER};
    if (now != NULL) {
        thread->worker = now->worker;
        thread->thread = now->thread;
    }
    for (uint32_t i = 0; i < cursor->thread_count; i++)
        if (cursor->thread[i].slot == slot) {
            thread->worker = cursor->thread[i].worker;
            thread->thread = cursor->thread[i].thread;
            thread->activity.tid = cursor->thread[i].tid;
        }
    thread->activity.state = state_of_letter(&then->server, letter);
    thread->activity.since_ns = then->time_ns;
}

static const struct worker_sample *worker_in_slot(const struct snapshot *present, uint32_t slot)
{
    for (uint32_t i = 0; i < present->worker_count; i++)
        if (present->workers[i].slot == slot)
            return &present->workers[i];
    return NULL;
}

/* The workers that were kept; without any, those of PRESENT. Their counters stay zero. */
static void describe_workers(struct history_cursor *cursor, const struct snapshot *present)
{
    const struct process_table *table = &cursor->processes;
    struct snapshot *then = &cursor->snapshot;

    then->worker_count = 0;
    for (uint32_t i = 0; i < table->count && then->worker_count < then->worker_room; i++) {
        const struct process_usage *process = &table->process[i];
        const struct worker_sample *now = worker_in_slot(present, process->slot);

        if (process->role == ROLE_WORKER)
            then->workers[then->worker_count++] = (struct worker_sample){
                .slot = process->slot,
                .pid = process->pid,
                .state = WORKER_SERVING,
                .started_ns = now != NULL && now->pid == process->pid ? now->started_ns : 0};
    }
    for (uint32_t i = 0; i < present->worker_count && table->count == 0; i++)
        then->workers[then->worker_count++] =
            (struct worker_sample){.slot = present->workers[i].slot,
                                   .pid = present->workers[i].pid,
                                   .state = present->workers[i].state,
                                   .started_ns = present->workers[i].started_ns};
}

/* Fills what the history does not record from PRESENT. Wanted numbers stay zero. */
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
}

static int make_room(struct history_cursor *cursor, const struct snapshot *present)
{
    struct snapshot *then = &cursor->snapshot;

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

/* Of a step only the sums and the latency are known. */
static void show_step(struct history_cursor *cursor, const struct snapshot *present,
                      const struct sample_copy *sample, const struct sample_copy *before)
{
    struct process_table *table = &cursor->processes;

    describe(&cursor->snapshot, present, sample);
    *table = (struct process_table){.count = 0};
    cursor->snapshot.worker_count = cursor->snapshot.thread_count = cursor->thread_count = 0;
    model_take_past(cursor->model, &cursor->snapshot, before, sample, NULL, 0);
}

static void show_second(struct history_cursor *cursor, const struct history *history,
                        const struct snapshot *present, size_t back)
{
    const struct sample_copy *sample, *before;
    const char *letters;
    struct snapshot *then = &cursor->snapshot;

    history_second(history, back, &sample, &letters, &before);
    describe(then, present, sample);
    cursor->thread_count = history_kept(history, back, cursor->thread, &cursor->processes);
    describe_workers(cursor, present);
    then->thread_count = 0;
    for (uint32_t slot = 0; slot < then->thread_room && slot < HISTORY_LETTERS; slot++)
        if (letters[slot] != '\0')
            add_thread(cursor, present, slot, letters[slot]);
    model_take_past(cursor->model, then, before, sample, cursor->thread, cursor->thread_count);
}

/* The second to show for BACK; 0: there is none. */
static size_t find_second(const struct history *history, size_t back)
{
    const struct sample_copy *sample, *before;
    const char *letters;

    if (back >= history_length(history))
        back = history_length(history) > 0 ? history_length(history) - 1 : 0;
    while (back > 0 && !history_second(history, back, &sample, &letters, &before))
        back--;
    return back;
}

size_t history_cursor_set(struct history_cursor *cursor, const struct history *history,
                          const struct snapshot *present, size_t back)
{
    const struct sample_copy *sample, *before;

    if (make_room(cursor, present) != 0)
        return 0;
    if (history_step(history, &back, &sample, &before)) {
        show_step(cursor, present, sample, before);
        return back;
    }
    back = find_second(history, back);
    if (back > 0)
        show_second(cursor, history, present, back);
    return back;
}

const struct model *history_cursor_model(const struct history_cursor *cursor)
{
    return cursor->model;
}

const struct process_table *history_cursor_processes(const struct history_cursor *cursor)
{
    return &cursor->processes;
}
