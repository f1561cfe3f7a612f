#include "console/watch.h"

#include "common/clock.h"
#include "console/past.h"
#include "console/recorder.h"
#include "console/replay.h"
#include "console/view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How often is read what changes slowly or costs. */
#define SLOW_NS (NS_PER_S / 2)

struct watch {
    struct source *source;
    struct replay *replay;     /* of a recording; NULL: it is a daemon that is watched */
    struct recorder *recorder; /* of a session that is recorded; NULL: none is */
    bool past_unread;          /* the rings' past has not been looked at */
    bool newcomer;             /* another daemon has been attached; nothing of it was taken yet */
    bool record_newcomer;      /* nor recorded */
    bool record_ended;         /* its end has been recorded */
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
    struct client_list clients;
    char config[SEGMENT_CONFIG_BYTES];
    char *origins; /* of it; NULL: not known */
    bool origins_asked;
    uint64_t missed;      /* requests that had passed unseen when the top lists were last fed */
    uint64_t slow_ns;     /* when what is read once a second was last read */
    unsigned slow_had;    /* what was wanted then */
    size_t back;          /* seconds of the history that are looked back; 0: the last sample */
    uint64_t next_second; /* number of the history sample that is wanted next */
};

/* What is learnt of a server while it is watched. */

static int open_rooms(struct watch *watch)
{
    watch->model = model_create();
    watch->history = history_create();
    watch->tail = tail_create();
    watch->past = past_create();
    watch->top = top_create();
    watch->outcomes = outcomes_create();
    watch->events = event_list_create();
    return watch->model == NULL || watch->history == NULL || watch->tail == NULL ||
                   watch->past == NULL || watch->top == NULL || watch->outcomes == NULL ||
                   watch->events == NULL
               ? -1
               : 0;
}

static void close_rooms(struct watch *watch)
{
    event_list_destroy(watch->events);
    outcomes_destroy(watch->outcomes);
    top_destroy(watch->top);
    past_destroy(watch->past);
    tail_destroy(watch->tail);
    history_destroy(watch->history);
    model_destroy(watch->model);
}

static struct watch *open_watch(const char *name)
{
    struct watch *watch = calloc(1, sizeof(*watch));

    if (watch == NULL)
        return NULL;
    watch->source = source_open(name);
    if (open_rooms(watch) != 0 || watch->source == NULL) {
        watch_close(watch);
        return NULL;
    }
    return watch;
}

struct watch *watch_open(const char *name)
{
    return open_watch(name);
}

struct watch *watch_open_replay(const char *path, char *why, size_t size)
{
    struct replay *replay = replay_open(path, why, size);
    struct watch *watch = replay != NULL ? open_watch(path) : NULL;

    if (watch != NULL) {
        watch->replay = replay;
        source_show(watch->source, NULL, SOURCE_ABSENT, "the recording begins", 0);
        return watch;
    }
    if (replay != NULL)
        snprintf(why, size, "out of memory");
    replay_close(replay);
    return NULL;
}

void watch_close(struct watch *watch)
{
    char why[256];

    if (watch == NULL)
        return;
    recorder_close(watch->recorder, why, sizeof(why));
    close_rooms(watch);
    cache_list_release(&watch->cache);
    client_list_release(&watch->clients);
    snapshot_release(&watch->snapshot);
    source_close(watch->source);
    replay_close(watch->replay);
    free(watch->origins);
    free(watch);
}

static void forget_origins(struct watch *watch)
{
    free(watch->origins);
    watch->origins = NULL;
    watch->origins_asked = false;
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
    watch->past_unread = true;
    forget_origins(watch);
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

static void count_past(void *context, const struct tail_line *line)
{
    top_add(context, line);
}

/* What was asked for before this console looked; on the first daemon nothing is known of before it. */
static void take_past_requests(struct watch *watch, const struct segment_reader *reader,
                               uint64_t wall_ns)
{
    uint64_t since = tail_read_past(watch->tail, reader, count_past, watch->top);

    if (since == 0 && !top_known(watch->top))
        since = reader->map.directory->started_ns;
    if (since > 0)
        top_know_since(watch->top, since < wall_ns ? since : wall_ns);
    watch->past_unread = false;
}

static void take_config(struct watch *watch, const struct segment_reader *reader)
{
    const char *text = segment_at(&reader->map, SEGMENT_CONFIG, 0);
    size_t length = strnlen(text, sizeof(watch->config) - 1);

    if (strncmp(watch->config, text, length) == 0 && watch->config[length] == '\0')
        return;
    memcpy(watch->config, text, length);
    watch->config[length] = '\0';
    forget_origins(watch);
}

/* What changes slowly, or costs: twice a second, and at once when more is wanted than was. */
static int take_slow(struct watch *watch, const struct segment_reader *reader, unsigned wants)
{
    const struct snapshot *now = &watch->snapshot;

    if ((wants & ~watch->slow_had) == 0 && now->time_ns < watch->slow_ns + SLOW_NS)
        return 0;
    watch->slow_had = wants;
    watch->slow_ns = now->time_ns;
    event_list_read(watch->events, reader, now->wall_ns);
    if (watch->replay == NULL && now->time_ns >= watch->processes.time_ns + NS_PER_S / 2)
        processes_take(&watch->processes, now);
    take_config(watch, reader);
    if ((wants & WANT_CLIENTS) != 0 && client_list_take(&watch->clients, reader, now->time_ns) != 0)
        return -1;
    return (wants & WANT_CACHE) != 0 ? cache_list_take(&watch->cache, reader, now->wall_ns) : 0;
}

/* Takes the present from the source, as it is. */
static int take(struct watch *watch, uint64_t now_ns, uint64_t wall_ns, unsigned wants)
{
    enum source_state state = source_state(watch->source);
    const struct segment_reader *reader = source_reader(watch->source);
    bool with_latency;

    watch->back = 0;
    history_look_back(watch->history, 0);
    if (watch->newcomer && begin_daemon(watch) != 0)
        return -1;
    watch->newcomer = false;
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
    if (watch->past_unread)
        take_past_requests(watch, reader, wall_ns);
    return take_slow(watch, reader, wants);
}

static void look_for_daemon(struct watch *watch, uint64_t now_ns)
{
    if (!source_update(watch->source, now_ns))
        return;
    watch->newcomer = watch->record_newcomer = true;
}

int watch_sample(struct watch *watch, uint64_t now_ns, uint64_t wall_ns, unsigned wants)
{
    look_for_daemon(watch, now_ns);
    return take(watch, now_ns, wall_ns, watch->recorder != NULL ? WANT_ALL : wants);
}

bool watch_glance(struct watch *watch)
{
    enum source_state state = source_state(watch->source);

    return (state == SOURCE_LIVE || state == SOURCE_SILENT) && !watch->newcomer &&
           model_now(watch->model) != NULL &&
           snapshot_glance(&watch->snapshot, source_reader(watch->source));
}

/* Recording */

int watch_record_to(struct watch *watch, const char *path, char *why, size_t size)
{
    if (watch->recorder != NULL) {
        snprintf(why, size, "a session is being recorded already");
        return -1;
    }
    watch->recorder = recorder_create(path, why, size);
    watch->record_newcomer = true;
    return watch->recorder != NULL ? 0 : -1;
}

int watch_record_end(struct watch *watch, char *why, size_t size)
{
    int result = recorder_close(watch->recorder, why, size);

    watch->recorder = NULL;
    return result;
}

uint64_t watch_recorded(const struct watch *watch)
{
    return watch->recorder != NULL ? recorder_bytes(watch->recorder) : 0;
}

static int record_moment(struct watch *watch, uint64_t now_ns, uint64_t wall_ns, char *why,
                         size_t size)
{
    enum source_state state = source_state(watch->source);
    bool ended = state == SOURCE_ENDED, newcomer = watch->record_newcomer;

    if (ended && !watch->record_ended && !newcomer) {
        watch->record_ended = true;
        return recorder_add_end(watch->recorder, source_why(watch->source), now_ns, wall_ns, why,
                                size);
    }
    if (state != SOURCE_LIVE && state != SOURCE_SILENT)
        return 0;
    watch->record_ended = watch->record_newcomer = false;
    recorder_note_origins(watch->recorder, watch_origins(watch));
    return recorder_add(watch->recorder, source_reader(watch->source), newcomer, &watch->processes,
                        now_ns, wall_ns, why, size);
}

int watch_record(struct watch *watch, uint64_t now_ns, uint64_t wall_ns, char *why, size_t size)
{
    char ignored[256];

    if (watch->recorder == NULL)
        return 0;
    look_for_daemon(watch, now_ns);
    if (record_moment(watch, now_ns, wall_ns, why, size) == 0)
        return 0;
    recorder_close(watch->recorder, ignored, sizeof(ignored));
    watch->recorder = NULL;
    return -1;
}

/* Replaying */

#define REPLAY_RUN_UP_NS (10 * NS_PER_S) /* before a moment that is jumped to */
#define REPLAY_JUMP_NS   (60 * NS_PER_S) /* a longer way is not gone step by step */

/* All that was learnt is forgotten: what comes next may lie before it. */
static int forget(struct watch *watch)
{
    close_rooms(watch);
    snapshot_release(&watch->snapshot);
    watch->processes = (struct process_table){0};
    watch->missed = watch->slow_ns = 0;
    watch->newcomer = true;
    return open_rooms(watch);
}

static int take_replayed(struct watch *watch, unsigned wants)
{
    const char *ended = replay_ended(watch->replay);

    source_show(watch->source, replay_reader(watch->replay),
                ended != NULL ? SOURCE_ENDED : SOURCE_LIVE, ended != NULL ? ended : "",
                replay_now_ns(watch->replay));
    watch->newcomer |= replay_newcomer(watch->replay);
    if (replay_processes(watch->replay) != NULL)
        watch->processes = *replay_processes(watch->replay);
    return take(watch, replay_now_ns(watch->replay), replay_wall_ns(watch->replay), wants);
}

int watch_replay_to(struct watch *watch, uint64_t at_ns, unsigned wants)
{
    uint64_t now_ns = replay_at_ns(watch->replay);

    if (at_ns < now_ns || at_ns > now_ns + REPLAY_JUMP_NS) {
        replay_seek(watch->replay, at_ns > REPLAY_RUN_UP_NS ? at_ns - REPLAY_RUN_UP_NS : 0);
        if (forget(watch) != 0)
            return -1;
    }
    while (replay_next(watch->replay, at_ns) == REPLAY_STEPPED)
        if (take_replayed(watch, wants) != 0)
            return -1;
    return 0;
}

const struct replay *watch_replay(const struct watch *watch)
{
    return watch->replay;
}

/* The master's block while there is a master; else NULL. */
static const struct segment_master *living_master(const struct watch *watch)
{
    const struct segment_reader *reader = source_reader(watch->source);

    return reader == NULL || source_state(watch->source) == SOURCE_ENDED
               ? NULL
               : segment_master(&reader->map);
}

uint32_t watch_offload_least(const struct watch *watch)
{
    const struct segment_master *master = living_master(watch);

    return master != NULL
               ? atomic_load_explicit(&master->offload_least_wanted, memory_order_relaxed)
               : 0;
}

uint32_t watch_wanted(const struct watch *watch, enum knob knob)
{
    const struct segment_master *master = living_master(watch);

    if (master == NULL)
        return 0;
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
    return watch->replay != NULL;
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

const struct client_list *watch_clients(const struct watch *watch)
{
    return &watch->clients;
}

const char *watch_config(const struct watch *watch)
{
    return watch->config;
}

const char *watch_origins(const struct watch *watch)
{
    if (watch->replay != NULL)
        return replay_origins(watch->replay);
    return watch->origins != NULL ? watch->origins : "";
}

bool watch_wants_origins(struct watch *watch, unsigned wants)
{
    enum source_state state = source_state(watch->source);
    bool live = watch->replay == NULL && (state == SOURCE_LIVE || state == SOURCE_SILENT);

    if (!live || watch->origins_asked || watch->config[0] == '\0' ||
        ((wants & WANT_ORIGINS) == 0 && watch->recorder == NULL))
        return false;
    watch->origins_asked = true;
    return true;
}

void watch_tell_origins(struct watch *watch, const char *answer)
{
    free(watch->origins);
    watch->origins = strdup(answer);
}
