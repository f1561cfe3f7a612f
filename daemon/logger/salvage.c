#include "daemon/logger/salvage.h"

#include "common/host_totals.h"
#include "common/log_record.h"
#include "daemon/base/events.h"
#include "daemon/config/host_find.h"
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

/* The targets by entry of the dead server's hosts, which have their names there. */
static void find_targets(struct log_targets *found, const struct segment *segment,
                         const struct log_files *files)
{
    char name[HOST_NAME_BYTES];

    if (files->targets.count == 0 ||
        log_targets_reserve(found, segment_count(segment, SEGMENT_HOSTS)) != 0)
        return;
    for (uint32_t i = 0; i < found->entries; i++)
        if (host_name_read(segment, i, name) != 0)
            found->of_entry[i] = (uint16_t)log_targets_of_config(
                &files->targets,
                config_host_find(files->config, (struct span){name, strlen(name)}));
}

/* Returns false if it is out of memory. */
static bool read_ring(struct salvage *salvage, const struct log_ring *ring,
                      const struct log_targets *targets, bool batch_written)
{
    const _Atomic uint64_t *start = batch_written ? &ring->cursor->after : &ring->cursor->position;
    uint64_t begin = atomic_load_explicit(start, memory_order_acquire), position = begin;
    uint64_t record[LOG_RECORD_WORDS_MAX];

    while (position - begin < ring->capacity &&
           log_ring_read(ring, &position, record, LOG_RECORD_WORDS_MAX) == LOG_RING_RECORD) {
        log_record_set_host(record,
                            (uint16_t)log_targets_of_entry(targets, log_record_host(record)));
        if (append(salvage, record, log_ring_words(record[0])) != 0)
            return false;
    }
    return true;
}

/* The descriptor of the log with DEVICE and INODE; -1: none. */
static int find_file(const struct log_files *files, uint64_t device, uint64_t inode)
{
    struct stat file;

    for (uint32_t log = 0; log < log_files_count(files); log++)
        if (fstat(log_files_fd(files, log), &file) == 0 && S_ISREG(file.st_mode) &&
            file.st_dev == device && file.st_ino == inode)
            return log_files_fd(files, log);
    return -1;
}

/*
 * True if the batch that the dead logger was writing is in the log. Of a pipe or socket that is not
 * known; then its lines may be written twice.
 */
static bool batch_is_written(const struct segment_logger *block, const struct log_files *files)
{
    const struct batch_record record = {
        .device = atomic_load(&block->batch_device),
        .inode = atomic_load(&block->batch_inode),
        .size_before = atomic_load(&block->batch_size_before),
        .bytes = atomic_load(&block->batch_bytes),
    };
    int fd = find_file(files, record.device, record.inode);
    struct stat file;
    enum batch_end end;

    if (atomic_load_explicit(&block->batch_open, memory_order_acquire) == 0 || record.bytes == 0 ||
        fd < 0 || fstat(fd, &file) != 0)
        return false;
    end = batch_end_of(&record, &file, sizeof(((struct log_batch *)NULL)->text));
    if (end == BATCH_PARTIAL && ftruncate(fd, (off_t)record.size_before) != 0)
        event_log(LEVEL_ERROR, "cannot truncate a partial batch of the access log: %s",
                  strerror(errno));
    return end == BATCH_WRITTEN;
}

void salvage_read(struct salvage *salvage, const struct segment *segment,
                  const struct log_files *files)
{
    bool written = batch_is_written(segment_logger(segment), files);
    struct log_targets targets = {.entries = 0};

    if (log_files_fd(files, LOG_ACCESS) < 0)
        return;
    find_targets(&targets, segment, files);
    for (uint32_t i = 0; i < segment_count(segment, SEGMENT_RINGS); i++) {
        const struct log_ring ring = segment_ring(segment, i);

        if (segment_thread_reserved(segment, i) && !read_ring(salvage, &ring, &targets, written)) {
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
