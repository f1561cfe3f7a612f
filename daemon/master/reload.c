#include "daemon/master/reload.h"

#include "daemon/base/events.h"
#include "daemon/base/notify.h"
#include "daemon/config/keys.h"
#include "daemon/config/load.h"
#include "daemon/config/value.h"
#include "daemon/control/socket.h"
#include "daemon/logger/sink.h"
#include "daemon/master/capacity.h"
#include "daemon/master/dispatch.h"
#include "daemon/master/shutdown.h"
#include "daemon/master/supervisor.h"
#include "daemon/sandbox/sandbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct reload {
    struct master *master;
    struct config *previous; /* while the new workers start; else NULL */
    uint32_t previous_generation;
    bool waiting;         /* another reload is to follow */
    uint64_t begun, done; /* attempts */
    char *failure;        /* of the last one, or NULL */
    json_t *changed;      /* names of keys */
};

/* The file */

static void drop_config(struct config *config)
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

/* What can't change while the server runs. Returns how many keys there were of that kind. */
static size_t check_fixed(const struct config *now, const struct config *wanted, FILE *errors)
{
    size_t found = 0;

    for (size_t i = 0; i < KEY_COUNT; i++) {
        char *before;

        if (config_changes[i].change != CHANGE_NEVER || !differs(now, wanted, i))
            continue;
        before = text_of(now, i);
        fprintf(errors,
                "%s: error: [%s] %s can't change while the server runs: it is '%s'\n"
                "    stop and start it, or leave the value as it is\n",
                config_origin(wanted, i), config_keys[i].section, config_keys[i].name,
                before != NULL ? before : "?");
        free(before);
        found++;
    }
    return found;
}

/* Loads the configuration anew; NULL with *PROBLEMS (the caller frees; NULL: out of memory). */
static struct config *load(const struct master *master, char **problems)
{
    const struct options *options = master->options;
    const struct config_sources sources = {.file = options->file,
                                           .overrides = options->overrides,
                                           .override_count = options->override_count,
                                           .system = &sandbox_config_system};
    struct config *config = calloc(1, sizeof(*config));
    size_t length;
    FILE *errors;
    bool good;

    *problems = NULL;
    errors = open_memstream(problems, &length);
    if (config == NULL || errors == NULL) {
        free(config);
        return NULL;
    }
    good = config_load(config, &sources, errors) == 0;
    if (good && check_fixed(master->config, config, errors) > 0) {
        good = false;
        config_free(config);
    }
    fclose(errors);
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

/* Each line of TEXT that says what is wrong is an event; the others show the place to a person. */
static void log_problems(const char *text)
{
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");

        if (*text != ' ' && length > 0)
            event_log(LEVEL_ERROR, "the configuration stays as it was: %.*s", (int)length, text);
        text += length + (text[length] == '\n');
    }
}

void reload_by_signal(struct reload *reload)
{
    char *refusal = NULL;

    event_log(LEVEL_INFO, "reload, by SIGHUP");
    if (reload_ask(reload, &refusal) == 0)
        log_problems(refusal != NULL ? refusal : "out of memory");
    free(refusal);
}

/* Beginning */

static void keep_failure(struct reload *reload, const char *why)
{
    free(reload->failure);
    reload->failure = strdup(why);
}

static int prepare(struct master *master, char *why, size_t size)
{
    const struct config *config = master->config;
    uint32_t lanes = config->workers_dispatch == DISPATCH_MASTER
                         ? 1
                         : config->workers_processes * config->workers_threads;

    if (log_sink_check(config, why, size) != 0 ||
        listeners_prepare(master->listeners, config, lanes, why, size) != 0)
        return -1;
    if (capacity_prepare(master, config->workers_processes, config->workers_threads, why, size) ==
        0)
        return 0;
    listeners_abandon(master->listeners);
    return -1;
}

/* CONFIG becomes the reload's. Returns 0, or -1 when all stays as it is (reload_failure()). */
static int begin(struct reload *reload, struct config *config)
{
    struct master *master = reload->master;
    struct config *previous = master->config;
    char why[512];

    master->config = config;
    if (prepare(master, why, sizeof(why)) != 0) {
        master->config = previous;
        drop_config(config);
        keep_failure(reload, why);
        return -1;
    }
    json_decref(reload->changed);
    reload->changed = list_changes(previous, config);
    notify_reloading();
    reload->previous = previous;
    reload->previous_generation = supervisor_generation(master->supervisor);
    supervisor_renew(master->supervisor);
    supervisor_reconcile(master->supervisor);
    return 0;
}

/* Workers that keep dying are no reason to wait: another configuration may be what they need. */
static bool is_busy(const struct reload *reload)
{
    return reload->previous != NULL || supervisor_is_replacing(reload->master->supervisor);
}

uint64_t reload_ask(struct reload *reload, char **refusal)
{
    struct config *config;

    if (stopping_is_under_way(reload->master->stopping)) {
        *refusal = strdup("the server is stopping");
        return 0;
    }
    config = load(reload->master, refusal);
    if (config == NULL)
        return 0;
    free(*refusal);
    *refusal = NULL;
    if (is_busy(reload)) {
        drop_config(config); /* it is read again when its turn comes */
        reload->waiting = true;
        return reload->begun + 1;
    }
    reload->begun++;
    if (begin(reload, config) == 0)
        return reload->begun;
    reload->done = reload->begun;
    *refusal = reload->failure;
    reload->failure = NULL;
    return 0;
}

/* Ending */

static void end(struct reload *reload)
{
    notify_send("READY=1");
    reload->previous = NULL;
    reload->done = reload->begun;
}

static void log_success(const struct reload *reload)
{
    char *keys = json_dumps(reload->changed, JSON_COMPACT);

    event_log(LEVEL_INFO, "configuration reloaded, generation %u; changed: %s",
              supervisor_generation(reload->master->supervisor), keys != NULL ? keys : "?");
    free(keys);
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
    struct master *master = reload->master;
    struct config *previous = reload->previous;
    char why[512];

    if (previous == NULL)
        return;
    end(reload);
    free(reload->failure);
    reload->failure = NULL;
    listeners_commit(master->listeners, dispatch_take_rest, master->dispatch);
    if (dispatch_listen(master->dispatch) != 0)
        event_log(LEVEL_ERROR, "cannot accept connections: out of memory");
    if (control_set_access(master->control, master->config, why, sizeof(why)) != 0)
        event_log(LEVEL_ERROR, "%s", why);
    master_publish_config(master);
    if (logs_differ(previous, master->config))
        supervisor_renew_logger(master->supervisor);
    drop_config(previous);
    log_success(reload);
}

static void abandon(struct reload *reload, const char *why)
{
    struct master *master = reload->master;

    event_log(LEVEL_ERROR, "the reload failed, the configuration stays as it was: %s", why);
    keep_failure(reload, why);
    listeners_abandon(master->listeners);
    drop_config(master->config);
    master->config = reload->previous;
    supervisor_revert(master->supervisor, reload->previous_generation);
    end(reload);
}

void reload_worker_died(struct reload *reload, const struct worker_process *worker, const char *how)
{
    char why[256];

    if (reload->previous == NULL || worker->state != WORKER_STARTING ||
        worker->generation != supervisor_generation(reload->master->supervisor))
        return;
    snprintf(why, sizeof(why), "a new worker %s before it served", how);
    abandon(reload, why);
}

/* The one that waited. Its file may have become bad meanwhile. */
static void begin_waiting(struct reload *reload)
{
    char *problems;
    struct config *config = load(reload->master, &problems);

    reload->waiting = false;
    reload->begun++;
    if (config != NULL && begin(reload, config) == 0) {
        free(problems);
        return;
    }
    if (config == NULL)
        keep_failure(reload, problems != NULL ? problems : "out of memory");
    log_problems(reload->failure);
    free(problems);
    reload->done = reload->begun;
}

void reload_go_on(struct reload *reload)
{
    if (stopping_is_under_way(reload->master->stopping))
        return;
    if (reload->previous != NULL && supervisor_is_renewed(reload->master->supervisor))
        reload_commit(reload);
    if (reload->waiting && !is_busy(reload))
        begin_waiting(reload);
}

/* What became of it */

bool reload_is_done(const struct reload *reload, uint64_t attempt)
{
    return (reload->done >= attempt && !supervisor_old_accept(reload->master->supervisor)) ||
           stopping_is_under_way(reload->master->stopping);
}

const char *reload_failure(const struct reload *reload)
{
    return reload->failure;
}

json_t *reload_changed_keys(const struct reload *reload)
{
    return reload->changed;
}

struct reload *reload_new(struct master *master)
{
    struct reload *reload = calloc(1, sizeof(*reload));

    if (reload == NULL)
        return NULL;
    reload->master = master;
    reload->changed = json_array();
    return reload;
}

void reload_free(struct reload *reload)
{
    if (reload == NULL)
        return;
    drop_config(reload->previous);
    json_decref(reload->changed);
    free(reload->failure);
    free(reload);
}
