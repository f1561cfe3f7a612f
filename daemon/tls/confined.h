/*
 * Work in a child of the master that reads what others may have written, such as a key: nothing that
 * the child does or becomes reaches the master, and it ends soon. The master.
 */
#ifndef DAEMON_TLS_CONFINED_H
#define DAEMON_TLS_CONFINED_H

#include "daemon/config/config.h"

#include <stdbool.h>
#include <stddef.h>

enum confined_result {
    CONFINED_DONE,
    CONFINED_REFUSED, /* the work failed, or took too long */
    CONFINED_FAILED,  /* there was no child, or it could not be confined */
};

/* Returns true, or false with WHY. */
typedef bool confined_work(void *argument, char *why, size_t size);

/*
 * Runs WORK(ARGUMENT) in a child that has a second of CPU time, and 64 MiB besides the memory of the
 * master. With CONFIG it is sandboxed, too: no file, no network, no shared memory, no descriptor but
 * FD. Without CONFIG it reads files of the administrator. Sets WHY unless CONFINED_DONE; FILE is for
 * that.
 */
enum confined_result confined_run(const struct config *config, const char *file, int fd,
                                  confined_work *work, void *argument, char *why, size_t size);

#endif
