/* When failed handshakes are logged, and with which numbers. */
#include "daemon/master/internal.h"

#include "common/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void lines_get_rarer_while_handshakes_fail(void **state)
{
    static const struct {
        uint64_t second, version, client;
        const char *text; /* NULL: nothing is logged */
    } steps[] = {
        {1, 0, 0, NULL},
        {2, 1, 0, "no common version: 1"}, /* at once */
        {3, 2, 0, NULL},
        {61, 2, 5, NULL},
        {62, 2, 5, "no common version: 1; ended by the client: 5"}, /* after a minute */
        {63, 2, 6, NULL},
        {181, 2, 7, NULL},
        {182, 2, 7, "ended by the client: 2"}, /* then after two */
        {421, 2, 8, NULL},
        {422, 2, 8, "ended by the client: 1"}, /* and four */
        {902, 2, 8, NULL},                     /* nothing has failed since */
        {3000, 2, 8, NULL},
        {3001, 3, 8, "no common version: 1"}, /* after a pause at once */
        {3060, 4, 8, NULL},
        {3061, 4, 8, "no common version: 1"},
    };
    struct handshake_failures failures = {0};
    char text[256];

    (void)state;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        uint64_t count[HANDSHAKE_FAILURE_REASONS] = {steps[i].version, 0, steps[i].client};
        bool due = handshake_failures_text(&failures, &handshake_of_tls, count,
                                           steps[i].second * NS_PER_S, text, sizeof(text));

        assert_int_equal(due, steps[i].text != NULL);
        if (due)
            assert_string_equal(text, steps[i].text);
    }
}

static void there_is_at_least_one_line_an_hour(void **state)
{
    struct handshake_failures failures = {0};
    uint64_t count[HANDSHAKE_FAILURE_REASONS] = {0}, lines = 0;
    char text[256];

    (void)state;
    for (uint64_t second = 1; second <= UINT64_C(100) * 3600; second++) {
        count[5]++;
        lines += handshake_failures_text(&failures, &handshake_of_tls, count, second * NS_PER_S,
                                         text, sizeof(text));
    }
    assert_in_range(lines, 100, 110);
}

static void long_text_is_cut(void **state)
{
    struct handshake_failures failures = {0};
    const uint64_t count[HANDSHAKE_FAILURE_REASONS] = {1, 2, 3, 4, 5, UINT64_MAX};
    char text[256], small[20];

    (void)state;
    assert_true(
        handshake_failures_text(&failures, &handshake_of_tls, count, 1, text, sizeof(text)));
    assert_string_equal(text, "no common version: 1; no common cipher, group or signature: 2; "
                              "ended by the client: 3; request without TLS: 4; header_timeout: 5; "
                              "other reasons: 18446744073709551615");
    failures = (struct handshake_failures){0};
    assert_true(
        handshake_failures_text(&failures, &handshake_of_tls, count, 1, small, sizeof(small)));
    assert_string_equal(small, "no common version: ");
}

static void proxy_headers_have_reasons_of_their_own(void **state)
{
    struct handshake_failures failures = {0};
    const uint64_t count[HANDSHAKE_FAILURE_REASONS] = {1, 0, 3};
    char text[256];

    (void)state;
    assert_true(
        handshake_failures_text(&failures, &handshake_of_proxy, count, 1, text, sizeof(text)));
    assert_string_equal(text, "peer not in proxy.trusted: 1; header_timeout: 3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_get_rarer_while_handshakes_fail),
        cmocka_unit_test(there_is_at_least_one_line_an_hour),
        cmocka_unit_test(long_text_is_cut),
        cmocka_unit_test(proxy_headers_have_reasons_of_their_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
