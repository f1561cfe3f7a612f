/* Which names of certificates match which hosts (RFC 9525 section 6.3). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/macros.h"
#include "daemon/tls/names.h"

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
        if (tls_name_match(examples[i].pattern, examples[i].host) != examples[i].match)
            fail_msg("%s for %s", examples[i].pattern, examples[i].host);
}

static void names_include_names(void **state)
{
    (void)state;
    assert_true(tls_name_includes("example.org", "EXAMPLE.org"));
    assert_true(tls_name_includes("*.example.org", "*.example.org"));
    assert_true(tls_name_includes("*.example.org", "www.example.org"));
    assert_false(tls_name_includes("www.example.org", "*.example.org"));
    assert_false(tls_name_includes("*.example.org", "example.org"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_match_hosts),
        cmocka_unit_test(names_include_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
