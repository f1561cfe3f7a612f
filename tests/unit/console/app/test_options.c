/* The defaults that depend on the environment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "console/app/options.h"

#include <stdlib.h>

/* A terminal behind ssh gets few frames, and no faster ones in the view threads. */
static void remote_terminal_gets_fewer_frames(void **state)
{
    struct options options;

    (void)state;
    unsetenv("SSH_CONNECTION");
    options_init(&options);
    assert_int_equal(options.rate_hz, 10);
    assert_false(options.remote);
    setenv("SSH_CONNECTION", "192.0.2.7 50000 192.0.2.1 22", 1);
    options_init(&options);
    assert_int_equal(options.rate_hz, 2);
    assert_true(options.remote);
    assert_int_equal(option_table[OPTION_fps].accept("30", &options), OPTIONS_RUN);
    assert_int_equal(options.rate_hz, 30); /* the user's choice is obeyed */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(remote_terminal_gets_fewer_frames),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
