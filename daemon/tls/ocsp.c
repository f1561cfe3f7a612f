#include "daemon/tls/ocsp.h"

#include "daemon/tls/certificate.h"
#include "daemon/tls/pem_file.h"

#include <openssl/err.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CLOCK_SKEW_S = 300 }; /* that clients tolerate at least */

void ocsp_response_free(struct ocsp_response *response)
{
    OPENSSL_free(response->bytes);
    OCSP_BASICRESP_free(response->parsed);
    *response = (struct ocsp_response){0};
}

/* Returns 0, or -1 with WHY. */
static int parse(struct ocsp_response *response, OCSP_RESPONSE *whole, char *why, size_t size)
{
    int status = whole != NULL ? OCSP_response_status(whole) : 0, length;

    if (whole == NULL) {
        snprintf(why, size, "contains no OCSP response in DER format");
        return -1;
    }
    if (status != OCSP_RESPONSE_STATUS_SUCCESSFUL) {
        snprintf(why, size, "the OCSP responder has answered '%s'",
                 OCSP_response_status_str(status));
        return -1;
    }
    response->parsed = OCSP_response_get1_basic(whole);
    length = i2d_OCSP_RESPONSE(whole, &response->bytes);
    if (response->parsed != NULL && length > 0) {
        response->length = (size_t)length;
        return 0;
    }
    snprintf(why, size, "the OCSP response has an unknown type");
    return -1;
}

int ocsp_response_load(struct ocsp_response *response, const char *file, char *why, size_t size)
{
    int fd = pem_file_open(file, why, size), failed;
    BIO *reader = fd >= 0 ? BIO_new_fd(fd, BIO_CLOSE) : NULL;
    OCSP_RESPONSE *whole = reader != NULL ? d2i_OCSP_RESPONSE_bio(reader, NULL) : NULL;
    char reason[256];

    if (fd < 0)
        return -1;
    if (reader == NULL)
        close(fd);
    failed = parse(response, whole, reason, sizeof(reason));
    if (failed != 0)
        snprintf(why, size, "%s: %s", file, reason);
    OCSP_RESPONSE_free(whole);
    BIO_free(reader);
    ERR_clear_error();
    return failed;
}

/* True if ID, which was made by a digest, is that of LEAF. */
static bool is_id_of(const OCSP_CERTID *id, X509 *leaf)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int length = 0;
    ASN1_OCTET_STRING *issuer;
    ASN1_OBJECT *algorithm;
    ASN1_INTEGER *serial;
    const EVP_MD *made_by;

    OCSP_id_get0_info(&issuer, &algorithm, NULL, &serial, (OCSP_CERTID *)id);
    made_by = EVP_get_digestbyobj(algorithm);
    return made_by != NULL && ASN1_INTEGER_cmp(serial, X509_get0_serialNumber(leaf)) == 0 &&
           X509_NAME_digest(X509_get_issuer_name(leaf), made_by, digest, &length) == 1 &&
           (int)length == ASN1_STRING_length(issuer) &&
           memcmp(digest, ASN1_STRING_get0_data(issuer), length) == 0;
}

/* The part of RESPONSE that is about LEAF, or NULL. */
static OCSP_SINGLERESP *find_part(const struct ocsp_response *response, X509 *leaf)
{
    for (int i = 0; i < OCSP_resp_count(response->parsed); i++) {
        OCSP_SINGLERESP *part = OCSP_resp_get0(response->parsed, i);

        if (is_id_of(OCSP_SINGLERESP_get0_id(part), leaf))
            return part;
    }
    return NULL;
}

bool ocsp_response_is_about(const struct ocsp_response *response,
                            const struct tls_certificate *certificate)
{
    return find_part(response, certificate->leaf) != NULL;
}

/* The issuer of CERTIFICATE in its chain, or NULL. */
static X509 *find_issuer(const struct tls_certificate *certificate)
{
    if (X509_check_issued(certificate->leaf, certificate->leaf) == X509_V_OK)
        return certificate->leaf;
    for (int i = 0; i < sk_X509_num(certificate->chain); i++)
        if (X509_check_issued(sk_X509_value(certificate->chain, i), certificate->leaf) == X509_V_OK)
            return sk_X509_value(certificate->chain, i);
    return NULL;
}

/* True if ISSUER has signed PARSED, or a certificate of a responder that has. */
static bool is_signed_by(OCSP_BASICRESP *parsed, X509 *issuer)
{
    X509_STORE *trusted = X509_STORE_new();
    STACK_OF(X509) *known = sk_X509_new_null();
    bool valid = trusted != NULL && known != NULL && sk_X509_push(known, issuer) > 0 &&
                 X509_STORE_add_cert(trusted, issuer) == 1 &&
                 X509_STORE_set_flags(trusted, X509_V_FLAG_PARTIAL_CHAIN) == 1 &&
                 OCSP_basic_verify(parsed, known, trusted, 0) == 1;

    sk_X509_free(known);
    X509_STORE_free(trusted);
    return valid;
}

/* Seconds since 1970. OTHERWISE if TIME is NULL or invalid. */
static int64_t seconds_of(const ASN1_GENERALIZEDTIME *time, int64_t otherwise)
{
    struct tm parts;

    return time != NULL && ASN1_TIME_to_tm(time, &parts) == 1 ? timegm(&parts) : otherwise;
}

int ocsp_response_check(struct ocsp_response *response, const struct tls_certificate *certificate,
                        char *why, size_t size)
{
    X509 *issuer = find_issuer(certificate);
    ASN1_GENERALIZEDTIME *from, *until;
    int status;

    if (issuer != NULL && !is_signed_by(response->parsed, issuer)) {
        const char *reason = ERR_reason_error_string(ERR_peek_last_error());

        snprintf(why, size, "the OCSP response is not signed by the issuer of the certificate: %s",
                 reason != NULL ? reason : "out of memory");
        ERR_clear_error();
        return -1;
    }
    status =
        OCSP_single_get0_status(find_part(response, certificate->leaf), NULL, NULL, &from, &until);
    response->good = status == V_OCSP_CERTSTATUS_GOOD;
    response->from_s = seconds_of(from, INT64_MAX);
    response->until_s = seconds_of(until, INT64_MAX);
    OCSP_BASICRESP_free(response->parsed);
    response->parsed = NULL;
    return 0;
}

const char *ocsp_response_fault(const struct ocsp_response *response, int64_t now_s)
{
    if (!response->good)
        return "says that the certificate is revoked or unknown";
    if (response->from_s > now_s + CLOCK_SKEW_S)
        return "is not valid yet";
    return response->until_s <= now_s ? "has expired" : NULL;
}
