#include "common/clock.h"
#include "common/escape.h"
#include "common/units.h"
#include "daemon/acme/internal.h"
#include "daemon/acme/state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

/* Room for the files of one certificate and of the account. */
enum { SPACE_BYTES = 64 * 1024, FILE_NAME_BYTES = 300 };

/* Time limit of the requests of a first attempt while other certificates wait. */
enum { SHORTEST_LIMIT_S = 1, SHORT_LIMIT_S = 5 };

/* A random number for the delays; 0 if there is none. */
static uint32_t random_number(void)
{
    uint32_t number = 0;

    return getrandom(&number, sizeof(number), 0) == (ssize_t)sizeof(number) ? number : 0;
}

/* Files */

static void file_name(char name[FILE_NAME_BYTES], const struct certificate *certificate,
                      const char *suffix)
{
    char base[ACME_NAME_MAX + 1];

    config_acme_file(certificate->names, base);
    snprintf(name, FILE_NAME_BYTES, "%s%s", base, suffix);
}

static void store_plan(const struct certificate *certificate, const struct acme *acme)
{
    char file[FILE_NAME_BYTES];
    const struct renewal_window *window = &certificate->window;
    json_t *json = json_pack(
        "{s:s, s:I, s:I, s:I, s:i, s:o, s:s, s:I, s:I, s:I}", "directory", acme->settings.directory,
        "written", (json_int_t)time(NULL), "next_attempt", (json_int_t)certificate->next_s,
        "refused_until", (json_int_t)certificate->refused_until_s, "failures",
        (int)certificate->failures, "error", json_text(certificate->error), "certificate",
        certificate->id, "window_start", (json_int_t)window->start_s, "window_end",
        (json_int_t)window->end_s, "next_check", (json_int_t)certificate->check_s);

    file_name(file, certificate, ".json");
    if (state_write_json(acme->directory, file, json) != 0)
        link_log(acme->link, LEVEL_WARN,
                 "%s: cannot store the next attempt, which a restart forgets: %s",
                 certificate->name, strerror(errno));
}

static void read_validity(struct certificate *certificate, const struct acme *acme)
{
    char file[FILE_NAME_BYTES], why[160];
    struct credentials_validity validity;
    char *chain;

    file_name(file, certificate, ".pem");
    chain = state_read(acme->directory, file);
    if (chain == NULL)
        return;
    if (credentials_check(chain, NULL, certificate->names, (int64_t)time(NULL), &validity, why,
                          sizeof(why)) == 0) {
        certificate->not_before_s = validity.not_before_s;
        certificate->not_after_s = validity.not_after_s;
        credentials_id(chain, certificate->id);
    } else {
        link_log(acme->link, LEVEL_WARN, "%s: %s: requesting another one", certificate->name, why);
    }
    OPENSSL_cleanse(chain, strlen(chain));
    free(chain);
}

static int64_t plan_renewal(const struct certificate *certificate)
{
    return schedule_renewal(certificate->not_before_s, certificate->not_after_s, random_number());
}

static void report_plan(const struct certificate *certificate, const struct acme *acme,
                        bool attempted)
{
    struct message_acme_plan plan = {.name = certificate->number,
                                     .failures = certificate->failures,
                                     .attempted = attempted,
                                     .renewal = certificate->renewal,
                                     .next_s = certificate->next_s,
                                     .refused_until_s = certificate->refused_until_s};

    snprintf(plan.error, sizeof(plan.error), "%s", certificate->error);
    link_report(acme->link, MESSAGE_ACME_PLAN, &plan, sizeof(plan));
}

static int64_t json_number(const json_t *json, const char *name)
{
    return json_integer_value(json_object_get(json, name));
}

/* The clock */

static int64_t clock_lead_ns(void)
{
    return (int64_t)(clock_wall_ns() - clock_read_ns(CLOCK_BOOTTIME));
}

/* The wall clock was set by STEP_S since the delays were planned. */
static void keep_delays(struct certificate *certificate, int64_t step_s)
{
    if (certificate->check_s > 0)
        certificate->check_s += step_s;
    if (certificate->refused_until_s > 0)
        certificate->refused_until_s += step_s;
    if (certificate->failures == 0)
        return; /* the plan is by the times of the certificate, or of the authority */
    if (step_s < 0)
        certificate->next_s += step_s;
    if (certificate->next_s < certificate->refused_until_s)
        certificate->next_s = certificate->refused_until_s;
}

/*
 * Keeps the delays of the plan if the wall clock was set since they were planned. An attempt after
 * a failure does not wait longer because it was set forward: the failure may have been that of the
 * clock.
 */
static void follow_clock(struct certificate *certificate, const struct acme *acme)
{
    int64_t lead_ns = clock_lead_ns(), before_s = certificate->next_s;
    int64_t step_ns = lead_ns - certificate->clock_ns, half_ns = (int64_t)NS_PER_S / 2;
    int64_t step_s = (step_ns + (step_ns < 0 ? -half_ns : half_ns)) / (int64_t)NS_PER_S;
    char next[UNITS_TEXT];

    if (step_s == 0)
        return;
    certificate->clock_ns = lead_ns;
    keep_delays(certificate, step_s);
    store_plan(certificate, acme);
    report_plan(certificate, acme, false);
    if (certificate->next_s != before_s)
        link_log(acme->link, LEVEL_INFO,
                 "%s: the clock was set %s by %" PRId64 " s; next attempt: %s", certificate->name,
                 step_s < 0 ? "back" : "forward", step_s < 0 ? -step_s : step_s,
                 units_format_utc(next, sizeof(next), certificate->next_s));
}

/* Plans by what an earlier process has stored. */
static void read_plan(struct certificate *certificate, const struct acme *acme)
{
    int64_t now_s = (int64_t)time(NULL);
    char file[FILE_NAME_BYTES];
    json_t *plan;

    certificate->clock_ns = clock_lead_ns();
    file_name(file, certificate, ".json");
    plan = state_read_json(acme->directory, file);
    if (plan == NULL || strcmp(authority_text(plan, "directory"), acme->settings.directory) != 0) {
        json_decref(plan); /* never requested, or of another authority: now */
        return;
    }
    certificate->failures = (uint32_t)json_number(plan, "failures");
    certificate->refused_until_s = json_number(plan, "refused_until");
    snprintf(certificate->error, sizeof(certificate->error), "%s", authority_text(plan, "error"));
    if (certificate->not_after_s > 0) {
        certificate->next_s = plan_renewal(certificate);
        /* By the renewal information, if it is about the certificate in use. */
        if (certificate->id[0] != '\0' &&
            strcmp(authority_text(plan, "certificate"), certificate->id) == 0) {
            certificate->window =
                (struct renewal_window){.start_s = json_number(plan, "window_start"),
                                        .end_s = json_number(plan, "window_end")};
            certificate->check_s = json_number(plan, "next_check");
            if (certificate->window.start_s > 0 &&
                json_number(plan, "next_attempt") < certificate->not_after_s)
                certificate->next_s = json_number(plan, "next_attempt");
        }
    }
    if (certificate->failures > 0)
        certificate->next_s = json_number(plan, "next_attempt");
    if (json_number(plan, "written") > now_s) /* by a clock that was set back since then */
        keep_delays(certificate, now_s - json_number(plan, "written"));
    certificate->refused_until_s = schedule_planned(certificate->refused_until_s, now_s);
    if (certificate->failures > 0)
        certificate->next_s = schedule_planned(certificate->next_s, now_s);
    report_plan(certificate, acme, false);
    json_decref(plan);
}

void certificate_init(struct certificate *certificate, const struct acme *acme, uint32_t number)
{
    const char *names = acme->settings.name[number];
    struct span first;

    *certificate = (struct certificate){.number = number, .names = names};
    first = config_acme_next_name(&names);
    snprintf(certificate->name, sizeof(certificate->name), "%.*s", (int)first.length, first.start);
    read_validity(certificate, acme);
    read_plan(certificate, acme);
}

/* One attempt */

/* The first file that the server reads; complete or not changed. */
static int store_certificate(const struct certificate *certificate, struct acme *acme,
                             const char *key, const char *chain)
{
    char file[FILE_NAME_BYTES], *both = NULL;
    int failed = -1;

    file_name(file, certificate, ".pem");
    errno = ENOMEM;
    if (asprintf(&both, "%s%s", key, chain) >= 0) {
        failed = state_write(acme->directory, file, both);
        OPENSSL_cleanse(both, strlen(both));
        free(both);
    }
    return failed == 0
               ? 0
               : authority_fail(&acme->authority, "cannot write %s: %s", file, strerror(errno));
}

/* Checks CHAIN, which the authority has sent for KEY, and stores both. */
static int accept_chain(struct certificate *certificate, struct acme *acme, EVP_PKEY *key,
                        const char *chain)
{
    struct authority *authority = &acme->authority;
    struct credentials_validity validity;
    char *clean, *text;
    int failed = -1;

    if (credentials_check(chain, key, certificate->names, (int64_t)time(NULL), &validity,
                          authority->why, sizeof(authority->why)) != 0)
        return -1;
    clean = credentials_clean(chain);
    text = credentials_key_text(key);
    if (clean != NULL && text != NULL)
        failed = store_certificate(certificate, acme, text, clean);
    else
        authority_fail(authority, "out of memory");
    if (text != NULL)
        OPENSSL_cleanse(text, strlen(text));
    free(text);
    free(clean);
    if (failed == 0) {
        certificate->not_before_s = validity.not_before_s;
        certificate->not_after_s = validity.not_after_s;
        credentials_id(chain, certificate->id);
        certificate->window = (struct renewal_window){0};
        certificate->check_s = 0;
    }
    return failed;
}

static int obtain_certificate(struct certificate *certificate, struct acme *acme)
{
    struct authority *authority = &acme->authority;
    char *request, *chain = NULL;
    int failed = -1;

    if (state_check_space(acme->directory, SPACE_BYTES) != 0)
        return authority_fail(authority, "no space for the certificate in %s: %s",
                              acme->settings.state_dir, strerror(errno));
    if (account_open(acme) != 0)
        return -1;
    if (certificate->key == NULL)
        certificate->key = credentials_new_key(acme->settings.key);
    request =
        certificate->key != NULL ? credentials_request(certificate->key, certificate->names) : NULL;
    if (request != NULL)
        chain = order_obtain(acme, certificate, request);
    else
        authority_fail(authority, "cannot make a key and a signing request: out of memory");
    if (chain != NULL)
        failed = accept_chain(certificate, acme, certificate->key, chain);
    if (certificate->order[0] == '\0') {
        EVP_PKEY_free(certificate->key);
        certificate->key = NULL;
    }
    free(chain);
    free(request);
    return failed;
}

/* Renewal information */

/* Plans by the window, which is new. */
static void follow_window(struct certificate *certificate, const struct acme *acme)
{
    const struct renewal_window *window = &certificate->window;
    int64_t now_s = (int64_t)time(NULL);
    char start[UNITS_TEXT], end[UNITS_TEXT], next[UNITS_TEXT];

    certificate->next_s = schedule_window(window->start_s, window->end_s, random_number());
    if (certificate->next_s > now_s)
        certificate->hurried = 0;
    else if (certificate->hurried++ > 0) /* an authority that never has enough gets no more */
        certificate->next_s = now_s + schedule_after_failure(certificate->hurried - 1,
                                                             acme->settings.retry_ms / 1000, 0, 0);
    report_plan(certificate, acme, false);
    link_log(acme->link, LEVEL_INFO,
             "%s: the authority suggests renewal between %s and %s; planned for %s",
             certificate->name, units_format_utc(start, sizeof(start), window->start_s),
             units_format_utc(end, sizeof(end), window->end_s),
             units_format_utc(next, sizeof(next), certificate->next_s));
}

static void plan_check(struct certificate *certificate, const struct acme *acme, uint32_t wanted_s)
{
    int64_t least_s = acme->settings.retry_ms / 1000, wait_s = wanted_s;

    if (wait_s == 0)
        wait_s = RENEWAL_CHECK_S;
    if (wait_s > RENEWAL_CHECK_MAX_S)
        wait_s = RENEWAL_CHECK_MAX_S;
    certificate->check_s = (int64_t)time(NULL) + (wait_s > least_s ? wait_s : least_s);
}

static void check_renewal_info(struct certificate *certificate, struct acme *acme)
{
    struct authority *authority = &acme->authority;
    struct renewal_window window = {0};
    int failed;

    if (authority->unreachable)
        return;
    authority->limit_s = 0;
    failed = authority_open(authority);

    if (failed == 0 && authority->renewal_info[0] == '\0') {
        plan_check(certificate, acme, 0); /* it may have some later */
        return;
    }
    if (failed == 0)
        failed = renewal_info_fetch(authority, certificate->id, &window);
    if (failed == 0 && window.end_s > certificate->not_after_s)
        failed = authority_fail(authority, "the suggested window ends after the certificate");
    if (!link_pulse(acme->link)) /* the server stops */
        return;
    plan_check(certificate, acme, window.check_after_s);
    certificate->clock_ns = clock_lead_ns();
    if (failed != 0) {
        link_log(acme->link, LEVEL_INFO, "%s: no renewal information: %s", certificate->name,
                 authority->why);
    } else if (window.start_s != certificate->window.start_s ||
               window.end_s != certificate->window.end_s) {
        certificate->window = window;
        follow_window(certificate, acme);
    }
    store_plan(certificate, acme);
}

/* The result of an attempt */

static void record_success(struct certificate *certificate, const struct acme *acme)
{
    const struct message_acme_certificate message = {certificate->number};
    int64_t soonest_s = (int64_t)time(NULL) + acme->settings.retry_ms / 1000;
    char until[UNITS_TEXT], next[UNITS_TEXT];

    certificate->failures = 0;
    certificate->error[0] = '\0';
    certificate->refused_until_s = 0;
    certificate->next_s = plan_renewal(certificate);
    if (certificate->next_s < soonest_s) /* the authority's clock, or its certificates, are odd */
        certificate->next_s = soonest_s;
    store_plan(certificate, acme);
    link_report(acme->link, MESSAGE_ACME_CERTIFICATE, &message, sizeof(message));
    link_log(acme->link, LEVEL_INFO, "%s: certificate obtained, valid until %s; renewal from %s",
             certificate->name, units_format_utc(until, sizeof(until), certificate->not_after_s),
             units_format_utc(next, sizeof(next), certificate->next_s));
    report_plan(certificate, acme, true);
}

static void record_failure(struct certificate *certificate, struct acme *acme)
{
    struct authority *authority = &acme->authority;
    int64_t now_s = (int64_t)time(NULL), left_s = certificate->not_after_s - now_s;
    char next[UNITS_TEXT], left[64] = "";

    if (authority->account_unknown)
        authority->account[0] = '\0';
    certificate->failures++;
    memcpy(certificate->error, authority->why, sizeof(certificate->error));
    certificate->refused_until_s =
        authority->retry_after_s > 0 ? now_s + authority->retry_after_s : 0;
    certificate->next_s =
        now_s + schedule_after_failure(certificate->failures, acme->settings.retry_ms / 1000,
                                       authority->retry_after_s, random_number());
    store_plan(certificate, acme);
    if (left_s > 0)
        snprintf(left, sizeof(left), "; the one in use is valid for %ld more days",
                 (long)(left_s / 86400));
    link_log(acme->link, LEVEL_WARN, "%s: no certificate: %s; next attempt: %s%s",
             certificate->name, authority->why,
             units_format_utc(next, sizeof(next), certificate->next_s), left);
    report_plan(certificate, acme, true);
}

/* Time limit of requests while OTHERS_WAIT; 0: the usual one. */
static uint32_t limit_of_request(const struct certificate *certificate, const struct acme *acme,
                                 bool others_wait)
{
    uint32_t limit_s = acme->settings.retry_ms / 1000;

    if (limit_s > SHORT_LIMIT_S)
        limit_s = SHORT_LIMIT_S;
    if (limit_s < SHORTEST_LIMIT_S)
        limit_s = SHORTEST_LIMIT_S;
    for (uint32_t i = 0; i < certificate->deferred && limit_s < REQUEST_SECONDS; i++)
        limit_s *= 2;
    return others_wait && limit_s < REQUEST_SECONDS ? limit_s : 0;
}

static void request_certificate(struct certificate *certificate, struct acme *acme,
                                bool others_wait)
{
    struct authority *authority = &acme->authority;
    bool obtained = false, tried = !authority->unreachable;

    authority->limit_s = limit_of_request(certificate, acme, others_wait);
    if (tried) {
        link_log(acme->link, LEVEL_INFO, "%s: %s", certificate->name,
                 certificate->order[0] != '\0' ? "going on with the order"
                                               : "requesting a certificate");
        obtained = obtain_certificate(certificate, acme) == 0;
    } else { /* another certificate has just failed for this reason */
        authority->retry_after_s = 0;
        authority->account_unknown = false;
    }
    if (!obtained && !link_pulse(acme->link)) /* the server stops: this was no failure */
        return;
    if (!obtained && authority->timed_out && authority->limit_s > 0) {
        if (tried)
            link_log(acme->link, LEVEL_INFO,
                     "%s: the authority has not answered within %u s; the other certificates come "
                     "first",
                     certificate->name, authority->limit_s);
        certificate->deferred++;
        return;
    }
    certificate->deferred = 0;
    /* Renewals that were requested meanwhile have ended, too. */
    certificate->renewal = link_renewal(acme->link, certificate->number);
    certificate->clock_ns = clock_lead_ns();
    if (obtained)
        record_success(certificate, acme);
    else
        record_failure(certificate, acme);
}

bool certificate_is_due(const struct certificate *certificate, const struct acme *acme)
{
    return certificate->next_s <= (int64_t)time(NULL) ||
           link_renewal(acme->link, certificate->number) != certificate->renewal;
}

void certificate_handle(struct certificate *certificate, struct acme *acme, bool others_wait)
{
    int64_t now_s;

    follow_clock(certificate, acme);
    now_s = (int64_t)time(NULL);
    if (certificate_is_due(certificate, acme))
        request_certificate(certificate, acme, others_wait);
    else if (certificate->id[0] != '\0' && certificate->failures == 0 && certificate->next_s > 0 &&
             schedule_planned(certificate->check_s, now_s) <= now_s)
        check_renewal_info(certificate, acme);
}
