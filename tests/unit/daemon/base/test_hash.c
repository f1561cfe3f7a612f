/* SipHash with 128 bits compared with OpenSSL's. */
#include "daemon/base/hash.h"

#include "tests/test.h"

#include <openssl/evp.h>
#include <string.h>

TEST(hash_equals_that_of_openssl)
{
    unsigned char key[16], text[80], expected[16];
    struct siphash_key own;
    struct siphash hash;
    size_t length;

    for (size_t i = 0; i < sizeof(key); i++)
        key[i] = (unsigned char)i;
    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = (unsigned char)(i * 7);
    memcpy(&own, key, sizeof(own));
    for (size_t i = 1; i <= sizeof(text); i++) {
        assert_non_null(EVP_Q_mac(NULL, "SIPHASH", NULL, NULL, NULL, key, sizeof(key), text, i,
                                  expected, sizeof(expected), &length));
        assert_int_equal(length, sizeof(expected));
        hash = siphash_of(&own, text, i);
        assert_memory_equal(&hash, expected, sizeof(expected));
    }
}

/* The first vector of the authors: the empty text. */
TEST(hash_of_nothing_is_known)
{
    static const unsigned char expected[16] = {0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6,
                                               0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93};
    const struct siphash_key key = {{UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)}};
    struct siphash hash = siphash_of(&key, "", 0);

    assert_memory_equal(&hash, expected, sizeof(expected));
}
