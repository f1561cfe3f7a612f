#include "console/data/server_info.h"

#include "common/clock.h"

#include <stdlib.h>
#include <string.h>

/* Period of what changes slowly or is costly to read. */
#define SLOW_NS (NS_PER_S / 2)

int server_info_open(struct server_info *info)
{
    info->model = model_create();
    info->history = history_create();
    info->tail = tail_create();
    info->cursor = history_cursor_create();
    info->top = top_create();
    info->outcomes = outcomes_create();
    info->events = event_list_create();
    return info->model == NULL || info->history == NULL || info->tail == NULL ||
                   info->cursor == NULL || info->top == NULL || info->outcomes == NULL ||
                   info->events == NULL
               ? -1
               : 0;
}

static void destroy_parts(struct server_info *info)
{
    event_list_destroy(info->events);
    outcomes_destroy(info->outcomes);
    top_destroy(info->top);
    history_cursor_destroy(info->cursor);
    tail_destroy(info->tail);
    history_destroy(info->history);
    model_destroy(info->model);
}

void server_info_close(struct server_info *info)
{
    destroy_parts(info);
    cache_list_release(&info->cache);
    client_list_release(&info->clients);
    snapshot_release(&info->snapshot);
    free(info->origins);
}

int server_info_forget(struct server_info *info)
{
    destroy_parts(info);
    snapshot_release(&info->snapshot);
    info->processes = (struct process_table){0};
    info->missed = info->slow_ns = 0;
    return server_info_open(info);
}

static void forget_origins(struct server_info *info)
{
    free(info->origins);
    info->origins = NULL;
    info->origins_requested = false;
}

int server_info_begin(struct server_info *info, const struct segment_reader *reader)
{
    uint64_t samples = segment_samples(reader);

    model_reset(info->model);
    if (snapshot_prepare(&info->snapshot, reader) != 0 || tail_attach(info->tail, reader) != 0)
        return -1;
    history_break(info->history);
    outcomes_break(info->outcomes);
    event_list_attach(info->events);
    info->slow_wants = WANT_NOTHING;
    info->backlog_unread = true;
    forget_origins(info);
    info->next_second = samples > SEGMENT_HISTORY_SAMPLES ? samples - SEGMENT_HISTORY_SAMPLES : 0;
    return 0;
}

static void take_history(struct server_info *info, const struct segment_reader *reader)
{
    uint64_t samples = segment_samples(reader);
    struct sample_copy sample;
    char letters[HISTORY_LETTERS];

    for (; info->next_second < samples; info->next_second++) {
        memset(letters, 0, sizeof(letters));
        if (segment_read_sample(reader, info->next_second, &sample, letters, sizeof(letters))) {
            history_push(info->history, &sample, letters);
            outcomes_push_sample(info->outcomes, &sample);
        } else {
            history_break(info->history); /* overwritten: not read for too long */
        }
    }
}

/* The tail estimates what it missed, and an estimate may decrease: only increases are counted. */
static void take_requests(struct server_info *info, const struct segment_reader *reader,
                          uint64_t wall_ns)
{
    uint64_t missed;

    for (size_t new = tail_read(info->tail, reader); new > 0; new --)
        top_add(info->top, tail_line(info->tail, new - 1));
    missed = tail_missed(info->tail);
    if (missed <= info->missed)
        return;
    top_miss(info->top, wall_ns, missed - info->missed);
    info->missed = missed;
}

static void count_backlog(void *context, const struct tail_line *line)
{
    top_add(context, line);
}

/* Counts the requests logged before the attachment. Nothing is known from before the first daemon. */
static void take_backlog(struct server_info *info, const struct segment_reader *reader,
                         uint64_t wall_ns)
{
    uint64_t since = tail_read_backlog(info->tail, reader, count_backlog, info->top);

    if (since == 0 && !top_known(info->top))
        since = reader->map.header->started_ns;
    if (since > 0)
        top_know_since(info->top, since < wall_ns ? since : wall_ns);
    info->backlog_unread = false;
}

static void take_config(struct server_info *info, const struct segment_reader *reader)
{
    const char *text = segment_at(&reader->map, SEGMENT_CONFIG, 0);
    size_t length = strnlen(text, sizeof(info->config) - 1);

    if (strncmp(info->config, text, length) == 0 && info->config[length] == '\0')
        return;
    memcpy(info->config, text, length);
    info->config[length] = '\0';
    forget_origins(info);
}

/* Reads the slow data twice a second, and immediately if more is wanted than before. */
static int take_slow(struct server_info *info, const struct segment_reader *reader, unsigned wants)
{
    const struct snapshot *now = &info->snapshot;

    if ((wants & ~info->slow_wants) == 0 && now->time_ns < info->slow_ns + SLOW_NS)
        return 0;
    info->slow_wants = wants;
    info->slow_ns = now->time_ns;
    event_list_read(info->events, reader, now->wall_ns);
    if (!info->processes_given && now->time_ns >= info->processes.time_ns + SLOW_NS)
        processes_take(&info->processes, now);
    take_config(info, reader);
    if ((wants & WANT_CLIENTS) != 0 && client_list_take(&info->clients, reader, now->time_ns) != 0)
        return -1;
    return (wants & WANT_CACHE) != 0 ? cache_list_take(&info->cache, reader, now->wall_ns) : 0;
}

int server_info_take(struct server_info *info, const struct segment_reader *reader, uint64_t now_ns,
                     uint64_t wall_ns, unsigned wants)
{
    bool with_latency = model_wants_latency(info->model, now_ns);

    snapshot_take(&info->snapshot, reader, now_ns, wall_ns, with_latency);
    if (model_take(info->model, &info->snapshot, with_latency) != 0)
        return -1;
    if (with_latency)
        outcomes_push(info->outcomes, wall_ns, info->snapshot.outcome_latency);
    take_history(info, reader);
    take_requests(info, reader, wall_ns);
    if (info->backlog_unread)
        take_backlog(info, reader, wall_ns);
    return take_slow(info, reader, wants);
}
