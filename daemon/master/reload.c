#include "daemon/master/reload.h"

#include "daemon/base/events.h"
#include "daemon/base/service.h"
#include "daemon/config/keys.h"
#include "daemon/config/load.h"
#include "daemon/config/rules.h"
#include "daemon/config/value.h"
#include "daemon/master/capacity.h"
#include "daemon/sandbox/sandbox.h"
#include "daemon/tls/context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reload {
    struct reload_setup setup;
    struct config *previous;        /* while the new workers start, else NULL */
    struct log_files logs;          /* of the new configuration, meanwhile */
    struct metrics_sockets metrics; /* the same */
    struct tls_context *previous_tls;
    uint32_t previous_generation;
    bool waiting;           /* another reload has been requested meanwhile */
    bool renewing;          /* only the certificates are new: the configuration stays */
    uint64_t started, done; /* numbers of attempts */
    uint64_t attempt;       /* of the last request, or 0 if it failed */
    char *failure;          /* of the last attempt, or NULL */
    char *refusal;          /* why the last request was not accepted */
    json_t *changed;        /* names of keys and sections */
};

/* Loading and comparing configurations */

/* Frees CONFIG unless it is IN_FORCE: a reload of only the certificates has no other. */
static void free_config(struct config *config, const struct config *in_force)
{
    if (config == NULL || config == in_force)
        return;
    config_free(config);
    free(config);
}

static char *text_of(const struct config *config, size_t number)
{
    const struct config_key *key = &config_keys[number];

    return config_value_text(key, (const char *)config + key->offset);
}

static bool differs(const struct config *one, const struct config *other, size_t number)
{
    char *a = text_of(one, number), *b = text_of(other, number);
    bool different = a == NULL || b == NULL || strcmp(a, b) != 0;

    free(a);
    free(b);
    return different;
}

/* Reports each key that differs but cannot change in a running server. Returns their number. */
static size_t check_fixed(const struct config *now, const struct config *wanted, FILE *errors)
{
    size_t found = 0;

    for (size_t i = 0; i < KEY_COUNT; i++) {
        char *before;

        if (config_changes[i].change != CHANGE_NEVER || !differs(now, wanted, i))
            continue;
        before = text_of(now, i);
        fprintf(errors,
                "%s: error: %s.%s cannot change while the server runs: it is '%s'\n"
                "    restart the server, or restore the value\n",
                config_origin(wanted, i), config_keys[i].section, config_keys[i].name,
                before != NULL ? before : "?");
        free(before);
        found++;
    }
    return found;
}

/*
 * Returns NULL on error, with the messages in *ERRORS, which the caller frees (NULL: out of
 * memory).
 */
static struct config *load(const struct reload *reload, char **errors)
{
    const struct options *options = reload->setup.options;
    const struct config_sources sources = {.file = options->file,
                                           .overrides = options->overrides,
                                           .override_count = options->override_count,
                                           .system = &sandbox_config_system};
    struct config *config = calloc(1, sizeof(*config));
    size_t length;
    FILE *memory;
    bool good;

    *errors = NULL;
    memory = config != NULL ? open_memstream(errors, &length) : NULL;
    if (memory == NULL) {
        free(config);
        return NULL;
    }
    good = config_load(config, &sources, memory) == 0;
    if (good && check_fixed(reload->setup.server->config, config, memory) > 0) {
        good = false;
        config_free(config);
    }
    fclose(memory);
    if (good)
        return config;
    free(config);
    return NULL;
}

static void append_section(void *list, const char *title, size_t length)
{
    json_array_append_new(list, json_stringn(title, length));
}

/* Keys, and titles of sections without such keys. */
static json_t *list_changes(const struct config *before, const struct config *after)
{
    json_t *list = json_array();

    for (size_t i = 0; i < KEY_COUNT; i++) {
        char name[128];

        if (!differs(before, after, i))
            continue;
        snprintf(name, sizeof(name), "%s.%s", config_keys[i].section, config_keys[i].name);
        json_array_append_new(list, json_string(name));
    }
    if (config_changed_sections(before, after, append_section, list) != 0)
        event_log(LEVEL_WARN, "out of memory: the list of changes lacks sections");
    return list;
}

/* Logs each message of TEXT; the indented lines after it only show the line. */
static void log_errors(const char *text)
{
    if (text == NULL)
        text = "out of memory";
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");

        if (*text != ' ' && length > 0)
            event_log(LEVEL_ERROR, "configuration unchanged: %.*s", (int)length, text);
        text += length + (text[length] == '\n');
    }
}

/* Starting */

static void set_text(char **text, const char *value)
{
    free(*text);
    *text = strdup(value);
}

static int prepare_sockets(struct server *server, char *why, size_t size)
{
    const struct config *config = server->config;

    if (listeners_prepare(server->listeners, config, capacity_listen_sockets(config), why, size) !=
        0)
        return -1;
    if (capacity_prepare(server, config->workers_processes, config->workers_threads, why, size) ==
        0)
        return 0;
    listeners_abandon(server->listeners);
    return -1;
}

static int prepare(struct reload *reload, char *why, size_t size)
{
    struct server *server = reload->setup.server;
    struct tls_context *previous = server->tls;

    if (log_files_open(&reload->logs, server->config, why, size) != 0)
        return -1;
    if (metrics_sockets_open(&reload->metrics, server->config, &server->metrics, NULL, why, size) !=
        0) {
        log_files_close(&reload->logs);
        return -1;
    }
    if (prepare_sockets(server, why, size) == 0) {
        if (host_table_assign(&server->hosts, &server->segment, server->config, why, size) == 0) {
            if (host_table_assign_logs(&server->hosts, server->config, &reload->logs.targets, why,
                                       size) == 0 &&
                server_load_certificates(server, why, size) == 0) {
                reload->previous_tls = previous;
                return 0;
            }
            host_table_abandon(&server->hosts, &server->segment);
        }
        listeners_abandon(server->listeners);
    }
    metrics_sockets_close(&reload->metrics);
    log_files_close(&reload->logs);
    return -1;
}

/* Takes over CONFIG. Returns 0, or -1 with reload->refusal set and nothing changed. */
static int take_over(struct reload *reload, struct config *config)
{
    struct server *server = reload->setup.server;
    struct config *previous = server->config;
    char why[512];

    server->config = config;
    if (prepare(reload, why, sizeof(why)) != 0) {
        server->config = previous;
        free_config(config, previous);
        set_text(&reload->refusal, why);
        return -1;
    }
    json_decref(reload->changed);
    reload->changed = list_changes(previous, config);
    notify_reloading();
    reload->previous = previous;
    reload->previous_generation = reload->setup.workers->generation;
    supervisor_renew(reload->setup.supervisor);
    return 0;
}

/* Loads the file. NULL with reload->refusal set if it has errors. */
static struct config *load_or_refuse(struct reload *reload)
{
    char *errors;
    struct config *config = load(reload, &errors);

    if (config == NULL)
        set_text(&reload->refusal, errors != NULL ? errors : "out of memory");
    free(errors);
    return config;
}

int reload_start(struct reload *reload)
{
    struct config *config =
        reload->renewing ? reload->setup.server->config : load_or_refuse(reload);
    bool waited = reload->waiting;

    reload->waiting = false;
    reload->started++;
    if (config != NULL && take_over(reload, config) == 0) {
        reload->attempt = reload->started;
        return 0;
    }
    reload->done = reload->started;
    if (waited)
        set_text(&reload->failure, reload->refusal != NULL ? reload->refusal : "out of memory");
    return -1;
}

int reload_queue(struct reload *reload)
{
    struct config *config = load_or_refuse(reload);

    if (config == NULL)
        return -1;
    free_config(config, NULL); /* it is loaded again when the reload starts */
    reload->waiting = true;
    reload->attempt = reload->started + 1;
    return 0;
}

int reload_refuse(struct reload *reload)
{
    set_text(&reload->refusal, "the server is stopping");
    return 0;
}

uint64_t reload_request(struct reload *reload)
{
    reload->attempt = 0;
    lifecycle_report(reload->setup.life, EVENT_reload);
    return reload->attempt;
}

static void request_and_log(struct reload *reload)
{
    if (reload_request(reload) == 0)
        log_errors(reload->refusal);
}

bool reload_renew_certificates(struct reload *reload)
{
    if (reload->setup.life->state != LIFE_serving || reload->waiting)
        return false;
    reload->renewing = true;
    request_and_log(reload);
    reload->renewing = false;
    return true;
}

void reload_request_by_signal(struct reload *reload)
{
    event_log(LEVEL_INFO, "reload, by SIGHUP");
    request_and_log(reload);
}

void reload_request_by_old_master(struct reload *reload)
{
    event_log(LEVEL_INFO, "reload, requested from the old master");
    request_and_log(reload);
}

bool reload_is_waiting(const struct reload *reload)
{
    return reload->waiting;
}

void reload_start_waiting(struct reload *reload)
{
    if (reload->waiting)
        request_and_log(reload);
}

/* Ending */

static void end(struct reload *reload)
{
    notify_send("READY=1");
    reload->previous = NULL;
    reload->done = reload->started;
}

static bool logs_differ(const struct config *before, const struct config *after)
{
    for (size_t i = 0; i < KEY_COUNT; i++)
        if (strcmp(config_keys[i].section, "log") == 0 && differs(before, after, i))
            return true;
    return false;
}

/* The logger is replaced only if it has other settings. */
static void take_over_logs(struct reload *reload, const struct config *previous)
{
    struct server *server = reload->setup.server;

    if (logs_differ(previous, server->config) ||
        !log_targets_equal(&server->logs.targets, &reload->logs.targets)) {
        auxiliary_replace_logs(reload->setup.auxiliary, &reload->logs);
        reload->logs = LOG_FILES_NONE;
        return;
    }
    log_files_close(&reload->logs);
    server->logs.config = server->config;
}

/* The metrics process has its settings from its fork. */
static bool metrics_settings_differ(const struct config *one, const struct config *other)
{
    return strcmp(one->metrics_hosts, other->metrics_hosts) != 0 ||
           strcmp(one->metrics_realm, other->metrics_realm) != 0 ||
           one->limits_failed_logins != other->limits_failed_logins ||
           !config_users_are_equal(&one->metrics_logins, &other->metrics_logins);
}

int reload_commit(struct reload *reload)
{
    const struct reload_setup *setup = &reload->setup;
    struct server *server = setup->server;
    struct config *previous = reload->previous;
    bool renewed = previous == server->config;
    char *keys;

    end(reload);
    free(reload->failure);
    reload->failure = NULL;
    listeners_commit(server->listeners, dispatch_drain_listener, setup->dispatch);
    if (dispatch_update_listeners(setup->dispatch) != 0)
        event_log(LEVEL_ERROR, "cannot accept connections: out of memory");
    setup->committed(setup->context, !renewed);
    host_table_commit(&server->hosts, &server->segment);
    server_publish_config(server);
    if (metrics_sockets_replace(&server->metrics, &reload->metrics) ||
        metrics_settings_differ(previous, server->config))
        auxiliary_renew_metrics(setup->auxiliary);
    take_over_logs(reload, previous);
    free_config(previous, server->config);
    tls_context_free(reload->previous_tls);
    reload->previous_tls = NULL;
    if (renewed) {
        event_log(LEVEL_INFO, "new certificates in use, generation %u", setup->workers->generation);
        return 0;
    }
    keys = json_dumps(reload->changed, JSON_COMPACT);
    event_log(LEVEL_INFO, "configuration reloaded, generation %u; changed: %s",
              setup->workers->generation, keys != NULL ? keys : "?");
    free(keys);
    return 0;
}

int reload_abandon(struct reload *reload)
{
    struct server *server = reload->setup.server;

    event_log(LEVEL_ERROR, "reload failed, configuration unchanged: %s", reload->failure);
    listeners_abandon(server->listeners);
    metrics_sockets_close(&reload->metrics);
    log_files_close(&reload->logs);
    host_table_abandon(&server->hosts, &server->segment);
    free_config(server->config, reload->previous);
    server->config = reload->previous;
    tls_context_free(server->tls);
    server->tls = reload->previous_tls;
    reload->previous_tls = NULL;
    supervisor_revert(reload->setup.supervisor, reload->previous_generation);
    end(reload);
    return 0;
}

void reload_worker_died(struct reload *reload, const struct worker_process *worker, const char *how)
{
    char why[256];

    if (worker->state != WORKER_STARTING || worker->generation != reload->setup.workers->generation)
        return;
    snprintf(why, sizeof(why), "a new worker %s before it served", how);
    set_text(&reload->failure, why);
    lifecycle_report(reload->setup.life, EVENT_new_died);
}

void reload_worker_not_started(struct reload *reload, const char *why)
{
    char text[256];

    if (reload->previous == NULL)
        return;
    snprintf(text, sizeof(text), "cannot start a worker: %s", why);
    set_text(&reload->failure, text);
    lifecycle_report(reload->setup.life, EVENT_new_died);
}

/* Results */

bool reload_is_done(const struct reload *reload, uint64_t attempt)
{
    return (reload->done >= attempt && !workers_leaving_accept(reload->setup.workers)) ||
           lifecycle_is_stopping(reload->setup.life);
}

const char *reload_refusal(const struct reload *reload)
{
    return reload->refusal;
}

const char *reload_failure(const struct reload *reload)
{
    return reload->failure;
}

json_t *reload_changed_keys(const struct reload *reload)
{
    return reload->changed;
}

struct reload *reload_new(const struct reload_setup *setup)
{
    struct reload *reload = calloc(1, sizeof(*reload));

    if (reload == NULL)
        return NULL;
    reload->setup = *setup;
    reload->logs = LOG_FILES_NONE;
    reload->changed = json_array();
    return reload;
}

void reload_free(struct reload *reload)
{
    if (reload == NULL)
        return;
    metrics_sockets_close(&reload->metrics);
    log_files_close(&reload->logs);
    tls_context_free(reload->previous_tls);
    json_decref(reload->changed);
    free(reload->failure);
    free(reload->refusal);
    free(reload);
}

void reload_free_previous(struct reload *reload)
{
    if (reload == NULL)
        return;
    free_config(reload->previous, reload->setup.server->config);
    reload->previous = NULL;
}
