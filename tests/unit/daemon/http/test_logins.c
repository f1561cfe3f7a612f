/* Authorization: Basic; verified passwords, failures of clients, and the check of a password. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/macros.h"
#include "daemon/http/logins.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *value, *name, *password; /* name NULL: no credentials */
} cases[] = {
    {"Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", "Aladdin", "open sesame"}, /* RFC 7617 section 2 */
    {"Basic dGVzdDoxMjPCow==", "test", "123\xc2\xa3"},                /* section 2.1 */
    {"bAsIc   dGVzdDoxMjPCow==", "test", "123\xc2\xa3"},
    {"Basic YTpiOmM=", "a", "b:c"},
    {"Basic Og==", "", ""},
    {"Basic OmI=", "", "b"},
    {"Basic YTo=", "a", ""},
    {"Basic YTpiYw==", "a", "bc"},
    {"Basic YTpi", "a", "b"},
    {"", NULL, NULL},
    {"Basic", NULL, NULL},
    {"Basic ", NULL, NULL},
    {"Basic =", NULL, NULL},
    {"Basic ====", NULL, NULL},
    {"Basic Y===", NULL, NULL},
    {"Basic YTpiYw=", NULL, NULL},
    {"Basic YTpiYw", NULL, NULL},
    {"Basic YTpiYx==", NULL, NULL}, /* bits after the last byte */
    {"Basic YT=pi", NULL, NULL},
    {"Basic YT pi", NULL, NULL},
    {"Basic YTpi YTpi", NULL, NULL},
    {"Basic YTp_", NULL, NULL},
    {"Basic YWJj", NULL, NULL},     /* abc: no colon */
    {"Basic YQo6Yg==", NULL, NULL}, /* a line feed */
    {"Basic YTpiAA==", NULL, NULL}, /* NUL */
    {"Basic YTp/", NULL, NULL},     /* DEL */
    {"Bearer YTpi", NULL, NULL},
    {"BasicYTpi", NULL, NULL},
};

static void credentials_are_read_or_refused(void **state)
{
    struct credentials read;

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct span value = {cases[i].value, strlen(cases[i].value)};
        bool good = credentials_read(value, &read);

        if (good != (cases[i].name != NULL) ||
            (good && (!span_is(read.name, (struct span){cases[i].name, strlen(cases[i].name)}) ||
                      !span_is(read.password,
                               (struct span){cases[i].password, strlen(cases[i].password)}))))
            fail_msg("%s", cases[i].value);
    }
}

/* Also in memory that ends with the value: a sanitizer finds bytes read after it. */
static void every_length_up_to_the_limit_is_read(void **state)
{
    char text[CREDENTIALS_MAX + 8], value[sizeof("Basic ") + 2 * sizeof(text)] = "Basic ";
    struct credentials read;

    (void)state;
    memset(text, 'x', sizeof(text));
    text[0] = ':';
    for (int length = 1; length < (int)sizeof(text); length++) {
        int used = 6 + EVP_EncodeBlock((unsigned char *)value + 6, (unsigned char *)text, length);
        char *copy = malloc((size_t)used);

        assert_non_null(copy);
        memcpy(copy, value, (size_t)used);
        assert_int_equal(credentials_read((struct span){copy, (size_t)used}, &read),
                         length <= CREDENTIALS_MAX);
        if (length <= CREDENTIALS_MAX)
            assert_int_equal(read.password.length, length - 1);
        for (size_t part = 0; part < (size_t)used; part++)
            credentials_read((struct span){copy + (size_t)used - part, part}, &read);
        free(copy);
    }
}

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
        cmocka_unit_test(credentials_are_read_or_refused),
        cmocka_unit_test(every_length_up_to_the_limit_is_read),
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
