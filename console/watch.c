#include "console/watch.h"

#include "console/past.h"

#include <stdlib.h>
#include <string.h>

struct watch {
    struct source *source;
    struct snapshot snapshot;
    struct model *model;
    struct history *history;
    struct tail *tail;
    struct past *past;
    size_t back;          /* seconds of the history that are looked back; 0: the last sample */
    uint64_t next_second; /* number of the history sample that is wanted next */
};

struct watch *watch_open(const char *name)
{
    struct watch *watch = calloc(1, sizeof(*watch));

    if (watch == NULL)
        return NULL;
    watch->source = source_open(name);
    watch->model = model_create();
    watch->history = history_create();
    watch->tail = tail_create();
    watch->past = past_create();
    if (watch->source == NULL || watch->model == NULL || watch->history == NULL ||
        watch->tail == NULL || watch->past == NULL) {
        watch_close(watch);
        return NULL;
    }
    return watch;
}

void watch_close(struct watch *watch)
{
    if (watch == NULL)
        return;
    past_destroy(watch->past);
    tail_destroy(watch->tail);
    history_destroy(watch->history);
    model_destroy(watch->model);
    snapshot_release(&watch->snapshot);
    source_close(watch->source);
    free(watch);
}

/* Another daemon: its counters begin anew, its past follows the one we know after a break. */
static int begin_daemon(struct watch *watch)
{
    const struct segment_reader *reader = source_reader(watch->source);
    uint64_t samples = segment_samples(reader);

    model_reset(watch->model);
    if (snapshot_prepare(&watch->snapshot, reader) != 0 || tail_attach(watch->tail, reader) != 0)
        return -1;
    history_break(watch->history);
    watch->next_second = samples > SEGMENT_HISTORY_SAMPLES ? samples - SEGMENT_HISTORY_SAMPLES : 0;
    return 0;
}

static void take_history(struct watch *watch, const struct segment_reader *reader)
{
    uint64_t samples = segment_samples(reader);
    struct sample_copy sample;
    char letters[HISTORY_LETTERS];

    for (; watch->next_second < samples; watch->next_second++) {
        memset(letters, 0, sizeof(letters));
        if (segment_read_sample(reader, watch->next_second, &sample, letters, sizeof(letters)))
            history_push(watch->history, &sample, letters);
        else
            history_break(watch->history); /* not looked at for so long that it is gone */
    }
}

int watch_sample(struct watch *watch, uint64_t now_ns, uint64_t wall_ns, unsigned wants)
{
    bool attached = source_update(watch->source, now_ns);
    enum source_state state = source_state(watch->source);
    const struct segment_reader *reader = source_reader(watch->source);
    bool with_latency;

    (void)wants;
    watch->back = 0;
    history_look_back(watch->history, 0);
    if (attached && begin_daemon(watch) != 0)
        return -1;
    if (state != SOURCE_LIVE && state != SOURCE_SILENT)
        return 0;
    with_latency = model_wants_latency(watch->model, now_ns);
    snapshot_take(&watch->snapshot, reader, now_ns, wall_ns, with_latency);
    if (model_take(watch->model, &watch->snapshot, with_latency) != 0)
        return -1;
    take_history(watch, reader);
    tail_read(watch->tail, reader);
    return 0;
}

uint32_t watch_wanted(const struct watch *watch, enum knob knob)
{
    const struct segment_reader *reader = source_reader(watch->source);
    const struct segment_master *master;

    if (reader == NULL || source_state(watch->source) == SOURCE_ENDED)
        return 0;
    master = segment_master(&reader->map);
    switch (knob) {
    case KNOB_WORKERS:
        return atomic_load_explicit(&master->workers_wanted, memory_order_relaxed);
    case KNOB_OFFLOAD_THREADS:
        return atomic_load_explicit(&master->offload_most_wanted, memory_order_relaxed);
    case KNOB_THREADS:
    case KNOB_COUNT:
        break;
    }
    return atomic_load_explicit(&master->threads_wanted, memory_order_relaxed);
}

bool watch_replays(const struct watch *watch)
{
    (void)watch;
    return false;
}

size_t watch_look_back(struct watch *watch, size_t back)
{
    if (model_now(watch->model) == NULL)
        return 0;
    watch->back = past_set(watch->past, watch->history, model_now(watch->model), back);
    history_look_back(watch->history, watch->back);
    return watch->back;
}

const struct source *watch_source(const struct watch *watch)
{
    return watch->source;
}

const struct model *watch_model(const struct watch *watch)
{
    return watch->back > 0 ? past_model(watch->past) : watch->model;
}

const struct history *watch_history(const struct watch *watch)
{
    return watch->history;
}

const struct tail *watch_tail(const struct watch *watch)
{
    return watch->tail;
}
