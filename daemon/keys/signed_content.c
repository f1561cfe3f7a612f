#include "daemon/keys/signed_content.h"

#include "common/macros.h"
#include "daemon/tls/remote_key.h"

#include <string.h>

static bool is_certificate_verify(const struct signature_scheme *scheme, const uint8_t *bytes,
                                  size_t length)
{
    /* 64 spaces, the text with its final zero, and the hash of all messages. */
    static const char head[] = "                                                                "
                               "TLS 1.3, server CertificateVerify";
    enum { SHA256_BYTES = 32, SHA384_BYTES = 48 };

    return (length == sizeof(head) + SHA256_BYTES || length == sizeof(head) + SHA384_BYTES) &&
           memcmp(bytes, head, sizeof(head)) == 0 && scheme->tls13;
}

static bool is_key_exchange(const uint8_t *bytes, size_t length)
{
    enum { UNCOMPRESSED = 4 };
    static const struct {
        uint8_t code, point_bytes;
        bool has_form;
    } curves[] = {{0x1d, 32, false}, {0x17, 65, true}, {0x18, 97, true}};
    /*
     * Client random; server random, which ends so if the server supports TLS 1.3 (RFC 8446 section
     * 4.1.3); a named curve.
     */
    static const uint8_t downgraded[] = {'D', 'O', 'W', 'N', 'G', 'R', 'D', 1, 3, 0};
    enum { AT_DOWNGRADED = 56, AT_CURVE = 66, AT_POINT_BYTES, AT_POINT };

    if (length <= AT_POINT || memcmp(bytes + AT_DOWNGRADED, downgraded, sizeof(downgraded)) != 0)
        return false;
    for (size_t i = 0; i < ARRAY_LENGTH(curves); i++)
        if (bytes[AT_CURVE] == curves[i].code)
            return bytes[AT_POINT_BYTES] == curves[i].point_bytes &&
                   length == (size_t)AT_POINT + curves[i].point_bytes &&
                   (!curves[i].has_form || bytes[AT_POINT] == UNCOMPRESSED);
    return false;
}

/*
 * Skips tag and length of the element at *AT. Returns the number of bytes that follow it, the rest
 * if its length is indefinite; or -1: it does not end before END.
 */
static ptrdiff_t skip_element_head(const uint8_t **at, const uint8_t *end)
{
    enum { LONG_TAG = 0x1f, MORE = 0x80, INDEFINITE = 0x80 };
    const uint8_t *next = *at + 1;
    ptrdiff_t length;

    if ((**at & LONG_TAG) == LONG_TAG) {
        while (next < end && (*next & MORE) != 0)
            next++;
        next++;
    }
    if (next >= end)
        return -1;
    length = *next++;
    if (length == INDEFINITE) {
        length = end - next;
    } else if (length > INDEFINITE) {
        ptrdiff_t count = length - INDEFINITE;

        length = 0;
        for (; count > 0 && next < end && length <= end - next; count--)
            length = length * 256 + *next++;
        if (count > 0)
            return -1;
    }
    *at = next;
    return length <= end - next ? length : -1;
}

/*
 * True if BYTES are a SEQUENCE or SET of complete elements in any encoding (BER), and the first one
 * is an INTEGER, a SEQUENCE or tagged by its context: all that is signed in ASN.1 is such. Of
 * random bytes with an X25519 point fewer than one in a million are.
 */
static bool may_be_asn1(const uint8_t *bytes, size_t length)
{
    enum { INTEGER = 0x02, SEQUENCE = 0x30, SET = 0x31, CONTEXT = 0xa0, CLASS_AND_FORM = 0xe0 };
    const uint8_t *at = bytes, *end = bytes + length;
    ptrdiff_t rest = skip_element_head(&at, end);

    if ((bytes[0] != SEQUENCE && bytes[0] != SET) || rest == 0 || rest != end - at ||
        (*at != INTEGER && *at != SEQUENCE && (*at & CLASS_AND_FORM) != CONTEXT))
        return false;
    while (at < end && (rest = skip_element_head(&at, end)) >= 0)
        at += rest;
    return at == end;
}

enum signed_content signed_content_check(const struct signature_scheme *scheme, bool tls12,
                                         const uint8_t *bytes, size_t length)
{
    if (is_certificate_verify(scheme, bytes, length))
        return CONTENT_VALID;
    if (!tls12 || !is_key_exchange(bytes, length))
        return CONTENT_INVALID;
    return may_be_asn1(bytes, length) ? CONTENT_AMBIGUOUS : CONTENT_VALID;
}
