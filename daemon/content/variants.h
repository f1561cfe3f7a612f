/*
 * A file and its precompressed forms: "page.html" and beside it "page.html.br", "page.html.zst",
 * "page.html.gz". Who they are, as the file system tells: by that a cached form is known to be still
 * true, and to belong to the same state of the file as another.
 */
#ifndef DAEMON_FAMILY_H
#define DAEMON_FAMILY_H

#include "daemon/content/files.h"
#include "daemon/content/resource.h"

/*
 * Opens PATH, filling *FILE, whose descriptor is the caller's, and looks for its forms. A form that is
 * older than the file (by whole seconds) was made from something else and is passed over. Returns 0,
 * EISDIR (nothing is open then), or another errno of files_open().
 */
int family_open(const struct resource_source *source, const char *path, enum files_effort effort,
                struct file *file, struct family *family);

/* Opens the form of PATH in CODING, which must be the one that FAMILY knows: ESTALE if it is not. */
int family_open_form(const struct resource_source *source, const char *path, enum coding coding,
                     const struct family *family, enum files_effort effort, struct file *file);

/*
 * Are those members that there are still in the open folder FOLDER under NAME and its forms' names,
 * and look as they did? What was not there is not looked for. A few short system calls.
 */
bool family_is_there(int folder, const char *name, const struct family *family);

/*
 * Does nothing lie in FOLDER under the name of a form that is no member? What does may become one
 * without a change of the folder: it is too old, not readable, or a link that leads nowhere as yet.
 */
bool family_is_all(int folder, const char *name, const struct family *family);

bool family_same(const struct family *one, const struct family *other);

#endif
