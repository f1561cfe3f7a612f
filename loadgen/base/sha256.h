/* SHA-256 (FIPS 180-4) of libcrypto. One thread at a time. */
#ifndef LOADGEN_SHA256_H
#define LOADGEN_SHA256_H

#include <openssl/evp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SHA256_BYTES = 32 };

/* Zeroed: not open. */
struct sha256 {
    EVP_MD_CTX *context;
};

/* Returns false without memory. In any case, the caller calls sha256_close(). */
bool sha256_open(struct sha256 *sha);
void sha256_close(struct sha256 *sha);

/* For each digest: begin, add any number of times, end, which writes it. */
void sha256_begin(struct sha256 *sha);
void sha256_add(struct sha256 *sha, const void *bytes, size_t length);
void sha256_end(struct sha256 *sha, uint8_t digest[SHA256_BYTES]);

#endif
