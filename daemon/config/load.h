/* config_load() for a file whose text is in memory already: for tests and fuzzing. */
#ifndef DAEMON_CONFIG_LOAD_H
#define DAEMON_CONFIG_LOAD_H

#include "daemon/config/config.h"

/* The same as config_load() if the file NAME had the LENGTH bytes at TEXT in it. */
int config_load_text(struct config *config, const char *name, const char *text, size_t length,
                     const char *const *overrides, size_t count, FILE *errors);

#endif
