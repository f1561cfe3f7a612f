#include "daemon/acme/credentials.h"

#include "daemon/base/memory_file.h"
#include "daemon/config/acme.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/sha.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RSA_BITS = 2048, CHAIN_MAX = 10, COORDINATE_BYTES = 32 /* of P-256 */ };

/*
 * Text in base64url without padding (RFC 4648 section 5), which the caller frees. NULL: out of
 * memory.
 */
static char *base64url(const void *bytes, size_t length)
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

/* Keys */

EVP_PKEY *credentials_new_key(enum config_acme_key kind)
{
    return kind == ACME_KEY_RSA2048 ? EVP_RSA_gen(RSA_BITS) : EVP_EC_gen("P-256");
}

/* The content of MEMORY, which it frees, as text. */
static char *take_text(BIO *memory, bool good)
{
    char *bytes, *text = NULL;
    long length = BIO_get_mem_data(memory, &bytes);

    if (good && length > 0)
        text = strndup(bytes, (size_t)length);
    BIO_free(memory);
    ERR_clear_error();
    return text;
}

char *credentials_key_text(EVP_PKEY *key)
{
    BIO *memory = BIO_new(BIO_s_secmem());

    if (memory == NULL)
        return NULL;
    return take_text(memory,
                     PEM_write_bio_PKCS8PrivateKey(memory, key, NULL, NULL, 0, NULL, NULL) == 1);
}

/* A server cannot enter a password. */
static int refuse_password(char *buffer, int size, int writing, void *context)
{
    (void)buffer, (void)size, (void)writing, (void)context;
    return -1;
}

EVP_PKEY *credentials_key_read(const char *text)
{
    BIO *memory = BIO_new_mem_buf(text, -1);
    EVP_PKEY *key = PEM_read_bio_PrivateKey(memory, NULL, refuse_password, NULL);

    BIO_free(memory);
    ERR_clear_error();
    return key;
}

/* Requests */

/* Writes the next one of NAMES. Returns false at the end. */
static bool next_name(const char **names, char name[ACME_NAME_MAX + 1])
{
    struct span next = config_acme_next_name(names);

    snprintf(name, ACME_NAME_MAX + 1, "%.*s", (int)next.length, next.start);
    return next.length > 0;
}

/* As in x509v3_config(5); the caller frees it. NULL: out of memory. */
static char *subject_names(const char *names)
{
    char name[ACME_NAME_MAX + 1], *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    for (bool first = true; out != NULL && next_name(&names, name); first = false)
        fprintf(out, "%s%s:%s", first ? "" : ",", config_acme_is_address(name) ? "IP" : "DNS",
                name);
    if (out != NULL && memstream_close(out, &text) == 0)
        return text;
    free(text);
    return NULL;
}

static bool add_subject_names(X509_REQ *request, const char *names)
{
    STACK_OF(X509_EXTENSION) *extensions = sk_X509_EXTENSION_new_null();
    char *value = subject_names(names);
    X509_EXTENSION *extension = NULL;
    bool added = false;

    if (value != NULL)
        extension = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, value);
    free(value);
    if (extensions != NULL && extension != NULL &&
        sk_X509_EXTENSION_push(extensions, extension) > 0) {
        extension = NULL;
        added = X509_REQ_add_extensions(request, extensions) == 1;
    }
    X509_EXTENSION_free(extension);
    sk_X509_EXTENSION_pop_free(extensions, X509_EXTENSION_free);
    return added;
}

char *credentials_request(EVP_PKEY *key, const char *names)
{
    X509_REQ *request = X509_REQ_new();
    unsigned char *der = NULL;
    int length = -1;
    char *text = NULL;

    if (request != NULL && X509_REQ_set_version(request, X509_REQ_VERSION_1) == 1 &&
        X509_REQ_set_pubkey(request, key) == 1 && add_subject_names(request, names) &&
        X509_REQ_sign(request, key, EVP_sha256()) > 0)
        length = i2d_X509_REQ(request, &der);
    if (length > 0)
        text = base64url(der, (size_t)length);
    OPENSSL_free(der);
    X509_REQ_free(request);
    ERR_clear_error();
    return text;
}

/* Certificates */

static int64_t seconds_of_asn1(const ASN1_TIME *when)
{
    struct tm fields;

    return ASN1_TIME_to_tm(when, &fields) == 1 ? (int64_t)timegm(&fields) : 0;
}

static bool is_for_all_names(X509 *leaf, const char *names)
{
    char name[ACME_NAME_MAX + 1];

    while (next_name(&names, name))
        if (config_acme_is_address(name) ? X509_check_ip_asc(leaf, name, 0) != 1
                                         : X509_check_host(leaf, name, 0, 0, NULL) != 1)
            return false;
    return true;
}

int credentials_check(const char *chain, EVP_PKEY *key, const char *names, int64_t now_s,
                      struct credentials_validity *validity, char *why, size_t size)
{
    BIO *memory = BIO_new_mem_buf(chain, -1);
    X509 *leaf = PEM_read_bio_X509(memory, NULL, refuse_password, NULL);
    const char *fault = "it is not in PEM format";

    BIO_free(memory);
    if (leaf != NULL) {
        validity->not_before_s = seconds_of_asn1(X509_get0_notBefore(leaf));
        validity->not_after_s = seconds_of_asn1(X509_get0_notAfter(leaf));
        fault = key != NULL && X509_check_private_key(leaf, key) != 1 ? "it belongs to another key"
                : !is_for_all_names(leaf, names)                      ? "it is not for this name"
                : validity->not_before_s >= validity->not_after_s     ? "its times are not valid"
                : validity->not_after_s <= now_s                      ? "it has expired"
                                                                      : NULL;
    }
    X509_free(leaf);
    ERR_clear_error();
    if (fault == NULL)
        return 0;
    snprintf(why, size, "the certificate cannot be used: %s", fault);
    return -1;
}

/* "KEY.SERIAL" in base64url, of the content of their DER; a serial number with its sign. */
void credentials_id(const char *chain, char id[CREDENTIALS_ID_BYTES])
{
    enum { DER_HEAD = 2, DER_MAX = 64 }; /* a short DER value begins with tag and length */
    BIO *memory = BIO_new_mem_buf(chain, -1);
    X509 *leaf = PEM_read_bio_X509(memory, NULL, refuse_password, NULL);
    const ASN1_OCTET_STRING *issuer = leaf != NULL ? X509_get0_authority_key_id(leaf) : NULL;
    const ASN1_INTEGER *serial = leaf != NULL ? X509_get0_serialNumber(leaf) : NULL;
    int length = serial != NULL ? i2d_ASN1_INTEGER(serial, NULL) : 0;
    unsigned char der[DER_MAX], *end = der;
    char *key, *number;

    id[0] = '\0';
    if (issuer != NULL && length > DER_HEAD && length <= DER_MAX &&
        ASN1_STRING_length(issuer) > 0 && ASN1_STRING_length(issuer) <= DER_MAX) {
        i2d_ASN1_INTEGER(serial, &end);
        key = base64url(ASN1_STRING_get0_data(issuer), (size_t)ASN1_STRING_length(issuer));
        number = base64url(der + DER_HEAD, (size_t)length - DER_HEAD);
        if (key != NULL && number != NULL &&
            snprintf(id, CREDENTIALS_ID_BYTES, "%s.%s", key, number) >= CREDENTIALS_ID_BYTES)
            id[0] = '\0';
        free(key);
        free(number);
    }
    X509_free(leaf);
    BIO_free(memory);
    ERR_clear_error();
}

char *credentials_clean(const char *chain)
{
    BIO *memory = BIO_new_mem_buf(chain, -1), *out = BIO_new(BIO_s_mem());
    bool good = memory != NULL && out != NULL;
    X509 *certificate;

    for (int i = 0; good && i < CHAIN_MAX; i++) {
        certificate = PEM_read_bio_X509(memory, NULL, refuse_password, NULL);
        if (certificate == NULL)
            break;
        good = PEM_write_bio_X509(out, certificate) == 1;
        X509_free(certificate);
    }
    BIO_free(memory);
    return out != NULL ? take_text(out, good) : NULL;
}

/* The account's key as JSON, and its signatures */

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

int jws_record_value(const char *token, const char *thumbprint, char text[JWS_THUMBPRINT_BYTES])
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    char *authorization = NULL, *encoded = NULL;

    if (asprintf(&authorization, "%s.%s", token, thumbprint) < 0)
        return -1;
    SHA256((const unsigned char *)authorization, strlen(authorization), digest);
    free(authorization);
    encoded = base64url(digest, sizeof(digest));
    if (encoded == NULL)
        return -1;
    snprintf(text, JWS_THUMBPRINT_BYTES, "%s", encoded);
    free(encoded);
    return 0;
}

/* ES256 is two numbers of 32 bytes (RFC 7518 section 3.4), not the DER that OpenSSL makes. */
static char *sign_text(EVP_PKEY *key, const char *text)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    unsigned char der[128], bytes[2 * COORDINATE_BYTES];
    const unsigned char *next = der;
    ECDSA_SIG *signature = NULL;
    size_t length = sizeof(der);
    char *encoded = NULL;

    if (context != NULL &&
        EVP_DigestSignInit_ex(context, NULL, "SHA256", NULL, NULL, key, NULL) == 1 &&
        EVP_DigestSign(context, der, &length, (const unsigned char *)text, strlen(text)) == 1)
        signature = d2i_ECDSA_SIG(NULL, &next, (long)length);
    if (signature != NULL &&
        BN_bn2binpad(ECDSA_SIG_get0_r(signature), bytes, COORDINATE_BYTES) == COORDINATE_BYTES &&
        BN_bn2binpad(ECDSA_SIG_get0_s(signature), bytes + COORDINATE_BYTES, COORDINATE_BYTES) ==
            COORDINATE_BYTES)
        encoded = base64url(bytes, sizeof(bytes));
    ECDSA_SIG_free(signature);
    EVP_MD_CTX_free(context);
    ERR_clear_error();
    return encoded;
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

/* TEXT in base64url as bytes, which the caller frees; NULL: not valid, or out of memory. */
static unsigned char *decode_base64url(const char *text, size_t *length)
{
    size_t given = strcspn(text, "="), padded = (given + 3) / 4 * 4;
    char *copy = malloc(padded + 1);
    unsigned char *bytes = malloc(padded + 1);
    int decoded = -1;

    if (copy != NULL && bytes != NULL && given > 0) {
        for (size_t i = 0; i < padded; i++)
            copy[i] = i >= given ? '=' : text[i] == '-' ? '+' : text[i] == '_' ? '/' : text[i];
        decoded = EVP_DecodeBlock(bytes, (const unsigned char *)copy, (int)padded);
        OPENSSL_cleanse(copy, padded);
    }
    free(copy);
    *length = decoded > 0 ? (size_t)decoded - (padded - given) : 0;
    if (decoded > 0)
        return bytes;
    free(bytes);
    return NULL;
}

/* The HMAC of TEXT (RFC 7518 section 3.2), in base64url, which the caller frees. */
static char *authenticate_text(const char *secret, const char *text)
{
    unsigned char digest[EVP_MAX_MD_SIZE], *bytes;
    unsigned int digest_length = 0;
    size_t length;
    char *encoded = NULL;

    bytes = decode_base64url(secret, &length);
    if (bytes == NULL)
        return NULL;
    if (HMAC(EVP_sha256(), bytes, (int)length, (const unsigned char *)text, strlen(text), digest,
             &digest_length) != NULL)
        encoded = base64url(digest, digest_length);
    OPENSSL_cleanse(bytes, length);
    free(bytes);
    return encoded;
}

json_t *jws_binding(EVP_PKEY *key, const char *url, const char *kid, const char *secret)
{
    char *protected =
        encode_json(json_pack("{s:s, s:s, s:s}", "alg", "HS256", "kid", kid, "url", url));
    char *content = encode_json(jws_public_key(key)), *text = NULL, *signature = NULL;
    json_t *binding = NULL;

    if (protected != NULL && content != NULL && asprintf(&text, "%s.%s", protected, content) < 0)
        text = NULL;
    if (text != NULL)
        signature = authenticate_text(secret, text);
    if (signature != NULL)
        binding = json_pack("{s:s, s:s, s:s}", "protected", protected, "payload", content,
                            "signature", signature);
    free(protected);
    free(content);
    free(text);
    free(signature);
    return binding;
}
