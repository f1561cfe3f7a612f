#include "daemon/logger/salvage.h"

#include "common/log_record.h"
#include "daemon/base/events.h"
#include "daemon/logger/batch.h"
#include "daemon/logger/journal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int append(struct salvage *salvage, const uint64_t *record, size_t words)
{
    if (salvage->count + words > salvage->room) {
        size_t room = 2 * (salvage->room + words);
        uint64_t *grown = realloc(salvage->words, room * sizeof(*grown));

        if (grown == NULL)
            return -1;
        salvage->words = grown;
        salvage->room = room;
    }
    memcpy(salvage->words + salvage->count, record, words * sizeof(*record));
    salvage->count += words;
    return 0;
}

/* Returns false if it is out of memory. */
static bool read_ring(struct salvage *salvage, const struct log_ring *ring, bool batch_written)
{
    const _Atomic uint64_t *start = batch_written ? &ring->cursor->after : &ring->cursor->position;
    uint64_t begin = atomic_load_explicit(start, memory_order_acquire), position = begin;
    uint64_t record[LOG_RECORD_WORDS_MAX];

    while (position - begin < ring->capacity &&
           log_ring_read(ring, &position, record, LOG_RECORD_WORDS_MAX) == LOG_RING_RECORD)
        if (append(salvage, record, log_ring_words(record[0])) != 0)
            return false;
    return true;
}

/*
 * True if the batch that the dead logger was writing is in the log. Of a pipe or socket that is not
 * known; then its lines may be written twice.
 */
static bool batch_is_written(const struct segment_logger *block, int access_fd)
{
    const struct batch_record record = {
        .device = atomic_load(&block->batch_device),
        .inode = atomic_load(&block->batch_inode),
        .size_before = atomic_load(&block->batch_size_before),
        .bytes = atomic_load(&block->batch_bytes),
    };
    struct stat file;
    enum batch_end end;

    if (atomic_load_explicit(&block->batch_open, memory_order_acquire) == 0 || record.bytes == 0 ||
        fstat(access_fd, &file) != 0 || !S_ISREG(file.st_mode))
        return false;
    end = batch_end_of(&record, &file, sizeof(((struct log_batch *)NULL)->text));
    if (end == BATCH_PARTIAL && ftruncate(access_fd, (off_t)record.size_before) != 0)
        event_log(LEVEL_ERROR, "cannot truncate a partial batch of the access log: %s",
                  strerror(errno));
    return end == BATCH_WRITTEN;
}

void salvage_read(struct salvage *salvage, const struct segment *segment, int access_fd)
{
    bool written = batch_is_written(segment_logger(segment), access_fd);

    if (access_fd < 0)
        return;
    for (uint32_t i = 0; i < segment_count(segment, SEGMENT_RINGS); i++) {
        const struct log_ring ring = segment_ring(segment, i);

        if (segment_thread_reserved(segment, i) && !read_ring(salvage, &ring, written)) {
            event_log(LEVEL_ERROR, "no memory for all access log lines of the killed server");
            return;
        }
    }
}

void salvage_free(struct salvage *salvage)
{
    free(salvage->words);
    *salvage = (struct salvage){0};
}
