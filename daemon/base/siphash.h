/*
 * SipHash-2-4 with 128 bits of output: a keyed hash (PRF). Without the key nobody can find a text
 * for a hash, or two texts with one. Pure.
 */
#ifndef DAEMON_BASE_SIPHASH_H
#define DAEMON_BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

struct siphash_key {
    uint64_t word[2];
};

struct siphash {
    uint64_t word[2];
};

struct siphash siphash_of(const struct siphash_key *key, const void *bytes, size_t length);

#endif
