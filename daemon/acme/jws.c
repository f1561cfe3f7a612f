#include "daemon/acme/jws.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/sha.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COORDINATE_BYTES = 32 }; /* of P-256 */

char *base64url(const void *bytes, size_t length)
{
    unsigned char *text = malloc((length + 2) / 3 * 4 + 1);
    size_t used;

    if (text == NULL)
        return NULL;
    used = (size_t)EVP_EncodeBlock(text, bytes, (int)length);
    while (used > 0 && text[used - 1] == '=')
        text[--used] = '\0';
    for (size_t i = 0; i < used; i++)
        text[i] = text[i] == '+' ? '-' : text[i] == '/' ? '_' : text[i];
    return (char *)text;
}

/* The public key */

/* The coordinate NAME of KEY, in base64url. NULL: not of such a key, or out of memory. */
static char *coordinate(EVP_PKEY *key, const char *name)
{
    unsigned char bytes[COORDINATE_BYTES];
    BIGNUM *number = NULL;
    char *text = NULL;

    if (EVP_PKEY_get_bn_param(key, name, &number) == 1 &&
        BN_bn2binpad(number, bytes, sizeof(bytes)) == (int)sizeof(bytes))
        text = base64url(bytes, sizeof(bytes));
    BN_free(number);
    ERR_clear_error();
    return text;
}

json_t *jws_public_key(EVP_PKEY *key)
{
    char *x = coordinate(key, OSSL_PKEY_PARAM_EC_PUB_X);
    char *y = coordinate(key, OSSL_PKEY_PARAM_EC_PUB_Y);
    json_t *json = NULL;

    if (x != NULL && y != NULL)
        json = json_pack("{s:s, s:s, s:s, s:s}", "crv", "P-256", "kty", "EC", "x", x, "y", y);
    free(x);
    free(y);
    return json;
}

/* The members in the order of their names, without blanks. */
int jws_thumbprint(EVP_PKEY *key, char text[JWS_THUMBPRINT_BYTES])
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    json_t *json = jws_public_key(key);
    char *canonical = json != NULL ? json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    char *encoded = NULL;
    int failed = -1;

    if (canonical != NULL) {
        SHA256((const unsigned char *)canonical, strlen(canonical), digest);
        encoded = base64url(digest, sizeof(digest));
    }
    if (encoded != NULL) {
        snprintf(text, JWS_THUMBPRINT_BYTES, "%s", encoded);
        failed = 0;
    }
    free(encoded);
    free(canonical);
    json_decref(json);
    return failed;
}

/* Signing */

/* ES256 is two numbers of 32 bytes (RFC 7518 section 3.4), not the DER that OpenSSL makes. */
static char *encode_signature(const unsigned char *der, size_t length)
{
    unsigned char bytes[2 * COORDINATE_BYTES];
    ECDSA_SIG *signature = d2i_ECDSA_SIG(NULL, &der, (long)length);
    char *text = NULL;

    if (signature != NULL &&
        BN_bn2binpad(ECDSA_SIG_get0_r(signature), bytes, COORDINATE_BYTES) == COORDINATE_BYTES &&
        BN_bn2binpad(ECDSA_SIG_get0_s(signature), bytes + COORDINATE_BYTES, COORDINATE_BYTES) ==
            COORDINATE_BYTES)
        text = base64url(bytes, sizeof(bytes));
    ECDSA_SIG_free(signature);
    return text;
}

static char *sign_text(EVP_PKEY *key, const char *text)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    unsigned char der[128];
    size_t length = sizeof(der);
    char *signature = NULL;

    if (context != NULL &&
        EVP_DigestSignInit_ex(context, NULL, "SHA256", NULL, NULL, key, NULL) == 1 &&
        EVP_DigestSign(context, der, &length, (const unsigned char *)text, strlen(text)) == 1)
        signature = encode_signature(der, length);
    EVP_MD_CTX_free(context);
    ERR_clear_error();
    return signature;
}

/* JSON, which it frees, as base64url. */
static char *encode_json(json_t *json)
{
    char *text = json != NULL ? json_dumps(json, JSON_COMPACT) : NULL;
    char *encoded = text != NULL ? base64url(text, strlen(text)) : NULL;

    free(text);
    json_decref(json);
    return encoded;
}

static char *encode_header(EVP_PKEY *key, const struct jws_header *header)
{
    json_t *json =
        json_pack("{s:s, s:s*, s:s}", "alg", "ES256", "nonce", header->nonce, "url", header->url);

    if (json != NULL)
        json_object_set_new(json, header->account != NULL ? "kid" : "jwk",
                            header->account != NULL ? json_string(header->account)
                                                    : jws_public_key(key));
    return encode_json(json);
}

char *jws_sign(EVP_PKEY *key, const struct jws_header *header, json_t *payload)
{
    char *protected = encode_header(key, header), *text = NULL, *body = NULL, *signature = NULL;
    char *content = payload != NULL ? encode_json(json_incref(payload)) : strdup("");

    if (protected != NULL && content != NULL && asprintf(&text, "%s.%s", protected, content) < 0)
        text = NULL;
    if (text != NULL)
        signature = sign_text(key, text);
    if (signature != NULL &&
        asprintf(&body, "{\"protected\":\"%s\",\"payload\":\"%s\",\"signature\":\"%s\"}", protected,
                 content, signature) < 0)
        body = NULL;
    free(protected);
    free(content);
    free(text);
    free(signature);
    return body;
}
