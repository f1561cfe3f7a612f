/* Whether a body is the one that was expected: its size, its SHA-256. One thread at a time. */
#ifndef LOADGEN_BODY_CHECK_H
#define LOADGEN_BODY_CHECK_H

#include "loadgen/base/sha256.h"
#include "loadgen/plan/plan.h"

#include <string.h>

struct body_check {
    struct sha256 sha;
};

static inline void body_check_begin(struct body_check *check, const struct plan_checks *checks)
{
    if (checks->digest_known)
        sha256_begin(&check->sha);
}

/* The next bytes, as they came. */
static inline void body_check_add(struct body_check *check, const struct plan_checks *checks,
                                  const char *bytes, size_t length)
{
    if (checks->digest_known)
        sha256_add(&check->sha, bytes, length);
}

/* Whether a body of LENGTH bytes is not what was expected. */
static inline bool body_check_is_bad(struct body_check *check, const struct plan_checks *checks,
                                     uint64_t length)
{
    uint8_t digest[SHA256_BYTES];

    if (checks->size_known && length != checks->size)
        return true;
    if (!checks->digest_known)
        return false;
    sha256_end(&check->sha, digest);
    return memcmp(digest, checks->digest, sizeof(digest)) != 0;
}

#endif
