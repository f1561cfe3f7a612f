/* Self-signed certificates: their content, and their files in a temporary directory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/macros.h"
#include "daemon/tls/self_signed.h"
#include "tests/unit/open_descriptors.h"
#include "tests/unit/own_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME "www.test-site.org"

enum { WHY = 8192, VALID_DAYS = 397 };

static int descriptors_before;
static struct self_signed files;
static char why[WHY];

static int set_up(void **state)
{
    (void)state;
    own_directory_make();
    descriptors_before = open_descriptors();
    return 0;
}

/* No function leaves a descriptor open. */
static int tear_down(void **state)
{
    (void)state;
    assert_int_equal(open_descriptors(), descriptors_before);
    return own_directory_remove();
}

static X509 *read_certificate(void)
{
    FILE *file = fopen(files.certificate, "r");
    X509 *certificate = PEM_read_X509(file, NULL, NULL, NULL);

    assert_non_null(certificate);
    fclose(file);
    return certificate;
}

static EVP_PKEY *read_key(void)
{
    FILE *file = fopen(files.key, "r");
    EVP_PKEY *key = PEM_read_PrivateKey(file, NULL, NULL, NULL);

    assert_non_null(key);
    fclose(file);
    return key;
}

/* The new certificate for HOST, which the caller frees. */
static X509 *make(const char *host)
{
    assert_int_equal(self_signed_write(&files, own_directory, host, why, sizeof(why)), 0);
    return read_certificate();
}

static bool is_critical(const X509 *certificate, int kind)
{
    int at = X509_get_ext_by_NID(certificate, kind, -1);

    assert_true(at >= 0);
    return X509_EXTENSION_get_critical(X509_get_ext(certificate, at)) != 0;
}

static void certificate_is_for_servers(void **state)
{
    X509 *certificate = make(NAME);
    EVP_PKEY *key = read_key();
    int days, seconds;

    (void)state;
    assert_int_equal(X509_get_version(certificate), X509_VERSION_3);
    assert_int_equal(X509_verify(certificate, key), 1);
    assert_int_equal(X509_check_private_key(certificate, key), 1);
    assert_int_equal(
        X509_NAME_cmp(X509_get_subject_name(certificate), X509_get_issuer_name(certificate)), 0);
    assert_int_equal(X509_check_host(certificate, NAME, 0, 0, NULL), 1);
    assert_int_equal(X509_check_ip_asc(certificate, "127.0.0.1", 0), 0);
    assert_int_equal(X509_check_ca(certificate), 0);
    assert_int_equal(X509_get_key_usage(certificate), KU_DIGITAL_SIGNATURE);
    assert_int_equal(X509_get_extended_key_usage(certificate), XKU_SSL_SERVER);
    assert_true(is_critical(certificate, NID_basic_constraints));
    assert_true(is_critical(certificate, NID_key_usage));
    assert_int_equal(ASN1_TIME_diff(&days, &seconds, X509_get0_notBefore(certificate),
                                    X509_get0_notAfter(certificate)),
                     1);
    assert_int_equal(days, VALID_DAYS);
    assert_in_range(seconds, 0, 60); /* the clock is read twice */
    assert_true(X509_cmp_current_time(X509_get0_notBefore(certificate)) < 0);
    EVP_PKEY_free(key);
    X509_free(certificate);
}

static void localhost_is_for_its_addresses_too(void **state)
{
    X509 *certificate = make("localhost");

    (void)state;
    assert_int_equal(X509_check_host(certificate, "localhost", 0, 0, NULL), 1);
    assert_int_equal(X509_check_ip_asc(certificate, "127.0.0.1", 0), 1);
    assert_int_equal(X509_check_ip_asc(certificate, "::1", 0), 1);
    X509_free(certificate);
}

static void name_over_64_bytes_is_not_the_common_name(void **state)
{
    char host[66];

    (void)state;
    memset(host, 'n', sizeof(host));
    host[30] = '.';
    for (size_t length = 64; length <= 65; length++) {
        char common[128];
        X509 *certificate;

        host[64] = 'n';
        host[length] = '\0';
        certificate = make(host);
        X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, common,
                                  sizeof(common));
        assert_string_equal(common, length == 64 ? host : "webserverd");
        assert_int_equal(X509_check_host(certificate, host, 0, 0, NULL), 1);
        X509_free(certificate);
    }
}

/* RFC 5280 section 4.1.2.2: a positive number of at most 20 bytes. */
static void serials_are_positive_and_differ(void **state)
{
    enum { COUNT = 16 };
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate[COUNT];

    (void)state;
    for (int i = 0; i < COUNT; i++) {
        BIGNUM *serial;

        certificate[i] = X509_new();
        assert_true(self_signed_begin(certificate[i], key, NAME, 1));
        serial = ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate[i]), NULL);
        assert_false(BN_is_negative(serial));
        assert_in_range(BN_num_bits(serial), 64, 127);
        BN_free(serial);
        for (int k = 0; k < i; k++)
            assert_int_not_equal(ASN1_INTEGER_cmp(X509_get0_serialNumber(certificate[i]),
                                                  X509_get0_serialNumber(certificate[k])),
                                 0);
    }
    for (int i = 0; i < COUNT; i++)
        X509_free(certificate[i]);
    EVP_PKEY_free(key);
}

static void invalid_extension_is_refused(void **state)
{
    X509 *certificate = X509_new();

    (void)state;
    assert_true(self_signed_extend(certificate, NID_key_usage, "digitalSignature"));
    assert_false(self_signed_extend(certificate, NID_key_usage, "nonsense"));
    ERR_clear_error();
    X509_free(certificate);
}

static mode_t mode_of(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 ? status.st_mode : 0;
}

static void only_the_owner_may_read_the_key(void **state)
{
    mode_t mask = umask(0);

    (void)state;
    X509_free(make(NAME));
    umask(mask);
    assert_int_equal(mode_of(files.key), S_IFREG | 0600);
    assert_int_equal(mode_of(files.certificate), S_IFREG | 0644);
}

static void put(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    close(fd);
}

static void assert_empty_file(const char *path)
{
    struct stat status;

    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_size, 0);
}

static void no_file_is_replaced(void **state)
{
    (void)state;
    self_signed_paths(&files, own_directory, NAME);
    put(files.key);
    assert_int_equal(self_signed_write(&files, own_directory, NAME, why, sizeof(why)), -1);
    assert_non_null(strstr(why, NAME ".key: File exists (it is not replaced"));
    assert_empty_file(files.key);
    assert_int_equal(mode_of(files.certificate), 0);
    unlink(files.key);
    put(files.certificate);
    assert_int_equal(self_signed_write(&files, own_directory, NAME, why, sizeof(why)), -1);
    assert_non_null(strstr(why, NAME ".pem: File exists (it is not replaced"));
    assert_empty_file(files.certificate);
    assert_int_equal(mode_of(files.key), 0);
}

static void missing_directory_is_reported(void **state)
{
    char missing[64];

    (void)state;
    snprintf(missing, sizeof(missing), "%s/none", own_directory);
    assert_int_equal(self_signed_write(&files, missing, NAME, why, sizeof(why)), -1);
    assert_non_null(strstr(why, ": No such file or directory (name a directory that exists"));
}

static void invalid_name_is_reported(void **state)
{
    (void)state;
    assert_int_equal(self_signed_write(&files, own_directory, "", why, sizeof(why)), -1);
    assert_memory_equal(why, "cannot make a certificate: ", 27);
    assert_int_equal(ERR_peek_error(), 0);
    assert_int_equal(mode_of(files.key), 0);
}

/* The key has fewer bytes than the certificate. */
static void unwritten_files_are_removed(void **state)
{
    static const struct {
        rlim_t bytes;
        const char *why;
    } cases[] = {{10, NAME ".key: cannot write: File too large"},
                 {400, NAME ".pem: cannot write: File too large"}};

    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct rlimit usual, limit;
        int failed;

        assert_int_equal(getrlimit(RLIMIT_FSIZE, &usual), 0);
        limit = (struct rlimit){cases[i].bytes, usual.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        failed = self_signed_write(&files, own_directory, NAME, why, sizeof(why));
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &usual), 0);
        assert_int_equal(failed, -1);
        assert_non_null(strstr(why, cases[i].why));
        assert_int_equal(mode_of(files.key), 0);
        assert_int_equal(mode_of(files.certificate), 0);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(certificate_is_for_servers),
        TEST(localhost_is_for_its_addresses_too),
        TEST(name_over_64_bytes_is_not_the_common_name),
        TEST(serials_are_positive_and_differ),
        TEST(invalid_extension_is_refused),
        TEST(only_the_owner_may_read_the_key),
        TEST(no_file_is_replaced),
        TEST(missing_directory_is_reported),
        TEST(invalid_name_is_reported),
        TEST(unwritten_files_are_removed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
