/*
 * What an ACME authority answers: JSON of the directory, account, orders and renewal information, and PEM of
 * certificates. The input is a list of answers, separated by 0x1e; the first byte of each selects its status. They are
 * given to the requests of one order, in their order, and to each reader by itself.
 */
#include "daemon/acme/credentials.h"
#include "daemon/acme/order.h"
#include "daemon/acme/renewal_info.h"
#include "tests/fuzz/fuzz.h"

#include <openssl/ec.h>
#include <string.h>

enum { SEPARATOR = 0x1e, NOW_S = 1800000000 };

/* The rest of the input. */
static const char *at, *end;

/* The next answer with a NUL, which the caller frees; NULL: there is none. */
static char *next_answer(void)
{
    const char *stop;
    char *text;

    if (at >= end)
        return NULL;
    stop = memchr(at, SEPARATOR, (size_t)(end - at));
    stop = stop != NULL ? stop : end;
    text = malloc((size_t)(stop - at) + 1);
    MUST(text != NULL);
    memcpy(text, at, (size_t)(stop - at));
    text[stop - at] = '\0';
    at = stop < end ? stop + 1 : end;
    return text;
}

/* Instead of daemon/acme/http_client.c */

int http_client_send(struct http_client *client, const char *method, const char *url,
                     const char *body, struct http_response *response, char *why, size_t size)
{
    char *answer = next_answer();
    char kind = answer != NULL ? answer[0] : '-';

    (void)client, (void)method, (void)body;
    MUST(strlen(url) < 2 * AUTHORITY_URL_MAX);
    *response = (struct http_response){.status = kind == '4'   ? 400
                                                 : kind == '9' ? 429
                                                 : kind == '5' ? 500
                                                               : 200};
    if (kind == '-') {
        free(answer);
        snprintf(why, size, "no answer");
        return -1;
    }
    response->body = answer;
    if (kind != '\0')
        memmove(answer, answer + 1, strlen(answer));
    response->length = strlen(answer);
    snprintf(response->nonce, sizeof(response->nonce), "%s", kind == '0' ? "" : "nonce");
    snprintf(response->location, sizeof(response->location), "%s",
             kind == '1' ? "https://ca/1" : "");
    response->retry_after_s = kind == '9' ? 60 : 0;
    return 0;
}

void http_response_free(struct http_response *response)
{
    free(response->body);
    response->body = NULL;
}

/* Each reader by itself */

static void check_pem(const char *text)
{
    char why[160], id[CREDENTIALS_ID_BYTES];
    struct credentials_validity validity, again;
    bool good = credentials_check(text, NULL, "a.example", NOW_S, &validity, why, sizeof(why)) == 0;
    char *clean = credentials_clean(text);

    credentials_id(text, id);
    MUST(strlen(id) < sizeof(id));
    EVP_PKEY_free(credentials_key_read(text));
    if (good) {
        MUST(clean != NULL && strncmp(clean, "-----BEGIN CERTIFICATE-----\n", 28) == 0);
        MUST(validity.not_after_s > NOW_S);
        MUST(credentials_check(clean, NULL, "a.example", NOW_S, &again, why, sizeof(why)) == 0);
        MUST(again.not_after_s == validity.not_after_s);
    }
    free(clean);
}

static void check_json(const char *text)
{
    json_t *json = json_loads(text, 0, NULL);
    char problem[60];
    struct renewal_window window = {0};

    authority_problem(json, problem, sizeof(problem));
    MUST(strlen(problem) < sizeof(problem));
    if (renewal_info_read(json, &window) == 0)
        MUST(window.start_s > 0 && window.start_s < window.end_s);
    json_decref(json);
}

/* One order */

static int publish(void *context, enum challenge_kind kind, const char *token)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

    (void)context;
    MUST(kind < CHALLENGE_KINDS);
    MUST(strspn(token, allowed) == strlen(token) && strlen(token) < 128);
    return 0;
}

static bool wait_for(void *context, uint32_t ms)
{
    (void)context;
    MUST(ms <= 10 * 1000);
    return true;
}

static void run_order(EVP_PKEY *key)
{
    const struct order_owner owner = {.kind = {CHALLENGE_HTTP_01, CHALLENGE_TLS_ALPN_01},
                                      .kind_count = 2,
                                      .publish = publish,
                                      .wait = wait_for};
    struct authority authority = {.directory = "https://ca/directory", .key = key};
    struct renewal_window window = {0};
    char *chain = NULL;
    int failed = authority_open(&authority) != 0 || authority_register(&authority, "a@b.c") != 0;

    if (failed == 0) {
        chain = order_obtain(&authority, &owner, "a.example", "AAAA", "AAAA.BBBB");
        failed = chain == NULL;
    }
    if (chain != NULL)
        check_pem(chain);
    free(chain);
    if (failed == 0 && authority.key_change[0] != '\0') {
        char url[AUTHORITY_URL_MAX];

        if (authority_change_key(&authority, key) != 0)
            failed = authority_find_account(&authority, key, url);
    }
    if (failed == 0 && authority.renewal_info[0] != '\0')
        failed = renewal_info_fetch(&authority, "AAAA.BBBB", &window);
    MUST(strlen(authority.why) < sizeof(authority.why));
    MUST(failed == 0 || authority.why[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static EVP_PKEY *key;
    char *answer;

    if (key == NULL)
        key = EVP_EC_gen("P-256");
    at = (const char *)data;
    end = at + size;
    while ((answer = next_answer()) != NULL) {
        const char *body = answer[0] != '\0' ? answer + 1 : answer;

        check_pem(body);
        check_json(body);
        free(answer);
    }
    at = (const char *)data;
    run_order(key);
    return 0;
}
