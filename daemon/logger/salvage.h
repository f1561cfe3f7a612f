/*
 * What the dead leave: the batch that a logger was writing, and the lines in the log rings of a
 * killed server. If the logger was killed, too, nothing writes them. The next server of the same
 * name copies the records before it replaces the shared memory, and its logger writes them. Any
 * content of the rings is safe. The records have the number of a target (log_files.h) in place of
 * that of a host.
 */
#ifndef DAEMON_LOGGER_SALVAGE_H
#define DAEMON_LOGGER_SALVAGE_H

#include "common/segment.h"
#include "daemon/logger/log_files.h"

#include <stddef.h>
#include <stdint.h>

struct salvage {
    uint64_t *words; /* packed records (common/log_record.h); NULL: none */
    size_t count, room;
};

/*
 * Copies the unwritten records from SEGMENT, which a dead instance left. FILES are the logs that
 * are open now: a batch that was being written to one of them and is complete is not copied; the
 * part of one is cut off. The caller holds the lock of the instance. The master.
 */
void salvage_read(struct salvage *salvage, const struct segment *segment,
                  const struct log_files *files);
void salvage_free(struct salvage *salvage);

/* What became of the batch that a dead logger was writing. */
enum left_batch {
    LEFT_BATCH_ELSEWHERE, /* unknown, or there was none: FD is not its file */
    LEFT_BATCH_WRITTEN,
    LEFT_BATCH_UNWRITTEN, /* its file FD has no part of it; one that it had was cut off */
};

/* The size of the regular file FD shows how much it has of the batch that is noted in BLOCK. */
enum left_batch salvage_judge_batch(const struct segment_logger *block, int fd);

/*
 * The targets change from those of BEFORE to those of AFTER. While no logger has SALVAGE. The
 * master.
 */
void salvage_renumber(struct salvage *salvage, const struct log_targets *before,
                      const struct log_targets *after);

/* The target of RECORD of a salvage. */
uint32_t salvage_target(const uint64_t *record, const struct log_targets *targets);

#endif
