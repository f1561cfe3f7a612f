#include "daemon/acme/authority.h"

#include "daemon/acme/jws.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NONCE_ATTEMPTS = 10, STATUS_OK_LIMIT = 300 };

static const char urn[] = "urn:ietf:params:acme:error:";

int authority_fail(struct authority *authority, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(authority->why, sizeof(authority->why), format, arguments);
    va_end(arguments);
    return -1;
}

/* JSON from outside */

const char *authority_text(const json_t *json, const char *name)
{
    const char *text = json_string_value(json_object_get(json, name));

    return text != NULL ? text : "";
}

/* The type without the prefix of ACME. */
static const char *problem_type(const json_t *json)
{
    const char *type = authority_text(json, "type");

    return strncmp(type, urn, strlen(urn)) == 0 ? type + strlen(urn) : type;
}

void authority_problem(const json_t *json, char *text, size_t size)
{
    const char *detail = authority_text(json, "detail"), *type = problem_type(json);
    const json_t *parts = json_object_get(json, "subproblems");
    size_t used;

    snprintf(text, size, "%s%s%s%s", detail[0] != '\0' ? detail : "no detail is given",
             type[0] != '\0' ? " (" : "", type, type[0] != '\0' ? ")" : "");
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *part = json_array_get(parts, i);

        used = strlen(text);
        snprintf(text + used, size - used, "; %s", authority_text(part, "detail"));
    }
}

/* Returns 0 with URL, or -1. */
static int take_url(struct authority *authority, const json_t *json, const char *name, char *url)
{
    const char *text = authority_text(json, name);

    if (text[0] == '\0' || strlen(text) >= AUTHORITY_URL_MAX)
        return authority_fail(authority, "%s: the directory has no valid %s", authority->directory,
                              name);
    strcpy(url, text);
    return 0;
}

static void take_optional_url(const json_t *json, const char *name, char *url)
{
    const char *text = authority_text(json, name);

    strcpy(url, strlen(text) < AUTHORITY_URL_MAX ? text : "");
}

/* Requests */

static int fail_status(struct authority *authority, const char *url,
                       const struct http_response *response, const json_t *json)
{
    char problem[AUTHORITY_WHY / 2];

    authority->retry_after_s = response->retry_after_s;
    authority->status = response->status;
    authority->account_unknown = strcmp(problem_type(json), "accountDoesNotExist") == 0;
    authority_problem(json, problem, sizeof(problem));
    return authority_fail(authority, "%.100s answers %ld: %s", url, response->status, problem);
}

/* Sends a request without signature, and takes the nonce of its response. */
static int fetch(struct authority *authority, const char *method, const char *url,
                 struct http_response *response)
{
    if (http_client_send(authority->http, method, url, NULL, response, authority->why,
                         sizeof(authority->why)) != 0)
        return -1;
    snprintf(authority->nonce, sizeof(authority->nonce), "%s", response->nonce);
    if (response->status < STATUS_OK_LIMIT)
        return 0;
    fail_status(authority, url, response, NULL);
    http_response_free(response);
    return -1;
}

/* Moves RESPONSE, which is successful, to ANSWER. */
static void take_answer(struct http_response *response, struct authority_answer *answer)
{
    json_t *json = json_loads(response->body, 0, NULL);

    *answer = (struct authority_answer){.json = json_is_object(json) ? json_incref(json) : NULL,
                                        .text = response->body,
                                        .retry_after_s = response->retry_after_s};
    memcpy(answer->location, response->location, sizeof(answer->location));
    response->body = NULL;
    json_decref(json);
}

int authority_get(struct authority *authority, const char *url, struct authority_answer *answer)
{
    struct http_response response;

    authority->retry_after_s = 0;
    authority->status = 0;
    if (fetch(authority, "GET", url, &response) != 0)
        return -1;
    take_answer(&response, answer);
    return 0;
}

int authority_open(struct authority *authority)
{
    struct authority_answer answer;
    int failed = 0;

    authority->account_unknown = false;
    if (authority_get(authority, authority->directory, &answer) != 0)
        return -1;
    if (answer.json == NULL)
        failed = authority_fail(authority, "%s: the directory is not a JSON object",
                                authority->directory);
    else if (take_url(authority, answer.json, "newNonce", authority->new_nonce) != 0 ||
             take_url(authority, answer.json, "newAccount", authority->new_account) != 0 ||
             take_url(authority, answer.json, "newOrder", authority->new_order) != 0)
        failed = -1;
    take_optional_url(answer.json, "renewalInfo", authority->renewal_info);
    take_optional_url(answer.json, "keyChange", authority->key_change);
    authority_answer_free(&answer);
    return failed;
}

static int get_nonce(struct authority *authority)
{
    struct http_response response;

    if (authority->nonce[0] != '\0')
        return 0;
    if (fetch(authority, "HEAD", authority->new_nonce, &response) != 0)
        return -1;
    http_response_free(&response);
    return authority->nonce[0] != '\0'
               ? 0
               : authority_fail(authority, "%.100s answers without a nonce", authority->new_nonce);
}

/* One signed request. */
static int send_signed(struct authority *authority, const char *url, json_t *payload,
                       struct http_response *response)
{
    bool known = authority->account[0] != '\0' && strcmp(url, authority->new_account) != 0;
    const struct jws_header header = {url, authority->nonce, known ? authority->account : NULL};
    char *body;
    int failed;

    if (get_nonce(authority) != 0)
        return -1;
    body = jws_sign(authority->key, &header, payload);
    if (body == NULL) {
        authority_fail(authority, "cannot sign a request: out of memory");
        return -1;
    }
    authority->nonce[0] = '\0';
    failed = http_client_send(authority->http, "POST", url, body, response, authority->why,
                              sizeof(authority->why));
    free(body);
    if (failed == 0)
        snprintf(authority->nonce, sizeof(authority->nonce), "%s", response->nonce);
    return failed;
}

/* Sends the request until the authority accepts its nonce (RFC 8555 section 6.5). */
static int post(struct authority *authority, const char *url, json_t *payload,
                struct authority_answer *answer)
{
    struct http_response response;
    bool bad_nonce = true;

    authority->retry_after_s = 0;
    authority->status = 0;
    for (int attempt = 0; attempt < NONCE_ATTEMPTS && bad_nonce; attempt++) {
        json_t *json;

        if (send_signed(authority, url, payload, &response) != 0)
            return -1;
        if (response.status < STATUS_OK_LIMIT) {
            take_answer(&response, answer);
            return 0;
        }
        json = json_loads(response.body, 0, NULL);
        bad_nonce = response.status == 400 && strcmp(problem_type(json), "badNonce") == 0;
        fail_status(authority, url, &response, json);
        json_decref(json);
        http_response_free(&response);
    }
    return -1;
}

int authority_post(struct authority *authority, const char *url, json_t *payload,
                   struct authority_answer *answer)
{
    int failed = post(authority, url, payload, answer);

    json_decref(payload);
    return failed;
}

void authority_answer_free(struct authority_answer *answer)
{
    json_decref(answer->json);
    free(answer->text);
}

/* The account */

int authority_register(struct authority *authority, const char *email)
{
    json_t *payload = json_pack("{s:b}", "termsOfServiceAgreed", 1);
    struct authority_answer answer;
    char *contact = NULL;

    if (payload != NULL && email[0] != '\0' && asprintf(&contact, "mailto:%s", email) >= 0) {
        json_object_set_new(payload, "contact", json_pack("[s]", contact));
        free(contact);
    }
    if (payload == NULL)
        return authority_fail(authority, "out of memory");
    if (authority_post(authority, authority->new_account, payload, &answer) != 0)
        return -1;
    snprintf(authority->account, sizeof(authority->account), "%s", answer.location);
    authority_answer_free(&answer);
    return authority->account[0] != '\0'
               ? 0
               : authority_fail(authority, "%.100s answers without the URL of the account",
                                authority->new_account);
}

int authority_find_account(struct authority *authority, EVP_PKEY *key, char url[AUTHORITY_URL_MAX])
{
    EVP_PKEY *own = authority->key;
    json_t *payload = json_pack("{s:b}", "onlyReturnExisting", 1);
    struct authority_answer answer;
    int failed;

    if (payload == NULL)
        return authority_fail(authority, "out of memory");
    authority->account_unknown = false;
    authority->key = key;
    failed = authority_post(authority, authority->new_account, payload, &answer);
    authority->key = own;
    if (failed != 0)
        return -1;
    memcpy(url, answer.location, sizeof(answer.location));
    authority_answer_free(&answer);
    return 0;
}

/* The JWS that the new KEY signs, as a payload for the old one. NULL: out of memory. */
static json_t *make_key_change(const struct authority *authority, EVP_PKEY *key)
{
    const struct jws_header header = {.url = authority->key_change};
    json_t *old_key = jws_public_key(authority->key), *change, *payload;
    char *inner;

    if (old_key == NULL)
        return NULL;
    change = json_pack("{s:s, s:o}", "account", authority->account, "oldKey", old_key);
    inner = change != NULL ? jws_sign(key, &header, change) : NULL;
    payload = inner != NULL ? json_loads(inner, 0, NULL) : NULL;
    json_decref(change);
    free(inner);
    return payload;
}

int authority_change_key(struct authority *authority, EVP_PKEY *key)
{
    json_t *payload = make_key_change(authority, key);
    struct authority_answer answer;

    authority->status = 0;
    if (payload == NULL)
        return authority_fail(authority, "cannot sign a request: out of memory");
    if (authority_post(authority, authority->key_change, payload, &answer) != 0)
        return -1;
    authority_answer_free(&answer);
    return 0;
}
