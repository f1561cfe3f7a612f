/* Signed requests, keys and certificates of ACME, and what an authority may answer. */
#include "common/macros.h"
#include "daemon/acme/authority.h"
#include "daemon/acme/credentials.h"
#include "tests/test.h"
#include "tests/unit/daemon/acme/signed_request.h"

#include <stdlib.h>
#include <string.h>

/* The key of RFC 7515 appendix A.3, as PEM. Its thumbprint (RFC 7638) was computed with Python. */
static const char key_text[] = "-----BEGIN PRIVATE KEY-----\n"
                               "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgjpsQnnGQmL+YBIff\n"
                               "H1136cspYG6+0iY7X1fCE9+E9LKhRANCAAR/zc4ncPbEXUGDy+5v20t7WAczNXvp\n"
                               "7xO6z248e9FURcfxRM0bvZt+hyzf7bnuufSzaV1uqQskrYpGIyiFiOWt\n"
                               "-----END PRIVATE KEY-----\n";
static const char key_x[] = "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU";
static const char key_thumbprint[] = "oKIywvGUpTVTyxMQ3bwIIeQUudfr_CkLMjCE19ECD-U";

TEST(key_has_the_thumbprint_of_its_members)
{
    EVP_PKEY *key = credentials_key_read(key_text);
    char thumbprint[JWS_THUMBPRINT_BYTES];
    json_t *json = jws_public_key(key);
    char *text = credentials_key_text(key);

    assert_int_equal(jws_thumbprint(key, thumbprint), 0);
    assert_string_equal(thumbprint, key_thumbprint);
    assert_string_equal(authority_text(json, "x"), key_x);
    assert_string_equal(text, key_text);
    free(text);
    json_decref(json);
    EVP_PKEY_free(key);
}

TEST(rsa_key_is_none_of_an_account)
{
    EVP_PKEY *key = credentials_new_key(ACME_KEY_RSA2048);
    char thumbprint[JWS_THUMBPRINT_BYTES];

    assert_int_equal(jws_thumbprint(key, thumbprint), -1);
    EVP_PKEY_free(key);
}

TEST(request_has_three_parts)
{
    EVP_PKEY *key = credentials_key_read(key_text);
    const struct jws_header known = {"https://a/b", "nonce", "https://a/account"};
    const struct jws_header fresh = {"https://a/b", "nonce", NULL};
    char *body = jws_sign(key, &known, NULL), *other = jws_sign(key, &fresh, NULL);
    json_t *json = json_loads(body, 0, NULL);

    assert_string_equal(authority_text(json, "payload"), "");
    assert_int_equal(strlen(authority_text(json, "signature")), 86);
    assert_true(strlen(body) < strlen(other)); /* which has the public key */
    json_decref(json);
    free(body);
    free(other);
    EVP_PKEY_free(key);
}

TEST(inner_request_has_no_nonce)
{
    EVP_PKEY *key = credentials_key_read(key_text);
    const struct jws_header inner = {.url = "https://a/b"};
    json_t *payload = json_pack("{s:s}", "account", "https://a/account"), *expected;
    char *body = jws_sign(key, &inner, payload);
    json_t *json = json_loads(body, 0, NULL), *header = signed_request_member(json, "protected");

    expected = json_pack("{s:s, s:s, s:o}", "alg", "ES256", "url", "https://a/b", "jwk",
                         jws_public_key(key));
    assert_true(json_equal(header, expected));
    assert_null(strchr(authority_text(json, "protected"), '='));
    json_decref(expected);
    json_decref(header);
    json_decref(payload);
    json_decref(json);
    free(body);
    EVP_PKEY_free(key);
}

TEST(unusable_certificate_is_refused)
{
    static const char *const examples[] = {
        "", "nonsense", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", key_text};
    struct credentials_validity validity;
    char why[128];

    for (size_t i = 0; i < ARRAY_LENGTH(examples); i++) {
        assert_int_equal(
            credentials_check(examples[i], NULL, "a.b", 0, &validity, why, sizeof(why)), -1);
        assert_non_null(strstr(why, "not in PEM format"));
        assert_null(credentials_clean(examples[i]));
    }
}

TEST(request_for_a_certificate_is_made)
{
    EVP_PKEY *key = credentials_key_read(key_text);
    char *request = credentials_request(key, "www.test-site.org");

    assert_non_null(request);
    assert_null(strpbrk(request, "+/="));
    free(request);
    EVP_PKEY_free(key);
    assert_null(credentials_key_read("nonsense"));
}
