/* Setting, ending and passing on the limits of single clients. */
#include "common/clock.h"
#include "daemon/base/memory_file.h"
#include "daemon/master/internal.h"
#include "tests/test.h"
#include "tests/unit/own_segment.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define START (UINT64_C(1000) * NS_PER_S)

static struct segment segment;

static int begin(void **state)
{
    (void)state;
    return own_segment_create(&segment, (struct segment_plan){.max_workers = 1});
}

static int end(void **state)
{
    (void)state;
    segment_destroy(&segment);
    return 0;
}

const struct test_fixture test_fixture = {begin, end};

static struct address_limit limit_of(const char *text, uint32_t rate, uint64_t until_ns)
{
    struct address_limit limit = {.until_ns = until_ns, .requests_per_second = rate};

    assert_int_equal(network_parse(text, &limit.network), NETWORK_GOOD);
    return limit;
}

static int set(const char *text, uint32_t rate, uint64_t until_ns)
{
    struct address_limit limit = limit_of(text, rate, until_ns);

    return address_limits_set(&segment, &limit);
}

/* The rate of the limit of TEXT; -1: none. */
static int get(const char *text)
{
    struct address_limit wanted = limit_of(text, 0, 0), limit;

    return address_limits_get(&segment, &wanted.network, &limit) ? (int)limit.requests_per_second
                                                                 : -1;
}

TEST(limit_of_a_network_is_replaced)
{
    struct address_limit network = limit_of("10.0.0.0/8", 0, 0);

    assert_int_equal(set("10.0.0.0/8", 1, START), 0);
    assert_int_equal(set("10.0.0.0/9", 2, START), 0);
    assert_int_equal(set("10.0.0.0/8", 3, START), 0);
    assert_int_equal(get("10.0.0.0/8"), 3);
    assert_int_equal(get("10.0.0.0/9"), 2);
    assert_int_equal(segment_address_limits(&segment)->count, 2);
    address_limits_remove(&segment, &network.network);
    address_limits_remove(&segment, &network.network);
    assert_int_equal(get("10.0.0.0/8"), -1);
    assert_int_equal(segment_address_limits(&segment)->count, 1);
}

TEST(table_is_bounded)
{
    char text[32];

    for (int i = 0; i < SEGMENT_ADDRESS_LIMITS_MAX; i++) {
        snprintf(text, sizeof(text), "10.0.0.%d", i);
        assert_int_equal(set(text, 1, START + (uint64_t)i), 0);
    }
    assert_int_equal(set("10.0.1.0", 1, START), -1);
    assert_int_equal(set("10.0.0.7", 9, START), 0); /* it has one already */
    address_limits_expire(&segment, START);         /* those of 10.0.0.0 and 10.0.0.7 */
    assert_int_equal(get("10.0.0.0"), -1);
    assert_int_equal(get("10.0.0.7"), -1);
    assert_int_equal(get("10.0.0.1"), 1);
    assert_int_equal(segment_address_limits(&segment)->count, SEGMENT_ADDRESS_LIMITS_MAX - 2);
    assert_int_equal(set("10.0.1.0", 1, START), 0);
}

TEST(limits_are_passed_on)
{
    int fd;

    assert_int_equal(address_limits_save(&segment), -1); /* none */
    assert_int_equal(set("10.0.0.0/8", 0, START), 0);
    assert_int_equal(set("2001:db8::/64", 5, START), 0);
    fd = address_limits_save(&segment);
    assert_true(fd >= 0);
    end(state);
    assert_int_equal(begin(state), 0);
    address_limits_restore(&segment, fd);
    assert_int_equal(get("10.0.0.0/8"), 0);
    assert_int_equal(get("2001:db8::/64"), 5);
    address_limits_restore(&segment, -1);
}

TEST(wrong_file_is_ignored)
{
    int fd = memory_file_open("test");

    assert_true(fd >= 0);
    assert_int_equal(write(fd, "limits 1", 8), 8);
    assert_int_equal(memory_file_seal(fd), 0);
    address_limits_restore(&segment, fd);
    assert_false(address_limits_exist(&segment));
}
