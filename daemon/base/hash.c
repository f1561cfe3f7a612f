#include "daemon/base/hash.h"

#include <endian.h>
#include <string.h>

static uint64_t rotate(uint64_t word, int bits)
{
    return word << bits | word >> (64 - bits);
}

static void mix(uint64_t v[4], int rounds)
{
    while (rounds-- > 0) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = rotate(v[1], 13) ^ v[0];
        v[3] = rotate(v[3], 16) ^ v[2];
        v[0] = rotate(v[0], 32);
        v[2] += v[1];
        v[0] += v[3];
        v[1] = rotate(v[1], 17) ^ v[2];
        v[3] = rotate(v[3], 21) ^ v[0];
        v[2] = rotate(v[2], 32);
    }
}

static void absorb(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    mix(v, 2);
    v[0] ^= word;
}

struct siphash siphash_of(const struct siphash_key *key, const void *bytes, size_t length)
{
    const char *at = bytes;
    uint64_t v[4] = {
        key->word[0] ^ UINT64_C(0x736f6d6570736575),
        key->word[1] ^ UINT64_C(0x646f72616e646f6d) ^ 0xee,
        key->word[0] ^ UINT64_C(0x6c7967656e657261),
        key->word[1] ^ UINT64_C(0x7465646279746573),
    };
    uint64_t last = (uint64_t)length << 56, word;
    struct siphash hash;

    for (; length >= sizeof(word); at += sizeof(word), length -= sizeof(word)) {
        memcpy(&word, at, sizeof(word));
        absorb(v, le64toh(word));
    }
    for (size_t i = 0; i < length; i++)
        last |= (uint64_t)(unsigned char)at[i] << (8 * i);
    absorb(v, last);
    v[2] ^= 0xee;
    mix(v, 4);
    hash.word[0] = v[0] ^ v[1] ^ v[2] ^ v[3];
    v[1] ^= 0xdd;
    mix(v, 4);
    hash.word[1] = v[0] ^ v[1] ^ v[2] ^ v[3];
    return hash;
}
