#include "daemon/master/reload.h"

#include "daemon/base/events.h"
#include "daemon/base/service.h"
#include "daemon/config/keys.h"
#include "daemon/config/load.h"
#include "daemon/config/value.h"
#include "daemon/logger/sink.h"
#include "daemon/master/capacity.h"
#include "daemon/sandbox/sandbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reload {
    struct reload_setup setup;
    struct config *previous; /* while the new workers start, else NULL */
    uint32_t previous_generation;
    bool waiting;           /* another reload has been requested meanwhile */
    uint64_t started, done; /* numbers of attempts */
    char *failure;          /* of the last attempt, or NULL */
    json_t *changed;        /* names of keys */
};

/* Loading and comparing configurations */

static void free_config(struct config *config)
{
    if (config == NULL)
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
    return list;
}

/* Logs each message of TEXT; the indented lines after it only show the line. */
static void log_errors(const char *text)
{
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");

        if (*text != ' ' && length > 0)
            event_log(LEVEL_ERROR, "configuration unchanged: %.*s", (int)length, text);
        text += length + (text[length] == '\n');
    }
}

/* Starting */

static void set_failure(struct reload *reload, const char *why)
{
    free(reload->failure);
    reload->failure = strdup(why);
}

static int prepare(const struct reload *reload, char *why, size_t size)
{
    struct server *server = reload->setup.server;
    const struct config *config = server->config;

    if (log_sink_check(config, why, size) != 0 ||
        listeners_prepare(server->listeners, config, capacity_listen_sockets(config), why, size) !=
            0)
        return -1;
    if (capacity_prepare(server, config->workers_processes, config->workers_threads, why, size) ==
        0)
        return 0;
    listeners_abandon(server->listeners);
    return -1;
}

/* Takes over CONFIG. Returns 0, or -1 with reload->failure set and nothing changed. */
static int start(struct reload *reload, struct config *config)
{
    struct server *server = reload->setup.server;
    struct config *previous = server->config;
    char why[512];

    server->config = config;
    if (prepare(reload, why, sizeof(why)) != 0) {
        server->config = previous;
        free_config(config);
        set_failure(reload, why);
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

/* Workers that die repeatedly do not block a reload, because another configuration may fix that. */
static bool is_busy(const struct reload *reload)
{
    return reload->previous != NULL || workers_are_replacing(reload->setup.workers);
}

uint64_t reload_request(struct reload *reload, char **errors)
{
    struct config *config;

    if (shutdown_has_begun(reload->setup.shutdown)) {
        *errors = strdup("the server is stopping");
        return 0;
    }
    config = load(reload, errors);
    if (config == NULL)
        return 0;
    free(*errors);
    *errors = NULL;
    if (is_busy(reload)) {
        free_config(config); /* start_waiting() will load the file again */
        reload->waiting = true;
        return reload->started + 1;
    }
    reload->started++;
    if (start(reload, config) == 0)
        return reload->started;
    reload->done = reload->started;
    *errors = reload->failure;
    reload->failure = NULL;
    return 0;
}

void reload_request_by_signal(struct reload *reload)
{
    char *errors = NULL;

    event_log(LEVEL_INFO, "reload, by SIGHUP");
    if (reload_request(reload, &errors) == 0)
        log_errors(errors != NULL ? errors : "out of memory");
    free(errors);
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

void reload_commit(struct reload *reload)
{
    const struct reload_setup *setup = &reload->setup;
    struct server *server = setup->server;
    struct config *previous = reload->previous;
    char *keys;

    if (previous == NULL)
        return;
    end(reload);
    free(reload->failure);
    reload->failure = NULL;
    listeners_commit(server->listeners, dispatch_drain_listener, setup->dispatch);
    if (dispatch_update_listeners(setup->dispatch) != 0)
        event_log(LEVEL_ERROR, "cannot accept connections: out of memory");
    setup->committed(setup->context);
    server_publish_config(server);
    if (logs_differ(previous, server->config))
        supervisor_restart_logger(setup->supervisor);
    free_config(previous);
    keys = json_dumps(reload->changed, JSON_COMPACT);
    event_log(LEVEL_INFO, "configuration reloaded, generation %u; changed: %s",
              setup->workers->generation, keys != NULL ? keys : "?");
    free(keys);
}

static void abandon(struct reload *reload, const char *why)
{
    struct server *server = reload->setup.server;

    event_log(LEVEL_ERROR, "reload failed, configuration unchanged: %s", why);
    set_failure(reload, why);
    listeners_abandon(server->listeners);
    free_config(server->config);
    server->config = reload->previous;
    supervisor_revert(reload->setup.supervisor, reload->previous_generation);
    end(reload);
}

void reload_worker_died(struct reload *reload, const struct worker_process *worker, const char *how)
{
    char why[256];

    if (reload->previous == NULL || worker->state != WORKER_STARTING ||
        worker->generation != reload->setup.workers->generation)
        return;
    snprintf(why, sizeof(why), "a new worker %s before it served", how);
    abandon(reload, why);
}

/* The file may have become invalid while the reload waited. */
static void start_waiting(struct reload *reload)
{
    char *errors;
    struct config *config = load(reload, &errors);

    reload->waiting = false;
    reload->started++;
    if (config != NULL && start(reload, config) == 0) {
        free(errors);
        return;
    }
    if (config == NULL)
        set_failure(reload, errors != NULL ? errors : "out of memory");
    log_errors(reload->failure);
    free(errors);
    reload->done = reload->started;
}

void reload_advance(struct reload *reload)
{
    if (shutdown_has_begun(reload->setup.shutdown))
        return;
    if (reload->previous != NULL && workers_are_renewed(reload->setup.workers))
        reload_commit(reload);
    if (reload->waiting && !is_busy(reload))
        start_waiting(reload);
}

/* Results */

bool reload_is_done(const struct reload *reload, uint64_t attempt)
{
    return (reload->done >= attempt && !workers_leaving_accept(reload->setup.workers)) ||
           shutdown_has_begun(reload->setup.shutdown);
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
    reload->changed = json_array();
    return reload;
}

void reload_free(struct reload *reload)
{
    if (reload == NULL)
        return;
    free_config(reload->previous);
    json_decref(reload->changed);
    free(reload->failure);
    free(reload);
}
