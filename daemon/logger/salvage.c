#include "daemon/logger/salvage.h"

#include "common/log_record.h"
#include "common/segment_reader.h"
#include "daemon/base/events.h"
#include "daemon/config/hosts.h"
#include "daemon/logger/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The targets by entry of the dead server's hosts, which have their names there. */
static void find_old_targets(struct log_targets *found, const struct segment *segment,
                             const struct log_files *files)
{
    char name[HOST_NAME_BYTES];

    if (files->targets.count == 0 ||
        log_targets_reserve(found, segment_count(segment, SEGMENT_HOSTS)) != 0)
        return;
    for (uint32_t i = 0; i < found->entries; i++)
        if (host_name_read(segment, i, name) != 0)
            found->of_entry[i] = (uint16_t)log_targets_of_config(
                &files->targets, config_host_find(files->config, span_of(name)));
}

/* Returns false if it is out of memory. */
static bool salvage_ring(struct salvage *salvage, const struct log_ring *ring,
                         const struct log_targets *targets, bool batch_written)
{
    const _Atomic uint64_t *start = batch_written ? &ring->cursor->after : &ring->cursor->position;
    uint64_t begin = atomic_load_explicit(start, memory_order_acquire), position = begin;
    uint64_t record[LOG_RECORD_WORDS_MAX];

    while (position - begin < ring->capacity &&
           log_ring_read(ring, &position, record, LOG_RECORD_WORDS_MAX) == LOG_RING_RECORD) {
        size_t words = log_ring_words(record[0]);

        log_record_set_host(record,
                            (uint16_t)log_targets_of_entry(targets, log_record_host(record)));
        if (salvage->count + words > salvage->room) {
            size_t room = 2 * (salvage->room + words);
            uint64_t *grown = realloc(salvage->words, room * sizeof(*grown));

            if (grown == NULL)
                return false;
            salvage->words = grown;
            salvage->room = room;
        }
        memcpy(salvage->words + salvage->count, record, words * sizeof(*record));
        salvage->count += words;
    }
    return true;
}

enum left_batch salvage_judge_batch(const struct segment_logger *block, int fd)
{
    uint64_t before = atomic_load(&block->batch_size_before);
    uint64_t bytes = atomic_load(&block->batch_bytes), size;
    struct stat file;

    if (atomic_load_explicit(&block->batch_open, memory_order_acquire) == 0 || bytes == 0 ||
        fstat(fd, &file) != 0 || !S_ISREG(file.st_mode) ||
        atomic_load(&block->batch_device) != file.st_dev ||
        atomic_load(&block->batch_inode) != file.st_ino)
        return LEFT_BATCH_ELSEWHERE;
    size = (uint64_t)file.st_size;
    /*
     * No logger writes a larger batch, so the file keeps what it has. Another one may have cut it.
     */
    if (bytes > LOG_BATCH_BYTES || size <= before)
        return LEFT_BATCH_UNWRITTEN;
    if (size - before >= bytes)
        return LEFT_BATCH_WRITTEN;
    if (ftruncate(fd, (off_t)before) != 0)
        event_log(LEVEL_ERROR, "cannot truncate a partial batch of the access log: %s",
                  strerror(errno));
    return LEFT_BATCH_UNWRITTEN;
}

void salvage_read(struct salvage *salvage, const struct segment *segment,
                  const struct log_files *files)
{
    enum left_batch left = LEFT_BATCH_ELSEWHERE;
    struct log_targets targets = {.entries = 0};

    /* Servers of other programs have no logger, so nobody has written their lines. */
    if (segment_count(segment, SEGMENT_LOGGER) == 0 ||
        segment_count(segment, SEGMENT_LOG_CURSORS) == 0)
        return;
    /* If a pipe or socket has the batch, its lines are written twice: that is not known. */
    for (uint32_t log = 0; log < log_files_count(files) && left == LEFT_BATCH_ELSEWHERE; log++)
        left = salvage_judge_batch(segment_logger(segment), log_files_fd(files, log));
    if (log_files_fd(files, LOG_ACCESS) < 0)
        return;
    find_old_targets(&targets, segment, files);
    for (uint32_t i = 0; i < segment_count(segment, SEGMENT_RINGS); i++) {
        const struct log_ring ring = segment_ring(segment, i);

        if (segment_thread_reserved(segment, i) &&
            !salvage_ring(salvage, &ring, &targets, left == LEFT_BATCH_WRITTEN)) {
            event_log(LEVEL_ERROR, "no memory for all access log lines of the killed server");
            break;
        }
    }
    log_targets_free(&targets);
}

uint32_t salvage_target(const uint64_t *record, const struct log_targets *targets)
{
    uint64_t target = log_record_host(record);

    return target <= targets->count ? (uint32_t)target : 0;
}

void salvage_renumber(struct salvage *salvage, const struct log_targets *before,
                      const struct log_targets *after)
{
    for (size_t i = 0; i < salvage->count; i += log_ring_words(salvage->words[i])) {
        uint32_t target = salvage_target(salvage->words + i, before);

        log_record_set_host(salvage->words + i,
                            (uint16_t)log_targets_find(after, log_targets_key(before, target)));
    }
}

void salvage_free(struct salvage *salvage)
{
    free(salvage->words);
    *salvage = (struct salvage){0};
}
