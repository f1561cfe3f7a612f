#include "daemon/acme/authority.h"

#include "daemon/acme/credentials.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum {
    CONNECT_SECONDS = 20,
    RETRY_AFTER_MAX_S = 7 * 86400,
    NONCE_ATTEMPTS = 10,
    STATUS_OK_LIMIT = 300,
    PLAIN_ANSWER_SHOWN = 200,
};

static const char urn[] = "urn:ietf:params:acme:error:";

int authority_init(struct authority *authority, const char *directory, const char *ca)
{
    *authority = (struct authority){.directory = directory, .ca = ca, .profile = ""};
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return -1;
    authority->easy = curl_easy_init();
    authority->fields = curl_slist_append(NULL, "Content-Type: application/jose+json");
    return authority->easy != NULL && authority->fields != NULL ? 0 : -1;
}

void authority_free(struct authority *authority)
{
    if (authority->easy != NULL)
        curl_easy_cleanup(authority->easy);
    if (authority->fields != NULL)
        curl_slist_free_all(authority->fields);
}

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

    if (detail[0] == '\0')
        detail = authority_text(json, "title");
    snprintf(text, size, "%s%s%s%s", detail[0] != '\0' ? detail : "no detail is given",
             type[0] != '\0' ? " (" : "", type, type[0] != '\0' ? ")" : "");
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *part = json_array_get(parts, i);

        used = strlen(text);
        snprintf(text + used, size - used, "; %s", authority_text(part, "detail"));
    }
}

/* Receiving an answer */

struct reception {
    struct authority_answer *answer;
    char nonce[AUTHORITY_URL_MAX]; /* "": none, or too long */
};

static size_t on_answer_body(char *bytes, size_t size, size_t count, void *argument)
{
    const struct reception *reception = argument;
    struct authority_answer *answer = reception->answer;
    size_t length = size * count;
    char *grown;

    if (length > AUTHORITY_BODY_MAX - answer->length)
        return 0;
    grown = realloc(answer->text, answer->length + length + 1);
    if (grown == NULL)
        return 0;
    answer->text = grown;
    memcpy(answer->text + answer->length, bytes, length);
    answer->length += length;
    answer->text[answer->length] = '\0';
    return length;
}

/* Seconds of a Retry-After field: a number or a date. 0: not valid. */
static uint32_t read_retry_after(const char *text, size_t length, int64_t now_s)
{
    char copy[64];
    struct tm when = {0};
    const char *end;
    int64_t delay = 0;

    if (length >= sizeof(copy))
        return 0;
    memcpy(copy, text, length);
    copy[length] = '\0';
    if (strspn(copy, "0123456789") == length) {
        delay = length < 9 ? strtol(copy, NULL, 10) : RETRY_AFTER_MAX_S;
    } else {
        end = strptime(copy, "%a, %d %b %Y %H:%M:%S GMT", &when);
        if (end != NULL && *end == '\0')
            delay = (int64_t)timegm(&when) - now_s;
    }
    return delay <= 0 ? 0 : delay > RETRY_AFTER_MAX_S ? RETRY_AFTER_MAX_S : (uint32_t)delay;
}

/*
 * The value of the field NAME ("Name:") in LINE, without blanks around it. Length 0: another field.
 */
static const char *field_value(const char *line, size_t length, const char *name, size_t *found)
{
    size_t start = strlen(name);

    *found = 0;
    if (length <= start || strncasecmp(line, name, start) != 0)
        return NULL;
    while (start < length && isspace((unsigned char)line[start]))
        start++;
    while (length > start && isspace((unsigned char)line[length - 1]))
        length--;
    *found = length - start;
    return line + start;
}

static void take_answer_field(const char *line, size_t length, const char *name, char *text)
{
    size_t found;
    const char *value = field_value(line, length, name, &found);

    if (found > 0 && found < AUTHORITY_URL_MAX)
        snprintf(text, AUTHORITY_URL_MAX, "%.*s", (int)found, value);
}

static size_t on_answer_field(char *line, size_t size, size_t count, void *argument)
{
    struct reception *reception = argument;
    size_t length = size * count, found;
    const char *value = field_value(line, length, "Retry-After:", &found);

    if (found > 0)
        reception->answer->retry_after_s = read_retry_after(value, found, time(NULL));
    take_answer_field(line, length, "Replay-Nonce:", reception->nonce);
    take_answer_field(line, length, "Location:", reception->answer->location);
    return length;
}

static int on_answer_progress(void *argument, curl_off_t down, curl_off_t downloaded, curl_off_t up,
                              curl_off_t uploaded)
{
    (void)down, (void)downloaded, (void)up, (void)uploaded;
    return link_pulse(argument) ? 0 : 1;
}

/*
 * Sends METHOD to URL, with BODY (application/jose+json) unless it is NULL. Redirects are not
 * followed. Returns 0 with ANSWER, whatever its status, which the caller frees; -1 with
 * authority->why: no complete answer came.
 */
static int transfer(struct authority *authority, const char *method, const char *url,
                    const char *body, struct authority_answer *answer)
{
    struct reception reception = {.answer = answer};
    struct curl_blob ca = {(void *)authority->ca, strlen(authority->ca), CURL_BLOB_NOCOPY};
    char reason[CURL_ERROR_SIZE] = "";
    CURL *easy = authority->easy;
    CURLcode result;

    *answer = (struct authority_answer){.text = calloc(1, 1)};
    if (answer->text == NULL)
        return authority_fail(authority, "out of memory");
    curl_easy_reset(easy);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, reason);
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "https");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "webserverd/" WEBSERVERD_VERSION);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT,
                     (long)(authority->limit_s > 0 ? authority->limit_s : REQUEST_SECONDS));
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_answer_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, &reception);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_answer_field);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, &reception);
    curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_answer_progress);
    curl_easy_setopt(easy, CURLOPT_XFERINFODATA, authority->link);
    if (authority->ca[0] != '\0')
        curl_easy_setopt(easy, CURLOPT_CAINFO_BLOB, &ca);
    if (body != NULL) {
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body);
        curl_easy_setopt(easy, CURLOPT_HTTPHEADER, authority->fields);
    } else if (strcmp(method, "HEAD") == 0) {
        curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
    }
    result = curl_easy_perform(easy);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, NULL);
    if (result == CURLE_OK)
        result = curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &answer->status);
    authority->unanswered = result != CURLE_OK;
    authority->timed_out = result == CURLE_OPERATION_TIMEDOUT;
    if (result != CURLE_OK) {
        authority_answer_free(answer);
        return authority_fail(authority, "%s %s: %s", method, url,
                              reason[0] != '\0' ? reason : curl_easy_strerror(result));
    }
    answer->json = json_loadb(answer->text, answer->length, JSON_ALLOW_NUL, NULL);
    if (!json_is_object(answer->json)) {
        json_decref(answer->json);
        answer->json = NULL;
    }
    memcpy(authority->nonce, reception.nonce, sizeof(reception.nonce));
    return 0;
}

void authority_answer_free(struct authority_answer *answer)
{
    json_decref(answer->json);
    free(answer->text);
}

/* Requests */

/* Takes ANSWER, a failure, for authority->why, and frees it. */
static int fail_status(struct authority *authority, const char *url,
                       struct authority_answer *answer)
{
    char problem[AUTHORITY_WHY - 200];

    authority->retry_after_s = answer->retry_after_s;
    authority->status = answer->status;
    authority->account_unknown = strcmp(problem_type(answer->json), "accountDoesNotExist") == 0;
    if (answer->json == NULL && answer->text[0] != '\0') /* of a proxy, perhaps */
        snprintf(problem, sizeof(problem), "no problem document, but '%.*s'", PLAIN_ANSWER_SHOWN,
                 answer->text);
    else
        authority_problem(answer->json, problem, sizeof(problem));
    authority_answer_free(answer);
    return authority_fail(authority, "%.100s answers %ld: %s", url, authority->status, problem);
}

/* Sends a request without signature. */
static int fetch(struct authority *authority, const char *method, const char *url,
                 struct authority_answer *answer)
{
    if (transfer(authority, method, url, NULL, answer) != 0)
        return -1;
    return answer->status < STATUS_OK_LIMIT ? 0 : fail_status(authority, url, answer);
}

int authority_get(struct authority *authority, const char *url, struct authority_answer *answer)
{
    authority->retry_after_s = 0;
    authority->status = 0;
    return fetch(authority, "GET", url, answer);
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

/* Returns 0 if META has the profile of the certificates, or none is wanted. */
static int check_profile(struct authority *authority, const json_t *meta)
{
    json_t *profiles = json_object_get(meta, "profiles");
    char list[AUTHORITY_WHY / 2] = "";
    const char *name;
    json_t *value;

    if (authority->profile[0] == '\0' || json_object_get(profiles, authority->profile) != NULL)
        return 0;
    json_object_foreach(profiles, name, value)
        snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s",
                 list[0] != '\0' ? ", " : "", name);
    return authority_fail(authority, "the authority has no profile '%.60s' (it has: %s)",
                          authority->profile, list[0] != '\0' ? list : "none");
}

int authority_open(struct authority *authority)
{
    struct authority_answer answer;
    int failed = 0;

    authority->account_unknown = false;
    if (authority_get(authority, authority->directory, &answer) != 0) {
        authority->unreachable = authority->unanswered;
        return -1;
    }
    if (answer.json == NULL)
        failed = authority_fail(authority, "%s: the directory is not a JSON object",
                                authority->directory);
    else if (take_url(authority, answer.json, "newNonce", authority->new_nonce) != 0 ||
             take_url(authority, answer.json, "newAccount", authority->new_account) != 0 ||
             take_url(authority, answer.json, "newOrder", authority->new_order) != 0 ||
             check_profile(authority, json_object_get(answer.json, "meta")) != 0)
        failed = -1;
    authority->requires_binding = json_is_true(
        json_object_get(json_object_get(answer.json, "meta"), "externalAccountRequired"));
    take_optional_url(answer.json, "renewalInfo", authority->renewal_info);
    take_optional_url(answer.json, "keyChange", authority->key_change);
    authority_answer_free(&answer);
    return failed;
}

/* Sends one signed request, with the nonce of the last answer or a new one. */
static int send_signed(struct authority *authority, const char *url, json_t *payload,
                       struct authority_answer *answer)
{
    bool known = authority->account[0] != '\0' && strcmp(url, authority->new_account) != 0;
    const struct jws_header header = {url, authority->nonce, known ? authority->account : NULL};
    char *body;
    int failed;

    if (authority->nonce[0] == '\0') {
        /* an answer to HEAD has no problem document */
        if (fetch(authority, "HEAD", authority->new_nonce, answer) != 0 &&
            (authority->status == 0 || fetch(authority, "GET", authority->new_nonce, answer) != 0))
            return -1;
        authority_answer_free(answer);
        if (authority->nonce[0] == '\0')
            return authority_fail(authority, "%.100s answers without a nonce",
                                  authority->new_nonce);
    }
    body = jws_sign(authority->key, &header, payload);
    if (body == NULL)
        return authority_fail(authority, "cannot sign a request: out of memory");
    authority->nonce[0] = '\0';
    failed = transfer(authority, "POST", url, body, answer);
    free(body);
    return failed;
}

/* Sends the request until the authority accepts its nonce (RFC 8555 section 6.5). */
int authority_post(struct authority *authority, const char *url, json_t *payload,
                   struct authority_answer *answer)
{
    bool bad_nonce = true;
    int failed = -1;

    authority->retry_after_s = 0;
    authority->status = 0;
    for (int attempt = 0; attempt < NONCE_ATTEMPTS && bad_nonce; attempt++) {
        failed = send_signed(authority, url, payload, answer);
        if (failed != 0 || answer->status < STATUS_OK_LIMIT)
            break;
        bad_nonce = answer->status == 400 && strcmp(problem_type(answer->json), "badNonce") == 0;
        failed = fail_status(authority, url, answer);
    }
    json_decref(payload);
    return failed;
}
