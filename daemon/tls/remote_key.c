#include "daemon/tls/remote_key.h"

#include "common/macros.h"
#include "daemon/tls/signer.h"

#include <openssl/core_dispatch.h>
#include <openssl/core_names.h>
#include <openssl/param_build.h>
#include <openssl/params.h>
#include <openssl/provider.h>
#include <openssl/rsa.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Signatures of a TLS server */

static const struct signature_scheme schemes[] = {
    {0x0403, "EC", "SHA2-256", false, true},   {0x0503, "EC", "SHA2-384", false, true},
    {0x0603, "EC", "SHA2-512", false, true},   {0x0303, "EC", "SHA2-224", false, false},
    {0x0804, "RSA", "SHA2-256", true, true},   {0x0805, "RSA", "SHA2-384", true, true},
    {0x0806, "RSA", "SHA2-512", true, true},   {0x0401, "RSA", "SHA2-256", false, false},
    {0x0501, "RSA", "SHA2-384", false, false}, {0x0601, "RSA", "SHA2-512", false, false},
    {0x0301, "RSA", "SHA2-224", false, false}, {0x0807, "ED25519", NULL, false, true},
};

/* OpenSSL has two names for each: "SHA2-256" and "SHA256". */
static bool is_same_digest(const char *name, const char *digest)
{
    if (name == NULL || digest == NULL || *digest == '\0')
        return name == NULL && (digest == NULL || *digest == '\0');
    return strcasecmp(name, digest) == 0 ||
           (strncasecmp(digest, "SHA", 3) == 0 && strcmp(name + strlen("SHA2-"), digest + 3) == 0);
}

const struct signature_scheme *signature_scheme_find(const char *key_type, const char *digest,
                                                     bool pss)
{
    for (size_t i = 0; i < ARRAY_LENGTH(schemes); i++)
        if (strcmp(schemes[i].key_type, key_type) == 0 && schemes[i].pss == pss &&
            is_same_digest(schemes[i].digest, digest))
            return &schemes[i];
    return NULL;
}

const struct signature_scheme *signature_scheme_get(uint32_t code)
{
    for (size_t i = 0; i < ARRAY_LENGTH(schemes); i++)
        if (schemes[i].code == code)
            return &schemes[i];
    return NULL;
}

/* The key of OpenSSL */

#define PROVIDER_NAME    "webserverd"
#define SIGNATURE_NAME   "webserverd-signature"
#define NUMBER_PARAMETER "webserverd-number"

struct remote_key {
    const char *type;
    EVP_PKEY *public_key; /* a key for OpenSSL's own provider */
    uint32_t number;
};

/* Keys: OSSL_OP_KEYMGMT, provider-keymgmt(7) */

static void *key_new(const char *type)
{
    struct remote_key *key = calloc(1, sizeof(*key));

    if (key != NULL)
        key->type = type;
    return key;
}

static void *key_new_rsa(void *provider)
{
    (void)provider;
    return key_new("RSA");
}

static void *key_new_ec(void *provider)
{
    (void)provider;
    return key_new("EC");
}

static void *key_new_ed25519(void *provider)
{
    (void)provider;
    return key_new("ED25519");
}

static void key_free(void *data)
{
    struct remote_key *key = data;

    if (key == NULL)
        return;
    EVP_PKEY_free(key->public_key);
    free(key);
}

static int key_has(const void *data, int selection)
{
    const struct remote_key *key = data;

    (void)selection;
    return key != NULL && key->public_key != NULL;
}

static int key_match(const void *one, const void *other, int selection)
{
    const struct remote_key *a = one, *b = other;

    (void)selection;
    return EVP_PKEY_eq(a->public_key, b->public_key) == 1;
}

static int key_import(void *data, int selection, const OSSL_PARAM parameters[])
{
    struct remote_key *key = data;
    const OSSL_PARAM *number = OSSL_PARAM_locate_const(parameters, NUMBER_PARAMETER);
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, key->type, NULL);
    int done = 0;

    (void)selection;
    if (context != NULL && EVP_PKEY_fromdata_init(context) == 1 &&
        EVP_PKEY_fromdata(context, &key->public_key, EVP_PKEY_PUBLIC_KEY,
                          (OSSL_PARAM *)(uintptr_t)parameters) == 1)
        done = number == NULL || OSSL_PARAM_get_uint32(number, &key->number) == 1;
    EVP_PKEY_CTX_free(context);
    return done;
}

static const OSSL_PARAM *key_import_types(int selection)
{
    static const OSSL_PARAM none[] = {OSSL_PARAM_END};

    (void)selection;
    return none;
}

static int key_get_parameters(void *data, OSSL_PARAM parameters[])
{
    const struct remote_key *key = data;

    return EVP_PKEY_get_params(key->public_key, parameters);
}

static const OSSL_PARAM *key_gettable_parameters(void *provider)
{
    static const OSSL_PARAM all[] = {
        OSSL_PARAM_int(OSSL_PKEY_PARAM_BITS, NULL), OSSL_PARAM_int(OSSL_PKEY_PARAM_MAX_SIZE, NULL),
        OSSL_PARAM_int(OSSL_PKEY_PARAM_SECURITY_BITS, NULL),
        OSSL_PARAM_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, NULL, 0), OSSL_PARAM_END};

    (void)provider;
    return all;
}

static const char *key_operation_name(int operation)
{
    return operation == OSSL_OP_SIGNATURE ? SIGNATURE_NAME : NULL;
}

/* Signatures: OSSL_OP_SIGNATURE, provider-signature(7) */

struct signing {
    const struct remote_key *key;
    char digest[32];
    bool pss;
};

static void *signing_new(void *provider, const char *properties)
{
    (void)provider, (void)properties;
    return calloc(1, sizeof(struct signing));
}

static int signing_set_parameters(void *data, const OSSL_PARAM parameters[])
{
    struct signing *signing = data;
    const OSSL_PARAM *mode = OSSL_PARAM_locate_const(parameters, OSSL_SIGNATURE_PARAM_PAD_MODE);
    int number;

    if (mode == NULL)
        return 1;
    if (mode->data_type == OSSL_PARAM_UTF8_STRING) {
        signing->pss = strcmp(mode->data, OSSL_PKEY_RSA_PAD_MODE_PSS) == 0;
        return 1;
    }
    if (OSSL_PARAM_get_int(mode, &number) != 1)
        return 0;
    signing->pss = number == RSA_PKCS1_PSS_PADDING;
    return 1;
}

/* The keys process makes the salt of PSS as long as the digest, which is what TLS requires. */
static const OSSL_PARAM *signing_settable_parameters(void *data, void *provider)
{
    static const OSSL_PARAM all[] = {
        OSSL_PARAM_utf8_string(OSSL_SIGNATURE_PARAM_PAD_MODE, NULL, 0),
        OSSL_PARAM_utf8_string(OSSL_SIGNATURE_PARAM_PSS_SALTLEN, NULL, 0), OSSL_PARAM_END};

    (void)data, (void)provider;
    return all;
}

static int signing_init(void *data, const char *digest, void *key, const OSSL_PARAM parameters[])
{
    struct signing *signing = data;

    if (digest != NULL && strlen(digest) >= sizeof(signing->digest))
        return 0;
    signing->key = key;
    signing->pss = false;
    strcpy(signing->digest, digest != NULL ? digest : "");
    return parameters == NULL || signing_set_parameters(signing, parameters);
}

static int signing_sign(void *data, unsigned char *signature, size_t *length, size_t max,
                        const unsigned char *bytes, size_t count)
{
    const struct signing *signing = data;
    const struct remote_key *key = signing->key;
    const struct signature_scheme *scheme =
        signature_scheme_find(key->type, signing->digest, signing->pss);

    if (scheme == NULL)
        return 0;
    if (signature == NULL) {
        *length = (size_t)EVP_PKEY_get_size(key->public_key);
        return 1;
    }
    *length = signer_sign(key->number, scheme, bytes, count, signature, max);
    return *length > 0;
}

/* The provider */

#define FUNCTION(id, function)                                                                     \
    {                                                                                              \
        OSSL_FUNC_##id, (void (*)(void))(function)                                                 \
    }
#define KEY_FUNCTIONS(new)                                                                         \
    {                                                                                              \
        FUNCTION(KEYMGMT_NEW, new), FUNCTION(KEYMGMT_FREE, key_free),                              \
            FUNCTION(KEYMGMT_HAS, key_has), FUNCTION(KEYMGMT_MATCH, key_match),                    \
            FUNCTION(KEYMGMT_IMPORT, key_import),                                                  \
            FUNCTION(KEYMGMT_IMPORT_TYPES, key_import_types),                                      \
            FUNCTION(KEYMGMT_GET_PARAMS, key_get_parameters),                                      \
            FUNCTION(KEYMGMT_GETTABLE_PARAMS, key_gettable_parameters),                            \
            FUNCTION(KEYMGMT_QUERY_OPERATION_NAME, key_operation_name),                            \
        {                                                                                          \
            0, NULL                                                                                \
        }                                                                                          \
    }

static const OSSL_DISPATCH rsa_functions[] = KEY_FUNCTIONS(key_new_rsa);
static const OSSL_DISPATCH ec_functions[] = KEY_FUNCTIONS(key_new_ec);
static const OSSL_DISPATCH ed25519_functions[] = KEY_FUNCTIONS(key_new_ed25519);

static const OSSL_DISPATCH signature_functions[] = {
    FUNCTION(SIGNATURE_NEWCTX, signing_new),
    FUNCTION(SIGNATURE_FREECTX, free),
    FUNCTION(SIGNATURE_DIGEST_SIGN_INIT, signing_init),
    FUNCTION(SIGNATURE_DIGEST_SIGN, signing_sign),
    FUNCTION(SIGNATURE_SET_CTX_PARAMS, signing_set_parameters),
    FUNCTION(SIGNATURE_SETTABLE_CTX_PARAMS, signing_settable_parameters),
    {0, NULL}};

static const OSSL_ALGORITHM *query_provider(void *provider, int operation, int *no_cache)
{
    static const OSSL_ALGORITHM keys[] = {
        {"RSA:rsaEncryption:1.2.840.113549.1.1.1", "provider=" PROVIDER_NAME, rsa_functions, NULL},
        {"EC:id-ecPublicKey:1.2.840.10045.2.1", "provider=" PROVIDER_NAME, ec_functions, NULL},
        {"ED25519:1.3.101.112", "provider=" PROVIDER_NAME, ed25519_functions, NULL},
        {NULL, NULL, NULL, NULL}};
    static const OSSL_ALGORITHM signatures[] = {
        {SIGNATURE_NAME, "provider=" PROVIDER_NAME, signature_functions, NULL},
        {NULL, NULL, NULL, NULL}};

    (void)provider;
    *no_cache = 0;
    return operation == OSSL_OP_KEYMGMT ? keys : operation == OSSL_OP_SIGNATURE ? signatures : NULL;
}

static int init_provider(const OSSL_CORE_HANDLE *handle, const OSSL_DISPATCH *in,
                         const OSSL_DISPATCH **out, void **provider)
{
    static const OSSL_DISPATCH functions[] = {FUNCTION(PROVIDER_QUERY_OPERATION, query_provider),
                                              {0, NULL}};

    (void)handle, (void)in;
    *out = functions;
    *provider = NULL;
    return 1;
}

/* Loaded once and kept until the process ends. */
static OSSL_LIB_CTX *provider_library(void)
{
    static OSSL_LIB_CTX *context;

    if (context != NULL)
        return context;
    context = OSSL_LIB_CTX_new();
    if (context != NULL && OSSL_PROVIDER_add_builtin(context, PROVIDER_NAME, init_provider) == 1 &&
        OSSL_PROVIDER_load(context, PROVIDER_NAME) != NULL)
        return context;
    OSSL_LIB_CTX_free(context);
    context = NULL;
    return NULL;
}

static EVP_PKEY *import_remote_key(const char *type, OSSL_PARAM *public_part, uint32_t number)
{
    OSSL_LIB_CTX *context = provider_library();
    EVP_PKEY_CTX *maker = context != NULL ? EVP_PKEY_CTX_new_from_name(context, type, NULL) : NULL;
    OSSL_PARAM own[] = {OSSL_PARAM_construct_uint32(NUMBER_PARAMETER, &number),
                        OSSL_PARAM_construct_end()};
    OSSL_PARAM *all = OSSL_PARAM_merge(public_part, own);
    EVP_PKEY *key = NULL;

    if (maker == NULL || all == NULL || EVP_PKEY_fromdata_init(maker) != 1 ||
        EVP_PKEY_fromdata(maker, &key, EVP_PKEY_KEYPAIR, all) != 1)
        key = NULL;
    OSSL_PARAM_free(all);
    EVP_PKEY_CTX_free(maker);
    return key;
}

EVP_PKEY *remote_key_new(EVP_PKEY *public_key, uint32_t number)
{
    static const char *const types[] = {"RSA", "EC", "ED25519"};
    OSSL_PARAM *public_part = NULL;
    EVP_PKEY *key = NULL;

    if (EVP_PKEY_todata(public_key, EVP_PKEY_PUBLIC_KEY, &public_part) != 1)
        return NULL;
    for (size_t i = 0; i < ARRAY_LENGTH(types) && key == NULL; i++)
        if (EVP_PKEY_is_a(public_key, types[i]))
            key = import_remote_key(types[i], public_part, number);
    OSSL_PARAM_free(public_part);
    return key;
}
