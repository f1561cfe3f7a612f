/* Lists of freed blocks: what a thread frees is what it allocates next. */
#include "common/block_lists.h"

#include "tests/test.h"
#include "tests/unit/wrapped.h"

#include <malloc.h>
#include <pthread.h>
#include <string.h>

enum { KEPT_BYTES_MAX = 1024 * 1024, LARGE = 16 * 1024, LARGEST = 22152, BLOCKS = 200 };

static bool lists_are_used;
static _Thread_local int allocated, freed; /* calls of the C library */

void *__wrap_malloc(size_t size)
{
    allocated++;
    return __real_malloc(size);
}

void __wrap_free(void *memory)
{
    freed += memory != NULL;
    __real_free(memory);
}

static int use_lists(void **state)
{
    (void)state;
    lists_are_used = block_lists_begin();
    return 0;
}

const struct test_fixture test_group_fixture = {use_lists, NULL};

/* With AddressSanitizer there are no lists. */
static void skip_without_lists(void)
{
    if (!lists_are_used)
        skip();
}

TEST(next_allocation_of_a_size_is_the_block_freed_last)
{
    static const size_t lengths[] = {1, 24, 25, 40, 41, 1032, 1033, 1096, 1097, 16712, LARGEST};

    skip_without_lists();
    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
        size_t length = lengths[i];
        void *first = block_lists_take(length), *second = block_lists_take(length);
        int before;

        assert_true(malloc_usable_size(first) >= length);
        assert_int_equal((uintptr_t)first % 16, 0);
        memset(first, 1, length);
        block_lists_give(second);
        block_lists_give(first);
        before = allocated;
        assert_ptr_equal(block_lists_take(length), first);
        assert_ptr_equal(block_lists_take(length), second);
        assert_int_equal(allocated, before);
        block_lists_give(first);
        block_lists_give(second);
    }
}

TEST(block_that_grew_serves_only_what_fits)
{
    skip_without_lists();
    for (size_t length = 1; length < 30000; length = length * 3 / 2 + 1) {
        unsigned char *memory = block_lists_take(10);

        memory = block_lists_resize(memory, length);
        memory[length - 1] = 1;
        block_lists_give(memory);
        memory = block_lists_take(length);
        assert_true(malloc_usable_size(memory) >= length);
        block_lists_give(memory);
    }
}

TEST(resize_to_no_bytes_frees_the_block)
{
    void *block;

    skip_without_lists();
    block = block_lists_take(10);
    assert_null(block_lists_resize(block, 0));
    assert_ptr_equal(block_lists_take(10), block);
    block_lists_give(block);
    block_lists_give(NULL);
}

TEST(block_of_many_elements_is_zeroed)
{
    unsigned char *block;

    skip_without_lists();
    block = block_lists_take(40);
    memset(block, 1, 40);
    block_lists_give(block);
    block = block_lists_take_zeroed(8, 5);
    for (int i = 0; i < 40; i++)
        assert_int_equal(block[i], 0);
    block_lists_give(block);
    assert_null(block_lists_take_zeroed(SIZE_MAX / 2, 3));
    block = block_lists_resize(NULL, 1); /* as a new one */
    block_lists_give(block_lists_resize(block, 30000));
}

TEST(thread_keeps_a_limited_number_of_bytes)
{
    void *block[BLOCKS];
    int before;

    skip_without_lists();
    for (int i = 0; i < BLOCKS; i++)
        block[i] = block_lists_take(LARGE);
    before = freed;
    for (int i = 0; i < BLOCKS; i++)
        block_lists_give(block[i]);
    assert_true(freed - before >= BLOCKS - KEPT_BYTES_MAX / LARGE);
    before = freed;
    block_lists_give(block_lists_take(100)); /* the lists begin again */
    block_lists_give(block_lists_take(100));
    assert_int_equal(freed, before);
}

struct passed {
    void *block[BLOCKS];
    int freed; /* by the thread, up to its end */
};

static pthread_key_t last_words;

static void note_freed(void *argument)
{
    struct passed *passed = argument;

    if (passed->freed++ == 0) /* once more, after the other destructors */
        pthread_setspecific(last_words, passed);
    else
        passed->freed = freed;
}

static void *free_passed(void *argument)
{
    struct passed *passed = argument;

    pthread_setspecific(last_words, passed);
    for (int i = 0; i < BLOCKS; i++)
        block_lists_give(passed->block[i]);
    assert_int_equal(freed, 0);
    return NULL;
}

TEST(blocks_kept_by_a_thread_end_with_it)
{
    static struct passed passed;
    pthread_t thread;

    skip_without_lists();
    assert_int_equal(pthread_key_create(&last_words, note_freed), 0);
    for (int i = 0; i < BLOCKS; i++)
        passed.block[i] = block_lists_take(100 + (size_t)i);
    assert_int_equal(pthread_create(&thread, NULL, free_passed, &passed), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(passed.freed, BLOCKS);
}
