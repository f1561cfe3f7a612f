#include "daemon/logger/batch.h"

enum batch_end batch_end_of(const struct batch_record *record, const struct stat *file,
                            uint64_t bytes_max)
{
    uint64_t size = (uint64_t)file->st_size;

    if (record->bytes > bytes_max || record->size_before > INT64_MAX)
        return BATCH_FORGED;
    if (record->device != file->st_dev || record->inode != file->st_ino ||
        size <= record->size_before)
        return BATCH_UNWRITTEN;
    return size - record->size_before >= record->bytes ? BATCH_WRITTEN : BATCH_PARTIAL;
}
