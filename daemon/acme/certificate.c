#include "daemon/acme/certificate.h"

#include "common/clock.h"
#include "common/json_text.h"
#include "common/units.h"
#include "daemon/acme/credentials.h"
#include "daemon/acme/schedule.h"
#include "daemon/acme/state.h"
#include "daemon/config/acme.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

/* Room for the files of one certificate and of the account. */
enum { SPACE_BYTES = 64 * 1024, FILE_NAME_BYTES = 300 };

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
    snprintf(name, FILE_NAME_BYTES, "%s%s", certificate->name, suffix);
}

static void store_plan(const struct certificate *certificate,
                       const struct certificates_owner *owner)
{
    char file[FILE_NAME_BYTES];
    const struct renewal_window *window = &certificate->window;
    json_t *json = json_pack(
        "{s:s, s:I, s:I, s:I, s:i, s:o, s:s, s:I, s:I, s:I}", "directory", certificate->directory,
        "written", (json_int_t)time(NULL), "next_attempt", (json_int_t)certificate->next_s,
        "refused_until", (json_int_t)certificate->refused_until_s, "failures",
        (int)certificate->failures, "error", json_text(certificate->error), "certificate",
        certificate->id, "window_start", (json_int_t)window->start_s, "window_end",
        (json_int_t)window->end_s, "next_check", (json_int_t)certificate->check_s);

    file_name(file, certificate, ".json");
    if (state_write_json(owner->directory, file, json) != 0)
        link_log(owner->link, LEVEL_WARN,
                 "%s: cannot store the next attempt, which a restart forgets: %s",
                 certificate->name, strerror(errno));
}

static void read_validity(struct certificate *certificate, const struct certificates_owner *owner)
{
    char file[FILE_NAME_BYTES], why[160];
    struct credentials_validity validity;
    char *chain;

    file_name(file, certificate, ".pem");
    chain = state_read(owner->directory, file);
    if (chain == NULL)
        return;
    if (credentials_check(chain, NULL, certificate->name, (int64_t)time(NULL), &validity, why,
                          sizeof(why)) == 0) {
        certificate->not_before_s = validity.not_before_s;
        certificate->not_after_s = validity.not_after_s;
        credentials_id(chain, certificate->id);
    } else {
        link_log(owner->link, LEVEL_WARN, "%s: %s: requesting another one", certificate->name, why);
    }
    OPENSSL_cleanse(chain, strlen(chain));
    free(chain);
}

static int64_t plan_renewal(const struct certificate *certificate)
{
    return schedule_renewal(certificate->not_before_s, certificate->not_after_s, random_number());
}

static void report_plan(const struct certificate *certificate,
                        const struct certificates_owner *owner, bool attempted)
{
    struct message_acme_plan plan = {.name = certificate->number,
                                     .failures = certificate->failures,
                                     .attempted = attempted,
                                     .renewal = certificate->renewal,
                                     .next_s = certificate->next_s,
                                     .refused_until_s = certificate->refused_until_s};

    link_report_plan(owner->link, &plan, certificate->error);
}

static int64_t number_of(const json_t *json, const char *name)
{
    return json_integer_value(json_object_get(json, name));
}

/* Plans by the renewal information that PLAN has, if it is about the certificate in use. */
static void read_window(struct certificate *certificate, const json_t *plan)
{
    int64_t next_s = number_of(plan, "next_attempt");

    if (certificate->id[0] == '\0' ||
        strcmp(authority_text(plan, "certificate"), certificate->id) != 0)
        return;
    certificate->window = (struct renewal_window){.start_s = number_of(plan, "window_start"),
                                                  .end_s = number_of(plan, "window_end")};
    certificate->check_s = number_of(plan, "next_check");
    if (certificate->window.start_s > 0 && next_s < certificate->not_after_s)
        certificate->next_s = next_s;
}

/* The clock */

static int64_t clock_lead_ns(void)
{
    return (int64_t)(clock_wall_ns() - clock_read_ns(CLOCK_BOOTTIME));
}

/* The seconds by which the wall clock was set since the delays were planned, to the nearest one. */
static int64_t clock_step_s(const struct certificate *certificate, int64_t lead_ns)
{
    int64_t step_ns = lead_ns - certificate->clock_ns, half_ns = (int64_t)NS_PER_S / 2;

    return (step_ns + (step_ns < 0 ? -half_ns : half_ns)) / (int64_t)NS_PER_S;
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

void certificate_follow_clock(struct certificate *certificate,
                              const struct certificates_owner *owner)
{
    int64_t lead_ns = clock_lead_ns(), step_s = clock_step_s(certificate, lead_ns);
    int64_t before_s = certificate->next_s;
    char next[UNITS_TEXT];

    if (step_s == 0)
        return;
    certificate->clock_ns = lead_ns;
    keep_delays(certificate, step_s);
    store_plan(certificate, owner);
    report_plan(certificate, owner, false);
    if (certificate->next_s != before_s)
        link_log(owner->link, LEVEL_INFO,
                 "%s: the clock was set %s by %" PRId64 " s; next attempt: %s", certificate->name,
                 step_s < 0 ? "back" : "forward", step_s < 0 ? -step_s : step_s,
                 units_format_utc(next, sizeof(next), certificate->next_s));
}

/* Plans by what an earlier process has stored. */
static void read_plan(struct certificate *certificate, const struct certificates_owner *owner)
{
    int64_t now_s = (int64_t)time(NULL);
    char file[FILE_NAME_BYTES];
    json_t *plan;

    certificate->clock_ns = clock_lead_ns();
    file_name(file, certificate, ".json");
    plan = state_read_json(owner->directory, file);
    if (plan == NULL || strcmp(authority_text(plan, "directory"), certificate->directory) != 0) {
        json_decref(plan); /* never requested, or of another authority: now */
        return;
    }
    certificate->failures = (uint32_t)number_of(plan, "failures");
    certificate->refused_until_s = number_of(plan, "refused_until");
    snprintf(certificate->error, sizeof(certificate->error), "%s", authority_text(plan, "error"));
    if (certificate->not_after_s > 0) {
        certificate->next_s = plan_renewal(certificate);
        read_window(certificate, plan);
    }
    if (certificate->failures > 0)
        certificate->next_s = number_of(plan, "next_attempt");
    if (number_of(plan, "written") > now_s) /* by a clock that was set back since then */
        keep_delays(certificate, now_s - number_of(plan, "written"));
    certificate->refused_until_s = schedule_planned(certificate->refused_until_s, now_s);
    if (certificate->failures > 0)
        certificate->next_s = schedule_planned(certificate->next_s, now_s);
    report_plan(certificate, owner, false);
    json_decref(plan);
}

void certificate_init(struct certificate *certificate, const struct certificates_owner *owner,
                      uint32_t number)
{
    *certificate = (struct certificate){.number = number,
                                        .name = owner->settings->name[number],
                                        .directory = owner->settings->directory};
    read_validity(certificate, owner);
    read_plan(certificate, owner);
}

/* One attempt */

struct attempt {
    const struct certificate *certificate;
    const struct certificates_owner *owner;
};

static int publish(void *context, enum challenge_kind kind, const char *token)
{
    const struct attempt *attempt = context;
    const struct certificates_owner *owner = attempt->owner;
    struct message_acme_challenge challenge = {.name = attempt->certificate->number, .kind = kind};

    snprintf(challenge.token, sizeof(challenge.token), "%s", token);
    snprintf(challenge.thumbprint, sizeof(challenge.thumbprint), "%s", owner->account->thumbprint);
    if (link_publish(owner->link, &challenge) != 0)
        return -1;
    if (token[0] != '\0')
        link_log(owner->link, LEVEL_INFO, "%s: the authority may now check the name by %s",
                 attempt->certificate->name, config_acme_challenge_name(kind));
    return 0;
}

static bool wait_for(void *context, uint32_t ms)
{
    const struct attempt *attempt = context;

    return link_wait(attempt->owner->link, ms);
}

/* Each attempt after a failed one begins with another challenge, if several may be used. */
static void choose_challenges(const struct attempt *attempt, struct order_owner *steps)
{
    const struct acme_settings *settings = attempt->owner->settings;
    size_t count = settings->challenge_count;

    steps->kind_count = count;
    for (size_t i = 0; i < count; i++)
        steps->kind[i] = settings->challenge[(attempt->certificate->failures + i) % count];
}

/* The first file that the server reads; complete or not changed. */
static int store(const struct certificate *certificate, const struct certificates_owner *owner,
                 const char *key, const char *chain)
{
    char file[FILE_NAME_BYTES], *both = NULL;
    int failed = -1;

    file_name(file, certificate, ".pem");
    errno = ENOMEM;
    if (asprintf(&both, "%s%s", key, chain) >= 0) {
        failed = state_write(owner->directory, file, both);
        OPENSSL_cleanse(both, strlen(both));
        free(both);
    }
    return failed == 0
               ? 0
               : authority_fail(owner->authority, "cannot write %s: %s", file, strerror(errno));
}

/* Checks CHAIN, which the authority has sent for KEY, and stores both. */
static int accept_chain(struct certificate *certificate, const struct certificates_owner *owner,
                        EVP_PKEY *key, const char *chain)
{
    struct authority *authority = owner->authority;
    struct credentials_validity validity;
    char *clean, *text;
    int failed = -1;

    if (credentials_check(chain, key, certificate->name, (int64_t)time(NULL), &validity,
                          authority->why, sizeof(authority->why)) != 0)
        return -1;
    clean = credentials_clean(chain);
    text = credentials_key_text(key);
    if (clean != NULL && text != NULL)
        failed = store(certificate, owner, text, clean);
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

static int obtain(struct certificate *certificate, struct certificates_owner *owner)
{
    struct attempt attempt = {certificate, owner};
    struct order_owner steps = {.publish = publish, .wait = wait_for, .context = &attempt};
    struct authority *authority = owner->authority;
    EVP_PKEY *key;
    char *request, *chain = NULL;
    int failed = -1;

    if (state_check_space(owner->directory, SPACE_BYTES) != 0)
        return authority_fail(authority, "no space for the certificate in %s: %s",
                              owner->settings->state_dir, strerror(errno));
    if (account_open(owner->account) != 0)
        return -1;
    choose_challenges(&attempt, &steps);
    key = credentials_new_key(owner->settings->key);
    request = key != NULL ? credentials_request(key, certificate->name) : NULL;
    if (request != NULL)
        chain = order_obtain(authority, &steps, certificate->name, request, certificate->id);
    else
        authority_fail(authority, "cannot make a key and a signing request: out of memory");
    if (chain != NULL)
        failed = accept_chain(certificate, owner, key, chain);
    free(chain);
    free(request);
    EVP_PKEY_free(key);
    return failed;
}

static void report_success(const struct certificate *certificate, struct link *link)
{
    char until[UNITS_TEXT], next[UNITS_TEXT];

    link_report_certificate(link);
    link_log(link, LEVEL_INFO, "%s: certificate obtained, valid until %s; renewal from %s",
             certificate->name, units_format_utc(until, sizeof(until), certificate->not_after_s),
             units_format_utc(next, sizeof(next), certificate->next_s));
}

static void report_failure(const struct certificate *certificate,
                           const struct certificates_owner *owner, int64_t now_s)
{
    int64_t left_s = certificate->not_after_s - now_s;
    char next[UNITS_TEXT], left[64] = "";

    if (left_s > 0)
        snprintf(left, sizeof(left), "; the one in use is valid for %ld more days",
                 (long)(left_s / 86400));
    link_log(owner->link, LEVEL_WARN, "%s: no certificate: %s; next attempt: %s%s",
             certificate->name, owner->authority->why,
             units_format_utc(next, sizeof(next), certificate->next_s), left);
}

/* Renewal information */

int64_t certificate_check_time(const struct certificate *certificate, int64_t now_s)
{
    return certificate->id[0] != '\0' && certificate->failures == 0 && certificate->next_s > 0
               ? schedule_planned(certificate->check_s, now_s)
               : INT64_MAX;
}

/* Plans by the window, which is new. */
static void follow_window(struct certificate *certificate, const struct certificates_owner *owner)
{
    const struct renewal_window *window = &certificate->window;
    int64_t now_s = (int64_t)time(NULL);
    char start[UNITS_TEXT], end[UNITS_TEXT], next[UNITS_TEXT];

    certificate->next_s = schedule_window(window->start_s, window->end_s, random_number());
    if (certificate->next_s > now_s)
        certificate->hurried = 0;
    else if (certificate->hurried++ > 0) /* an authority that never has enough gets no more */
        certificate->next_s = now_s + schedule_retry(certificate->hurried - 1,
                                                     owner->settings->retry_ms / 1000, 0, 0);
    report_plan(certificate, owner, false);
    link_log(owner->link, LEVEL_INFO,
             "%s: the authority suggests renewal between %s and %s; planned for %s",
             certificate->name, units_format_utc(start, sizeof(start), window->start_s),
             units_format_utc(end, sizeof(end), window->end_s),
             units_format_utc(next, sizeof(next), certificate->next_s));
}

static void plan_check(struct certificate *certificate, const struct certificates_owner *owner,
                       uint32_t wanted_s)
{
    int64_t least_s = owner->settings->retry_ms / 1000, wait_s = wanted_s;

    if (wait_s == 0)
        wait_s = RENEWAL_CHECK_S;
    if (wait_s > RENEWAL_CHECK_MAX_S)
        wait_s = RENEWAL_CHECK_MAX_S;
    certificate->check_s = (int64_t)time(NULL) + (wait_s > least_s ? wait_s : least_s);
}

void certificate_check(struct certificate *certificate, struct certificates_owner *owner)
{
    struct authority *authority = owner->authority;
    struct renewal_window window = {0};
    int failed = authority_open(authority);

    if (failed == 0 && authority->renewal_info[0] == '\0') {
        plan_check(certificate, owner, 0); /* it may have some later */
        return;
    }
    if (failed == 0)
        failed = renewal_info_fetch(authority, certificate->id, &window);
    if (failed == 0 && window.end_s > certificate->not_after_s)
        failed = authority_fail(authority, "the suggested window ends after the certificate");
    if (!link_pulse(owner->link)) /* the server stops */
        return;
    plan_check(certificate, owner, window.check_after_s);
    certificate->clock_ns = clock_lead_ns();
    if (failed != 0) {
        link_log(owner->link, LEVEL_INFO, "%s: no renewal information: %s", certificate->name,
                 authority->why);
    } else if (window.start_s != certificate->window.start_s ||
               window.end_s != certificate->window.end_s) {
        certificate->window = window;
        follow_window(certificate, owner);
    }
    store_plan(certificate, owner);
}

/* One attempt, and its result */

bool certificate_is_due(const struct certificate *certificate,
                        const struct certificates_owner *owner, int64_t now_s)
{
    return certificate->next_s <= now_s ||
           link_renewal(owner->link, certificate->number) != certificate->renewal;
}

static void succeed(struct certificate *certificate, const struct certificates_owner *owner)
{
    int64_t soonest_s = (int64_t)time(NULL) + owner->settings->retry_ms / 1000;

    certificate->failures = 0;
    certificate->error[0] = '\0';
    certificate->refused_until_s = 0;
    certificate->next_s = plan_renewal(certificate);
    if (certificate->next_s < soonest_s) /* the authority's clock, or its certificates, are odd */
        certificate->next_s = soonest_s;
    store_plan(certificate, owner);
    report_success(certificate, owner->link);
    report_plan(certificate, owner, true);
}

static void fail(struct certificate *certificate, const struct certificates_owner *owner)
{
    struct authority *authority = owner->authority;
    int64_t now_s = (int64_t)time(NULL);

    if (authority->account_unknown)
        authority->account[0] = '\0';
    certificate->failures++;
    memcpy(certificate->error, authority->why, sizeof(certificate->error));
    certificate->refused_until_s =
        authority->retry_after_s > 0 ? now_s + authority->retry_after_s : 0;
    certificate->next_s =
        now_s + schedule_retry(certificate->failures, owner->settings->retry_ms / 1000,
                               authority->retry_after_s, random_number());
    store_plan(certificate, owner);
    report_failure(certificate, owner, now_s);
    report_plan(certificate, owner, true);
}

void certificate_request(struct certificate *certificate, struct certificates_owner *owner)
{
    bool obtained;

    link_log(owner->link, LEVEL_INFO, "%s: requesting a certificate", certificate->name);
    obtained = obtain(certificate, owner) == 0;
    if (!obtained && !link_pulse(owner->link)) /* the server stops: this was no failure */
        return;
    /* Renewals that were requested meanwhile have ended, too. */
    certificate->renewal = link_renewal(owner->link, certificate->number);
    certificate->clock_ns = clock_lead_ns();
    if (obtained)
        succeed(certificate, owner);
    else
        fail(certificate, owner);
}
