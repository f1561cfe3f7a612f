/* What a request of ACME contains: a JSON Web Signature. */
#ifndef TESTS_SIGNED_REQUEST_H
#define TESTS_SIGNED_REQUEST_H

#include "tests/test.h"

#include <jansson.h>
#include <openssl/evp.h>
#include <stdio.h>

/* The JSON in the base64url text of member NAME of JWS; NULL: it is empty. */
static inline json_t *signed_request_member(const json_t *jws, const char *name)
{
    const char *member = json_string_value(json_object_get(jws, name));
    unsigned char bytes[4096] = "";
    char text[4096];
    size_t length = (size_t)snprintf(text, sizeof(text) - 4, "%s", member != NULL ? member : "");

    for (char *at = text; *at != '\0'; at++)
        *at = (char)(*at == '-' ? '+' : *at == '_' ? '/' : *at);
    while (length % 4 != 0)
        text[length++] = '=';
    assert_true(EVP_DecodeBlock(bytes, (unsigned char *)text, (int)length) >= 0);
    return json_loads((char *)bytes, 0, NULL);
}

static inline json_t *signed_request_payload(const char *body)
{
    json_t *jws = json_loads(body, 0, NULL), *payload;

    assert_non_null(jws);
    payload = signed_request_member(jws, "payload");
    json_decref(jws);
    return payload;
}

#endif
