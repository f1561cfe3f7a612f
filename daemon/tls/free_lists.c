#include "daemon/tls/free_lists.h"

#include "common/block_lists.h"

#include <openssl/crypto.h>

/* The functions that OpenSSL calls, see CRYPTO_set_mem_functions(3). */

static void *take_block(size_t length, const char *file, int line)
{
    (void)file, (void)line;
    return length > 0 ? block_lists_take(length) : NULL;
}

static void give_block(void *memory, const char *file, int line)
{
    (void)file, (void)line;
    block_lists_give(memory);
}

static void *resize_block(void *memory, size_t length, const char *file, int line)
{
    (void)file, (void)line;
    return block_lists_resize(memory, length);
}

void free_lists_use(void)
{
    if (block_lists_begin())
        CRYPTO_set_mem_functions(take_block, resize_block, give_block);
}
