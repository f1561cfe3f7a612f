#include "daemon/http/logins.h"

#include "common/clock.h"
#include "common/macros.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

/* "secret" in each kind that a users file may have. */
static const char *const hashes[] = {
    "$2y$04$5XhDl3TiqzB1DuOGmNAa9uw6xdLgaZl5aCtOlf4LaptCS28p6Vp4y",
    "$5$rounds=1000$salt$CCvcOM6b7TEJDPb37Aec/9UpOg4QhPNAxPpL9ZzjTB7",
    ("$6$rounds=1000$salt$HNxBeBnDfSfUrTj6KiLnmd7tGCvHEmcExh8kl/"
     "S0cZ5WrCciNZgfhbpkeFQ4JfkHX.8vPq45lY0iINnCx1Lkm."),
};

enum { FAILURES = 3, CLIENT = 7 };

#define MINUTE_NS (60 * NS_PER_S)

static struct credentials credentials_of(const char *text)
{
    struct credentials credentials = {.length = strlen(text)};

    memcpy(credentials.bytes, text, credentials.length);
    return credentials;
}

static bool is_right(const char *password, const char *expected, bool exists)
{
    static struct password_check check;

    check = (struct password_check){.expected = expected, .exists = exists};
    strcpy(check.password, password);
    password_check_run(&check);
    return check.good;
}

static void password_is_right_or_wrong_for_each_kind_of_hash(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(hashes); i++) {
        assert_true(is_right("secret", hashes[i], true));
        assert_false(is_right("Secret", hashes[i], true));
        assert_false(is_right("", hashes[i], true));
    }
}

static void stand_in_is_never_right(void **state)
{
    (void)state;
    assert_false(is_right("secret", hashes[0], false));
}

static void malformed_hash_is_never_right(void **state)
{
    (void)state;
    assert_false(is_right("secret", "$2y$04$", true));
    assert_false(is_right("*0", "*0", true));
}

static void remembers_file_name_and_password_together(void **state)
{
    struct logins *logins = logins_new(FAILURES);
    const struct credentials right = credentials_of("ann:secret"),
                             other = credentials_of("ann:Secret");
    struct siphash hash = logins_hash(logins, "/etc/users", &right), another;

    (void)state;
    assert_false(logins_is_verified(logins, &hash));
    logins_remember(logins, &hash);
    logins_remember(logins, &hash);
    assert_true(logins_is_verified(logins, &hash));
    another = logins_hash(logins, "/etc/users", &other);
    assert_false(logins_is_verified(logins, &another));
    another = logins_hash(logins, "/etc/others", &right);
    assert_false(logins_is_verified(logins, &another));
    logins_free(logins);
}

static void another_table_has_other_hashes(void **state)
{
    struct logins *one = logins_new(FAILURES), *other = logins_new(FAILURES);
    const struct credentials credentials = credentials_of("ann:secret");
    struct siphash hash = logins_hash(one, "/etc/users", &credentials);

    (void)state;
    logins_remember(other, &hash);
    hash = logins_hash(other, "/etc/users", &credentials);
    assert_false(logins_is_verified(other, &hash));
    logins_free(one);
    logins_free(other);
}

static void full_table_forgets_but_accepts_nothing_else(void **state)
{
    struct logins *logins = logins_new(FAILURES);
    uint32_t known = 0;

    (void)state;
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 10000; i++) {
            struct credentials credentials;
            struct siphash hash;
            char text[32];

            snprintf(text, sizeof(text), "user%d:%d", i, i);
            credentials = credentials_of(text);
            hash = logins_hash(logins, "/etc/users", &credentials);
            if (round == 0) {
                assert_false(logins_is_verified(logins, &hash));
                logins_remember(logins, &hash);
                assert_true(logins_is_verified(logins, &hash));
            } else {
                known += logins_is_verified(logins, &hash);
            }
        }
    assert_in_range(known, 1000, 9000);
    logins_free(logins);
}

static void client_over_the_limit_waits_until_the_rate_allows(void **state)
{
    struct logins *logins = logins_new(FAILURES);
    uint64_t now = 1000 * NS_PER_S;

    (void)state;
    for (int i = 0; i < FAILURES; i++) {
        assert_int_equal(logins_wait_ns(logins, CLIENT, now), 0);
        logins_add_failure(logins, CLIENT, now);
    }
    assert_int_equal(logins_wait_ns(logins, CLIENT, now), MINUTE_NS / FAILURES);
    assert_int_equal(logins_wait_ns(logins, CLIENT + 1, now), 0);
    assert_int_equal(logins_wait_ns(logins, CLIENT, now + MINUTE_NS / FAILURES), 0);
    logins_add_failure(logins, CLIENT, now);
    assert_int_equal(logins_wait_ns(logins, CLIENT, now), 2 * MINUTE_NS / FAILURES);
    logins_free(logins);
}

static void wait_is_at_most_an_hour(void **state)
{
    struct logins *logins = logins_new(FAILURES);
    uint64_t now = 1000 * NS_PER_S;

    (void)state;
    for (int i = 0; i < 1000; i++)
        logins_add_failure(logins, CLIENT, now);
    assert_int_equal(logins_wait_ns(logins, CLIENT, now), 60 * MINUTE_NS);
    logins_free(logins);
}

static void no_limit_and_no_address_never_wait(void **state)
{
    struct logins *unlimited = logins_new(0), *limited = logins_new(1);

    (void)state;
    for (int i = 0; i < 10; i++) {
        logins_add_failure(unlimited, CLIENT, NS_PER_S);
        logins_add_failure(limited, 0, NS_PER_S);
    }
    assert_int_equal(logins_wait_ns(unlimited, CLIENT, NS_PER_S), 0);
    assert_int_equal(logins_wait_ns(limited, 0, NS_PER_S), 0);
    logins_free(unlimited);
    logins_free(limited);
}

static void stand_in_of_a_name_stays_the_same(void **state)
{
    struct logins *logins = logins_new(FAILURES);
    size_t seen[4] = {0};

    (void)state;
    for (int i = 0; i < 100; i++) {
        char name[16];
        struct span span = {name, (size_t)snprintf(name, sizeof(name), "user%d", i)};
        size_t at = logins_stand_in(logins, span, ARRAY_LENGTH(seen));

        assert_true(at < ARRAY_LENGTH(seen));
        assert_int_equal(logins_stand_in(logins, span, ARRAY_LENGTH(seen)), at);
        seen[at]++;
    }
    for (size_t i = 0; i < ARRAY_LENGTH(seen); i++)
        assert_true(seen[i] > 0);
    logins_free(logins);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(password_is_right_or_wrong_for_each_kind_of_hash),
        cmocka_unit_test(stand_in_is_never_right),
        cmocka_unit_test(malformed_hash_is_never_right),
        cmocka_unit_test(remembers_file_name_and_password_together),
        cmocka_unit_test(another_table_has_other_hashes),
        cmocka_unit_test(full_table_forgets_but_accepts_nothing_else),
        cmocka_unit_test(client_over_the_limit_waits_until_the_rate_allows),
        cmocka_unit_test(wait_is_at_most_an_hour),
        cmocka_unit_test(no_limit_and_no_address_never_wait),
        cmocka_unit_test(stand_in_of_a_name_stays_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
