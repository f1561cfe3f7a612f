#include "daemon/tls/signature_scheme.h"

#include "common/macros.h"

#include <string.h>
#include <strings.h>

static const struct signature_scheme schemes[] = {
    {0x0403, "EC", "SHA2-256", false},  {0x0503, "EC", "SHA2-384", false},
    {0x0603, "EC", "SHA2-512", false},  {0x0303, "EC", "SHA2-224", false},
    {0x0804, "RSA", "SHA2-256", true},  {0x0805, "RSA", "SHA2-384", true},
    {0x0806, "RSA", "SHA2-512", true},  {0x0401, "RSA", "SHA2-256", false},
    {0x0501, "RSA", "SHA2-384", false}, {0x0601, "RSA", "SHA2-512", false},
    {0x0301, "RSA", "SHA2-224", false}, {0x0807, "ED25519", NULL, false},
};

/* OpenSSL has two names for each: "SHA2-256" and "SHA256". */
static bool is_digest(const char *name, const char *digest)
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
            is_digest(schemes[i].digest, digest))
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

/* 64 spaces, the text with its final zero, and the hash of all messages. */
static bool is_certificate_verify(const uint8_t *bytes, size_t length)
{
    static const char text[] = "TLS 1.3, server CertificateVerify";
    enum { SPACES = 64, SHA256_BYTES = 32, SHA384_BYTES = 48 };
    const size_t hash = SPACES + sizeof(text);

    if (length != hash + SHA256_BYTES && length != hash + SHA384_BYTES)
        return false;
    for (size_t i = 0; i < SPACES; i++)
        if (bytes[i] != ' ')
            return false;
    return memcmp(bytes + SPACES, text, sizeof(text)) == 0;
}

/* The randoms of client and server; a named curve, and a point on it. */
static bool is_key_exchange(const uint8_t *bytes, size_t length)
{
    enum { RANDOMS = 64, NAMED_CURVE = 3, HEAD = RANDOMS + 4 };

    return length > HEAD && bytes[RANDOMS] == NAMED_CURVE && bytes[RANDOMS + 3] > 0 &&
           length == (size_t)HEAD + bytes[RANDOMS + 3];
}

bool signature_is_of_handshake(const uint8_t *bytes, size_t length)
{
    return is_certificate_verify(bytes, length) || is_key_exchange(bytes, length);
}
