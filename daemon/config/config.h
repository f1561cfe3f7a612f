/*
 * The configuration: a struct generated from common/config.def, read-only once loaded
 * (daemon/config/load.h). A field is called section_key: config->cache_max_object.
 */
#ifndef DAEMON_CONFIG_H
#define DAEMON_CONFIG_H

#include "common/instance.h"
#include "common/tables.h"
#include "daemon/base/network.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct config_address {
    struct sockaddr_storage address;
    socklen_t length;
    bool tls;   /* https:// */
    bool proxy; /* also in [proxy] listen */
    /* without the scheme: "127.0.0.1:8080", "[::1]:8080", "*:80", "unix:/run/site.sock" */
    char text[120];
};

struct config_addresses {
    struct config_address *item;
    size_t count;
};

enum { CONFIG_LIST_MAX = 64 }; /* items of ADDRESS, PATHS and NAMES */

struct config_words {
    char **item; /* PATHS are absolute */
    size_t count;
};

struct config_networks {
    struct network_set set;
    char *text; /* the list as written, with the names of its files; NULL: not set */
};

/* A line of a source. */
struct config_line {
    const char *source; /* "etc/webserver.ini", "-o 2", "default"; NULL: none */
    size_t number;      /* from 1; 0: not of a file */
};

/* A line of [headers]: sets the field NAME in responses within SCOPE. */
struct config_header {
    const char *host;  /* the first name of a [host]; "": all hosts */
    const char *scope; /* "" for all, "/prefix", "*.extension" */
    bool always;       /* [headers always …]: a freshness field for errors, too */
    const char *name;
    const char *value; /* "": removes the field that a wider scope sets */
    struct config_line line;
};

struct config_user {
    char *name, *hash;
    size_t file_line;
};

/* A users file, by name; see rules.h. */
struct config_users {
    char *file; /* NULL: none */
    struct config_user *item;
    size_t count;
};

/* Of a section with a path; see paths.c. */
struct config_scope {
    char *host;    /* as in struct config_header */
    char *prefix;  /* without a '/' at its end; "": all paths */
    uint64_t hash; /* of prefix */
};

/* A section [cors]; see rules.h. */
struct config_cors {
    struct config_scope scope;
    char *origins, *methods, *fields, *expose; /* words joined by ", "; NULL: not set */
    uint32_t max_age_s;
    bool has_max_age;
    bool credentials, has_credentials;
};

/* A section [access]; see rules.h. */
struct config_access {
    struct config_scope scope;
    struct config_networks allow, deny;
    char *realm; /* NULL: the default */
    struct config_users users;
};

enum redirect_action { REDIRECT_TO, REDIRECT_STATUS, REDIRECT_TRY, REDIRECT_PASS };

/* A line of [redirect]; see rules.h. */
struct config_redirect {
    char *host;           /* as in struct config_header */
    uint32_t host_number; /* config_host_number() */
    const char *path;     /* decoded; without the star and the '/' before it */
    bool below;           /* for path and all below it; there was a star */
    bool plain;           /* for requests without TLS only */
    enum redirect_action action;
    int status; /* REDIRECT_TRY: the answer if nothing exists */
    const char *
        target; /* REDIRECT_TO: a path, a URL or "https:", encoded; REDIRECT_TRY: a path, or NULL */
    bool rest;  /* the rest of the path follows target */
    bool try_file, try_directory;
    struct config_line line;
};

struct config_range {
    uint32_t min, max;
};

/* The words of each CHOICE key, in the order of config.def. */
enum config_jail { JAIL_OFF, JAIL_ON, JAIL_STRICT };
enum config_error_format { ERROR_FORMAT_TEXT, ERROR_FORMAT_JSON };
/* The acceptor, which the models pool and thread have in each worker beside its serving threads. */
#define MODEL_ACCEPTORS(model) ((model) == MODEL_EVENTS ? 0U : 1U)
enum config_https { HTTPS_OPTIONAL, HTTPS_REDIRECT };
enum config_dispatch { DISPATCH_KERNEL, DISPATCH_MASTER };
enum config_balance { BALANCE_ROUND_ROBIN, BALANCE_LEAST_CONNECTIONS };
enum config_precompressed { PRECOMPRESSED_OFF, PRECOMPRESSED_ON, PRECOMPRESSED_ALONE };
enum config_policy { POLICY_SIEVE, POLICY_LRU };
enum config_dotfiles { DOTFILES_DENY, DOTFILES_ALLOW };
enum config_symlinks { SYMLINKS_DENY, SYMLINKS_INSIDE, SYMLINKS_FOLLOW }; /* as enum files_links */
enum config_tls_protocols { TLS_PROTOCOLS_INTERMEDIATE, TLS_PROTOCOLS_MODERN };
enum config_proxy_field { PROXY_FIELD_NONE, PROXY_FIELD_X_FORWARDED_FOR, PROXY_FIELD_FORWARDED };
enum config_when_full { WHEN_FULL_WAIT, WHEN_FULL_DROP };
enum config_acme_terms { ACME_TERMS_NO, ACME_TERMS_YES };
enum config_acme_key { ACME_KEY_P256, ACME_KEY_RSA2048 };
enum config_acme_challenge {
    ACME_CHALLENGE_AUTO,
    ACME_CHALLENGE_HTTP_01,
    ACME_CHALLENGE_TLS_ALPN_01,
    ACME_CHALLENGE_DNS_01
};
enum config_acme_per { ACME_PER_NAME, ACME_PER_HOST };

#define CONFIG_C_TEXT     const char *
#define CONFIG_C_SECRET   const char *
#define CONFIG_C_NAME     const char *
#define CONFIG_C_PATH     const char *
#define CONFIG_C_PREFIX   const char *
#define CONFIG_C_ADDRESS  struct config_addresses
#define CONFIG_C_PATHS    struct config_words
#define CONFIG_C_NETWORKS struct config_networks
#define CONFIG_C_NAMES    struct config_words
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
    struct config_line *mime_lines;
    size_t mime_count;
    /* [headers]. */
    struct config_header *headers;
    size_t header_count;
    /* [access]. */
    struct config_access *access;
    size_t access_count;
    struct path_index *access_index;
    /* [cors]. */
    struct config_cors *cors;
    size_t cors_count;
    struct path_index *cors_index;
    /* [redirect]. */
    struct config_redirect *redirects;
    size_t redirect_count;
    struct path_index *redirect_index;
    bool redirects_by_scheme; /* a rule is for requests without TLS only */
    /* [host]. */
    struct config_host *hosts;
    size_t host_count;
    /*
     * [acme]: the names of each certificate, in lower case, separated by blanks; the first one
     * identifies it. None unless it is enabled.
     */
    struct config_words acme_names;
    bool threads_are_auto;              /* workers_threads was auto: the model decides */
    struct config_users metrics_logins; /* those of metrics_users; none: no password is needed */
    char **origins;              /* [KEY_COUNT]: where each value was set; see config_origin() */
    struct config_words sources; /* their names, to which the lines point */
    size_t file_count; /* the first of them are the files, and directories of included ones */
};

enum config_host_key {
#define HOST_KEY(name, section, key) HOST_KEY_##name,
#include "common/config_host.def"
#undef HOST_KEY
    HOST_KEY_COUNT
};

/* A [host] section. A value that it does not set is a copy of the one in force for all hosts. */
struct config_host {
    char **names; /* in lower case; the first one identifies the host; "*.example.org" */
    size_t name_count;
    bool given[HOST_KEY_COUNT];              /* set by the section, which then owns the value */
    struct config_line line[HOST_KEY_COUNT]; /* where */
#define HOST_KEY(name, section, key) __typeof__(((struct config *)0)->section##_##key) name;
#include "common/config_host.def"
#undef HOST_KEY
};

/* Checks that depend on this system, which the caller of config_load() supplies. */
struct config_system {
    /* Can workers run as USER and GROUP ("": unset)? Returns 0, or -1 with the reason in WHY. */
    int (*check_identity)(const char *user, const char *group, bool *group_at_fault, char *why,
                          size_t size);
    /* Can symlinks = follow be served safely? */
    bool (*can_follow_links)(void);
    /* Do this build and kernel have all of the sandbox, as jail = strict demands? */
    bool (*sandbox_is_complete)(void);
};

/* True if it is enabled, and the model of the workers can speak it. */
static inline bool config_speaks_http2(const struct config *config)
{
    return config->http2_enabled && config->workers_model == MODEL_EVENTS;
}

#endif
