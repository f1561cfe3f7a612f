/*
 * Loads another configuration into the running server. The file is checked completely first; then a
 * new generation of workers starts with it beside the old one, and when all of them serve, the old
 * ones leave. A failure before that changes nothing. Requests that come before the old workers have
 * left are merged into one more reload.
 */
#include "daemon/master/internal.h"

#include "common/clock.h"
#include "daemon/base/events.h"
#include "daemon/base/service.h"
#include "daemon/config/keys.h"
#include "daemon/config/load.h"
#include "daemon/config/rules.h"
#include "daemon/config/value.h"
#include "daemon/sandbox/sandbox.h"
#include "daemon/tls/certificate_set.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Loading and comparing configurations */

/* Frees CONFIG unless it is IN_FORCE: a reload of only the certificates has no other. */
static void free_config(struct config *config, const struct config *in_force)
{
    if (config == NULL || config == in_force)
        return;
    config_free(config);
    free(config);
}

static char *key_text(const struct config *config, size_t number)
{
    const struct config_key *key = &config_keys[number];

    return config_value_text(key, (const char *)config + key->offset);
}

static const struct network_set *networks_of_key(const struct config *config, size_t number)
{
    return &((const struct config_networks *)((const char *)config + config_keys[number].offset))
                ->set;
}

/* Lists of networks are compared, too: their files may have other ones. */
static bool differs(const struct config *one, const struct config *other, size_t number)
{
    size_t offset = config_keys[number].offset;
    char *a = key_text(one, number), *b = key_text(other, number);
    bool different = a == NULL || b == NULL || strcmp(a, b) != 0;

    free(a);
    free(b);
    if (config_keys[number].type == CONFIG_SECRET)
        different |= strcmp(*(const char *const *)((const char *)one + offset),
                            *(const char *const *)((const char *)other + offset)) != 0;
    if (config_keys[number].type == CONFIG_NETWORKS)
        different |=
            !network_sets_equal(networks_of_key(one, number), networks_of_key(other, number));
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
        before = key_text(now, i);
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
static struct config *load_config(const struct master *master, char **errors)
{
    const struct options *options = master->options;
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
    if (good && check_fixed(master->config, config, memory) > 0) {
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

static int prepare_sockets(struct master *master, char *why, size_t size)
{
    const struct config *config = master->config;

    if (listeners_prepare(master->listeners, config, capacity_listen_sockets(config), why, size) !=
        0)
        return -1;
    if (capacity_prepare(master, config->workers_processes, config->workers_threads, why, size) ==
        0)
        return 0;
    listeners_abandon(master->listeners);
    return -1;
}

/* Other renewals keep the certificates in use, even if their files are bad by now. */
static int renew_certificates(struct master *master, char *why, size_t size)
{
    enum renewal renewal = master->reload.renewal;

    if (renewal == RENEWAL_CONFIG || renewal == RENEWAL_MODEL)
        return certificates_load(master, why, size);
    certificate_set_hold(master->certificates.set);
    return 0;
}

/* Logs and sockets of the other processes, which have the same configuration after a renewal. */
static int prepare_auxiliary(struct master *master, char *why, size_t size)
{
    struct reload *reload = &master->reload;

    if (reload->renewal != RENEWAL_CONFIG)
        return 0;
    if (log_files_open(&reload->new_logs, master->config, why, size) != 0)
        return -1;
    if (metrics_sockets_open(&reload->new_metrics, master->config,
                             &master->auxiliary.metrics_sockets, NULL, why, size) == 0)
        return 0;
    log_files_close(&reload->new_logs);
    return -1;
}

/* Opens and reserves what master->config needs. Returns 0, or -1 with WHY and nothing changed. */
static int prepare_reload(struct master *master, char *why, size_t size)
{
    struct reload *reload = &master->reload;
    struct certificate_set *previous = master->certificates.set;

    if (prepare_auxiliary(master, why, size) != 0)
        return -1;
    if (prepare_sockets(master, why, size) == 0) {
        if (host_table_assign(&master->hosts, &master->segment, master->config, why, size) == 0) {
            if (host_table_assign_logs(&master->hosts, master->config, &reload->new_logs.targets,
                                       why, size) == 0 &&
                renew_certificates(master, why, size) == 0) {
                reload->previous_set = previous;
                return 0;
            }
            host_table_abandon(&master->hosts, &master->segment);
        }
        listeners_abandon(master->listeners);
    }
    metrics_sockets_close(&reload->new_metrics);
    log_files_close(&reload->new_logs);
    return -1;
}

/* Takes over CONFIG. Returns 0, or -1 with reload->refusal set and nothing changed. */
static int take_over_config(struct master *master, struct config *config)
{
    struct reload *reload = &master->reload;
    struct config *previous = master->config;
    struct roots roots;
    char why[512];

    master->config = config;
    if (reload->renewal == RENEWAL_CONFIG)
        file_watch_begin(master);
    if (roots_open(&roots, config, why, sizeof(why)) != 0 ||
        prepare_reload(master, why, sizeof(why)) != 0) {
        roots_close(&roots);
        master->config = previous;
        free_config(config, previous);
        set_text(&reload->refusal, why);
        return -1;
    }
    reload->previous_roots = master->roots;
    master->roots = roots;
    json_decref(reload->changed);
    reload->changed = list_changes(previous, config);
    notify_reloading();
    reload->previous = previous;
    reload->previous_generation = master->workers.generation;
    supervisor_renew(master);
    return 0;
}

/* Loads the file. NULL with reload->refusal set if it has errors. */
static struct config *load_or_refuse(struct master *master)
{
    char *errors;
    struct config *config = load_config(master, &errors);

    if (config == NULL)
        set_text(&master->reload.refusal, errors != NULL ? errors : "out of memory");
    free(errors);
    return config;
}

/* Reads the users files of the configuration in force. NULL with reload->refusal set: an error. */
static struct config *renew_users(struct master *master)
{
    char *errors = NULL;
    size_t length;
    FILE *memory = open_memstream(&errors, &length);
    bool good = memory != NULL && config_users_renew(master->config, memory) == 0;

    if (memory != NULL)
        fclose(memory);
    if (!good)
        set_text(&master->reload.refusal, errors != NULL ? errors : "out of memory");
    free(errors);
    return good ? master->config : NULL;
}

static struct config *config_of_reload(struct master *master)
{
    switch (master->reload.renewal) {
    case RENEWAL_ROOTS:
    case RENEWAL_MODEL:
        return master->config;
    case RENEWAL_USERS:
        return renew_users(master);
    case RENEWAL_CONFIG:
        break;
    }
    return load_or_refuse(master);
}

/* Frees the configuration whose certificates are being checked, and those. */
static void drop_next(struct master *master)
{
    struct certificates *certificates = &master->certificates;

    certificates_abandon_checks(certificates);
    certificate_set_free(certificates->checked);
    certificates->checked = NULL;
    free_config(master->reload.next, NULL);
    master->reload.next = NULL;
}

/* The configuration whose certificates have been checked; NULL with one whose checks begin. */
static struct config *take_next(struct master *master)
{
    struct reload *reload = &master->reload;
    struct config *config = reload->next;

    if (master->certificates.checked != NULL) {
        reload->next = NULL;
        return config;
    }
    drop_next(master);
    config = config_of_reload(master);
    if (config == NULL || reload->renewal != RENEWAL_CONFIG ||
        !certificates_check_next(master, config))
        return config;
    reload->next = config;
    return NULL;
}

void reload_record(const struct master *master, bool good)
{
    segment_metrics *metrics = &segment_master(&master->segment)->metrics;

    metric_set(*metrics, METRIC_last_reload_successful, good);
    if (good)
        metric_set(*metrics, METRIC_last_reload_success_time,
                   clock_wall_ns() / NS_PER_S * NS_PER_S); /* a double has it exactly */
}

int act_start_reload(struct master *master)
{
    struct reload *reload = &master->reload;
    struct config *config = take_next(master);
    bool waited = reload->waiting;

    if (reload->next != NULL) { /* it waits for the checks, as for another change */
        reload->waiting = true;
        reload->last_attempt = reload->started + 1;
        return -1;
    }
    reload->waiting = false;
    reload->started++;
    if (config != NULL && take_over_config(master, config) == 0) {
        reload->last_attempt = reload->started;
        drop_next(master);
        return 0;
    }
    drop_next(master);
    reload->done = reload->started;
    if (reload->renewal == RENEWAL_CONFIG)
        reload_record(master, false);
    if (waited)
        set_text(&reload->last_failure,
                 reload->refusal != NULL ? reload->refusal : "out of memory");
    return -1;
}

int act_queue_reload(struct master *master)
{
    struct config *config = load_or_refuse(master);

    if (config == NULL) {
        reload_record(master, false);
        return -1;
    }
    free_config(config, NULL); /* it is loaded again when the reload starts */
    master->reload.waiting = true;
    master->reload.last_attempt = master->reload.started + 1;
    return 0;
}

int act_refuse_reload(struct master *master)
{
    set_text(&master->reload.refusal, "the server is stopping");
    return 0;
}

uint64_t reload_request(struct master *master)
{
    master->reload.last_attempt = 0;
    lifecycle_report(master, EVENT_reload);
    if (master->reload.last_attempt == 0)
        log_errors(master->reload.refusal);
    return master->reload.last_attempt;
}

void reload_request_by(struct master *master, const char *by)
{
    event_log(LEVEL_INFO, "reload, %s", by);
    reload_request(master);
}

bool reload_must_wait(const struct master *master)
{
    return master->life.state != LIFE_serving || master->reload.waiting;
}

bool reload_renew(struct master *master, enum renewal renewal)
{
    if (reload_must_wait(master) ||
        (renewal != RENEWAL_MODEL && master->certificates.checks != NULL))
        return false;
    master->reload.renewal = renewal;
    reload_request(master);
    if (master->reload.previous == NULL)
        master->reload.renewal = RENEWAL_CONFIG;
    return true;
}

void reload_start_waiting(struct master *master)
{
    if (master->reload.waiting && master->reload.next == NULL)
        reload_request(master);
}

void reload_certificates_checked(struct master *master, const char *why)
{
    struct reload *reload = &master->reload;

    if (why == NULL &&
        (master->life.state == LIFE_serving || master->life.state == LIFE_starting)) {
        reload_request(master);
    } else {
        drop_next(master); /* it is loaded again after the change that is under way */
        if (why != NULL) {
            reload->waiting = false;
            reload->done = ++reload->started;
            reload_record(master, false);
            set_text(&reload->last_failure, why);
            log_errors(why);
        }
    }
    master_changed(master);
}

/* Ending */

static void end_reload(struct reload *reload)
{
    notify_send("READY=1");
    reload->previous = NULL;
    reload->renewal = RENEWAL_CONFIG;
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
static void take_over_logs(struct master *master, const struct config *previous)
{
    struct reload *reload = &master->reload;
    struct auxiliary *auxiliary = &master->auxiliary;

    if (logs_differ(previous, master->config) ||
        !log_targets_equal(&auxiliary->logs.targets, &reload->new_logs.targets)) {
        auxiliary_replace_logs(auxiliary, &reload->new_logs);
        reload->new_logs = LOG_FILES_NONE;
        return;
    }
    log_files_close(&reload->new_logs);
    auxiliary->logs.config = master->config;
}

/* The metrics process has its settings from its fork. */
static bool metrics_settings_differ(const struct config *one, const struct config *other)
{
    return strcmp(one->metrics_hosts, other->metrics_hosts) != 0 ||
           strcmp(one->metrics_realm, other->metrics_realm) != 0 ||
           one->limits_failed_logins != other->limits_failed_logins ||
           !config_users_are_equal(&one->metrics_logins, &other->metrics_logins);
}

int act_commit_reload(struct master *master)
{
    struct reload *reload = &master->reload;
    struct config *previous = reload->previous;
    enum renewal renewal = reload->renewal;
    char *keys, why[512];

    end_reload(reload);
    free(reload->last_failure);
    reload->last_failure = NULL;
    listeners_commit(master->listeners, dispatch_drain_listener, master);
    if (dispatch_update_listeners(master) != 0)
        event_log(LEVEL_ERROR, "cannot accept connections: out of memory");
    summary_set_interval(master, master->config->log_summary_interval);
    if (control_socket_set_access(master->control, master->config, why, sizeof(why)) != 0)
        event_log(LEVEL_ERROR, "%s", why);
    host_table_commit(&master->hosts, &master->segment);
    publish_config(master);
    if (renewal == RENEWAL_USERS && master->config->metrics_logins.file != NULL)
        auxiliary_renew_metrics(master);
    if (renewal == RENEWAL_CONFIG) {
        reload_record(master, true);
        maintenance_end(master, "by a reload");
        certificates_committed(master);
        if (metrics_sockets_replace(&master->auxiliary.metrics_sockets, &reload->new_metrics) ||
            metrics_settings_differ(previous, master->config))
            auxiliary_renew_metrics(master);
        take_over_logs(master, previous);
    }
    if (renewal == RENEWAL_ROOTS)
        roots_committed(master, &reload->previous_roots);
    roots_close(&reload->previous_roots);
    free_config(previous, master->config);
    certificate_set_free(reload->previous_set);
    reload->previous_set = NULL;
    if (renewal == RENEWAL_USERS)
        event_log(LEVEL_INFO, "new users files in use, generation %u", master->workers.generation);
    if (renewal != RENEWAL_CONFIG)
        return 0;
    keys = json_dumps(reload->changed, JSON_COMPACT);
    event_log(LEVEL_INFO, "configuration reloaded, generation %u; changed: %s",
              master->workers.generation, keys != NULL ? keys : "?");
    master_log_notes(master);
    free(keys);
    return 0;
}

void reload_restore_model(struct master *master)
{
    master->config->workers_model = master->reload.model_before;
    master->config->workers_threads = master->reload.threads_before;
}

int act_abandon_reload(struct master *master)
{
    struct reload *reload = &master->reload;

    event_log(LEVEL_ERROR, "reload failed, configuration unchanged: %s", reload->last_failure);
    if (reload->renewal == RENEWAL_CONFIG)
        reload_record(master, false);
    listeners_abandon(master->listeners);
    metrics_sockets_close(&reload->new_metrics);
    log_files_close(&reload->new_logs);
    host_table_abandon(&master->hosts, &master->segment);
    roots_close(&master->roots);
    master->roots = reload->previous_roots;
    reload->previous_roots = (struct roots){.count = 0};
    free_config(master->config, reload->previous);
    master->config = reload->previous;
    if (reload->renewal == RENEWAL_MODEL)
        reload_restore_model(master);
    certificate_set_free(master->certificates.set);
    master->certificates.set = reload->previous_set;
    reload->previous_set = NULL;
    supervisor_set_generation(master, reload->previous_generation);
    end_reload(reload);
    return 0;
}

void reload_worker_died(struct master *master, const struct worker_process *worker, const char *how)
{
    char why[256];

    if (worker->state != WORKER_STARTING || worker->generation != master->workers.generation)
        return;
    snprintf(why, sizeof(why), "a new worker %s before it served", how);
    set_text(&master->reload.last_failure, why);
    lifecycle_report(master, EVENT_new_died);
}

void reload_worker_not_started(struct master *master, const char *why)
{
    char text[256];

    if (master->reload.previous == NULL)
        return;
    snprintf(text, sizeof(text), "cannot start a worker: %s", why);
    set_text(&master->reload.last_failure, text);
    lifecycle_report(master, EVENT_new_died);
}

bool reload_is_done(const struct master *master, uint64_t attempt)
{
    return (master->reload.done >= attempt &&
            workers_count(&master->workers, worker_may_accept) == 0) ||
           lifecycle_is_stopping(master);
}

void reload_free(struct reload *reload)
{
    metrics_sockets_close(&reload->new_metrics);
    log_files_close(&reload->new_logs);
    certificate_set_free(reload->previous_set);
    json_decref(reload->changed);
    free(reload->last_failure);
    free(reload->refusal);
}

void reload_free_previous(struct master *master)
{
    drop_next(master);
    free_config(master->reload.previous, master->config);
    master->reload.previous = NULL;
}
