/*
 * The files of [acme] state_dir. A file is always complete: it is written beside and renamed. So
 * the process may end at any time.
 *
 *   account.key          key of the account, PEM
 *   account.key.next     the key that is to follow it, until the authority has answered
 *   account.json         its URL, and that of the authority's directory
 *   NAME.pem             key and certificate chain of NAME
 *   NAME.json            next attempt, failures since the last success, and when this was written
 *   lock                 held by the process that writes here
 */
#ifndef DAEMON_ACME_STATE_H
#define DAEMON_ACME_STATE_H

#include <jansson.h>

enum { STATE_FILE_MAX = 1024 * 1024 };

/* DIRECTORY is a descriptor. */

/* Returns the text of FILE, which the caller frees. NULL with errno. */
char *state_read(int directory, const char *file);

/* The same as JSON; NULL: there is no such file, or it is not a JSON object. */
json_t *state_read_json(int directory, const char *file);

/* Replaces FILE. Returns 0, or -1 with errno and the old file in place. */
int state_write(int directory, const char *file, const char *text);

/* The same; frees JSON. NULL: ENOMEM. */
int state_write_json(int directory, const char *file, json_t *json);

/*
 * Renames FILE to TO, which it replaces. Returns 0, or -1 with errno. After a power failure it may
 * have its old name.
 */
int state_rename(int directory, const char *file, const char *to);

/*
 * Removes FILE, which may be missing. Returns 0, or -1 with errno. After a power failure it may be
 * there.
 */
int state_remove(int directory, const char *file);

/* Checks that there is space for files of BYTES. Returns 0, or -1 with errno. */
int state_check_space(int directory, size_t bytes);

/* Returns a descriptor with the lock; -1 with errno (EWOULDBLOCK: another process has it). */
int state_lock(int directory);

#endif
