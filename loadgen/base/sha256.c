#include "loadgen/base/sha256.h"

bool sha256_open(struct sha256 *sha)
{
    sha->context = EVP_MD_CTX_new();
    return sha->context != NULL && EVP_DigestInit_ex(sha->context, EVP_sha256(), NULL) == 1;
}

void sha256_close(struct sha256 *sha)
{
    EVP_MD_CTX_free(sha->context);
    sha->context = NULL;
}

/* Without a name, libcrypto does not search for the algorithm again. */
void sha256_begin(struct sha256 *sha)
{
    EVP_DigestInit_ex(sha->context, NULL, NULL);
}

void sha256_add(struct sha256 *sha, const void *bytes, size_t length)
{
    EVP_DigestUpdate(sha->context, bytes, length);
}

void sha256_end(struct sha256 *sha, uint8_t digest[SHA256_BYTES])
{
    EVP_DigestFinal_ex(sha->context, digest, NULL);
}
