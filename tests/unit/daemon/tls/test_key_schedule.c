/*
 * The key schedule of TLS 1.3: the secrets of RFC 8448, and those that OpenSSL's own provider computes. HMAC and the ephemeral keys of
 * the same provider, used as libssl does.
 */
#include "daemon/tls/key_schedule.h"

#include "common/macros.h"
#include "daemon/tls/key_exchange.h"
#include "tests/test.h"

#include <stdbool.h>

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/provider.h>
#include <openssl/rand.h>
#include <string.h>

enum { SECRET_MAX = 128, OUT_MAX = 255 * 48 + 1 };

/* A call of libssl. KEY, SALT, DATA: NULL: not given. */
struct derivation_call {
    int mode;
    const char *digest;
    const void *key, *salt, *label, *data;
    size_t key_length, salt_length, label_length, data_length, out_length;
};

static void add_octets(OSSL_PARAM **to, const char *name, const void *data, size_t length)
{
    if (data != NULL)
        *(*to)++ = OSSL_PARAM_construct_octet_string(name, (void *)(uintptr_t)data, length);
}

/* Returns what EVP_KDF_derive() does. */
static int derive_with(const char *query, const struct derivation_call *call, unsigned char *out)
{
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, OSSL_KDF_NAME_TLS1_3_KDF, query);
    EVP_KDF_CTX *context = EVP_KDF_CTX_new(kdf);
    int mode = call->mode, result;
    OSSL_PARAM parameters[8], *end = parameters;

    assert_non_null(context);
    *end++ = OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode);
    *end++ =
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, (char *)(uintptr_t)call->digest, 0);
    add_octets(&end, OSSL_KDF_PARAM_KEY, call->key, call->key_length);
    add_octets(&end, OSSL_KDF_PARAM_SALT, call->salt, call->salt_length);
    add_octets(&end, OSSL_KDF_PARAM_PREFIX, "tls13 ", 6);
    add_octets(&end, OSSL_KDF_PARAM_LABEL, call->label, call->label_length);
    add_octets(&end, OSSL_KDF_PARAM_DATA, call->data, call->data_length);
    *end = OSSL_PARAM_construct_end();
    result = EVP_KDF_derive(context, out, call->out_length, parameters);
    EVP_KDF_CTX_free(context);
    EVP_KDF_free(kdf);
    return result;
}

/* RFC 8448, section 3 */

struct rfc_step {
    const char *key, *salt, *label, *data, *result; /* hexadecimal; NULL: not given */
};

static const char shared[] = "8bd4054fb55b9d63fdfbacf9f04b9f0d35e6d63f537563efd46272900f89492d",
                  early[] = "33ad0a1c607ec03b09e6cd9893680ce210adf300aa1f2660e1b22e10f170f92a",
                  handshake[] = "1dc826e93606aa6fdc0aadc12f741b01046aa6b99f691ed221a9f0ca043fbeac",
                  master[] = "18df06843d13a08bf2a449844c5f8a478001bc4d4c627984d5a41da8d0402919",
                  server[] = "b67b7d690cc16c4e75e54213cb2d37b4e9c912bcded9105d42befd59d391ad38",
                  to_hello[] = "860c06edc07858ee8e78f0e7428c58edd6b43f2ca3e6e95f02ed063cf0e1cad8",
                  to_finished[] =
                      "9608102a0f1ccc6db6250b7b7e417b1a000eaada3daae4777a7686c9ff83df13";

static const struct rfc_step rfc_steps[] = {
    {NULL, NULL, "derived", NULL, early},
    {shared, early, "derived", NULL, handshake},
    {NULL, handshake, "derived", NULL, master},
    {handshake, NULL, "c hs traffic", to_hello,
     "b3eddb126e067f35a780b3abf45e2d8f3b1a950738f52e9600746a0e27a55a21"},
    {handshake, NULL, "s hs traffic", to_hello, server},
    {server, NULL, "key", NULL, "3fce516009c21727d0f2e4e86ee403bc"},
    {server, NULL, "iv", NULL, "5d313eb2671276ee13000b30"},
    {server, NULL, "finished", NULL,
     "008d3b66f816ea559f96b537e885c31fc068bf492c652f01f288a1d8cdc19fc8"},
    {master, NULL, "c ap traffic", to_finished,
     "9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5"},
};

/* Returns the bytes that TEXT stands for, to be freed; NULL for NULL. */
static unsigned char *decode(const char *text, size_t *length)
{
    long bytes = 0;
    unsigned char *result = text != NULL ? OPENSSL_hexstr2buf(text, &bytes) : NULL;

    *length = (size_t)bytes;
    return result;
}

TEST(vectors_of_rfc_8448_match)
{
    const char *query = key_schedule_use();

    assert_non_null(query);
    for (size_t i = 0; i < ARRAY_LENGTH(rfc_steps); i++) {
        const struct rfc_step *step = &rfc_steps[i];
        struct derivation_call call = {
            .digest = "SHA2-256", .label = step->label, .label_length = strlen(step->label)};
        unsigned char *key = decode(step->key, &call.key_length),
                      *salt = decode(step->salt, &call.salt_length),
                      *data = decode(step->data, &call.data_length),
                      *expected = decode(step->result, &call.out_length), out[SECRET_MAX];

        call.mode = i < 3 ? EVP_KDF_HKDF_MODE_EXTRACT_ONLY : EVP_KDF_HKDF_MODE_EXPAND_ONLY;
        call.key = key;
        call.salt = salt;
        call.data = data;
        assert_int_equal(derive_with(query, &call, out), 1);
        assert_memory_equal(out, expected, call.out_length);
        OPENSSL_free(key);
        OPENSSL_free(salt);
        OPENSSL_free(data);
        OPENSSL_free(expected);
    }
}

/* OpenSSL's own */

static unsigned char ours[OUT_MAX], theirs[OUT_MAX];

static void assert_both_derive(const struct derivation_call *call, int result)
{
    memset(ours, 0, sizeof(ours));
    memset(theirs, 0, sizeof(theirs));
    assert_int_equal(derive_with(key_schedule_use(), call, ours) == 1, result);
    assert_int_equal(derive_with("provider=default", call, theirs) == 1, result);
    if (result)
        assert_memory_equal(ours, theirs, sizeof(ours));
}

TEST(secrets_are_those_of_openssl)
{
    static const char *const digests[] = {"SHA2-256", "SHA2-384", "SHA256", "SHA384"};
    static const size_t lengths[] = {1, 12, 16, 32, 48, 49, 255 * 32};
    unsigned char key[SECRET_MAX], salt[SECRET_MAX], data[SECRET_MAX];

    for (size_t i = 0; i < ARRAY_LENGTH(digests) * 8; i++) {
        size_t hash = i % 2 == 0 ? 32 : 48;
        struct derivation_call call = {.digest = digests[i % ARRAY_LENGTH(digests)],
                                       .key = i & 4 ? key : NULL,
                                       .key_length = i & 8 ? 64 : hash,
                                       .salt = i & 16 ? salt : NULL,
                                       .salt_length = hash,
                                       .label = "derived",
                                       .label_length = 7,
                                       .data = i & 1 ? data : NULL,
                                       .data_length = hash,
                                       .out_length = hash};

        assert_int_equal(RAND_bytes(key, sizeof(key)), 1);
        assert_int_equal(RAND_bytes(salt, sizeof(salt)), 1);
        assert_int_equal(RAND_bytes(data, sizeof(data)), 1);
        call.mode = EVP_KDF_HKDF_MODE_EXTRACT_ONLY;
        assert_both_derive(&call, 1);
        call.mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY;
        call.key = key;
        for (size_t k = 0; k < ARRAY_LENGTH(lengths); k++) {
            call.out_length = lengths[k];
            assert_both_derive(&call, 1);
        }
    }
}

/* The early secret without a session, and what follows it, whose parts are computed once. */
TEST(first_secrets_are_those_of_openssl)
{
    static const char *const labels[] = {"derived", "derives", "derive"};
    unsigned char salt[48], key[48];

    for (size_t i = 0; i < ARRAY_LENGTH(labels) * 4; i++) {
        size_t hash = i % 2 == 0 ? 32 : 48;
        struct derivation_call call = {.mode = EVP_KDF_HKDF_MODE_EXTRACT_ONLY,
                                       .digest = i % 2 == 0 ? "SHA2-256" : "SHA2-384",
                                       .label = labels[i / 4],
                                       .label_length = strlen(labels[i / 4]),
                                       .out_length = hash};

        assert_both_derive(&call, 1);
        memcpy(salt, ours, hash);
        assert_int_equal(RAND_bytes(key, sizeof(key)), 1);
        call.salt = salt;
        call.salt_length = hash;
        call.key = i & 2 ? key : NULL;
        call.key_length = hash;
        assert_both_derive(&call, 1);
        salt[hash - 1] ^= 1;
        assert_both_derive(&call, 1);
    }
}

/* The keys of the last derivations are kept: with the hash, the length and each byte. */
TEST(secrets_in_turn_are_those_of_openssl)
{
    static const unsigned char keys[3][48] = {{1}, {[47] = 1}, {[31] = 1}};
    static const char *const digests[] = {"SHA2-256", "SHA2-384"};

    for (size_t i = 0; i < 128; i++) {
        size_t turn = i * 7 % 12;
        struct derivation_call call = {.mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY,
                                       .digest = digests[turn % 2],
                                       .key = keys[turn / 4],
                                       .key_length = turn & 2 ? 32 : 48,
                                       .label = "key",
                                       .label_length = 3,
                                       .out_length = 32};

        assert_both_derive(&call, 1);
        call.label = "iv";
        call.label_length = 2;
        assert_both_derive(&call, 1);
        if (i % 16 == 0)
            key_schedule_forget();
    }
}

TEST(invalid_derivations_fail_as_with_openssl)
{
    static const unsigned char secret[256];
    const struct derivation_call valid = {.mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY,
                                          .digest = "SHA2-384",
                                          .key = secret,
                                          .key_length = 48,
                                          .label = "key",
                                          .label_length = 3,
                                          .out_length = 32};
    struct derivation_call call = valid;

    assert_both_derive(&call, 1);
    call.out_length = 255 * 48 + 1;
    assert_both_derive(&call, 0);
    call = valid;
    call.label = secret;
    call.label_length = 250;
    assert_both_derive(&call, 0);
    call = valid;
    call.data = secret;
    call.data_length = 256;
    assert_both_derive(&call, 0);
    call = valid;
    call.mode = EVP_KDF_HKDF_MODE_EXTRACT_ONLY;
    assert_both_derive(&call, 0); /* 32 bytes are no SHA-384 */
    call = valid;
    call.key = NULL;
    assert_both_derive(&call, 0);
}

/* HMAC */

enum { MAC_BYTES = EVP_MAX_MD_SIZE };

/* As libssl for a Finished message. Returns the length of MAC; 0: failed. */
static size_t mac_of_finished(const char *query, const char *digest, const void *key,
                              size_t key_length, const void *text, size_t length,
                              unsigned char *mac)
{
    size_t bytes = 0;

    return EVP_Q_mac(NULL, "HMAC", query, digest, NULL, key, key_length, text, length, mac,
                     MAC_BYTES, &bytes) != NULL
               ? bytes
               : 0;
}

/* As for a ticket: the key is a parameter, and the text comes in two parts. */
static size_t mac_of_ticket(const char *query, const char *digest, const void *key,
                            size_t key_length, const unsigned char *text, size_t length,
                            unsigned char *mac)
{
    const OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, (void *)(uintptr_t)key, key_length),
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, (char *)(uintptr_t)digest, 0),
        OSSL_PARAM_construct_end()};
    EVP_MAC *hmac = EVP_MAC_fetch(NULL, "HMAC", query);
    EVP_MAC_CTX *context = EVP_MAC_CTX_new(hmac);
    size_t bytes = 0;

    assert_int_equal(EVP_MAC_CTX_set_params(context, parameters), 1);
    assert_int_equal(EVP_MAC_update(context, text, length / 2), 1);
    assert_int_equal(EVP_MAC_update(context, text + length / 2, length - length / 2), 1);
    assert_int_equal(EVP_MAC_final(context, mac, &bytes, MAC_BYTES), 1);
    assert_int_equal(EVP_MAC_CTX_get_mac_size(context), bytes);
    EVP_MAC_CTX_free(context);
    EVP_MAC_free(hmac);
    return bytes;
}

/* As for the binder of a session: a signature, for whose end OpenSSL copies the context. */
static size_t mac_of_binder(const char *query, const char *digest, const void *key,
                            size_t key_length, const void *text, size_t length, unsigned char *mac)
{
    EVP_PKEY *signer = EVP_PKEY_new_raw_private_key_ex(NULL, "HMAC", query, key, key_length);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    size_t bytes = MAC_BYTES;

    assert_int_equal(EVP_DigestSignInit_ex(context, NULL, digest, NULL, query, signer, NULL), 1);
    assert_int_equal(EVP_DigestSignUpdate(context, text, length), 1);
    assert_int_equal(EVP_DigestSignFinal(context, mac, &bytes), 1);
    EVP_MD_CTX_free(context);
    EVP_PKEY_free(signer);
    return bytes;
}

TEST(macs_are_those_of_openssl)
{
    static const char *const digests[] = {"SHA2-256", "SHA2-384"};
    static const size_t lengths[] = {1, 32, 48, 64, 65, 128, 129, 200};
    const char *query = key_schedule_use();
    unsigned char key[200], text[200], expected[MAC_BYTES], mac[MAC_BYTES];

    for (size_t i = 0; i < ARRAY_LENGTH(lengths) * 2; i++) {
        const char *digest = digests[i % 2];
        size_t length = lengths[i / 2], bytes = i % 2 == 0 ? 32 : 48;

        assert_int_equal(RAND_bytes(key, sizeof(key)), 1);
        assert_int_equal(RAND_bytes(text, sizeof(text)), 1);
        assert_int_equal(mac_of_finished("provider=default", digest, key, length, text,
                                         sizeof(text) - length, expected),
                         bytes);
        assert_int_equal(
            mac_of_finished(query, digest, key, length, text, sizeof(text) - length, mac), bytes);
        assert_memory_equal(mac, expected, bytes);
        assert_int_equal(
            mac_of_ticket(query, digest, key, length, text, sizeof(text) - length, mac), bytes);
        assert_memory_equal(mac, expected, bytes);
        assert_int_equal(
            mac_of_binder(query, digest, key, length, text, sizeof(text) - length, mac), bytes);
        assert_memory_equal(mac, expected, bytes);
    }
    assert_int_equal(mac_of_finished(query, "SHA1", key, 32, text, 32, mac), 0);
}

/* Ephemeral keys */

enum { X25519_BYTES = 32 };

/*
 * A key with the public part ENCODED alone for what the client sends, made as libssl does: with the parameters of OWN, in TLS 1.2, or
 * with new ones. NULL: it is refused.
 */
static EVP_PKEY *peer_of(const char *query, EVP_PKEY *own, const unsigned char *encoded,
                         size_t length)
{
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, "X25519", query);
    EVP_PKEY *key = own != NULL ? EVP_PKEY_new() : NULL;

    if (own != NULL) {
        assert_int_equal(EVP_PKEY_copy_parameters(key, own), 1);
    } else {
        assert_int_equal(EVP_PKEY_paramgen_init(context), 1);
        assert_int_equal(EVP_PKEY_CTX_set_group_name(context, "X25519"), 1);
        assert_int_equal(EVP_PKEY_paramgen(context, &key), 1);
    }
    EVP_PKEY_CTX_free(context);
    if (EVP_PKEY_set1_encoded_public_key(key, encoded, length) == 1)
        return key;
    EVP_PKEY_free(key);
    return NULL;
}

/* Derives SECRET from KEY and the public part of OTHER, as in TLS 1.2 or as in TLS 1.3. */
static void assert_derives(const char *query, bool tls12, EVP_PKEY *key, EVP_PKEY *other,
                           unsigned char *secret)
{
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_pkey(NULL, key, query);
    unsigned char *encoded = NULL;
    size_t length = EVP_PKEY_get1_encoded_public_key(other, &encoded), secret_bytes = X25519_BYTES;
    EVP_PKEY *peer = peer_of(query, tls12 ? key : NULL, encoded, length);

    assert_int_equal(length, X25519_BYTES);
    assert_non_null(peer);
    assert_int_equal(EVP_PKEY_derive_init(context), 1);
    assert_int_equal(EVP_PKEY_derive_set_peer(context, peer), 1);
    assert_int_equal(EVP_PKEY_derive(context, secret, &secret_bytes), 1);
    assert_int_equal(secret_bytes, X25519_BYTES);
    EVP_PKEY_free(peer);
    OPENSSL_free(encoded);
    EVP_PKEY_CTX_free(context);
}

TEST(ephemeral_keys_agree_with_those_of_openssl)
{
    const char *query = key_schedule_use();
    unsigned char private_part[X25519_BYTES], made[X25519_BYTES], computed[X25519_BYTES],
        one[X25519_BYTES], other[X25519_BYTES];
    size_t length;

    if (key_exchange_algorithms(OSSL_OP_KEYMGMT) == NULL)
        skip(); /* built without libsodium */
    for (int i = 0; i < 16; i++) {
        EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, query, "X25519"),
                 *peer = EVP_PKEY_Q_keygen(NULL, "provider=default", "X25519"), *same;

        assert_string_equal(OSSL_PROVIDER_get0_name(EVP_PKEY_get0_provider(key)),
                            KEY_SCHEDULE_PROVIDER);
        assert_int_equal(EVP_PKEY_get_bits(key), EVP_PKEY_get_bits(peer));
        assert_int_equal(EVP_PKEY_get_security_bits(key), EVP_PKEY_get_security_bits(peer));
        assert_int_equal(EVP_PKEY_get_size(key), EVP_PKEY_get_size(peer));
        assert_derives(query, i % 2 == 0, key, peer, one);
        assert_derives("provider=default", false, peer, key, other);
        assert_memory_equal(one, other, sizeof(one));
        /* OpenSSL computes the same public part. */
        length = sizeof(private_part);
        assert_int_equal(EVP_PKEY_get_raw_private_key(key, private_part, &length), 1);
        same = EVP_PKEY_new_raw_private_key_ex(NULL, "X25519", "provider=default", private_part,
                                               length);
        length = sizeof(made);
        assert_int_equal(EVP_PKEY_get_raw_public_key(key, made, &length), 1);
        length = sizeof(computed);
        assert_int_equal(EVP_PKEY_get_raw_public_key(same, computed, &length), 1);
        assert_memory_equal(made, computed, sizeof(made));
        EVP_PKEY_free(key);
        EVP_PKEY_free(peer);
        EVP_PKEY_free(same);
    }
}

/* As in TLS 1.3: the client's public part is ENCODED; MADE is the server's. Returns what the call does. */
static int exchange_with(const char *query, const unsigned char *encoded, unsigned char *made,
                         unsigned char *secret)
{
    EVP_PKEY *peer = peer_of(query, NULL, encoded, X25519_BYTES);
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_pkey(NULL, peer, query);
    size_t made_bytes, secret_bytes;
    int result;

    assert_int_equal(EVP_PKEY_encapsulate_init(context, NULL), 1);
    assert_int_equal(EVP_PKEY_encapsulate(context, NULL, &made_bytes, NULL, &secret_bytes), 1);
    assert_int_equal(made_bytes, X25519_BYTES);
    assert_int_equal(secret_bytes, X25519_BYTES);
    result = EVP_PKEY_encapsulate(context, made, &made_bytes, secret, &secret_bytes);
    EVP_PKEY_CTX_free(context);
    EVP_PKEY_free(peer);
    return result;
}

TEST(exchanges_agree_with_openssl)
{
    static const unsigned char zero[X25519_BYTES];
    const char *query = key_schedule_use();
    unsigned char made[2][X25519_BYTES], one[X25519_BYTES], other[X25519_BYTES];

    if (key_exchange_algorithms(OSSL_OP_KEM) == NULL)
        skip(); /* built without libsodium */
    for (int i = 0; i < 16; i++) {
        EVP_PKEY *client = EVP_PKEY_Q_keygen(NULL, "provider=default", "X25519"), *answer;
        unsigned char *encoded = NULL;

        assert_int_equal(EVP_PKEY_get1_encoded_public_key(client, &encoded), X25519_BYTES);
        assert_int_equal(exchange_with(query, encoded, made[i % 2], one), 1);
        answer = peer_of("provider=default", NULL, made[i % 2], X25519_BYTES);
        assert_derives("provider=default", false, client, answer, other);
        assert_memory_equal(one, other, sizeof(one));
        OPENSSL_free(encoded);
        EVP_PKEY_free(client);
        EVP_PKEY_free(answer);
    }
    assert_memory_not_equal(made[0], made[1], X25519_BYTES);
    assert_int_not_equal(exchange_with(query, zero, made[0], one), 1); /* RFC 7748, section 6.1 */
}

TEST(wrong_ephemeral_keys_are_refused)
{
    const char *query = key_schedule_use();
    EVP_PKEY_CTX *context;
    unsigned char encoded[X25519_BYTES + 1] = {9}, *none = NULL, secret[X25519_BYTES];
    size_t length = sizeof(secret);
    EVP_PKEY *peer, *key = NULL;

    if (key_exchange_algorithms(OSSL_OP_KEYMGMT) == NULL)
        skip();
    context = EVP_PKEY_CTX_new_from_name(NULL, "X25519", query);
    peer = peer_of(query, NULL, encoded, X25519_BYTES);
    assert_non_null(peer);
    assert_null(peer_of(query, NULL, encoded, X25519_BYTES - 1));
    assert_null(peer_of(query, NULL, encoded, X25519_BYTES + 1));
    assert_int_equal(EVP_PKEY_paramgen_init(context), 1);
    assert_int_not_equal(EVP_PKEY_CTX_set_group_name(context, "P-256"), 1);
    EVP_PKEY_CTX_free(context);
    /* Without a private part nothing is derived; with parameters alone there is no public one. */
    context = EVP_PKEY_CTX_new_from_pkey(NULL, peer, query);
    assert_true(EVP_PKEY_derive_init(context) != 1 ||
                EVP_PKEY_derive_set_peer(context, peer) != 1 ||
                EVP_PKEY_derive(context, secret, &length) != 1);
    EVP_PKEY_CTX_free(context);
    context = EVP_PKEY_CTX_new_from_name(NULL, "X25519", query);
    assert_int_equal(EVP_PKEY_paramgen_init(context), 1);
    assert_int_equal(EVP_PKEY_paramgen(context, &key), 1);
    assert_int_equal(EVP_PKEY_get1_encoded_public_key(key, &none), 0);
    EVP_PKEY_CTX_free(context);
    EVP_PKEY_free(key);
    EVP_PKEY_free(peer);
}
