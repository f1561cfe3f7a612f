/* OpenSSL 3 marks functions of one hash as old; what it has instead makes the objects. */
#define OPENSSL_SUPPRESS_DEPRECATED

#include "daemon/tls/key_schedule.h"

#include "daemon/tls/key_exchange.h"

#include <openssl/core_dispatch.h>
#include <openssl/core_names.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/provider.h>
#include <openssl/sha.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

struct bytes {
    const uint8_t *start;
    size_t length;
};

/* HMAC (RFC 2104) and HKDF (RFC 5869) with SHA-256 or SHA-384 */

enum { BLOCK_MAX = SHA512_CBLOCK, HASH_MAX = SHA384_DIGEST_LENGTH };

struct hash_kind {
    size_t bytes, block;
    bool sha384;
};

static const struct hash_kind sha256 = {SHA256_DIGEST_LENGTH, SHA256_CBLOCK, false};
static const struct hash_kind sha384 = {SHA384_DIGEST_LENGTH, SHA512_CBLOCK, true};

union hash {
    SHA256_CTX sha256;
    SHA512_CTX sha384;
};

static void hash_init(union hash *hash, const struct hash_kind *kind)
{
    if (kind->sha384)
        SHA384_Init(&hash->sha384);
    else
        SHA256_Init(&hash->sha256);
}

static void hash_add(union hash *hash, const struct hash_kind *kind, const void *data,
                     size_t length)
{
    if (kind->sha384)
        SHA384_Update(&hash->sha384, data, length);
    else
        SHA256_Update(&hash->sha256, data, length);
}

static void hash_final(union hash *hash, const struct hash_kind *kind, uint8_t *out)
{
    if (kind->sha384)
        SHA384_Final(out, &hash->sha384);
    else
        SHA256_Final(out, &hash->sha256);
}

/* Begins the inner hash, or the outer one, which differ in PAD. KEY has at most a block. */
static void hmac_begin(union hash *hash, const struct hash_kind *kind, struct bytes key,
                       uint8_t pad)
{
    uint8_t block[BLOCK_MAX];

    memset(block, pad, kind->block);
    for (size_t i = 0; i < key.length; i++)
        block[i] ^= key.start[i];
    hash_init(hash, kind);
    hash_add(hash, kind, block, kind->block);
    explicit_bzero(block, kind->block);
}

/* The hashes of a key, of which the inner one takes the text. */
struct hmac {
    const struct hash_kind *kind;
    union hash inner, outer;
};

static void hmac_init(struct hmac *hmac, const struct hash_kind *kind, struct bytes key)
{
    hmac->kind = kind;
    hmac_begin(&hmac->inner, kind, key, 0x36);
    hmac_begin(&hmac->outer, kind, key, 0x5c);
}

static void hmac_final(struct hmac *hmac, uint8_t *out)
{
    uint8_t inner[HASH_MAX];

    hash_final(&hmac->inner, hmac->kind, inner);
    hash_add(&hmac->outer, hmac->kind, inner, hmac->kind->bytes);
    hash_final(&hmac->outer, hmac->kind, out);
    explicit_bzero(inner, sizeof(inner));
}

static void hmac(const struct hash_kind *kind, struct bytes key, struct bytes text, uint8_t *out)
{
    struct hmac hmac;

    hmac_init(&hmac, kind, key);
    hash_add(&hmac.inner, kind, text.start, text.length);
    hmac_final(&hmac, out);
    explicit_bzero(&hmac, sizeof(hmac));
}

/*
 * The keys of the last expansions. libssl derives three values from most secrets, in turn with those
 * of another; each saves half of the hashing for the next.
 */
static _Thread_local struct {
    struct keyed {
        struct hmac hmac; /* hmac.kind: NULL: unused */
        size_t length;
        uint8_t key[BLOCK_MAX];
    } keyed[2];
    unsigned int last; /* of the two */
} recent;

void key_schedule_forget(void)
{
    explicit_bzero(&recent, sizeof(recent));
}

static const struct hmac *find_keyed(const struct hash_kind *kind, struct bytes key)
{
    struct keyed *keyed = recent.keyed;

    for (unsigned int i = 0; i < 2; i++)
        if (keyed[i].hmac.kind == kind && keyed[i].length == key.length &&
            CRYPTO_memcmp(keyed[i].key, key.start, key.length) == 0) {
            recent.last = i;
            return &keyed[i].hmac;
        }
    recent.last = 1 - recent.last;
    keyed += recent.last;
    hmac_init(&keyed->hmac, kind, key);
    keyed->length = key.length;
    memcpy(keyed->key, key.start, key.length);
    return &keyed->hmac;
}

/* SECRET has at most a block. */
static bool hkdf_expand(const struct hash_kind *kind, struct bytes secret, const struct bytes *info,
                        uint8_t *out, size_t length)
{
    const struct hmac *keyed = find_keyed(kind, secret);
    uint8_t block[HASH_MAX], number = 1;
    struct hmac hmac;

    if (length > 255 * kind->bytes)
        return false;
    for (size_t done = 0; done < length; number++) {
        size_t piece = length - done < kind->bytes ? length - done : kind->bytes;

        hmac = *keyed;
        if (done > 0)
            hash_add(&hmac.inner, kind, block, kind->bytes);
        hash_add(&hmac.inner, kind, info->start, info->length);
        hash_add(&hmac.inner, kind, &number, 1);
        hmac_final(&hmac, block);
        memcpy(out + done, block, piece);
        done += piece;
    }
    explicit_bzero(&hmac, sizeof(hmac));
    explicit_bzero(block, sizeof(block));
    return true;
}

/* What OpenSSL asks for: OSSL_OP_KDF with the parameters of TLS13-KDF, EVP_KDF-TLS13_KDF(7) */

enum { LABEL_MAX = 255, CONTEXT_MAX = 255 };

struct derivation {
    int mode;
    const struct hash_kind *kind;
    struct bytes key, salt, prefix, label, data;
};

/* HKDF-Expand-Label of RFC 8446 */
static bool expand_label(const struct derivation *of, struct bytes secret, struct bytes data,
                         uint8_t *out, size_t length)
{
    uint8_t text[2 + 1 + LABEL_MAX + 1 + CONTEXT_MAX], *end = text;
    struct bytes info = {text, 0};

    if (length > UINT16_MAX || of->prefix.length + of->label.length > LABEL_MAX ||
        data.length > CONTEXT_MAX || secret.start == NULL || secret.length > of->kind->block)
        return false;
    *end++ = (uint8_t)(length >> 8);
    *end++ = (uint8_t)length;
    *end++ = (uint8_t)(of->prefix.length + of->label.length);
    end = mempcpy(end, of->prefix.start, of->prefix.length);
    end = mempcpy(end, of->label.start, of->label.length);
    *end++ = (uint8_t)data.length;
    if (data.length > 0)
        end = mempcpy(end, data.start, data.length);
    info.length = (size_t)(end - text);
    return hkdf_expand(of->kind, secret, &info, out, length);
}

/* What every handshake without a session computes, or, the hash of nothing, every handshake. */
struct constants {
    uint8_t empty[HASH_MAX], early_secret[HASH_MAX], derived[HASH_MAX];
};

static struct constants constants_sha256, constants_sha384; /* set by key_schedule_use() */

static const struct bytes prefix = {(const uint8_t *)"tls13 ", 6},
                          derived_label = {(const uint8_t *)"derived", 7};

static bool are_same(struct bytes one, struct bytes other)
{
    return one.length == other.length && memcmp(one.start, other.start, one.length) == 0;
}

static void compute_constants(struct constants *constants, const struct hash_kind *kind)
{
    static const uint8_t zeros[HASH_MAX];
    const struct bytes zero = {zeros, kind->bytes}, empty = {constants->empty, kind->bytes},
                       early_secret = {constants->early_secret, kind->bytes};
    const struct derivation of = {.kind = kind, .prefix = prefix, .label = derived_label};
    union hash hash;

    hash_init(&hash, kind);
    hash_final(&hash, kind, constants->empty);
    hmac(kind, zero, zero, constants->early_secret);
    expand_label(&of, early_secret, empty, constants->derived, kind->bytes);
}

/*
 * The next of the early, the handshake and the master secret: HKDF-Extract of the key with what is
 * derived from the secret before, the salt.
 */
static bool next_secret(const struct derivation *of, uint8_t *out, size_t length)
{
    static const uint8_t zeros[HASH_MAX];
    const struct hash_kind *kind = of->kind;
    const struct constants *constants = kind->sha384 ? &constants_sha384 : &constants_sha256;
    const struct bytes zero = {zeros, kind->bytes}, empty = {constants->empty, kind->bytes};
    struct bytes input = of->key.start != NULL ? of->key : zero;
    uint8_t derived[HASH_MAX];
    struct bytes salt = {derived, kind->bytes};

    if (length != kind->bytes)
        return false;
    if (of->salt.start == NULL && of->key.start == NULL) {
        memcpy(out, constants->early_secret, length);
        return true;
    }
    if (of->salt.start == NULL)
        salt = zero;
    else if (of->salt.length == kind->bytes &&
             CRYPTO_memcmp(of->salt.start, constants->early_secret, kind->bytes) == 0 &&
             are_same(of->prefix, prefix) && are_same(of->label, derived_label))
        memcpy(derived, constants->derived, kind->bytes);
    else if (!expand_label(of, of->salt, empty, derived, kind->bytes))
        return false;
    hmac(kind, salt, input, out);
    explicit_bzero(derived, sizeof(derived));
    return true;
}

static const struct hash_kind *find_hash(const char *name)
{
    if (strcasecmp(name, "SHA2-256") == 0 || strcasecmp(name, "SHA256") == 0)
        return &sha256;
    if (strcasecmp(name, "SHA2-384") == 0 || strcasecmp(name, "SHA384") == 0)
        return &sha384;
    return NULL;
}

/* 22 derivations have six parameters each: most of seven comparisons end at the first letter. */
static bool is_named(const OSSL_PARAM *parameter, const char *name)
{
    return parameter->key[0] == name[0] && strcmp(parameter->key, name) == 0;
}

static void read_parameters(struct derivation *of, const OSSL_PARAM *parameters)
{
    for (const OSSL_PARAM *p = parameters; p != NULL && p->key != NULL; p++) {
        struct bytes value = {p->data, p->data_size};

        if (is_named(p, OSSL_KDF_PARAM_KEY))
            of->key = value;
        else if (is_named(p, OSSL_KDF_PARAM_SALT))
            of->salt = value;
        else if (is_named(p, OSSL_KDF_PARAM_PREFIX))
            of->prefix = value;
        else if (is_named(p, OSSL_KDF_PARAM_LABEL))
            of->label = value;
        else if (is_named(p, OSSL_KDF_PARAM_DATA))
            of->data = value;
        else if (is_named(p, OSSL_KDF_PARAM_DIGEST))
            of->kind = find_hash(p->data);
        else if (is_named(p, OSSL_KDF_PARAM_MODE) && OSSL_PARAM_get_int(p, &of->mode) != 1)
            of->mode = -1;
    }
}

/* libssl gives all parameters with this call, so that there is nothing to keep in a context. */
static int derive(void *context, unsigned char *out, size_t length, const OSSL_PARAM parameters[])
{
    struct derivation of = {.mode = -1};

    (void)context;
    read_parameters(&of, parameters);
    if (of.kind == NULL)
        return 0;
    if (of.mode == EVP_KDF_HKDF_MODE_EXTRACT_ONLY)
        return next_secret(&of, out, length);
    return of.mode == EVP_KDF_HKDF_MODE_EXPAND_ONLY &&
           expand_label(&of, of.key, of.data, out, length);
}

static void *derive_new(void *provider)
{
    static char nothing;

    (void)provider;
    return &nothing;
}

static void derive_free(void *context)
{
    (void)context;
}

/*
 * HMAC of Finished messages, of binders and of tickets: OSSL_OP_MAC, EVP_MAC-HMAC(7). The digest is
 * set before or with the key.
 */

static void *mac_new(void *provider)
{
    (void)provider;
    return OPENSSL_zalloc(sizeof(struct hmac));
}

static void mac_free(void *mac)
{
    OPENSSL_clear_free(mac, sizeof(struct hmac));
}

static void *mac_copy(void *mac)
{
    return OPENSSL_memdup(mac, sizeof(struct hmac));
}

static int mac_set_key(struct hmac *mac, struct bytes key)
{
    const struct hash_kind *kind = mac->kind;
    uint8_t hashed[HASH_MAX];

    if (kind == NULL || key.start == NULL)
        return 0;
    if (key.length > kind->block) {
        hash_init(&mac->inner, kind);
        hash_add(&mac->inner, kind, key.start, key.length);
        hash_final(&mac->inner, kind, hashed);
        key = (struct bytes){hashed, kind->bytes};
    }
    hmac_init(mac, kind, key);
    explicit_bzero(hashed, sizeof(hashed));
    return 1;
}

static int mac_set_parameters(void *data, const OSSL_PARAM parameters[])
{
    struct hmac *mac = data;
    const OSSL_PARAM *digest = OSSL_PARAM_locate_const(parameters, OSSL_MAC_PARAM_DIGEST),
                     *key = OSSL_PARAM_locate_const(parameters, OSSL_MAC_PARAM_KEY);

    if (digest != NULL) {
        mac->kind = find_hash(digest->data);
        if (mac->kind == NULL)
            return 0;
    }
    return key == NULL || mac_set_key(mac, (struct bytes){key->data, key->data_size});
}

static const OSSL_PARAM *mac_settable_parameters(void *mac, void *provider)
{
    static const OSSL_PARAM all[] = {OSSL_PARAM_utf8_string(OSSL_MAC_PARAM_DIGEST, NULL, 0),
                                     OSSL_PARAM_octet_string(OSSL_MAC_PARAM_KEY, NULL, 0),
                                     OSSL_PARAM_END};

    (void)mac, (void)provider;
    return all;
}

static int mac_get_parameters(void *data, OSSL_PARAM parameters[])
{
    const struct hmac *mac = data;
    OSSL_PARAM *size = OSSL_PARAM_locate(parameters, OSSL_MAC_PARAM_SIZE);

    return size == NULL || (mac->kind != NULL && OSSL_PARAM_set_size_t(size, mac->kind->bytes));
}

static const OSSL_PARAM *mac_gettable_parameters(void *mac, void *provider)
{
    static const OSSL_PARAM all[] = {OSSL_PARAM_size_t(OSSL_MAC_PARAM_SIZE, NULL), OSSL_PARAM_END};

    (void)mac, (void)provider;
    return all;
}

static int mac_init(void *mac, const unsigned char *key, size_t length,
                    const OSSL_PARAM parameters[])
{
    return mac_set_parameters(mac, parameters) && mac_set_key(mac, (struct bytes){key, length});
}

static int mac_add(void *data, const unsigned char *text, size_t length)
{
    struct hmac *mac = data;

    if (mac->kind == NULL)
        return 0;
    hash_add(&mac->inner, mac->kind, text, length);
    return 1;
}

static int mac_final(void *data, unsigned char *out, size_t *length, size_t max)
{
    struct hmac *mac = data;

    if (mac->kind == NULL || max < mac->kind->bytes)
        return 0;
    hmac_final(mac, out);
    *length = mac->kind->bytes;
    return 1;
}

/* The provider */

#define FUNCTION(id, function)                                                                     \
    {                                                                                              \
        OSSL_FUNC_##id, (void (*)(void))(function)                                                 \
    }

static const OSSL_ALGORITHM *query_key_schedule(void *provider, int operation, int *no_cache)
{
    static const OSSL_DISPATCH derivation[] = {FUNCTION(KDF_NEWCTX, derive_new),
                                               FUNCTION(KDF_FREECTX, derive_free),
                                               FUNCTION(KDF_DERIVE, derive),
                                               {0, NULL}};
    static const OSSL_ALGORITHM derivations[] = {
        {"TLS13-KDF", "provider=" KEY_SCHEDULE_PROVIDER, derivation, NULL},
        {NULL, NULL, NULL, NULL}};
    static const OSSL_DISPATCH mac[] = {FUNCTION(MAC_NEWCTX, mac_new),
                                        FUNCTION(MAC_DUPCTX, mac_copy),
                                        FUNCTION(MAC_FREECTX, mac_free),
                                        FUNCTION(MAC_INIT, mac_init),
                                        FUNCTION(MAC_UPDATE, mac_add),
                                        FUNCTION(MAC_FINAL, mac_final),
                                        FUNCTION(MAC_GET_CTX_PARAMS, mac_get_parameters),
                                        FUNCTION(MAC_GETTABLE_CTX_PARAMS, mac_gettable_parameters),
                                        FUNCTION(MAC_SET_CTX_PARAMS, mac_set_parameters),
                                        FUNCTION(MAC_SETTABLE_CTX_PARAMS, mac_settable_parameters),
                                        {0, NULL}};
    static const OSSL_ALGORITHM macs[] = {{"HMAC", "provider=" KEY_SCHEDULE_PROVIDER, mac, NULL},
                                          {NULL, NULL, NULL, NULL}};

    (void)provider;
    *no_cache = 0;
    switch (operation) {
    case OSSL_OP_KDF:
        return derivations;
    case OSSL_OP_MAC:
        return macs;
    default:
        return key_exchange_algorithms(operation);
    }
}

static int init_key_schedule(const OSSL_CORE_HANDLE *handle, const OSSL_DISPATCH *in,
                             const OSSL_DISPATCH **out, void **provider)
{
    static const OSSL_DISPATCH functions[] = {
        FUNCTION(PROVIDER_QUERY_OPERATION, query_key_schedule),
        FUNCTION(PROVIDER_GET_CAPABILITIES, key_exchange_capabilities),
        {0, NULL}};

    (void)in;
    *out = functions;
    *provider = (void *)(uintptr_t)handle;
    return 1;
}

/* Stays loaded until the process ends, beside OpenSSL's own providers. */
const char *key_schedule_use(void)
{
    static OSSL_PROVIDER *provider;

    if (provider == NULL) {
        compute_constants(&constants_sha256, &sha256);
        compute_constants(&constants_sha384, &sha384);
        key_exchange_prepare();
    }
    if (provider == NULL &&
        OSSL_PROVIDER_add_builtin(NULL, KEY_SCHEDULE_PROVIDER, init_key_schedule) == 1)
        provider = OSSL_PROVIDER_try_load(NULL, KEY_SCHEDULE_PROVIDER, 1);
    return provider != NULL ? "?provider=" KEY_SCHEDULE_PROVIDER : NULL;
}
