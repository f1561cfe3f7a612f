/* Attacks on every word of the shared memory, whatever it means. */
#include "traitor.h"

#include "common/clock.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WORDS_PER_PASS = 1024 };

static const struct mapping *pick_writable(const struct traitor *traitor, struct chance *chance)
{
    const struct mapping *mapping;

    do
        mapping = &traitor->mapping[chance_below(chance, traitor->mapping_count)];
    while (!mapping->writable);
    return mapping;
}

/* Near the start of a page there are heads, counters and positions, so half of the hits go there. */
static _Atomic uint64_t *pick_word(const struct traitor *traitor, struct chance *chance)
{
    const struct mapping *mapping = pick_writable(traitor, chance);
    uint64_t word = chance_below(chance, mapping->count);

    if (chance_below(chance, 2) == 0)
        word = word / 512 * 512 + word % 16;
    return &mapping->words[word];
}

typedef void change(const struct traitor *traitor, struct chance *chance);

static const char *repeat(const struct traitor *traitor, struct chance *chance, change *make)
{
    uint64_t end = attack_end_ns();

    while (clock_monotonic_ns() < end)
        for (int i = 0; i < WORDS_PER_PASS; i++)
            make(traitor, chance);
    return NULL;
}

static void put_random(const struct traitor *traitor, struct chance *chance)
{
    *pick_word(traitor, chance) = chance_number(chance);
}

const char *attack_random_words(const struct traitor *traitor, struct chance *chance)
{
    return repeat(traitor, chance, put_random);
}

static void put_edge(const struct traitor *traitor, struct chance *chance)
{
    *pick_word(traitor, chance) = chance_edge(chance);
}

const char *attack_edge_words(const struct traitor *traitor, struct chance *chance)
{
    return repeat(traitor, chance, put_edge);
}

static void flip(const struct traitor *traitor, struct chance *chance)
{
    *pick_word(traitor, chance) ^= UINT64_C(1) << chance_below(chance, 64);
}

const char *attack_flipped_bits(const struct traitor *traitor, struct chance *chance)
{
    return repeat(traitor, chance, flip);
}

const char *attack_same_bytes(const struct traitor *traitor, struct chance *chance)
{
    static const uint64_t values[] = {0, UINT64_MAX, UINT64_C(0x0a0a0a0a0a0a0a0a),
                                      UINT64_C(0x4141414141414141)};
    uint64_t value = values[chance_below(chance, 4)];

    for (size_t i = 0; i < traitor->mapping_count; i++)
        for (size_t word = 0; traitor->mapping[i].writable && word < traitor->mapping[i].count;
             word++)
            traitor->mapping[i].words[word] = value;
    return NULL;
}

static void move(const struct traitor *traitor, struct chance *chance)
{
    const struct mapping *mapping = pick_writable(traitor, chance);
    uint64_t from = chance_below(chance, mapping->count), to = chance_below(chance, mapping->count);

    for (uint64_t i = 0; i < 64 && from + i < mapping->count && to + i < mapping->count; i++)
        mapping->words[to + i] = mapping->words[from + i];
}

const char *attack_moved_words(const struct traitor *traitor, struct chance *chance)
{
    return repeat(traitor, chance, move);
}

/* A descriptor of the segment would allow a mapping with write access. */
static bool holds_segment(const struct traitor *traitor)
{
    struct stat status;

    for (int fd = 0; fd < 1024; fd++)
        if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
            status.st_ino == traitor->segment_inode)
            return true;
    return false;
}

const char *attack_read_only_pages(const struct traitor *traitor, struct chance *chance)
{
    (void)chance;
    if (holds_segment(traitor))
        return "the worker holds a descriptor of the segment";
    for (size_t i = 0; i < traitor->mapping_count; i++) {
        const struct mapping *mapping = &traitor->mapping[i];

        if (!mapping->writable &&
            mprotect((void *)mapping->words, mapping->count * sizeof(uint64_t),
                     PROT_READ | PROT_WRITE) == 0)
            return "a page of another process became writable";
    }
    return NULL;
}

/* The kernel reads one byte at ADDRESS, if it can. */
static bool can_read(const void *address)
{
    int pipes[2];
    bool read;

    if (pipe2(pipes, O_CLOEXEC) != 0)
        return false;
    read = write(pipes[1], address, 1) == 1;
    close(pipes[0]);
    close(pipes[1]);
    return read;
}

static const char *read_other_worker(const struct segment *segment, uint32_t slot)
{
    uint32_t thread = slot * segment_threads_per_worker(segment);
    const struct segment_worker *block = segment_worker(segment, slot);

    if (can_read(segment_ring(segment, thread).words))
        return "the log ring of another worker can be read";
    if (can_read(segment_thread(segment, thread)))
        return "the requests of another worker can be read";
    if (can_read(&block->offload[0]) || can_read(&block->metrics[0]))
        return "the jobs of another worker can be read";
    if (can_read(segment_event_ring(segment, SEGMENT_RING_WORKERS + slot).shared))
        return "the events of another worker can be read";
    if (segment->header.cache_entries > 0 && can_read(segment_cache(segment, slot)))
        return "the cache table of another worker can be read";
    if (segment_count(segment, SEGMENT_HOST_COUNTS) > 0 &&
        can_read(segment_host_counts_of(segment, thread)))
        return "the hosts of another worker can be read";
    return NULL;
}

const char *attack_hidden_pages(const struct traitor *traitor, struct chance *chance)
{
    const struct segment *segment = traitor->context->segment;
    const char *breach = NULL;

    (void)chance;
    if (!can_read(segment_master(segment)) || !can_read(segment_logger(segment)))
        return "the pages that a worker needs cannot be read";
    if (can_read(segment_event_ring(segment, SEGMENT_RING_MASTER).shared) ||
        can_read(segment_event_ring(segment, SEGMENT_RING_LOGGER).shared) ||
        can_read(segment_at(segment, SEGMENT_CONFIG, 0)) || can_read(segment_sample(segment, 0)))
        return "the events, the configuration or the history can be read";
    for (uint32_t i = 0; i < segment_count(segment, SEGMENT_WORKERS) && breach == NULL; i++)
        if (i != traitor->context->worker_slot)
            breach = read_other_worker(segment, i);
    return breach;
}

/* A shared mapping that grows shows what follows in its file, with the same access. */
const char *attack_longer_mappings(const struct traitor *traitor, struct chance *chance)
{
    (void)chance;
    for (size_t i = 0; i < traitor->mapping_count; i++) {
        const struct mapping *mapping = &traitor->mapping[i];
        size_t bytes = mapping->count * sizeof(uint64_t);
        void *words = (void *)mapping->words;

        if (mremap(words, bytes, 2 * bytes, MREMAP_MAYMOVE) != MAP_FAILED)
            return "a mapping grew over the pages of others";
        if (mremap(words, 0, 2 * bytes, MREMAP_MAYMOVE) != MAP_FAILED)
            return "a mapping was doubled over the pages of others";
    }
    return NULL;
}
