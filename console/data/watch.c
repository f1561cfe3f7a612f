#include "console/data/watch.h"

#include "common/clock.h"
#include "console/data/recording.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct watch {
    struct source *source;
    struct replay *replay;     /* NULL: a daemon is watched */
    struct recorder *recorder; /* NULL: nothing is recorded */
    bool new_daemon;           /* another daemon is attached, but not sampled yet */
    bool record_new_daemon;    /* another daemon is attached, but not recorded yet */
    bool record_ended;         /* the end of the daemon is recorded */
    struct server_info info;
    bool end_noted;     /* the end of the daemon is an event */
    size_t back;        /* seconds back in the history; 0: the last sample */
    size_t notes_taken; /* notes of the recording that are events */
};

struct watch *watch_open(const char *name)
{
    struct watch *watch = calloc(1, sizeof(*watch));

    if (watch == NULL)
        return NULL;
    watch->source = source_open(name);
    if (server_info_open(&watch->info) != 0 || watch->source == NULL) {
        watch_close(watch);
        return NULL;
    }
    return watch;
}

struct watch *watch_open_replay(const char *path, char *why, size_t size)
{
    struct replay *replay = replay_open(path, why, size);
    struct watch *watch = replay != NULL ? watch_open(path) : NULL;

    if (watch != NULL) {
        watch->replay = replay;
        watch->info.replayed = true;
        source_show(watch->source, NULL, SOURCE_ABSENT, "the recording begins");
        *watch->info.marks = *replay_notes(replay);
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
    server_info_close(&watch->info);
    source_close(watch->source);
    replay_close(watch->replay);
    free(watch);
}

static bool attached(const struct watch *watch)
{
    enum source_state state = source_state(watch->source);

    return state == SOURCE_LIVE || state == SOURCE_SILENT;
}

/* How the daemon of READER has ended becomes an event, once. */
static void note_end(struct watch *watch, const struct segment_reader *reader, uint64_t wall_ns)
{
    bool stopped = watch->replay != NULL
                       ? strstr(source_why(watch->source), "died") == NULL
                       : atomic_load_explicit(&segment_shared_header(&reader->map)->stopped,
                                              memory_order_acquire) != 0;
    char text[EVENT_TEXT_BYTES];

    if (watch->end_noted)
        return;
    watch->end_noted = true;
    snprintf(text, sizeof(text), "the master (pid %" PRId32 ") has %s",
             reader->map.header.master_pid, stopped ? "stopped" : "died");
    server_info_note(&watch->info, stopped ? MARK_master : MARK_crash,
                     stopped ? LEVEL_INFO : LEVEL_ERROR, wall_ns, text);
}

/* Reads the events of the daemon that was attached before, until it has ended. */
static void follow_former(struct watch *watch, uint64_t wall_ns)
{
    const struct segment_reader *former = source_former(watch->source);
    bool ended = former != NULL && segment_has_ended(former);

    if (former == NULL)
        return;
    server_info_take_former(&watch->info, former, wall_ns);
    if (!ended)
        return;
    note_end(watch, former, wall_ns);
    watch->end_noted = false;
    source_release_former(watch->source);
}

/* After the last sample: the last events. */
static void follow_end(struct watch *watch, uint64_t wall_ns)
{
    const struct segment_reader *reader = source_reader(watch->source);

    if (source_state(watch->source) != SOURCE_ENDED || watch->end_noted ||
        (watch->replay == NULL && !segment_has_ended(reader)))
        return;
    server_info_take_events(&watch->info, reader, wall_ns);
    note_end(watch, reader, wall_ns);
}

/* Samples the segment of the source. */
static int sample(struct watch *watch, uint64_t now_ns, uint64_t wall_ns, unsigned wants)
{
    const struct segment_reader *reader = source_reader(watch->source);

    watch->back = 0;
    history_look_back(watch->info.history, 0);
    if (watch->new_daemon && server_info_begin(&watch->info, reader) != 0)
        return -1;
    if (watch->new_daemon && source_former(watch->source) == NULL)
        watch->end_noted = false;
    watch->new_daemon = false;
    follow_end(watch, wall_ns);
    return attached(watch) ? server_info_take(&watch->info, reader, now_ns, wall_ns, wants) : 0;
}

static void follow_daemon(struct watch *watch, uint64_t now_ns)
{
    if (source_update(watch->source, now_ns))
        watch->new_daemon = watch->record_new_daemon = true;
}

int watch_sample(struct watch *watch, uint64_t now_ns, uint64_t wall_ns, unsigned wants)
{
    follow_daemon(watch, now_ns);
    if (sample(watch, now_ns, wall_ns, watch->recorder != NULL ? WANT_ALL : wants) != 0)
        return -1;
    follow_former(watch, wall_ns);
    return 0;
}

uint64_t watch_log_due_ns(const struct watch *watch)
{
    return attached(watch) && !watch->new_daemon && watch->replay == NULL
               ? tail_due_ns(watch->info.tail)
               : UINT64_MAX;
}

void watch_read_log(struct watch *watch, uint64_t now_ns, uint64_t wall_ns)
{
    if (now_ns >= watch_log_due_ns(watch))
        server_info_take_requests(&watch->info, source_reader(watch->source), now_ns, wall_ns);
}

bool watch_refresh_states(struct watch *watch, uint64_t now_ns)
{
    return attached(watch) && !watch->new_daemon && model_now(watch->info.model) != NULL &&
           snapshot_refresh_states(&watch->info.snapshot, source_reader(watch->source), now_ns);
}

/* Recording */

int watch_record_to(struct watch *watch, const char *path, char *why, size_t size)
{
    if (watch->recorder != NULL) {
        snprintf(why, size, "a session is already being recorded");
        return -1;
    }
    watch->recorder = recorder_create(path, why, size);
    watch->record_new_daemon = true;
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
    bool ended = source_state(watch->source) == SOURCE_ENDED, new = watch->record_new_daemon;

    if (ended && !watch->record_ended && !new) {
        watch->record_ended = true;
        return recorder_add_end(watch->recorder, source_why(watch->source), now_ns, wall_ns, why,
                                size);
    }
    if (!attached(watch))
        return 0;
    watch->record_ended = watch->record_new_daemon = false;
    recorder_set_origins(watch->recorder, watch_origins(watch));
    return recorder_add(watch->recorder, source_reader(watch->source), new, &watch->info.processes,
                        now_ns, wall_ns, why, size);
}

static void drop_recorder(struct watch *watch)
{
    char ignored[256];

    recorder_close(watch->recorder, ignored, sizeof(ignored));
    watch->recorder = NULL;
}

int watch_record(struct watch *watch, uint64_t now_ns, uint64_t wall_ns, char *why, size_t size)
{
    if (watch->recorder == NULL)
        return 0;
    follow_daemon(watch, now_ns);
    if (record_moment(watch, now_ns, wall_ns, why, size) == 0)
        return 0;
    drop_recorder(watch);
    return -1;
}

int watch_add_note(struct watch *watch, const char *text, uint64_t now_ns, uint64_t wall_ns,
                   char *why, size_t size)
{
    server_info_note(&watch->info, MARK_note, LEVEL_INFO, wall_ns, text);
    if (watch->recorder == NULL ||
        recorder_add_note(watch->recorder, text, now_ns, wall_ns, why, size) == 0)
        return 0;
    drop_recorder(watch);
    return -1;
}

/* Replay */

/* The notes up to the current moment become events. */
static void take_notes(struct watch *watch)
{
    const struct marks *notes = replay_notes(watch->replay);

    for (; watch->notes_taken < notes->count; watch->notes_taken++) {
        const struct mark *note = &notes->mark[watch->notes_taken];

        if (note->time_ns > replay_wall_ns(watch->replay))
            break;
        server_info_note(&watch->info, MARK_note, LEVEL_INFO, note->time_ns, note->text);
    }
}

static int sample_replay(struct watch *watch, unsigned wants)
{
    const char *ended = replay_ended(watch->replay);

    source_show(watch->source, replay_reader(watch->replay),
                ended != NULL ? SOURCE_ENDED : SOURCE_LIVE, ended != NULL ? ended : "");
    watch->new_daemon |= replay_new_daemon(watch->replay);
    if (replay_processes(watch->replay) != NULL)
        watch->info.processes = *replay_processes(watch->replay);
    take_notes(watch);
    return sample(watch, replay_now_ns(watch->replay), replay_wall_ns(watch->replay), wants);
}

int watch_replay_to(struct watch *watch, uint64_t at_ns, unsigned wants)
{
    if (at_ns < replay_at_ns(watch->replay)) {
        replay_rewind(watch->replay);
        watch->new_daemon = true;
        if (server_info_clear(&watch->info) != 0)
            return -1;
        watch->notes_taken = 0;
    }
    while (replay_next(watch->replay, at_ns) == REPLAY_STEPPED)
        if (sample_replay(watch, wants) != 0)
            return -1;
    return 0;
}

const struct replay *watch_replay(const struct watch *watch)
{
    return watch->replay;
}

bool watch_replays(const struct watch *watch)
{
    return watch->replay != NULL;
}

/* Values */

/* NULL: no daemon. */
static const struct segment_master *current_master(const struct watch *watch)
{
    const struct segment_reader *reader = source_reader(watch->source);

    return reader == NULL || source_state(watch->source) == SOURCE_ENDED
               ? NULL
               : segment_master(&reader->map);
}

uint32_t watch_offload_min(const struct watch *watch)
{
    const struct segment_master *master = current_master(watch);

    return master != NULL ? atomic_load_explicit(&master->offload_min_wanted, memory_order_relaxed)
                          : 0;
}

/* A server of another program does not say how many it wants: those without a name are its pool. */
static uint32_t pool_threads(const struct watch *watch)
{
    const struct snapshot *now = &watch->info.snapshot;
    uint32_t count = 0;

    for (uint32_t i = 0; i < now->thread_count; i++)
        count +=
            now->threads[i].activity.state != THREAD_STATE_NONE && now->threads[i].name[0] == '\0';
    return count;
}

uint32_t watch_wanted(const struct watch *watch, enum tunable tunable)
{
    uint32_t threads;

    const struct segment_master *master = current_master(watch);

    if (master == NULL)
        return 0;
    switch (tunable) {
    case TUNABLE_WORKERS:
        return atomic_load_explicit(&master->workers_wanted, memory_order_relaxed);
    case TUNABLE_OFFLOAD_THREADS:
        return atomic_load_explicit(&master->offload_max_wanted, memory_order_relaxed);
    case TUNABLE_THREADS:
    case TUNABLE_COUNT:
        break;
    }
    threads = atomic_load_explicit(&master->threads_wanted, memory_order_relaxed);
    return threads != 0 ? threads : pool_threads(watch);
}

struct alerts *watch_alerts(struct watch *watch)
{
    return &watch->info.alerts;
}

void watch_add_alert(struct watch *watch, const struct alert_record *record)
{
    bool began = record->change == ALERT_BEGAN;
    char text[EVENT_TEXT_BYTES];

    snprintf(text, sizeof(text), "alert %s: %s (%s)", alert_change_names[record->change],
             record->rule, record->value);
    server_info_note(&watch->info, MARK_alert, began ? LEVEL_WARN : LEVEL_INFO, record->wall_ns,
                     text);
}

size_t watch_look_back(struct watch *watch, size_t back)
{
    if (model_now(watch->info.model) == NULL)
        return 0;
    watch->back = history_cursor_set(watch->info.cursor, watch->info.history,
                                     model_now(watch->info.model), back);
    history_look_back(watch->info.history, watch->back);
    return watch->back;
}

int watch_show_subject(struct watch *watch, const struct subject_term *terms, size_t count)
{
    return server_info_show_subject(&watch->info, terms, count);
}

int watch_choose_hosts(struct watch *watch, const struct subject_term *terms, size_t count)
{
    return server_info_choose_hosts(&watch->info, terms, count);
}

void watch_hide_subject(struct watch *watch)
{
    server_info_hide_subject(&watch->info);
}

const struct source *watch_source(const struct watch *watch)
{
    return watch->source;
}

const struct server_info *watch_info(const struct watch *watch)
{
    return &watch->info;
}

const struct model *watch_model(const struct watch *watch)
{
    return watch->back > 0 ? history_cursor_model(watch->info.cursor) : watch->info.model;
}

const struct process_table *watch_processes(const struct watch *watch)
{
    return watch->back > 0 ? history_cursor_processes(watch->info.cursor) : &watch->info.processes;
}

const char *watch_origins(const struct watch *watch)
{
    if (watch->replay != NULL)
        return replay_origins(watch->replay);
    return watch->info.origins != NULL ? watch->info.origins : "";
}

bool watch_needs_origins(struct watch *watch, unsigned wants)
{
    if (watch->replay != NULL || !attached(watch) || watch->info.origins_requested ||
        watch->info.config[0] == '\0' || ((wants & WANT_ORIGINS) == 0 && watch->recorder == NULL))
        return false;
    watch->info.origins_requested = true;
    return true;
}

void watch_set_origins(struct watch *watch, const char *answer)
{
    free(watch->info.origins);
    watch->info.origins = strdup(answer);
}
