/* The table of certificates in shared memory. */
#include "daemon/master/certificates.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_reader.h"
#include "daemon/tls/context.h"
#include "tests/unit/own_segment.h"

#include <string.h>

enum { DAY_S = 86400 };

static struct server server;
static struct config config;
static struct certificates certificates;
static const struct tls_description *descriptions; /* of the certificates in use */
static size_t in_use;

/* Replaced by the linker: see wrap() in tests/unit/CMakeLists.txt. */
/* NOLINTBEGIN(clang-diagnostic-reserved-identifier): names of the linker */
void __wrap_tls_context_describe(const struct tls_context *context,
                                 void (*show)(void *owner,
                                              const struct tls_description *description),
                                 void *owner);
void __wrap_acme_process_check(struct acme_process *process, uint64_t timeout_ms,
                               uint64_t resumed_ns, uint64_t now_ns);
void __wrap_acme_process_stop(struct acme_process *process);
/* NOLINTEND(clang-diagnostic-reserved-identifier) */

void __wrap_tls_context_describe(const struct tls_context *context,
                                 void (*show)(void *owner,
                                              const struct tls_description *description),
                                 void *owner)
{
    assert_ptr_equal(context, server.tls);
    for (size_t i = 0; i < in_use; i++)
        show(owner, &descriptions[i]);
}

void __wrap_acme_process_check(struct acme_process *process, uint64_t timeout_ms,
                               uint64_t resumed_ns, uint64_t now_ns)
{
    (void)process, (void)timeout_ms, (void)resumed_ns, (void)now_ns;
}

void __wrap_acme_process_stop(struct acme_process *process)
{
    (void)process;
}

static int begin(void **state)
{
    (void)state;
    config = (struct config){.acme_enabled = false};
    server = (struct server){.config = &config, .tls = (struct tls_context *)&config /* any */};
    if (own_segment_create(&server.segment, (struct segment_plan){0}) != 0)
        return -1;
    certificates_init(&certificates, &server, NULL, NULL, NULL);
    return 0;
}

static int end(void **state)
{
    (void)state;
    segment_destroy(&server.segment);
    return 0;
}

static void publish(const struct tls_description *all, size_t count)
{
    descriptions = all;
    in_use = count;
    certificates_check(&certificates, 0, 0);
}

static struct certificate_copy entry(uint32_t number)
{
    struct certificate_copy copy;

    assert_true(segment_read_certificate(&server.segment, number, &copy));
    return copy;
}

static uint64_t ending(void)
{
    return metric_get(segment_master(&server.segment)->metrics, METRIC_certificates_ending);
}

static void names_of_a_certificate_are_joined(void **state)
{
    char *names[] = {"a.example", "b.example", "c.example"};
    const struct tls_description all[] = {
        {.issuer = "CA", .name = names, .name_count = 3, .not_before_s = 1, .not_after_s = 2},
        {.issuer = "", .name = names + 2, .name_count = 1}};
    struct certificate_copy copy;

    (void)state;
    publish(all, ARRAY_LENGTH(all));
    copy = entry(0);
    assert_string_equal(copy.names, "a.example b.example c.example");
    assert_string_equal(copy.issuer, "CA");
    assert_int_equal(copy.not_before_s, 1);
    assert_int_equal(copy.not_after_s, 2);
    assert_int_equal(copy.next_attempt_s, 0);
    assert_string_equal(copy.error, "");
    assert_string_equal(entry(1).names, "c.example");
    assert_false(segment_read_certificate(&server.segment, 2, &copy));
}

/* Both names with a blank fill the entry and its NUL, or need one byte more. */
static void name_that_does_not_fit_is_left_out(void **state)
{
    char first[sizeof(entry(0).names)], longer[sizeof(first) + 10],
        *names[] = {first, "b.example"}, *long_name[] = {longer, "b.example"};
    const struct tls_description two = {.issuer = "", .name = names, .name_count = 2},
                                 one = {.issuer = "", .name = long_name, .name_count = 2};

    (void)state;
    memset(first, 'a', sizeof(first));
    first[sizeof(first) - 1 - strlen(" b.example")] = '\0';
    publish(&two, 1);
    assert_int_equal(strlen(entry(0).names), sizeof(first) - 1);
    assert_string_equal(entry(0).names + strlen(first), " b.example");
    first[strlen(first)] = 'a';
    first[sizeof(first) - strlen(" b.example")] = '\0';
    publish(&two, 1);
    assert_string_equal(entry(0).names, first);
    memset(longer, 'l', sizeof(longer));
    longer[sizeof(longer) - 1] = '\0';
    publish(&one, 1);
    assert_int_equal(strlen(entry(0).names), sizeof(first) - 1);
}

static void certificates_that_end_soon_are_counted(void **state)
{
    static const struct {
        int64_t days, left_days;
        bool ends;
    } cases[] = {
        {90, 13, true}, {90, 15, false}, {30, 11, false}, {30, 9, true}, {90, -1, true},
    };
    int64_t now_s = (int64_t)(clock_wall_ns() / NS_PER_S);

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        const int64_t end_s = now_s + cases[i].left_days * DAY_S + DAY_S / 2;
        const struct tls_description one = {
            .issuer = "", .not_before_s = end_s - cases[i].days * DAY_S, .not_after_s = end_s};

        publish(&one, 1);
        assert_int_equal(ending(), cases[i].ends);
    }
    publish(NULL, 0);
    assert_int_equal(ending(), 0);
}

static void table_has_a_maximum(void **state)
{
    static struct tls_description many[SEGMENT_CERTIFICATES_MAX + 2];
    struct certificate_copy copy;

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(many); i++)
        many[i] = (struct tls_description){.issuer = "", .not_after_s = 1};
    publish(many, ARRAY_LENGTH(many));
    assert_true(segment_read_certificate(&server.segment, SEGMENT_CERTIFICATES_MAX - 1, &copy));
    assert_false(segment_read_certificate(&server.segment, SEGMENT_CERTIFICATES_MAX, &copy));
    assert_int_equal(ending(), SEGMENT_CERTIFICATES_MAX + 2);
}

static void plan_of_its_only_name_is_shown(void **state)
{
    char *configured[] = {"a.example", "b.example"}, *names[] = {"B.example", "c.example"};
    struct acme_plan plan[] = {
        {.known = true, .next_s = 10},
        {.known = true, .next_s = 20, .failures = 3, .error = "refused"},
    };
    struct tls_description one = {.issuer = "", .name = names, .name_count = 1};

    (void)state;
    config.acme_names = (struct config_names){configured, ARRAY_LENGTH(configured)};
    certificates.process.plan = plan;
    certificates.process.plan_count = ARRAY_LENGTH(plan);
    publish(&one, 1);
    assert_int_equal(entry(0).next_attempt_s, 20);
    assert_int_equal(entry(0).failures, 3);
    assert_string_equal(entry(0).error, "refused");
    one.name_count = 2;
    publish(&one, 1);
    assert_int_equal(entry(0).next_attempt_s, 0);
    one.name_count = 1;
    plan[1].known = false;
    publish(&one, 1);
    assert_int_equal(entry(0).next_attempt_s, 0);
    plan[1].known = true;
    certificates.process.plan_count = 1; /* of the configuration before */
    publish(&one, 1);
    assert_int_equal(entry(0).next_attempt_s, 0);
}

static void server_without_tls_has_none(void **state)
{
    struct certificate_copy copy;

    (void)state;
    server.tls = NULL;
    in_use = 1;
    certificates_check(&certificates, 0, 0);
    assert_false(segment_read_certificate(&server.segment, 0, &copy));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(names_of_a_certificate_are_joined),      TEST(name_that_does_not_fit_is_left_out),
        TEST(certificates_that_end_soon_are_counted), TEST(table_has_a_maximum),
        TEST(plan_of_its_only_name_is_shown),         TEST(server_without_tls_has_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
