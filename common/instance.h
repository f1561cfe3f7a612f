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
 */
int instance_run_dir(char *buffer, size_t size);
int instance_socket_path(const char *name, char *buffer, size_t size);

/*
 * True for root, the effective user, and the owner of /run/webserverd, to whom root gave the run
 * directory of the system service. Other users may create files in /dev/shm and sockets under the
 * name of an instance: those are not used. WHY is then "WHAT belongs to NAME (uid N), ...".
 */
bool instance_owner_trusted(uid_t uid, const char *what, char *why, size_t size);

/*
 * Who may use the file PATH, or the first directory above it that this user may not search: "needs
 * user web or root, or group staff". MODE is the bit that a group needs: S_IRGRP or S_IWGRP.
 */
void instance_describe_access(const char *path, mode_t mode, char *text, size_t size);

/*
 * Segments are in /dev/shm, where every user may create files: webserverd.NAME.RANDOM, a name that
 * nobody can take beforehand. Other servers may publish webserverd.NAME. RANDOM is 16 hexadecimal
 * digits.
 */
#define INSTANCE_SHARED_MEMORY "/dev/shm"

/* Ends the name of a segment that does not replace the one of a running server yet. */
#define INSTANCE_SEGMENT_NEW ".new"

/*
 * Writes a new name for shm_open(), "/webserverd.NAME.RANDOM", with END. Returns 0, or -1 with
 * errno.
 */
int instance_make_segment_name(const char *name, const char *end, char *buffer, size_t size);

/*
 * The segment of instance NAME, for shm_open(): of this user rather than of others, else the newest.
 * Returns 0; -1 with errno ENOENT, and WHY empty; or -1 if there are only those of users who are not
 * trusted, with WHY.
 */
int instance_find_segment(const char *name, char *buffer, size_t buffer_size, char *why,
                          size_t size);

/*
 * Removes the segments of NAME that belong to this user, or only those that end with
 * INSTANCE_SEGMENT_NEW. Returns 0, or -1 with errno.
 */
int instance_remove_segments(const char *name, bool only_new);

/* The name of the instance whose segment is FILE in /dev/shm. False if it is none. */
bool instance_of_segment(const char *file, char name[INSTANCE_NAME_MAX + 1]);

#endif
