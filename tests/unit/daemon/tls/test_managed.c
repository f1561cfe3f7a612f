/*
 * Self-signed certificates; those of [acme] in a state directory, and what replaces those that are
 * missing or not usable.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/macros.h"
#include "daemon/tls/managed.h"
#include "tests/unit/event_output.h"
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
#define ONE  "one.example"
#define TWO  "two.example"

enum { TEXT = 8192, VALID_DAYS = 397 };

static char why[TEXT];
static int descriptors_before;
static struct config config;
static struct managed_certificates managed;
static struct self_signed files;

static int set_up(void **state)
{
    static char *names[] = {ONE, TWO};

    (void)state;
    events_forget();
    own_directory_make();
    config.acme_state_dir = own_directory;
    config.acme_names = (struct config_words){names, ARRAY_LENGTH(names)};
    descriptors_before = open_descriptors();
    return 0;
}

/* No function leaves a descriptor open. */
static int tear_down(void **state)
{
    (void)state;
    managed_certificates_free(&managed);
    assert_null(managed.certificate.item);
    assert_int_equal(managed.key.count, 0);
    assert_int_equal(open_descriptors(), descriptors_before);
    return own_directory_remove();
}

/* Self-signed certificates */

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

/* Managed certificates */

static int find(void)
{
    managed_certificates_free(&managed);
    return managed_certificates_find(&config, &managed, why, sizeof(why));
}

/* Writes the path of FILE in the state directory. */
static const char *path_of(const char *file)
{
    static char path[256];

    snprintf(path, sizeof(path), "%s/%s", own_directory, file);
    return path;
}

static void append(const char *from, FILE *to)
{
    char text[TEXT];
    FILE *file = fopen(from, "r");
    size_t length;

    assert_non_null(file);
    length = fread(text, 1, sizeof(text), file);
    assert_int_equal(fwrite(text, 1, length, to), length);
    fclose(file);
}

/* Writes a certificate for NAME with its key to the file of FOR_NAME, as the ACME process does. */
static void obtain(const char *name, const char *for_name)
{
    char path[300];
    FILE *file;

    assert_int_equal(self_signed_write(&files, own_directory, name, why, sizeof(why)), 0);
    snprintf(path, sizeof(path), "%s/%s.tmp", own_directory, for_name);
    file = fopen(path, "w");
    assert_non_null(file);
    append(files.key, file);
    append(files.certificate, file);
    assert_int_equal(fclose(file), 0);
    unlink(files.key);
    unlink(files.certificate);
    assert_int_equal(rename(path, path_of(strcmp(for_name, ONE) == 0 ? ONE ".pem" : TWO ".pem")),
                     0);
}

static void assert_self_signed(size_t i, const char *certificate, const char *key)
{
    assert_string_equal(managed.certificate.item[i], path_of(certificate));
    assert_string_equal(managed.key.item[i], path_of(key));
}

static bool exists(const char *file)
{
    return access(path_of(file), F_OK) == 0;
}

enum { OLD_S = 1000 };

static void make_old(const char *file)
{
    const struct timespec old[] = {{.tv_sec = OLD_S}, {.tv_sec = OLD_S}};

    assert_int_equal(utimensat(AT_FDCWD, path_of(file), old, 0), 0);
}

static bool is_old(const char *file)
{
    struct stat status;

    return stat(path_of(file), &status) == 0 && status.st_mtime == OLD_S;
}

static void missing_certificates_are_self_signed(void **state)
{
    struct stat status;

    (void)state;
    assert_int_equal(find(), 0);
    assert_int_equal(managed.certificate.count, 2);
    assert_int_equal(managed.key.count, 2);
    assert_self_signed(0, "self-signed/" ONE ".pem", "self-signed/" ONE ".key");
    assert_self_signed(1, "self-signed/" TWO ".pem", "self-signed/" TWO ".key");
    assert_int_equal(stat(path_of("self-signed"), &status), 0);
    assert_int_equal(status.st_mode, S_IFDIR | 0700);
    make_old("self-signed/" ONE ".pem");
    make_old("self-signed/" ONE ".key");
    assert_int_equal(find(), 0); /* they stay */
    assert_true(is_old("self-signed/" ONE ".pem"));
    assert_true(is_old("self-signed/" ONE ".key"));
    assert_int_equal(event_count(), 0);
}

static void obtained_certificate_is_used(void **state)
{
    (void)state;
    obtain(TWO, TWO);
    assert_int_equal(find(), 0);
    assert_self_signed(0, "self-signed/" ONE ".pem", "self-signed/" ONE ".key");
    assert_self_signed(1, TWO ".pem", TWO ".pem");
    assert_false(exists("self-signed/" TWO ".pem"));
    assert_int_equal(event_count(), 0);
}

static void self_signed_certificate_is_served_for_an_unusable_one(void **state)
{
    static const char suffix[] = ": serving a self-signed certificate";
    char expected[TEXT];
    FILE *file;

    (void)state;
    obtain(ONE, TWO);
    assert_int_equal(find(), 0);
    snprintf(expected, sizeof(expected), "%s: the certificate is not for " TWO "%s",
             path_of(TWO ".pem"), suffix);
    assert_int_equal(event_count(), 1);
    assert_string_equal(last_event(), expected);
    assert_self_signed(1, "self-signed/" TWO ".pem", "self-signed/" TWO ".key");
    file = fopen(path_of(TWO ".pem"), "w");
    append(path_of("self-signed/" TWO ".pem"), file); /* without the key */
    fclose(file);
    assert_int_equal(find(), 0);
    assert_int_equal(event_count(), 2);
    assert_non_null(strstr(last_event(), "contains no private key"));
    assert_self_signed(1, "self-signed/" TWO ".pem", "self-signed/" TWO ".key");
    assert_int_equal(truncate(path_of(TWO ".pem"), 0), 0);
    assert_int_equal(find(), 0);
    assert_int_equal(event_count(), 3);
    assert_self_signed(1, "self-signed/" TWO ".pem", "self-signed/" TWO ".key");
}

/* A server was killed when it wrote them. */
static void incomplete_self_signed_files_are_made_again(void **state)
{
    static const char *const parts[] = {"self-signed/" ONE ".pem", "self-signed/" ONE ".key"};

    (void)state;
    assert_int_equal(find(), 0);
    for (size_t i = 0; i < ARRAY_LENGTH(parts); i++) {
        struct stat status;

        assert_int_equal(truncate(path_of(parts[i]), 0), 0);
        assert_int_equal(find(), 0);
        assert_int_equal(stat(path_of(parts[i]), &status), 0);
        assert_true(status.st_size > 0);
        assert_int_equal(unlink(path_of(parts[i])), 0);
        assert_int_equal(find(), 0);
        assert_true(exists(parts[i]));
    }
}

static void missing_state_directory_is_reported(void **state)
{
    char expected[TEXT];
    int fd;

    (void)state;
    fd = open(path_of("self-signed"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    close(fd);
    assert_int_equal(find(), -1);
    assert_non_null(strstr(why, strerror(ENOTDIR)));
    config.acme_state_dir = "/nowhere/at/all";
    assert_int_equal(find(), -1);
    snprintf(expected, sizeof(expected), "/nowhere/at/all/self-signed: %s", strerror(ENOENT));
    assert_string_equal(why, expected);
    assert_int_equal(managed.certificate.count, 0);
}

static void no_name_needs_no_certificate(void **state)
{
    (void)state;
    config.acme_names.count = 0;
    assert_int_equal(find(), 0);
    assert_int_equal(managed.certificate.count, 0);
    assert_false(exists("self-signed"));
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
        TEST(missing_certificates_are_self_signed),
        TEST(obtained_certificate_is_used),
        TEST(self_signed_certificate_is_served_for_an_unusable_one),
        TEST(incomplete_self_signed_files_are_made_again),
        TEST(missing_state_directory_is_reported),
        TEST(no_name_needs_no_certificate),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
