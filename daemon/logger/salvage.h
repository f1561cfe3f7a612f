/*
 * The lines that a killed server left in its log rings. If the logger was killed, too, nothing
 * writes them. The next server of the same name copies the records before it replaces the shared
 * memory, and its logger writes them. Any content of the rings is safe.
 */
#ifndef DAEMON_LOGGER_SALVAGE_H
#define DAEMON_LOGGER_SALVAGE_H

#include "common/segment.h"

#include <stddef.h>
#include <stdint.h>

struct salvage {
    uint64_t *words; /* packed records (common/log_record.h); NULL: none */
    size_t count, room;
};

/*
 * Copies the unwritten records from SEGMENT, which a dead instance left. ACCESS_FD is the access log:
 * a batch that was being written there and is complete is not copied; the part of one is cut off. The
 * caller holds the lock of the instance. The master.
 */
void salvage_read(struct salvage *salvage, const struct segment *segment, int access_fd);
void salvage_free(struct salvage *salvage);

#endif
