/*
 * A file and its precompressed variants: "page.html" and beside it "page.html.br", "page.html.zst",
 * "page.html.gz". Who they are, as the file system tells: by that a cached variant is known to be still
 * true, and to belong to the same state of the file as another.
 */
#ifndef DAEMON_VARIANTS_H
#define DAEMON_VARIANTS_H

#include "daemon/content/files.h"
#include "daemon/content/resource.h"

/*
 * Opens PATH, filling *FILE, whose descriptor is the caller's, and looks for its variants. A variant that is
 * older than the file (by whole seconds) was made from something else and is passed over. Returns 0,
 * EISDIR (nothing is open then), or another errno of files_open().
 */
int variants_open(const struct resource_source *source, const char *path, enum files_effort effort,
                  struct file *file, struct variants *variants);

/* Opens the variant of PATH in CODING, which must be the one that VARIANTS knows: ESTALE if it is not. */
int variants_open_one(const struct resource_source *source, const char *path, enum coding coding,
                      const struct variants *variants, enum files_effort effort, struct file *file);

/*
 * Are those members that there are still in the open directory DIRECTORY under NAME and its variants' names,
 * and look as they did? What was not there is not looked for. A few short system calls.
 */
bool variants_unchanged(int directory, const char *name, const struct variants *variants);

/*
 * Does nothing lie in DIRECTORY under the name of a variant that is no member? What does may become one
 * without a change of the directory: it is too old, not readable, or a link that leads nowhere as yet.
 */
bool variants_complete(int directory, const char *name, const struct variants *variants);

bool variants_equal(const struct variants *one, const struct variants *other);

#endif
