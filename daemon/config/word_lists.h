/*
 * Values that are lists: folders, and networks. Words are separated by blanks or commas. Parsers
 * return 0 with the list filled (then owned by the caller), or -1 when FAULTS has been told. Any thread.
 */
#ifndef DAEMON_CONFIG_LISTS_H
#define DAEMON_CONFIG_LISTS_H

#include "daemon/config/config.h"
#include "daemon/config/fault.h"

/* Relative paths are taken from the folder BASE. */
int config_paths_parse(const char *text, const char *base, struct config_paths *paths,
                       const struct config_faults *faults);
void config_paths_free(struct config_paths *paths);
int config_networks_parse(const char *text, struct config_networks *networks,
                          const struct config_faults *faults);
void config_networks_free(struct config_networks *networks);

/* As the parsers take it, in memory that the caller frees. NULL: out of memory. */
char *config_paths_text(const struct config_paths *paths);
char *config_networks_text(const struct config_networks *networks);

#endif
