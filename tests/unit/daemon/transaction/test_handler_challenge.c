/* Which requests are for the challenge of ACME, and the response to them. */
#include "daemon/transaction/handler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/macros.h"
#include "common/segment_reader.h"
#include "common/segment_writer.h"
#include "daemon/transaction/loading.h"
#include "daemon/transaction/memory.h"
#include "daemon/transaction/reply.h"
#include "tests/unit/own_segment.h"

#include <errno.h>
#include <stdio.h>

#define PATH "/.well-known/acme-challenge/"

static struct segment segment;
static struct worker_context worker;
static struct transaction_context context;
static struct challenge_copy challenge;
static bool out_of_memory;
static int made_room, status; /* status: of the response; 0: none */
static char body[512];

/* Replaced by the linker: see wrap() in tests/unit/CMakeLists.txt. */
/* NOLINTBEGIN(clang-diagnostic-reserved-identifier): names of the linker */
int __wrap_page_new(struct span path, const char *fields, const char *text, size_t length,
                    struct resource **page);
bool __wrap_memory_make_room(struct transaction_context *of);
enum transaction_result __wrap_reply_page(struct transaction *transaction, int with,
                                          struct resource *page);
enum transaction_result __wrap_reply_error(struct transaction *transaction, int with);
/* NOLINTEND(clang-diagnostic-reserved-identifier) */

int __wrap_page_new(struct span path, const char *fields, const char *text, size_t length,
                    struct resource **page)
{
    (void)path, (void)fields;
    *page = NULL;
    snprintf(body, sizeof(body), "%.*s", (int)length, text);
    return out_of_memory ? ENOMEM : 0;
}

bool __wrap_memory_make_room(struct transaction_context *of)
{
    assert_ptr_equal(of, &context);
    made_room++;
    return true;
}

enum transaction_result __wrap_reply_page(struct transaction *transaction, int with,
                                          struct resource *page)
{
    (void)transaction, (void)page;
    status = with;
    return TRANSACTION_DONE;
}

enum transaction_result __wrap_reply_error(struct transaction *transaction, int with)
{
    (void)transaction;
    status = with;
    return TRANSACTION_DONE;
}

static int begin(void **state)
{
    (void)state;
    challenge =
        (struct challenge_copy){.kind = CHALLENGE_HTTP_01, .token = "token", .thumbprint = "thumb"};
    if (own_segment_create(&segment, (struct segment_plan){0}) != 0)
        return -1;
    segment_store_challenge(&segment, &challenge);
    worker = (struct worker_context){.segment = &segment};
    context = (struct transaction_context){.worker = &worker};
    out_of_memory = false;
    made_room = 0;
    return 0;
}

static int end(void **state)
{
    (void)state;
    segment_destroy(&segment);
    return 0;
}

/* Returns the status of the response; 0: the request is not for the challenge. */
static int ask(enum http_method method, const char *target)
{
    const struct request request = {.method = method, .target = {target, strlen(target)}};
    struct transaction transaction = {.context = &context, .request = &request};
    enum transaction_result result = TRANSACTION_WAITING;
    bool answered;

    status = 0;
    body[0] = '\0';
    answered = handler_challenge(&transaction, &result);
    assert_int_equal(answered, status != 0);
    assert_int_equal(result, answered ? TRANSACTION_DONE : TRANSACTION_WAITING);
    return status;
}

static void token_is_answered_with_the_key_authorization(void **state)
{
    (void)state;
    assert_int_equal(ask(METHOD_GET, PATH "token"), 200);
    assert_string_equal(body, "token.thumb");
    assert_int_equal(ask(METHOD_HEAD, PATH "token"), 200);
    assert_int_equal(made_room, 0);
}

static void other_requests_are_not_for_the_challenge(void **state)
{
    static const char *const others[] = {PATH "toke", PATH "token2", PATH "Token", PATH,
                                         "/.well-known/acme-challenga/token"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(others); i++)
        assert_int_equal(ask(METHOD_GET, others[i]), 0);
    assert_int_equal(ask(METHOD_OPTIONS, PATH "token"), 0);
}

static void only_a_pending_http_01_is_answered(void **state)
{
    (void)state;
    challenge.kind = CHALLENGE_TLS_ALPN_01;
    segment_store_challenge(&segment, &challenge);
    assert_int_equal(ask(METHOD_GET, PATH "token"), 0);
    challenge = (struct challenge_copy){.kind = CHALLENGE_HTTP_01};
    segment_store_challenge(&segment, &challenge);
    assert_int_equal(ask(METHOD_GET, PATH), 0);
}

static void response_without_memory_is_503_and_makes_room(void **state)
{
    (void)state;
    out_of_memory = true;
    assert_int_equal(ask(METHOD_GET, PATH "token"), 503);
    assert_int_equal(made_room, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(token_is_answered_with_the_key_authorization, begin, end),
        cmocka_unit_test_setup_teardown(other_requests_are_not_for_the_challenge, begin, end),
        cmocka_unit_test_setup_teardown(only_a_pending_http_01_is_answered, begin, end),
        cmocka_unit_test_setup_teardown(response_without_memory_is_503_and_makes_room, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
