#include "console/data/server_info.h"

#include "common/clock.h"

#include <stdlib.h>
#include <string.h>

/* How often is read what changes slowly or costs. */
#define SLOW_NS (NS_PER_S / 2)

int learnt_open(struct learnt *learnt)
{
    learnt->model = model_create();
    learnt->history = history_create();
    learnt->tail = tail_create();
    learnt->past = past_create();
    learnt->top = top_create();
    learnt->outcomes = outcomes_create();
    learnt->events = event_list_create();
    return learnt->model == NULL || learnt->history == NULL || learnt->tail == NULL ||
                   learnt->past == NULL || learnt->top == NULL || learnt->outcomes == NULL ||
                   learnt->events == NULL
               ? -1
               : 0;
}

static void close_rooms(struct learnt *learnt)
{
    event_list_destroy(learnt->events);
    outcomes_destroy(learnt->outcomes);
    top_destroy(learnt->top);
    past_destroy(learnt->past);
    tail_destroy(learnt->tail);
    history_destroy(learnt->history);
    model_destroy(learnt->model);
}

void learnt_close(struct learnt *learnt)
{
    close_rooms(learnt);
    cache_list_release(&learnt->cache);
    client_list_release(&learnt->clients);
    snapshot_release(&learnt->snapshot);
    free(learnt->origins);
}

int learnt_forget(struct learnt *learnt)
{
    close_rooms(learnt);
    snapshot_release(&learnt->snapshot);
    learnt->processes = (struct process_table){0};
    learnt->missed = learnt->slow_ns = 0;
    return learnt_open(learnt);
}

static void forget_origins(struct learnt *learnt)
{
    free(learnt->origins);
    learnt->origins = NULL;
    learnt->origins_asked = false;
}

int learnt_begin(struct learnt *learnt, const struct segment_reader *reader)
{
    uint64_t samples = segment_samples(reader);

    model_reset(learnt->model);
    if (snapshot_prepare(&learnt->snapshot, reader) != 0 || tail_attach(learnt->tail, reader) != 0)
        return -1;
    history_break(learnt->history);
    outcomes_break(learnt->outcomes);
    event_list_attach(learnt->events);
    learnt->slow_had = WANT_NOTHING;
    learnt->past_unread = true;
    forget_origins(learnt);
    learnt->next_second = samples > SEGMENT_HISTORY_SAMPLES ? samples - SEGMENT_HISTORY_SAMPLES : 0;
    return 0;
}

static void take_second(struct learnt *learnt, const struct sample_copy *sample,
                        const char *letters)
{
    history_push(learnt->history, sample, letters);
    outcomes_push_sample(learnt->outcomes, sample);
}

static void take_history(struct learnt *learnt, const struct segment_reader *reader)
{
    uint64_t samples = segment_samples(reader);
    struct sample_copy sample;
    char letters[HISTORY_LETTERS];

    for (; learnt->next_second < samples; learnt->next_second++) {
        memset(letters, 0, sizeof(letters));
        if (segment_read_sample(reader, learnt->next_second, &sample, letters, sizeof(letters)))
            take_second(learnt, &sample, letters);
        else
            history_break(learnt->history); /* not looked at for so long that it is gone */
    }
}

/* The tail counts what it missed by a guess that may sink; what was counted once stays counted. */
static void take_requests(struct learnt *learnt, const struct segment_reader *reader,
                          uint64_t wall_ns)
{
    uint64_t missed;

    for (size_t new = tail_read(learnt->tail, reader); new > 0; new --)
        top_add(learnt->top, tail_line(learnt->tail, new - 1));
    missed = tail_missed(learnt->tail);
    if (missed <= learnt->missed)
        return;
    top_miss(learnt->top, wall_ns, missed - learnt->missed);
    learnt->missed = missed;
}

static void count_past(void *context, const struct tail_line *line)
{
    top_add(context, line);
}

/* What was asked for before this console looked; on the first daemon nothing is known of before it. */
static void take_past_requests(struct learnt *learnt, const struct segment_reader *reader,
                               uint64_t wall_ns)
{
    uint64_t since = tail_read_past(learnt->tail, reader, count_past, learnt->top);

    if (since == 0 && !top_known(learnt->top))
        since = reader->map.header->started_ns;
    if (since > 0)
        top_know_since(learnt->top, since < wall_ns ? since : wall_ns);
    learnt->past_unread = false;
}

static void take_config(struct learnt *learnt, const struct segment_reader *reader)
{
    const char *text = segment_at(&reader->map, SEGMENT_CONFIG, 0);
    size_t length = strnlen(text, sizeof(learnt->config) - 1);

    if (strncmp(learnt->config, text, length) == 0 && learnt->config[length] == '\0')
        return;
    memcpy(learnt->config, text, length);
    learnt->config[length] = '\0';
    forget_origins(learnt);
}

/* What changes slowly, or costs: twice a second, and at once when more is wanted than was. */
static int take_slow(struct learnt *learnt, const struct segment_reader *reader, unsigned wants)
{
    const struct snapshot *now = &learnt->snapshot;

    if ((wants & ~learnt->slow_had) == 0 && now->time_ns < learnt->slow_ns + SLOW_NS)
        return 0;
    learnt->slow_had = wants;
    learnt->slow_ns = now->time_ns;
    event_list_read(learnt->events, reader, now->wall_ns);
    if (!learnt->processes_told && now->time_ns >= learnt->processes.time_ns + SLOW_NS)
        processes_take(&learnt->processes, now);
    take_config(learnt, reader);
    if ((wants & WANT_CLIENTS) != 0 &&
        client_list_take(&learnt->clients, reader, now->time_ns) != 0)
        return -1;
    return (wants & WANT_CACHE) != 0 ? cache_list_take(&learnt->cache, reader, now->wall_ns) : 0;
}

int learnt_take(struct learnt *learnt, const struct segment_reader *reader, uint64_t now_ns,
                uint64_t wall_ns, unsigned wants)
{
    bool with_latency = model_wants_latency(learnt->model, now_ns);

    snapshot_take(&learnt->snapshot, reader, now_ns, wall_ns, with_latency);
    if (model_take(learnt->model, &learnt->snapshot, with_latency) != 0)
        return -1;
    if (with_latency)
        outcomes_push(learnt->outcomes, wall_ns, learnt->snapshot.outcome_latency);
    take_history(learnt, reader);
    take_requests(learnt, reader, wall_ns);
    if (learnt->past_unread)
        take_past_requests(learnt, reader, wall_ns);
    return take_slow(learnt, reader, wants);
}
