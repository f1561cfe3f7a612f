/*
 * The descriptors of both logs. The master opens and reopens them, because the logger has no
 * rights, and passes them to the logger (process.h). The master.
 */
#ifndef DAEMON_LOG_FILES_H
#define DAEMON_LOG_FILES_H

#include "daemon/base/messages.h"
#include "daemon/config/config.h"

#include <stdbool.h>
#include <stddef.h>

struct log_files {
    const struct config *config; /* names the targets; borrowed */
    int fd[LOG_KINDS];           /* -1: off, lost, or not opened */
};

#define LOG_FILES_NONE ((struct log_files){.fd = {-1, -1}})

/*
 * Opens the target TEXT of a log (daemon/config/log_target.h): a socket, or for appending a regular
 * file, a character device or a pipe that has a reader. Follows no symbolic link. "-" duplicates
 * FALLBACK. Returns the descriptor, or -1 with WHY.
 */
int log_file_open(const char *text, int fallback, char *why, size_t size);

/* Opens the logs of CONFIG, except those that are off. Returns 0, or -1 with WHY and none open. */
int log_files_open(struct log_files *files, const struct config *config, char *why, size_t size);

/* Opens them again, for example after a rotation. Returns 0, or -1 with WHY and the old ones. */
int log_files_reopen(struct log_files *files, char *why, size_t size);

/* The receiver of one log has gone: closes it, and tries to open it. 0, or -1 with WHY. */
void log_files_lose(struct log_files *files, enum log_kind log);
int log_files_restore(struct log_files *files, enum log_kind log, char *why, size_t size);

/* True if a log is neither open nor off. */
bool log_files_lack(const struct log_files *files, enum log_kind log);

void log_files_close(struct log_files *files);

#endif
