/* URLs: taken apart, refused in words, hosts looked up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/macros.h"
#include "loadgen/plan/target.h"

#include <sys/socket.h>

#include <string.h>
#include <strings.h>

#define LONG_LABEL "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijkl"

static const struct {
    const char *url, *text, *host;
    uint16_t port;
} good[] = {
    {"http://127.0.0.1:8080/", "http://127.0.0.1:8080/", "127.0.0.1", 8080},
    {"http://example.test", "http://example.test/", "example.test", 80},
    {"https://example.test/a?b=c#part", "https://example.test/a?b=c", "example.test", 443},
    {"127.0.0.1:8080/x", "http://127.0.0.1:8080/x", "127.0.0.1", 8080},
    {"localhost", "http://localhost/", "localhost", 80},
    {"http://[::1]:81/", "http://[::1]:81/", "::1", 81},
};

static const struct {
    const char *url, *why;
} bad[] = {
    {"ftp://example.test/",
     "the URL 'ftp://example.test/' cannot be used: only http:// and https:// are spoken here"},
    {"gopher2://example.test/",
     "the URL 'gopher2://example.test/' cannot be used: only http:// and "
     "https:// are spoken here"},
    {"http://a b/", "the URL 'http://a b/' cannot be used: "},
    {"http://a:99999/", "the URL 'http://a:99999/' cannot be used: "},
    {"", "the URL '' cannot be used: "},
    {"http://", "the URL 'http://' cannot be used: "},
    {"8080",
     "the URL '8080' cannot be used: a port needs a host before it: http://127.0.0.1:PORT/"},
    {"http://me:pw@a/",
     "the URL 'http://me:pw@a/' cannot be used: a name and password are given by "
     "-u NAME:PASS"},
};

static void test_good(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(good); i++) {
        struct target target;
        char why[512];

        if (target_parse(&target, NULL, good[i].url, why, sizeof(why)) != 0)
            fail_msg("'%s' was refused: %s", good[i].url, why);
        assert_string_equal(target.text, good[i].text);
        assert_string_equal(target.host, good[i].host);
        assert_int_equal(target.port, good[i].port);
        target_free(&target);
    }
}

static void test_bad(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        struct target target;
        char why[512] = "nothing was said";

        if (target_parse(&target, NULL, bad[i].url, why, sizeof(why)) == 0 ||
            strncmp(why, bad[i].why, strlen(bad[i].why)) != 0)
            fail_msg("'%s': %s", bad[i].url, why);
        target_free(&target);
    }
}

/* An address needs no looking up; a name becomes a list that libcurl takes. */
static void test_resolve(void **state)
{
    struct target target;
    char why[512];

    (void)state;
    assert_int_equal(target_parse(&target, NULL, "http://[::1]:8080/", why, sizeof(why)), 0);
    assert_int_equal(target_resolve(&target, AF_UNSPEC, why, sizeof(why)), 0);
    assert_null(target.addresses);
    target_free(&target);

    assert_int_equal(target_parse(&target, NULL, "http://localhost:8080/", why, sizeof(why)), 0);
    assert_int_equal(target_resolve(&target, AF_UNSPEC, why, sizeof(why)), 0);
    assert_int_equal(strncmp(target.addresses->data, "localhost:8080:", 15), 0);
    assert_true(strstr(target.addresses->data, "127.0.0.1") != NULL ||
                strstr(target.addresses->data, "[::1]") != NULL);
    target_free(&target);

    /* No label of a name has more than 63 letters, so no name server need be asked. */
    assert_int_equal(target_parse(&target, NULL, "http://" LONG_LABEL ".test/", why, sizeof(why)),
                     0);
    assert_int_equal(target_resolve(&target, AF_UNSPEC, why, sizeof(why)), -1);
    assert_int_equal(strncmp(why, "cannot find the host '" LONG_LABEL ".test': ", 92), 0);
    target_free(&target);
}

/* Paths of a list are relative to the first URL; what shares an origin can share a connection. */
static void test_relative(void **state)
{
    struct target base, other, elsewhere;
    char why[512];

    (void)state;
    assert_int_equal(target_parse(&base, NULL, "http://A.test:81/x/y", why, sizeof(why)), 0);
    assert_int_equal(target_parse(&other, &base, "/z?q", why, sizeof(why)), 0);
    assert_int_equal(target_parse(&elsewhere, &base, "https://a.test:81/", why, sizeof(why)), 0);
    assert_int_equal(strcasecmp(other.text, "http://a.test:81/z?q"), 0);
    assert_true(target_same_origin(&base, &other));
    assert_false(target_same_origin(&base, &elsewhere));
    target_free(&base);
    target_free(&other);
    target_free(&elsewhere);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_resolve),
        cmocka_unit_test(test_relative),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
