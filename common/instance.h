/* Where an instance keeps its things, by its name. Any thread. */
#ifndef COMMON_INSTANCE_H
#define COMMON_INSTANCE_H

#include <stdbool.h>
#include <stddef.h>

#define INSTANCE_DEFAULT_NAME "webserverd"

enum {
    INSTANCE_NAME_MAX = 48,  /* bytes, without the NUL */
    INSTANCE_PATH_MAX = 108, /* bytes, with the NUL: what a UNIX socket address takes */
};

/* Letters, digits, '.', '_' and '-', not beginning with '.', 1 to INSTANCE_NAME_MAX of them. */
bool instance_name_valid(const char *name);

/*
 * The functions below write into BUFFER (SIZE bytes) and return 0, or -1 when it is too small.
 *
 * run_dir: /run/webserverd for root; $XDG_RUNTIME_DIR/webserverd or /tmp/webserverd-UID for others.
 * segment_name: what shm_open() takes, "/webserverd.NAME".
 */
int instance_run_dir(char *buffer, size_t size);
int instance_socket_path(const char *name, char *buffer, size_t size);
int instance_segment_name(const char *name, char *buffer, size_t size);

#endif
