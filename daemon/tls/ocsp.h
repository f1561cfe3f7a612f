/*
 * Responses of OCSP (RFC 6960), which say that a certificate has not been revoked. The server staples
 * them: it sends them with the certificate to clients that request it (RFC 6066 section 8). Another
 * program writes the files.
 */
#ifndef DAEMON_TLS_OCSP_H
#define DAEMON_TLS_OCSP_H

#include <openssl/ocsp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tls_certificate;

struct ocsp_response {
    unsigned char *bytes; /* NULL: none */
    size_t length;
    int64_t from_s, until_s; /* when it is valid; until_s is the first second when it is not */
    bool good;               /* the certificate has not been revoked */
    OCSP_BASICRESP *parsed;  /* until ocsp_response_check() */
};

/*
 * Reads FILE (DER). RESPONSE is all zero. Returns 0, or -1 with WHY; then call ocsp_response_free()
 * nevertheless.
 */
int ocsp_response_load(struct ocsp_response *response, const char *file, char *why, size_t size);
void ocsp_response_free(struct ocsp_response *response);

/* True if RESPONSE is about CERTIFICATE: its issuer and its serial number. */
bool ocsp_response_is_about(const struct ocsp_response *response,
                            const struct tls_certificate *certificate);

/*
 * Checks the signature of RESPONSE, which is about CERTIFICATE, if the chain contains the issuer, and
 * reads status and times. Returns 0, or -1 with WHY.
 */
int ocsp_response_check(struct ocsp_response *response, const struct tls_certificate *certificate,
                        char *why, size_t size);

/* NULL if clients accept RESPONSE at NOW_S (seconds since 1970), else why not. Any thread. */
const char *ocsp_response_fault(const struct ocsp_response *response, int64_t now_s);

#endif
