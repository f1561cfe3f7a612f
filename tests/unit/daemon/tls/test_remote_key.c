/* Private keys without the private part, used by OpenSSL as a handshake does. signer_sign() is replaced. */
#include "daemon/tls/remote_key.h"

#include "common/macros.h"
#include "daemon/tls/signature_scheme.h"
#include "daemon/tls/signer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rsa.h>
#include <string.h>

enum { NUMBER = 7, SIGNATURE_MAX = 512 };

static const char text[] = "what is signed", made[] = "a signature";

static struct {
    bool fails;
    uint32_t number, code; /* of the last request; 0: none */
    size_t max;
} request;

/* Replaced by the linker: see wrap() in tests/unit/CMakeLists.txt. */
/* NOLINTBEGIN(clang-diagnostic-reserved-identifier): name of the linker */
size_t __wrap_signer_sign(uint32_t key, const struct signature_scheme *scheme, const uint8_t *bytes,
                          size_t length, uint8_t *signature, size_t max);
/* NOLINTEND(clang-diagnostic-reserved-identifier) */

size_t __wrap_signer_sign(uint32_t key, const struct signature_scheme *scheme, const uint8_t *bytes,
                          size_t length, uint8_t *signature, size_t max)
{
    assert_int_equal(length, sizeof(text));
    assert_memory_equal(bytes, text, length);
    request.number = key;
    request.code = scheme->code;
    request.max = max;
    memcpy(signature, made, sizeof(made));
    return request.fails ? 0 : sizeof(made);
}

/* The keys of the test, by type */

enum { KEY_RSA, KEY_EC, KEY_ED25519, KEY_X25519, KEY_COUNT };

static EVP_PKEY *own[KEY_COUNT];

static int make_keys(void **state)
{
    (void)state;
    own[KEY_RSA] = EVP_RSA_gen(2048);
    own[KEY_EC] = EVP_EC_gen("P-256");
    own[KEY_ED25519] = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    own[KEY_X25519] = EVP_PKEY_Q_keygen(NULL, NULL, "X25519");
    return own[KEY_RSA] != NULL && own[KEY_EC] != NULL && own[KEY_ED25519] != NULL &&
                   own[KEY_X25519] != NULL
               ? 0
               : -1;
}

static int free_keys(void **state)
{
    (void)state;
    for (size_t i = 0; i < KEY_COUNT; i++)
        EVP_PKEY_free(own[i]);
    return 0;
}

static EVP_PKEY *make_remote(size_t type)
{
    EVP_PKEY *key = remote_key_new(own[type], NUMBER);

    assert_non_null(key);
    return key;
}

/* How a signature is made. PADDING 0: the default. */
struct way {
    size_t type;
    const char *digest;
    int padding;
    uint32_t code; /* as TLS names it; 0: the server makes none */
};

/* Begins a signature; the padding is set as a parameter at once, or as a number afterwards. */
static bool begin(EVP_MD_CTX *context, EVP_PKEY *key, const struct way *way, bool at_once)
{
    char name[] = OSSL_PKEY_RSA_PAD_MODE_PKCSV15;
    const OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_SIGNATURE_PARAM_PAD_MODE, name, 0),
        OSSL_PARAM_construct_end()};
    EVP_PKEY_CTX *settings = NULL;

    if (way->padding == RSA_PKCS1_PSS_PADDING)
        strcpy(name, OSSL_PKEY_RSA_PAD_MODE_PSS);
    at_once = at_once && way->padding != 0;
    if (EVP_DigestSignInit_ex(context, &settings, way->digest, NULL, NULL, key,
                              at_once ? parameters : NULL) != 1)
        return false;
    return at_once || way->padding == 0 ||
           EVP_PKEY_CTX_set_rsa_padding(settings, way->padding) == 1;
}

/* Returns the length of the signature of TEXT, or 0. */
static size_t sign(EVP_PKEY *key, const struct way *way, bool at_once,
                   unsigned char signature[SIGNATURE_MAX])
{
    const unsigned char *bytes = (const unsigned char *)text;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    size_t length = 0, room = SIGNATURE_MAX;
    bool done = false;

    request.number = request.code = 0;
    if (begin(context, key, way, at_once) &&
        EVP_DigestSign(context, NULL, &length, bytes, sizeof(text)) == 1) {
        assert_int_equal(length, EVP_PKEY_get_size(key));
        assert_int_equal(request.code, 0); /* only the size was needed */
        done = EVP_DigestSign(context, signature, &room, bytes, sizeof(text)) == 1;
        assert_true(!done || room > 0);
    }
    EVP_MD_CTX_free(context);
    return done ? room : 0;
}

static void key_is_that_of_the_certificate(void **state)
{
    (void)state;
    for (size_t i = 0; i < KEY_X25519; i++) {
        EVP_PKEY *key = make_remote(i), *second = make_remote(i);
        EVP_PKEY *other = make_remote(i == KEY_RSA ? KEY_EC : KEY_RSA);

        assert_int_equal(EVP_PKEY_get_size(key), EVP_PKEY_get_size(own[i]));
        assert_int_equal(EVP_PKEY_get_bits(key), EVP_PKEY_get_bits(own[i]));
        assert_int_equal(EVP_PKEY_eq(key, second), 1);
        assert_int_not_equal(EVP_PKEY_eq(key, other), 1);
        EVP_PKEY_free(other);
        EVP_PKEY_free(second);
        EVP_PKEY_free(key);
    }
}

static void keys_of_one_type_differ(void **state)
{
    EVP_PKEY *another = EVP_EC_gen("P-256"), *key = make_remote(KEY_EC);
    EVP_PKEY *other = remote_key_new(another, NUMBER);

    (void)state;
    assert_non_null(other);
    assert_int_not_equal(EVP_PKEY_eq(key, other), 1);
    EVP_PKEY_free(other);
    EVP_PKEY_free(key);
    EVP_PKEY_free(another);
}

static void key_of_another_type_is_refused(void **state)
{
    (void)state;
    assert_null(remote_key_new(own[KEY_X25519], NUMBER));
}

/* Numbers of RFC 8446 section 4.2.3. */
static void signature_is_requested_by_key_and_scheme(void **state)
{
    static const struct way ways[] = {
        {KEY_EC, "SHA256", 0, 0x0403},
        {KEY_EC, "SHA384", 0, 0x0503},
        {KEY_ED25519, NULL, 0, 0x0807},
        {KEY_RSA, "SHA256", 0, 0x0401},
        {KEY_RSA, "SHA512", RSA_PKCS1_PADDING, 0x0601},
        {KEY_RSA, "SHA256", RSA_PKCS1_PSS_PADDING, 0x0804},
        {KEY_RSA, "SHA384", RSA_PKCS1_PSS_PADDING, 0x0805},
        {KEY_RSA, "SHA1", 0, 0},
        {KEY_ED25519, "SHA256", 0, 0},
        {KEY_RSA, "a digest with a name that no signature has", 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < 2 * ARRAY_LENGTH(ways); i++) {
        const struct way *way = &ways[i / 2];
        unsigned char signature[SIGNATURE_MAX];
        EVP_PKEY *key = make_remote(way->type);
        size_t length = sign(key, way, i % 2 == 1, signature);

        assert_int_equal(request.code, way->code);
        assert_int_equal(length, way->code != 0 ? sizeof(made) : 0);
        if (way->code != 0) {
            assert_int_equal(request.number, NUMBER);
            assert_int_equal(request.max, SIGNATURE_MAX);
            assert_memory_equal(signature, made, sizeof(made));
        }
        EVP_PKEY_free(key);
    }
}

static void signature_that_is_not_made_is_an_error(void **state)
{
    static const struct way way = {KEY_EC, "SHA256", 0, 0x0403};
    unsigned char signature[SIGNATURE_MAX];
    EVP_PKEY *key = make_remote(KEY_EC);

    (void)state;
    request.fails = true;
    assert_int_equal(sign(key, &way, false, signature), 0);
    assert_int_equal(request.code, way.code);
    request.fails = false;
    EVP_PKEY_free(key);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(key_is_that_of_the_certificate),
        cmocka_unit_test(keys_of_one_type_differ),
        cmocka_unit_test(key_of_another_type_is_refused),
        cmocka_unit_test(signature_is_requested_by_key_and_scheme),
        cmocka_unit_test(signature_that_is_not_made_is_an_error),
    };

    return cmocka_run_group_tests(tests, make_keys, free_keys);
}
