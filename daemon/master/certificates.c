#include "daemon/master/certificates.h"

#include "common/clock.h"
#include "common/escape.h"
#include "common/segment_reader.h"
#include "common/segment_writer.h"
#include "common/units.h"
#include "daemon/tls/context.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Each reload starts new workers, so a process that has been taken over must not cause many. */
static const uint64_t RELOAD_PAUSE_NS = 5 * NS_PER_S;

/* A certificate that ends so soon, and within a third of its life, should have been renewed. */
enum { ENDING_S = 14 * 86400 };

/* A reload that failed is tried again after the pause. */
static void start_reload(struct certificates *certificates)
{
    uint64_t now = clock_monotonic_ns();

    if (!certificates->pending ||
        (certificates->reloaded_ns != 0 && now - certificates->reloaded_ns < RELOAD_PAUSE_NS))
        return;
    if (!reload_renew_certificates(certificates->reload))
        return;
    certificates->reloaded_ns = now;
    certificates->reloading = true;
    certificates->again = false;
}

static void on_renewed(void *context)
{
    struct certificates *certificates = context;

    certificates->pending = true;
    certificates->again = certificates->reloading;
    start_reload(certificates);
}

void certificates_init(struct certificates *certificates, struct server *server,
                       struct reload *reload, void (*after_fork)(void *context), void *context)
{
    *certificates = (struct certificates){
        .server = server,
        .reload = reload,
        .after_fork = after_fork,
        .context = context,
        .process = {.child = {.name = "ACME process",
                              .shown_pid = &segment_master(&server->segment)->acme_pid},
                    .program_fd = -1,
                    .base = server->base,
                    .segment = &server->segment,
                    .renewed = on_renewed,
                    .context = certificates}};
    acme_process_find_program(&certificates->process);
}

static void reconcile(struct certificates *certificates)
{
    const struct server *server = certificates->server;
    struct acme_setup setup = {.config = server->config, .lock_fd = server->pid_file.lock_fd};

    if (certificates->wanted && server->config->acme_enabled)
        acme_process_start(&certificates->process, &setup, certificates->after_fork,
                           certificates->context);
    else
        acme_process_stop(&certificates->process);
}

void certificates_start(struct certificates *certificates)
{
    certificates->wanted = true;
    reconcile(certificates);
}

void certificates_stop(struct certificates *certificates)
{
    certificates->wanted = false;
    reconcile(certificates);
}

void certificates_committed(struct certificates *certificates, bool changed)
{
    if (certificates->reloading)
        certificates->pending = certificates->again;
    certificates->reloading = false;
    if (!changed)
        return;
    acme_process_stop(&certificates->process); /* the next one has the new configuration */
    reconcile(certificates);
}

/* The plan for a certificate with NAME; NULL: not of [acme], or not reported yet. */
static const struct acme_plan *find_plan(const struct certificates *certificates, const char *name)
{
    const struct config_names *names = &certificates->server->config->acme_names;
    const struct acme_process *process = &certificates->process;

    for (size_t i = 0; i < names->count && i < process->plan_count; i++)
        if (strcasecmp(names->item[i], name) == 0)
            return process->plan[i].known ? &process->plan[i] : NULL;
    return NULL;
}

static const struct acme_plan *plan_of(const struct certificates *certificates,
                                       const struct tls_description *description)
{
    return description->name_count == 1 ? find_plan(certificates, description->name[0]) : NULL;
}

/* The table in shared memory */

struct table {
    const struct certificates *certificates;
    uint32_t count, ending;
};

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

static bool is_ending(const struct tls_description *description, int64_t now_s)
{
    int64_t left_s = description->not_after_s - now_s;

    return left_s <= 0 || (left_s < ENDING_S &&
                           left_s < (description->not_after_s - description->not_before_s) / 3);
}

static void publish_one(void *owner, const struct tls_description *description)
{
    struct table *table = owner;
    const struct acme_plan *plan = plan_of(table->certificates, description);
    struct certificate_copy copy = {.not_before_s = (uint64_t)description->not_before_s,
                                    .not_after_s = (uint64_t)description->not_after_s};

    table->ending += is_ending(description, (int64_t)(clock_wall_ns() / NS_PER_S));
    if (table->count == SEGMENT_CERTIFICATES_MAX)
        return;
    join_names(copy.names, sizeof(copy.names), description);
    snprintf(copy.issuer, sizeof(copy.issuer), "%s", description->issuer);
    if (plan != NULL) {
        copy.next_attempt_s = (uint64_t)plan->next_s;
        copy.failures = plan->failures;
        snprintf(copy.error, sizeof(copy.error), "%.*s", (int)sizeof(copy.error) - 1, plan->error);
    }
    segment_store_certificate(&table->certificates->server->segment, table->count++, &copy);
}

static void publish(const struct certificates *certificates)
{
    const struct server *server = certificates->server;
    struct table table = {.certificates = certificates};

    if (server->tls != NULL)
        tls_context_describe(server->tls, publish_one, &table);
    segment_store_certificate_count(&server->segment, table.count);
    metric_set(segment_master(&server->segment)->metrics, METRIC_certificates_ending, table.ending);
}

void certificates_check(struct certificates *certificates, uint64_t resumed_ns, uint64_t now_ns)
{
    acme_process_check(&certificates->process,
                       certificates->server->config->workers_heartbeat_timeout, resumed_ns, now_ns);
    reconcile(certificates);
    start_reload(certificates);
    publish(certificates);
}

/* The list */

struct list {
    const struct certificates *certificates;
    json_t *json;
};

static void append(void *owner, const struct tls_description *description)
{
    const struct list *list = owner;
    const struct acme_plan *plan = plan_of(list->certificates, description);
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

json_t *certificates_list(const struct certificates *certificates)
{
    struct list list = {certificates, json_array()};

    if (certificates->server->tls != NULL)
        tls_context_describe(certificates->server->tls, append, &list);
    return list.json;
}

/* Renewals */

enum { TOKEN_NAME_SHIFT = 32 };

uint64_t certificates_renew(struct certificates *certificates, uint32_t number, char *why,
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

enum certificates_renewal certificates_renewal(const struct certificates *certificates,
                                               uint64_t token, uint32_t *number, uint64_t *since_ns)
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
    return certificates->pending || certificates->reloading ? RENEWAL_PENDING : RENEWAL_OBTAINED;
}

bool certificates_process_ended(struct certificates *certificates, pid_t pid, const char *how)
{
    return acme_process_ended(&certificates->process, pid, how);
}

void certificates_free(struct certificates *certificates)
{
    acme_process_free(&certificates->process);
}
