/* Which signatures the keys process makes, and of what. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/macros.h"
#include "daemon/tls/signature_scheme.h"

#include <string.h>

static void schemes_are_those_of_rfc_8446(void **state)
{
    static const struct {
        const char *type, *digest;
        bool pss;
        uint32_t code; /* 0: none */
    } examples[] = {
        {"EC", "SHA256", false, 0x0403},   {"EC", "SHA2-256", false, 0x0403},
        {"EC", "sha384", false, 0x0503},   {"EC", "SHA2-512", false, 0x0603},
        {"RSA", "SHA256", true, 0x0804},   {"RSA", "SHA256", false, 0x0401},
        {"RSA", "SHA2-512", true, 0x0806}, {"ED25519", "", false, 0x0807},
        {"ED25519", NULL, false, 0x0807},  {"ED25519", "SHA256", false, 0},
        {"EC", "SHA256", true, 0},         {"EC", "SHA1", false, 0},
        {"RSA", "MD5", false, 0},          {"RSA", "SHA1", true, 0},
        {"RSA", NULL, false, 0},           {"EC", "", false, 0},
        {"DSA", "SHA256", false, 0},       {"RSA", "SHA512-256", false, 0},
        {"RSA", "SHA3-256", false, 0},     {"RSA", "SHA", false, 0},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(examples); i++) {
        const struct signature_scheme *found =
            signature_scheme_find(examples[i].type, examples[i].digest, examples[i].pss);

        if ((found != NULL ? found->code : 0) != examples[i].code)
            fail_msg("%s %s: 0x%04x", examples[i].type,
                     examples[i].digest != NULL ? examples[i].digest : "-",
                     found != NULL ? found->code : 0);
        if (found != NULL)
            assert_ptr_equal(signature_scheme_get(found->code), found);
    }
    assert_null(signature_scheme_get(0));
    assert_null(signature_scheme_get(0x0203)); /* ecdsa_sha1 */
}

enum { SPACES = 64, RANDOMS = 64 };

static size_t write_certificate_verify(uint8_t *bytes, const char *role, size_t hash)
{
    memset(bytes, ' ', SPACES);
    memcpy(bytes + SPACES, "TLS 1.3, ", 9);
    memcpy(bytes + SPACES + 9, role, 6);
    memcpy(bytes + SPACES + 15, " CertificateVerify", 19);
    memset(bytes + SPACES + 34, 0xab, hash);
    return SPACES + 34 + hash;
}

static void certificate_verify_of_a_server_is_of_a_handshake(void **state)
{
    uint8_t bytes[256];
    size_t length = write_certificate_verify(bytes, "server", 32);

    (void)state;
    assert_true(signature_is_of_handshake(bytes, length));
    assert_false(signature_is_of_handshake(bytes, length - 1));
    assert_false(signature_is_of_handshake(bytes, length + 1));
    assert_false(signature_is_of_handshake(bytes, 0));
    for (size_t i = 0; i < SPACES + 34; i++) {
        bytes[i] ^= 1;
        assert_false(signature_is_of_handshake(bytes, length));
        bytes[i] ^= 1;
    }
    assert_true(signature_is_of_handshake(bytes, write_certificate_verify(bytes, "server", 48)));
    assert_false(signature_is_of_handshake(bytes, write_certificate_verify(bytes, "server", 64)));
    assert_false(signature_is_of_handshake(bytes, write_certificate_verify(bytes, "client", 32)));
}

static void key_exchange_on_a_named_curve_is_of_a_handshake(void **state)
{
    static const struct {
        uint8_t kind, point;
        int more; /* bytes after the point */
        bool valid;
    } examples[] = {{3, 32, 0, true},   {3, 65, 0, true}, {3, 97, 0, true},  {3, 32, 1, false},
                    {3, 32, -1, false}, {3, 0, 0, false}, {1, 32, 0, false}, {2, 32, 0, false}};
    uint8_t bytes[256] = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(examples); i++) {
        bytes[RANDOMS] = examples[i].kind;
        bytes[RANDOMS + 3] = examples[i].point;
        assert_int_equal(signature_is_of_handshake(
                             bytes, (size_t)(RANDOMS + 4 + examples[i].point + examples[i].more)),
                         examples[i].valid);
    }
    for (size_t length = 0; length <= RANDOMS + 4; length++)
        assert_false(signature_is_of_handshake(bytes, length));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schemes_are_those_of_rfc_8446),
        cmocka_unit_test(certificate_verify_of_a_server_is_of_a_handshake),
        cmocka_unit_test(key_exchange_on_a_named_curve_is_of_a_handshake),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
