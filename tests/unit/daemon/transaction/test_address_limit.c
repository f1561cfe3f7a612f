/* Limits of single clients: which one holds for an address, and how rates are charged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/clock.h"
#include "daemon/transaction/address_limit.h"
#include "daemon/transaction/rate_limit.h"
#include "tests/unit/own_segment.h"

#include <arpa/inet.h>
#include <string.h>

#define START (UINT64_C(1000) * NS_PER_S)

static struct segment segment;

static int begin(void **state)
{
    (void)state;
    if (own_segment_create(&segment, (struct segment_plan){.max_workers = 1}) != 0)
        return -1;
    rate_limit_prepare(&segment);
    return 0;
}

static int end(void **state)
{
    (void)state;
    segment_destroy(&segment);
    return 0;
}

/* Fills entry I as the master does. */
static void set(uint32_t i, const char *text, uint32_t rate, uint64_t until_ns)
{
    struct segment_address_limit *entry = &segment_address_limits(&segment)->entry[i];
    struct network network;
    uint64_t words[2];

    assert_int_equal(network_parse(text, &network), NETWORK_GOOD);
    memcpy(words, network.address, sizeof(words));
    entry->address[0] = words[0];
    entry->address[1] = words[1];
    entry->prefix = network.prefix;
    entry->requests_per_second = rate;
    entry->id = i + 1;
    entry->until_ns = until_ns;
    segment_address_limits(&segment)->count = i + 1;
}

/* The rate of the limit that holds for TEXT; -1: none. */
static int rate_of(const char *text, uint64_t now_ns)
{
    struct address_limit limit;
    uint8_t address[CLIENT_ADDRESS_BYTES];

    assert_int_equal(inet_pton(AF_INET6, text, address), 1);
    return address_limit_find(&segment, address, now_ns, &limit) ? (int)limit.requests_per_second
                                                                 : -1;
}

static void smallest_network_holds(void **state)
{
    (void)state;
    assert_false(address_limits_exist(&segment));
    set(0, "10.1.0.0/16", 2, START + 1);
    set(1, "10.0.0.0/8", 1, START + 1);
    set(2, "10.1.2.3", 0, START + 1);
    set(3, "2001:db8::/64", 4, START + 1);
    assert_true(address_limits_exist(&segment));
    assert_int_equal(rate_of("::ffff:10.9.9.9", START), 1);
    assert_int_equal(rate_of("::ffff:10.1.9.9", START), 2);
    assert_int_equal(rate_of("::ffff:10.1.2.3", START), 0);
    assert_int_equal(rate_of("::ffff:11.1.2.3", START), -1);
    assert_int_equal(rate_of("2001:db8::7", START), 4);
    assert_int_equal(rate_of("2001:db8:0:1::7", START), -1);
    assert_int_equal(rate_of("::", START), -1); /* a UNIX socket */
}

static void limit_ends_at_its_time(void **state)
{
    (void)state;
    set(0, "10.0.0.0/8", 1, START);
    assert_int_equal(rate_of("::ffff:10.1.2.3", START - 1), 1);
    assert_int_equal(rate_of("::ffff:10.1.2.3", START), -1);
}

static void rate_is_charged_by_limit(void **state)
{
    uint64_t key = client_limit_key(7), other = client_limit_key(8);

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(rate_limit_charge_at(&segment, key, 3, START), 0);
    assert_true(rate_limit_charge_at(&segment, key, 3, START) > 0);
    assert_int_equal(rate_limit_charge_at(&segment, other, 3, START), 0);
    assert_int_equal(rate_limit_charge_at(&segment, key, 3, START + NS_PER_S), 0);
    assert_int_equal(rate_limit_rejected(&segment, key), 1);
    assert_int_equal(rate_limit_rejected(&segment, other), 0);
}

static void blocked_requests_are_counted(void **state)
{
    uint64_t key = client_limit_key(9);

    (void)state;
    assert_int_equal(rate_limit_rejected(&segment, key), 0);
    for (int i = 0; i < 5; i++)
        rate_limit_count(&segment, key, START);
    assert_int_equal(rate_limit_rejected(&segment, key), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(smallest_network_holds, begin, end),
        cmocka_unit_test_setup_teardown(limit_ends_at_its_time, begin, end),
        cmocka_unit_test_setup_teardown(rate_is_charged_by_limit, begin, end),
        cmocka_unit_test_setup_teardown(blocked_requests_are_counted, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
