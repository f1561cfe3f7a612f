#include "daemon/tls/key_exchange.h"

#ifdef HAVE_SODIUM

#include "daemon/tls/key_schedule.h"

#include <openssl/core_dispatch.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/params.h>
#include <openssl/prov_ssl.h>
#include <openssl/rand.h>
#include <sodium/crypto_scalarmult_curve25519.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

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

static int export_x25519(void *data, int selection, OSSL_CALLBACK *take, void *argument)
{
    struct x25519_key *key = data;
    OSSL_PARAM parts[3], *end = parts;

    if (key->has_public && (selection & OSSL_KEYMGMT_SELECT_PUBLIC_KEY) != 0)
        *end++ =
            OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PUB_KEY, key->public_part, BYTES);
    if (key->has_private && (selection & OSSL_KEYMGMT_SELECT_PRIVATE_KEY) != 0)
        *end++ =
            OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PRIV_KEY, key->private_part, BYTES);
    *end = OSSL_PARAM_construct_end();
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

/* Parameters alone, without a key pair, are for a key that the client sends. */
static void *generate_x25519(void *context, OSSL_CALLBACK *progress, void *argument)
{
    const int *selection = context;
    struct x25519_key *key = new_x25519(NULL);

    (void)progress, (void)argument;
    if (key == NULL || (*selection & OSSL_KEYMGMT_SELECT_KEYPAIR) == 0)
        return key;
    if (RAND_priv_bytes(key->private_part, BYTES) != 1 ||
        crypto_scalarmult_curve25519_base(key->public_part, key->private_part) != 0) {
        free_x25519(key);
        return NULL;
    }
    key->has_public = key->has_private = true;
    return key;
}

static void end_x25519(void *context)
{
    OPENSSL_free(context);
}

#define FUNCTION(id, function)                                                                     \
    {                                                                                              \
        OSSL_FUNC_KEYMGMT_##id, (void (*)(void))(function)                                         \
    }

const OSSL_ALGORITHM *key_exchange_keys(void)
{
    static const OSSL_DISPATCH functions[] = {
        FUNCTION(NEW, new_x25519),
        FUNCTION(FREE, free_x25519),
        FUNCTION(DUP, copy_x25519),
        FUNCTION(HAS, has_x25519),
        FUNCTION(GET_PARAMS, get_x25519),
        FUNCTION(GETTABLE_PARAMS, gettable_x25519),
        FUNCTION(SET_PARAMS, set_x25519),
        FUNCTION(SETTABLE_PARAMS, settable_x25519),
        FUNCTION(EXPORT, export_x25519),
        FUNCTION(EXPORT_TYPES, export_types_x25519),
        FUNCTION(GEN_INIT, begin_x25519),
        FUNCTION(GEN_SET_PARAMS, set_x25519_generation),
        FUNCTION(GEN_SETTABLE_PARAMS, settable_x25519_generation),
        FUNCTION(GEN, generate_x25519),
        FUNCTION(GEN_CLEANUP, end_x25519),
        {0, NULL}};
    static const OSSL_ALGORITHM all[] = {
        {"X25519:1.3.101.110", "provider=" KEY_SCHEDULE_PROVIDER, functions, NULL},
        {NULL, NULL, NULL, NULL}};

    return all;
}

/* See provider-base(7). */
int key_exchange_capabilities(void *provider, const char *capability, OSSL_CALLBACK *report,
                              void *argument)
{
    static unsigned int id = 29, security_bits = SECURITY_BITS;
    static int min_tls = TLS1_VERSION, max_tls = 0, no_dtls = -1;
    const OSSL_PARAM group[] = {
        OSSL_PARAM_utf8_string(OSSL_CAPABILITY_TLS_GROUP_NAME, "x25519", sizeof("x25519")),
        OSSL_PARAM_utf8_string(OSSL_CAPABILITY_TLS_GROUP_NAME_INTERNAL, "X25519", sizeof("X25519")),
        OSSL_PARAM_utf8_string(OSSL_CAPABILITY_TLS_GROUP_ALG, "X25519", sizeof("X25519")),
        OSSL_PARAM_uint(OSSL_CAPABILITY_TLS_GROUP_ID, &id),
        OSSL_PARAM_uint(OSSL_CAPABILITY_TLS_GROUP_SECURITY_BITS, &security_bits),
        OSSL_PARAM_int(OSSL_CAPABILITY_TLS_GROUP_MIN_TLS, &min_tls),
        OSSL_PARAM_int(OSSL_CAPABILITY_TLS_GROUP_MAX_TLS, &max_tls),
        OSSL_PARAM_int(OSSL_CAPABILITY_TLS_GROUP_MIN_DTLS, &no_dtls),
        OSSL_PARAM_int(OSSL_CAPABILITY_TLS_GROUP_MAX_DTLS, &no_dtls),
        OSSL_PARAM_END};

    (void)provider;
    return strcasecmp(capability, "TLS-GROUP") != 0 || report(group, argument);
}

#else

const OSSL_ALGORITHM *key_exchange_keys(void)
{
    return NULL;
}

int key_exchange_capabilities(void *provider, const char *capability, OSSL_CALLBACK *report,
                              void *argument)
{
    (void)provider, (void)capability, (void)report, (void)argument;
    return 1;
}

#endif
