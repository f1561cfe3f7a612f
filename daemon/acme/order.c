#include "common/clock.h"
#include "daemon/acme/internal.h"
#include "daemon/base/messages.h"
#include "daemon/config/acme.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    POLL_FIRST_MS = 250,
    POLL_MAX_MS = 10 * 1000,
    AUTHORIZATIONS_MAX = 7, /* besides one for each name */
    POLL_SECONDS = 300,     /* a longer authorization or order has failed */
};

struct order {
    struct acme *acme;
    struct authority *authority;     /* acme->authority */
    struct certificate *certificate; /* has the URL */
    json_t *json;                    /* as last received */
};

static const char *order_status(const json_t *json)
{
    return authority_text(json, "status");
}

static int fail_stopped(struct authority *authority)
{
    return authority_fail(authority, "the server stops");
}

/* Fails with the problem in JSON. */
static int fail_refused(const struct order *order, const char *what, const json_t *json)
{
    char problem[AUTHORITY_WHY - 200];

    authority_problem(json_object_get(json, "error"), problem, sizeof(problem));
    return authority_fail(order->authority, "%s is %.20s: %s", what, order_status(json), problem);
}

/*
 * Reads URL into *JSON, whose old value it frees; *RETRY_S is the delay that the authority
 * requests.
 */
static int refresh_json(struct authority *authority, const char *url, json_t **json,
                        uint32_t *retry_s)
{
    struct authority_answer answer;

    if (authority_post(authority, url, NULL, &answer) != 0)
        return -1;
    json_decref(*json);
    *json = json_incref(answer.json);
    *retry_s = answer.retry_after_s;
    authority_answer_free(&answer);
    return *json != NULL ? 0 : authority_fail(authority, "%.100s: not a JSON object", url);
}

/* Reads URL into *JSON until its status is neither PENDING nor "processing". */
static int await_status(const struct order *order, const char *url, const char *pending,
                        json_t **json)
{
    uint64_t give_up = clock_monotonic_ns() + POLL_SECONDS * NS_PER_S;
    uint32_t wait_ms = POLL_FIRST_MS, retry_s = 0;

    while (strcmp(order_status(*json), pending) == 0 ||
           strcmp(order_status(*json), "processing") == 0) {
        if (clock_monotonic_ns() > give_up)
            return authority_fail(order->authority, "%.100s is still %s after %d s", url,
                                  order_status(*json), POLL_SECONDS);
        if (retry_s > 0)
            wait_ms = retry_s * 1000 < POLL_MAX_MS ? retry_s * 1000 : POLL_MAX_MS;
        if (!link_wait(order->acme->link, wait_ms))
            return fail_stopped(order->authority);
        wait_ms = 2 * wait_ms < POLL_MAX_MS ? 2 * wait_ms : POLL_MAX_MS;
        if (refresh_json(order->authority, url, json, &retry_s) != 0)
            return -1;
    }
    return 0;
}

/* Challenges */

/* A name of the certificate while it is authorized. */
struct authorized_name {
    uint32_t part;      /* its number in the certificate */
    uint32_t remaining; /* names that follow */
    char text[ACME_NAME_MAX + 1];
    enum challenge_kind kinds[CHALLENGE_KINDS]; /* by which it may be checked */
    size_t kind_count;
};

/* A wildcard is checked by a DNS record, an address by http-01. */
static void find_kinds(const struct acme_settings *settings, struct authorized_name *name)
{
    bool only_dns = settings->challenge_count == 1, wildcard = name->text[0] == '*';

    name->kind_count = 0;
    for (size_t i = 0; i < settings->challenge_count; i++) {
        enum challenge_kind kind = settings->challenge[i];

        if (wildcard                             ? kind == CHALLENGE_DNS_01
            : config_acme_is_address(name->text) ? kind == CHALLENGE_HTTP_01
                                                 : kind != CHALLENGE_DNS_01 || only_dns)
            name->kinds[name->kind_count++] = kind;
    }
}

/*
 * The first challenge of [acme] challenge that the authority offers, or NULL. Each attempt after a
 * failed one begins with another kind, if several may be used.
 */
static const json_t *find_challenge(const struct order *order, const struct authorized_name *name,
                                    const json_t *authorization, enum challenge_kind *kind)
{
    const json_t *list = json_object_get(authorization, "challenges");

    for (size_t i = 0; i < name->kind_count; i++) {
        *kind = name->kinds[(order->certificate->failures + i) % name->kind_count];
        for (size_t k = 0; k < json_array_size(list); k++)
            if (strcmp(authority_text(json_array_get(list, k), "type"),
                       config_acme_challenge_name(*kind)) == 0)
                return json_array_get(list, k);
    }
    return NULL;
}

static int fail_without_challenge(const struct order *order, const struct authorized_name *name)
{
    size_t count = name->kind_count, first;

    if (count == 0)
        return authority_fail(order->authority, "%s cannot be checked by the challenge of [acme]",
                              name->text);
    first = order->certificate->failures % count;
    return authority_fail(
        order->authority, "the authority offers no %s%s%s challenge",
        config_acme_challenge_name(name->kinds[first]), count > 1 ? " and no " : "",
        count > 1 ? config_acme_challenge_name(name->kinds[(first + 1) % count]) : "");
}

/*
 * Has the workers answer TOKEN; "": no challenge any more. Returns when they do: 0, or -1 if the
 * process must end.
 */
static int publish_challenge(const struct order *order, const struct authorized_name *name,
                             enum challenge_kind kind, const char *token)
{
    struct message_acme_challenge challenge = {
        .name = order->certificate->number, .part = name->part, .kind = kind};

    snprintf(challenge.token, sizeof(challenge.token), "%s", token);
    snprintf(challenge.thumbprint, sizeof(challenge.thumbprint), "%s", order->acme->thumbprint);
    if (link_publish(order->acme->link, &challenge) != 0)
        return -1;
    if (token[0] != '\0')
        link_log(order->acme->link, LEVEL_INFO, "%s: the authority may now check the name by %s",
                 name->text, config_acme_challenge_name(kind));
    return 0;
}

/* Makes or removes the DNS record for TOKEN. Returns 0, or -1 with authority->why. */
static int change_record(const struct order *order, const struct authorized_name *name,
                         const char *token, bool remove)
{
    struct authority *authority = order->authority;
    struct message_acme_record record = {.name = order->certificate->number,
                                         .part = name->part,
                                         .remove = remove,
                                         .remaining = name->remaining};
    char why[AUTHORITY_WHY];

    if (jws_record_value(token, order->acme->thumbprint, record.value) != 0)
        return authority_fail(authority, "out of memory");
    if (link_run_record(order->acme->link, &record, why, sizeof(why)) != 0)
        return authority_fail(authority, "%s", why);
    return 0;
}

/* Has KIND of challenge with TOKEN answered. Returns 0, or -1 with authority->why. */
static int prepare_challenge(const struct order *order, const struct authorized_name *name,
                             enum challenge_kind kind, const char *token)
{
    if (kind == CHALLENGE_DNS_01)
        return change_record(order, name, token, false);
    return publish_challenge(order, name, kind, token) == 0 ? 0 : fail_stopped(order->authority);
}

/* Nothing answers it any more. Keeps authority->why. */
static void withdraw_challenge(const struct order *order, const struct authorized_name *name,
                               enum challenge_kind kind, const char *token)
{
    char why[AUTHORITY_WHY];

    if (kind != CHALLENGE_DNS_01) {
        publish_challenge(order, name, kind, "");
        return;
    }
    memcpy(why, order->authority->why, sizeof(why));
    if (change_record(order, name, token, true) != 0 && link_pulse(order->acme->link))
        link_log(order->acme->link, LEVEL_WARN, "%s: the DNS record may be left: %s", name->text,
                 order->authority->why);
    memcpy(order->authority->why, why, sizeof(why));
}

static bool is_token(const char *token)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

    return token[0] != '\0' && strlen(token) < ACME_TOKEN_BYTES &&
           strspn(token, allowed) == strlen(token);
}

/*
 * Publishes CHALLENGE of KIND, has the authority look for it, and waits for the result in
 * *AUTHORIZATION.
 */
static int respond_to_challenge(const struct order *order, const struct authorized_name *name,
                                const char *url, enum challenge_kind kind, const json_t *challenge,
                                json_t **authorization)
{
    struct authority *authority = order->authority;
    char where[AUTHORITY_URL_MAX];
    struct authority_answer answer;
    uint32_t retry_s;

    snprintf(where, sizeof(where), "%s", authority_text(challenge, "url"));
    if (!is_token(authority_text(challenge, "token")))
        return authority_fail(authority, "the token of the challenge is not valid");
    if (prepare_challenge(order, name, kind, authority_text(challenge, "token")) != 0)
        return -1;
    if (authority_post(authority, where, json_object(), &answer) != 0)
        return -1;
    authority_answer_free(&answer);
    if (refresh_json(authority, url, authorization, &retry_s) != 0)
        return -1;
    return await_status(order, url, "pending", authorization);
}

/* Checks the name of AUTHORIZATION, which is pending. */
static int check_name(const struct order *order, const struct authorized_name *name,
                      const char *url, json_t **authorization)
{
    enum challenge_kind kind = CHALLENGE_HTTP_01;
    const json_t *challenge = find_challenge(order, name, *authorization, &kind);
    char token[ACME_TOKEN_BYTES];
    int failed;

    if (challenge == NULL)
        return fail_without_challenge(order, name);
    snprintf(token, sizeof(token), "%s", authority_text(challenge, "token"));
    failed = respond_to_challenge(order, name, url, kind, challenge, authorization);
    withdraw_challenge(order, name, kind, token);
    return failed;
}

/* The name of the certificate that AUTHORIZATION, the one with NUMBER, is for. */
static int find_authorized_name(const struct order *order, const json_t *authorization,
                                size_t number, struct authorized_name *found)
{
    const char *value = authority_text(json_object_get(authorization, "identifier"), "value");
    bool wildcard = json_is_true(json_object_get(authorization, "wildcard"));
    const char *names = order->certificate->names;
    struct span name;

    for (uint32_t part = 0; (name = config_acme_next_name(&names)).length > 0; part++) {
        struct span rest = name;

        if (wildcard && name.length > 2 && name.start[0] == '*')
            rest = (struct span){name.start + 2, name.length - 2};
        if (value[0] == '\0'
                ? part != number
                : (wildcard != (name.start[0] == '*') || !span_is_nocase(rest, span_of(value))))
            continue;
        found->part = part;
        snprintf(found->text, sizeof(found->text), "%.*s", (int)name.length, name.start);
        find_kinds(&order->acme->settings, found);
        return 0;
    }
    return authority_fail(order->authority,
                          "the order has an authorization for another name, '%.60s'", value);
}

static int authorize_name(const struct order *order, const char *url, size_t number, size_t count)
{
    json_t *authorization = NULL;
    const json_t *list, *refused;
    struct authorized_name name = {.remaining = (uint32_t)(count - number - 1)};
    uint32_t retry_s;
    int failed = refresh_json(order->authority, url, &authorization, &retry_s);

    if (failed == 0 && strcmp(order_status(authorization), "pending") == 0)
        failed = find_authorized_name(order, authorization, number, &name) == 0
                     ? check_name(order, &name, url, &authorization)
                     : -1;
    if (failed == 0 && strcmp(order_status(authorization), "valid") != 0) {
        list = json_object_get(authorization, "challenges");
        refused = authorization; /* the error may be in a challenge */
        for (size_t i = json_array_size(list); i > 0; i--)
            if (json_object_get(json_array_get(list, i - 1), "error") != NULL)
                refused = json_array_get(list, i - 1);
        failed = fail_refused(order, "the authorization", refused);
    }
    json_decref(authorization);
    return failed;
}

/* The order */

/* REPLACES is NULL if it replaces none. */
static int request_order(const struct order *order, const char *replaces,
                         struct authority_answer *answer)
{
    struct authority *authority = order->authority;
    const char *names = order->certificate->names;
    json_t *list = json_array(), *payload;
    struct span name;

    while ((name = config_acme_next_name(&names)).length > 0) {
        char text[ACME_NAME_MAX + 1];

        snprintf(text, sizeof(text), "%.*s", (int)name.length, name.start);
        json_array_append_new(list, json_pack("{s:s, s:s}", "type",
                                              config_acme_is_address(text) ? "ip" : "dns", "value",
                                              text));
    }
    payload = json_pack("{s:o, s:s*, s:s*}", "identifiers", list, "replaces", replaces, "profile",
                        authority->profile[0] != '\0' ? authority->profile : NULL);
    if (payload == NULL)
        return authority_fail(authority, "out of memory");
    return authority_post(authority, authority->new_order, payload, answer);
}

static int begin_order(struct order *order)
{
    const char *replaces = order->certificate->id;
    struct authority *authority = order->authority;
    struct authority_answer answer = {0};
    bool replacing = replaces[0] != '\0' && authority->renewal_info[0] != '\0';
    int failed = request_order(order, replacing ? replaces : NULL, &answer);

    /*
     * An authority may not accept what it replaces: it is replaced already, or of another account.
     */
    if (failed != 0 && replacing && authority->status >= 400 && authority->status < 500 &&
        authority->status != 429)
        failed = request_order(order, NULL, &answer);
    if (failed != 0)
        return -1;
    memcpy(order->certificate->order, answer.location, sizeof(order->certificate->order));
    order->json = json_incref(answer.json);
    authority_answer_free(&answer);
    return order->json != NULL && order->certificate->order[0] != '\0'
               ? 0
               : authority_fail(authority, "%.100s answers without an order", authority->new_order);
}

/* Reads the order that an earlier attempt has begun; another one if the authority has it no more. */
static int continue_order(struct order *order)
{
    uint32_t retry_s;

    if (order->certificate->order[0] == '\0')
        return begin_order(order);
    if (refresh_json(order->authority, order->certificate->order, &order->json, &retry_s) == 0 &&
        strcmp(order_status(order->json), "invalid") != 0)
        return 0;
    if (order->authority->unanswered)
        return -1;
    json_decref(order->json);
    order->json = NULL;
    return begin_order(order);
}

static int authorize_all(const struct order *order)
{
    json_t *list = json_object_get(order->json, "authorizations");
    size_t count = json_array_size(list), most = AUTHORIZATIONS_MAX;
    const char *names = order->certificate->names;
    int failed = 0;

    while (config_acme_next_name(&names).length > 0)
        most++;
    if (count == 0 || count > most)
        return authority_fail(order->authority, "the order has %zu authorizations", count);
    for (size_t i = 0; i < count && failed == 0; i++) {
        const char *url = json_string_value(json_array_get(list, i));

        failed = url != NULL
                     ? authorize_name(order, url, i, count)
                     : authority_fail(order->authority, "the order has no valid authorizations");
    }
    return failed;
}

/* Sends the signing request, and waits for the certificate. */
static int finalize_order(struct order *order, const char *request)
{
    struct authority *authority = order->authority;
    struct authority_answer answer;
    uint32_t retry_s;

    if (refresh_json(authority, order->certificate->order, &order->json, &retry_s) != 0 ||
        await_status(order, order->certificate->order, "pending", &order->json) != 0)
        return -1;
    if (strcmp(order_status(order->json), "ready") == 0) {
        if (authority_post(authority, authority_text(order->json, "finalize"),
                           json_pack("{s:s}", "csr", request), &answer) != 0)
            return -1;
        authority_answer_free(&answer);
        if (refresh_json(authority, order->certificate->order, &order->json, &retry_s) != 0 ||
            await_status(order, order->certificate->order, "ready", &order->json) != 0)
            return -1;
    }
    return strcmp(order_status(order->json), "valid") == 0
               ? 0
               : fail_refused(order, "the order", order->json);
}

char *order_obtain(struct acme *acme, struct certificate *certificate, const char *request)
{
    struct order order = {.acme = acme, .authority = &acme->authority, .certificate = certificate};
    struct authority_answer answer;
    char *text = NULL;

    if (continue_order(&order) == 0 && authorize_all(&order) == 0 &&
        finalize_order(&order, request) == 0 &&
        authority_post(order.authority, authority_text(order.json, "certificate"), NULL, &answer) ==
            0) {
        text = answer.text;
        answer.text = NULL;
        authority_answer_free(&answer);
    }
    if (text != NULL || !order.authority->unanswered)
        certificate->order[0] = '\0';
    json_decref(order.json);
    return text;
}
