/*
 * Media types by file name ending. A table is built once when the configuration is known and then
 * only read, by any thread.
 */
#ifndef DAEMON_MIME_H
#define DAEMON_MIME_H

#include <stddef.h>

struct mime_table;

/* The built-in types (common/mime.def), overridden and added to by COUNT pairs of ENDINGS and TYPES
 * (borrowed for the table's lifetime; letter case of endings does not matter). NULL: out of memory. */
struct mime_table *mime_table_new(const char *const *endings, const char *const *types,
                                  size_t count);
void mime_table_free(struct mime_table *table);

/* The type for a path, "application/octet-stream" where the ending is not known. Never NULL. */
const char *mime_type(const struct mime_table *table, const char *path);

#endif
