/* Reloads that fail for lack of memory, and those of only the certificates. */
#include "tests/unit/daemon/master/scene.h"
#include "tests/unit/wrapped.h"

#include <stdio.h>
#include <stdlib.h>

static bool calloc_fails;
static FILE *memory_stream; /* open one */

void *__wrap_calloc(size_t count, size_t size)
{
    return calloc_fails ? NULL : __real_calloc(count, size);
}

FILE *__wrap_open_memstream(char **text, size_t *length)
{
    memory_stream = __real_open_memstream(text, length);
    return memory_stream;
}

int __wrap_fclose(FILE *file)
{
    if (file == memory_stream)
        memory_stream = NULL;
    return __real_fclose(file);
}

const struct test_fixture test_fixture = {scene_begin_serving, scene_end};

TEST(reload_without_memory_leaves_no_stream)
{
    calloc_fails = true;
    assert_int_equal(reload_request(&master), 0);
    calloc_fails = false;
    assert_null(memory_stream);
    assert_int_equal(master.life.state, LIFE_serving);
}

TEST(renewals_wait_for_another_change)
{
    for (int other = 0; other < LIFE_STATES; other++) {
        if (other == LIFE_serving)
            continue;
        master.life.state = (enum life_state)other;
        assert_false(reload_renew(&master, RENEWAL_ROOTS));
        assert_false(certificates_renew(&master));
        assert_int_equal(master.life.state, other);
    }
    assert_int_equal(master.reload.started, 0);
    master.life.state = LIFE_serving;
    master.reload.waiting = true;
    assert_false(reload_renew(&master, RENEWAL_ROOTS));
    master.reload.waiting = false;
    assert_true(reload_renew(&master, RENEWAL_ROOTS));
    assert_int_equal(master.reload.started, 1);
    assert_int_equal(master.life.state, LIFE_reloading);
    assert_ptr_equal(master.reload.previous, master.config);
    assert_int_equal(master.reload.renewal, RENEWAL_ROOTS);
}
