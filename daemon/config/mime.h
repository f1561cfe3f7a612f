/* The section [mime]: "extension = type", the media type of files whose name ends in .extension. */
#ifndef DAEMON_CONFIG_MIME_H
#define DAEMON_CONFIG_MIME_H

#include "daemon/config/config.h"
#include "daemon/config/reader.h"

/*
 * Adds ENTRY to CONFIG, or replaces the pair of the same extension; reports errors. *LINES
 * (allocated, owned by the caller) has the file's line number of each pair, or 0 if not from the
 * file.
 */
void config_mime_add(struct config *config, size_t **lines, const struct config_entry *entry,
                     struct config_report *report);

#endif
