/* URLs: parsing, errors, resolving hosts. */
#include "common/macros.h"
#include "loadgen/plan/target.h"
#include "tests/test.h"

#include <sys/socket.h>

#include <locale.h>
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
    {"http://[fe80::1%25lo]/", "http://[fe80::1%25lo]/", "fe80::1", 80},
    {"http://b\u00fccher.test:82/\u00fc", "http://xn--bcher-kva.test:82/%C3%BC",
     "xn--bcher-kva.test", 82},
};

static const struct {
    const char *url, *why;
} bad[] = {
    {"ftp://example.test/",
     "invalid URL 'ftp://example.test/': only http:// and https:// are supported"},
    {"gopher2://example.test/", "invalid URL 'gopher2://example.test/': only http:// and "
                                "https:// are supported"},
    {"http://a b/", "invalid URL 'http://a b/': "},
    {"http://a:99999/", "invalid URL 'http://a:99999/': "},
    {"", "invalid URL '': "},
    {"http://", "invalid URL 'http://': "},
    {"8080", "invalid URL '8080': a port needs a host: http://127.0.0.1:PORT/"},
    {"http://b\u00fccher.test/", "invalid URL 'http://b\u00fccher.test/': the host name is not "
                                 "valid in this locale (try LC_ALL=C.UTF-8)"},
    {"http://me:pw@a/", "invalid URL 'http://me:pw@a/': use "
                        "-u NAME:PASS"},
};

TEST(valid_url_is_parsed)
{
    assert_non_null(setlocale(LC_CTYPE, "C.UTF-8"));
    for (size_t i = 0; i < ARRAY_LENGTH(good); i++) {
        struct target target;
        char why[512];

        if (target_parse(&target, NULL, good[i].url, why, sizeof(why)) != 0)
            fail_msg("'%s' was rejected: %s", good[i].url, why);
        assert_string_equal(target.text, good[i].text);
        assert_string_equal(target.host, good[i].host);
        assert_int_equal(target.port, good[i].port);
        target_free(&target);
    }
}

TEST(invalid_url_is_rejected_with_reason)
{
    assert_non_null(setlocale(LC_CTYPE, "C"));
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        struct target target;
        char why[512] = "nothing was said";

        if (target_parse(&target, NULL, bad[i].url, why, sizeof(why)) == 0 ||
            strncmp(why, bad[i].why, strlen(bad[i].why)) != 0)
            fail_msg("'%s': %s", bad[i].url, why);
        target_free(&target);
    }
}

TEST(only_names_are_resolved)
{
    struct target target;
    char why[512];

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

    /* A label has at most 63 letters, so the resolver fails without a query. */
    assert_int_equal(target_parse(&target, NULL, "http://" LONG_LABEL ".test/", why, sizeof(why)),
                     0);
    assert_int_equal(target_resolve(&target, AF_UNSPEC, why, sizeof(why)), -1);
    assert_int_equal(strncmp(why, "cannot resolve host '" LONG_LABEL ".test': ", 91), 0);
    target_free(&target);
}

TEST(relative_urls_share_the_origin)
{
    struct target base, other, elsewhere;
    char why[512];

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
