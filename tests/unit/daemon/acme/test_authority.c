/* Requests to an authority, whose responses are scripted: http_client_send() is replaced. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/macros.h"
#include "daemon/acme/authority.h"
#include "daemon/acme/jws.h"

#include <openssl/ec.h>
#include <openssl/rsa.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define URN "urn:ietf:params:acme:error:"

/* A response to METHOD for URL. Status 0: none comes. */
struct exchange {
    const char *method, *url;
    long status;
    const char *body, *nonce, *location;
    uint32_t retry_s;
};

static struct scene {
    const struct exchange *exchanges;
    size_t count, done;
    json_t *header, *payload; /* of the last signed request */
    struct authority authority;
    EVP_PKEY *key;
} scene;

/* Replaced by the linker: see wrap() in tests/unit/CMakeLists.txt. */
/* NOLINTBEGIN(clang-diagnostic-reserved-identifier): name of the linker */
int __wrap_http_client_send(struct http_client *client, const char *method, const char *url,
                            const char *body, struct http_response *response, char *why,
                            size_t size);
/* NOLINTEND(clang-diagnostic-reserved-identifier) */

/* The JSON in the base64url text of member NAME; NULL: it is empty. */
static json_t *decode(const json_t *jws, const char *name)
{
    unsigned char bytes[4096] = "";
    char text[4096];
    size_t length = (size_t)snprintf(text, sizeof(text) - 4, "%s", authority_text(jws, name));

    for (char *at = text; *at != '\0'; at++)
        *at = (char)(*at == '-' ? '+' : *at == '_' ? '/' : *at);
    while (length % 4 != 0)
        text[length++] = '=';
    assert_true(EVP_DecodeBlock(bytes, (unsigned char *)text, (int)length) >= 0);
    return json_loads((char *)bytes, 0, NULL);
}

static void forget_request(void)
{
    json_decref(scene.header);
    json_decref(scene.payload);
    scene.header = scene.payload = NULL;
}

int __wrap_http_client_send(struct http_client *client, const char *method, const char *url,
                            const char *body, struct http_response *response, char *why,
                            size_t size)
{
    const struct exchange *exchange = &scene.exchanges[scene.done++];

    (void)client;
    assert_true(scene.done <= scene.count);
    assert_string_equal(method, exchange->method);
    assert_string_equal(url, exchange->url);
    assert_int_equal(body != NULL, strcmp(method, "POST") == 0);
    if (body != NULL) {
        json_t *jws = json_loads(body, 0, NULL);

        forget_request();
        scene.header = decode(jws, "protected");
        scene.payload = decode(jws, "payload");
        assert_string_equal(authority_text(scene.header, "url"), url);
        json_decref(jws);
    }
    if (exchange->status == 0) {
        snprintf(why, size, "no response");
        return -1;
    }
    *response = (struct http_response){.status = exchange->status,
                                       .body = strdup(exchange->body != NULL ? exchange->body : ""),
                                       .retry_after_s = exchange->retry_s};
    if (exchange->nonce != NULL)
        strcpy(response->nonce, exchange->nonce);
    if (exchange->location != NULL)
        strcpy(response->location, exchange->location);
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    scene = (struct scene){.key = EVP_EC_gen("P-256")};
    assert_non_null(scene.key);
    scene.authority.directory = "dir";
    scene.authority.key = scene.key;
    strcpy(scene.authority.new_nonce, "nonce");
    strcpy(scene.authority.new_account, "account");
    strcpy(scene.authority.key_change, "change");
    strcpy(scene.authority.nonce, "n0");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    forget_request();
    EVP_PKEY_free(scene.key);
    return 0;
}

static void script(const struct exchange *exchanges, size_t count)
{
    scene.exchanges = exchanges;
    scene.count = count;
    scene.done = 0;
}

static int post(struct authority_answer *answer)
{
    return authority_post(&scene.authority, "url", json_object(), answer);
}

static void assert_why(const char *why)
{
    assert_int_equal(scene.done, scene.count);
    assert_string_equal(scene.authority.why, why);
}

/* The directory */

#define DIRECTORY                                                                                  \
    "{\"newNonce\":\"a\",\"newAccount\":\"b\",\"newOrder\":\"c\",\"renewalInfo\":\"d\","           \
    "\"keyChange\":\"e\"}"

static int open_directory(const char *body)
{
    const struct exchange exchange = {"GET", "dir", 200, body, NULL, NULL, 0};

    script(&exchange, 1);
    return authority_open(&scene.authority);
}

static void directory_gives_the_urls(void **state)
{
    (void)state;
    scene.authority.account_unknown = true;
    assert_int_equal(open_directory(DIRECTORY), 0);
    assert_string_equal(scene.authority.new_nonce, "a");
    assert_string_equal(scene.authority.new_account, "b");
    assert_string_equal(scene.authority.new_order, "c");
    assert_string_equal(scene.authority.renewal_info, "d");
    assert_string_equal(scene.authority.key_change, "e");
    assert_false(scene.authority.account_unknown);
    assert_int_equal(open_directory("{\"newNonce\":\"a\",\"newAccount\":\"b\",\"newOrder\":\"c\"}"),
                     0);
    assert_string_equal(scene.authority.renewal_info, "");
    assert_string_equal(scene.authority.key_change, "");
}

static void directory_without_urls_is_refused(void **state)
{
    static const struct {
        const char *body, *why;
    } cases[] = {
        {"[]", "dir: the directory is not a JSON object"},
        {"", "dir: the directory is not a JSON object"},
        {"{}", "dir: the directory has no valid newNonce"},
        {"{\"newNonce\":\"a\"}", "dir: the directory has no valid newAccount"},
        {"{\"newNonce\":\"a\",\"newAccount\":\"b\",\"newOrder\":7}",
         "dir: the directory has no valid newOrder"},
    };
    static const struct exchange refusal = {"GET", "dir", 300, "", NULL, NULL, 0};

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        assert_int_equal(open_directory(cases[i].body), -1);
        assert_why(cases[i].why);
    }
    script(&refusal, 1);
    assert_int_equal(authority_open(&scene.authority), -1);
    assert_why("dir answers 300: no detail is given");
}

static void url_that_does_not_fit_is_rejected(void **state)
{
    char url[AUTHORITY_URL_MAX + 1], body[4 * AUTHORITY_URL_MAX];

    (void)state;
    memset(url, 'u', sizeof(url));
    for (size_t length = AUTHORITY_URL_MAX - 1; length <= AUTHORITY_URL_MAX; length++) {
        bool fits = length < AUTHORITY_URL_MAX;

        url[AUTHORITY_URL_MAX - 1] = 'u';
        url[length] = '\0';
        snprintf(body, sizeof(body),
                 "{\"newNonce\":\"%s\",\"newAccount\":\"b\",\"newOrder\":\"c\"}", url);
        assert_int_equal(open_directory(body), fits ? 0 : -1);
        snprintf(
            body, sizeof(body),
            "{\"newNonce\":\"a\",\"newAccount\":\"b\",\"newOrder\":\"c\",\"keyChange\":\"%s\"}",
            url);
        assert_int_equal(open_directory(body), 0);
        assert_string_equal(scene.authority.key_change, fits ? url : "");
    }
}

/* Requests */

static void answer_has_text_and_object(void **state)
{
    static const struct exchange exchanges[] = {
        {"GET", "url", 299, "{\"a\":\"b\"}", NULL, "there", 7},
        {"GET", "url", 200, "[1]", NULL, NULL, 0},
        {"GET", "url", 200, "PEM", NULL, NULL, 0},
    };
    struct authority_answer answer;

    (void)state;
    script(exchanges, ARRAY_LENGTH(exchanges));
    assert_int_equal(authority_get(&scene.authority, "url", &answer), 0);
    assert_string_equal(authority_text(answer.json, "a"), "b");
    assert_string_equal(answer.text, "{\"a\":\"b\"}");
    assert_string_equal(answer.location, "there");
    assert_int_equal(answer.retry_after_s, 7);
    authority_answer_free(&answer);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(authority_get(&scene.authority, "url", &answer), 0);
        assert_null(answer.json);
        assert_string_equal(answer.text, i == 0 ? "[1]" : "PEM");
        authority_answer_free(&answer);
    }
}

/* Members of the last failure do not stay. */
static void failure_is_described(void **state)
{
    static const struct exchange exchanges[] = {
        {"POST", "url", 300, "{\"type\":\"" URN "accountDoesNotExist\"}", "n1", NULL, 9},
        {"POST", "url", 403, "{\"type\":\"" URN "unauthorized\",\"detail\":\"no\"}", "n2", NULL, 0},
        {"POST", "url", 503, "", "n3", NULL, 5},
        {"POST", "url", 0, NULL, NULL, NULL, 0},
        {"GET", "url", 404, "{\"detail\":\"not read\"}", NULL, NULL, 6},
        {"GET", "url", 0, NULL, NULL, NULL, 0},
    };
    const struct authority *authority = &scene.authority;
    struct authority_answer answer;

    (void)state;
    script(exchanges, ARRAY_LENGTH(exchanges));
    assert_int_equal(post(&answer), -1);
    assert_string_equal(authority->why,
                        "url answers 300: no detail is given (accountDoesNotExist)");
    assert_true(authority->account_unknown && authority->status == 300 &&
                authority->retry_after_s == 9);
    assert_int_equal(post(&answer), -1);
    assert_string_equal(authority->why, "url answers 403: no (unauthorized)");
    assert_true(!authority->account_unknown && authority->status == 403 &&
                authority->retry_after_s == 0);
    assert_int_equal(post(&answer), -1);
    assert_true(authority->status == 503 && authority->retry_after_s == 5);
    assert_int_equal(post(&answer), -1);
    assert_string_equal(authority->why, "no response");
    assert_true(authority->status == 0 && authority->retry_after_s == 0);
    assert_int_equal(authority_get(&scene.authority, "url", &answer), -1);
    assert_string_equal(authority->why, "url answers 404: no detail is given");
    assert_true(authority->status == 404 && authority->retry_after_s == 6);
    assert_int_equal(authority_get(&scene.authority, "url", &answer), -1);
    assert_true(authority->status == 0 && authority->retry_after_s == 0);
}

static void each_request_has_another_nonce(void **state)
{
    static const struct exchange exchanges[] = {
        {"POST", "url", 200, "{}", "n1", NULL, 0}, {"POST", "url", 200, "{}", NULL, NULL, 0},
        {"HEAD", "nonce", 204, "", "n3", NULL, 0}, {"POST", "url", 0, NULL, NULL, NULL, 0},
        {"HEAD", "nonce", 200, "", "n4", NULL, 0}, {"POST", "url", 200, "{}", "n5", NULL, 0},
    };
    static const char *const nonces[] = {"n0", "n1", "n3", "n4"};
    struct authority_answer answer;

    (void)state;
    script(exchanges, ARRAY_LENGTH(exchanges));
    for (size_t i = 0; i < ARRAY_LENGTH(nonces); i++) {
        int failed = post(&answer);

        assert_int_equal(failed, i == 2 ? -1 : 0);
        assert_string_equal(authority_text(scene.header, "nonce"), nonces[i]);
        if (failed == 0)
            authority_answer_free(&answer);
    }
    assert_int_equal(scene.done, scene.count);
}

static void request_without_nonce_fails(void **state)
{
    static const struct exchange cases[] = {
        {"HEAD", "nonce", 200, "", NULL, NULL, 0},
        {"HEAD", "nonce", 300, "", "n1", NULL, 0},
        {"HEAD", "nonce", 0, NULL, NULL, NULL, 0},
    };
    static const char *const whys[] = {"nonce answers without a nonce",
                                       "nonce answers 300: no detail is given", "no response"};
    struct authority_answer answer;

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        scene.authority.nonce[0] = '\0';
        script(&cases[i], 1);
        assert_int_equal(post(&answer), -1);
        assert_why(whys[i]);
    }
}

static void request_with_refused_nonce_is_sent_ten_times(void **state)
{
    static const struct exchange refusal = {"POST", "url", 400, "{\"type\":\"" URN "badNonce\"}",
                                            "n1",   NULL,  0};
    struct exchange exchanges[10];
    struct authority_answer answer;

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(exchanges); i++)
        exchanges[i] = refusal;
    script(exchanges, ARRAY_LENGTH(exchanges));
    assert_int_equal(post(&answer), -1);
    assert_why("url answers 400: no detail is given (badNonce)");
    exchanges[1] = (struct exchange){"POST", "url", 200, "{}", "n2", NULL, 0};
    script(exchanges, 2);
    assert_int_equal(post(&answer), 0);
    authority_answer_free(&answer);
    exchanges[0].status = 403;
    script(exchanges, 1);
    assert_int_equal(post(&answer), -1);
    exchanges[0] =
        (struct exchange){"POST", "url", 400, "{\"type\":\"" URN "malformed\"}", "n1", NULL, 0};
    script(exchanges, 1);
    assert_int_equal(post(&answer), -1);
    assert_int_equal(scene.done, 1);
}

/* RFC 8555 section 6.2: requests for a new account have the key itself. */
static void requests_name_the_account(void **state)
{
    static const struct exchange exchanges[] = {
        {"POST", "url", 200, "{}", "n1", NULL, 0},
        {"POST", "url", 200, "{}", "n2", NULL, 0},
        {"POST", "account", 200, "{}", "n3", NULL, 0},
    };
    struct authority_answer answer;

    (void)state;
    script(exchanges, ARRAY_LENGTH(exchanges));
    for (size_t i = 0; i < ARRAY_LENGTH(exchanges); i++) {
        assert_int_equal(authority_post(&scene.authority, exchanges[i].url, NULL, &answer), 0);
        assert_string_equal(authority_text(scene.header, "kid"), i == 1 ? "me" : "");
        assert_int_equal(json_is_object(json_object_get(scene.header, "jwk")), i != 1);
        assert_null(scene.payload); /* POST-as-GET */
        authority_answer_free(&answer);
        strcpy(scene.authority.account, "me");
    }
}

/* The account */

static void account_is_registered(void **state)
{
    static const struct exchange exchanges[] = {
        {"POST", "account", 201, "{}", "n1", "me", 0},
        {"POST", "account", 200, "{}", "n2", "me", 0},
        {"POST", "account", 200, "{}", "n3", NULL, 0},
        {"POST", "account", 400, "{}", "n4", "me", 0},
    };
    const json_t *contact;

    (void)state;
    script(exchanges, ARRAY_LENGTH(exchanges));
    assert_int_equal(authority_register(&scene.authority, "a@b.example"), 0);
    assert_string_equal(scene.authority.account, "me");
    assert_true(json_is_true(json_object_get(scene.payload, "termsOfServiceAgreed")));
    contact = json_object_get(scene.payload, "contact");
    assert_int_equal(json_array_size(contact), 1);
    assert_string_equal(json_string_value(json_array_get(contact, 0)), "mailto:a@b.example");
    assert_int_equal(authority_register(&scene.authority, ""), 0);
    assert_null(json_object_get(scene.payload, "contact"));
    assert_int_equal(authority_register(&scene.authority, ""), -1);
    assert_string_equal(scene.authority.why, "account answers without the URL of the account");
    assert_int_equal(authority_register(&scene.authority, ""), -1);
    assert_why("account answers 400: no detail is given");
}

static void assert_key(const json_t *json, const char *name, EVP_PKEY *key)
{
    json_t *expected = jws_public_key(key);

    assert_true(json_equal(json_object_get(json, name), expected));
    json_decref(expected);
}

static void account_of_another_key_is_found(void **state)
{
    static const struct exchange exchanges[] = {
        {"POST", "account", 200, "{}", "n1", "other", 0},
        {"POST", "account", 400, "{\"type\":\"" URN "accountDoesNotExist\"}", "n2", "none", 0},
        {"POST", "account", 0, NULL, NULL, NULL, 0},
    };
    EVP_PKEY *other = EVP_EC_gen("P-256");
    char url[AUTHORITY_URL_MAX] = "";

    (void)state;
    script(exchanges, ARRAY_LENGTH(exchanges));
    assert_int_equal(authority_find_account(&scene.authority, other, url), 0);
    assert_string_equal(url, "other");
    assert_true(json_is_true(json_object_get(scene.payload, "onlyReturnExisting")));
    assert_key(scene.header, "jwk", other);
    assert_ptr_equal(scene.authority.key, scene.key);
    assert_int_equal(authority_find_account(&scene.authority, other, url), -1);
    assert_true(scene.authority.account_unknown);
    assert_ptr_equal(scene.authority.key, scene.key);
    assert_string_equal(url, "other");
    assert_int_equal(authority_find_account(&scene.authority, other, url), -1);
    assert_false(scene.authority.account_unknown);
    EVP_PKEY_free(other);
}

static void key_change_is_signed_by_both_keys(void **state)
{
    static const struct exchange exchanges[] = {
        {"POST", "change", 200, "{}", "n1", NULL, 0},
        {"POST", "change", 409, "{}", "n2", NULL, 0},
    };
    EVP_PKEY *other = EVP_EC_gen("P-256"), *rsa = EVP_RSA_gen(1024);
    json_t *inner, *header;

    (void)state;
    strcpy(scene.authority.account, "me");
    script(exchanges, ARRAY_LENGTH(exchanges));
    assert_int_equal(authority_change_key(&scene.authority, other), 0);
    assert_string_equal(authority_text(scene.header, "kid"), "me");
    header = decode(scene.payload, "protected");
    inner = decode(scene.payload, "payload");
    assert_string_equal(authority_text(header, "url"), "change");
    assert_null(json_object_get(header, "nonce"));
    assert_string_equal(authority_text(inner, "account"), "me");
    assert_key(header, "jwk", other);
    assert_key(inner, "oldKey", scene.key);
    json_decref(header);
    json_decref(inner);
    assert_int_equal(authority_change_key(&scene.authority, other), -1);
    assert_why("change answers 409: no detail is given");
    scene.authority.key = rsa; /* has no form that ACME can use here */
    assert_int_equal(authority_change_key(&scene.authority, other), -1);
    assert_int_equal(scene.authority.status, 0);
    assert_why("cannot sign a request: out of memory");
    EVP_PKEY_free(other);
    EVP_PKEY_free(rsa);
}

static void problem_has_detail_type_and_parts(void **state)
{
    static const struct {
        const char *json, *text;
    } cases[] = {
        {"[]", "no detail is given"},
        {"{}", "no detail is given"},
        {"{\"detail\":\"a\"}", "a"},
        {"{\"type\":\"" URN "dns\"}", "no detail is given (dns)"},
        {"{\"type\":\"about:blank\",\"detail\":\"a\"}", "a (about:blank)"},
        {"{\"detail\":\"a\",\"subproblems\":[{\"detail\":\"b\"},{\"detail\":\"c\"}]}", "a; b; c"},
        {"{\"detail\":\"0123456789012345678901234567\",\"subproblems\":[{\"detail\":\"bcd\"}]}",
         "0123456789012345678901234567; b"},
        {"{\"detail\":\"01234567890123456789012345678901234567\",\"subproblems\":[{},{}]}",
         "0123456789012345678901234567890"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        json_t *json = json_loads(cases[i].json, 0, NULL);
        char text[32];

        assert_non_null(json);
        authority_problem(json, text, sizeof(text));
        assert_string_equal(text, cases[i].text);
        json_decref(json);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(directory_gives_the_urls),
        TEST(directory_without_urls_is_refused),
        TEST(url_that_does_not_fit_is_rejected),
        TEST(answer_has_text_and_object),
        TEST(failure_is_described),
        TEST(each_request_has_another_nonce),
        TEST(request_without_nonce_fails),
        TEST(request_with_refused_nonce_is_sent_ten_times),
        TEST(requests_name_the_account),
        TEST(account_is_registered),
        TEST(account_of_another_key_is_found),
        TEST(key_change_is_signed_by_both_keys),
        TEST(problem_has_detail_type_and_parts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
