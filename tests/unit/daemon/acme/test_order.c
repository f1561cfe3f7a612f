/* Orders with an authority that answers by a script. authority_post() and the clock are replaced. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/macros.h"
#include "daemon/acme/order.h"
#include "daemon/base/messages.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

enum { STEPS_MAX = 400, EVENTS_BYTES = 1024 };

static struct scene {
    const struct step *steps;
    size_t step_count, done;
    bool no_location;
    char replaces[2][16]; /* of each request for an order; "-": none */
    size_t orders;
    char csr[16];
    char events[EVENTS_BYTES]; /* what the owner has been called for */
    int publish_fails_at, published;
    int waits_left; /* -1: no limit */
    uint64_t now_ns;
    struct authority authority;
    struct order_owner owner;
} scene;

/* Replaced by the linker: see wrap() in tests/unit/CMakeLists.txt. */
/* NOLINTBEGIN(clang-diagnostic-reserved-identifier): names of the linker */
int __wrap_authority_post(struct authority *authority, const char *url, json_t *payload,
                          struct authority_answer *answer);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);
/* NOLINTEND(clang-diagnostic-reserved-identifier) */

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
    (void)clock;
    time->tv_sec = (time_t)(scene.now_ns / NS_PER_S);
    time->tv_nsec = (long)(scene.now_ns % NS_PER_S);
    return 0;
}

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

int __wrap_authority_post(struct authority *authority, const char *url, json_t *payload,
                          struct authority_answer *answer)
{
    const struct step *step = &scene.steps[scene.done++];

    assert_true(scene.done <= scene.step_count);
    assert_string_equal(url, step->url);
    if (strcmp(url, "new") == 0)
        read_order(payload);
    if (strcmp(url, "final") == 0)
        snprintf(scene.csr, sizeof(scene.csr), "%s", authority_text(payload, "csr"));
    json_decref(payload);
    authority->status = step->refused;
    if (step->refused != 0)
        return authority_fail(authority, "refused with %ld", step->refused);
    *answer = (struct authority_answer){.json = json_loads(step->body, 0, NULL),
                                        .text = strdup(step->body),
                                        .retry_after_s = step->retry_s};
    if (strcmp(url, "new") == 0 && !scene.no_location)
        strcpy(answer->location, "order");
    return 0;
}

static void __attribute__((format(printf, 1, 2))) note(const char *format, ...)
{
    size_t used = strlen(scene.events);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(scene.events + used, sizeof(scene.events) - used, format, arguments);
    va_end(arguments);
}

static int on_publish(void *context, enum challenge_kind kind, const char *token)
{
    assert_ptr_equal(context, &scene);
    note("%s=%s ", kind == CHALLENGE_HTTP_01 ? "http" : "alpn", token);
    return ++scene.published == scene.publish_fails_at ? -1 : 0;
}

static bool on_wait(void *context, uint32_t ms)
{
    assert_ptr_equal(context, &scene);
    note("%u ", ms);
    scene.now_ns += (ms < 1000 ? 1000 : ms) * NS_PER_MS;
    return scene.waits_left < 0 || scene.waits_left-- > 0;
}

static int set_up(void **state)
{
    (void)state;
    scene = (struct scene){.waits_left = -1,
                           .now_ns = NS_PER_S,
                           .owner = {.kind = {CHALLENGE_HTTP_01, CHALLENGE_TLS_ALPN_01},
                                     .kind_count = 2,
                                     .publish = on_publish,
                                     .wait = on_wait,
                                     .context = &scene}};
    strcpy(scene.authority.new_order, "new");
    strcpy(scene.authority.renewal_info, "info");
    return 0;
}

/* Returns the certificate, which the caller frees. */
static char *obtain(const struct step *steps, size_t count, const char *replaces)
{
    scene.steps = steps;
    scene.step_count = count;
    scene.done = 0;
    return order_obtain(&scene.authority, &scene.owner, "a.example", "csr", replaces);
}

/* The order fails after all COUNT answers with WHY. */
static void assert_fails(const struct step *steps, size_t count, const char *why)
{
    assert_null(obtain(steps, count, ""));
    assert_int_equal(scene.done, count);
    assert_string_equal(scene.authority.why, why);
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

static void certificate_is_obtained(void **state)
{
    (void)state;
    assert_obtained(usual, ARRAY_LENGTH(usual), "");
    assert_string_equal(scene.events, "http=h 250 500 http= 250 250 500 ");
    assert_string_equal(scene.csr, "csr");
    assert_int_equal(scene.orders, 1);
    assert_string_equal(scene.replaces[0], "-");
}

/* The workers no longer answer a challenge then. */
static void refusal_of_each_request_ends_the_order(void **state)
{
    for (size_t i = 0; i < ARRAY_LENGTH(usual); i++) {
        struct step steps[ARRAY_LENGTH(usual)];

        set_up(state);
        memcpy(steps, usual, sizeof(usual));
        steps[i].refused = 500;
        assert_fails(steps, i + 1, "refused with 500");
        assert_int_equal(strstr(scene.events, "http=h") != NULL, i >= 2);
        assert_int_equal(strstr(scene.events, "http= ") != NULL, i >= 2);
    }
}

static void answer_without_object_ends_the_order(void **state)
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

        set_up(state);
        memcpy(steps, usual, sizeof(usual));
        steps[cases[i].at].body = "";
        assert_fails(steps, cases[i].at + 1, cases[i].why);
    }
    set_up(state);
    scene.no_location = true;
    assert_fails(usual, 1, "new answers without an order");
}

static void end_of_the_process_ends_the_order(void **state)
{
    (void)state;
    scene.publish_fails_at = 1;
    assert_fails(usual, 2, "the server stops");
    assert_string_equal(scene.events, "http=h http= ");
    set_up(state);
    scene.waits_left = 0;
    assert_fails(usual, 4, "the server stops");
    assert_string_equal(scene.events, "http=h 250 http= ");
    set_up(state);
    scene.waits_left = 2;
    assert_fails(usual, 7, "the server stops");
}

/* The delay doubles, or is that which the authority requests; at most ten seconds. */
static void delay_between_polls_is_bounded(void **state)
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

    (void)state;
    assert_fails(steps, ARRAY_LENGTH(steps), "the authorization is invalid: no detail is given");
    assert_string_equal(scene.events, "http=h 250 500 3000 6000 10000 10000 1000 10000 http= ");
}

static void polling_ends_after_300_seconds(void **state)
{
    struct step steps[STEPS_MAX] = {
        {.url = "new", .body = ORDER("pending")},
        {.url = "auth", .body = AUTHORIZATION("pending")},
        {.url = "http", .body = "{}"},
        {.url = "auth", .body = AUTHORIZATION("pending"), .retry_s = 1},
    };

    (void)state;
    for (size_t i = 4; i < STEPS_MAX; i++)
        steps[i] = steps[3];
    assert_null(obtain(steps, STEPS_MAX, ""));
    assert_string_equal(scene.authority.why, "auth is still pending after 300 s");
    assert_int_equal(scene.now_ns, 302 * NS_PER_S); /* from 1 s on */
}

static void preferred_challenge_is_chosen(void **state)
{
    static const struct step steps[] = {
        {.url = "new", .body = ORDER("pending")},
        {.url = "auth", .body = AUTHORIZATION("pending")},
        {.url = "alpn", .body = "{}", .refused = 400},
    };

    (void)state;
    scene.owner.kind[0] = CHALLENGE_TLS_ALPN_01;
    scene.owner.kind[1] = CHALLENGE_HTTP_01;
    assert_fails(steps, ARRAY_LENGTH(steps), "refused with 400");
    assert_string_equal(scene.events, "alpn=a alpn= ");
}

static void authority_must_offer_a_challenge(void **state)
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

    assert_fails(steps, 3, "refused with 400");
    assert_string_equal(scene.events, "alpn=a alpn= ");
    set_up(state);
    scene.owner.kind_count = 1;
    assert_fails(steps, 2, "the authority offers no http-01 challenge");
    set_up(state);
    assert_fails(neither, 2, "the authority offers no http-01 and no tls-alpn-01 challenge");
}

static void token_is_checked(void **state)
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

        set_up(state);
        snprintf(body, sizeof(body),
                 "{\"status\":\"pending\",\"challenges\":[{\"type\":\"http-01\","
                 "\"url\":\"http\",\"token\":\"%s\"}]}",
                 cases[i].token);
        assert_fails(steps, cases[i].valid ? 3 : 2,
                     cases[i].valid ? "refused with 400"
                                    : "the token of the challenge is not valid");
        assert_int_equal(scene.published, cases[i].valid ? 2 : 1);
    }
}

static void authorization_may_be_valid_already(void **state)
{
    static const struct step steps[] = {
        {.url = "new", .body = ORDER("ready")},
        {.url = "auth", .body = AUTHORIZATION("valid")},
        {.url = "order", .body = ORDER("valid")},
        {.url = "cert", .body = "PEM"},
    };

    (void)state;
    assert_obtained(steps, ARRAY_LENGTH(steps), "");
    assert_string_equal(scene.events, "");
}

/* The error is in the challenge, or in the authorization. */
static void refused_authorization_is_explained(void **state)
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

        set_up(state);
        assert_fails(steps, ARRAY_LENGTH(steps), cases[i].why);
    }
}

static void refused_order_is_explained(void **state)
{
    static const struct step steps[] = {
        {.url = "new", .body = ORDER("pending")},
        {.url = "auth", .body = AUTHORIZATION("valid")},
        {.url = "order", .body = "{\"status\":\"invalid\",\"error\":{\"detail\":\"no\"}}"},
    };

    (void)state;
    assert_fails(steps, ARRAY_LENGTH(steps), "the order is invalid: no");
}

static void number_of_authorizations_is_bounded(void **state)
{
    static const struct {
        const char *list, *why;
        size_t steps;
    } cases[] = {
        {"", "the order has 0 authorizations", 1},
        {"\"auth\",\"auth\",\"auth\",\"auth\",\"auth\",\"auth\",\"auth\",\"auth\"",
         "refused with 400", 10},
        {"\"auth\",\"auth\",\"auth\",\"auth\",\"auth\",\"auth\",\"auth\",\"auth\",\"auth\"",
         "the order has 9 authorizations", 1},
        {"\"auth\",5", "the order has no valid authorizations", 2},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char body[256];
        struct step steps[10] = {{.url = "new", .body = body}};

        set_up(state);
        snprintf(body, sizeof(body), "{\"status\":\"pending\",\"authorizations\":[%s]}",
                 cases[i].list);
        for (size_t n = 1; n < 9; n++)
            steps[n] = (struct step){.url = "auth", .body = AUTHORIZATION("valid")};
        steps[9] = (struct step){.url = "order", .body = "", .refused = 400};
        assert_fails(steps, cases[i].steps, cases[i].why);
    }
}

/* Again without what it replaces, if the authority may not accept that. */
static void order_names_what_it_replaces(void **state)
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

        set_up(state);
        strcpy(scene.authority.renewal_info, cases[i].info);
        assert_null(obtain(steps, ARRAY_LENGTH(steps), cases[i].replaces));
        assert_int_equal(scene.orders, cases[i].orders);
        assert_string_equal(scene.replaces[0], cases[i].first);
        if (scene.orders > 1)
            assert_string_equal(scene.replaces[1], "-");
    }
    set_up(state);
    assert_obtained(usual, ARRAY_LENGTH(usual), "old");
    assert_string_equal(scene.replaces[0], "old");
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(certificate_is_obtained),
        TEST(refusal_of_each_request_ends_the_order),
        TEST(answer_without_object_ends_the_order),
        TEST(end_of_the_process_ends_the_order),
        TEST(delay_between_polls_is_bounded),
        TEST(polling_ends_after_300_seconds),
        TEST(preferred_challenge_is_chosen),
        TEST(authority_must_offer_a_challenge),
        TEST(token_is_checked),
        TEST(authorization_may_be_valid_already),
        TEST(refused_authorization_is_explained),
        TEST(refused_order_is_explained),
        TEST(number_of_authorizations_is_bounded),
        TEST(order_names_what_it_replaces),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
