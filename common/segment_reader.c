#include "common/segment_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COPY_ATTEMPTS = 100 };

/*
 * These checks cover every assumption of later accesses. They use private copies of header and
 * sections only. They return NULL, or what is wrong.
 */

static bool section_fits(const struct segment_section *section, uint64_t size)
{
    return section->count > 0 && section->stride > 0 && section->entry_size <= section->stride &&
           section->stride <= size && section->offset <= size &&
           section->count - 1 <= (size - section->offset) / section->stride &&
           (section->count - 1) * section->stride + section->entry_size <= size - section->offset;
}

/* Readers visit the entries of KIND, if it is there, by the numbers of the SLOTS of its writers. */
static bool has_entry_per_slot(const struct segment *map, enum segment_kind kind, uint32_t slots)
{
    uint32_t count = segment_count(map, kind);

    return count == 0 || count == slots;
}

/* True if there are hosts without counts, entries of the cache without hits, or the reverse. */
static bool lacks_counterpart(const struct segment *map)
{
    return (segment_count(map, SEGMENT_HOSTS) > 0) !=
               (segment_count(map, SEGMENT_HOST_COUNTS) > 0) ||
           (segment_count(map, SEGMENT_CACHE) > 0) != (segment_count(map, SEGMENT_HITS) > 0);
}

static uint64_t earlier_bytes(const struct segment_header *header)
{
    return header->metric_count * sizeof(uint64_t) +
           (header->outcome_count + UINT64_C(1)) * sizeof(struct histogram);
}

static bool tables_fit_slots(const struct segment *map, uint32_t threads, uint32_t workers)
{
    return has_entry_per_slot(map, SEGMENT_RINGS, threads) &&
           has_entry_per_slot(map, SEGMENT_NAMES, threads) &&
           has_entry_per_slot(map, SEGMENT_HOST_COUNTS, threads) &&
           has_entry_per_slot(map, SEGMENT_CACHE, workers) &&
           has_entry_per_slot(map, SEGMENT_QUEUE_WAITS, workers) &&
           has_entry_per_slot(map, SEGMENT_CLIENTS, workers);
}

static const char *check_sizes(const struct segment *map)
{
    const struct segment_header *header = &map->header;
    uint32_t workers = segment_count(map, SEGMENT_WORKERS);
    uint32_t threads = segment_count(map, SEGMENT_THREADS);
    uint32_t hosts = segment_count(map, SEGMENT_HOSTS);
    enum { OPTIONAL, REQUIRED };
    const struct {
        int need;
        uint64_t entry_size; /* at least, as the count */
        uint32_t count, alignment;
    } rules[SEGMENT_KIND_COUNT] = {
        [SEGMENT_METRICS] = {REQUIRED, sizeof(struct segment_metric), header->metric_count, 8},
        [SEGMENT_STATES] = {REQUIRED, sizeof(struct segment_state), header->state_count, 8},
        [SEGMENT_WORKER_SLOTS] = {REQUIRED, sizeof(struct segment_worker_slot), workers, 8},
        [SEGMENT_THREAD_SLOTS] = {REQUIRED, sizeof(struct segment_thread_slot), threads, 8},
        [SEGMENT_MASTER] = {REQUIRED, offsetof(struct segment_master, metrics), 1, CACHE_LINE},
        [SEGMENT_WORKERS] = {REQUIRED, CACHE_LINE, 1, CACHE_LINE},
        [SEGMENT_THREADS] = {REQUIRED, offsetof(struct segment_thread, metrics), 1, CACHE_LINE},
        [SEGMENT_LATENCY] = {REQUIRED, header->outcome_count * sizeof(struct histogram), threads,
                             8},
        [SEGMENT_RINGS] = {OPTIONAL, log_ring_bytes(1), threads, CACHE_LINE},
        [SEGMENT_EVENTS] = {OPTIONAL, event_ring_bytes(1), 1, 8},
        [SEGMENT_NAMES] = {OPTIONAL, SEGMENT_THREAD_NAME, threads, 8},
        [SEGMENT_QUEUE_WAITS] = {OPTIONAL, sizeof(struct histogram), workers, 8},
        [SEGMENT_HISTORY] = {OPTIONAL,
                             sizeof(struct segment_sample) +
                                 header->metric_count * sizeof(uint64_t) + threads,
                             SEGMENT_HISTORY_SAMPLES, 8},
        [SEGMENT_CONFIG] = {OPTIONAL, SEGMENT_CONFIG_BYTES, 1, 8},
        [SEGMENT_RATE] = {OPTIONAL, sizeof(struct segment_rate), 1, CACHE_LINE},
        [SEGMENT_ADDRESS_LIMITS] = {OPTIONAL, sizeof(struct segment_address_limits), 1, CACHE_LINE},
        [SEGMENT_CHALLENGE] = {OPTIONAL, sizeof(struct segment_challenge), 1, CACHE_LINE},
        [SEGMENT_CERTIFICATES] = {OPTIONAL, sizeof(struct segment_certificates), 1, CACHE_LINE},
        [SEGMENT_HOSTS] = {OPTIONAL, sizeof(struct segment_host), 1, 8},
        [SEGMENT_LOGGER] = {OPTIONAL, offsetof(struct segment_logger, metrics), 1, CACHE_LINE},
        [SEGMENT_LOG_CURSORS] = {OPTIONAL, sizeof(struct log_ring_cursor), threads, CACHE_LINE},
        [SEGMENT_EVENT_CURSORS] = {OPTIONAL, sizeof(uint64_t), SEGMENT_RING_WORKERS + workers, 8},
        [SEGMENT_LOGGER_EVENTS] = {OPTIONAL, event_ring_bytes(1), 1, 8},
        [SEGMENT_RATE_BUCKETS] = {OPTIONAL, sizeof(struct segment_rate_bucket), 1, CACHE_LINE},
        [SEGMENT_CACHE] = {OPTIONAL, header->cache_entries * sizeof(struct segment_cache_entry),
                           workers, 8},
        [SEGMENT_CLIENTS] = {OPTIONAL, SEGMENT_CLIENTS_PER_WORKER * sizeof(struct segment_client),
                             workers, 8},
        [SEGMENT_WORKER_EVENTS] = {OPTIONAL, event_ring_bytes(1), workers, 8},
        [SEGMENT_HITS] = {OPTIONAL, header->cache_entries * sizeof(struct segment_hits), threads,
                          8},
        [SEGMENT_HOST_COUNTS] = {OPTIONAL, hosts * sizeof(struct segment_host_counts), threads,
                                 CACHE_LINE},
        [SEGMENT_EARLIER] = {OPTIONAL, earlier_bytes(header), threads + 1, 8},
        [SEGMENT_EARLIER_HOSTS] = {OPTIONAL, sizeof(struct segment_host_counts), hosts, CACHE_LINE},
        [SEGMENT_MAINTENANCE] = {OPTIONAL, sizeof(struct segment_maintenance), 1, CACHE_LINE},
        [SEGMENT_PROCESSES] = {OPTIONAL, sizeof(struct segment_process),
                               SEGMENT_PROCESS_WORKERS + workers, 8},
    };

    if (lacks_counterpart(map))
        return "a section is missing";
    for (int kind = 0; kind < SEGMENT_KIND_COUNT; kind++) {
        const struct segment_section *section = &map->section[kind];

        if (section->count == 0 && rules[kind].need == REQUIRED)
            return "a section is missing";
        if (section->count == 0 || rules[kind].alignment == 0) /* absent, or of no known kind */
            continue;
        if (section->entry_size < rules[kind].entry_size)
            return "the entries of a section are too small";
        if (section->count < rules[kind].count)
            return "a table is smaller than it should be";
        if (section->offset % rules[kind].alignment != 0 ||
            section->stride % rules[kind].alignment != 0)
            return "a section is not aligned";
    }
    if (!tables_fit_slots(map, threads, workers))
        return "a table has more entries than there are slots";
    if (threads % workers != 0)
        return "worker slots differ in their number of thread slots";
    return NULL;
}

static bool ends_with_nul(const char *text, size_t size)
{
    return memchr(text, '\0', size) != NULL;
}

static const char *check_header(struct segment *map)
{
    struct segment_header *header = &map->header;

    if (atomic_load_explicit(&segment_shared_header(map)->ready, memory_order_acquire) == 0)
        return segment_shared_header(map)->magic == SEGMENT_MAGIC
                   ? "the server is still starting"
                   : "it is not a webserverd segment";
    memcpy(header, map->base, sizeof(*header));
    if (header->magic != SEGMENT_MAGIC)
        return "it is not a webserverd segment";
    if (header->major != SEGMENT_MAJOR)
        return "its major version is not supported";
    header->listening[sizeof(header->listening) - 1] = '\0'; /* may change while it is copied */
    if (header->total_size > map->size || header->section_count > SEGMENT_SECTIONS_MAX ||
        !ends_with_nul(header->name, sizeof(header->name)) ||
        !ends_with_nul(header->version, sizeof(header->version)) ||
        !ends_with_nul(header->socket_path, sizeof(header->socket_path)))
        return "it is damaged: invalid sizes";
    for (uint32_t i = 0; i < header->section_count; i++) {
        const struct segment_section *section = &header->section[i];

        if (!section_fits(section, map->size))
            return "it is damaged: a section ends beyond its end";
        if (section->kind < SEGMENT_KIND_COUNT)
            map->section[section->kind] = *section;
    }
    return check_sizes(map);
}

/* Reads line I of METRICS if it is a valid one of the metric KNOWN. */
static bool read_metric_line(struct segment_reader *reader, uint32_t i, int known)
{
    const struct segment *map = &reader->map;
    const struct metric_info *info = &metric_table[known];
    uint64_t entry_size = map->section[segment_blocks[info->scope].section].entry_size;
    struct segment_metric line;

    memcpy(&line, segment_at(map, SEGMENT_METRICS, i), sizeof(line));
    if (strncmp(line.name, info->name, sizeof(line.name)) != 0 || line.scope != info->scope ||
        line.offset % sizeof(uint64_t) != 0 || line.offset + sizeof(uint64_t) > entry_size)
        return false;
    reader->metric[known].line = (int32_t)i;
    reader->metric[known].offset = line.offset;
    return true;
}

/*
 * In a block of webserverd the metric of line I is word I, and the activities of offload threads end
 * where the first one would be.
 */
static void find_offload(struct segment_reader *reader)
{
    const int64_t size = SEGMENT_OFFLOAD_THREADS * sizeof(struct segment_activity);
    int32_t line = reader->metric[METRIC_offload_jobs].line;
    int64_t metrics = reader->metric[METRIC_offload_jobs].offset - line * (int64_t)sizeof(uint64_t);

    reader->offload_offset = line >= 0 && metrics >= size ? (uint32_t)(metrics - size) : 0;
}

/* A server of this version lists a metric in its own line; only another one needs a search. */
static void find_metrics(struct segment_reader *reader)
{
    uint32_t count = reader->map.header.metric_count;

    for (int known = 0; known < METRIC_COUNT; known++) {
        bool found = (uint32_t)known < count && read_metric_line(reader, (uint32_t)known, known);

        for (uint32_t i = 0; i < count && !found; i++)
            found = read_metric_line(reader, i, known);
        if (!found)
            reader->metric[known].line = -1;
    }
    find_offload(reader);
}

static const char *error_text(void)
{
    const char *text = strerror(errno);

    return text != NULL ? text : "unknown error";
}

/* Maps the file of FD. Returns NULL or what is wrong. */
static const char *map_file(struct segment_reader *reader, int fd)
{
    struct stat status;
    void *memory;

    if (fstat(fd, &status) != 0)
        return error_text();
    if ((size_t)status.st_size < sizeof(struct segment_header))
        return "the server is still starting";
    reader->device = status.st_dev;
    reader->inode = status.st_ino;
    reader->map.size = (size_t)status.st_size;
    memory = mmap(NULL, reader->map.size, PROT_READ, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return error_text();
    reader->map.base = memory;
    return check_header(&reader->map);
}

enum segment_attach_result segment_attach(struct segment_reader *reader, const char *name,
                                          char *why, size_t size)
{
    char path[INSTANCE_PATH_MAX], what[INSTANCE_PATH_MAX + 64];
    const char *problem;
    struct stat status;
    int fd;

    memset(reader, 0, sizeof(*reader));
    reader->map.fd = reader->map.read_fd = -1;
    if (!instance_name_valid(name)) {
        snprintf(why, size, "invalid instance name '%s' (letters, digits, '.', '_' and '-')", name);
        return SEGMENT_INVALID;
    }
    if (instance_find_segment(name, path, sizeof(path), why, size) != 0) {
        if (why[0] != '\0')
            return SEGMENT_FOREIGN;
        snprintf(why, size, "no webserverd named '%s' is running", name);
        return SEGMENT_ABSENT;
    }
    fd = shm_open(path, O_RDONLY | O_CLOEXEC, 0);
    snprintf(what, sizeof(what), "the shared memory " INSTANCE_SHARED_MEMORY "%s", path);
    if (fd >= 0 &&
        (fstat(fd, &status) != 0 || !instance_owner_trusted(status.st_uid, what, why, size))) {
        close(fd);
        return SEGMENT_FOREIGN;
    }
    problem = fd < 0 ? error_text() : map_file(reader, fd);
    if (fd >= 0)
        close(fd);
    if (problem != NULL) {
        snprintf(why, size, "cannot read %s: %s", what, problem);
        segment_detach(reader);
        return SEGMENT_INVALID;
    }
    find_metrics(reader);
    return SEGMENT_ATTACHED;
}

const char *segment_attach_copy(struct segment_reader *reader, void *memory, size_t size)
{
    const char *problem;

    memset(reader, 0, sizeof(*reader));
    reader->map.fd = reader->map.read_fd = -1;
    if (size < sizeof(struct segment_header))
        return "it is shorter than the header";
    reader->map.base = memory;
    reader->map.size = size;
    problem = check_header(&reader->map);
    if (problem == NULL)
        find_metrics(reader);
    return problem;
}

void segment_detach(struct segment_reader *reader)
{
    if (reader->map.base != NULL)
        munmap(reader->map.base, reader->map.size);
    reader->map.base = NULL;
}

static bool name_is_reused(const struct segment_reader *reader)
{
    char file[INSTANCE_PATH_MAX], path[2 * INSTANCE_PATH_MAX], why[256];
    struct stat status;

    if (instance_find_segment(reader->map.header.name, file, sizeof(file), why, sizeof(why)) != 0)
        return false;
    snprintf(path, sizeof(path), INSTANCE_SHARED_MEMORY "%s", file);
    return lstat(path, &status) == 0 &&
           (status.st_ino != reader->inode || status.st_dev != reader->device);
}

enum segment_health segment_health(const struct segment_reader *reader, uint64_t now_monotonic_ns)
{
    const struct segment_header *header = &reader->map.header;
    uint64_t heartbeat =
        atomic_load_explicit(&segment_master(&reader->map)->heartbeat_ns, memory_order_relaxed);

    if (name_is_reused(reader))
        return SEGMENT_REPLACED;
    if (atomic_load_explicit(&segment_shared_header(&reader->map)->stopped, memory_order_acquire) !=
        0)
        return SEGMENT_STOPPED;
    if (process_has_ended(header->master_pid, header->start_ticks))
        return SEGMENT_DEAD;
    return heartbeat > 0 && now_monotonic_ns > heartbeat + SEGMENT_SILENT_NS ? SEGMENT_SILENT
                                                                             : SEGMENT_ALIVE;
}

bool segment_has_ended(const struct segment_reader *reader)
{
    const struct segment_header *header = &reader->map.header;

    return atomic_load_explicit(&segment_shared_header(&reader->map)->stopped,
                                memory_order_acquire) != 0 ||
           process_has_ended(header->master_pid, header->start_ticks);
}

uint64_t segment_reader_metric(const struct segment_reader *reader, const void *block,
                               enum metric metric)
{
    const char *value = (const char *)block + reader->metric[metric].offset;

    return reader->metric[metric].line < 0
               ? 0
               : atomic_load_explicit((const _Atomic uint64_t *)(const void *)value,
                                      memory_order_relaxed);
}

uint64_t segment_reader_earlier(const struct segment_reader *reader, uint32_t i, enum metric metric)
{
    int32_t line = reader->metric[metric].line;

    return line >= 0 && segment_has_earlier(&reader->map, i)
               ? metric_get(segment_earlier(&reader->map, i), (enum metric)line)
               : 0;
}

uint64_t segment_reader_sum(const struct segment_reader *reader, enum metric metric)
{
    return reader->metric[metric].line < 0
               ? 0
               : segment_sum_at(&reader->map, metric, (uint32_t)reader->metric[metric].line,
                                reader->metric[metric].offset);
}

void segment_reader_find_unpublished(const struct segment_reader *reader,
                                     const uint64_t sums[METRIC_COUNT], bool absent[METRIC_COUNT])
{
    static const struct {
        enum metric metric, used, also_used; /* METRIC is published if one of the others is not 0 */
    } parts[] = {
        {METRIC_connections_accepted, METRIC_connections_accepted, METRIC_connections_closed},
        {METRIC_connections_closed, METRIC_connections_accepted, METRIC_connections_closed},
        {METRIC_connections_open, METRIC_connections_accepted, METRIC_connections_closed},
        {METRIC_cache_hits, METRIC_cache_hits, METRIC_cache_misses},
        {METRIC_cache_misses, METRIC_cache_hits, METRIC_cache_misses},
        {METRIC_queue_length, METRIC_queue_length, METRIC_queue_capacity},
        {METRIC_queue_capacity, METRIC_queue_length, METRIC_queue_capacity},
        {METRIC_queue_taken, METRIC_queue_taken, METRIC_queue_wait},
        {METRIC_queue_wait, METRIC_queue_taken, METRIC_queue_wait},
        {METRIC_queue_dropped, METRIC_queue_dropped, METRIC_queue_dropped},
        {METRIC_lock_waits, METRIC_lock_waits, METRIC_lock_wait},
        {METRIC_lock_wait, METRIC_lock_waits, METRIC_lock_wait},
    };
    bool is_webserverd = segment_count(&reader->map, SEGMENT_CONFIG) > 0;

    for (int i = 0; i < METRIC_COUNT; i++)
        absent[i] = reader->metric[i].line < 0;
    for (size_t i = 0; i < STATUS_METRICS; i++) /* a status that is not listed is never sent */
        absent[status_metrics[i].metric] = false;
    absent[METRIC_connections_open] = false; /* also in the blocks of workers */
    for (size_t i = 0; i < ARRAY_LENGTH(parts) && !is_webserverd; i++)
        if (sums[parts[i].used] == 0 && sums[parts[i].also_used] == 0)
            absent[parts[i].metric] = true;
}

/*
 * Copies retry until the sequence is even and unchanged. A writer that died during a change
 * leaves it odd forever, so the number of attempts is limited.
 */
static bool sequence_held(const _Atomic uint64_t *sequence, uint64_t before)
{
    return (before & 1) == 0 && atomic_load_explicit(sequence, memory_order_acquire) == before;
}

bool segment_read_activity(const struct segment_activity *activity, struct activity_copy *copy)
{
    for (int attempt = 0; attempt < COPY_ATTEMPTS; attempt++) {
        uint64_t before = atomic_load_explicit(&activity->sequence, memory_order_acquire);

        copy->since_ns = atomic_load_explicit(&activity->since_ns, memory_order_acquire);
        copy->state = atomic_load_explicit(&activity->state, memory_order_acquire);
        copy->tid = atomic_load_explicit(&activity->tid, memory_order_acquire);
        segment_load_text(activity->work, SEGMENT_WORK_WORDS, copy->work);
        if (sequence_held(&activity->sequence, before))
            return true;
    }
    return false;
}

bool segment_read_challenge(const struct segment *segment, struct challenge_copy *copy)
{
    const struct segment_challenge *pending = segment_challenge(segment);

    for (int attempt = 0; attempt < COPY_ATTEMPTS; attempt++) {
        uint64_t before = atomic_load_explicit(&pending->sequence, memory_order_acquire);

        segment_load_text(pending->token, SEGMENT_TOKEN_WORDS, copy->token);
        segment_load_text(pending->thumbprint, SEGMENT_THUMBPRINT_WORDS, copy->thumbprint);
        segment_load_text(pending->name, SEGMENT_HOST_NAME_WORDS, copy->name);
        copy->kind =
            (enum challenge_kind)atomic_load_explicit(&pending->kind, memory_order_acquire);
        if (sequence_held(&pending->sequence, before))
            return copy->token[0] != '\0';
    }
    return false;
}

bool segment_read_certificate(const struct segment *segment, uint32_t number,
                              struct certificate_copy *copy)
{
    const struct segment_certificate *entry;

    if (segment_count(segment, SEGMENT_CERTIFICATES) == 0 || number >= SEGMENT_CERTIFICATES_MAX ||
        number >= atomic_load_explicit(&segment_certificates(segment)->count, memory_order_acquire))
        return false;
    entry = &segment_certificates(segment)->entry[number];
    for (int attempt = 0; attempt < COPY_ATTEMPTS; attempt++) {
        uint64_t before = atomic_load_explicit(&entry->sequence, memory_order_acquire);

        copy->not_before_s = atomic_load_explicit(&entry->not_before_s, memory_order_acquire);
        copy->not_after_s = atomic_load_explicit(&entry->not_after_s, memory_order_acquire);
        copy->next_attempt_s = atomic_load_explicit(&entry->next_attempt_s, memory_order_acquire);
        copy->failures = atomic_load_explicit(&entry->failures, memory_order_acquire);
        segment_load_text(entry->names, SEGMENT_HOST_NAME_WORDS, copy->names);
        segment_load_text(entry->issuer, SEGMENT_ISSUER_WORDS, copy->issuer);
        segment_load_text(entry->error, SEGMENT_FAILURE_WORDS, copy->error);
        if (sequence_held(&entry->sequence, before))
            return true;
    }
    return false;
}

bool segment_read_cache(const struct segment_cache_entry *entry, struct cache_copy *copy)
{
    for (int attempt = 0; attempt < COPY_ATTEMPTS; attempt++) {
        uint64_t before = atomic_load_explicit(&entry->sequence, memory_order_acquire);

        copy->id = atomic_load_explicit(&entry->id, memory_order_acquire);
        copy->stored_ns = atomic_load_explicit(&entry->stored_ns, memory_order_acquire);
        copy->bytes = atomic_load_explicit(&entry->bytes, memory_order_acquire);
        copy->state = atomic_load_explicit(&entry->state, memory_order_acquire);
        segment_load_text(entry->path, SEGMENT_CACHE_PATH_WORDS, copy->path);
        if (sequence_held(&entry->sequence, before))
            return copy->id != 0;
    }
    return false;
}

uint64_t segment_samples(const struct segment_reader *reader)
{
    return segment_count(&reader->map, SEGMENT_HISTORY) == 0
               ? 0
               : atomic_load_explicit(&segment_master(&reader->map)->history_next,
                                      memory_order_acquire);
}

static void copy_sample(const struct segment_reader *reader, const struct segment_sample *sample,
                        struct sample_copy *copy, char *letters, size_t letters_size)
{
    const char *states = (const char *)&sample->values[reader->map.header.metric_count];
    size_t threads = segment_count(&reader->map, SEGMENT_THREADS);

    copy->time_ns = atomic_load_explicit(&sample->time_ns, memory_order_acquire);
    copy->latency_max_ns = atomic_load_explicit(&sample->latency_max_ns, memory_order_acquire);
    for (size_t i = 0; i < HISTOGRAM_COARSE_BUCKETS; i++)
        copy->latency[i] = atomic_load_explicit(&sample->latency[i], memory_order_acquire);
    for (size_t i = 0; i < METRIC_COUNT; i++) {
        int32_t line = reader->metric[i].line;

        copy->values[i] =
            line < 0 ? 0 : atomic_load_explicit(&sample->values[line], memory_order_relaxed);
    }
    for (size_t i = 0; letters != NULL && i < threads && i < letters_size; i++)
        letters[i] =
            (char)atomic_load_explicit((const _Atomic char *)&states[i], memory_order_acquire);
}

bool segment_read_sample(const struct segment_reader *reader, uint64_t number,
                         struct sample_copy *copy, char *letters, size_t letters_size)
{
    const struct segment_sample *sample = segment_sample(&reader->map, number);

    if (segment_count(&reader->map, SEGMENT_HISTORY) == 0 ||
        atomic_load_explicit(&sample->number, memory_order_acquire) != number + 1)
        return false;
    copy_sample(reader, sample, copy, letters, letters_size);
    return atomic_load_explicit(&sample->number, memory_order_acquire) == number + 1;
}

uint64_t sample_percentile(const struct sample_copy *sample, double percent)
{
    uint64_t bucket[HISTOGRAM_COARSE_BUCKETS];

    for (size_t i = 0; i < HISTOGRAM_COARSE_BUCKETS; i++)
        bucket[i] = sample->latency[i];
    return histogram_coarse_percentile(bucket, sample->latency_max_ns, percent);
}

/* Hosts */

static uint64_t load_relaxed(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

static void add_host_counts(struct host_totals *totals, const struct segment_host_counts *counts)
{
    uint64_t max = load_relaxed(&counts->latency_max_ns);

    if (atomic_load_explicit(&counts->id, memory_order_acquire) != totals->id)
        return;
    for (int i = 0; i < HOST_METRIC_COUNT; i++)
        totals->values[i] += load_relaxed(&counts->values[i]);
    for (int i = 0; i < HISTOGRAM_COARSE_BUCKETS; i++)
        totals->latency[i] += load_relaxed(&counts->latency[i]);
    if (max > totals->latency_max_ns)
        totals->latency_max_ns = max;
}

uint64_t host_name_read(const struct segment *segment, uint32_t entry, char *name)
{
    const struct segment_host *host;
    uint64_t id;

    if (entry >= segment_count(segment, SEGMENT_HOSTS))
        return 0;
    host = segment_host(segment, entry);
    id = atomic_load_explicit(&host->id, memory_order_acquire);
    if (id == 0)
        return 0;
    segment_load_text(host->name, SEGMENT_HOST_NAME_WORDS, name);
    /* otherwise a reload has given the entry to another host meanwhile */
    return atomic_load_explicit(&host->id, memory_order_relaxed) == id ? id : 0;
}

bool host_totals_read(const struct segment *segment, uint32_t entry, struct host_totals *totals)
{
    const struct segment_host_counts *earlier = segment_earlier_host(segment, entry);

    *totals = (struct host_totals){.entry = entry};
    totals->id = host_name_read(segment, entry, totals->name);
    if (totals->id == 0)
        return false;
    for (uint32_t i = 0; i < segment_count(segment, SEGMENT_HOST_COUNTS); i++)
        if (segment_thread_reserved(segment, i))
            add_host_counts(totals, &segment_host_counts_of(segment, i)[entry]);
    if (earlier != NULL)
        add_host_counts(totals, earlier);
    return true;
}

struct host_totals *host_totals_read_all(const struct segment *segment, size_t *count)
{
    struct host_totals *all;
    size_t room = 0;

    *count = 0;
    for (uint32_t i = 0; i < segment_count(segment, SEGMENT_HOSTS); i++)
        room += load_relaxed(&segment_host(segment, i)->id) != 0;
    all = room > 0 ? malloc(room * sizeof(*all)) : NULL;
    for (uint32_t i = 0; all != NULL && i < segment_count(segment, SEGMENT_HOSTS) && *count < room;
         i++)
        *count += host_totals_read(segment, i, &all[*count]);
    return all;
}

uint64_t host_totals_requests(const struct host_totals *totals)
{
    return totals->values[HOST_METRIC_responses_2xx] + totals->values[HOST_METRIC_responses_3xx] +
           totals->values[HOST_METRIC_responses_4xx] + totals->values[HOST_METRIC_responses_5xx];
}

uint64_t host_totals_percentile(const struct host_totals *totals, double percent)
{
    return histogram_coarse_percentile(totals->latency, totals->latency_max_ns, percent);
}
