/*
 * OCSP responses made here: which of them are about a certificate, which signatures are accepted, and
 * when clients accept them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/tls/certificate.h"
#include "daemon/tls/ocsp.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char file[] = "test_ocsp.der";

/* A certificate with its private key. */
struct identity {
    X509 *certificate;
    EVP_PKEY *key;
};

static void add_extension(X509 *certificate, int kind, const char *value)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, kind, value);

    assert_non_null(extension);
    assert_int_equal(X509_add_ext(certificate, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

/* ISSUER may be NULL: then it signs itself. USAGE is its extended key usage, or NULL: a CA. */
static struct identity make_identity(const char *name, long serial, const struct identity *issuer,
                                     const char *usage)
{
    struct identity made = {X509_new(), EVP_EC_gen("P-256")};
    X509_NAME *subject = X509_NAME_new();

    assert_true(made.certificate != NULL && made.key != NULL && subject != NULL);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
    X509_set_version(made.certificate, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(made.certificate), serial);
    X509_gmtime_adj(X509_getm_notBefore(made.certificate), -3600);
    X509_gmtime_adj(X509_getm_notAfter(made.certificate), 3600);
    X509_set_subject_name(made.certificate, subject);
    X509_set_issuer_name(made.certificate,
                         issuer != NULL ? X509_get_subject_name(issuer->certificate) : subject);
    X509_set_pubkey(made.certificate, made.key);
    add_extension(made.certificate, NID_basic_constraints, usage == NULL ? "CA:TRUE" : "CA:FALSE");
    if (usage != NULL)
        add_extension(made.certificate, NID_ext_key_usage, usage);
    assert_true(X509_sign(made.certificate, issuer != NULL ? issuer->key : made.key, EVP_sha256()) >
                0);
    X509_NAME_free(subject);
    return made;
}

static void free_identity(struct identity *identity)
{
    X509_free(identity->certificate);
    EVP_PKEY_free(identity->key);
}

/* What a response says. Times in seconds from now. */
struct answer {
    const struct identity *about, *issuer, *signer;
    int status;
    int64_t from, until; /* until = 0: not limited */
    const EVP_MD *digest;
};

/* Writes a response to the file. */
static void write_response(const struct answer *answer)
{
    OCSP_BASICRESP *basic = OCSP_BASICRESP_new();
    OCSP_CERTID *id =
        OCSP_cert_to_id(answer->digest, answer->about->certificate, answer->issuer->certificate);
    ASN1_TIME *from = X509_gmtime_adj(NULL, answer->from);
    ASN1_TIME *until = answer->until != 0 ? X509_gmtime_adj(NULL, answer->until) : NULL;
    ASN1_TIME *revoked =
        answer->status == V_OCSP_CERTSTATUS_REVOKED ? X509_gmtime_adj(NULL, -1) : NULL;
    OCSP_RESPONSE *response;
    BIO *out = BIO_new_file(file, "wb");

    assert_non_null(OCSP_basic_add1_status(basic, id, answer->status, 0, revoked, from, until));
    assert_int_equal(OCSP_basic_sign(basic, answer->signer->certificate, answer->signer->key,
                                     EVP_sha256(), NULL, 0),
                     1);
    response = OCSP_response_create(OCSP_RESPONSE_STATUS_SUCCESSFUL, basic);
    assert_int_equal(i2d_OCSP_RESPONSE_bio(out, response), 1);
    BIO_free(out);
    OCSP_RESPONSE_free(response);
    OCSP_BASICRESP_free(basic);
    OCSP_CERTID_free(id);
    ASN1_TIME_free(from);
    ASN1_TIME_free(until);
    ASN1_TIME_free(revoked);
}

/* Loads what ANSWER says for the certificate LEAF, whose chain contains ISSUER unless it is NULL. */
static int load(struct ocsp_response *response, const struct answer *answer,
                const struct identity *leaf, const struct identity *issuer, char *why, size_t size)
{
    struct tls_certificate certificate = {.leaf = leaf->certificate, .chain = sk_X509_new_null()};
    int result = 1;

    if (issuer != NULL)
        sk_X509_push(certificate.chain, issuer->certificate);
    *response = (struct ocsp_response){0};
    write_response(answer);
    assert_int_equal(ocsp_response_load(response, file, why, size), 0);
    if (ocsp_response_is_about(response, &certificate))
        result = ocsp_response_check(response, &certificate, why, size);
    assert_int_equal(ERR_peek_error(), 0);
    sk_X509_free(certificate.chain);
    return result;
}

enum { ABOUT_ANOTHER = 1, SIGNED_WRONGLY = -1, ACCEPTED = 0 };

static void issuer_or_its_responder_must_have_signed(void **state)
{
    struct identity ca = make_identity("ca", 1, NULL, NULL);
    struct identity twin = make_identity("ca", 1, NULL, NULL); /* another CA with the same name */
    struct identity leaf = make_identity("leaf", 7, &ca, "serverAuth");
    struct identity neighbour = make_identity("leaf", 8, &ca, "serverAuth");
    struct identity responder = make_identity("responder", 9, &ca, "OCSPSigning");
    const struct {
        const struct identity *about, *signer, *issuer;
        const EVP_MD *digest;
        int result;
    } cases[] = {
        {&leaf, &ca, &ca, EVP_sha1(), ACCEPTED},
        {&leaf, &ca, &ca, EVP_sha256(), ACCEPTED},
        {&leaf, &responder, &ca, EVP_sha1(), ACCEPTED},
        {&leaf, &twin, &ca, EVP_sha1(), SIGNED_WRONGLY},
        {&leaf, &twin, NULL, EVP_sha1(), ACCEPTED}, /* the chain does not tell the issuer */
        {&leaf, &neighbour, &ca, EVP_sha1(), SIGNED_WRONGLY},
        {&leaf, &leaf, &ca, EVP_sha1(), SIGNED_WRONGLY},
        {&neighbour, &ca, &ca, EVP_sha1(), ABOUT_ANOTHER},
        {&responder, &ca, &ca, EVP_sha256(), ABOUT_ANOTHER},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct answer answer = {.about = cases[i].about,
                                      .issuer = &ca,
                                      .signer = cases[i].signer,
                                      .status = V_OCSP_CERTSTATUS_GOOD,
                                      .digest = cases[i].digest};
        struct ocsp_response response;
        char why[256] = "";

        assert_int_equal(load(&response, &answer, &leaf, cases[i].issuer, why, sizeof(why)),
                         cases[i].result);
        assert_int_equal(why[0] != '\0', cases[i].result == SIGNED_WRONGLY);
        assert_true(response.bytes != NULL && response.length > 0);
        ocsp_response_free(&response);
    }
    free_identity(&ca);
    free_identity(&twin);
    free_identity(&leaf);
    free_identity(&neighbour);
    free_identity(&responder);
}

static void times_and_status_decide_whether_clients_accept_it(void **state)
{
    struct identity ca = make_identity("ca", 1, NULL, NULL);
    struct identity leaf = make_identity("leaf", 7, &ca, "serverAuth");
    static const struct {
        int status;
        int64_t from, until, at;
        const char *fault; /* NULL: none */
    } cases[] = {
        {V_OCSP_CERTSTATUS_GOOD, 0, 0, 0, NULL},
        {V_OCSP_CERTSTATUS_GOOD, 0, 0, 1000000000, NULL},
        {V_OCSP_CERTSTATUS_GOOD, -100, 1000, 900, NULL},
        {V_OCSP_CERTSTATUS_GOOD, -100, 1000, 1100, "has expired"},
        {V_OCSP_CERTSTATUS_GOOD, -100, -10, 0, "has expired"},
        {V_OCSP_CERTSTATUS_GOOD, 1000, 2000, 0, "is not valid yet"},
        {V_OCSP_CERTSTATUS_GOOD, 1000, 2000, 1000, NULL},
        {V_OCSP_CERTSTATUS_GOOD, 100, 2000, 0, NULL}, /* clocks differ */
        {V_OCSP_CERTSTATUS_REVOKED, -100, 1000, 0,
         "says that the certificate is revoked or unknown"},
        {V_OCSP_CERTSTATUS_UNKNOWN, -100, 1000, 0,
         "says that the certificate is revoked or unknown"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct answer answer = {.about = &leaf,
                                      .issuer = &ca,
                                      .signer = &ca,
                                      .status = cases[i].status,
                                      .from = cases[i].from,
                                      .until = cases[i].until,
                                      .digest = EVP_sha1()};
        struct ocsp_response response;
        const char *fault;
        char why[256];

        assert_int_equal(load(&response, &answer, &leaf, &ca, why, sizeof(why)), ACCEPTED);
        fault = ocsp_response_fault(&response, time(NULL) + cases[i].at);
        if (cases[i].fault == NULL)
            assert_null(fault);
        else
            assert_string_equal(fault, cases[i].fault);
        ocsp_response_free(&response);
    }
    free_identity(&ca);
    free_identity(&leaf);
}

static int enter_directory(void **state)
{
    static char directory[] = "/tmp/test_ocsp.XXXXXX";

    *state = directory;
    return mkdtemp(directory) != NULL ? chdir(directory) : -1;
}

static int remove_directory(void **state)
{
    return unlink(file) == 0 && chdir("/") == 0 ? rmdir(*state) : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(issuer_or_its_responder_must_have_signed),
        cmocka_unit_test(times_and_status_decide_whether_clients_accept_it),
    };

    return cmocka_run_group_tests(tests, enter_directory, remove_directory);
}
