#include "console/data/recording.h"

#include "common/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <zlib.h>

#define COSTLY_EVERY_NS NS_PER_S /* for the cache tables, which are large and change little */

enum {
    WORD = sizeof(uint64_t),
    CLOSE_ENOUGH = 4 /* runs are joined across this many unchanged words */
};

struct buffer {
    unsigned char *bytes;
    size_t length, room;
    bool failed;
};

struct recorder {
    FILE *file;
    char path[4096];
    uint64_t bytes;
    unsigned char *shadow; /* the segment as recorded so far */
    size_t shadow_size;
    struct buffer raw, packed;
    size_t run_end; /* end of the last run */
    uint64_t costly_at_ns, processes_at_ns;
    uint64_t next_sample;
    char *origins; /* NULL: never set */
    bool origins_new;
};

/* A growing buffer; `failed` is set when memory runs out. */

static void make_buffer_room(struct buffer *buffer, size_t room)
{
    unsigned char *larger;

    if (room <= buffer->room || buffer->failed)
        return;
    larger = realloc(buffer->bytes, room);
    buffer->failed = larger == NULL;
    if (larger == NULL)
        return;
    buffer->bytes = larger;
    buffer->room = room;
}

static void put_bytes(struct buffer *buffer, const void *bytes, size_t count)
{
    if (buffer->length + count > buffer->room)
        make_buffer_room(buffer, (buffer->length + count) * 2);
    if (buffer->failed)
        return;
    memcpy(buffer->bytes + buffer->length, bytes, count);
    buffer->length += count;
}

static void put_number(struct buffer *buffer, uint64_t number)
{
    unsigned char bytes[10];
    size_t count = 0;

    do {
        bytes[count] = (unsigned char)(number & 0x7f);
        number >>= 7;
        bytes[count] |= number > 0 ? 0x80 : 0;
        count++;
    } while (number > 0);
    put_bytes(buffer, bytes, count);
}

static void put_block(struct buffer *buffer, enum recording_part part, const void *bytes,
                      size_t count)
{
    put_number(buffer, part);
    put_number(buffer, count);
    put_bytes(buffer, bytes, count);
}

/* Copying what changed. Positions are bytes from the start of the segment, multiples of a word. */

static void put_run(struct recorder *recorder, size_t from, size_t to)
{
    put_number(&recorder->raw, PART_RUN);
    put_number(&recorder->raw, from - recorder->run_end);
    put_number(&recorder->raw, to - from);
    put_bytes(&recorder->raw, recorder->shadow + from, to - from);
    recorder->run_end = to;
}

/* Copies the word at AT; true if it changed. */
static bool record_word(struct recorder *recorder, const struct segment *segment, size_t at)
{
    const char *base = segment->base;
    uint64_t live = atomic_load_explicit((const _Atomic uint64_t *)(const void *)(base + at),
                                         memory_order_relaxed);
    uint64_t before;

    memcpy(&before, recorder->shadow + at, WORD);
    if (live == before)
        return false;
    memcpy(recorder->shadow + at, &live, WORD);
    return true;
}

static void record_range(struct recorder *recorder, const struct segment *segment, size_t from,
                         size_t bytes)
{
    size_t begin = 0, end = 0; /* the current run; end 0: none */

    bytes &= ~(size_t)(WORD - 1);
    for (size_t at = from; at < from + bytes; at += WORD) {
        if (!record_word(recorder, segment, at))
            continue;
        if (end != 0 && at > end + CLOSE_ENOUGH * WORD) {
            put_run(recorder, begin, end);
            end = 0;
        }
        begin = end == 0 ? at : begin;
        end = at + WORD;
    }
    if (end != 0)
        put_run(recorder, begin, end);
}

static size_t offset_of(const struct segment *segment, enum segment_kind kind, uint32_t i)
{
    return segment->section[kind].offset + i * segment->section[kind].stride;
}

static void record_section(struct recorder *recorder, const struct segment *segment,
                           enum segment_kind kind)
{
    for (uint32_t i = 0; i < segment_count(segment, kind); i++)
        record_range(recorder, segment, offset_of(segment, kind, i),
                     segment->section[kind].entry_size);
}

/* Copies the new samples. */
static void record_history(struct recorder *recorder, const struct segment *segment)
{
    uint64_t samples =
        atomic_load_explicit(&segment_master(segment)->history_next, memory_order_acquire);

    if (samples > recorder->next_sample + SEGMENT_HISTORY_SAMPLES)
        recorder->next_sample = samples - SEGMENT_HISTORY_SAMPLES;
    for (; recorder->next_sample < samples; recorder->next_sample++)
        record_range(recorder, segment,
                     offset_of(segment, SEGMENT_HISTORY,
                               (uint32_t)(recorder->next_sample % SEGMENT_HISTORY_SAMPLES)),
                     segment->section[SEGMENT_HISTORY].entry_size);
}

/*
 * Copies the newest words of a ring. The head is read first, so that all words below it are
 * complete. In the copy claimed equals head, because nothing is being written to it.
 */
static void record_ring(struct recorder *recorder, const struct segment *segment, uint32_t i)
{
    const struct log_ring ring = segment_ring(segment, i);
    size_t at = offset_of(segment, SEGMENT_RINGS, i);
    struct log_ring_words *copy = (struct log_ring_words *)(void *)(recorder->shadow + at);
    uint64_t head = atomic_load_explicit(&ring.words->head, memory_order_acquire);
    uint64_t max = recording_ring_words(ring.capacity);
    uint64_t from = atomic_load(&copy->head);

    if (head - from > max)
        from = head > max ? head - max : 0;
    for (uint64_t word = from; word < head;) {
        uint64_t place = word & (ring.capacity - 1), count = ring.capacity - place;

        count = count < head - word ? count : head - word;
        record_range(recorder, segment, at + offsetof(struct log_ring_words, word) + place * WORD,
                     count * WORD);
        word += count;
    }
    if (atomic_load(&copy->head) == head)
        return;
    atomic_store(&copy->claimed, head);
    atomic_store(&copy->head, head);
    /* This run is at a lower position than the last one: its distance wraps modulo 2^64. */
    put_run(recorder, at, at + offsetof(struct log_ring_words, head) + WORD);
}

static void record_threads(struct recorder *recorder, const struct segment *segment, bool costly)
{
    for (uint32_t i = 0; i < segment_count(segment, SEGMENT_THREADS); i++) {
        if (!segment_thread_reserved(segment, i))
            continue;
        record_range(recorder, segment, offset_of(segment, SEGMENT_THREADS, i),
                     segment->section[SEGMENT_THREADS].entry_size);
        record_range(recorder, segment, offset_of(segment, SEGMENT_LATENCY, i),
                     segment->section[SEGMENT_LATENCY].entry_size);
        if (segment_count(segment, SEGMENT_RINGS) > 0)
            record_ring(recorder, segment, i);
        if (costly)
            record_range(recorder, segment, offset_of(segment, SEGMENT_HITS, i),
                         segment->section[SEGMENT_HITS].entry_size);
    }
}

/* Only the entries of hosts have memory. */
static void record_host_counts(struct recorder *recorder, const struct segment *segment)
{
    size_t size = sizeof(struct segment_host_counts);

    for (uint32_t host = 0; host < segment_count(segment, SEGMENT_HOSTS); host++) {
        if (atomic_load_explicit(&segment_host(segment, host)->id, memory_order_acquire) == 0)
            continue;
        for (uint32_t i = 0; i < segment_count(segment, SEGMENT_HOST_COUNTS); i++)
            if (segment_thread_reserved(segment, i))
                record_range(recorder, segment,
                             offset_of(segment, SEGMENT_HOST_COUNTS, i) + host * size, size);
    }
}

static void record_earlier(struct recorder *recorder, const struct segment *segment)
{
    for (uint32_t i = 0; i < segment_earlier_entries(segment); i++)
        if (segment_has_earlier(segment, i))
            record_range(recorder, segment, offset_of(segment, SEGMENT_EARLIER, i),
                         segment->section[SEGMENT_EARLIER].entry_size);
    for (uint32_t i = 0; segment_earlier_host(segment, i) != NULL; i++)
        record_range(recorder, segment, offset_of(segment, SEGMENT_EARLIER_HOSTS, i),
                     segment->section[SEGMENT_EARLIER_HOSTS].entry_size);
}

static void record_workers(struct recorder *recorder, const struct segment *segment, bool costly)
{
    for (uint32_t i = 0; i < segment_count(segment, SEGMENT_WORKERS); i++) {
        if (!segment_worker_reserved(segment, i))
            continue;
        record_range(recorder, segment, offset_of(segment, SEGMENT_WORKERS, i),
                     segment->section[SEGMENT_WORKERS].entry_size);
        if (costly)
            record_range(recorder, segment, offset_of(segment, SEGMENT_CACHE, i),
                         segment->section[SEGMENT_CACHE].entry_size);
        record_range(recorder, segment, offset_of(segment, SEGMENT_QUEUE_WAITS, i),
                     segment->section[SEGMENT_QUEUE_WAITS].entry_size);
        record_range(recorder, segment, offset_of(segment, SEGMENT_WORKER_EVENTS, i),
                     segment->section[SEGMENT_WORKER_EVENTS].entry_size);
        if (costly)
            record_range(recorder, segment, offset_of(segment, SEGMENT_CLIENTS, i),
                         segment->section[SEGMENT_CLIENTS].entry_size);
    }
}

static void record_all(struct recorder *recorder, const struct segment *segment, bool costly)
{
    static const enum segment_kind plain[] = {
        SEGMENT_METRICS,      SEGMENT_STATES, SEGMENT_WORKER_SLOTS,  SEGMENT_THREAD_SLOTS,
        SEGMENT_MASTER,       SEGMENT_EVENTS, SEGMENT_CONFIG,        SEGMENT_RATE,
        SEGMENT_CERTIFICATES, SEGMENT_LOGGER, SEGMENT_LOGGER_EVENTS, SEGMENT_NAMES};

    record_range(recorder, segment, 0, sizeof(struct segment_header));
    for (size_t i = 0; i < ARRAY_LENGTH(plain); i++)
        record_section(recorder, segment, plain[i]);
    if (costly) {
        record_section(recorder, segment, SEGMENT_RATE_BUCKETS);
        record_section(recorder, segment, SEGMENT_HOSTS);
        record_host_counts(recorder, segment);
        record_earlier(recorder, segment);
    }
    record_history(recorder, segment);
    record_workers(recorder, segment, costly);
    record_threads(recorder, segment, costly);
}

/* The file */

static int recording_failed(struct recorder *recorder, char *why, size_t size)
{
    snprintf(why, size, "cannot write the recording %.200s: %s", recorder->path,
             recorder->raw.failed || recorder->packed.failed ? "out of memory" : strerror(errno));
    return -1;
}

static int write_bytes(struct recorder *recorder, const void *bytes, size_t count)
{
    recorder->bytes += count;
    return fwrite(bytes, 1, count, recorder->file) == count ? 0 : -1;
}

static int pack(struct recorder *recorder)
{
    uLongf length = compressBound(recorder->raw.length);

    make_buffer_room(&recorder->packed, length);
    if (recorder->raw.failed || recorder->packed.failed ||
        compress2(recorder->packed.bytes, &length, recorder->raw.bytes, recorder->raw.length,
                  Z_BEST_SPEED) != Z_OK)
        return -1;
    recorder->packed.length = length;
    return 0;
}

static int write_chunk(struct recorder *recorder, enum recording_kind kind, uint64_t now_ns,
                       uint64_t wall_ns)
{
    struct recording_chunk chunk = {.mark = RECORDING_CHUNK_MARK,
                                    .kind = kind,
                                    .time_ns = now_ns,
                                    .wall_ns = wall_ns,
                                    .raw = (uint32_t)recorder->raw.length};

    if (pack(recorder) != 0)
        return -1;
    chunk.packed = (uint32_t)recorder->packed.length;
    chunk.check = (uint32_t)crc32(0, recorder->packed.bytes, (uInt)recorder->packed.length);
    if (write_bytes(recorder, &chunk, sizeof(chunk)) != 0 ||
        write_bytes(recorder, recorder->packed.bytes, recorder->packed.length) != 0)
        return -1;
    return fflush(recorder->file) == 0 ? 0 : -1;
}

struct recorder *recorder_create(const char *path, char *why, size_t size)
{
    struct recorder *recorder = calloc(1, sizeof(*recorder));
    struct recording_head head = {.version = RECORDING_VERSION, .byte_order = RECORDING_BYTE_ORDER};

    if (recorder == NULL) {
        snprintf(why, size, "out of memory");
        return NULL;
    }
    memcpy(head.magic, RECORDING_MAGIC, sizeof(head.magic));
    snprintf(recorder->path, sizeof(recorder->path), "%s", path);
    recorder->file = fopen(path, "wbxe");
    if (recorder->file != NULL && write_bytes(recorder, &head, sizeof(head)) == 0)
        return recorder;
    recording_failed(recorder, why, size);
    if (recorder->file != NULL)
        fclose(recorder->file);
    free(recorder);
    return NULL;
}

/* Starts a chunk of kind WHOLE: clears the shadow, so that all words count as changed. */
static int begin_whole(struct recorder *recorder, const struct segment *segment)
{
    void *shadow;

    if (recorder->shadow != NULL)
        munmap(recorder->shadow, recorder->shadow_size);
    recorder->shadow = NULL;
    shadow = mmap(NULL, segment->size, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (shadow == MAP_FAILED)
        return -1;
    recorder->shadow = shadow;
    recorder->shadow_size = segment->size;
    recorder->next_sample = 0;
    put_number(&recorder->raw, PART_SIZE);
    put_number(&recorder->raw, segment->size);
    return 0;
}

void recorder_set_origins(struct recorder *recorder, const char *origins)
{
    char *copy;

    if (recorder->origins != NULL && strcmp(recorder->origins, origins) == 0)
        return;
    copy = strdup(origins);
    if (copy == NULL)
        return; /* retried with the next chunk */
    free(recorder->origins);
    recorder->origins = copy;
    recorder->origins_new = true;
}

int recorder_add(struct recorder *recorder, const struct segment_reader *reader, bool new_daemon,
                 const struct process_table *processes, uint64_t now_ns, uint64_t wall_ns,
                 char *why, size_t size)
{
    bool whole =
        new_daemon || recorder->shadow == NULL || recorder->shadow_size != reader->map.size;
    bool costly = whole || now_ns >= recorder->costly_at_ns + COSTLY_EVERY_NS;

    recorder->raw.length = 0;
    recorder->run_end = 0;
    if (whole && begin_whole(recorder, &reader->map) != 0)
        return recording_failed(recorder, why, size);
    record_all(recorder, &reader->map, costly);
    recorder->costly_at_ns = costly ? now_ns : recorder->costly_at_ns;
    if (processes != NULL && processes->time_ns != 0 &&
        (whole || processes->time_ns != recorder->processes_at_ns)) {
        put_block(&recorder->raw, PART_PROCESSES, processes, PROCESS_TABLE_RECORDED);
        recorder->processes_at_ns = processes->time_ns;
    }
    if (recorder->origins != NULL && (whole || recorder->origins_new)) {
        put_block(&recorder->raw, PART_ORIGINS, recorder->origins, strlen(recorder->origins));
        recorder->origins_new = false;
    }
    return write_chunk(recorder, whole ? RECORDING_WHOLE : RECORDING_CHANGES, now_ns, wall_ns) == 0
               ? 0
               : recording_failed(recorder, why, size);
}

static int add_words(struct recorder *recorder, enum recording_kind kind, const char *words,
                     uint64_t now_ns, uint64_t wall_ns, char *why, size_t size)
{
    recorder->raw.length = 0;
    put_block(&recorder->raw, PART_WORDS, words, strlen(words));
    return write_chunk(recorder, kind, now_ns, wall_ns) == 0
               ? 0
               : recording_failed(recorder, why, size);
}

int recorder_add_end(struct recorder *recorder, const char *how, uint64_t now_ns, uint64_t wall_ns,
                     char *why, size_t size)
{
    return add_words(recorder, RECORDING_ENDED, how, now_ns, wall_ns, why, size);
}

int recorder_add_note(struct recorder *recorder, const char *text, uint64_t now_ns,
                      uint64_t wall_ns, char *why, size_t size)
{
    return add_words(recorder, RECORDING_NOTE, text, now_ns, wall_ns, why, size);
}

uint64_t recorder_bytes(const struct recorder *recorder)
{
    return recorder->bytes;
}

int recorder_close(struct recorder *recorder, char *why, size_t size)
{
    int result = 0;

    if (recorder == NULL)
        return 0;
    if (fclose(recorder->file) != 0)
        result = recording_failed(recorder, why, size);
    if (recorder->shadow != NULL)
        munmap(recorder->shadow, recorder->shadow_size);
    free(recorder->raw.bytes);
    free(recorder->packed.bytes);
    free(recorder->origins);
    free(recorder);
    return result;
}
