/*
 * What became of a batch that a logger recorded before writing it, and died. Pure.
 */
#ifndef DAEMON_LOG_BATCH_H
#define DAEMON_LOG_BATCH_H

#include <stdint.h>
#include <sys/stat.h>

struct batch_record {
    uint64_t device, inode; /* of the file */
    uint64_t size_before;   /* of the file */
    uint64_t bytes;         /* of the batch */
};

enum batch_end {
    BATCH_WRITTEN,
    BATCH_UNWRITTEN,
    BATCH_PARTIAL, /* the file ends within it */
    BATCH_FORGED,  /* no logger writes such a batch: leave the file alone */
};

/*
 * The size of FILE, a regular file, shows how much of RECORD was written. BYTES_MAX is the size of the
 * largest batch.
 */
enum batch_end batch_end_of(const struct batch_record *record, const struct stat *file,
                            uint64_t bytes_max);

#endif
