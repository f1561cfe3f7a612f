/*
 * Who may have a response: users and passwords of [access], pages of other origins by [cors]. The
 * owning thread.
 */
#include "daemon/transaction/internal.h"

#include "common/client_address.h"
#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/config/rules.h"
#include "daemon/http/logins.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Basic authentication (RFC 7617) by the users files of [access]. A thread of the worker verifies
 * passwords; it remembers verified ones and the failures of each client address; see logins.h. A
 * client with more than limits.failed_logins a minute must wait.
 */

struct login_job {
    struct password_check check;
    struct transaction_context *context;
    struct client *client;
    struct transaction_state *state;
    const struct config_access *rule;
};

/* Back on the owning thread. */
static void finish_login(struct mailbox_item *item, void *receiver)
{
    struct login_job *login = CONTAINER_OF(item, struct login_job, check.item);
    struct transaction_context *context = login->context;
    struct transaction_state *state = login->state;

    (void)receiver;
    context->jobs_out--;
    login->client->jobs_out--;
    state->login = (uint8_t)login->check.verdict;
    state->login_rule = login->rule;
    if (login->check.verdict == PASSWORD_GOOD)
        metric_add(context->metrics, METRIC_logins, 1);
    else if (login->check.verdict == PASSWORD_WRONG)
        metric_add(context->metrics, METRIC_logins_failed, 1);
    explicit_bzero(login, sizeof(*login));
    free(login);
    state->resume(state);
}

static struct login_job *new_login_job(const struct transaction *transaction,
                                       const struct config_access *rule,
                                       const struct credentials *credentials,
                                       const struct siphash *hash)
{
    const struct logins *logins = transaction->context->worker->logins;
    const struct config_users *users = &rule->users;
    const struct config_user *user = config_users_find(users, credentials->name);
    struct login_job *login = calloc(1, sizeof(*login));

    if (login == NULL)
        return NULL;
    login->context = transaction->context;
    login->client = transaction->client;
    login->state = transaction->state;
    login->rule = rule;
    login->check = (struct password_check){.owner = transaction->context->mailbox,
                                           .finish = finish_login,
                                           .client_key = client_key(transaction->address),
                                           .hash = *hash,
                                           .exists = user != NULL};
    if (user == NULL)
        user = &users->item[logins_stand_in(logins, credentials->name, users->count)];
    login->check.expected = user->hash;
    memcpy(login->check.password, credentials->password.start, credentials->password.length);
    return login;
}

static int submit_login(struct transaction *transaction, const struct config_access *rule,
                        const struct credentials *credentials, const struct siphash *hash)
{
    struct transaction_context *context = transaction->context;
    struct login_job *login =
        transaction->may_wait ? new_login_job(transaction, rule, credentials, hash) : NULL;

    if (login == NULL || !logins_submit(context->worker->logins, &login->check,
                                        context->worker->config->workers_offload_queue)) {
        if (login != NULL)
            explicit_bzero(login, sizeof(*login));
        free(login);
        metric_add(context->metrics, METRIC_offload_rejected, 1);
        transaction->may_wait = false; /* when processed again it would be counted again */
        return 503;
    }
    transaction->client->jobs_out++;
    context->jobs_out++;
    return LOOKUP_MUST_WAIT;
}

/* 0: the credentials are those of a user of RULE; LOOKUP_MUST_WAIT, or a status. */
static int verify_credentials(struct transaction *transaction, const struct config_access *rule,
                              const struct credentials *credentials)
{
    struct transaction_state *state = transaction->state;
    struct logins *logins = transaction->context->worker->logins;
    struct siphash hash = logins_hash(logins, rule->users.file, credentials);
    enum password_verdict known =
        state->login_rule == rule ? (enum password_verdict)state->login : PASSWORD_UNKNOWN;
    const struct config_user *user;
    uint64_t wait_ns;

    if (known == PASSWORD_UNKNOWN && logins_is_verified(logins, &hash))
        known = PASSWORD_GOOD;
    if (known == PASSWORD_GOOD) {
        user = config_users_find(&rule->users, credentials->name);
        transaction->user = span_of(user->name);
        return 0;
    }
    if (known == PASSWORD_WRONG)
        return 401;
    wait_ns =
        logins_wait_ns(logins, client_key(transaction->address), transaction->context->loop_now_ns);
    if (known == PASSWORD_UNKNOWN && wait_ns == 0)
        return submit_login(transaction, rule, credentials, &hash);
    metric_add(transaction->context->metrics, METRIC_logins_limited, 1);
    transaction->retry_after_s = wait_ns > 0 ? (uint32_t)clock_ceil_s(wait_ns) : 1;
    transaction->may_wait = false; /* when processed again it would be counted again */
    return 429;
}

int access_authenticate(struct transaction *transaction, const struct config_access *rule)
{
    struct credentials credentials UNINITIALIZED;
    struct span value;
    int status = 401;

    if (rule->users.file == NULL)
        status = 0;
    else if (request_find_field(transaction->request, SPAN("authorization"), &value) == 1 &&
             credentials_read(value, &credentials)) {
        status = verify_credentials(transaction, rule, &credentials);
        explicit_bzero(&credentials, sizeof(credentials));
    }
    if (status == 0)
        transaction->granted = rule;
    if (status == 401)
        transaction->realm = rule->realm != NULL ? rule->realm : "Restricted";
    return status;
}

/*
 * The rule for PATH, that of a file which is served instead of the one at the request's path, or
 * NULL: the request has been granted what it needs.
 */
static const struct config_access *find_other_rule(struct transaction *transaction,
                                                   const char *path)
{
    const struct site *site = transaction->site;
    const struct config_access *rule = access_find(site->config, site->number, path);

    if (rule != NULL)
        transaction->personal = true;
    return rule != transaction->granted ? rule : NULL;
}

int access_check_file(struct transaction *transaction, const char *path)
{
    const struct config_access *rule = find_other_rule(transaction, path);
    int status = 0;

    if (rule != NULL)
        status = access_allows(rule, transaction->address) ? access_authenticate(transaction, rule)
                                                           : 403;
    return status > 0 ? LOOKUP_REFUSED(status) : status;
}

bool access_permits_now(struct transaction *transaction, const char *path)
{
    const struct config_access *rule = find_other_rule(transaction, path);

    return rule == NULL || (rule->users.file == NULL && access_allows(rule, transaction->address));
}

/*
 * The fields by which [cors] permits pages of other origins to read a response, and the answer to a
 * preflight: an OPTIONS request with Origin and Access-Control-Request-Method (Fetch standard, CORS
 * protocol).
 */

bool cors_is_preflight(const struct request *request)
{
    struct span value;

    return request->method == METHOD_OPTIONS &&
           request_find_field(request, SPAN("origin"), &value) > 0 &&
           request_find_field(request, SPAN("access-control-request-method"), &value) > 0;
}

static bool is_every_origin(const struct config_cors *rule)
{
    return strcmp(rule->origins, "*") == 0;
}

/* True if LIST, of words joined by ", ", has WORD. */
static bool list_has(const char *list, struct span word)
{
    while (*list != '\0') {
        size_t length = strcspn(list, ",");

        if (span_is(word, (struct span){list, length}))
            return true;
        list += length;
        list += strspn(list, ", ");
    }
    return false;
}

/* The origin of the request, if it has one that RULE lists. */
static bool find_origin(const struct transaction *transaction, struct span *origin)
{
    return request_find_field(transaction->request, SPAN("origin"), origin) == 1 &&
           list_has(transaction->cors->origins, *origin);
}

bool cors_allows(const struct transaction *transaction)
{
    struct span origin;

    return is_every_origin(transaction->cors) || find_origin(transaction, &origin);
}

/* Appends NAME and its VALUE, if there is one. */
static char *put_cors_field(char *to, const char *name, const char *value)
{
    return value != NULL ? to + sprintf(to, "%s: %s\r\n", name, value) : to;
}

static_assert(2 * CORS_LIST_MAX + 255 /* origin */ + 400 /* names and other values */ <=
                  CORS_FIELDS_MAX,
              "all fields fit");

size_t cors_write(const struct transaction *transaction, char *lines)
{
    const struct config_cors *rule = transaction->cors;
    struct span origin = SPAN("*");
    char *to = lines;

    if (!is_every_origin(rule)) {
        to = put_cors_field(to, "Vary", "Origin");
        if (!find_origin(transaction, &origin))
            return (size_t)(to - lines);
    }
    to += sprintf(to, "Access-Control-Allow-Origin: %.*s\r\n", (int)origin.length, origin.start);
    if (rule->credentials)
        to = put_cors_field(to, "Access-Control-Allow-Credentials", "true");
    if (!transaction->preflight)
        return (size_t)(put_cors_field(to, "Access-Control-Expose-Headers", rule->expose) - lines);
    to = put_cors_field(to, "Access-Control-Allow-Methods",
                        rule->methods != NULL ? rule->methods : "GET, HEAD");
    to = put_cors_field(to, "Access-Control-Allow-Headers", rule->fields);
    if (rule->has_max_age)
        to += sprintf(to, "Access-Control-Max-Age: %u\r\n", rule->max_age_s);
    return (size_t)(to - lines);
}
