/* Orders, with an authority that answers by a script. */
#include "common/macros.h"
#include "daemon/acme/internal.h"
#include "daemon/base/messages.h"
#include "tests/test.h"
#include "tests/unit/daemon/acme/fake_curl.h"
#include "tests/unit/daemon/acme/fake_master.h"
#include "tests/unit/daemon/acme/signed_request.h"

#include <openssl/ec.h>

#define AUTHORIZATION(status)                                                                      \
    "{\"status\":\"" status "\",\"challenges\":["                                                  \
    "{\"type\":\"dns-01\",\"url\":\"dns\",\"token\":\"d\"},"                                       \
    "{\"type\":\"tls-alpn-01\",\"url\":\"alpn\",\"token\":\"a\"},"                                 \
    "{\"type\":\"http-01\",\"url\":\"http\",\"token\":\"h\"}]}"
#define ORDER(status)                                                                              \
    "{\"status\":\"" status "\",\"authorizations\":[\"auth\"],"                                    \
    "\"finalize\":\"final\",\"certificate\":\"cert\"}"

/* One answer of the authority. */
struct step {
    const char *url, *body;
    uint32_t retry_s;
    long refused; /* the status of a refusal; 0: a success */
};

enum { STEPS_MAX = 400 };

static struct scene {
    const struct step *steps;
    size_t step_count, done;
    bool no_location;
    char replaces[2][16]; /* of each request for an order; "-": none */
    size_t orders;
    char csr[16];
    char delays
        [256]; /* between a request and the one before, in milliseconds; unless there is none */
    uint64_t answered_ns;
} scene;

static struct acme acme;
static struct certificate certificate;

static void read_order(const json_t *payload)
{
    const json_t *name = json_array_get(json_object_get(payload, "identifiers"), 0);

    assert_true(scene.orders < ARRAY_LENGTH(scene.replaces));
    assert_string_equal(authority_text(name, "type"), "dns");
    assert_string_equal(authority_text(name, "value"), "a.example");
    snprintf(scene.replaces[scene.orders++], sizeof(scene.replaces[0]), "%s",
             json_object_get(payload, "replaces") != NULL ? authority_text(payload, "replaces")
                                                          : "-");
}

static void answer_request(const struct fake_request *request, struct fake_answer *answer)
{
    const struct step *step = &scene.steps[scene.done++];
    json_t *payload = signed_request_payload(request->body);
    uint64_t delay_ms = (master.now_ns - scene.answered_ns) / NS_PER_MS / 10 * 10;
    size_t used = strlen(scene.delays);

    assert_true(scene.done <= scene.step_count);
    assert_string_equal(request->url, step->url);
    if (delay_ms > 0)
        snprintf(scene.delays + used, sizeof(scene.delays) - used, "%lu ", (unsigned long)delay_ms);
    scene.answered_ns = master.now_ns;
    if (strcmp(request->url, "new") == 0)
        read_order(payload);
    if (strcmp(request->url, "final") == 0)
        snprintf(scene.csr, sizeof(scene.csr), "%s", authority_text(payload, "csr"));
    json_decref(payload);
    *answer = (struct fake_answer){.status = step->refused != 0 ? step->refused : 200,
                                   .body = step->refused != 0 ? "{\"detail\":\"no\"}" : step->body,
                                   .nonce = "nonce",
                                   .retry_s = step->retry_s};
    if (strcmp(request->url, "new") == 0 && !scene.no_location)
        answer->location = "order";
}

static int set_up(void **state)
{
    (void)state;
    scene = (struct scene){0};
    fake_master_start();
    scene.answered_ns = master.now_ns;
    acme = (struct acme){
        .settings = {.challenge = {CHALLENGE_HTTP_01, CHALLENGE_TLS_ALPN_01}, .challenge_count = 2},
        .link = master.link,
        .thumbprint = "thumb"};
    certificate = (struct certificate){.names = "a.example", .name = "a.example"};
    assert_int_equal(authority_init(&acme.authority, "dir", ""), 0);
    acme.authority.link = master.link;
    acme.authority.key = EVP_EC_gen("P-256");
    strcpy(acme.authority.nonce, "nonce");
    strcpy(acme.authority.new_order, "new");
    strcpy(acme.authority.renewal_info, "info");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    EVP_PKEY_free(acme.authority.key);
    authority_free(&acme.authority);
    fake_master_free();
    return 0;
}

const struct test_fixture test_fixture = {set_up, tear_down};

static void set_up_again(void **state)
{
    tear_down(state);
    set_up(state);
}

/* Returns the certificate, which the caller frees. */
static char *obtain(const struct step *steps, size_t count, const char *replaces)
{
    char *chain;

    scene.steps = steps;
    scene.step_count = count;
    scene.done = 0;
    strcpy(certificate.id, replaces);
    chain = order_obtain(&acme, &certificate, "csr");
    fake_master_read();
    return chain;
}

/* The order fails after all COUNT answers, and WHY is the end of the reason. */
static void assert_fails(const struct step *steps, size_t count, const char *why)
{
    size_t length = strlen(why);

    assert_null(obtain(steps, count, ""));
    assert_int_equal(scene.done, count);
    assert_true(strlen(acme.authority.why) >= length);
    assert_string_equal(acme.authority.why + strlen(acme.authority.why) - length, why);
}

static void assert_obtained(const struct step *steps, size_t count, const char *replaces)
{
    char *text = obtain(steps, count, replaces);

    assert_int_equal(scene.done, count);
    assert_non_null(text);
    assert_string_equal(text, "PEM");
    free(text);
}

static const struct step usual[] = {
    {.url = "new", .body = ORDER("pending")},
    {.url = "auth", .body = AUTHORIZATION("pending")},
    {.url = "http", .body = "{}"},
    {.url = "auth", .body = AUTHORIZATION("pending")},
    {.url = "auth", .body = AUTHORIZATION("processing")},
    {.url = "auth", .body = AUTHORIZATION("valid")},
    {.url = "order", .body = ORDER("pending")},
    {.url = "order", .body = ORDER("ready")},
    {.url = "final", .body = "{}"},
    {.url = "order", .body = ORDER("ready")},
    {.url = "order", .body = ORDER("processing")},
    {.url = "order", .body = ORDER("valid")},
    {.url = "cert", .body = "PEM"},
};

TEST(certificate_is_obtained)
{
    assert_obtained(usual, ARRAY_LENGTH(usual), "");
    assert_string_equal(master.published, "http=h http= ");
    assert_string_equal(scene.delays, "250 500 250 250 500 ");
    assert_string_equal(master.events,
                        "a.example: the authority may now check the name by http-01\n");
    assert_string_equal(scene.csr, "csr");
    assert_int_equal(scene.orders, 1);
    assert_string_equal(scene.replaces[0], "-");
}

/* The workers no longer answer a challenge then. */
TEST(refusal_of_each_request_ends_the_order)
{
    for (size_t i = 0; i < ARRAY_LENGTH(usual); i++) {
        struct step steps[ARRAY_LENGTH(usual)];

        set_up_again(state);
        memcpy(steps, usual, sizeof(usual));
        steps[i].refused = 500;
        assert_fails(steps, i + 1, " answers 500: no");
        assert_int_equal(strstr(master.published, "http=h") != NULL, i >= 2);
        assert_int_equal(strstr(master.published, "http= ") != NULL, i >= 2);
    }
}

TEST(answer_without_object_ends_the_order)
{
    static const struct {
        size_t at;
        const char *why;
    } cases[] = {
        {0, "new answers without an order"}, {1, "auth: not a JSON object"},
        {3, "auth: not a JSON object"},      {4, "auth: not a JSON object"},
        {6, "order: not a JSON object"},     {9, "order: not a JSON object"},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct step steps[ARRAY_LENGTH(usual)];

        set_up_again(state);
        memcpy(steps, usual, sizeof(usual));
        steps[cases[i].at].body = "";
        assert_fails(steps, cases[i].at + 1, cases[i].why);
    }
    set_up_again(state);
    scene.no_location = true;
    assert_fails(usual, 1, "new answers without an order");
}

TEST(end_of_the_process_ends_the_order)
{
    master.challenges_left = 1;
    assert_fails(usual, 2, "the server stops");
    assert_string_equal(master.published, "http=h ");
    set_up_again(state);
    master.waits_left = 0;
    assert_fails(usual, 4, "the server stops");
    assert_string_equal(master.published, "http=h ");
    set_up_again(state);
    master.waits_left = 2;
    assert_fails(usual, 7, "the server stops");
}

/* The delay doubles, or is that which the authority requests; at most ten seconds. */
TEST(delay_between_polls_is_bounded)
{
    static const struct step steps[] = {
        {.url = "new", .body = ORDER("pending")},
        {.url = "auth", .body = AUTHORIZATION("pending")},
        {.url = "http", .body = "{}"},
        {.url = "auth", .body = AUTHORIZATION("pending")},
        {.url = "auth", .body = AUTHORIZATION("pending")},
        {.url = "auth", .body = AUTHORIZATION("pending"), .retry_s = 3},
        {.url = "auth", .body = AUTHORIZATION("pending")},
        {.url = "auth", .body = AUTHORIZATION("pending")},
        {.url = "auth", .body = AUTHORIZATION("pending")},
        {.url = "auth", .body = AUTHORIZATION("pending"), .retry_s = 1},
        {.url = "auth", .body = AUTHORIZATION("pending"), .retry_s = 11},
        {.url = "auth", .body = AUTHORIZATION("invalid")},
    };

    assert_fails(steps, ARRAY_LENGTH(steps), "the authorization is invalid: no detail is given");
    assert_string_equal(scene.delays, "250 500 3000 6000 10000 10000 1000 10000 ");
}

TEST(polling_ends_after_300_seconds)
{
    struct step steps[STEPS_MAX] = {
        {.url = "new", .body = ORDER("pending")},
        {.url = "auth", .body = AUTHORIZATION("pending")},
        {.url = "http", .body = "{}"},
        {.url = "auth", .body = AUTHORIZATION("pending"), .retry_s = 1},
    };

    for (size_t i = 4; i < STEPS_MAX; i++)
        steps[i] = steps[3];
    assert_null(obtain(steps, STEPS_MAX, ""));
    assert_string_equal(acme.authority.why, "auth is still pending after 300 s");
    assert_true(master.now_ns > 301 * NS_PER_S && master.now_ns < 302 * NS_PER_S); /* from 1 s on */
}

TEST(preferred_challenge_is_chosen)
{
    static const struct step steps[] = {
        {.url = "new", .body = ORDER("pending")},
        {.url = "auth", .body = AUTHORIZATION("pending")},
        {.url = "alpn", .body = "{}", .refused = 400},
    };

    certificate.failures = 1;
    assert_fails(steps, ARRAY_LENGTH(steps), "answers 400: no");
    assert_string_equal(master.published, "alpn=a alpn= ");
}

TEST(authority_must_offer_a_challenge)
{
    static const struct step steps[] = {
        {.url = "new", .body = ORDER("pending")},
        {.url = "auth",
         .body = "{\"status\":\"pending\",\"challenges\":[{\"type\":\"tls-alpn-01\","
                 "\"url\":\"alpn\",\"token\":\"a\"}]}"},
        {.url = "alpn", .body = "{}", .refused = 400},
    };
    static const struct step neither[] = {
        {.url = "new", .body = ORDER("pending")},
        {.url = "auth", .body = "{\"status\":\"pending\"}"},
    };

    assert_fails(steps, 3, "answers 400: no");
    assert_string_equal(master.published, "alpn=a alpn= ");
    set_up_again(state);
    acme.settings.challenge_count = 1;
    assert_fails(steps, 2, "the authority offers no http-01 challenge");
    set_up_again(state);
    assert_fails(neither, 2, "the authority offers no http-01 and no tls-alpn-01 challenge");
}

TEST(token_is_checked)
{
    char longest[ACME_TOKEN_BYTES], too_long[ACME_TOKEN_BYTES + 1];
    const struct {
        const char *token;
        bool valid;
    } cases[] = {{"aZ09-_", true}, {longest, true}, {too_long, false},
                 {"", false},      {"a.b", false},  {"/", false}};

    memset(longest, 'x', sizeof(longest));
    longest[sizeof(longest) - 1] = '\0';
    memset(too_long, 'x', sizeof(too_long));
    too_long[sizeof(too_long) - 1] = '\0';
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char body[512];
        const struct step steps[] = {{.url = "new", .body = ORDER("pending")},
                                     {.url = "auth", .body = body},
                                     {.url = "http", .body = "", .refused = 400}};

        set_up_again(state);
        snprintf(body, sizeof(body),
                 "{\"status\":\"pending\",\"challenges\":[{\"type\":\"http-01\","
                 "\"url\":\"http\",\"token\":\"%s\"}]}",
                 cases[i].token);
        assert_fails(steps, cases[i].valid ? 3 : 2,
                     cases[i].valid ? "answers 400: no"
                                    : "the token of the challenge is not valid");
        assert_int_equal(master.challenges, cases[i].valid ? 2 : 1);
    }
}

TEST(authorization_may_be_valid_already)
{
    static const struct step steps[] = {
        {.url = "new", .body = ORDER("ready")},
        {.url = "auth", .body = AUTHORIZATION("valid")},
        {.url = "order", .body = ORDER("valid")},
        {.url = "cert", .body = "PEM"},
    };

    assert_obtained(steps, ARRAY_LENGTH(steps), "");
    assert_string_equal(master.published, "");
}

/* The error is in the challenge, or in the authorization. */
TEST(refused_authorization_is_explained)
{
    static const struct {
        const char *body, *why;
    } cases[] = {
        {"{\"status\":\"invalid\",\"challenges\":[{},{\"status\":\"invalid\","
         "\"error\":{\"detail\":\"no\"}}]}",
         "the authorization is invalid: no"},
        {"{\"status\":\"revoked\",\"error\":{\"detail\":\"never\"}}",
         "the authorization is revoked: never"},
        {"{\"status\":\"expired\",\"challenges\":[{}]}",
         "the authorization is expired: no detail is given"},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        const struct step steps[] = {{.url = "new", .body = ORDER("pending")},
                                     {.url = "auth", .body = cases[i].body}};

        set_up_again(state);
        assert_fails(steps, ARRAY_LENGTH(steps), cases[i].why);
    }
}

TEST(refused_order_is_explained)
{
    static const struct step steps[] = {
        {.url = "new", .body = ORDER("pending")},
        {.url = "auth", .body = AUTHORIZATION("valid")},
        {.url = "order", .body = "{\"status\":\"invalid\",\"error\":{\"detail\":\"no\"}}"},
    };

    assert_fails(steps, ARRAY_LENGTH(steps), "the order is invalid: no");
}

TEST(number_of_authorizations_is_bounded)
{
    static const struct {
        const char *list, *why;
        size_t steps;
    } cases[] = {
        {"", "the order has 0 authorizations", 1},
        {"\"auth\",\"auth\",\"auth\",\"auth\",\"auth\",\"auth\",\"auth\",\"auth\"",
         "answers 400: no", 10},
        {"\"auth\",\"auth\",\"auth\",\"auth\",\"auth\",\"auth\",\"auth\",\"auth\",\"auth\"",
         "the order has 9 authorizations", 1},
        {"\"auth\",5", "the order has no valid authorizations", 2},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char body[256];
        struct step steps[10] = {{.url = "new", .body = body}};

        set_up_again(state);
        snprintf(body, sizeof(body), "{\"status\":\"pending\",\"authorizations\":[%s]}",
                 cases[i].list);
        for (size_t n = 1; n < 9; n++)
            steps[n] = (struct step){.url = "auth", .body = AUTHORIZATION("valid")};
        steps[9] = (struct step){.url = "order", .body = "", .refused = 400};
        assert_fails(steps, cases[i].steps, cases[i].why);
    }
}

/* Again without what it replaces, if the authority may not accept that. */
TEST(order_names_what_it_replaces)
{
    static const struct {
        const char *replaces, *info;
        long refused;
        size_t orders;
        const char *first;
    } cases[] = {
        {"old", "info", 400, 2, "old"}, {"old", "info", 409, 2, "old"},
        {"old", "info", 499, 2, "old"}, {"old", "info", 399, 1, "old"},
        {"old", "info", 429, 1, "old"}, {"old", "info", 500, 1, "old"},
        {"old", "", 409, 1, "-"},       {"", "info", 409, 1, "-"},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        const struct step steps[] = {{.url = "new", .body = "", .refused = cases[i].refused},
                                     {.url = "new", .body = "", .refused = 503}};

        set_up_again(state);
        strcpy(acme.authority.renewal_info, cases[i].info);
        assert_null(obtain(steps, ARRAY_LENGTH(steps), cases[i].replaces));
        assert_int_equal(scene.orders, cases[i].orders);
        assert_string_equal(scene.replaces[0], cases[i].first);
        if (scene.orders > 1)
            assert_string_equal(scene.replaces[1], "-");
    }
    set_up_again(state);
    assert_obtained(usual, ARRAY_LENGTH(usual), "old");
    assert_string_equal(scene.replaces[0], "old");
}
