/* Media types by file name extension. A table is read-only once built; any thread. */
#ifndef DAEMON_MIME_H
#define DAEMON_MIME_H

#include <stddef.h>

struct mime_table;

/*
 * The built-in types (common/mime.def) and COUNT pairs of EXTENSIONS and TYPES, which override
 * them. Extensions are case-insensitive. Borrows both while the table exists. NULL: out of memory.
 */
struct mime_table *mime_table_new(const char *const *extensions, const char *const *types,
                                  size_t count);
void mime_table_free(struct mime_table *table);

/* The type of PATH by its extension; that of "default" if unknown. Never NULL. */
const char *mime_type(const struct mime_table *table, const char *path);

#endif
