/* Which certificates match which hosts (RFC 9525 section 6.3). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/macros.h"
#include "daemon/tls/certificate.h"

static struct tls_certificate with_name(const char *name)
{
    static char *names[4];
    static size_t used;
    char **own = &names[used++ % 4];

    *own = (char *)(uintptr_t)name;
    return (struct tls_certificate){.name = own, .name_count = 1};
}

static enum tls_name_match match(const char *name, const char *host)
{
    const struct tls_certificate certificate = with_name(name);

    return tls_certificate_match(&certificate, host);
}

static bool includes(const char *name, const char *other)
{
    const struct tls_certificate certificate = with_name(name), of_other = with_name(other);

    return tls_certificate_includes(&certificate, &of_other);
}

static void names_match_hosts(void **state)
{
    static const struct {
        const char *pattern, *host;
        enum tls_name_match match;
    } examples[] = {
        {"example.org", "example.org", TLS_NAME_EQUAL},
        {"Example.ORG", "eXAMPLE.org", TLS_NAME_EQUAL},
        {"localhost", "localhost", TLS_NAME_EQUAL},
        {"example.org", "www.example.org", TLS_NAME_DIFFERS},
        {"www.example.org", "example.org", TLS_NAME_DIFFERS},
        {"example.org", "example.org.", TLS_NAME_DIFFERS},
        {"*.example.org", "www.example.org", TLS_NAME_BY_WILDCARD},
        {"*.example.org", "WWW.EXAMPLE.ORG", TLS_NAME_BY_WILDCARD},
        {"*.example.org", "xn--bcher-kva.example.org", TLS_NAME_BY_WILDCARD},
        {"*.example.org", "a.b.example.org", TLS_NAME_DIFFERS},
        {"*.example.org", "example.org", TLS_NAME_DIFFERS},
        {"*.example.org", ".example.org", TLS_NAME_DIFFERS},
        {"*.example.org", "wwwexample.org", TLS_NAME_DIFFERS},
        {"*.example.org", "www.example.com", TLS_NAME_DIFFERS},
        /* a wildcard is a whole label, the leftmost one, and stands above a domain of two labels */
        {"w*.example.org", "www.example.org", TLS_NAME_DIFFERS},
        {"*w.example.org", "www.example.org", TLS_NAME_DIFFERS},
        {"www.*.org", "www.example.org", TLS_NAME_DIFFERS},
        {"*.*.org", "www.example.org", TLS_NAME_DIFFERS},
        {"*.org", "example.org", TLS_NAME_DIFFERS},
        {"*", "localhost", TLS_NAME_DIFFERS},
        {"*.", "localhost", TLS_NAME_DIFFERS},
        {"*..org", "a..org", TLS_NAME_DIFFERS},
        /* a host has no wildcard */
        {"*.example.org", "*.example.org", TLS_NAME_DIFFERS},
        {"", "", TLS_NAME_DIFFERS},
        {"example.org", "", TLS_NAME_DIFFERS},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(examples); i++)
        if (match(examples[i].pattern, examples[i].host) != examples[i].match)
            fail_msg("%s for %s", examples[i].pattern, examples[i].host);
}

static void names_include_names(void **state)
{
    (void)state;
    assert_true(includes("example.org", "EXAMPLE.org"));
    assert_true(includes("*.example.org", "*.example.org"));
    assert_true(includes("*.example.org", "www.example.org"));
    assert_false(includes("www.example.org", "*.example.org"));
    assert_false(includes("*.example.org", "example.org"));
}

static void every_name_counts(void **state)
{
    char *names[] = {"*.example.org", "www.example.org", "example.com"};
    const struct tls_certificate all = {.name = names, .name_count = 3};
    const struct tls_certificate two = {.name = names + 1, .name_count = 2}, none = {0};

    (void)state;
    assert_int_equal(tls_certificate_match(&all, "a.example.org"), TLS_NAME_BY_WILDCARD);
    assert_int_equal(tls_certificate_match(&all, "www.example.org"), TLS_NAME_EQUAL);
    assert_int_equal(tls_certificate_match(&none, "www.example.org"), TLS_NAME_DIFFERS);
    assert_true(tls_certificate_includes(&all, &two));
    assert_false(tls_certificate_includes(&two, &all));
    assert_false(tls_certificate_includes(&all, &none));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_match_hosts),
        cmocka_unit_test(names_include_names),
        cmocka_unit_test(every_name_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
