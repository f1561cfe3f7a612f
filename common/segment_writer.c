#include "common/segment_writer.h"

#include "common/clock.h"
#include "common/segment_reader.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { PAGE = 4096 };

static uint64_t round_up(uint64_t value, uint64_t step)
{
    return (value + step - 1) / step * step;
}

/* Layout, computed before anything is mapped. */

struct layout {
    struct segment_section section[SEGMENT_KIND_COUNT];
    uint64_t end;
};

static void place_section(struct layout *layout, enum segment_kind kind, uint64_t entry_size,
                          uint32_t count)
{
    uint64_t stride = round_up(entry_size, 8);

    layout->section[kind] = (struct segment_section){.kind = kind,
                                                     .count = count,
                                                     .offset = layout->end,
                                                     .stride = stride,
                                                     .entry_size = entry_size};
    layout->end = round_up(layout->end + stride * count, CACHE_LINE);
}

/* The next section is for another writer. */
static void start_page(struct layout *layout)
{
    layout->end = round_up(layout->end, PAGE);
}

/* Sections whose entries of the same index are adjacent and page-aligned: the memory of a slot. */
static void place_slots(struct layout *layout, uint32_t count, const enum segment_kind *kinds,
                        const uint64_t *sizes, size_t parts)
{
    uint64_t start = round_up(layout->end, PAGE), stride = 0;

    for (size_t i = 0; i < parts; i++)
        stride += round_up(sizes[i], CACHE_LINE);
    stride = round_up(stride, PAGE);
    for (size_t i = 0, offset = start; i < parts; offset += round_up(sizes[i], CACHE_LINE), i++)
        layout->section[kinds[i]] = (struct segment_section){.kind = kinds[i],
                                                             .count = count,
                                                             .offset = offset,
                                                             .stride = stride,
                                                             .entry_size = sizes[i]};
    layout->end = start + stride * count;
}

static_assert((int)SEGMENT_KIND_COUNT <= SEGMENT_SECTIONS_MAX, "the header has no place for them");

static uint64_t round_to_power_of_two(uint64_t value)
{
    uint64_t power = 1;

    while (power < value)
        power *= 2;
    return power;
}

static void lay_out(struct layout *layout, const struct segment_plan *plan)
{
    uint32_t thread_slots = plan->max_workers * plan->max_threads;
    const enum segment_kind worker_parts[] = {SEGMENT_WORKERS, SEGMENT_QUEUE_WAITS, SEGMENT_CACHE,
                                              SEGMENT_WORKER_EVENTS};
    const uint64_t worker_sizes[] = {sizeof(struct segment_worker), sizeof(struct histogram),
                                     plan->cache_entries * sizeof(struct segment_cache_entry),
                                     event_ring_bytes(SEGMENT_CHILD_EVENTS)};
    const enum segment_kind clients = SEGMENT_CLIENTS;
    const uint64_t client_bytes = SEGMENT_CLIENTS_PER_WORKER * sizeof(struct segment_client);
    const enum segment_kind thread_parts[] = {SEGMENT_THREADS, SEGMENT_LATENCY, SEGMENT_HITS,
                                              SEGMENT_RINGS};
    const enum segment_kind host_counts = SEGMENT_HOST_COUNTS;
    const uint64_t host_bytes = plan->max_hosts * sizeof(struct segment_host_counts);
    const uint64_t thread_sizes[] = {
        sizeof(struct segment_thread), OUTCOME_COUNT * sizeof(struct histogram),
        plan->cache_entries * sizeof(struct segment_hits),
        log_ring_bytes(round_to_power_of_two(plan->ring_bytes) / sizeof(uint64_t))};
    const enum segment_kind earlier = SEGMENT_EARLIER;
    const uint64_t earlier_bytes =
        METRIC_COUNT * sizeof(uint64_t) + (OUTCOME_COUNT + 1) * sizeof(struct histogram);
    uint64_t sample =
        sizeof(struct segment_sample) + METRIC_COUNT * sizeof(uint64_t) + round_up(thread_slots, 8);

    layout->end = round_up(sizeof(struct segment_header), CACHE_LINE);
    place_section(layout, SEGMENT_METRICS, sizeof(struct segment_metric), METRIC_COUNT);
    place_section(layout, SEGMENT_STATES, sizeof(struct segment_state), THREAD_STATE_COUNT);
    place_section(layout, SEGMENT_WORKER_SLOTS, sizeof(struct segment_worker_slot),
                  plan->max_workers);
    place_section(layout, SEGMENT_THREAD_SLOTS, sizeof(struct segment_thread_slot), thread_slots);
    place_section(layout, SEGMENT_MASTER, sizeof(struct segment_master), 1);
    place_section(layout, SEGMENT_RATE, sizeof(struct segment_rate), 1);
    place_section(layout, SEGMENT_ADDRESS_LIMITS, sizeof(struct segment_address_limits), 1);
    place_section(layout, SEGMENT_CHALLENGE, sizeof(struct segment_challenge), 1);
    place_section(layout, SEGMENT_MAINTENANCE, sizeof(struct segment_maintenance), 1);
    start_page(layout); /* workers do not map what follows */
    place_section(layout, SEGMENT_EVENTS, event_ring_bytes(SEGMENT_MASTER_EVENTS), 1);
    place_section(layout, SEGMENT_HISTORY, sample, SEGMENT_HISTORY_SAMPLES);
    place_section(layout, SEGMENT_CONFIG, SEGMENT_CONFIG_BYTES, 1);
    place_section(layout, SEGMENT_CERTIFICATES, sizeof(struct segment_certificates), 1);
    place_section(layout, SEGMENT_HOSTS, sizeof(struct segment_host), plan->max_hosts);
    place_section(layout, SEGMENT_PROCESSES, sizeof(struct segment_process),
                  SEGMENT_PROCESS_WORKERS + plan->max_workers);
    start_page(layout);
    place_section(layout, SEGMENT_LOGGER, sizeof(struct segment_logger), 1);
    place_section(layout, SEGMENT_LOG_CURSORS, sizeof(struct log_ring_cursor), thread_slots);
    start_page(layout); /* nor this */
    place_section(layout, SEGMENT_EVENT_CURSORS, sizeof(uint64_t),
                  SEGMENT_RING_WORKERS + plan->max_workers);
    place_section(layout, SEGMENT_LOGGER_EVENTS, event_ring_bytes(SEGMENT_CHILD_EVENTS), 1);
    start_page(layout);
    place_section(layout, SEGMENT_RATE_BUCKETS, sizeof(struct segment_rate_bucket),
                  SEGMENT_RATE_BUCKET_COUNT);
    place_slots(layout, plan->max_workers, worker_parts, worker_sizes, ARRAY_LENGTH(worker_parts));
    place_slots(layout, plan->max_workers, &clients, &client_bytes, 1);
    place_slots(layout, thread_slots, thread_parts, thread_sizes, ARRAY_LENGTH(thread_parts));
    if (plan->max_hosts > 0)
        place_slots(layout, thread_slots, &host_counts, &host_bytes, 1);
    place_slots(layout, thread_slots + 1, &earlier, &earlier_bytes, 1);
    if (plan->max_hosts > 0)
        place_section(layout, SEGMENT_EARLIER_HOSTS, sizeof(struct segment_host_counts),
                      plan->max_hosts);
    start_page(layout);
}

static void close_segment_files(struct segment *segment)
{
    if (segment->fd >= 0)
        close(segment->fd);
    if (segment->read_fd >= 0)
        close(segment->read_fd);
    segment->fd = segment->read_fd = -1;
}

static void fill_header(struct segment *segment, const struct segment_plan *plan, uint64_t size)
{
    struct segment_header *header = &segment->header;
    uint32_t sections = 0;

    *header = (struct segment_header){
        .magic = SEGMENT_MAGIC,
        .major = SEGMENT_MAJOR,
        .minor = SEGMENT_MINOR,
        .header_size = sizeof(*header),
        .total_size = size,
        .generation = clock_wall_ns(),
        .started_ns = clock_wall_ns(),
        .start_ticks = process_start_ticks(getpid()),
        .master_pid = getpid(),
        .cache_entries = plan->cache_entries,
        .metric_count = METRIC_COUNT,
        .state_count = THREAD_STATE_COUNT,
        .outcome_count = OUTCOME_COUNT,
        .version = WEBSERVERD_VERSION,
    };
    snprintf(header->name, sizeof(header->name), "%s", plan->name);
    snprintf(header->socket_path, sizeof(header->socket_path), "%s", plan->socket_path);
    snprintf(header->listening, sizeof(header->listening), "%s", plan->listening);
    for (int kind = 0; kind < SEGMENT_KIND_COUNT; kind++)
        if (segment->section[kind].count > 0)
            header->section[sections++] = segment->section[kind];
    header->section_count = sections;
    memcpy(segment->base, header, sizeof(*header));
}

static void describe_metrics(struct segment *segment)
{
    for (uint32_t i = 0; i < METRIC_COUNT; i++) {
        struct segment_metric *line = segment_at(segment, SEGMENT_METRICS, i);
        const struct metric_info *info = &metric_table[i];

        snprintf(line->name, sizeof(line->name), "%s", info->name);
        snprintf(line->label, sizeof(line->label), "%s", info->label);
        snprintf(line->help, sizeof(line->help), "%s", info->help);
        line->scope = (uint8_t)info->scope;
        line->kind = (uint8_t)info->kind;
        line->unit = (uint8_t)info->unit;
        line->offset = segment_blocks[info->scope].metrics_offset + i * (uint32_t)sizeof(uint64_t);
    }
    for (uint32_t i = 0; i < THREAD_STATE_COUNT; i++) {
        struct segment_state *line = segment_at(segment, SEGMENT_STATES, i);

        line->letter = thread_state_table[i].letter;
        snprintf(line->name, sizeof(line->name), "%s", thread_state_table[i].name);
        snprintf(line->help, sizeof(line->help), "%s", thread_state_table[i].help);
    }
}

/* Creates, sizes and maps the file. Returns NULL, or the step that failed with errno. */
static const char *map_new(struct segment *segment, const struct layout *layout)
{
    void *memory;
    int failed;

    segment->size = layout->end;
    segment->fd = shm_open(segment->file, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
    if (segment->fd < 0)
        return "create";
    if (ftruncate(segment->fd, (off_t)segment->size) != 0)
        return "size";
    failed = posix_fallocate(segment->fd, 0, (off_t)layout->section[SEGMENT_WORKERS].offset);
    if (failed != 0) {
        errno = failed;
        return "reserve memory for";
    }
    segment->read_fd = shm_open(segment->file, O_RDONLY | O_CLOEXEC, 0);
    if (segment->read_fd < 0)
        return "open";
    memory = mmap(NULL, segment->size, PROT_READ | PROT_WRITE, MAP_SHARED, segment->fd, 0);
    if (memory == MAP_FAILED)
        return "map";
    segment->base = memory;
    return NULL;
}

int segment_create(struct segment *segment, const struct segment_plan *plan, char *why, size_t size)
{
    struct layout layout = {0};
    const char *failed;

    *segment = (struct segment){.fd = -1, .read_fd = -1};
    if (instance_make_segment_name(plan->name, plan->beside ? INSTANCE_SEGMENT_NEW : "",
                                   segment->file, sizeof(segment->file)) != 0) {
        snprintf(why, size, "no name for the shared memory of '%s': %s", plan->name,
                 strerror(errno));
        return -1;
    }
    lay_out(&layout, plan);
    memcpy(segment->section, layout.section, sizeof(layout.section));
    failed = map_new(segment, &layout);
    if (failed != NULL) {
        int error = errno;

        snprintf(why, size, "cannot %s the shared memory segment /dev/shm%s: %s", failed,
                 segment->file, strerror(error));
        if (segment->fd >= 0)
            shm_unlink(segment->file);
        close_segment_files(segment);
        *segment = (struct segment){.fd = -1, .read_fd = -1};
        errno = error;
        return -1;
    }
    fill_header(segment, plan, layout.end);
    describe_metrics(segment);
    return 0;
}

void segment_publish(struct segment *segment)
{
    atomic_store_explicit(&segment_shared_header(segment)->ready, 1, memory_order_release);
}

/* True if its name still refers to SEGMENT; a new server may have replaced it. */
static bool name_is_ours(const struct segment *segment)
{
    int fd = shm_open(segment->file, O_RDONLY | O_CLOEXEC, 0);
    struct stat named, ours;
    bool same = fd >= 0 && fstat(fd, &named) == 0 && fstat(segment->fd, &ours) == 0 &&
                named.st_ino == ours.st_ino && named.st_dev == ours.st_dev;

    if (fd >= 0)
        close(fd);
    return same;
}

int segment_promote(struct segment *segment)
{
    char name[INSTANCE_PATH_MAX], from[2 * INSTANCE_PATH_MAX], to[2 * INSTANCE_PATH_MAX], why[256];

    if (instance_find_segment(segment->header.name, name, sizeof(name), why, sizeof(why)) != 0)
        snprintf(name, sizeof(name), "%.*s",
                 (int)(strlen(segment->file) - strlen(INSTANCE_SEGMENT_NEW)), segment->file);
    snprintf(from, sizeof(from), INSTANCE_SHARED_MEMORY "%s", segment->file);
    snprintf(to, sizeof(to), INSTANCE_SHARED_MEMORY "%s", name);
    if (rename(from, to) != 0)
        return -1;
    memcpy(segment->file, name, sizeof(name));
    return 0;
}

void segment_forget(struct segment *segment)
{
    munmap(segment->base, segment->size);
    close_segment_files(segment);
    *segment = (struct segment){.fd = -1, .read_fd = -1};
}

void segment_destroy(struct segment *segment)
{
    if (segment->base == NULL)
        return;
    atomic_store_explicit(&segment_shared_header(segment)->stopped, 1, memory_order_release);
    if (name_is_ours(segment))
        shm_unlink(segment->file);
    segment_forget(segment);
}

/* Returns 0 or an errno. */
static int reserve_bytes(const struct segment *segment, enum segment_kind kind, uint32_t index,
                         uint64_t bytes)
{
    const struct segment_section *section = &segment->section[kind];

    return posix_fallocate(segment->fd, (off_t)(section->offset + index * section->stride),
                           (off_t)bytes);
}

static int reserve_entry(const struct segment *segment, enum segment_kind kind, uint32_t index)
{
    return reserve_bytes(segment, kind, index, segment->section[kind].stride);
}

/* Memory of a thread slot for COUNT hosts. */
static uint64_t host_bytes(uint32_t count)
{
    return round_up(count * sizeof(struct segment_host_counts), PAGE);
}

int segment_reserve_worker(struct segment *segment, uint32_t slot)
{
    int failed;

    if (segment_worker_reserved(segment, slot))
        return 0;
    failed = reserve_entry(segment, SEGMENT_WORKERS, slot);
    if (failed == 0)
        failed = reserve_entry(segment, SEGMENT_CLIENTS, slot);
    if (failed == 0)
        atomic_store_explicit(&segment_worker_slot(segment, slot)->reserved, 1,
                              memory_order_release);
    return failed;
}

int segment_reserve_thread(struct segment *segment, uint32_t slot)
{
    struct segment_thread_slot *entry = segment_thread_slot(segment, slot);
    int failed;

    if (segment_thread_reserved(segment, slot))
        return 0;
    failed = reserve_entry(segment, SEGMENT_THREADS, slot);
    if (failed == 0 && segment->hosts_reserved > 0)
        failed =
            reserve_bytes(segment, SEGMENT_HOST_COUNTS, slot, host_bytes(segment->hosts_reserved));
    if (failed != 0)
        return failed;
    atomic_store_explicit(&entry->thread, slot % segment_threads_per_worker(segment),
                          memory_order_relaxed);
    atomic_store_explicit(&entry->worker, SEGMENT_NO_WORKER, memory_order_relaxed);
    atomic_store_explicit(&entry->reserved, 1, memory_order_release);
    return 0;
}

/* False if the file system of the segment has less than BYTES left. */
static bool file_system_has_room(const struct segment *segment, uint64_t bytes)
{
    struct statvfs room;

    return fstatvfs(segment->fd, &room) != 0 || room.f_blocks == 0 || /* 0: unlimited */
           room.f_bavail * room.f_frsize >= bytes;
}

static uint64_t missing_bytes(const struct segment *segment, uint32_t slot, uint32_t threads)
{
    uint32_t first = slot * segment_threads_per_worker(segment);
    uint64_t bytes = 0;

    if (!segment_worker_reserved(segment, slot))
        bytes = segment->section[SEGMENT_WORKERS].stride + segment->section[SEGMENT_CLIENTS].stride;
    for (uint32_t i = 0; i < threads; i++)
        if (!segment_thread_reserved(segment, first + i))
            bytes += segment->section[SEGMENT_THREADS].stride + host_bytes(segment->hosts_reserved);
    return bytes;
}

int segment_reserve(struct segment *segment, uint32_t slot, uint32_t threads)
{
    uint32_t first = slot * segment_threads_per_worker(segment);
    int failed;

    /* A slot that is reserved in part would only take memory from others. */
    if (!file_system_has_room(segment, missing_bytes(segment, slot, threads)))
        return ENOSPC;
    failed = segment_reserve_worker(segment, slot);
    for (uint32_t i = 0; i < threads && failed == 0; i++)
        failed = segment_reserve_thread(segment, first + i);
    return failed;
}

int segment_reserve_hosts(struct segment *segment, uint32_t count)
{
    uint64_t more;
    uint32_t slots = 0;

    if (count <= segment->hosts_reserved)
        return 0;
    for (uint32_t i = 0; i < segment_count(segment, SEGMENT_THREADS); i++)
        slots += segment_thread_reserved(segment, i);
    more = host_bytes(count) - host_bytes(segment->hosts_reserved);
    if (!file_system_has_room(segment, slots * more))
        return ENOSPC;
    for (uint32_t i = 0; i < segment_count(segment, SEGMENT_THREADS); i++) {
        int failed = segment_thread_reserved(segment, i)
                         ? reserve_bytes(segment, SEGMENT_HOST_COUNTS, i, host_bytes(count))
                         : 0;

        if (failed != 0)
            return failed;
    }
    segment->hosts_reserved = count;
    return 0;
}

int segment_reserve_earlier(struct segment *segment, uint32_t i)
{
    int failed = segment_has_earlier(segment, i) ? 0 : reserve_entry(segment, SEGMENT_EARLIER, i);

    if (failed == 0)
        atomic_store_explicit(i == 0 ? &segment_master(segment)->earlier
                                     : &segment_thread_slot(segment, i - 1)->earlier,
                              1, memory_order_release);
    return failed;
}

int segment_reserve_earlier_hosts(struct segment *segment, uint32_t count)
{
    int failed = reserve_bytes(segment, SEGMENT_EARLIER_HOSTS, 0, host_bytes(count));

    if (failed == 0)
        atomic_store_explicit(&segment_master(segment)->earlier_hosts, count, memory_order_release);
    return failed;
}

void segment_store_host(const struct segment *segment, uint32_t i, uint64_t id, const char *name)
{
    struct segment_host *host = segment_host(segment, i);

    atomic_store_explicit(&host->id, 0, memory_order_relaxed);
    segment_store_text(host->name, SEGMENT_HOST_NAME_WORDS, name, strlen(name));
    atomic_store_explicit(&host->id, id, memory_order_release);
}

void segment_use_threads(struct segment *segment, uint32_t slot, uint32_t threads)
{
    uint32_t per_worker = segment_threads_per_worker(segment);

    for (uint32_t i = 0; i < per_worker; i++)
        atomic_store_explicit(&segment_thread_slot(segment, slot * per_worker + i)->worker,
                              i < threads ? slot : SEGMENT_NO_WORKER, memory_order_relaxed);
}

void segment_store_config(struct segment *segment, const char *text)
{
    snprintf(segment_at(segment, SEGMENT_CONFIG, 0), SEGMENT_CONFIG_BYTES, "%s", text);
}

void segment_store_listening(struct segment *segment, const char *addresses)
{
    const size_t size = sizeof(segment->header.listening);

    snprintf(segment->header.listening, size, "%s", addresses);
    memcpy(segment_shared_header(segment)->listening, segment->header.listening, size);
}

/* Pages of a process */

struct page_range {
    uint64_t begin, end; /* offsets; multiples of PAGE */
};

/* The pages of COUNT entries from INDEX on of section FIRST and those beside it. */
static struct page_range pages_of(const struct segment *segment, enum segment_kind first,
                                  uint32_t index, uint32_t count)
{
    const struct segment_section *section = &segment->section[first];
    uint64_t begin = section->offset + index * section->stride;

    return (struct page_range){begin, begin + count * section->stride};
}

/* The pages from section FIRST up to section NEXT. */
static struct page_range pages_between(const struct segment *segment, enum segment_kind first,
                                       enum segment_kind next)
{
    return (struct page_range){segment->section[first].offset,
                               segment->section[next].offset / PAGE * PAGE};
}

/* What a process can do with pages. */
enum pages_access { PAGES_HIDDEN, PAGES_READ, PAGES_WRITE };

/* Ranges are restricted in ascending order; those between them get the access of the others. */
struct restriction {
    struct segment *segment;
    enum pages_access others;
    uint64_t done; /* offset */
    int error;     /* errno of the first failure; 0: none */
};

/*
 * Maps pages at the same address from the read-only descriptor, or without any access. Those that
 * the process writes keep their mapping, so that a failure can be logged.
 */
static void map_pages(struct restriction *restriction, uint64_t end, enum pages_access access)
{
    const struct segment *segment = restriction->segment;
    uint64_t begin = restriction->done;
    void *mapped = segment->base;

    if (begin < end && access == PAGES_READ)
        mapped = mmap(segment->base + begin, end - begin, PROT_READ, MAP_SHARED | MAP_FIXED,
                      segment->read_fd, (off_t)begin);
    else if (begin < end && access == PAGES_HIDDEN)
        mapped = mmap(segment->base + begin, end - begin, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (mapped == MAP_FAILED && restriction->error == 0)
        restriction->error = errno;
    restriction->done = end;
}

static void allow_pages(struct restriction *restriction, struct page_range pages,
                        enum pages_access access)
{
    map_pages(restriction, pages.begin, restriction->others);
    map_pages(restriction, pages.end, access);
}

static int end_restriction(struct restriction *restriction)
{
    map_pages(restriction, restriction->segment->size, restriction->others);
    errno = restriction->error;
    if (restriction->error != 0)
        return -1;
    close_segment_files(restriction->segment);
    return 0;
}

/* Of other workers, only what all workers need for the limits of connections. */
int segment_restrict_worker(struct segment *segment, uint32_t slot)
{
    struct restriction restriction = {.segment = segment, .others = PAGES_HIDDEN};
    uint32_t threads = segment_threads_per_worker(segment);
    uint32_t workers = segment_count(segment, SEGMENT_WORKERS);

    allow_pages(&restriction, (struct page_range){0, segment->section[SEGMENT_EVENTS].offset},
                PAGES_READ);
    allow_pages(&restriction, pages_between(segment, SEGMENT_LOGGER, SEGMENT_EVENT_CURSORS),
                PAGES_READ);
    allow_pages(&restriction, pages_between(segment, SEGMENT_RATE_BUCKETS, SEGMENT_WORKERS),
                PAGES_WRITE);
    for (uint32_t i = 0; i < workers; i++) {
        struct page_range pages = pages_of(segment, SEGMENT_WORKERS, i, 1);

        if (i != slot)
            pages.end = pages.begin + PAGE;
        allow_pages(&restriction, pages, i == slot ? PAGES_WRITE : PAGES_READ);
    }
    allow_pages(&restriction, pages_of(segment, SEGMENT_CLIENTS, 0, slot), PAGES_READ);
    allow_pages(&restriction, pages_of(segment, SEGMENT_CLIENTS, slot, 1), PAGES_WRITE);
    allow_pages(&restriction, pages_of(segment, SEGMENT_CLIENTS, slot + 1, workers - slot - 1),
                PAGES_READ);
    allow_pages(&restriction, pages_of(segment, SEGMENT_THREADS, slot * threads, threads),
                PAGES_WRITE);
    if (segment_count(segment, SEGMENT_HOST_COUNTS) > 0)
        allow_pages(&restriction, pages_of(segment, SEGMENT_HOST_COUNTS, slot * threads, threads),
                    PAGES_WRITE);
    return end_restriction(&restriction);
}

int segment_restrict_logger(struct segment *segment)
{
    struct restriction restriction = {.segment = segment, .others = PAGES_READ};

    allow_pages(&restriction, pages_between(segment, SEGMENT_LOGGER, SEGMENT_RATE_BUCKETS),
                PAGES_WRITE);
    return end_restriction(&restriction);
}

int segment_restrict_reader(struct segment *segment)
{
    struct restriction restriction = {.segment = segment, .others = PAGES_READ};

    return end_restriction(&restriction);
}

/* Makes the sequence odd, even if the previous writer died during a change and left it odd. */

static uint64_t begin_change(_Atomic uint64_t *sequence)
{
    uint64_t odd = atomic_load_explicit(sequence, memory_order_relaxed) | 1;

    atomic_store_explicit(sequence, odd, memory_order_relaxed);
    return odd;
}

static void end_change(_Atomic uint64_t *sequence, uint64_t odd)
{
    atomic_store_explicit(sequence, odd + 1, memory_order_release);
}

void segment_activity_work(struct segment_activity *activity, enum thread_state state,
                           uint64_t now_ns, const char *work, size_t length)
{
    uint64_t odd = begin_change(&activity->sequence);

    atomic_store_explicit(&activity->since_ns, now_ns, memory_order_release);
    atomic_store_explicit(&activity->state, (uint32_t)state, memory_order_release);
    segment_store_text(activity->work, SEGMENT_WORK_WORDS, work, length);
    end_change(&activity->sequence, odd);
}

void segment_store_challenge(const struct segment *segment, const struct challenge_copy *challenge)
{
    struct segment_challenge *pending = segment_challenge(segment);
    uint64_t odd = begin_change(&pending->sequence);

    atomic_store_explicit(&pending->kind, (uint32_t)challenge->kind, memory_order_release);
    segment_store_text(pending->name, SEGMENT_HOST_NAME_WORDS, challenge->name,
                       strlen(challenge->name));
    segment_store_text(pending->thumbprint, SEGMENT_THUMBPRINT_WORDS, challenge->thumbprint,
                       strlen(challenge->thumbprint));
    segment_store_text(pending->token, SEGMENT_TOKEN_WORDS, challenge->token,
                       strlen(challenge->token));
    end_change(&pending->sequence, odd);
}

void segment_store_certificate(const struct segment *segment, uint32_t number,
                               const struct certificate_copy *certificate)
{
    struct segment_certificate *entry = &segment_certificates(segment)->entry[number];
    uint64_t odd = begin_change(&entry->sequence);

    atomic_store_explicit(&entry->not_before_s, certificate->not_before_s, memory_order_release);
    atomic_store_explicit(&entry->not_after_s, certificate->not_after_s, memory_order_release);
    atomic_store_explicit(&entry->next_attempt_s, certificate->next_attempt_s,
                          memory_order_release);
    atomic_store_explicit(&entry->failures, certificate->failures, memory_order_release);
    segment_store_text(entry->names, SEGMENT_HOST_NAME_WORDS, certificate->names,
                       strlen(certificate->names));
    segment_store_text(entry->issuer, SEGMENT_ISSUER_WORDS, certificate->issuer,
                       strlen(certificate->issuer));
    segment_store_text(entry->error, SEGMENT_FAILURE_WORDS, certificate->error,
                       strlen(certificate->error));
    end_change(&entry->sequence, odd);
}

void segment_store_certificate_count(const struct segment *segment, uint32_t count)
{
    atomic_store_explicit(&segment_certificates(segment)->count, count, memory_order_release);
}

void segment_activity_clear(struct segment_activity *activity, uint64_t now_ns)
{
    atomic_store_explicit(&activity->tid, 0, memory_order_relaxed);
    segment_activity_work(activity, THREAD_STATE_NONE, now_ns, "", 0);
}

void segment_cache_publish(struct segment_cache_entry *entry, uint64_t id, uint64_t stored_ns,
                           uint64_t bytes, enum segment_cache_state state, const char *path)
{
    uint64_t odd = begin_change(&entry->sequence);

    atomic_store_explicit(&entry->id, id, memory_order_release);
    atomic_store_explicit(&entry->stored_ns, stored_ns, memory_order_release);
    atomic_store_explicit(&entry->bytes, bytes, memory_order_release);
    atomic_store_explicit(&entry->state, (uint32_t)state, memory_order_release);
    segment_store_text(entry->path, SEGMENT_CACHE_PATH_WORDS, path, strlen(path));
    end_change(&entry->sequence, odd);
}

void segment_cache_state(struct segment_cache_entry *entry, enum segment_cache_state state)
{
    atomic_store_explicit(&entry->state, (uint32_t)state, memory_order_release);
}
