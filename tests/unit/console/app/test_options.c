/* The defaults that depend on the environment. */
#include "console/app/options.h"

#include "tests/test.h"

#include <stdlib.h>

/* A terminal behind ssh gets few frames, and no faster ones in the view threads. */
TEST(remote_terminal_gets_fewer_frames)
{
    struct options options;

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
