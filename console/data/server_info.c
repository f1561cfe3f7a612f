#include "console/data/server_info.h"

#include "common/clock.h"
#include "common/escape.h"
#include "common/process.h"
#include "console/data/recording.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How often the slow data is read: data that changes slowly or is costly to read. */
#define SLOW_NS (NS_PER_S / 2)

int server_info_open(struct server_info *info)
{
    if (info->host_names == NULL)
        info->host_names = host_names_create();
    info->model = model_create();
    info->history = history_create();
    info->tail = tail_create(info->host_names);
    info->cursor = history_cursor_create();
    info->top = top_create();
    info->outcomes = outcomes_create();
    info->events = event_list_create();
    if (info->marks == NULL)
        info->marks = calloc(1, sizeof(*info->marks));
    if (info->alerts.count == 0)
        alerts_add_defaults(&info->alerts);
    alerts_forget(&info->alerts);
    return info->model == NULL || info->history == NULL || info->tail == NULL ||
                   info->cursor == NULL || info->top == NULL || info->outcomes == NULL ||
                   info->events == NULL || info->marks == NULL || info->host_names == NULL
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
    host_list_release(&info->hosts);
    snapshot_release(&info->snapshot);
    subject_destroy(info->subject);
    top_destroy(info->host_top);
    host_names_destroy(info->host_names);
    free(info->marks);
    free(info->origins);
}

/* Empties the top lists of the chosen hosts. */
static int clear_host_top(struct server_info *info)
{
    if (info->host_terms == 0)
        return 0;
    top_destroy(info->host_top);
    info->host_top = top_create();
    info->host_terms = info->host_top != NULL ? info->host_terms : 0;
    return info->host_top != NULL ? 0 : -1;
}

int server_info_clear(struct server_info *info)
{
    destroy_parts(info);
    snapshot_release(&info->snapshot);
    info->processes = (struct process_table){0};
    info->certificates.count = 0;
    host_list_release(&info->hosts);
    if (info->subject != NULL)
        subject_clear(info->subject);
    info->missed = info->slow_ns = info->own_second = 0;
    return server_info_open(info) != 0 || clear_host_top(info) != 0 ? -1 : 0;
}

static void forget_origins(struct server_info *info)
{
    free(info->origins);
    info->origins = NULL;
    info->origins_requested = false;
}

int server_info_begin(struct server_info *info, const struct segment_reader *reader)
{
    uint64_t samples = segment_samples(reader), readable = UINT64_MAX;
    const struct segment_header *header = &reader->map.header;
    int32_t before = history_length(info->history) > 0 ? info->snapshot.server.pid : 0;
    bool is_other = info->snapshot.server.generation != header->generation;
    char text[EVENT_TEXT_BYTES];

    if (info->replayed)
        readable = recording_ring_words(segment_ring(&reader->map, 0).capacity);
    model_reset(info->model);
    if (snapshot_prepare(&info->snapshot, reader) != 0 ||
        tail_attach(info->tail, reader, readable) != 0 ||
        event_list_attach(info->events, reader) != 0)
        return -1;
    if (!info->replayed)
        info->snapshot.server.start_ns =
            clock_monotonic_ns() -
            process_age_ns(header->master_pid, segment_counted_since_ns(&reader->map));
    if (before != 0 && is_other) {
        snprintf(text, sizeof(text),
                 "another master (pid %" PRId32 ") has started, after pid %" PRId32,
                 header->master_pid, before);
        server_info_note(info, MARK_master, LEVEL_INFO, header->started_ns, text);
    }
    history_begin(info->history, header->master_pid, header->started_ns,
                  segment_counted_since_ns(&reader->map));
    outcomes_break(info->outcomes);
    host_list_release(&info->hosts);
    info->slow_wants = WANT_NOTHING;
    info->backlog_unread = true;
    forget_origins(info);
    info->next_second = samples > SEGMENT_HISTORY_SAMPLES ? samples - SEGMENT_HISTORY_SAMPLES : 0;
    return 0;
}

void server_info_note(struct server_info *info, enum mark_kind kind, enum level level,
                      uint64_t wall_ns, const char *text)
{
    struct event_record event = {.time_ns = wall_ns,
                                 .level = (uint8_t)level,
                                 .role = ROLE_CONSOLE,
                                 .pid = info->replayed ? 0 : (int32_t)getpid()};

    snprintf(event.text, sizeof(event.text), "%s", text);
    event_list_add(info->events, &event);
    marks_add(info->marks, kind, wall_ns, text);
}

void server_info_take_events(struct server_info *info, const struct segment_reader *reader,
                             uint64_t wall_ns)
{
    marks_take_events(info->marks, info->events, event_list_read(info->events, reader, wall_ns));
}

void server_info_take_former(struct server_info *info, const struct segment_reader *former,
                             uint64_t wall_ns)
{
    marks_take_events(info->marks, info->events,
                      event_list_read_former(info->events, former, wall_ns));
}

static void push_history(struct server_info *info, const struct segment_reader *reader)
{
    uint64_t samples = segment_samples(reader);
    struct sample_copy sample;
    char letters[HISTORY_LETTERS];
    bool any = false;

    for (; info->next_second < samples; info->next_second++) {
        memset(letters, 0, sizeof(letters));
        if (segment_read_sample(reader, info->next_second, &sample, letters, sizeof(letters))) {
            history_push(info->history, &sample, letters);
            outcomes_push_sample(info->outcomes, &sample);
            any = true;
        } else {
            history_break(info->history); /* the samples were overwritten before they were read */
        }
    }
    if (any)
        history_add_threads(info->history, info->model, &info->processes);
}

/*
 * Of a server without HISTORY: when a second ends, its sample from the snapshot and the latencies
 * by outcome. A second in which the console did not sample is a gap.
 */
static void push_own_sample(struct server_info *info)
{
    const struct snapshot *now = &info->snapshot;
    struct sample_copy sample = {.time_ns = now->wall_ns};
    uint64_t buckets[HISTOGRAM_COARSE_BUCKETS] = {0}, second = now->wall_ns / NS_PER_S;
    char letters[HISTORY_LETTERS] = {0};

    if (second == info->own_second)
        return;
    if (second != info->own_second + 1)
        history_break(info->history);
    info->own_second = second;
    memcpy(sample.values, now->sums, sizeof(sample.values));
    if (outcomes_second(info->outcomes, second - 1, OUTCOME_ALL, buckets)) {
        for (size_t i = 0; i < HISTOGRAM_COARSE_BUCKETS; i++)
            sample.latency[i] = (uint32_t)buckets[i];
        sample.latency_max_ns = (uint64_t)fmax(0, outcomes_percentile(buckets, 100));
    }
    for (uint32_t i = 0; i < now->thread_count; i++)
        if (now->threads[i].slot < HISTORY_LETTERS)
            letters[now->threads[i].slot] =
                server_state_letter(&now->server, now->threads[i].activity.state);
    history_push(info->history, &sample, letters);
    history_add_threads(info->history, info->model, &info->processes);
}

/* The lines of one call, and those of them that are for the chosen hosts. */
struct counting {
    struct server_info *info;
    uint64_t all, chosen;
};

/*
 * True if the top lists of the chosen hosts count the requests for HOST; their terms ask no more.
 */
static bool host_is_chosen(const struct server_info *info, const char *host)
{
    static struct tail_line line;

    line.host = host;
    return subject_matches(info->host_term, info->host_terms, &line);
}

static void count_in_tops(void *context, const struct tail_record *record)
{
    struct counting *counting = context;
    struct server_info *info = counting->info;

    top_add(info->top, record);
    counting->all++;
    if (info->host_top == NULL || !host_is_chosen(info, record->host))
        return;
    top_add(info->host_top, record);
    counting->chosen++;
}

static void count_request(void *context, const struct tail_record *record)
{
    struct counting *counting = context;
    struct tail_line line;

    count_in_tops(counting, record);
    if (counting->info->subject == NULL)
        return;
    tail_fill_line(&line, record);
    subject_add(counting->info->subject, &line);
}

/*
 * The tail estimates what it missed, and an estimate may decrease: only increases are counted. Of
 * the missed requests as large a part was for the chosen hosts as of the others.
 */
void server_info_take_requests(struct server_info *info, const struct segment_reader *reader,
                               uint64_t now_ns, uint64_t wall_ns)
{
    struct counting counting = {.info = info};
    uint64_t missed, more;

    tail_read(info->tail, reader, now_ns, count_request, &counting);
    if (info->replayed)
        tail_order(info->tail); /* the order does not depend on the moments that are drawn */
    missed = tail_missed(info->tail);
    if (missed <= info->missed)
        return;
    more = missed - info->missed;
    top_miss(info->top, wall_ns, more);
    if (info->host_top != NULL && counting.all > 0)
        top_miss(info->host_top, wall_ns, more * counting.chosen / counting.all);
    info->missed = missed;
}

/*
 * Counts the requests logged before the attachment. For the first daemon, nothing earlier is known.
 */
static void take_backlog(struct server_info *info, const struct segment_reader *reader,
                         uint64_t wall_ns)
{
    struct counting counting = {.info = info};
    uint64_t since = tail_read_backlog(info->tail, reader, count_in_tops, &counting);

    if (since == 0 && top_known_since(info->top) == 0)
        since = reader->map.header.started_ns;
    since = since < wall_ns ? since : wall_ns;
    if (since > 0)
        top_set_known_since(info->top, since);
    if (since > 0 && info->host_top != NULL)
        top_set_known_since(info->host_top, since);
    info->backlog_unread = false;
}

static void take_config(struct server_info *info, const struct segment_reader *reader)
{
    bool published = segment_count(&reader->map, SEGMENT_CONFIG) > 0;
    const char *text = published ? segment_at(&reader->map, SEGMENT_CONFIG, 0) : "";
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
    server_info_take_events(info, reader, now->wall_ns);
    take_config(info, reader);
    info->has_hosts = hosts_counted(reader);
    certificate_list_take(&info->certificates, reader);
    if ((wants & WANT_HOSTS) != 0 && host_list_take(&info->hosts, reader, now->time_ns) != 0)
        return -1;
    if ((wants & WANT_CLIENTS) != 0 && client_list_take(&info->clients, reader, now->time_ns) != 0)
        return -1;
    return (wants & WANT_CACHE) != 0 ? cache_list_take(&info->cache, reader, now->wall_ns) : 0;
}

/* CPU time is that of a second; only the first one is known earlier. */
static uint64_t processes_every_ns(const struct server_info *info)
{
    return info->processes.shortage.known != 0 ? NS_PER_S : SLOW_NS;
}

struct alert_facts server_info_facts(const struct server_info *info)
{
    return (struct alert_facts){info->model, info->history, &info->processes};
}

int server_info_take(struct server_info *info, const struct segment_reader *reader, uint64_t now_ns,
                     uint64_t wall_ns, unsigned wants)
{
    bool with_latency = model_wants_latency(info->model, now_ns);
    struct alert_facts facts;

    snapshot_take(&info->snapshot, reader, now_ns, wall_ns, with_latency);
    if (model_take(info->model, &info->snapshot, with_latency) != 0)
        return -1;
    if (with_latency)
        outcomes_push(info->outcomes, wall_ns, info->snapshot.outcome_latency);
    if (!info->replayed && now_ns >= info->processes.time_ns + processes_every_ns(info))
        processes_take(&info->processes, &info->snapshot);
    if (info->snapshot.server.lacks_section[SEGMENT_HISTORY])
        push_own_sample(info);
    else
        push_history(info, reader);
    server_info_take_requests(info, reader, now_ns, wall_ns);
    if (info->backlog_unread)
        take_backlog(info, reader, wall_ns);
    facts = server_info_facts(info);
    if (take_slow(info, reader, wants) != 0)
        return -1;
    alerts_update(&info->alerts, &facts, now_ns, wall_ns);
    return 0;
}

int server_info_show_subject(struct server_info *info, const struct subject_term *terms,
                             size_t count)
{
    struct subject *subject = subject_create(terms, count);

    if (subject == NULL)
        return -1;
    for (size_t back = tail_count(info->tail); back > 0; back--)
        subject_add(subject, tail_line(info->tail, back - 1));
    server_info_hide_subject(info);
    info->subject = subject;
    return 0;
}

void server_info_hide_subject(struct server_info *info)
{
    subject_destroy(info->subject);
    info->subject = NULL;
}

static bool same_terms(const struct subject_term *one, const struct subject_term *other,
                       size_t count)
{
    size_t i = 0;

    while (i < count && one[i].column == other[i].column && one[i].negated == other[i].negated &&
           one[i].whole == other[i].whole && strcmp(one[i].text, other[i].text) == 0)
        i++;
    return i == count;
}

/* Fills the top lists of the chosen hosts with the lines of the tail. */
static void count_tail(struct server_info *info)
{
    size_t count = tail_count(info->tail);
    struct tail_record record;

    /* An empty tail has missed nothing. */
    top_set_known_since(info->host_top, count > 0 ? tail_line(info->tail, count - 1)->time_ns
                                                  : top_known_since(info->top));
    for (size_t back = count; back > 0; back--) {
        tail_line_record(info->tail, back - 1, &record);
        if (host_is_chosen(info, record.host))
            top_add(info->host_top, &record);
    }
}

int server_info_choose_hosts(struct server_info *info, const struct subject_term *terms,
                             size_t count)
{
    struct top *top;

    if (count == info->host_terms && same_terms(terms, info->host_term, count))
        return 0;
    top = count > 0 ? top_create() : NULL; /* not at the address of the one before */
    top_destroy(info->host_top);
    info->host_top = top;
    info->host_terms = top != NULL ? count : 0;
    if (top == NULL)
        return count > 0 ? -1 : 0;
    memcpy(info->host_term, terms, count * sizeof(*terms));
    count_tail(info);
    return 0;
}

/* ---- The text of the configuration in force ---- */

/* Appends LENGTH bytes at FROM to TEXT, separated by a blank. */
static void append(char *text, size_t size, const char *from, size_t length)
{
    size_t used = strlen(text);

    if (used > 0 && length > 0 && used + 1 < size)
        text[used++] = ' ';
    escape_bytes(text + used, size - used, from, length);
}

static void take_key(const char *line, size_t length, const char *section, struct config_line *into)
{
    const char *equals = memchr(line, '=', length);
    size_t name = equals != NULL ? (size_t)(equals - line) : length, from = name, used;

    while (name > 0 && line[name - 1] == ' ')
        name--;
    snprintf(into->key, sizeof(into->key), "%s.", section);
    used = strlen(into->key);
    escape_bytes(into->key + used, sizeof(into->key) - used, line, name);
    from += from < length;
    while (from < length && line[from] == ' ')
        from++;
    append(into->value, sizeof(into->value), line + from, length - from);
}

/* Appends continuation lines, which are indented, to the value. */
static const char *take_rest(const char *text, struct config_line *into)
{
    while (*text == ' ' || *text == '\t') {
        size_t blank = strspn(text, " \t"), length = strcspn(text, "\n");

        if (length > blank)
            append(into->value, sizeof(into->value), text + blank, length - blank);
        text += length + (text[length] == '\n');
    }
    return text;
}

bool config_text_next(const char **text, char *section, struct config_line *line)
{
    const char *at = *text;

    *line = (struct config_line){.key = ""};
    while (*at != '\0') {
        size_t length = strcspn(at, "\n"), blank = strspn(at, "# ");
        const char *start = at;

        at += length + (at[length] == '\n');
        if (*start == '#') {
            append(line->help, sizeof(line->help), start + blank,
                   length > blank ? length - blank : 0);
        } else if (*start == '[') {
            escape_bytes(section, CONFIG_KEY_BYTES, start + 1,
                         length - (length > 1 && start[length - 1] == ']' ? 2 : 1));
            line->help[0] = '\0';
        } else if (length == 0) {
            line->help[0] = '\0';
        } else {
            take_key(start, length, section, line);
            *text = take_rest(at, line);
            return true;
        }
    }
    *text = at;
    return false;
}

bool config_text_value(const char *text, const char *key, char *value, size_t size)
{
    char section[CONFIG_KEY_BYTES] = "";
    struct config_line line;

    value[0] = '\0';
    while (config_text_next(&text, section, &line))
        if (strcmp(line.key, key) == 0) {
            snprintf(value, size, "%s", line.value);
            return true;
        }
    return false;
}
