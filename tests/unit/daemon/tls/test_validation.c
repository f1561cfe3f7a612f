/*
 * tls-alpn-01: the bytes of the certificate, and which client gets it. Client and server shake
 * hands in memory.
 */
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/tls/managed.h"
#include "daemon/tls/validation.h"
#include "tests/test.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <string.h>

#define NAME "www.test-site.org"
#define VALIDATION                                                                                 \
    "\x0a"                                                                                         \
    "acme-tls/1"
#define HTTP1                                                                                      \
    "\x08"                                                                                         \
    "http/1.1"

static const struct challenge_copy pending = {
    .kind = CHALLENGE_TLS_ALPN_01,
    .name = NAME,
    .token = "evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA",
    .thumbprint = "9jg46WB3rR_AHD-EBXdN7cBkH1WOu0tA3M9fm21mqTI",
};

/*
 * The extension of a certificate by "openssl req -x509 -addext
 * 1.3.6.1.5.5.7.1.31=critical,DER:0420DIGEST", where DIGEST is what "openssl dgst -sha256" prints
 * for TOKEN.THUMBPRINT.
 */
static const unsigned char known_extension[] = {
    0x30, 0x31, 0x06, 0x08, 0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x01, 0x1f, 0x01,
    0x01, 0xff, 0x04, 0x22, 0x04, 0x20, 0x94, 0x23, 0x3b, 0x71, 0x9c, 0x90, 0x5d,
    0xc5, 0x47, 0x2b, 0x69, 0xe7, 0x5b, 0x78, 0xe3, 0x02, 0x13, 0x53, 0xdc, 0x5b,
    0xe6, 0xd7, 0xc5, 0x0d, 0xfa, 0x45, 0x99, 0x66, 0x49, 0xca, 0xa1, 0x83};

/* The certificate */

static int find_extension(const X509 *certificate)
{
    ASN1_OBJECT *kind = OBJ_txt2obj("1.3.6.1.5.5.7.1.31", 1);
    int at = X509_get_ext_by_OBJ(certificate, kind, -1);

    ASN1_OBJECT_free(kind);
    return at;
}

TEST(certificate_has_the_digest_and_one_name)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = validation_certificate_new(key, &pending);
    unsigned char *der = NULL;
    GENERAL_NAMES *names;

    assert_non_null(certificate);
    assert_int_equal(X509_get_ext_count(certificate), 2);
    assert_int_equal(
        i2d_X509_EXTENSION(X509_get_ext(certificate, find_extension(certificate)), &der),
        sizeof(known_extension));
    assert_memory_equal(der, known_extension, sizeof(known_extension));
    OPENSSL_free(der);
    names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    assert_int_equal(sk_GENERAL_NAME_num(names), 1);
    assert_int_equal(X509_check_host(certificate, NAME, 0, 0, NULL), 1);
    assert_int_equal(X509_verify(certificate, key), 1);
    GENERAL_NAMES_free(names);
    X509_free(certificate);
    EVP_PKEY_free(key);
}

/* Handshakes */

static struct segment_challenge challenge;
static struct segment segment = {.base = (char *)&challenge};

static int select_http(SSL *ssl, const unsigned char **chosen, unsigned char *length,
                       const unsigned char *offered, unsigned int offered_length, void *argument)
{
    unsigned char *out;

    (void)ssl, (void)argument;
    if (SSL_select_next_proto(&out, length, (const unsigned char *)HTTP1, sizeof(HTTP1) - 1,
                              offered, offered_length) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *chosen = out;
    return SSL_TLSEXT_ERR_OK;
}

/* A server with a certificate of its own. */
static SSL_CTX *server_context(SSL_CTX *validation)
{
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();

    assert_true(self_signed_begin(certificate, key, NAME, 1));
    assert_true(X509_sign(certificate, key, EVP_sha256()) > 0);
    assert_int_equal(SSL_CTX_use_certificate(context, certificate), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(context, key), 1);
    assert_int_equal(SSL_CTX_set1_groups_list(context, "P-256"), 1);
    SSL_CTX_set_alpn_select_cb(context, select_http, NULL);
    validation_recognize(context, validation);
    X509_free(certificate);
    EVP_PKEY_free(key);
    return context;
}

struct hello {
    const char *protocols, *name;
};

static void set_hello(SSL *client, const struct hello *hello)
{
    SSL_set_alpn_protos(client, (const unsigned char *)hello->protocols,
                        (unsigned int)strlen(hello->protocols));
    SSL_set_tlsext_host_name(client, (void *)hello->name);
}

enum result { NORMAL, VALIDATED, REJECTED };

/*
 * A handshake of VERSION in a client that sends FIRST, and, if SECOND is not NULL, a second
 * ClientHello after HelloRetryRequest.
 */
static enum result shake_hands(const struct segment *challenges, int version,
                               const struct hello *first, const struct hello *second)
{
    SSL_CTX *validation = validation_context_new();
    SSL_CTX *server_side = server_context(validation),
            *client_side = SSL_CTX_new(TLS_client_method());
    SSL *server = SSL_new(server_side), *client = SSL_new(client_side);
    enum result result = REJECTED;
    X509 *got;
    BIO *one, *other;

    assert_int_equal(BIO_new_bio_pair(&one, 0, &other, 0), 1);
    SSL_set_bio(server, one, one);
    SSL_set_bio(client, other, other);
    SSL_set_min_proto_version(client, version);
    SSL_set_max_proto_version(client, version);
    SSL_set1_groups_list(client, second != NULL ? "P-521:P-256" : "P-256");
    validation_attach(server, challenges);
    SSL_set_accept_state(server);
    SSL_set_connect_state(client);
    set_hello(client, first);
    SSL_do_handshake(client);
    SSL_do_handshake(server);
    if (second != NULL)
        set_hello(client, second);
    for (int i = 0; i < 10; i++) {
        SSL_do_handshake(client);
        SSL_do_handshake(server);
    }
    if (SSL_is_init_finished(server) && SSL_is_init_finished(client)) {
        got = SSL_get1_peer_certificate(client);
        result = validation_is_done(server) ? VALIDATED : NORMAL;
        assert_int_equal(find_extension(got) >= 0, result == VALIDATED);
        X509_free(got);
    }
    ERR_clear_error();
    SSL_free(server);
    SSL_free(client);
    SSL_CTX_free(server_side);
    SSL_CTX_free(client_side);
    SSL_CTX_free(validation);
    return result;
}

static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};

TEST(only_the_authority_gets_the_certificate)
{
    static const struct {
        struct hello hello;
        enum result result;
    } examples[] = {
        {{VALIDATION, NAME}, VALIDATED},
        {{VALIDATION, "WWW.Test-Site.ORG"}, VALIDATED},
        {{VALIDATION, "test-site.org"}, REJECTED},
        {{VALIDATION, NAME "x"}, REJECTED},
        {{VALIDATION, NULL}, REJECTED},
        {{VALIDATION HTTP1, NAME}, NORMAL},
        {{HTTP1 VALIDATION, NAME}, NORMAL},
        {{HTTP1, NAME}, NORMAL},
        {{"", NAME}, NORMAL},
        {{"\x0a"
          "acme-tls/2",
          NAME},
         REJECTED},
        {{VALIDATION VALIDATION, NAME}, REJECTED},
    };

    segment_store_challenge(&segment, &pending);
    for (size_t i = 0; i < ARRAY_LENGTH(examples); i++)
        for (size_t k = 0; k < ARRAY_LENGTH(versions); k++)
            if (shake_hands(&segment, versions[k], &examples[i].hello, NULL) != examples[i].result)
                fail_msg("example %zu, version %d", i, versions[k]);
}

TEST(no_challenge_means_no_certificate)
{
    static const struct hello hello = {VALIDATION, NAME};
    struct challenge_copy other = pending;

    assert_int_equal(shake_hands(NULL, TLS1_3_VERSION, &hello, NULL), REJECTED);
    segment_store_challenge(&segment, &(struct challenge_copy){0});
    assert_int_equal(shake_hands(&segment, TLS1_3_VERSION, &hello, NULL), REJECTED);
    other.kind = CHALLENGE_HTTP_01;
    segment_store_challenge(&segment, &other);
    assert_int_equal(shake_hands(&segment, TLS1_3_VERSION, &hello, NULL), REJECTED);
}

TEST(second_client_hello_cannot_change_the_purpose)
{
    static const struct hello authority = {VALIDATION, NAME};
    static const struct {
        struct hello first, second;
        enum result result;
    } examples[] = {
        {{VALIDATION, NAME}, {VALIDATION, NAME}, VALIDATED},
        {{VALIDATION, NAME}, {HTTP1, NAME}, REJECTED},
        {{VALIDATION, NAME}, {"", NAME}, REJECTED},
        {{VALIDATION, NAME}, {VALIDATION, "other.test-site.org"}, REJECTED},
        {{HTTP1, NAME}, {HTTP1, NAME}, NORMAL},
    };

    segment_store_challenge(&segment, &pending);
    assert_int_equal(shake_hands(&segment, TLS1_3_VERSION, &authority, NULL), VALIDATED);
    for (size_t i = 0; i < ARRAY_LENGTH(examples); i++)
        if (shake_hands(&segment, TLS1_3_VERSION, &examples[i].first, &examples[i].second) !=
            examples[i].result)
            fail_msg("example %zu", i);
}
