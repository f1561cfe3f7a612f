#include "daemon/tls/validation.h"

#include "common/macros.h"
#include "daemon/tls/managed.h"

#include <openssl/err.h>
#include <openssl/sha.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <strings.h>

enum { VALID_DAYS = 1, LIST_HEAD_BYTES = 2, NAME_HEAD_BYTES = 5 };

static const unsigned char protocol[] = {'a', 'c', 'm', 'e', '-', 't', 'l', 's', '/', '1'};

/* The certificate */

/* The extension acmeIdentifier: an OCTET STRING in the OCTET STRING of the extension. */
static bool add_acme_identifier(X509 *certificate, const struct challenge_copy *challenge)
{
    unsigned char value[2 + SHA256_DIGEST_LENGTH] = {V_ASN1_OCTET_STRING, SHA256_DIGEST_LENGTH};
    char text[sizeof(challenge->token) + sizeof(challenge->thumbprint)];
    int length = snprintf(text, sizeof(text), "%s.%s", challenge->token, challenge->thumbprint);
    ASN1_OCTET_STRING *content = ASN1_OCTET_STRING_new();
    ASN1_OBJECT *kind = OBJ_txt2obj("1.3.6.1.5.5.7.1.31", 1);
    X509_EXTENSION *extension = NULL;
    bool added;

    SHA256((const unsigned char *)text, (size_t)length, value + 2);
    if (content != NULL && kind != NULL &&
        ASN1_OCTET_STRING_set(content, value, sizeof(value)) == 1)
        extension = X509_EXTENSION_create_by_OBJ(NULL, kind, 1, content);
    added = extension != NULL && X509_add_ext(certificate, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    ASN1_OBJECT_free(kind);
    ASN1_OCTET_STRING_free(content);
    return added;
}

X509 *validation_certificate_new(EVP_PKEY *key, const struct challenge_copy *challenge)
{
    X509 *certificate = X509_new();
    char names[sizeof("DNS:") + sizeof(challenge->name)];

    snprintf(names, sizeof(names), "DNS:%s", challenge->name);
    if (certificate != NULL && self_signed_begin(certificate, key, "ACME challenge", VALID_DAYS) &&
        self_signed_extend(certificate, NID_subject_alt_name, names) &&
        add_acme_identifier(certificate, challenge) &&
        X509_sign(certificate, key, EVP_sha256()) > 0)
        return certificate;
    X509_free(certificate);
    return NULL;
}

/* The handshake. Any thread of a worker. */

/* A client that offers other protocols, too, is none of an authority. */
static bool offers_only_validation(SSL *ssl)
{
    static const unsigned char head[] = {0, 1 + sizeof(protocol), sizeof(protocol)};
    const unsigned char *bytes;
    size_t length;

    return SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_application_layer_protocol_negotiation,
                                     &bytes, &length) == 1 &&
           length == sizeof(head) + sizeof(protocol) && memcmp(bytes, head, sizeof(head)) == 0 &&
           memcmp(bytes + sizeof(head), protocol, sizeof(protocol)) == 0;
}

/* True if SNI (RFC 6066 section 3) has exactly one name, NAME. */
static bool asks_for(SSL *ssl, const char *name)
{
    size_t named = strlen(name), length;
    const unsigned char *bytes;

    return SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_server_name, &bytes, &length) == 1 &&
           length == NAME_HEAD_BYTES + named &&
           (size_t)(bytes[0] << 8 | bytes[1]) == length - LIST_HEAD_BYTES &&
           bytes[2] == TLSEXT_NAMETYPE_host_name && (size_t)(bytes[3] << 8 | bytes[4]) == named &&
           strncasecmp((const char *)bytes + NAME_HEAD_BYTES, name, named) == 0;
}

/*
 * One load for a handshake of a normal client; the word changes only during an order for a
 * certificate.
 */
static bool is_validation(SSL *ssl, struct challenge_copy *challenge)
{
    const struct segment *segment = SSL_get_app_data(ssl);

    return segment != NULL &&
           UNLIKELY(atomic_load_explicit(&segment_challenge(segment)->token[0],
                                         memory_order_relaxed) != 0) &&
           offers_only_validation(ssl) && segment_read_challenge(segment, challenge) &&
           challenge->kind == CHALLENGE_TLS_ALPN_01 && asks_for(ssl, challenge->name);
}

/* Selects the certificate for CHALLENGE. Without tickets: such a session is never resumed. */
static bool use_challenge_certificate(SSL *ssl, SSL_CTX *validation,
                                      const struct challenge_copy *challenge)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = key != NULL ? validation_certificate_new(key, challenge) : NULL;
    bool good = certificate != NULL && SSL_set_SSL_CTX(ssl, validation) != NULL &&
                SSL_use_certificate(ssl, certificate) == 1 && SSL_use_PrivateKey(ssl, key) == 1 &&
                SSL_set_num_tickets(ssl, 0) == 1;

    SSL_set_options(ssl, SSL_OP_NO_TICKET);
    X509_free(certificate);
    EVP_PKEY_free(key);
    ERR_clear_error();
    return good;
}

/* A client may send two: then the second one must not be another (RFC 8446 section 4.1.2). */
static int on_client_hello(SSL *ssl, int *alert, void *argument)
{
    SSL_CTX *validation = argument;
    struct challenge_copy challenge;

    if (LIKELY(!is_validation(ssl, &challenge))) {
        *alert = SSL_AD_NO_APPLICATION_PROTOCOL;
        return SSL_get_SSL_CTX(ssl) == validation ? SSL_CLIENT_HELLO_ERROR
                                                  : SSL_CLIENT_HELLO_SUCCESS;
    }
    *alert = SSL_AD_INTERNAL_ERROR;
    return use_challenge_certificate(ssl, validation, &challenge) ? SSL_CLIENT_HELLO_SUCCESS
                                                                  : SSL_CLIENT_HELLO_ERROR;
}

/* The certificate is selected already. */
static int accept_name(SSL *ssl, int *alert, void *argument)
{
    (void)ssl, (void)alert, (void)argument;
    return SSL_TLSEXT_ERR_OK;
}

/* It is all that the client offers. */
static int select_validation(SSL *ssl, const unsigned char **chosen, unsigned char *length,
                             const unsigned char *offered, unsigned int offered_length,
                             void *argument)
{
    (void)ssl, (void)offered, (void)offered_length, (void)argument;
    *chosen = protocol;
    *length = sizeof(protocol);
    return SSL_TLSEXT_ERR_OK;
}

SSL_CTX *validation_context_new(void)
{
    SSL_CTX *validation = SSL_CTX_new(TLS_server_method());

    if (validation == NULL)
        return NULL;
    SSL_CTX_set_tlsext_servername_callback(validation, accept_name);
    SSL_CTX_set_alpn_select_cb(validation, select_validation, NULL);
    validation_recognize(validation, validation);
    return validation;
}

void validation_recognize(SSL_CTX *context, SSL_CTX *validation)
{
    SSL_CTX_set_client_hello_cb(context, on_client_hello, validation);
}

void validation_attach(SSL *ssl, const struct segment *segment)
{
    SSL_set_app_data(ssl, (void *)segment);
}

bool validation_is_done(const SSL *ssl)
{
    const unsigned char *name;
    unsigned int length;

    SSL_get0_alpn_selected(ssl, &name, &length);
    return length == sizeof(protocol) && memcmp(name, protocol, sizeof(protocol)) == 0;
}
