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

/* These checks cover every assumption of later accesses. They return NULL, or what is wrong. */

static bool section_fits(const struct segment_section *section, uint64_t size)
{
    return section->entry_size <= section->stride && section->stride <= size &&
           section->offset <= size && (section->offset & 7) == 0 && (section->stride & 7) == 0 &&
           (section->count == 0 || section->stride == 0 ||
            section->count - 1 <= (size - section->offset) / section->stride) &&
           section->offset + (section->count ? section->count - 1 : 0) * section->stride +
                   section->entry_size <=
               size;
}

/* A section added by a minor version: absent or complete. */
static bool optional_fits(const struct segment *map, enum segment_kind kind, size_t entry_size)
{
    return map->section[kind].count == 0 || map->section[kind].entry_size >= entry_size;
}

static const char *check_sizes(const struct segment *map)
{
    const struct segment_header *header = map->header;
    uint64_t metrics = header->metric_count * sizeof(uint64_t);
    uint64_t sample = sizeof(struct segment_sample) + metrics + segment_count(map, SEGMENT_THREADS);

    for (int kind = SEGMENT_METRICS; kind <= SEGMENT_KINDS_OF_MINOR_0; kind++)
        if (map->section[kind].count == 0)
            return "a section is missing";
    if (!optional_fits(map, SEGMENT_RATE, sizeof(struct segment_rate)) ||
        !optional_fits(map, SEGMENT_RATE_BUCKETS, sizeof(struct segment_rate_bucket)) ||
        !optional_fits(map, SEGMENT_CLIENTS,
                       SEGMENT_CLIENTS_PER_WORKER * sizeof(struct segment_client)))
        return "the entries of a section are too small";
    if (map->section[SEGMENT_METRICS].entry_size < sizeof(struct segment_metric) ||
        map->section[SEGMENT_METRICS].count < header->metric_count ||
        map->section[SEGMENT_MASTER].entry_size <
            offsetof(struct segment_master, metrics) + metrics ||
        map->section[SEGMENT_LOGGER].entry_size <
            offsetof(struct segment_logger, metrics) + metrics ||
        map->section[SEGMENT_THREADS].entry_size <
            offsetof(struct segment_thread, metrics) + metrics ||
        map->section[SEGMENT_WORKERS].entry_size <
            offsetof(struct segment_worker, metrics) + metrics)
        return "a block is smaller than its metrics";
    if (map->section[SEGMENT_HISTORY].entry_size < sample ||
        map->section[SEGMENT_HISTORY].count != SEGMENT_HISTORY_SAMPLES ||
        map->section[SEGMENT_EVENTS].entry_size < sizeof(struct event_ring) ||
        map->section[SEGMENT_LATENCY].entry_size < sizeof(segment_latency) ||
        map->section[SEGMENT_STATES].entry_size < sizeof(struct segment_state) ||
        map->section[SEGMENT_STATES].count < header->state_count ||
        map->section[SEGMENT_CACHE].entry_size <
            header->cache_entries * sizeof(struct segment_cache_entry) ||
        map->section[SEGMENT_HITS].entry_size <
            header->cache_entries * sizeof(struct segment_hits) ||
        map->section[SEGMENT_RINGS].entry_size < log_ring_bytes(1) ||
        map->section[SEGMENT_CONFIG].entry_size < SEGMENT_CONFIG_BYTES ||
        map->section[SEGMENT_THREAD_SLOTS].entry_size < sizeof(struct segment_slot) ||
        map->section[SEGMENT_WORKER_SLOTS].entry_size < sizeof(struct segment_slot) ||
        map->section[SEGMENT_THREAD_SLOTS].count < segment_count(map, SEGMENT_THREADS) ||
        map->section[SEGMENT_WORKER_SLOTS].count < segment_count(map, SEGMENT_WORKERS))
        return "a table is smaller than it should be";
    return NULL;
}

static const char *check_header(struct segment *map)
{
    const struct segment_header *header = map->header;

    if (header->magic != SEGMENT_MAGIC)
        return "it is not a webserverd segment";
    if (atomic_load_explicit(&((struct segment_header *)map->header)->ready,
                             memory_order_acquire) == 0)
        return "the server is still starting";
    if (header->major != SEGMENT_MAJOR)
        return "its major version is not supported";
    if (header->total_size > map->size || header->section_count > SEGMENT_SECTIONS_MAX ||
        memchr(header->name, '\0', sizeof(header->name)) == NULL)
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

static void find_metrics(struct segment_reader *reader)
{
    for (int known = 0; known < METRIC_COUNT; known++) {
        reader->metric_at[known] = -1;
        for (uint32_t i = 0; i < reader->map.header->metric_count; i++) {
            const struct segment_metric *line = segment_at(&reader->map, SEGMENT_METRICS, i);

            if (strncmp(line->name, metric_table[known].name, sizeof(line->name)) == 0 &&
                line->index < reader->map.header->metric_count)
                reader->metric_at[known] = (int32_t)line->index;
        }
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

    if (fstat(fd, &status) != 0)
        return error_text();
    if ((size_t)status.st_size < sizeof(struct segment_header))
        return "the server is still starting";
    reader->device = status.st_dev;
    reader->inode = status.st_ino;
    reader->map.size = (size_t)status.st_size;
    reader->map.header = mmap(NULL, reader->map.size, PROT_READ, MAP_SHARED, fd, 0);
    if (reader->map.header == MAP_FAILED) {
        reader->map.header = NULL;
        return error_text();
    }
    return check_header(&reader->map);
}

enum segment_attach_result segment_attach(struct segment_reader *reader, const char *name,
                                          char *why, size_t size)
{
    char path[INSTANCE_PATH_MAX];
    const char *problem;
    int fd;

    memset(reader, 0, sizeof(*reader));
    reader->map.fd = -1;
    if (!instance_name_valid(name) || instance_segment_name(name, path, sizeof(path)) != 0) {
        snprintf(why, size, "invalid instance name '%s' (letters, digits, '.', '_' and '-')", name);
        return SEGMENT_INVALID;
    }
    fd = shm_open(path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0 && errno == ENOENT) {
        snprintf(why, size, "no webserverd named '%s' is running", name);
        return SEGMENT_ABSENT;
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
    reader->map.fd = -1;
    if (size < sizeof(struct segment_header))
        return "it is shorter than the header";
    reader->map.header = memory;
    reader->map.size = size;
    problem = check_header(&reader->map);
    if (problem == NULL)
        find_metrics(reader);
    return problem;
}

void segment_detach(struct segment_reader *reader)
{
    if (reader->map.header != NULL)
        munmap(reader->map.header, reader->map.size);
    reader->map.header = NULL;
}

static bool name_is_reused(const struct segment_reader *reader)
{
    char path[INSTANCE_PATH_MAX];
    struct stat status;
    bool elsewhere;
    int fd;

    if (instance_segment_name(reader->map.header->name, path, sizeof(path)) != 0)
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
    const struct segment_header *header = reader->map.header;
    uint64_t heartbeat =
        atomic_load_explicit(&segment_master(&reader->map)->heartbeat_ns, memory_order_relaxed);

    if (name_is_reused(reader))
        return SEGMENT_REPLACED;
    if (atomic_load_explicit(&((struct segment_header *)reader->map.header)->stopped,
                             memory_order_acquire) != 0)
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
    const char *states = (const char *)&sample->values[reader->map.header->metric_count];
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
    uint64_t count = 0, seen = 0;

    for (size_t i = 0; i < HISTOGRAM_COARSE_BUCKETS; i++)
        count += sample->latency[i];
    if (count == 0)
        return 0;
    for (uint32_t i = 0; i < HISTOGRAM_COARSE_BUCKETS; i++) {
        seen += sample->latency[i];
        if ((double)seen >= (double)count * percent / 100) {
            uint32_t last = ((i + 1) << HISTOGRAM_COARSE_SHIFT) - 1;
            uint64_t top = histogram_highest(last);

            return sample->latency_max_ns != 0 && top > sample->latency_max_ns
                       ? sample->latency_max_ns
                       : top;
        }
    }
    return sample->latency_max_ns;
}
