/* Certificates in PEM format, and which hosts they match (RFC 9525 section 6.3). */
#include "common/macros.h"
#include "daemon/tls/certificate.h"
#include "daemon/tls/managed.h"
#include "tests/test.h"
#include "tests/unit/own_directory.h"

#include <openssl/err.h>
#include <stdio.h>
#include <string.h>

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

TEST(names_match_hosts)
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

    for (size_t i = 0; i < ARRAY_LENGTH(examples); i++)
        if (match(examples[i].pattern, examples[i].host) != examples[i].match)
            fail_msg("%s for %s", examples[i].pattern, examples[i].host);
}

TEST(names_include_names)
{
    assert_true(includes("example.org", "EXAMPLE.org"));
    assert_true(includes("*.example.org", "*.example.org"));
    assert_true(includes("*.example.org", "www.example.org"));
    assert_false(includes("www.example.org", "*.example.org"));
    assert_false(includes("*.example.org", "example.org"));
}

TEST(every_name_counts)
{
    char *names[] = {"*.example.org", "www.example.org", "example.com"};
    const struct tls_certificate all = {.name = names, .name_count = 3};
    const struct tls_certificate two = {.name = names + 1, .name_count = 2}, none = {0};

    assert_int_equal(tls_certificate_match(&all, "a.example.org"), TLS_NAME_BY_WILDCARD);
    assert_int_equal(tls_certificate_match(&all, "www.example.org"), TLS_NAME_EQUAL);
    assert_int_equal(tls_certificate_match(&none, "www.example.org"), TLS_NAME_DIFFERS);
    assert_true(tls_certificate_includes(&all, &two));
    assert_false(tls_certificate_includes(&two, &all));
    assert_false(tls_certificate_includes(&all, &none));
}

TEST(authority_is_recognized)
{
    static const struct {
        const char *constraints, *usage;
        bool is_authority;
    } examples[] = {
        {"critical,CA:TRUE", NULL, true},
        {"critical,CA:TRUE", "critical,digitalSignature,keyCertSign", true},
        {"critical,CA:TRUE", "critical,digitalSignature", true},
        {"critical,CA:FALSE", "critical,digitalSignature,keyCertSign", true},
        {NULL, "critical,keyCertSign", true},
        {"critical,CA:FALSE", "critical,digitalSignature", false},
        {"critical,CA:FALSE", NULL, false},
        {NULL, "critical,digitalSignature,keyEncipherment", false},
        {NULL, NULL, false},
    };
    EVP_PKEY *key = EVP_EC_gen("P-256");

    for (size_t i = 0; i < ARRAY_LENGTH(examples); i++) {
        X509 *certificate = X509_new();

        assert_true(self_signed_begin(certificate, key, "localhost", 1));
        if (examples[i].constraints != NULL)
            assert_true(
                self_signed_extend(certificate, NID_basic_constraints, examples[i].constraints));
        if (examples[i].usage != NULL)
            assert_true(self_signed_extend(certificate, NID_key_usage, examples[i].usage));
        assert_true(X509_sign(certificate, key, EVP_sha256()) > 0);
        if (tls_certificate_is_authority(certificate) != examples[i].is_authority)
            fail_msg("example %zu", i);
        X509_free(certificate);
    }
    EVP_PKEY_free(key);
}

/* Files */

enum { TEXT = 8192, WHY = 8192 };

static char pem[TEXT], all[4 * TEXT], why[WHY];

/* TEXT, and COUNT times a certificate of localhost. */
static const char *repeat(const char *text, int count)
{
    strcpy(all, text);
    for (int i = 0; i < count; i++)
        strcat(all, pem);
    return all;
}

static int make_directory(void **state)
{
    struct self_signed files;
    FILE *file;

    (void)state;
    own_directory_make();
    assert_int_equal(self_signed_write(&files, own_directory, "localhost", why, sizeof(why)), 0);
    file = fopen(files.certificate, "r");
    assert_true(fread(pem, 1, sizeof(pem) - 1, file) > 0);
    return fclose(file);
}

static int remove_directory(void **state)
{
    (void)state;
    return own_directory_remove();
}

/* Its alternative names have addresses, too. */
TEST_WITH(text_has_a_chain_and_names, make_directory, remove_directory)
{
    for (int more = 0; more < 3; more++) {
        struct tls_certificate certificate = {0};

        assert_int_equal(tls_certificate_parse(&certificate, repeat("text\n", 1 + more), "file.pem",
                                               why, sizeof(why)),
                         0);
        assert_int_equal(sk_X509_num(certificate.chain), more);
        assert_int_equal(certificate.name_count, 1);
        assert_string_equal(certificate.name[0], "localhost");
        assert_int_equal(ERR_peek_error(), 0);
        tls_certificate_free(&certificate);
        assert_null(certificate.leaf);
    }
}

TEST_WITH(unusable_text_is_explained, make_directory, remove_directory)
{
    static const struct {
        const char *text, *why;
        int certificates;
    } cases[] = {
        {"", "file.pem: contains no certificate in PEM format", 0},
        {"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n",
         "file.pem: bad base64 decode", 0},
        {"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n",
         "file.pem: bad base64 decode", 1},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct tls_certificate certificate = {0};
        const char *text = repeat(cases[i].text, cases[i].certificates);

        assert_int_equal(tls_certificate_parse(&certificate, text, "file.pem", why, sizeof(why)),
                         -1);
        assert_string_equal(why, cases[i].why);
        assert_int_equal(ERR_peek_error(), 0);
        tls_certificate_free(&certificate);
    }
}
