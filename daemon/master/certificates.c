/*
 * The certificates in use, and the keys of session tickets; those that the server obtains itself:
 * runs the ACME process while [acme] is enabled. The running workers use renewed certificates for new
 * connections.
 */
#include "daemon/master/internal.h"

#include "common/clock.h"
#include "common/escape.h"
#include "common/segment_reader.h"
#include "common/segment_writer.h"
#include "common/units.h"
#include "daemon/base/events.h"
#include "daemon/base/loop.h"
#include "daemon/config/acme.h"
#include "daemon/config/load.h"
#include "daemon/master/command.h"
#include "daemon/tls/certificate_set.h"
#include "daemon/tls/tickets.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/*
 * A process that has been taken over must not keep the machine busy with certificates. The check of
 * each may take a second of CPU time, so the pause is at least nine times as long as all of it took.
 */
static const uint64_t LOAD_PAUSE_NS = 5 * NS_PER_S;
enum { LOAD_PAUSE_TIMES = 9 };

/* A certificate that ends so soon, and within a third of its life, should have been renewed. */
enum { ENDING_S = 14 * 86400 };

/* DIRECTORY: that of [acme]; -1: it is not enabled. Returns 0, or -1 with WHY. */
static int open_state(const struct config *config, int *directory, char *why, size_t size)
{
    *directory = config->acme_enabled ? acme_open_state(config, why, size) : -1;
    return config->acme_enabled && *directory < 0 ? -1 : 0;
}

int certificates_load(struct master *master, char *why, size_t size)
{
    struct certificates *certificates = &master->certificates;
    struct certificate_set *set = NULL;
    int directory;

    if (listeners_need_tls(master->listeners)) {
        if (certificates->tickets == NULL) {
            certificates->tickets = tls_tickets_new();
            certificates->tickets_ns = clock_monotonic_ns();
        }
        if (certificates->checked != NULL)
            set = certificate_set_hold(certificates->checked);
        else if (open_state(master->config, &directory, why, size) == 0)
            set = certificate_set_load(master->config, directory, why, size);
        if (set == NULL)
            return -1;
    }
    certificates->set = set;
    return 0;
}

/* Checks for a reload, and renewed certificates: the master does not wait */

/*
 * A worker that cannot get them is replaced by one that has them from its start. EPIPE: it is ending,
 * and its end is about to be noticed.
 */
static void send_certificates(struct master *master)
{
    struct workers *workers = &master->workers;

    for (uint32_t i = 0; i < workers->count; i++)
        if (worker_is_current(&workers->worker[i]) &&
            worker_process_send_certificates(&workers->worker[i], master->certificates.set) != 0 &&
            errno != EPIPE)
            certificates_refused(&workers->worker[i]);
}

/* The next loading waits for a multiple of the time of this one. */
static void end_checks(struct certificates *certificates)
{
    uint64_t now_ns = clock_monotonic_ns(),
             pause_ns = LOAD_PAUSE_TIMES * (now_ns - certificates->checks_ns);

    loop_free_event(certificates->check_ended);
    certificates->check_ended = NULL;
    certificate_loading_free(certificates->checks);
    certificates->checks = NULL;
    certificates->next_load_ns = now_ns + (pause_ns > LOAD_PAUSE_NS ? pause_ns : LOAD_PAUSE_NS);
}

static void use_renewed(struct master *master, struct certificate_set *set)
{
    struct certificates *certificates = &master->certificates;

    certificate_set_free(certificates->set);
    certificates->set = set;
    certificates->sent = true;
    send_certificates(master);
    certificates_settle(master);
}

static void await_check(struct master *master);

static void continue_checks(struct master *master)
{
    struct certificates *certificates = &master->certificates;
    struct certificate_set *set;
    char why[512];

    loop_free_event(certificates->check_ended);
    certificates->check_ended = NULL;
    if (master->reload.next == NULL && reload_must_wait(master)) {
        certificates_abandon_checks(certificates);
        return;
    }
    switch (certificate_loading_continue(certificates->checks, false, why, sizeof(why))) {
    case CERTIFICATES_LOADING:
        await_check(master);
        return;
    case CERTIFICATES_UNUSABLE:
        end_checks(certificates);
        if (master->reload.next != NULL)
            reload_certificates_checked(master, why);
        else
            event_log(LEVEL_ERROR, "certificates unchanged: %s", why);
        return;
    case CERTIFICATES_LOADED:
        set = certificate_loading_take(certificates->checks);
        end_checks(certificates);
        if (master->reload.next == NULL) {
            use_renewed(master, set);
            return;
        }
        certificates->checked = set;
        reload_certificates_checked(master, NULL);
    }
}

static void on_check_ended(evutil_socket_t fd, short what, void *master)
{
    (void)fd, (void)what;
    continue_checks(master);
}

/* Without memory for the event, the master looks once a second. */
static void await_check(struct master *master)
{
    struct certificates *certificates = &master->certificates;

    certificates->check_ended =
        event_new(master->base, certificate_loading_descriptor(certificates->checks), EV_READ,
                  on_check_ended, master);
    if (certificates->check_ended != NULL)
        event_add(certificates->check_ended, NULL);
}

/* Returns false with WHY. */
static bool start_checks(struct master *master, const struct config *config, char *why, size_t size)
{
    struct certificates *certificates = &master->certificates;
    int directory;

    certificates->checks_ns = clock_monotonic_ns();
    if (open_state(config, &directory, why, size) == 0)
        certificates->checks = certificate_loading_new(config, directory, why, size);
    if (certificates->checks == NULL)
        return false;
    await_check(master);
    return true;
}

bool certificates_renew(struct master *master)
{
    char why[512];

    if (master->certificates.checks != NULL || reload_must_wait(master))
        return false;
    if (!start_checks(master, master->config, why, sizeof(why))) {
        event_log(LEVEL_ERROR, "certificates unchanged: %s", why);
        end_checks(&master->certificates);
    }
    return true;
}

bool certificates_check_next(struct master *master, const struct config *config)
{
    char why[512];

    return config_needs_tls(config) && start_checks(master, config, why, sizeof(why));
}

void certificates_abandon_checks(struct certificates *certificates)
{
    if (certificates->checks == NULL)
        return;
    end_checks(certificates);
    certificates->pending = certificates->loading = true;
    certificates->again = false;
}

bool certificates_reaped(struct certificates *certificates, pid_t pid, int status)
{
    return acme_process_hook_reaped(&certificates->process, pid, status) ||
           (certificates->checks != NULL &&
            certificate_loading_reaped(certificates->checks, pid, status));
}

void certificates_refused(struct worker_process *worker)
{
    event_log(LEVEL_ERROR,
              "worker %u (pid %d) does not use the new certificates: starting another one for it",
              worker->slot, worker->pid);
    supervisor_replace(worker->master, worker->slot);
}

static void end_loading(struct certificates *certificates)
{
    if (certificates->loading)
        certificates->pending = certificates->again;
    certificates->loading = false;
}

void certificates_settle(struct master *master)
{
    struct certificates *certificates = &master->certificates;

    if (!certificates->sent || !workers_use_certificates(&master->workers))
        return;
    certificates->sent = false;
    event_log(LEVEL_INFO, "new certificates in use");
    end_loading(certificates);
}

/* The keys of session tickets */

int certificates_save_tickets(const struct certificates *certificates)
{
    int fd;

    if (certificates->tickets == NULL)
        return -1;
    fd = tls_tickets_save(certificates->tickets, certificates->tickets_ns);
    if (fd < 0)
        event_log(LEVEL_WARN, "the new master gets no keys of session tickets: %s",
                  strerror(errno));
    return fd;
}

void certificates_restore_tickets(struct certificates *certificates, int fd)
{
    if (fd < 0)
        return;
    certificates->tickets = tls_tickets_restore(fd, &certificates->tickets_ns);
    close(fd);
    if (certificates->tickets == NULL)
        event_log(LEVEL_WARN, "cannot use the old master's keys of session tickets");
}

void certificates_rotate_tickets(struct master *master, uint64_t now_ns)
{
    struct certificates *certificates = &master->certificates;

    if (certificates->tickets == NULL ||
        now_ns - certificates->tickets_ns < master->config->tls_session_timeout * NS_PER_MS / 2)
        return;
    certificates->tickets_ns = now_ns;
    if (tls_tickets_rotate(certificates->tickets) == 0)
        workers_send_tickets(master);
}

/* The ACME process */

/* A renewal that failed is retried after the pause. */
static void start_renewing(struct master *master)
{
    struct certificates *certificates = &master->certificates;

    if (certificates->pending && clock_monotonic_ns() >= certificates->next_load_ns &&
        !reload_must_wait(master) && listeners_need_tls(master->listeners) &&
        certificates_renew(master)) {
        certificates->loading = true;
        certificates->again = false;
    }
}

static void on_renewed(void *context)
{
    struct master *master = context;

    master->certificates.pending = true;
    master->certificates.again = master->certificates.loading;
    start_renewing(master);
}

void certificates_init(struct master *master)
{
    master->certificates.process = (struct acme_process){
        .program_fd = -1,
        .child = {.name = "ACME process",
                  .shown_pid = &segment_master(&master->segment)->acme_pid,
                  .deaths = &segment_master(&master->segment)->metrics[METRIC_processes_died]},
        .base = master->base,
        .segment = &master->segment,
        .renewed = on_renewed,
        .context = master};
    acme_process_find_program(&master->certificates.process);
}

void certificates_free(struct certificates *certificates)
{
    loop_free_event(certificates->check_ended);
    certificates->check_ended = NULL;
    acme_process_free(&certificates->process);
}

static void reconcile_acme(struct master *master)
{
    struct acme_setup setup = {.config = master->config};

    if (master->certificates.process_wanted && master->config->acme_enabled)
        acme_process_start(&master->certificates.process, &setup, master_after_fork, master);
    else
        acme_process_stop(&master->certificates.process);
}

void certificates_start(struct master *master)
{
    master->certificates.process_wanted = true;
    reconcile_acme(master);
}

void certificates_stop(struct master *master)
{
    master->certificates.process_wanted = false;
    reconcile_acme(master);
}

void certificates_committed(struct master *master)
{
    end_loading(&master->certificates);
    acme_process_stop(&master->certificates.process); /* the next one has the new configuration */
    reconcile_acme(master);
}

/* The plan for a certificate of [acme]; NULL: it is none, or not reported yet. */
static const struct acme_plan *plan_of(const struct master *master,
                                       const struct tls_description *description)
{
    const struct acme_process *process = &master->certificates.process;
    const struct config_words *all = &master->config->acme_names;
    size_t number = all->count, count = 0;
    const char *names;

    for (size_t i = 0; i < description->name_count; i++) {
        const char *name = description->name[i];
        size_t found = config_acme_find(master->config, span_of(name));

        if (found == all->count || (i > 0 && found != number))
            return NULL;
        number = found;
    }
    if (number == all->count)
        return NULL;
    for (names = all->item[number]; config_acme_next_name(&names).length > 0;)
        count++;
    return count == description->name_count && number < process->plan_count &&
                   process->plan[number].known
               ? &process->plan[number]
               : NULL;
}

/* The table in shared memory */

/* Joins the names that fit, at least a part of the first one. */
static void join_names(char *text, size_t size, const struct tls_description *description)
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < description->name_count; i++) {
        size_t length = strlen(description->name[i]) + (i > 0);

        if (i > 0 && used + length >= size)
            return;
        snprintf(text + used, size - used, "%s%s", i > 0 ? " " : "", description->name[i]);
        used += length;
    }
}

static bool is_ending_soon(const struct tls_description *description, int64_t now_s)
{
    int64_t left_s = description->not_after_s - now_s;

    return left_s <= 0 || description->not_before_s > now_s ||
           (left_s < ENDING_S &&
            left_s < (description->not_after_s - description->not_before_s) / 3);
}

void certificates_publish_one(void *owner, const struct tls_description *description)
{
    struct certificate_table *table = owner;
    const struct acme_plan *plan = plan_of(table->master, description);
    struct certificate_copy copy = {.not_before_s = (uint64_t)description->not_before_s,
                                    .not_after_s = (uint64_t)description->not_after_s};

    table->ending += is_ending_soon(description, (int64_t)(clock_wall_ns() / NS_PER_S));
    if (table->count == SEGMENT_CERTIFICATES_MAX)
        return;
    join_names(copy.names, sizeof(copy.names), description);
    snprintf(copy.issuer, sizeof(copy.issuer), "%s", description->issuer);
    if (plan != NULL) {
        copy.next_attempt_s = (uint64_t)plan->next_s;
        copy.failures = plan->failures;
        snprintf(copy.error, sizeof(copy.error), "%.*s", (int)sizeof(copy.error) - 1, plan->error);
    }
    segment_store_certificate(&table->master->segment, table->count++, &copy);
}

static void publish_table(const struct master *master)
{
    const struct certificate_set *set = master->certificates.set;
    struct certificate_table table = {.master = master};

    if (set != NULL)
        certificate_set_describe(set, certificates_publish_one, &table);
    segment_store_certificate_count(&master->segment, table.count);
    metric_set(segment_master(&master->segment)->metrics, METRIC_certificates_ending, table.ending);
}

void certificates_check(struct master *master, uint64_t now_ns)
{
    acme_process_check(&master->certificates.process, master->config->workers_heartbeat_timeout,
                       master->monitor.resumed_ns, now_ns);
    child_check_threads(&master->certificates.process.child);
    if (master->certificates.checks != NULL)
        continue_checks(master);
    reconcile_acme(master);
    start_renewing(master);
    if (!master->certificates.pending && !master->certificates.loading &&
        !master->certificates.sent)
        acme_process_deploy(&master->certificates.process, master->config);
    publish_table(master);
}

/* The list */

struct certificate_list {
    const struct master *master;
    json_t *json;
};

static void append_certificate(void *owner, const struct tls_description *description)
{
    const struct certificate_list *list = owner;
    const struct acme_plan *plan = plan_of(list->master, description);
    json_t *names = json_array(), *json;

    for (size_t i = 0; i < description->name_count; i++)
        json_array_append_new(names, json_text(description->name[i]));
    json =
        json_pack("{s:o, s:o, s:I, s:I}", "names", names, "issuer", json_text(description->issuer),
                  "not_before", (json_int_t)description->not_before_s, "not_after",
                  (json_int_t)description->not_after_s);
    if (json != NULL && plan != NULL) {
        json_object_set_new(json, "next_attempt", json_integer(plan->next_s));
        json_object_set_new(json, "failures", json_integer(plan->failures));
        json_object_set_new(json, "error", json_text(plan->error));
    }
    json_array_append_new(list->json, json);
}

static json_t *certificates_list(const struct master *master)
{
    struct certificate_list list = {master, json_array()};

    if (master->certificates.set != NULL)
        certificate_set_describe(master->certificates.set, append_certificate, &list);
    return list.json;
}

/* Renewals */

enum renewal_state {
    RENEWAL_PENDING,   /* under way, or a reload for the certificate is */
    RENEWAL_OBTAINED,  /* and in use */
    RENEWAL_FAILED,    /* the plan has the error */
    RENEWAL_ABANDONED, /* the ACME process has ended; the next one follows its plan */
};

enum { TOKEN_NAME_SHIFT = 32 };

static uint64_t request_renewal(struct certificates *certificates, uint32_t number, char *why,
                                size_t size)
{
    struct acme_process *process = &certificates->process;
    int64_t now_s = (int64_t)(clock_wall_ns() / NS_PER_S);
    char until[UNITS_TEXT];
    uint32_t renewal;

    if (number < process->plan_count && process->plan[number].refused_until_s > now_s) {
        snprintf(why, size, "the authority accepts no request before %s: %s",
                 units_format_utc(until, sizeof(until), process->plan[number].refused_until_s),
                 process->plan[number].error);
        return 0;
    }
    renewal = acme_process_renew(process, number);
    if (renewal > 0)
        return (uint64_t)number << TOKEN_NAME_SHIFT | renewal;
    snprintf(why, size,
             "the ACME process does not run; another one is starting: see the error log");
    return 0;
}

static enum renewal_state renewal_state(const struct certificates *certificates, uint64_t token,
                                        uint32_t *number, uint64_t *since_ns)
{
    const struct acme_process *process = &certificates->process;
    uint32_t renewal = (uint32_t)token;
    const struct acme_plan *plan;

    *number = (uint32_t)(token >> TOKEN_NAME_SHIFT);
    *since_ns = 0;
    if (process->child.pid == 0 || *number >= process->plan_count)
        return RENEWAL_ABANDONED;
    plan = &process->plan[*number];
    *since_ns = plan->renewal_ns;
    if (plan->renewal_ended < renewal)
        return plan->renewal == renewal ? RENEWAL_PENDING : RENEWAL_ABANDONED;
    if (plan->failures > 0)
        return RENEWAL_FAILED;
    return certificates->pending || certificates->loading ? RENEWAL_PENDING : RENEWAL_OBTAINED;
}

/* The commands certificates and acme */

enum { NAMES_SHOWN = 400 };

/* A reply comes before a client with the default timeout gives up. */
static const uint64_t PATIENCE_NS = 45 * NS_PER_S;

struct control_reply command_certificates(const struct call *call)
{
    return command_reply(
        json_pack("{s:b, s:o}", "ok", 1, "certificates", certificates_list(call->master)));
}

/* acme renew */

static const struct config_words *names_of(const struct master *master)
{
    return &master->config->acme_names;
}

static json_t *no_such_name(const struct config_words *names, const char *name)
{
    char list[NAMES_SHOWN] = "";
    size_t used = 0;

    for (size_t i = 0; i < names->count && used < sizeof(list); i++)
        used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", i > 0 ? ", " : "",
                                 names->item[i]);
    return control_error("the server obtains no certificate for '%.64s' (valid: %s%s)", name, list,
                         used < sizeof(list) ? "" : "...");
}

static bool renewal_has_ended(void *owner, uint64_t token)
{
    struct master *master = owner;
    uint32_t number;
    uint64_t since_ns;

    return renewal_state(&master->certificates, token, &number, &since_ns) != RENEWAL_PENDING ||
           clock_monotonic_ns() - since_ns > PATIENCE_NS;
}

static json_t *report_renewal(void *owner, uint64_t token)
{
    struct master *master = owner;
    const struct certificates *certificates = &master->certificates;
    uint32_t number;
    uint64_t since_ns;
    enum renewal_state state = renewal_state(certificates, token, &number, &since_ns);
    const struct acme_plan *plan;
    char next[UNITS_TEXT];

    if (state == RENEWAL_ABANDONED)
        return control_error("the ACME process has ended before the certificate came; another one "
                             "follows its plan: see the error log");
    plan = &certificates->process.plan[number];
    if (state == RENEWAL_FAILED)
        return control_error("no certificate: %s; next attempt: %s", plan->error,
                             units_format_utc(next, sizeof(next), plan->next_s));
    return json_pack("{s:b, s:o, s:b, s:I}", "ok", 1, "host",
                     json_text(names_of(master)->item[number]), "obtained",
                     state == RENEWAL_OBTAINED, "next_attempt", (json_int_t)plan->next_s);
}

static struct control_reply renew(const struct call *call, const char *name)
{
    struct master *master = call->master;
    const struct config_words *names = names_of(master);
    char what[400], why[ACME_ERROR_BYTES + 100];
    uint64_t token;
    size_t number;

    number = config_acme_find(master->config, span_of(name));
    if (number == names->count)
        return command_reply(no_such_name(names, name));
    token = request_renewal(&master->certificates, (uint32_t)number, why, sizeof(why));
    if (token == 0)
        return command_reply(control_error("%s", why));
    snprintf(what, sizeof(what), "%s: new certificate requested", names->item[number]);
    command_log_action(call, what);
    return (struct control_reply){
        .in_force = renewal_has_ended, .report = report_renewal, .token = token};
}

/* acme rollover */

static const struct acme_process *process_of(const struct master *master)
{
    return &master->certificates.process;
}

/* True if the process that received the request TOKEN has ended. */
static bool is_abandoned(const struct acme_process *process, uint64_t token)
{
    return process->child.pid == 0 || process->key_change.number != token;
}

static bool key_change_has_ended(void *owner, uint64_t token)
{
    struct master *master = owner;
    const struct acme_process *process = process_of(master);

    return is_abandoned(process, token) || process->key_change.ended == token ||
           clock_monotonic_ns() - process->key_change.since_ns > PATIENCE_NS;
}

static json_t *report_key_change(void *owner, uint64_t token)
{
    struct master *master = owner;
    const struct acme_process *process = process_of(master);
    const struct acme_key_change *change = &process->key_change;

    if (is_abandoned(process, token))
        return control_error("the ACME process has ended before the key was replaced; another one "
                             "finds out which key the account has: see the error log");
    if (change->ended == token && change->error[0] != '\0')
        return control_error("the key of the account is not replaced: %s", change->error);
    return json_pack("{s:b, s:b}", "ok", 1, "key_replaced", change->ended == token);
}

static struct control_reply rollover(const struct call *call)
{
    uint32_t number = acme_process_change_key(&call->master->certificates.process);

    if (number == 0)
        return command_reply(control_error(
            "the ACME process does not run; another one is starting: see the error log"));
    command_log_action(call, "another key of the ACME account requested");
    return (struct control_reply){
        .in_force = key_change_has_ended, .report = report_key_change, .token = number};
}

struct control_reply command_acme(const struct call *call)
{
    static const char usage[] = "usage: acme renew HOST, or acme rollover";
    const char *what = call->argument[0];
    bool renewing = strcmp(what, "renew") == 0;

    if (!renewing && strcmp(what, "rollover") != 0)
        return command_reply(control_error("invalid argument '%.64s'; %s", what, usage));
    if (call->argument_count != (renewing ? 2 : 1))
        return command_reply(control_error("wrong number of arguments; %s", usage));
    if (!call->master->config->acme_enabled)
        return command_reply(
            control_error("the server obtains no certificates: acme.enabled is off"));
    return renewing ? renew(call, call->argument[1]) : rollover(call);
}
