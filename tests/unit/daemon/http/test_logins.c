/* Authorization: Basic; verified passwords, failures of clients, and the check of a password. */
#include "common/client_address.h"
#include "common/clock.h"
#include "common/macros.h"
#include "daemon/http/logins.h"
#include "tests/test.h"

#include <openssl/evp.h>
#include <poll.h>
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

TEST(credentials_are_read_or_refused)
{
    struct credentials read;

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct span value = span_of(cases[i].value);
        bool good = credentials_read(value, &read);

        if (good != (cases[i].name != NULL) ||
            (good && (!span_is(read.name, span_of(cases[i].name)) ||
                      !span_is(read.password, span_of(cases[i].password)))))
            fail_msg("%s", cases[i].value);
    }
}

/* Also in memory that ends with the value: a sanitizer finds bytes read after it. */
TEST(every_length_up_to_the_limit_is_read)
{
    char text[CREDENTIALS_MAX + 8], value[sizeof("Basic ") + 2 * sizeof(text)] = "Basic ";
    struct credentials read;

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

/* "secret" */
static const char hash_of_secret[] = "$2y$04$5XhDl3TiqzB1DuOGmNAa9uw6xdLgaZl5aCtOlf4LaptCS28p6Vp4y";

enum { FAILURES = 3, CLIENT = 7 };

#define MINUTE_NS (60 * NS_PER_S)

static struct credentials credentials_of(const char *text)
{
    struct credentials credentials = {.length = strlen(text)};

    memcpy(credentials.bytes, text, credentials.length);
    return credentials;
}

/* Checks */

struct login {
    struct password_check check;
    bool done;
};

static struct mailbox results;

static int open_results(void **state)
{
    (void)state;
    return mailbox_open(&results, 0, NULL);
}

static int close_results(void **state)
{
    (void)state;
    mailbox_close(&results);
    return 0;
}

const struct test_fixture test_group_fixture = {open_results, close_results};

static void note_result(struct mailbox_item *item, void *receiver)
{
    (void)receiver;
    CONTAINER_OF(item, struct login, check.item)->done = true;
}

/* Of TEXT, "name:password". */
static void submit(struct logins *logins, struct login *login, const char *text,
                   const char *expected, uint64_t client)
{
    const struct credentials credentials = credentials_of(text);

    *login = (struct login){.check = {.owner = &results,
                                      .finish = note_result,
                                      .client_key = client,
                                      .hash = logins_hash(logins, "/etc/users", &credentials),
                                      .expected = expected,
                                      .exists = true}};
    strcpy(login->check.password, strchr(text, ':') + 1);
    assert_true(logins_submit(logins, &login->check, UINT32_MAX));
}

static enum password_verdict await(struct login *login)
{
    struct pollfd ready = {.fd = results.eventfd, .events = POLLIN};

    while (!login->done) {
        assert_int_equal(poll(&ready, 1, 60 * 1000), 1);
        mailbox_deliver(&results, NULL);
    }
    return login->check.verdict;
}

static enum password_verdict verdict_on(struct logins *logins, const char *text,
                                        const char *expected, uint64_t client)
{
    struct login login;

    submit(logins, &login, text, expected, client);
    return await(&login);
}

TEST(malformed_hash_is_never_right)
{
    struct logins *logins = logins_new(0);

    assert_int_equal(verdict_on(logins, "ann:secret", "$2y$04$", CLIENT), PASSWORD_WRONG);
    assert_int_equal(verdict_on(logins, "ann:*0", "*0", CLIENT), PASSWORD_WRONG);
    logins_free(logins);
}

TEST(remembers_file_name_and_password_together)
{
    struct logins *logins = logins_new(FAILURES);
    const struct credentials right = credentials_of("ann:secret"),
                             other = credentials_of("ann:Secret");
    struct siphash hash = logins_hash(logins, "/etc/users", &right), another;

    assert_false(logins_is_verified(logins, &hash));
    assert_int_equal(verdict_on(logins, "ann:secret", hash_of_secret, CLIENT), PASSWORD_GOOD);
    assert_true(logins_is_verified(logins, &hash));
    assert_int_equal(verdict_on(logins, "ann:secret", "*0", CLIENT), PASSWORD_GOOD);
    another = logins_hash(logins, "/etc/users", &other);
    assert_false(logins_is_verified(logins, &another));
    another = logins_hash(logins, "/etc/others", &right);
    assert_false(logins_is_verified(logins, &another));
    logins_free(logins);
}

TEST(another_table_has_other_hashes)
{
    struct logins *one = logins_new(FAILURES), *other = logins_new(FAILURES);
    const struct credentials credentials = credentials_of("ann:secret");
    struct siphash hash = logins_hash(one, "/etc/users", &credentials);

    assert_int_equal(verdict_on(other, "ann:secret", hash_of_secret, CLIENT), PASSWORD_GOOD);
    assert_false(logins_is_verified(other, &hash));
    hash = logins_hash(other, "/etc/users", &credentials);
    assert_true(logins_is_verified(other, &hash));
    logins_free(one);
    logins_free(other);
}

/* Of MD5, whose check is quick. */
TEST(full_table_forgets_but_accepts_nothing_else)
{
    static const char quick[] = "$1$salt$ez2vlPGdaLYkJam5pWs/Y1";
    struct logins *logins = logins_new(FAILURES);
    uint32_t known = 0;

    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 6000; i++) {
            struct credentials credentials;
            struct siphash hash;
            char text[32];

            snprintf(text, sizeof(text), "user%d:secret", i);
            credentials = credentials_of(text);
            hash = logins_hash(logins, "/etc/users", &credentials);
            if (round == 0) {
                assert_false(logins_is_verified(logins, &hash));
                assert_int_equal(verdict_on(logins, text, quick, CLIENT), PASSWORD_GOOD);
                assert_true(logins_is_verified(logins, &hash));
            } else {
                known += logins_is_verified(logins, &hash);
            }
        }
    assert_in_range(known, 1000, 5000);
    logins_free(logins);
}

TEST(client_over_the_limit_waits_until_the_rate_allows)
{
    struct logins *logins = logins_new(FAILURES);
    uint64_t now;

    for (int i = 0; i < FAILURES; i++) {
        assert_int_equal(logins_wait_ns(logins, CLIENT, clock_monotonic_ns()), 0);
        assert_int_equal(verdict_on(logins, "ann:guess", "*0", CLIENT), PASSWORD_WRONG);
    }
    now = clock_monotonic_ns();
    assert_in_range(logins_wait_ns(logins, CLIENT, now), 1, MINUTE_NS / FAILURES);
    assert_int_equal(logins_wait_ns(logins, CLIENT + 1, now), 0);
    assert_int_equal(logins_wait_ns(logins, CLIENT, now + MINUTE_NS / FAILURES), 0);
    assert_int_equal(verdict_on(logins, "ann:secret", hash_of_secret, CLIENT), PASSWORD_LIMITED);
    assert_int_equal(verdict_on(logins, "ann:secret", hash_of_secret, CLIENT + 1), PASSWORD_GOOD);
    logins_free(logins);
}

static uint32_t count_verdicts(struct logins *logins, const char *text, const char *expected,
                               enum password_verdict verdict)
{
    enum { AT_ONCE = 400 };
    static struct login login[AT_ONCE];
    uint32_t count = 0;

    for (int i = 0; i < AT_ONCE; i++)
        submit(logins, &login[i], text, expected, CLIENT);
    for (int i = 0; i < AT_ONCE; i++)
        count += await(&login[i]) == verdict;
    return count;
}

TEST(right_passwords_at_once_are_no_failures)
{
    struct logins *logins = logins_new(1);

    assert_int_equal(count_verdicts(logins, "ann:secret", hash_of_secret, PASSWORD_GOOD), 400);
    assert_int_equal(verdict_on(logins, "bob:secret", hash_of_secret, CLIENT), PASSWORD_GOOD);
    assert_int_equal(logins_wait_ns(logins, CLIENT, clock_monotonic_ns()), 0);
    logins_free(logins);
}

/* 2001:db8::/48, which has 65536 networks of one client. */
TEST(networks_of_one_site_share_a_limit)
{
    const uint64_t site = UINT64_C(0x20010db800000000);
    struct logins *logins = logins_new(FAILURES);
    uint32_t wrong = 0;

    for (uint64_t i = 0; i < 1000; i++)
        wrong += verdict_on(logins, "ann:guess", "*0", site + i) == PASSWORD_WRONG;
    assert_int_equal(wrong, FAILURES * CLIENT_SITE_FACTOR);
    assert_int_equal(verdict_on(logins, "ann:guess", "*0", site + 0x10000), PASSWORD_WRONG);
    logins_free(logins);
}

TEST(no_limit_and_no_address_never_wait)
{
    struct logins *unlimited = logins_new(0), *limited = logins_new(1);

    assert_int_equal(count_verdicts(unlimited, "ann:guess", "*0", PASSWORD_WRONG), 400);
    for (int i = 0; i < 10; i++)
        assert_int_equal(verdict_on(limited, "ann:guess", "*0", 0), PASSWORD_WRONG);
    logins_free(unlimited);
    logins_free(limited);
}

TEST(check_beyond_those_that_may_wait_is_refused)
{
    struct logins *logins = logins_new(0);
    struct login login, second = {0};

    submit(logins, &login, "ann:secret", hash_of_secret, CLIENT);
    assert_false(logins_submit(logins, &second.check, 0));
    assert_int_equal(await(&login), PASSWORD_GOOD);
    logins_free(logins);
}

TEST(stand_in_of_a_name_stays_the_same)
{
    struct logins *logins = logins_new(FAILURES);
    size_t seen[4] = {0};

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
