/*
 * Private keys: from files that a child parses to the file in memory, and from there; and the
 * public part of files.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/macros.h"
#include "daemon/tls/managed.h"
#include "daemon/tls/private_keys.h"
#include "tests/unit/event_output.h"
#include "tests/unit/open_descriptors.h"
#include "tests/unit/own_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WHY = 1024, LARGEST = 1024 * 1024 };

static char path[64], why[WHY];
static int descriptors_before, keys;
static EVP_PKEY *key, *other;
static X509 *leaf;

static int set_up(void **state)
{
    (void)state;
    events_forget();
    own_directory_make();
    snprintf(path, sizeof(path), "%s/key", own_directory);
    descriptors_before = open_descriptors();
    why[0] = '\0';
    keys = private_keys_open(why, sizeof(why));
    assert_true(keys >= 0);
    assert_string_equal(why, "");
    key = EVP_EC_gen("P-256");
    other = EVP_EC_gen("P-256");
    leaf = X509_new();
    assert_true(self_signed_begin(leaf, key, "a.example", 1));
    return 0;
}

/* No function leaves a descriptor or a child. */
static int tear_down(void **state)
{
    (void)state;
    close(keys);
    assert_int_equal(open_descriptors(), descriptors_before);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    EVP_PKEY_free(key);
    EVP_PKEY_free(other);
    X509_free(leaf);
    return own_directory_remove();
}

static void write_text(const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void write_key(EVP_PKEY *written, const EVP_CIPHER *cipher)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_int_equal(PEM_write_PKCS8PrivateKey(file, written, cipher, NULL, 0, NULL,
                                               cipher != NULL ? "password" : NULL),
                     1);
    assert_int_equal(fclose(file), 0);
}

static int add(void)
{
    return private_keys_add(keys, path, leaf, "a.pem", why, sizeof(why));
}

static off_t stored_bytes(void)
{
    return lseek(keys, 0, SEEK_END);
}

static void added_keys_are_read_in_order(void **state)
{
    X509 *second = X509_new();
    EVP_PKEY *read[3] = {NULL};

    (void)state;
    assert_true(self_signed_begin(second, other, "b.example", 1));
    write_key(key, NULL);
    assert_int_equal(add(), 0);
    write_key(other, NULL);
    assert_int_equal(private_keys_add(keys, path, second, "b.pem", why, sizeof(why)), 0);
    assert_int_equal(private_keys_read(keys, read, 2), 0);
    assert_int_equal(EVP_PKEY_eq(read[0], key), 1);
    assert_int_equal(EVP_PKEY_eq(read[1], other), 1);
    EVP_PKEY_free(read[0]);
    EVP_PKEY_free(read[1]);
    assert_int_equal(private_keys_read(keys, read, 0), 0);
    assert_int_equal(private_keys_read(keys, read, 3), -1);
    X509_free(second);
}

static void unusable_key_is_reported(void **state)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"", ": contains no private key in PEM format"},
        {"text\n", ": contains no private key in PEM format"},
        {"-----BEGIN PRIVATE KEY-----\n!!!!\n-----END PRIVATE KEY-----\n",
         ": contains no private key in PEM format"},
    };
    char expected[WHY];

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        write_text(cases[i].text);
        assert_int_equal(add(), -1);
        snprintf(expected, sizeof(expected), "%s%s", path, cases[i].why);
        assert_string_equal(why, expected);
    }
    write_key(key, EVP_aes_128_cbc());
    assert_int_equal(add(), -1);
    snprintf(expected, sizeof(expected),
             "%s: the private key is encrypted; decrypt it: openssl pkey -in %s", path, path);
    assert_string_equal(why, expected);
    write_key(other, NULL);
    assert_int_equal(add(), -1);
    assert_non_null(strstr(why, "(the key does not belong to a.pem)"));
    unlink(path);
    assert_int_equal(add(), -1);
    snprintf(expected, sizeof(expected), "%s: %s", path, strerror(ENOENT));
    assert_string_equal(why, expected);
    assert_int_equal(stored_bytes(), 0);
}

static void key_that_cannot_be_stored_is_reported(void **state)
{
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

    (void)state;
    write_key(key, NULL);
    assert_int_equal(private_keys_add(null, path, leaf, "a.pem", why, sizeof(why)), -1);
    assert_non_null(strstr(why, ": cannot store the key: "));
    close(null);
}

static void reason_is_cut(void **state)
{
    char small[9];

    (void)state;
    memset(small, 'x', sizeof(small));
    write_text("");
    assert_int_equal(private_keys_add(keys, path, leaf, "a.pem", small, 8), -1);
    assert_int_equal(strlen(small), 7);
    assert_memory_equal(small, path, 7);
    assert_int_equal(small[8], 'x');
}

/* A reason of a failure before does not stay. */
static void success_has_no_reason(void **state)
{
    (void)state;
    write_key(key, NULL);
    strcpy(why, "old");
    assert_int_equal(add(), 0);
    assert_string_equal(why, "");
}

static void damaged_file_has_no_keys(void **state)
{
    const uint32_t too_long = 64 * 1024 + 1;
    EVP_PKEY *read[2] = {NULL};
    off_t bytes;

    (void)state;
    write_key(key, NULL);
    assert_int_equal(add(), 0);
    bytes = stored_bytes();
    assert_int_equal(add(), 0);
    assert_int_equal(ftruncate(keys, 2 * bytes - 1), 0);
    assert_int_equal(private_keys_read(keys, read, 2), -1);
    assert_int_equal(ERR_peek_error(), 0);
    assert_int_equal(ftruncate(keys, bytes + 3), 0);
    assert_int_equal(private_keys_read(keys, read, 2), -1);
    assert_int_equal(pwrite(keys, "\xff\xff", 2, 4), 2);
    assert_int_equal(private_keys_read(keys, read, 1), -1);
    assert_int_equal(ERR_peek_error(), 0);
    assert_int_equal(pwrite(keys, &too_long, sizeof(too_long), 0), sizeof(too_long));
    assert_int_equal(private_keys_read(keys, read, 1), -1);
}

static void modes_for_others_are_warned_of(void **state)
{
    static const mode_t good[] = {0600, 0640, 0400, 0440};
    static const mode_t bad[] = {0604, 0602, 0601, 0620, 0610, 0644};

    (void)state;
    private_keys_warn(path); /* missing */
    write_text("");
    for (size_t i = 0; i < ARRAY_LENGTH(good); i++) {
        assert_int_equal(chmod(path, good[i]), 0);
        private_keys_warn(path);
    }
    assert_int_equal(event_count(), 0);
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        assert_int_equal(chmod(path, bad[i]), 0);
        private_keys_warn(path);
        assert_int_equal(event_count(), i + 1);
    }
    if (geteuid() != 0)
        return; /* only root can give it away */
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(chown(path, 65534, (gid_t)-1), 0);
    private_keys_warn(path);
    assert_int_equal(event_count(), ARRAY_LENGTH(bad) + 1);
}

/* A file with TEXT, and with 'x' up to SIZE bytes. */
static void write_long_text(const char *text, size_t size)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fputs(text, file);
    for (size_t length = strlen(text); length < size; length++)
        fputc('x', file);
    assert_int_equal(fclose(file), 0);
}

/* AddressSanitizer reports a buffer without room for the NUL. */
static void largest_file_is_read_whole(void **state)
{
    char *text;

    (void)state;
    write_long_text("", LARGEST);
    text = pem_file_read_public(path, why, sizeof(why));
    assert_non_null(text);
    assert_int_equal(strlen(text), LARGEST);
    free(text);
}

static void larger_file_is_rejected(void **state)
{
    char expected[WHY];

    (void)state;
    write_long_text("", LARGEST + 1);
    assert_null(pem_file_read_public(path, why, sizeof(why)));
    snprintf(expected, sizeof(expected), "%s: %s", path, strerror(EFBIG));
    assert_string_equal(why, expected);
}

static void private_keys_become_spaces(void **state)
{
    char *text;

    (void)state;
    write_long_text("-----BEGIN CERTIFICATE-----\nAA\n-----END CERTIFICATE-----\n"
                    "-----BEGIN EC PRIVATE KEY-----\nBB\n-----END EC PRIVATE KEY-----\n"
                    "-----BEGIN CERTIFICATE-----\nCC\n-----END CERTIFICATE-----\n"
                    "-----BEGIN PRIVATE KEY-----\nDD\n",
                    0);
    text = pem_file_read_public(path, why, sizeof(why));
    assert_non_null(text);
    assert_non_null(strstr(text, "\nAA\n"));
    assert_non_null(strstr(text, "\nCC\n"));
    assert_null(strstr(text, "BB"));
    assert_null(strstr(text, "DD"));
    free(text);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(added_keys_are_read_in_order),
        TEST(unusable_key_is_reported),
        TEST(key_that_cannot_be_stored_is_reported),
        TEST(reason_is_cut),
        TEST(success_has_no_reason),
        TEST(damaged_file_has_no_keys),
        TEST(modes_for_others_are_warned_of),
        TEST(largest_file_is_read_whole),
        TEST(larger_file_is_rejected),
        TEST(private_keys_become_spaces),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
