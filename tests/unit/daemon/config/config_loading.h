/* Loads a configuration from a string and keeps its messages; for the tests of config/. */
#ifndef TESTS_UNIT_CONFIG_LOADING_H
#define TESTS_UNIT_CONFIG_LOADING_H

#include "daemon/config/load.h"
#include "daemon/sandbox/sandbox.h"
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>

/* A root that exists. */
#define ROOT "server.root=/"

struct loaded {
    struct config config;
    char *messages;
    int errors;
};

static inline void load_sources(struct loaded *loaded, const struct config_sources *sources)
{
    size_t length;
    FILE *out = open_memstream(&loaded->messages, &length);

    assert_non_null(out);
    loaded->errors = config_load(&loaded->config, sources, out);
    assert_int_equal(fclose(out), 0);
}

static inline void load_bytes(struct loaded *loaded, const char *text, size_t length,
                              const char *const *overrides, size_t count)
{
    load_sources(loaded, &(struct config_sources){.file = "/etc/t.ini",
                                                  .text = text,
                                                  .length = length,
                                                  .overrides = overrides,
                                                  .override_count = count,
                                                  .system = &sandbox_config_system});
}

static inline void load(struct loaded *loaded, const char *text, const char *override)
{
    const char *const overrides[] = {ROOT, override};

    load_bytes(loaded, text, strlen(text), overrides, override == NULL ? 1 : 2);
}

/* Loads TEXT as the content of FILE. */
static inline void load_from(struct loaded *loaded, const char *file, const char *text)
{
    static const char *const root[] = {ROOT};

    load_sources(loaded, &(struct config_sources){.file = file,
                                                  .text = text,
                                                  .length = strlen(text),
                                                  .overrides = root,
                                                  .override_count = 1,
                                                  .system = &sandbox_config_system});
}

static inline void load_file(struct loaded *loaded, const char *file, const char *const *overrides,
                             size_t count_of_overrides)
{
    load_sources(loaded, &(struct config_sources){.file = file,
                                                  .overrides = overrides,
                                                  .override_count = count_of_overrides,
                                                  .system = &sandbox_config_system});
}

/* The caller frees it. */
static inline char *print_config(const struct config *config, bool origins)
{
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    assert_non_null(out);
    config_print(config, origins, out);
    assert_int_equal(fclose(out), 0);
    return text;
}

static inline void release(struct loaded *loaded)
{
    if (loaded->errors == 0)
        config_free(&loaded->config);
    free(loaded->messages);
}

#endif
