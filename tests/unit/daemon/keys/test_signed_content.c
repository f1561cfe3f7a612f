/* What the keys process signs, as a table: each content by itself, and with one change. */
#include "daemon/keys/signed_content.h"

#include "common/macros.h"
#include "daemon/tls/remote_key.h"
#include "tests/test.h"

#include <openssl/ocsp.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <string.h>

enum { CONTENT_BYTES_MAX = 512 };

struct content {
    uint8_t bytes[CONTENT_BYTES_MAX];
    size_t length;
};

static size_t accepted, refused;

static void expect(const struct content *content, uint32_t scheme, bool tls12,
                   enum signed_content expected, const char *what, size_t where)
{
    enum signed_content found =
        signed_content_check(signature_scheme_get(scheme), tls12, content->bytes, content->length);

    if (found != expected)
        fail_msg("%s (%zu), scheme 0x%04x, TLS 1.2 %d: %d instead of %d", what, where, scheme,
                 tls12, (int)found, (int)expected);
    if (found == CONTENT_VALID)
        accepted++;
    else
        refused++;
}

static void append(struct content *content, const void *bytes, size_t length)
{
    assert_true(content->length + length <= sizeof(content->bytes));
    memcpy(content->bytes + content->length, bytes, length);
    content->length += length;
}

static void append_filled(struct content *content, uint8_t byte, size_t length)
{
    assert_true(content->length + length <= sizeof(content->bytes));
    memset(content->bytes + content->length, byte, length);
    content->length += length;
}

/* Handshakes */

static const char verify_head[] = "                                                                "
                                  "TLS 1.3, server CertificateVerify";

static struct content certificate_verify(size_t hash)
{
    struct content made = {.length = 0};

    append(&made, verify_head, sizeof(verify_head));
    append_filled(&made, 0xab, hash);
    return made;
}

struct curve {
    uint8_t code, point_bytes, form; /* form 0: any */
};

static const struct curve curves[] = {{0x1d, 32, 0}, {0x17, 65, 4}, {0x18, 97, 4}};
enum { DOWNGRADED = 56, CURVE = 66, POINT_BYTES, POINT };

/* The fixed bytes of ServerKeyExchange between its random ones. */
static struct content key_exchange_middle(const struct curve *curve)
{
    struct content made = {.length = 0};

    append(&made, "DOWNGRD\x01\x03\x00", CURVE - DOWNGRADED);
    append(&made, (const uint8_t[]){curve->code, curve->point_bytes, curve->form}, 3);
    made.length -= curve->form == 0 ? 1 : 0;
    return made;
}

static struct content key_exchange(const struct curve *curve)
{
    struct content made = {.length = 0}, middle = key_exchange_middle(curve);

    append_filled(&made, 0xcd, DOWNGRADED);
    append(&made, middle.bytes, middle.length);
    append_filled(&made, 0xab, (size_t)POINT + curve->point_bytes - made.length);
    return made;
}

static const uint32_t schemes_of_tls13[] = {0x0403, 0x0503, 0x0603, 0x0804, 0x0805, 0x0806, 0x0807};
static const uint32_t older_schemes[] = {0x0401, 0x0501, 0x0601, 0x0301, 0x0303};

TEST(contents_of_a_handshake_are_valid)
{
    for (size_t i = 0; i < ARRAY_LENGTH(schemes_of_tls13); i++)
        for (size_t hash = 32; hash <= 48; hash += 16) {
            struct content verify = certificate_verify(hash);

            expect(&verify, schemes_of_tls13[i], i % 2 == 0, CONTENT_VALID, "verify", hash);
        }
    for (size_t i = 0; i < ARRAY_LENGTH(curves); i++) {
        struct content exchange = key_exchange(&curves[i]);

        expect(&exchange, 0x0403, true, CONTENT_VALID, "key exchange", i);
        expect(&exchange, 0x0401, true, CONTENT_VALID, "key exchange", i);
        expect(&exchange, 0x0303, true, CONTENT_VALID, "key exchange", i);
    }
    assert_true(accepted >= 20);
}

/* Changes one of the FIXED bytes, the length, or the scheme. */
static void refuse_changed(const struct content *valid, uint32_t scheme, size_t fixed,
                           size_t fixed_end)
{
    static const int lengths[] = {-1, 1, -16, 16, -32, 32, 64};

    for (size_t at = fixed; at < fixed_end; at++) {
        struct content changed = *valid;

        changed.bytes[at] ^= 1;
        expect(&changed, scheme, true, CONTENT_INVALID, "byte changed", at);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(lengths); i++) {
        struct content changed = *valid;

        changed.length += (size_t)lengths[i];
        if (changed.length != certificate_verify(32).length &&
            changed.length != certificate_verify(48).length)
            expect(&changed, scheme, true, CONTENT_INVALID, "length changed", changed.length);
    }
}

TEST(any_changed_content_is_invalid)
{
    struct content verify = certificate_verify(32), empty = {.length = 0};

    expect(&empty, 0x0403, true, CONTENT_INVALID, "empty", 0);
    refuse_changed(&verify, 0x0403, 0, sizeof(verify_head));
    memcpy(verify.bytes + 73, "client", 6);
    expect(&verify, 0x0403, true, CONTENT_INVALID, "verify of a client", 0);
    verify = certificate_verify(48);
    refuse_changed(&verify, 0x0804, 64, sizeof(verify_head));
    for (size_t i = 0; i < ARRAY_LENGTH(older_schemes); i++)
        expect(&verify, older_schemes[i], true, CONTENT_INVALID, "scheme of TLS 1.2", i);
    for (size_t i = 0; i < ARRAY_LENGTH(curves); i++) {
        struct content exchange = key_exchange(&curves[i]);
        struct curve other = curves[i];

        refuse_changed(&exchange, 0x0403, DOWNGRADED, (size_t)POINT + (curves[i].form != 0));
        expect(&exchange, 0x0403, false, CONTENT_INVALID, "without TLS 1.2", i);
        expect(&exchange, 0x0401, false, CONTENT_INVALID, "without TLS 1.2", i);
        for (other.code = 0x00; other.code < 0x20; other.code++) {
            exchange = key_exchange(&other);
            if (other.code != curves[i].code)
                expect(&exchange, 0x0403, true, CONTENT_INVALID, "curve", other.code);
        }
    }
    assert_true(refused >= 200);
}

/* ASN.1 */

static const struct content none;

/* ELEMENT with TAG and its length. */
static struct content tagged(uint8_t tag, const struct content *element)
{
    struct content made = {.length = 0};

    append(&made, &tag, 1);
    if (element->length > 0x7f)
        append(&made, "\x81", 1);
    append(&made, &(uint8_t){(uint8_t)element->length}, 1);
    append(&made, element->bytes, element->length);
    return made;
}

static void append_element(struct content *content, uint8_t tag, const struct content *element)
{
    struct content made = tagged(tag, element);

    append(content, made.bytes, made.length);
}

enum { INTEGER = 2, BITS, OCTETS, OBJECT = 6, UTF8 = 12, UTC_TIME = 23, TIME, SEQUENCE = 48, SET };

/* A name of LENGTH bytes. */
static struct content name_of(const struct content *text)
{
    struct content pair = {.length = 0}, set;

    append(&pair, "\x06\x03\x55\x04\x03", 5);
    append_element(&pair, UTF8, text);
    set = tagged(SEQUENCE, &pair);
    set = tagged(SET, &set);
    return tagged(SEQUENCE, &set);
}

static struct content algorithm(void)
{
    struct content made = {.length = 0};

    append(&made, "\x30\x05\x06\x03\x2b\x65\x70", 7); /* Ed25519 */
    return made;
}

static struct content public_key(size_t bytes)
{
    struct content bits = {.length = 0}, made = algorithm();

    append_filled(&bits, 0, 1);
    append_filled(&bits, 0x5a, bytes);
    append_element(&made, BITS, &bits);
    return tagged(SEQUENCE, &made);
}

enum kind { CERTIFICATE, REQUEST, REVOCATIONS, RESPONSE, KINDS };

/* A body of KIND with NAME, and a field of LAST bytes at its end. */
static struct content body_of(enum kind kind, const struct content *text, size_t last)
{
    struct content made = {.length = 0}, name = name_of(text), key = public_key(last), times = none,
                   filled = none, algorithm_used = algorithm();

    append_filled(&filled, 0x5a, last);
    append(&made, "\x02\x01\x00", kind == RESPONSE ? 0 : 3);
    switch (kind) {
    case CERTIFICATE:
        append(&made, algorithm_used.bytes, algorithm_used.length);
        append(&made, name.bytes, name.length);
        append_element(&times, UTC_TIME, &none);
        append_element(&times, UTC_TIME, &none);
        append_element(&made, SEQUENCE, &times);
        append_element(&made, SEQUENCE, &none);
        append(&made, key.bytes, key.length);
        break;
    case REQUEST:
        append(&made, name.bytes, name.length);
        append(&made, key.bytes, key.length);
        append_element(&made, 0xa0, &none);
        break;
    case REVOCATIONS:
        append(&made, algorithm_used.bytes, algorithm_used.length);
        append(&made, name.bytes, name.length);
        append_element(&made, UTC_TIME, &filled);
        break;
    default:
        append_element(&made, 0xa1, &name);
        append_element(&made, TIME, &filled);
        append_element(&made, SEQUENCE, &none);
    }
    return tagged(SEQUENCE, &made);
}

static bool parses_as(enum kind kind, const struct content *content)
{
    const unsigned char *at = content->bytes;
    long length = (long)content->length;
    X509_CINF *certificate = NULL;
    X509_REQ_INFO *request = NULL;
    X509_CRL_INFO *revocations = NULL;
    OCSP_RESPDATA *response = NULL;
    bool parsed = kind == CERTIFICATE   ? d2i_X509_CINF(&certificate, &at, length) != NULL
                  : kind == REQUEST     ? d2i_X509_REQ_INFO(&request, &at, length) != NULL
                  : kind == REVOCATIONS ? d2i_X509_CRL_INFO(&revocations, &at, length) != NULL
                                        : d2i_OCSP_RESPDATA(&response, &at, length) != NULL;

    X509_CINF_free(certificate);
    X509_REQ_INFO_free(request);
    X509_CRL_INFO_free(revocations);
    OCSP_RESPDATA_free(response);
    return parsed && at == content->bytes + content->length;
}

/* The body of KIND that is a key exchange of CURVE, too: its name has the middle of this. */
static struct content forged_exchange(enum kind kind, const struct curve *curve)
{
    size_t length = (size_t)POINT + curve->point_bytes;
    struct content middle = key_exchange_middle(curve);

    for (size_t before = 0; before < DOWNGRADED; before++)
        for (size_t last = 0; last < length; last++) {
            struct content text = {.length = 0}, made;

            append_filled(&text, 'n', before);
            append(&text, middle.bytes, middle.length);
            append_filled(&text, 'n', 2);
            made = body_of(kind, &text, last);
            if (made.length == length &&
                memcmp(made.bytes + DOWNGRADED, middle.bytes, middle.length) == 0)
                return made;
        }
    fail_msg("no body of kind %d has a key exchange", (int)kind);
    return none;
}

TEST(key_exchange_that_may_be_asn1_is_ambiguous)
{
    for (size_t i = 0; i < ARRAY_LENGTH(curves); i++)
        for (int kind = 0; kind < KINDS; kind++) {
            struct content forged = forged_exchange((enum kind)kind, &curves[i]);

            /* OpenSSL 3.5 rejects empty times, and others leave no room for the key exchange. */
            if (!parses_as((enum kind)kind, &forged) &&
                (kind != CERTIFICATE || OPENSSL_VERSION_NUMBER < 0x30500000L))
                fail_msg("kind %d with curve %zu does not parse", kind, i);
            expect(&forged, 0x0403, true, CONTENT_AMBIGUOUS, "forged", (size_t)kind);
            expect(&forged, 0x0403, false, CONTENT_INVALID, "forged", (size_t)kind);
            forged.bytes[0] = SET;
            expect(&forged, 0x0403, true, CONTENT_AMBIGUOUS, "a set", (size_t)kind);
            forged.bytes[0] = OCTETS;
            expect(&forged, 0x0403, true, CONTENT_VALID, "no sequence", (size_t)kind);
            forged.bytes[0] = SEQUENCE;
            forged.bytes[forged.bytes[1] == 0x81 ? 2 : 1] ^= 1;
            expect(&forged, 0x0403, true, CONTENT_VALID, "another length", (size_t)kind);
        }
}

/* The random of a client begins with HEAD, up to an element with the rest. */
TEST(lengths_of_asn1_may_have_any_form)
{
    static const struct {
        const char *head;
        size_t bytes;
        enum signed_content expected;
    } examples[] = {
        {"\x30\x62\x02\x60", 4, CONTENT_AMBIGUOUS},
        {"\x30\x81\x61\x02\x5f", 5, CONTENT_AMBIGUOUS},
        {"\x30\x83\x00\x00\x5f\x02\x5d", 7, CONTENT_AMBIGUOUS},
        {"\x30\x80\x02\x60", 4, CONTENT_AMBIGUOUS},
        {"\x30\x62\x30\x80", 4, CONTENT_AMBIGUOUS},
        {"\x30\x62\xbf\x81\x00\x5e", 6, CONTENT_AMBIGUOUS},
        {"\x30\x62\x02\x01\x00\x04\x5d", 7, CONTENT_AMBIGUOUS},
        {"\x30\x62\x02\x00\x02\x84\x00\x00\x00\x5a", 10, CONTENT_AMBIGUOUS},
        {"\x30\x62\x02\x5f", 4, CONTENT_VALID},
        {"\x30\x62\x02\x61", 4, CONTENT_VALID},
        {"\x30\x62\x04\x60", 4, CONTENT_VALID},
        {"\x30\x62\x41\x60", 4, CONTENT_VALID},
        {"\x30\x00\x02\x60", 4, CONTENT_VALID},
        {"\x30\x62\x02\x01\x00\x04\x5e", 7, CONTENT_VALID},
        {"\x30\x62\x02\x89\x01\x00\x00\x00\x00\x00\x00\x00\x5a", 13, CONTENT_VALID},
        {"\x30\x62\x02\xff\x5a", 5, CONTENT_VALID},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(examples); i++) {
        struct content exchange = key_exchange(&curves[0]);

        memcpy(exchange.bytes, examples[i].head, examples[i].bytes);
        expect(&exchange, 0x0403, true, examples[i].expected, "example", i);
    }
}
