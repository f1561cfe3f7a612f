/*
 * Notes: settings without effect, which -t, the start, a reload and commands name, and what only
 * root can open.
 */
#include "daemon/config/internal.h"

#include "common/log_record.h"
#include "common/macros.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Settings without effect */

static bool has_event_loops(const struct config *config)
{
    return config->workers_model == MODEL_EVENTS;
}

static bool has_connection_queue(const struct config *config)
{
    return config->workers_model != MODEL_EVENTS;
}

/* The master passes connections of such sockets with every dispatch. */
static bool has_unix_address(const struct config *config)
{
    for (size_t i = 0; i < config->server_listen.count; i++)
        if (config->server_listen.item[i].address.ss_family == AF_UNIX)
            return true;
    return false;
}

static bool passes_connections(const struct config *config)
{
    return config->workers_dispatch == DISPATCH_MASTER || has_unix_address(config);
}

static bool queues_connections(const struct config *config)
{
    return has_connection_queue(config) || passes_connections(config);
}

static bool has_users(const struct config *config)
{
    for (size_t i = 0; i < config->access_count; i++)
        if (config->access[i].users.count > 0)
            return true;
    return false;
}

static bool queues_jobs(const struct config *config)
{
    return has_event_loops(config) || has_users(config);
}

static bool checks_passwords(const struct config *config)
{
    return config->metrics_users[0] != '\0' || has_users(config);
}

static bool has_keepalive(const struct config *config)
{
    return config->connections_keepalive;
}

static bool has_tickets(const struct config *config)
{
    return config->tls_session_tickets;
}

static bool has_http2(const struct config *config)
{
    return config->http2_enabled;
}

static bool has_cache(const struct config *config)
{
    return config->cache_enabled;
}

static bool compresses(const struct config *config)
{
    return config->cache_compress;
}

static bool logs_json(const struct config *config)
{
    return config->log_format == LOG_FORMAT_JSON;
}

static bool waits_for_log(const struct config *config)
{
    return config->log_when_full == WHEN_FULL_WAIT;
}

static bool logs_info(const struct config *config)
{
    return config->log_level <= LEVEL_INFO;
}

static bool limits_rate(const struct config *config)
{
    return config->ratelimit_enabled;
}

static bool knows_proxies(const struct config *config)
{
    return config->proxy_listen.count > 0 || config->proxy_field != PROXY_FIELD_NONE ||
           config->connections_max_per_ip > 0;
}

static bool serves_metrics(const struct config *config)
{
    return config->metrics_listen.count > 0;
}

static bool has_acme(const struct config *config)
{
    return config->acme_enabled;
}

static bool has_hooks(const struct config *config)
{
    return config->acme_dns_hook[0] != '\0' || config->acme_deploy_hook[0] != '\0';
}

static bool does_arithmetic(const struct config *config)
{
    return config->arithmetic_enabled;
}

/* The keys FIRST to LAST have an effect only if HOLDS returns true: if DECIDER has VALUE. */
struct effect {
    enum config_key_number first, last;
    bool (*holds)(const struct config *config);
    enum config_key_number decider;
    const char *value;
    bool of_addresses; /* unknown if the sockets are those of a service manager */
};

#define EFFECT(key, holds, decider, value)                                                         \
    {                                                                                              \
        KEY_##key, KEY_##key, holds, KEY_##decider, value, false                                   \
    }
#define EFFECTS(first, last, holds, decider, value)                                                \
    {                                                                                              \
        KEY_##first, KEY_##last, holds, KEY_##decider, value, false                                \
    }
#define ADDRESS_EFFECTS(first, last, holds, decider, value)                                        \
    {                                                                                              \
        KEY_##first, KEY_##last, holds, KEY_##decider, value, true                                 \
    }

/* Only the first condition of a key that does not hold is a note. */
static const struct effect effects[] = {
    EFFECT(workers_offload_threads, has_event_loops, workers_model, "events"),
    EFFECT(workers_offload_queue, queues_jobs, workers_model, "events, or users in [access]"),
    ADDRESS_EFFECTS(workers_connection_queue, workers_connection_queue, queues_connections,
                    workers_model, "pool or thread, or workers.dispatch = master"),
    EFFECTS(workers_queue_order, workers_queue_full, has_connection_queue, workers_model,
            "pool or thread"),
    ADDRESS_EFFECTS(workers_balance, workers_balance, passes_connections, workers_dispatch,
                    "master, or UNIX sockets"),
    EFFECT(workers_balance_connections, has_event_loops, workers_model, "events"),
    EFFECTS(connections_keepalive_requests, connections_keepalive_max_open, has_keepalive,
            connections_keepalive, "on"),
    ADDRESS_EFFECTS(tls_certificate, tls_hsts, config_needs_tls, server_listen, "https://ADDRESS"),
    EFFECT(tls_session_timeout, has_tickets, tls_session_tickets, "on"),
    EFFECT(http2_max_concurrent_streams, has_http2, http2_enabled, "on"),
    EFFECT(http2_max_concurrent_streams, has_event_loops, workers_model, "events"),
    EFFECT(limits_failed_logins, checks_passwords, metrics_users, "FILE, or users in [access]"),
    EFFECT(cache_size, has_cache, cache_enabled, "on"),
    EFFECTS(cache_max_entries, cache_policy, has_cache, cache_enabled, "on"),
    EFFECTS(cache_compress, cache_zstd_level, has_cache, cache_enabled, "on"),
    EFFECTS(cache_gzip_level, cache_zstd_level, compresses, cache_compress, "on"),
    EFFECTS(log_format, log_sample, config_hosts_log_any, log_access, "FILE, or one in a [host]"),
    EFFECT(log_fields, logs_json, log_format, "json"),
    EFFECT(log_wait_timeout, waits_for_log, log_when_full, "wait"),
    EFFECT(log_summary_interval, logs_info, log_level, "info"),
    EFFECTS(ratelimit_requests_per_second, ratelimit_exempt, limits_rate, ratelimit_enabled, "on"),
    ADDRESS_EFFECTS(proxy_trusted, proxy_trusted, knows_proxies, proxy_field,
                    "X-Forwarded-For or Forwarded, or proxy.listen"),
    EFFECTS(metrics_hosts, metrics_realm, serves_metrics, metrics_listen, "ADDRESS"),
    EFFECTS(acme_agree_to_terms, acme_ca_file, has_acme, acme_enabled, "on"),
    EFFECT(acme_hook_timeout, has_hooks, acme_dns_hook, "FILE, or acme.deploy_hook"),
    EFFECT(arithmetic_prefix, does_arithmetic, arithmetic_enabled, "on"),
};

static void note_effect(const struct effect *effect, enum config_key_number number,
                        void (*print)(void *context, const char *note), void *context)
{
    const struct config_key *key = &config_keys[number], *decider = &config_keys[effect->decider];
    char note[CONFIG_ADVICE_MAX];

    snprintf(note, sizeof(note), "%s.%s has no effect without %s.%s = %s", key->section, key->name,
             decider->section, decider->name, effect->value);
    print(context, note);
}

/* One note for all hosts, of which there may be hundreds. */
static void note_hosts(const struct config *config, void (*print)(void *context, const char *note),
                       void *context)
{
    char note[CONFIG_ADVICE_MAX];
    const char *first = NULL;
    size_t count = 0;

    for (size_t i = 0; i < config->host_count; i++) {
        const struct config_host *host = &config->hosts[i];

        if (!host->given[HOST_KEY_certificate] && !host->given[HOST_KEY_hsts])
            continue;
        if (count++ == 0)
            first = host->names[0];
    }
    if (count == 0)
        return;
    snprintf(note, sizeof(note),
             "certificate and hsts of %zu [host] %s (%s) have no effect without server.listen = "
             "https://ADDRESS",
             count, count == 1 ? "section" : "sections", first);
    print(context, note);
}

void config_notes(const struct config *config, size_t subject, bool activated,
                  void (*print)(void *context, const char *note), void *context)
{
    bool noted[KEY_COUNT] = {false}, all = subject == KEY_COUNT;
    char note[CONFIG_ADVICE_MAX];

    if (config->http2_enabled && !has_event_loops(config) &&
        (all || subject == KEY_workers_model)) {
        snprintf(note, sizeof(note), "model = %s speaks HTTP/1 only: http2.enabled has no effect",
                 worker_model_names[config->workers_model]);
        print(context, note);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(effects); i++) {
        const struct effect *effect = &effects[i];

        if ((effect->of_addresses && activated) || effect->holds(config))
            continue;
        for (size_t key = effect->first; key <= effect->last; key++) {
            bool is_set = strcmp(config_origin(config, key), "default") != 0;

            if (!noted[key] && (key == subject || (is_set && (all || effect->decider == subject))))
                note_effect(effect, (enum config_key_number)key, print, context);
            noted[key] = true;
        }
    }
    if (all && !activated && !config_needs_tls(config))
        note_hosts(config, print, context);
}

/* What only root can open */

static void note_port(const struct config_address *item, unsigned first,
                      void (*print)(void *context, const char *note), void *context)
{
    const char *colon = strrchr(item->text, ':');
    char note[CONFIG_ADVICE_MAX];
    unsigned long port = 0;

    if (item->address.ss_family != AF_UNIX && colon != NULL)
        port = strtoul(colon + 1, NULL, 10);
    if (port == 0 || port >= first)
        return;
    snprintf(note, sizeof(note),
             "%s: a port below %u needs root, CAP_NET_BIND_SERVICE or a socket of the service "
             "manager, such as webserverd.socket",
             item->text, first);
    print(context, note);
}

static void note_keys(const struct config_words *certificates, const struct config_words *keys,
                      void (*print)(void *context, const char *note), void *context)
{
    const struct config_words *files = keys->count > 0 ? keys : certificates;
    char note[CONFIG_ADVICE_MAX];
    struct stat status;

    for (size_t i = 0; i < files->count; i++) {
        if (stat(files->item[i], &status) != 0 || status.st_uid != 0 ||
            (status.st_mode & S_IRGRP) != 0)
            continue;
        snprintf(note, sizeof(note),
                 "%s: only root can read this key; a service of another user needs it "
                 "as a credential (LoadCredential=), or in a group (SupplementaryGroups=)",
                 files->item[i]);
        print(context, note);
    }
}

void config_root_notes(const struct config *config, void (*print)(void *context, const char *note),
                       void *context)
{
    FILE *file = fopen("/proc/sys/net/ipv4/ip_unprivileged_port_start", "re");
    unsigned first = 1024;

    if (file != NULL && fscanf(file, "%u", &first) != 1)
        first = 1024;
    if (file != NULL)
        fclose(file);
    for (size_t i = 0; i < config->server_listen.count; i++)
        note_port(&config->server_listen.item[i], first, print, context);
    note_keys(&config->tls_certificate, &config->tls_key, print, context);
    for (size_t i = 0; i < config->host_count; i++)
        if (config->hosts[i].given[HOST_KEY_certificate])
            note_keys(&config->hosts[i].certificate, &config->hosts[i].key, print, context);
}
