/* The commands about certificates: certificates, acme. */
#include "daemon/master/command.h"

#include "common/clock.h"
#include "common/escape.h"
#include "common/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { NAMES_SHOWN = 400 };

/* A reply comes before a client with the default timeout gives up. */
static const uint64_t PATIENCE_NS = 45 * NS_PER_S;

struct control_reply command_certificates(const struct call *call)
{
    return command_reply(
        json_pack("{s:b, s:o}", "ok", 1, "certificates", certificates_list(call->master)));
}

/* acme renew */

static const struct config_names *names_of(const struct master *master)
{
    return &master->config->acme_names;
}

/* Returns the number of NAME in [acme], or -1. */
static int find_name(const struct config_names *names, const char *name)
{
    for (size_t i = 0; i < names->count; i++)
        if (strcasecmp(names->item[i], name) == 0)
            return (int)i;
    return -1;
}

static json_t *no_such_name(const struct config_names *names, const char *name)
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

    return certificates_renewal(&master->certificates, token, &number, &since_ns) !=
               RENEWAL_PENDING ||
           clock_monotonic_ns() - since_ns > PATIENCE_NS;
}

static json_t *report_renewal(void *owner, uint64_t token)
{
    struct master *master = owner;
    const struct certificates *certificates = &master->certificates;
    uint32_t number;
    uint64_t since_ns;
    enum certificates_renewal state = certificates_renewal(certificates, token, &number, &since_ns);
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
    const struct config_names *names = names_of(master);
    char what[400], why[ACME_ERROR_BYTES + 100];
    uint64_t token;
    int number;

    number = find_name(names, name);
    if (number < 0)
        return command_reply(no_such_name(names, name));
    token = certificates_renew(&master->certificates, (uint32_t)number, why, sizeof(why));
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
    if (call->count != (renewing ? 2 : 1))
        return command_reply(control_error("wrong number of arguments; %s", usage));
    if (!call->master->config->acme_enabled)
        return command_reply(
            control_error("the server obtains no certificates: acme.enabled is off"));
    return renewing ? renew(call, call->argument[1]) : rollover(call);
}
