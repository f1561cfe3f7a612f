/*
 * Values that are lists: addresses to listen on, paths, and networks. Words are separated by blanks
 * or commas. Parsers return 0 with the list filled, which the caller then owns, or -1 after
 * reporting every bad word to FAULTS. Any thread.
 */
#ifndef DAEMON_CONFIG_LISTS_H
#define DAEMON_CONFIG_LISTS_H

#include "daemon/config/config.h"
#include "daemon/config/report.h"

/*
 * Parses "127.0.0.1:8080 [::1]:8080, https://[::]:443, unix:/path". Ports are 0 to 65535 (0: the kernel picks
 * one). "*" is every address of IPv4 and IPv6: AF_INET6 and ::, distinct from [::] only by its
 * text. Host names and addresses that cannot be bound at the same time are errors, and with REQUIRED no
 * address, too. Free list->item.
 */
int config_addresses_parse(const char *text, bool required, struct config_addresses *list,
                           const struct config_faults *faults);

/* Relative paths are joined to the directory BASE. */
int config_paths_parse(const char *text, const char *base, struct config_paths *paths,
                       const struct config_faults *faults);
void config_paths_free(struct config_paths *paths);

int config_networks_parse(const char *text, struct config_networks *networks,
                          const struct config_faults *faults);
/* True if one of NETWORKS contains ADDRESS; see network_contains(). */
bool config_networks_contain(const struct config_networks *networks,
                             const uint8_t address[NETWORK_ADDRESS_BYTES]);
void config_networks_free(struct config_networks *networks);

/* The list in the syntax of its parser; the caller frees it. NULL: out of memory. */
char *config_addresses_text(const struct config_addresses *list);
char *config_paths_text(const struct config_paths *paths);
char *config_networks_text(const struct config_networks *networks);

/*
 * DIRECTORY, a '/' and PATH. Each leading "./" of PATH is left out, and each leading "../" with the
 * component before it, unless that is a symbolic link. The caller frees it. NULL: out of memory.
 */
char *config_path_join(const char *directory, const char *path);

#endif
