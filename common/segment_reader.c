#include "common/segment_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
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

/* The least size of an entry of each section, the least count, and the alignment of its entries. */
static const char *check_sizes(const struct segment *map)
{
    const struct segment_header *header = &map->header;
    uint64_t metrics = header->metric_count * sizeof(uint64_t);
    uint32_t workers = segment_count(map, SEGMENT_WORKERS);
    uint32_t threads = segment_count(map, SEGMENT_THREADS);
    uint32_t hosts = segment_count(map, SEGMENT_HOSTS);
    const struct {
        uint64_t entry_size;
        uint32_t count, alignment;
    } least[SEGMENT_KIND_COUNT] = {
        [SEGMENT_METRICS] = {sizeof(struct segment_metric), header->metric_count, 8},
        [SEGMENT_STATES] = {sizeof(struct segment_state), header->state_count, 8},
        [SEGMENT_WORKER_SLOTS] = {sizeof(struct segment_worker_slot), workers, 8},
        [SEGMENT_THREAD_SLOTS] = {sizeof(struct segment_thread_slot), threads, 8},
        [SEGMENT_MASTER] = {offsetof(struct segment_master, metrics) + metrics, 1, CACHE_LINE},
        [SEGMENT_EVENTS] = {event_ring_bytes(1), 1, 8},
        [SEGMENT_HISTORY] = {sizeof(struct segment_sample) + metrics + threads,
                             SEGMENT_HISTORY_SAMPLES, 8},
        [SEGMENT_CONFIG] = {SEGMENT_CONFIG_BYTES, 1, 8},
        [SEGMENT_RATE] = {offsetof(struct segment_rate, acme), 1, CACHE_LINE},
        [SEGMENT_LOGGER] = {offsetof(struct segment_logger, metrics) + metrics, 1, CACHE_LINE},
        [SEGMENT_LOG_CURSORS] = {sizeof(struct log_ring_cursor), threads, CACHE_LINE},
        [SEGMENT_EVENT_CURSORS] = {sizeof(uint64_t), SEGMENT_RING_WORKERS + workers, 8},
        [SEGMENT_LOGGER_EVENTS] = {event_ring_bytes(1), 1, 8},
        [SEGMENT_RATE_BUCKETS] = {sizeof(struct segment_rate_bucket), 1, CACHE_LINE},
        [SEGMENT_WORKERS] = {offsetof(struct segment_worker, metrics) + metrics, 1, CACHE_LINE},
        [SEGMENT_CACHE] = {header->cache_entries * sizeof(struct segment_cache_entry), workers, 8},
        [SEGMENT_CLIENTS] = {SEGMENT_CLIENTS_PER_WORKER * sizeof(struct segment_client), workers,
                             8},
        [SEGMENT_WORKER_EVENTS] = {event_ring_bytes(1), workers, 8},
        [SEGMENT_THREADS] = {offsetof(struct segment_thread, metrics) + metrics, 1, CACHE_LINE},
        [SEGMENT_LATENCY] = {sizeof(segment_latency), threads, 8},
        [SEGMENT_HITS] = {header->cache_entries * sizeof(struct segment_hits), threads, 8},
        [SEGMENT_RINGS] = {log_ring_bytes(1), threads, CACHE_LINE},
        [SEGMENT_HOSTS] = {sizeof(struct segment_host), 1, 8},
        [SEGMENT_HOST_COUNTS] = {hosts * sizeof(struct segment_host_counts), threads, CACHE_LINE},
    };

    if ((hosts > 0) != (segment_count(map, SEGMENT_HOST_COUNTS) > 0))
        return "a section is missing";
    for (int kind = SEGMENT_METRICS; kind < SEGMENT_KIND_COUNT; kind++) {
        if (kind > SEGMENT_KINDS_OF_MINOR_0 && map->section[kind].count == 0)
            continue;
        if (map->section[kind].count == 0)
            return "a section is missing";
        if (map->section[kind].entry_size < least[kind].entry_size)
            return "the entries of a section are too small";
        if (map->section[kind].count < least[kind].count)
            return "a table is smaller than it should be";
        if (map->section[kind].offset % least[kind].alignment != 0 ||
            map->section[kind].stride % least[kind].alignment != 0)
            return "a section is not aligned";
    }
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

/* The index of the metric in line I of the list, if it is KNOWN; otherwise -1. */
static int32_t metric_in_line(const struct segment_reader *reader, uint32_t i, int known)
{
    struct segment_metric line;

    memcpy(&line, segment_at(&reader->map, SEGMENT_METRICS, i), sizeof(line));
    return strncmp(line.name, metric_table[known].name, sizeof(line.name)) == 0 &&
                   line.index < reader->map.header.metric_count
               ? (int32_t)line.index
               : -1;
}

/* A server of this version lists a metric in its own line; only another one needs a search. */
static void find_metrics(struct segment_reader *reader)
{
    uint32_t count = reader->map.header.metric_count;

    for (int known = 0; known < METRIC_COUNT; known++) {
        int32_t at = (uint32_t)known < count ? metric_in_line(reader, (uint32_t)known, known) : -1;

        for (uint32_t i = 0; i < count && at < 0; i++)
            at = metric_in_line(reader, i, known);
        reader->metric_at[known] = at;
    }
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

static bool owner_is_trusted(int fd, const char *path, char *why, size_t size)
{
    char what[INSTANCE_PATH_MAX + 64];
    struct stat status;

    snprintf(what, sizeof(what), "the shared memory /dev/shm%s", path);
    return fstat(fd, &status) == 0 && instance_owner_trusted(status.st_uid, what, why, size);
}

enum segment_attach_result segment_attach(struct segment_reader *reader, const char *name,
                                          char *why, size_t size)
{
    char path[INSTANCE_PATH_MAX];
    const char *problem;
    int fd;

    memset(reader, 0, sizeof(*reader));
    reader->map.fd = reader->map.read_fd = -1;
    if (!instance_name_valid(name) || instance_segment_name(name, path, sizeof(path)) != 0) {
        snprintf(why, size, "invalid instance name '%s' (letters, digits, '.', '_' and '-')", name);
        return SEGMENT_INVALID;
    }
    fd = shm_open(path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0 && errno == ENOENT) {
        snprintf(why, size, "no webserverd named '%s' is running", name);
        return SEGMENT_ABSENT;
    }
    if (fd >= 0 && !owner_is_trusted(fd, path, why, size)) {
        close(fd);
        return SEGMENT_FOREIGN;
    }
    problem = fd < 0 ? error_text() : map_file(reader, fd);
    if (fd >= 0)
        close(fd);
    if (problem != NULL) {
        snprintf(why, size, "cannot read the shared memory /dev/shm%s: %s", path, problem);
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
    char path[INSTANCE_PATH_MAX];
    struct stat status;
    bool elsewhere;
    int fd;

    if (instance_segment_name(reader->map.header.name, path, sizeof(path)) != 0)
        return false;
    fd = shm_open(path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return false;
    elsewhere = fstat(fd, &status) == 0 &&
                (status.st_ino != reader->inode || status.st_dev != reader->device);
    close(fd);
    return elsewhere;
}

/* True if the pid does not exist or now belongs to another process. */
static bool master_is_gone(const struct segment_header *header)
{
    uint64_t ticks;

    if (kill(header->master_pid, 0) != 0 && errno == ESRCH)
        return true;
    ticks = process_start_ticks(header->master_pid);
    return ticks != 0 && ticks != header->start_ticks;
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
    if (master_is_gone(header))
        return SEGMENT_DEAD;
    return now_monotonic_ns > heartbeat + SEGMENT_SILENT_NS ? SEGMENT_SILENT : SEGMENT_ALIVE;
}

uint64_t segment_reader_metric(const struct segment_reader *reader, const segment_metrics metrics,
                               enum metric metric)
{
    int32_t at = reader->metric_at[metric];

    return at < 0 ? 0 : atomic_load_explicit(&metrics[at], memory_order_relaxed);
}

uint64_t segment_reader_sum(const struct segment_reader *reader, enum metric metric)
{
    int32_t at = reader->metric_at[metric];

    return at < 0 ? 0 : segment_sum_at(&reader->map, metric_table[metric].scope, (uint32_t)at);
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
    const struct segment_acme *acme = segment_acme(segment);
    const struct segment_validation *validation = &segment_rate(segment)->validation;

    for (int attempt = 0; attempt < COPY_ATTEMPTS; attempt++) {
        uint64_t before = atomic_load_explicit(&acme->sequence, memory_order_acquire);

        segment_load_text(acme->token, SEGMENT_TOKEN_WORDS, copy->token);
        segment_load_text(acme->thumbprint, SEGMENT_THUMBPRINT_WORDS, copy->thumbprint);
        segment_load_text(validation->name, SEGMENT_HOST_NAME_WORDS, copy->name);
        copy->kind =
            (enum challenge_kind)atomic_load_explicit(&validation->kind, memory_order_acquire);
        if (sequence_held(&acme->sequence, before))
            return copy->token[0] != '\0';
    }
    return false;
}

bool segment_read_certificate(const struct segment *segment, uint32_t number,
                              struct certificate_copy *copy)
{
    const struct segment_certificates *table = segment_certificates(segment);
    const struct segment_certificate *entry;

    if (table == NULL || number >= SEGMENT_CERTIFICATES_MAX ||
        number >= atomic_load_explicit(&table->count, memory_order_acquire))
        return false;
    entry = &table->entry[number];
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
    return atomic_load_explicit(&segment_master(&reader->map)->history_next, memory_order_acquire);
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
    for (size_t i = 0; i < METRIC_COUNT; i++)
        copy->values[i] = segment_reader_metric(reader, sample->values, (enum metric)i);
    for (size_t i = 0; letters != NULL && i < threads && i < letters_size; i++)
        letters[i] =
            (char)atomic_load_explicit((const _Atomic char *)&states[i], memory_order_acquire);
}

bool segment_read_sample(const struct segment_reader *reader, uint64_t number,
                         struct sample_copy *copy, char *letters, size_t letters_size)
{
    const struct segment_sample *sample = segment_sample(&reader->map, number);

    if (atomic_load_explicit(&sample->number, memory_order_acquire) != number + 1)
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
