/* SHA-256 of the test vectors of FIPS 180-4. */
#include "common/macros.h"
#include "loadgen/base/sha256.h"
#include "tests/test.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *text;
    size_t times;
    const char *digest;
} cases[] = {
    {"", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    {"a", 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
};

TEST(digest_matches_fips_vectors)
{
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct sha256 sha;
        uint8_t digest[SHA256_BYTES];
        char text[2 * SHA256_BYTES + 1];

        assert_true(sha256_open(&sha));
        sha256_begin(&sha);
        for (size_t k = 0; k < cases[i].times; k++)
            sha256_add(&sha, cases[i].text, strlen(cases[i].text));
        sha256_end(&sha, digest);
        sha256_close(&sha);
        for (size_t k = 0; k < SHA256_BYTES; k++)
            snprintf(text + 2 * k, 3, "%02x", digest[k]);
        assert_string_equal(text, cases[i].digest);
    }
}
