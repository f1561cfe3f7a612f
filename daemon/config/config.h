/*
 * The configuration: a struct generated from common/config.def, read-only once loaded
 * (daemon/config/load.h). A field is called section_key: config->cache_max_object.
 */
#ifndef DAEMON_CONFIG_H
#define DAEMON_CONFIG_H

#include "common/instance.h"
#include "daemon/base/network.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct config_address {
    struct sockaddr_storage address;
    socklen_t length;
    char text[120]; /* "127.0.0.1:8080", "[::1]:8080", "*:80", "unix:/run/site.sock" */
};

struct config_addresses {
    struct config_address *item;
    size_t count;
};

enum { CONFIG_LIST_MAX = 64 }; /* items of ADDRESS, PATHS and NETWORKS */

struct config_paths {
    char **item; /* absolute */
    size_t count;
};

struct config_networks {
    struct network *item;
    size_t count;
};

/* A line of [headers]: sets the field NAME in responses within SCOPE. */
struct config_header {
    const char *scope; /* "" for all, "/prefix", "*.extension" */
    const char *name;
    const char *value; /* "": removes the field that a wider scope sets */
};

struct config_range {
    uint32_t min, max;
};

/* The words of each CHOICE key, in the order of config.def. */
enum config_dispatch { DISPATCH_KERNEL, DISPATCH_MASTER };
enum config_balance { BALANCE_ROUND_ROBIN, BALANCE_LEAST_CONNECTIONS };
enum config_policy { POLICY_SIEVE, POLICY_LRU };
enum config_dotfiles { DOTFILES_DENY, DOTFILES_ALLOW };
enum config_symlinks { SYMLINKS_DENY, SYMLINKS_INSIDE, SYMLINKS_FOLLOW }; /* as enum files_links */
enum config_when_full { WHEN_FULL_WAIT, WHEN_FULL_DROP };

#define CONFIG_C_TEXT     const char *
#define CONFIG_C_NAME     const char *
#define CONFIG_C_PATH     const char *
#define CONFIG_C_ADDRESS  struct config_addresses
#define CONFIG_C_PATHS    struct config_paths
#define CONFIG_C_NETWORKS struct config_networks
#define CONFIG_C_SWITCH   bool
#define CONFIG_C_COUNT    uint32_t
#define CONFIG_C_AUTO     uint32_t
#define CONFIG_C_SPAN     struct config_range
#define CONFIG_C_SIZE     uint64_t
#define CONFIG_C_TIME     uint32_t
#define CONFIG_C_CHOICE   uint32_t
#define CONFIG_C_MODE     uint32_t

struct config {
#define CONFIG_SECTION(section, help)
#define CONFIG_KEY(section, key, type, fallback, allowed, help) CONFIG_C_##type section##_##key;
#include "common/config.def"
#undef CONFIG_KEY
#undef CONFIG_SECTION
    /* [mime]: mime_count pairs. */
    const char **mime_extensions;
    const char **mime_types;
    size_t mime_count;
    /* [headers]. */
    struct config_header *headers;
    size_t header_count;
    char **origins; /* by enum config_key_number: where each value was set; see config_origin() */
};

/* Checks that depend on this system, which the caller of config_load() supplies. */
struct config_system {
    /* Can workers run as USER and GROUP ("": unset)? Returns 0, or -1 with the reason in WHY. */
    int (*check_identity)(const char *user, const char *group, bool *group_at_fault, char *why,
                          size_t size);
    /* Can symlinks = follow be served safely? */
    bool (*can_follow_links)(void);
};

#endif
