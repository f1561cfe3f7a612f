#include "daemon/acme/credentials.h"

#include "daemon/acme/jws.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RSA_BITS = 2048, CHAIN_MAX = 10 };

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
static int no_password(char *buffer, int size, int writing, void *context)
{
    (void)buffer, (void)size, (void)writing, (void)context;
    return -1;
}

EVP_PKEY *credentials_key_read(const char *text)
{
    BIO *memory = BIO_new_mem_buf(text, -1);
    EVP_PKEY *key = PEM_read_bio_PrivateKey(memory, NULL, no_password, NULL);

    BIO_free(memory);
    ERR_clear_error();
    return key;
}

/* Requests */

static bool add_name(X509_REQ *request, const char *name)
{
    STACK_OF(X509_EXTENSION) *extensions = sk_X509_EXTENSION_new_null();
    char value[300];
    X509_EXTENSION *extension;
    bool added = false;

    snprintf(value, sizeof(value), "DNS:%s", name);
    extension = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, value);
    if (extensions != NULL && extension != NULL &&
        sk_X509_EXTENSION_push(extensions, extension) > 0) {
        extension = NULL;
        added = X509_REQ_add_extensions(request, extensions) == 1;
    }
    X509_EXTENSION_free(extension);
    sk_X509_EXTENSION_pop_free(extensions, X509_EXTENSION_free);
    return added;
}

char *credentials_request(EVP_PKEY *key, const char *name)
{
    X509_REQ *request = X509_REQ_new();
    unsigned char *der = NULL;
    int length = -1;
    char *text = NULL;

    if (request != NULL && X509_REQ_set_version(request, X509_REQ_VERSION_1) == 1 &&
        X509_REQ_set_pubkey(request, key) == 1 && add_name(request, name) &&
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

static int64_t seconds_of(const ASN1_TIME *when)
{
    struct tm fields;

    return ASN1_TIME_to_tm(when, &fields) == 1 ? (int64_t)timegm(&fields) : 0;
}

static const char *find_fault(X509 *leaf, EVP_PKEY *key, const char *name, int64_t now_s,
                              const struct credentials_validity *validity)
{
    if (key != NULL && X509_check_private_key(leaf, key) != 1)
        return "it belongs to another key";
    if (X509_check_host(leaf, name, 0, 0, NULL) != 1)
        return "it is not for this name";
    if (validity->not_before_s >= validity->not_after_s)
        return "its times are not valid";
    return validity->not_after_s <= now_s ? "it has expired" : NULL;
}

int credentials_check(const char *chain, EVP_PKEY *key, const char *name, int64_t now_s,
                      struct credentials_validity *validity, char *why, size_t size)
{
    BIO *memory = BIO_new_mem_buf(chain, -1);
    X509 *leaf = PEM_read_bio_X509(memory, NULL, no_password, NULL);
    const char *fault = "it is not in PEM format";

    BIO_free(memory);
    if (leaf != NULL) {
        validity->not_before_s = seconds_of(X509_get0_notBefore(leaf));
        validity->not_after_s = seconds_of(X509_get0_notAfter(leaf));
        fault = find_fault(leaf, key, name, now_s, validity);
    }
    X509_free(leaf);
    ERR_clear_error();
    if (fault == NULL)
        return 0;
    snprintf(why, size, "the certificate cannot be used: %s", fault);
    return -1;
}

/* "KEY.SERIAL" in base64url, of the content of their DER; a serial number with its sign. */
static void write_id(const ASN1_OCTET_STRING *issuer_key, const ASN1_INTEGER *serial,
                     char id[CREDENTIALS_ID_BYTES])
{
    enum { HEAD = 2, DER_MAX = 64 }; /* of a short DER value: tag and length */
    unsigned char der[DER_MAX], *end = der;
    int length = i2d_ASN1_INTEGER(serial, NULL);
    char *key, *number;

    if (length <= HEAD || length > DER_MAX || ASN1_STRING_length(issuer_key) > DER_MAX ||
        ASN1_STRING_length(issuer_key) == 0)
        return;
    i2d_ASN1_INTEGER(serial, &end);
    key = base64url(ASN1_STRING_get0_data(issuer_key), (size_t)ASN1_STRING_length(issuer_key));
    number = base64url(der + HEAD, (size_t)length - HEAD);
    if (key != NULL && number != NULL &&
        snprintf(id, CREDENTIALS_ID_BYTES, "%s.%s", key, number) >= CREDENTIALS_ID_BYTES)
        id[0] = '\0';
    free(key);
    free(number);
}

void credentials_id(const char *chain, char id[CREDENTIALS_ID_BYTES])
{
    BIO *memory = BIO_new_mem_buf(chain, -1);
    X509 *leaf = PEM_read_bio_X509(memory, NULL, no_password, NULL);
    const ASN1_OCTET_STRING *key = leaf != NULL ? X509_get0_authority_key_id(leaf) : NULL;

    id[0] = '\0';
    if (key != NULL)
        write_id(key, X509_get0_serialNumber(leaf), id);
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
        certificate = PEM_read_bio_X509(memory, NULL, no_password, NULL);
        if (certificate == NULL)
            break;
        good = PEM_write_bio_X509(out, certificate) == 1;
        X509_free(certificate);
    }
    BIO_free(memory);
    return out != NULL ? take_text(out, good) : NULL;
}
