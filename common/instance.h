/* Names and paths of an instance. Any thread. */
#ifndef COMMON_INSTANCE_H
#define COMMON_INSTANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define INSTANCE_DEFAULT_NAME "webserverd"

enum {
    INSTANCE_NAME_MAX = 48,  /* bytes, without the NUL */
    INSTANCE_PATH_MAX = 108, /* bytes, with the NUL: limit of a UNIX socket address */
};

/* 1 to INSTANCE_NAME_MAX letters, digits, '.', '_' and '-'; the first one is not '.'. */
bool instance_name_valid(const char *name);

/*
 * These functions write into BUFFER (SIZE bytes) and return 0, or -1 if it is too small.
 *
 * run_dir: /run/webserverd for root; $XDG_RUNTIME_DIR/webserverd or /tmp/webserverd-UID for others.
 * segment_name: for shm_open(), "/webserverd.NAME".
 */
int instance_run_dir(char *buffer, size_t size);
int instance_socket_path(const char *name, char *buffer, size_t size);
int instance_segment_name(const char *name, char *buffer, size_t size);

/*
 * True for root, the effective user, and the owner of /run/webserverd, to whom root gave the run
 * directory of the system service. Other users may create files in /dev/shm and sockets under the
 * name of an instance: those are not used. WHY is then "WHAT belongs to NAME (uid N), ...".
 */
bool instance_owner_trusted(uid_t uid, const char *what, char *why, size_t size);

#endif
