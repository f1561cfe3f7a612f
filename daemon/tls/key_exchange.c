#include "daemon/tls/key_exchange.h"

#ifdef HAVE_SODIUM

#include "daemon/tls/key_schedule.h"

#include <openssl/core_dispatch.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/prov_ssl.h>
#include <openssl/provider.h>
#include <openssl/rand.h>
#include <sodium/crypto_scalarmult_curve25519.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#define EXCHANGE_NAME "webserverd-x25519" /* OpenSSL 3.2 has another KEM that is called X25519 */

enum { BYTES = crypto_scalarmult_curve25519_BYTES, BITS = 253, SECURITY_BITS = 128 };

/* Keys: OSSL_OP_KEYMGMT, provider-keymgmt(7) */

struct x25519_key {
    bool has_public, has_private;
    uint8_t public_part[BYTES], private_part[BYTES];
};

static void *new_x25519(void *provider)
{
    (void)provider;
    return OPENSSL_zalloc(sizeof(struct x25519_key));
}

static void free_x25519(void *key)
{
    OPENSSL_clear_free(key, sizeof(struct x25519_key));
}

/* Parameters alone are for the client's key in TLS 1.2. */
static void *copy_x25519(const void *data, int selection)
{
    const struct x25519_key *key = data;
    struct x25519_key *copy = new_x25519(NULL);

    if (copy == NULL)
        return NULL;
    if ((selection & OSSL_KEYMGMT_SELECT_PUBLIC_KEY) != 0 && key->has_public) {
        memcpy(copy->public_part, key->public_part, BYTES);
        copy->has_public = true;
    }
    if ((selection & OSSL_KEYMGMT_SELECT_PRIVATE_KEY) != 0 && key->has_private) {
        memcpy(copy->private_part, key->private_part, BYTES);
        copy->has_private = true;
    }
    return copy;
}

static int has_x25519(const void *data, int selection)
{
    const struct x25519_key *key = data;

    return key != NULL && ((selection & OSSL_KEYMGMT_SELECT_PUBLIC_KEY) == 0 || key->has_public) &&
           ((selection & OSSL_KEYMGMT_SELECT_PRIVATE_KEY) == 0 || key->has_private);
}

static int get_x25519(void *data, OSSL_PARAM parameters[])
{
    const struct x25519_key *key = data;
    OSSL_PARAM *bits = OSSL_PARAM_locate(parameters, OSSL_PKEY_PARAM_BITS),
               *security = OSSL_PARAM_locate(parameters, OSSL_PKEY_PARAM_SECURITY_BITS),
               *size = OSSL_PARAM_locate(parameters, OSSL_PKEY_PARAM_MAX_SIZE),
               *encoded = OSSL_PARAM_locate(parameters, OSSL_PKEY_PARAM_ENCODED_PUBLIC_KEY);

    return (bits == NULL || OSSL_PARAM_set_int(bits, BITS) == 1) &&
           (security == NULL || OSSL_PARAM_set_int(security, SECURITY_BITS) == 1) &&
           (size == NULL || OSSL_PARAM_set_int(size, BYTES) == 1) &&
           (encoded == NULL || (key->has_public && OSSL_PARAM_set_octet_string(
                                                       encoded, key->public_part, BYTES) == 1));
}

static const OSSL_PARAM *gettable_x25519(void *provider)
{
    static const OSSL_PARAM all[] = {
        OSSL_PARAM_int(OSSL_PKEY_PARAM_BITS, NULL),
        OSSL_PARAM_int(OSSL_PKEY_PARAM_SECURITY_BITS, NULL),
        OSSL_PARAM_int(OSSL_PKEY_PARAM_MAX_SIZE, NULL),
        OSSL_PARAM_octet_string(OSSL_PKEY_PARAM_ENCODED_PUBLIC_KEY, NULL, 0), OSSL_PARAM_END};

    (void)provider;
    return all;
}

/* The public part of the client's key. */
static int set_x25519(void *data, const OSSL_PARAM parameters[])
{
    struct x25519_key *key = data;
    const OSSL_PARAM *encoded =
        OSSL_PARAM_locate_const(parameters, OSSL_PKEY_PARAM_ENCODED_PUBLIC_KEY);

    if (encoded == NULL)
        return 1;
    if (encoded->data_type != OSSL_PARAM_OCTET_STRING || encoded->data_size != BYTES)
        return 0;
    memcpy(key->public_part, encoded->data, BYTES);
    key->has_public = true;
    key->has_private = false;
    return 1;
}

static const OSSL_PARAM *settable_x25519(void *provider)
{
    static const OSSL_PARAM all[] = {
        OSSL_PARAM_octet_string(OSSL_PKEY_PARAM_ENCODED_PUBLIC_KEY, NULL, 0), OSSL_PARAM_END};

    (void)provider;
    return all;
}

static void list_parts(struct x25519_key *key, int selection, OSSL_PARAM parts[static 3])
{
    if (key->has_public && (selection & OSSL_KEYMGMT_SELECT_PUBLIC_KEY) != 0)
        *parts++ =
            OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PUB_KEY, key->public_part, BYTES);
    if (key->has_private && (selection & OSSL_KEYMGMT_SELECT_PRIVATE_KEY) != 0)
        *parts++ =
            OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PRIV_KEY, key->private_part, BYTES);
    *parts = OSSL_PARAM_construct_end();
}

static int export_x25519(void *key, int selection, OSSL_CALLBACK *take, void *argument)
{
    OSSL_PARAM parts[3];

    list_parts(key, selection, parts);
    return take(parts, argument);
}

static const OSSL_PARAM *export_types_x25519(int selection)
{
    static const OSSL_PARAM all[] = {OSSL_PARAM_octet_string(OSSL_PKEY_PARAM_PUB_KEY, NULL, 0),
                                     OSSL_PARAM_octet_string(OSSL_PKEY_PARAM_PRIV_KEY, NULL, 0),
                                     OSSL_PARAM_END};

    (void)selection;
    return all;
}

static const char *operation_name(int operation)
{
    return operation == OSSL_OP_KEM ? EXCHANGE_NAME : NULL;
}

/* Generation. Its context is what to make: the bits of a selection. */

static int set_x25519_generation(void *context, const OSSL_PARAM parameters[])
{
    const OSSL_PARAM *group = OSSL_PARAM_locate_const(parameters, OSSL_PKEY_PARAM_GROUP_NAME);

    (void)context;
    return group == NULL ||
           (group->data_type == OSSL_PARAM_UTF8_STRING && strcasecmp(group->data, "x25519") == 0);
}

static const OSSL_PARAM *settable_x25519_generation(void *context, void *provider)
{
    static const OSSL_PARAM all[] = {OSSL_PARAM_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, NULL, 0),
                                     OSSL_PARAM_END};

    (void)context, (void)provider;
    return all;
}

static void *begin_x25519(void *provider, int selection, const OSSL_PARAM parameters[])
{
    int *context = OPENSSL_malloc(sizeof(*context));

    (void)provider;
    if (context == NULL || set_x25519_generation(context, parameters) != 1) {
        OPENSSL_free(context);
        return NULL;
    }
    *context = selection;
    return context;
}

static bool make_pair(struct x25519_key *key)
{
    key->has_public = key->has_private =
        RAND_priv_bytes(key->private_part, BYTES) == 1 &&
        crypto_scalarmult_curve25519_base(key->public_part, key->private_part) == 0;
    return key->has_private;
}

/* Parameters alone, without a key pair, are for a key that the client sends. */
static void *generate_x25519(void *context, OSSL_CALLBACK *progress, void *argument)
{
    const int *selection = context;
    struct x25519_key *key = new_x25519(NULL);

    (void)progress, (void)argument;
    if (key == NULL || (*selection & OSSL_KEYMGMT_SELECT_KEYPAIR) == 0 || make_pair(key))
        return key;
    free_x25519(key);
    return NULL;
}

static void end_x25519(void *context)
{
    OPENSSL_free(context);
}

/*
 * The exchange in TLS 1.3: OSSL_OP_KEM, provider-kem(7). In one step it makes the server's key, whose
 * public part is the "encapsulation", and derives the secret: with fewer objects of OpenSSL than by
 * OSSL_OP_KEYEXCH, as in TLS 1.2. The context is a copy of the client's key.
 */

/* By which another provider, OpenSSL's own, derives it. */
static struct {
    EVP_KEYEXCH *exchange; /* keeps the provider loaded; NULL: there is none */
    void *provider;        /* its context */
    OSSL_FUNC_keymgmt_new_fn *make;
    OSSL_FUNC_keymgmt_free_fn *drop;
    OSSL_FUNC_keymgmt_import_fn *import;
    OSSL_FUNC_keyexch_newctx_fn *begin;
    OSSL_FUNC_keyexch_init_fn *set_own;
    OSSL_FUNC_keyexch_set_peer_fn *set_peer;
    OSSL_FUNC_keyexch_derive_fn *derive;
    OSSL_FUNC_keyexch_freectx_fn *end;
} other;

static void *import_elsewhere(struct x25519_key *key)
{
    void *copy = other.make(other.provider);
    OSSL_PARAM parts[3];

    list_parts(key, OSSL_KEYMGMT_SELECT_KEYPAIR, parts);
    if (copy == NULL || other.import(copy, OSSL_KEYMGMT_SELECT_KEYPAIR, parts) == 1)
        return copy;
    other.drop(copy);
    return NULL;
}

static bool derive_elsewhere(struct x25519_key *own, struct x25519_key *peer, uint8_t *secret)
{
    void *own_copy = import_elsewhere(own), *peer_copy = import_elsewhere(peer),
         *exchange = other.begin(other.provider);
    size_t length;
    bool done = own_copy != NULL && peer_copy != NULL && exchange != NULL &&
                other.set_own(exchange, own_copy, NULL) == 1 &&
                other.set_peer(exchange, peer_copy) == 1 &&
                other.derive(exchange, secret, &length, BYTES) == 1;

    if (exchange != NULL)
        other.end(exchange);
    if (peer_copy != NULL)
        other.drop(peer_copy);
    if (own_copy != NULL)
        other.drop(own_copy);
    return done;
}

static int begin_exchange(void *context, void *peer, const OSSL_PARAM parameters[])
{
    const struct x25519_key *key = peer;

    (void)parameters;
    *(struct x25519_key *)context = *key;
    return key->has_public;
}

/* OUT: NULL: only the lengths are asked for. */
static int make_and_derive(void *peer, unsigned char *out, size_t *length, unsigned char *secret,
                           size_t *secret_length)
{
    struct x25519_key own = {.has_public = false};
    bool done;

    *length = *secret_length = BYTES;
    if (out == NULL)
        return 1;
    done = make_pair(&own) && derive_elsewhere(&own, peer, secret);
    memcpy(out, own.public_part, BYTES);
    OPENSSL_cleanse(&own, sizeof(own));
    return done;
}

/* Only clients do it, but OpenSSL 3.2 takes no KEM without it. */

static int refuse_to_begin(void *context, void *key, const OSSL_PARAM parameters[])
{
    (void)context, (void)key, (void)parameters;
    return 0;
}

static int refuse(void *context, unsigned char *secret, size_t *length, const unsigned char *in,
                  size_t in_length)
{
    (void)context, (void)secret, (void)length, (void)in, (void)in_length;
    return 0;
}

/* The provider */

/* The functions of PROVIDER for OPERATION with X25519. */
static const OSSL_DISPATCH *find_functions(const OSSL_PROVIDER *provider, int operation)
{
    static const OSSL_DISPATCH none[] = {{0, NULL}};
    static const char name[] = "X25519";
    int no_cache;
    const OSSL_ALGORITHM *one = OSSL_PROVIDER_query_operation(provider, operation, &no_cache);

    for (; one != NULL && one->algorithm_names != NULL; one++)
        if (strncasecmp(one->algorithm_names, name, strlen(name)) == 0 &&
            strchr(":", one->algorithm_names[strlen(name)]) != NULL)
            return one->implementation;
    return none;
}

/* The end of FUNCTIONS, whose function is NULL, if it has none with ID. */
static const OSSL_DISPATCH *find_function(const OSSL_DISPATCH *functions, int id)
{
    while (functions->function_id != 0 && functions->function_id != id)
        functions++;
    return functions;
}

void key_exchange_prepare(void)
{
    EVP_KEYEXCH *exchange = EVP_KEYEXCH_fetch(NULL, "X25519", NULL);
    const OSSL_PROVIDER *provider;
    const OSSL_DISPATCH *keys, *exchanges;

    if (exchange == NULL)
        return;
    provider = EVP_KEYEXCH_get0_provider(exchange);
    keys = find_functions(provider, OSSL_OP_KEYMGMT);
    exchanges = find_functions(provider, OSSL_OP_KEYEXCH);
    other.make = OSSL_FUNC_keymgmt_new(find_function(keys, OSSL_FUNC_KEYMGMT_NEW));
    other.drop = OSSL_FUNC_keymgmt_free(find_function(keys, OSSL_FUNC_KEYMGMT_FREE));
    other.import = OSSL_FUNC_keymgmt_import(find_function(keys, OSSL_FUNC_KEYMGMT_IMPORT));
    other.begin = OSSL_FUNC_keyexch_newctx(find_function(exchanges, OSSL_FUNC_KEYEXCH_NEWCTX));
    other.set_own = OSSL_FUNC_keyexch_init(find_function(exchanges, OSSL_FUNC_KEYEXCH_INIT));
    other.set_peer =
        OSSL_FUNC_keyexch_set_peer(find_function(exchanges, OSSL_FUNC_KEYEXCH_SET_PEER));
    other.derive = OSSL_FUNC_keyexch_derive(find_function(exchanges, OSSL_FUNC_KEYEXCH_DERIVE));
    other.end = OSSL_FUNC_keyexch_freectx(find_function(exchanges, OSSL_FUNC_KEYEXCH_FREECTX));
    other.provider = OSSL_PROVIDER_get0_provider_ctx(provider);
    /* The others of a provider are never missing. */
    if (other.import != NULL && other.set_peer != NULL)
        other.exchange = exchange;
    else
        EVP_KEYEXCH_free(exchange);
}

#define FUNCTION(id, function)                                                                     \
    {                                                                                              \
        OSSL_FUNC_##id, (void (*)(void))(function)                                                 \
    }

const OSSL_ALGORITHM *key_exchange_algorithms(int operation)
{
    static const OSSL_DISPATCH key_functions[] = {
        FUNCTION(KEYMGMT_NEW, new_x25519),
        FUNCTION(KEYMGMT_FREE, free_x25519),
        FUNCTION(KEYMGMT_DUP, copy_x25519),
        FUNCTION(KEYMGMT_HAS, has_x25519),
        FUNCTION(KEYMGMT_GET_PARAMS, get_x25519),
        FUNCTION(KEYMGMT_GETTABLE_PARAMS, gettable_x25519),
        FUNCTION(KEYMGMT_SET_PARAMS, set_x25519),
        FUNCTION(KEYMGMT_SETTABLE_PARAMS, settable_x25519),
        FUNCTION(KEYMGMT_EXPORT, export_x25519),
        FUNCTION(KEYMGMT_EXPORT_TYPES, export_types_x25519),
        FUNCTION(KEYMGMT_QUERY_OPERATION_NAME, operation_name),
        FUNCTION(KEYMGMT_GEN_INIT, begin_x25519),
        FUNCTION(KEYMGMT_GEN_SET_PARAMS, set_x25519_generation),
        FUNCTION(KEYMGMT_GEN_SETTABLE_PARAMS, settable_x25519_generation),
        FUNCTION(KEYMGMT_GEN, generate_x25519),
        FUNCTION(KEYMGMT_GEN_CLEANUP, end_x25519),
        {0, NULL}};
    static const OSSL_DISPATCH exchange_functions[] = {
        FUNCTION(KEM_NEWCTX, new_x25519),
        FUNCTION(KEM_FREECTX, free_x25519),
        FUNCTION(KEM_ENCAPSULATE_INIT, begin_exchange),
        FUNCTION(KEM_ENCAPSULATE, make_and_derive),
        FUNCTION(KEM_DECAPSULATE_INIT, refuse_to_begin),
        FUNCTION(KEM_DECAPSULATE, refuse),
        {0, NULL}};
    static const OSSL_ALGORITHM keys[] = {
        {"X25519:1.3.101.110", "provider=" KEY_SCHEDULE_PROVIDER, key_functions, NULL},
        {NULL, NULL, NULL, NULL}};
    static const OSSL_ALGORITHM exchanges[] = {
        {EXCHANGE_NAME, "provider=" KEY_SCHEDULE_PROVIDER, exchange_functions, NULL},
        {NULL, NULL, NULL, NULL}};

    if (other.exchange == NULL)
        return NULL;
    return operation == OSSL_OP_KEYMGMT ? keys : operation == OSSL_OP_KEM ? exchanges : NULL;
}

/* See provider-base(7). */
int key_exchange_capabilities(void *provider, const char *capability, OSSL_CALLBACK *report,
                              void *argument)
{
    static unsigned int id = 29, security_bits = SECURITY_BITS, is_kem = 1;
    static int min_tls = TLS1_VERSION, max_tls = 0, no_dtls = -1;
    const OSSL_PARAM group[] = {
        OSSL_PARAM_utf8_string(OSSL_CAPABILITY_TLS_GROUP_NAME, "x25519", sizeof("x25519")),
        OSSL_PARAM_utf8_string(OSSL_CAPABILITY_TLS_GROUP_NAME_INTERNAL, "X25519", sizeof("X25519")),
        OSSL_PARAM_utf8_string(OSSL_CAPABILITY_TLS_GROUP_ALG, "X25519", sizeof("X25519")),
        OSSL_PARAM_uint(OSSL_CAPABILITY_TLS_GROUP_ID, &id),
        OSSL_PARAM_uint(OSSL_CAPABILITY_TLS_GROUP_SECURITY_BITS, &security_bits),
        OSSL_PARAM_uint(OSSL_CAPABILITY_TLS_GROUP_IS_KEM, &is_kem),
        OSSL_PARAM_int(OSSL_CAPABILITY_TLS_GROUP_MIN_TLS, &min_tls),
        OSSL_PARAM_int(OSSL_CAPABILITY_TLS_GROUP_MAX_TLS, &max_tls),
        OSSL_PARAM_int(OSSL_CAPABILITY_TLS_GROUP_MIN_DTLS, &no_dtls),
        OSSL_PARAM_int(OSSL_CAPABILITY_TLS_GROUP_MAX_DTLS, &no_dtls),
        OSSL_PARAM_END};

    (void)provider;
    return strcasecmp(capability, "TLS-GROUP") != 0 || report(group, argument);
}

#else

void key_exchange_prepare(void)
{
}

const OSSL_ALGORITHM *key_exchange_algorithms(int operation)
{
    (void)operation;
    return NULL;
}

int key_exchange_capabilities(void *provider, const char *capability, OSSL_CALLBACK *report,
                              void *argument)
{
    (void)provider, (void)capability, (void)report, (void)argument;
    return 1;
}

#endif
