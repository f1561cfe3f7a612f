/* Reloads that fail for lack of memory, and those of only the certificates. */
#include "daemon/master/reload.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

/* Replaced by the linker: see wrap() in tests/unit/CMakeLists.txt. The labels are its names. */
void *wrapped_calloc(size_t count, size_t size) __asm__("__wrap_calloc");
void *real_calloc(size_t count, size_t size) __asm__("__real_calloc");
FILE *wrapped_open_memstream(char **text, size_t *length) __asm__("__wrap_open_memstream");
FILE *real_open_memstream(char **text, size_t *length) __asm__("__real_open_memstream");
int wrapped_fclose(FILE *stream) __asm__("__wrap_fclose");
int real_fclose(FILE *stream) __asm__("__real_fclose");

static bool calloc_fails;
static FILE *memory_stream; /* open one */

void *wrapped_calloc(size_t count, size_t size)
{
    return calloc_fails ? NULL : real_calloc(count, size);
}

FILE *wrapped_open_memstream(char **text, size_t *length)
{
    memory_stream = real_open_memstream(text, length);
    return memory_stream;
}

int wrapped_fclose(FILE *stream)
{
    if (stream == memory_stream)
        memory_stream = NULL;
    return real_fclose(stream);
}

static int start_reload(void *reload)
{
    return reload_start(reload);
}

static void reload_without_memory_leaves_no_stream(void **state)
{
    struct server server = {.base = event_base_new()};
    struct lifecycle life;
    const struct options options = {.file = "/dev/null"};
    struct reload *reload =
        reload_new(&(struct reload_setup){.server = &server, .life = &life, .options = &options});
    life_function *actions[LIFE_ACTIONS] = {[ACTION_start_reload] = start_reload};

    (void)state;
    assert_non_null(reload);
    assert_int_equal(lifecycle_init(&life, server.base, actions, reload), 0);
    calloc_fails = true;
    assert_int_equal(reload_request(reload), 0);
    calloc_fails = false;
    assert_null(memory_stream);
    assert_int_equal(life.state, LIFE_starting);
    reload_free(reload);
    lifecycle_free(&life);
    event_base_free(server.base);
}

static unsigned starts;

static int count_start(void *reload)
{
    (void)reload;
    starts++;
    return 0;
}

static void certificates_wait_for_another_change(void **state)
{
    struct server server = {.base = event_base_new()};
    struct lifecycle life;
    struct reload *reload = reload_new(&(struct reload_setup){.server = &server, .life = &life});
    life_function *actions[LIFE_ACTIONS] = {[ACTION_start_reload] = count_start};

    (void)state;
    assert_non_null(reload);
    assert_int_equal(lifecycle_init(&life, server.base, actions, reload), 0);
    starts = 0;
    for (unsigned other = 0; other < LIFE_STATES; other++) {
        if (other == LIFE_serving)
            continue;
        life.state = other;
        assert_false(reload_renew_certificates(reload));
        assert_int_equal(life.state, other);
    }
    assert_int_equal(starts, 0);
    life.state = LIFE_serving;
    assert_true(reload_renew_certificates(reload));
    assert_int_equal(starts, 1);
    reload_free(reload);
    lifecycle_free(&life);
    event_base_free(server.base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reload_without_memory_leaves_no_stream),
        cmocka_unit_test(certificates_wait_for_another_change),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
