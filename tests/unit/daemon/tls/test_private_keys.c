/* Private keys: from the text of a file, and from the file in memory. */
#include "common/macros.h"
#include "daemon/base/memory_file.h"
#include "daemon/tls/managed.h"
#include "daemon/tls/private_keys.h"
#include "tests/test.h"
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
#include <unistd.h>

enum { WHY = 1024, TEXT = 8192 };

static char path[64], text[TEXT], why[WHY];
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
    keys = memory_file_open("keys");
    assert_true(keys >= 0);
    key = EVP_EC_gen("P-256");
    other = EVP_EC_gen("P-256");
    leaf = X509_new();
    assert_true(self_signed_begin(leaf, key, "a.example", 1));
    return 0;
}

/* No function leaves a descriptor. */
static int tear_down(void **state)
{
    (void)state;
    close(keys);
    assert_int_equal(open_descriptors(), descriptors_before);
    EVP_PKEY_free(key);
    EVP_PKEY_free(other);
    X509_free(leaf);
    return own_directory_remove();
}

const struct test_fixture test_fixture = {set_up, tear_down};

static void write_key(EVP_PKEY *written, const EVP_CIPHER *cipher)
{
    FILE *file = fmemopen(text, sizeof(text), "w");

    assert_non_null(file);
    assert_int_equal(PEM_write_PKCS8PrivateKey(file, written, cipher, NULL, 0, NULL,
                                               cipher != NULL ? "password" : NULL),
                     1);
    assert_int_equal(fclose(file), 0);
}

/* The key in the text, which the caller frees. */
static EVP_PKEY *parse(void)
{
    return private_key_parse(text, "a.key", leaf, "a.pem", why, sizeof(why));
}

static void add(const EVP_PKEY *added)
{
    unsigned char *bytes = NULL;
    uint32_t length = (uint32_t)i2d_PrivateKey(added, &bytes);

    assert_int_equal(write(keys, &length, sizeof(length)), sizeof(length));
    assert_int_equal(write(keys, bytes, length), length);
    OPENSSL_free(bytes);
}

static off_t stored_bytes(void)
{
    return lseek(keys, 0, SEEK_END);
}

TEST(keys_are_read_in_order)
{
    EVP_PKEY *read[3] = {NULL};

    add(key);
    add(other);
    assert_int_equal(private_keys_read(keys, read, 2), 0);
    assert_int_equal(EVP_PKEY_eq(read[0], key), 1);
    assert_int_equal(EVP_PKEY_eq(read[1], other), 1);
    EVP_PKEY_free(read[0]);
    EVP_PKEY_free(read[1]);
    assert_int_equal(private_keys_read(keys, read, 0), 0);
    assert_int_equal(private_keys_read(keys, read, 3), -1);
}

TEST(key_of_the_certificate_is_used)
{
    EVP_PKEY *parsed;

    write_key(key, NULL);
    parsed = parse();
    assert_int_equal(EVP_PKEY_eq(parsed, key), 1);
    assert_string_equal(why, "");
    EVP_PKEY_free(parsed);
}

TEST(unusable_key_is_reported)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"", "a.key: contains no private key in PEM format"},
        {"text\n", "a.key: contains no private key in PEM format"},
        {"-----BEGIN PRIVATE KEY-----\n!!!!\n-----END PRIVATE KEY-----\n",
         "a.key: contains no private key in PEM format"},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        ERR_clear_error();
        strcpy(text, cases[i].text);
        assert_null(parse());
        assert_string_equal(why, cases[i].why);
    }
    ERR_clear_error();
    write_key(key, EVP_aes_128_cbc());
    assert_null(parse());
    assert_string_equal(why,
                        "a.key: the private key is encrypted; decrypt it: openssl pkey -in a.key");
    ERR_clear_error();
    write_key(other, NULL);
    assert_null(parse());
    assert_non_null(strstr(why, "(the key does not belong to a.pem)"));
    ERR_clear_error();
}

TEST(damaged_file_has_no_keys)
{
    const uint32_t too_long = 64 * 1024 + 1;
    EVP_PKEY *read[2] = {NULL};
    off_t bytes;

    add(key);
    bytes = stored_bytes();
    add(key);
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

TEST(modes_for_others_are_warned_of)
{
    static const mode_t good[] = {0600, 0640, 0400, 0440};
    static const mode_t bad[] = {0604, 0602, 0601, 0620, 0610, 0644};

    private_keys_warn(path); /* missing */
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
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
