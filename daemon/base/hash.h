/*
 * A fast hash of short texts, for tables in memory. Not stable across versions, not cryptographic.
 * Pass a random seed so that clients cannot choose colliding keys. Pure.
 */
#ifndef DAEMON_HASH_H
#define DAEMON_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* 64 x 64 -> 128 bits, folded: the mixing step of wyhash. */
static inline uint64_t hash_mix(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t hash_bytes(const char *text, size_t length, uint64_t seed)
{
    uint64_t hash = seed ^ (length * UINT64_C(0x9e3779b97f4a7c15));
    uint64_t word = 0;

    for (; length > 8; text += 8, length -= 8) {
        memcpy(&word, text, 8);
        hash = hash_mix(hash ^ word, UINT64_C(0xa0761d6478bd642f));
    }
    word = 0;
    for (size_t i = 0; i < length; i++)
        word |= (uint64_t)(unsigned char)text[i] << (8 * i);
    return hash_mix(hash ^ word, UINT64_C(0xe7037ed1a0b428db));
}

/* The seed for the paths of SITE, so that the same path of two sites has two hashes. */
static inline uint64_t hash_of_site(uint64_t seed, uint32_t site)
{
    return seed ^ (site * UINT64_C(0x9e3779b97f4a7c15));
}

/*
 * SipHash-2-4 with 128 bits of output: a keyed hash (PRF). Without the key nobody can find a text
 * for a hash, or two texts with one. Pure.
 */

struct siphash_key {
    uint64_t word[2];
};

struct siphash {
    uint64_t word[2];
};

struct siphash siphash_of(const struct siphash_key *key, const void *bytes, size_t length);

#endif
