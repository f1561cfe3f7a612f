/*
 * The counters of the old master of an upgrade, whose totals the new one continues: they are in
 * EARLIER of its segment. Before a reader finds the new segment, they are copied from that of the old
 * master, whose workers still finish responses and count them; so they are copied again each second
 * and before a reply with totals, and the last time when none of its processes is left.
 *
 * To a client that requests metrics from one master and then from the other, no counter falls: the
 * metrics process of the new master starts when that of the old one has sent its last response and
 * the counters have been copied after it.
 */
#include "daemon/master/internal.h"

#include "common/clock.h"
#include "common/segment_writer.h"
#include "daemon/base/events.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What goes into one entry of EARLIER. */
struct earlier {
    uint64_t counters[METRIC_COUNT];
    struct histogram latency[OUTCOME_COUNT], waits;
};

/* The entry of EARLIER for entry I of the old segment's; both have them in the order of slots. */
static uint32_t entry_for(const struct segment *segment, const struct segment *old, uint32_t i)
{
    uint32_t old_threads = segment_threads_per_worker(old);
    uint32_t threads = segment_threads_per_worker(segment);
    uint32_t worker, thread;

    if (i == 0 || old_threads == 0)
        return 0;
    worker = (i - 1) / old_threads;
    thread = (i - 1) % old_threads;
    return worker >= segment_count(segment, SEGMENT_WORKERS) || thread >= threads
               ? 0
               : worker * threads + thread + 1;
}

static bool has_counters(const struct segment *old, uint32_t i)
{
    return i == 0 || segment_thread_reserved(old, i - 1) || segment_has_earlier(old, i);
}

static void add_counters(struct earlier *to, const struct segment_reader *old, const void *block,
                         enum metric_scope scope)
{
    for (int i = 0; i < METRIC_COUNT; i++)
        if (metric_table[i].scope == scope && metric_table[i].kind == KIND_COUNTER)
            to->counters[i] += segment_reader_metric(old, block, (enum metric)i);
}

static void add_thread(struct earlier *to, const struct segment_reader *old, uint32_t slot)
{
    const struct segment *segment = &old->map;
    uint32_t threads = segment_threads_per_worker(segment), worker = slot / threads;

    if (segment_thread_reserved(segment, slot)) {
        add_counters(to, old, segment_thread(segment, slot), SCOPE_THREAD);
        for (uint32_t i = 0; i < OUTCOME_COUNT && i < segment->header.outcome_count; i++)
            histogram_add(&to->latency[i], &segment_latency_of(segment, slot)[i]);
    }
    if (slot % threads == 0 && segment_worker_reserved(segment, worker)) {
        add_counters(to, old, segment_worker(segment, worker), SCOPE_WORKER);
        if (segment_count(segment, SEGMENT_QUEUE_WAITS) > 0)
            histogram_add(&to->waits, segment_queue_waits_of(segment, worker));
    }
}

/* Adds the counters that the old master has in its own EARLIER. */
static void add_earlier(struct earlier *to, const struct segment_reader *old, uint32_t i)
{
    const struct segment *segment = &old->map;
    uint32_t outcomes = segment->header.outcome_count;

    if (!segment_has_earlier(segment, i))
        return;
    for (int metric = 0; metric < METRIC_COUNT; metric++)
        to->counters[metric] += segment_reader_earlier(old, i, (enum metric)metric);
    for (uint32_t outcome = 0; outcome < OUTCOME_COUNT && outcome < outcomes; outcome++)
        histogram_add(&to->latency[outcome], &segment_earlier_latency(segment, i)[outcome]);
    histogram_add(&to->waits, segment_earlier_latency(segment, i) + outcomes);
}

/* Adds entry I of the old segment. */
static void add_slot(struct earlier *to, const struct segment_reader *old, uint32_t i)
{
    if (i > 0)
        add_thread(to, old, i - 1);
    if (i == 0)
        add_counters(to, old, segment_master(&old->map), SCOPE_MASTER);
    if (i == 0 && segment_count(&old->map, SEGMENT_LOGGER) > 0)
        add_counters(to, old, segment_logger(&old->map), SCOPE_LOGGER);
    add_earlier(to, old, i);
}

static void clear_earlier(struct earlier *earlier)
{
    memset(earlier->counters, 0, sizeof(earlier->counters));
    for (int i = 0; i < OUTCOME_COUNT; i++)
        histogram_reset(&earlier->latency[i]);
    histogram_reset(&earlier->waits);
}

/* No word of TO ever falls, so that readers, which add meanwhile, see no counter fall. */
static void store_histogram(struct histogram *to, const struct histogram *from)
{
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        atomic_store_explicit(&to->bucket[i], from->bucket[i], memory_order_relaxed);
    atomic_store_explicit(&to->sum, from->sum, memory_order_relaxed);
    atomic_store_explicit(&to->max, from->max, memory_order_relaxed);
    atomic_store_explicit(&to->used_from, from->used_from, memory_order_relaxed);
    atomic_store_explicit(&to->used_to, from->used_to, memory_order_relaxed);
}

static void store_earlier(const struct segment *segment, uint32_t i, const struct earlier *from)
{
    struct histogram *latency = segment_earlier_latency(segment, i);

    for (int metric = 0; metric < METRIC_COUNT; metric++)
        metric_set(segment_earlier(segment, i), (enum metric)metric, from->counters[metric]);
    for (int outcome = 0; outcome < OUTCOME_COUNT; outcome++)
        store_histogram(&latency[outcome], &from->latency[outcome]);
    store_histogram(&latency[OUTCOME_COUNT], &from->waits);
}

/* Hosts, by name */

static void count_host(const struct segment *segment, const struct segment *old,
                       const struct earlier_host *host)
{
    struct segment_host_counts *counts = segment_earlier_host(segment, host->to);
    struct host_totals totals;

    if (!host_totals_read(old, host->from, &totals))
        return;
    for (int i = 0; i < HOST_METRIC_COUNT; i++)
        atomic_store_explicit(&counts->values[i], totals.values[i], memory_order_relaxed);
    for (int i = 0; i < HISTOGRAM_COARSE_BUCKETS; i++)
        atomic_store_explicit(&counts->latency[i], totals.latency[i], memory_order_relaxed);
    atomic_store_explicit(&counts->latency_max_ns, totals.latency_max_ns, memory_order_relaxed);
    atomic_store_explicit(&counts->id, host->id, memory_order_release);
}

/* The entry of the host with NAME; that with number NEAR is tried first. Its room: there is none. */
static uint32_t find_host_place(const struct host_table *table, const char *name, uint32_t near)
{
    if (near < table->room && table->entry[near].id != 0 &&
        strcmp(table->entry[near].name, name) == 0)
        return near;
    for (uint32_t i = 0; i < table->room; i++)
        if (table->entry[i].id != 0 && strcmp(table->entry[i].name, name) == 0)
            return i;
    return table->room;
}

static int match_hosts(struct master *master)
{
    struct predecessor *predecessor = &master->upgrade.predecessor;
    const struct segment *old = &predecessor->reader.map;
    const struct host_table *table = &master->hosts;
    uint32_t room = segment_count(old, SEGMENT_HOSTS), used = 0;
    char name[HOST_NAME_BYTES];

    if (room == 0 || table->room == 0)
        return 0;
    predecessor->host = calloc(room, sizeof(*predecessor->host));
    if (predecessor->host == NULL)
        return ENOMEM;
    for (uint32_t i = 0; i < room; i++) {
        uint32_t to =
            host_name_read(old, i, name) != 0 ? find_host_place(table, name, i) : table->room;

        if (to == table->room)
            continue;
        predecessor->host[predecessor->host_count++] =
            (struct earlier_host){.from = i, .to = to, .id = table->entry[to].id};
        used = to >= used ? to + 1 : used;
    }
    return used > 0 ? segment_reserve_earlier_hosts(&master->segment, used) : 0;
}

/* The whole */

void predecessor_count(struct master *master)
{
    static struct earlier one,
        rest; /* static, because they are large and the master has one thread */
    const struct predecessor *predecessor = &master->upgrade.predecessor;
    const struct segment_reader *old = &predecessor->reader;
    struct segment *segment = &master->segment;

    if (old->map.base == NULL)
        return;
    clear_earlier(&rest);
    for (uint32_t i = 0; i <= segment_count(&old->map, SEGMENT_THREADS); i++) {
        uint32_t to = entry_for(segment, &old->map, i);

        /* The old master may have reserved a slot since the start: now or later there is memory. */
        if (!has_counters(&old->map, i) || segment_reserve_earlier(segment, to) != 0)
            continue;
        if (to == 0) {
            add_slot(&rest, old, i);
            continue;
        }
        clear_earlier(&one);
        add_slot(&one, old, i);
        store_earlier(segment, to, &one);
    }
    store_earlier(segment, 0, &rest);
    for (size_t i = 0; i < predecessor->host_count; i++)
        count_host(segment, &old->map, &predecessor->host[i]);
}

static int reserve_entries(struct segment *segment, const struct segment *old)
{
    int failed = segment_reserve_earlier(segment, 0);

    for (uint32_t i = 1; failed == 0 && i <= segment_count(old, SEGMENT_THREADS); i++)
        if (has_counters(old, i))
            failed = segment_reserve_earlier(segment, entry_for(segment, old, i));
    return failed;
}

int predecessor_attach(struct master *master, char *why, size_t size)
{
    struct predecessor *predecessor = &master->upgrade.predecessor;
    struct segment_reader *old = &predecessor->reader;
    int failed;

    if (!master->upgrade.inheritance.pending)
        return 0;
    if (segment_attach(old, master->config->server_name, why, size) != SEGMENT_ATTACHED) {
        event_log(LEVEL_WARN, "the totals begin at 0, without those of the old master: %s", why);
        return 0;
    }
    failed = reserve_entries(&master->segment, &old->map);
    if (failed == 0)
        failed = match_hosts(master);
    if (failed != 0) {
        snprintf(why, size, "no shared memory for the totals of the old master: %s",
                 strerror(failed));
        return -1;
    }
    atomic_store(&segment_master(&master->segment)->counted_since_ns,
                 segment_counted_since_ns(&old->map));
    predecessor_count(master);
    maintenance_inherit(master);
    return 0;
}

void predecessor_free(struct predecessor *predecessor)
{
    segment_detach(&predecessor->reader);
    free(predecessor->host);
    predecessor->host = NULL;
    predecessor->host_count = 0;
}

static bool process_exists(pid_t pid)
{
    return pid > 0 && (kill(pid, 0) == 0 || errno != ESRCH);
}

/* True while the logger or a worker of the old master exists, which may have been killed. */
static bool still_counts(const struct segment *old)
{
    if (process_exists(atomic_load(&segment_master(old)->logger_pid)))
        return true;
    for (uint32_t i = 0; i < segment_count(old, SEGMENT_WORKERS); i++)
        if (process_exists(atomic_load(&segment_worker_slot(old, i)->pid)))
            return true;
    return false;
}

void predecessor_check(struct master *master)
{
    struct upgrade *upgrade = &master->upgrade;
    bool last;

    if (upgrade->predecessor.reader.map.base == NULL)
        return;
    last = upgrade->inheritance.link < 0 && !still_counts(&upgrade->predecessor.reader.map);
    predecessor_count(master);
    if (last)
        predecessor_free(&upgrade->predecessor);
}
