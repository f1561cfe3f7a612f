/*
 * What the keys process signs for a hostile worker: nothing that OpenSSL parses as the signed part
 * of a certificate, certificate request, revocation list or OCSP response, and for TLS 1.3 alone
 * only the hash of a handshake.
 *
 * Input: a byte for the scheme, one for the protocols, and the bytes to sign.
 */
#include "daemon/keys/signed_content.h"
#include "daemon/tls/remote_key.h"
#include "tests/fuzz/fuzz.h"

#include <openssl/err.h>
#include <openssl/ocsp.h>
#include <openssl/x509.h>

static void refuse_parsed(const uint8_t *data, size_t size)
{
    const uint8_t *at[] = {data, data, data, data}, *end = data + size;
    long length = (long)size;
    X509_CINF *certificate = d2i_X509_CINF(NULL, &at[0], length);
    X509_REQ_INFO *request = d2i_X509_REQ_INFO(NULL, &at[1], length);
    X509_CRL_INFO *revocations = d2i_X509_CRL_INFO(NULL, &at[2], length);
    OCSP_RESPDATA *response = d2i_OCSP_RESPDATA(NULL, &at[3], length);

    MUST(certificate == NULL || at[0] != end);
    MUST(request == NULL || at[1] != end);
    MUST(revocations == NULL || at[2] != end);
    MUST(response == NULL || at[3] != end);
    X509_CINF_free(certificate);
    X509_REQ_INFO_free(request);
    X509_CRL_INFO_free(revocations);
    OCSP_RESPDATA_free(response);
    ERR_clear_error();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint32_t codes[] = {0x0403, 0x0503, 0x0603, 0x0303, 0x0804, 0x0805,
                                     0x0806, 0x0401, 0x0501, 0x0601, 0x0301, 0x0807};
    enum { CODES = sizeof(codes) / sizeof(codes[0]), HEAD = 98 };
    const struct signature_scheme *scheme;
    bool tls12;

    if (size < 2)
        return 0;
    scheme = signature_scheme_get(codes[data[0] % CODES]);
    tls12 = data[1] % 2 != 0;
    data += 2, size -= 2;
    if (signed_content_check(scheme, tls12, data, size) != CONTENT_VALID)
        return 0;
    if (size == HEAD + 32 || size == HEAD + 48) {
        MUST(scheme->tls13);
        return 0;
    }
    MUST(tls12 && (size == 100 || size == 133 || size == 165));
    refuse_parsed(data, size);
    return 0;
}
