/* Loading a configuration from a string, with what is said of it, for the tests of the configuration. */
#ifndef TESTS_UNIT_CONFIG_LOADING_H
#define TESTS_UNIT_CONFIG_LOADING_H

#include "daemon/config/config.h"
#include "daemon/config/load.h"

#include <stdlib.h>
#include <string.h>

/* The folder "/" serves as a root that is there. */
#define ROOT "server.root=/"

struct loaded {
    struct config config;
    char *messages;
    int errors;
};

static inline void load_bytes(struct loaded *loaded, const char *text, size_t length,
                              const char *const *overrides, size_t count)
{
    size_t message_length;
    FILE *out = open_memstream(&loaded->messages, &message_length);

    assert_non_null(out);
    loaded->errors =
        config_load_text(&loaded->config, "/etc/t.ini", text, length, overrides, count, out);
    assert_int_equal(fclose(out), 0);
}

static inline void load(struct loaded *loaded, const char *text, const char *override)
{
    const char *const overrides[] = {ROOT, override};

    load_bytes(loaded, text, strlen(text), overrides, override == NULL ? 1 : 2);
}

static inline void load_file(struct loaded *loaded, const char *file, const char *const *overrides,
                             size_t count_of_overrides)
{
    size_t length;
    FILE *out = open_memstream(&loaded->messages, &length);

    loaded->errors = config_load(&loaded->config, file, overrides, count_of_overrides, out);
    assert_int_equal(fclose(out), 0);
}

static inline void release(struct loaded *loaded)
{
    if (loaded->errors == 0)
        config_free(&loaded->config);
    free(loaded->messages);
}

#endif
