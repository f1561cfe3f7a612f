/*
 * A file and its precompressed variants: "page.html" with "page.html.br", "page.html.zst" and
 * "page.html.gz" beside it. Their identities in the file system show whether a cached variant is
 * current, and whether two cached variants belong to the same state of the file. Any thread.
 */
#ifndef DAEMON_VARIANTS_H
#define DAEMON_VARIANTS_H

#include "daemon/content/files.h"
#include "daemon/http/negotiation.h"

#include <stdbool.h>
#include <stdint.h>

/* Differs if the file was replaced or changed; all zero: no such file. */
struct file_identity {
    uint64_t device, inode, size;
    int64_t mtime_s;
    uint32_t mtime_ns;
    int64_t ctime_s; /* covers permissions, too */
    uint32_t ctime_ns;
};

/* The file itself is member[CODING_IDENTITY]. */
struct variants {
    struct file_identity member[CODING_COUNT];
};

/*
 * Opens PATH, fills *FILE (the caller owns its descriptor), and unless PRECOMPRESSED is off looks
 * for its variants. A variant whose mtime is older than the file's (in whole seconds) is out of
 * date and ignored. Variants that stand alone are enough: then file->fd is -1. Returns 0; EISDIR,
 * with nothing open; or another errno of files_open().
 */
int variants_open(const struct files_root *root, enum config_precompressed precompressed,
                  const char *path, enum files_effort effort, struct file *file,
                  struct variants *variants);

/*
 * Opens PATH's variant in CODING. Returns 0, ESTALE if it is not the one in VARIANTS, or an errno.
 */
int variants_open_one(const struct files_root *root, const char *path, enum coding coding,
                      const struct variants *variants, enum files_effort effort, struct file *file);

/*
 * Returns true if every member is still in the open DIRECTORY, as NAME and NAME's variants, with
 * the same identity. Does not look for other variants. One short system call per member.
 */
bool variants_unchanged(int directory, const char *name, const struct variants *variants);

/*
 * Returns true if every name of the file or a variant that exists in DIRECTORY is a member. Other
 * such files are out of date, not readable, or dangling links, and could become members without a change of
 * the directory.
 */
bool variants_complete(int directory, const char *name, const struct variants *variants);

bool variants_equal(const struct variants *one, const struct variants *other);

#endif
