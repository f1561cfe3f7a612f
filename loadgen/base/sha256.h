/* SHA-256 (FIPS 180-4). Pure. */
#ifndef LOADGEN_SHA256_H
#define LOADGEN_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { SHA256_BYTES = 32, SHA256_BLOCK = 64 };

struct sha256 {
    uint32_t state[8];
    uint64_t length;             /* bytes so far */
    uint8_t block[SHA256_BLOCK]; /* the incomplete last block */
};

void sha256_begin(struct sha256 *sha);
void sha256_add(struct sha256 *sha, const void *bytes, size_t length);

/* Writes the digest. Call sha256_begin() before the next use. */
void sha256_end(struct sha256 *sha, uint8_t digest[SHA256_BYTES]);

#endif
