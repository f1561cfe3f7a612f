#include "console/watch.h"

#include "common/clock.h"
#include "console/past.h"
#include "console/view.h"

#include <stdlib.h>
#include <string.h>

struct watch {
    struct source *source;
    struct snapshot snapshot;
    struct model *model;
    struct history *history;
    struct tail *tail;
    struct past *past;
    struct top *top;
    struct outcomes *outcomes;
    struct event_list *events;
    struct process_table processes;
    struct cache_list cache;
    char config[SEGMENT_CONFIG_BYTES];
    uint64_t missed;      /* requests that had passed unseen when the top lists were last fed */
    uint64_t slow_ns;     /* when what is read once a second was last read */
    unsigned slow_had;    /* what was wanted then */
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
    watch->top = top_create();
    watch->outcomes = outcomes_create();
    watch->events = event_list_create();
    if (watch->source == NULL || watch->model == NULL || watch->history == NULL ||
        watch->tail == NULL || watch->past == NULL || watch->top == NULL ||
        watch->outcomes == NULL || watch->events == NULL) {
        watch_close(watch);
        return NULL;
    }
    return watch;
}

void watch_close(struct watch *watch)
{
    if (watch == NULL)
        return;
    cache_list_release(&watch->cache);
    event_list_destroy(watch->events);
    outcomes_destroy(watch->outcomes);
    top_destroy(watch->top);
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
    outcomes_break(watch->outcomes);
    event_list_attach(watch->events);
    watch->slow_had = WANT_NOTHING;
    watch->next_second = samples > SEGMENT_HISTORY_SAMPLES ? samples - SEGMENT_HISTORY_SAMPLES : 0;
    return 0;
}

static void take_second(struct watch *watch, const struct sample_copy *sample, const char *letters)
{
    history_push(watch->history, sample, letters);
    outcomes_push_sample(watch->outcomes, sample);
}

static void take_history(struct watch *watch, const struct segment_reader *reader)
{
    uint64_t samples = segment_samples(reader);
    struct sample_copy sample;
    char letters[HISTORY_LETTERS];

    for (; watch->next_second < samples; watch->next_second++) {
        memset(letters, 0, sizeof(letters));
        if (segment_read_sample(reader, watch->next_second, &sample, letters, sizeof(letters)))
            take_second(watch, &sample, letters);
        else
            history_break(watch->history); /* not looked at for so long that it is gone */
    }
}

/* The tail counts what it missed by a guess that may sink; what was counted once stays counted. */
static void take_requests(struct watch *watch, const struct segment_reader *reader,
                          uint64_t wall_ns)
{
    uint64_t missed;

    for (size_t new = tail_read(watch->tail, reader); new > 0; new --)
        top_add(watch->top, tail_line(watch->tail, new - 1));
    missed = tail_missed(watch->tail);
    if (missed <= watch->missed)
        return;
    top_miss(watch->top, wall_ns, missed - watch->missed);
    watch->missed = missed;
}

static void take_config(struct watch *watch, const struct segment_reader *reader)
{
    memcpy(watch->config, segment_at(&reader->map, SEGMENT_CONFIG, 0), sizeof(watch->config));
    watch->config[sizeof(watch->config) - 1] = '\0';
}

/* What changes slowly, or costs: once a second, and at once when more is wanted than was. */
static int take_slow(struct watch *watch, const struct segment_reader *reader, unsigned wants)
{
    const struct snapshot *now = &watch->snapshot;

    if ((wants & ~watch->slow_had) == 0 && now->time_ns < watch->slow_ns + NS_PER_S)
        return 0;
    watch->slow_had = wants;
    watch->slow_ns = now->time_ns;
    event_list_read(watch->events, reader, now->wall_ns);
    if (now->time_ns >= watch->processes.time_ns + NS_PER_S / 2)
        processes_take(&watch->processes, now);
    if ((wants & WANT_CONFIG) != 0)
        take_config(watch, reader);
    return (wants & WANT_CACHE) != 0 ? cache_list_take(&watch->cache, reader, now->wall_ns) : 0;
}

int watch_sample(struct watch *watch, uint64_t now_ns, uint64_t wall_ns, unsigned wants)
{
    bool attached = source_update(watch->source, now_ns);
    enum source_state state = source_state(watch->source);
    const struct segment_reader *reader = source_reader(watch->source);
    bool with_latency;

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
    if (with_latency)
        outcomes_push(watch->outcomes, wall_ns, watch->snapshot.outcome_latency);
    take_history(watch, reader);
    take_requests(watch, reader, wall_ns);
    return take_slow(watch, reader, wants);
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

const struct top *watch_top(const struct watch *watch)
{
    return watch->top;
}

const struct outcomes *watch_outcomes(const struct watch *watch)
{
    return watch->outcomes;
}

const struct event_list *watch_events(const struct watch *watch)
{
    return watch->events;
}

const struct process_table *watch_processes(const struct watch *watch)
{
    return &watch->processes;
}

const struct cache_list *watch_cache(const struct watch *watch)
{
    return &watch->cache;
}

const char *watch_config(const struct watch *watch)
{
    return watch->config;
}
