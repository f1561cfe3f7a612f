/* The configuration reader: any text loads or yields messages; a loaded configuration prints to a
 * text that loads to the same configuration. */
#include "daemon/config/config.h"
#include "daemon/config/internal.h"
#include "daemon/config/load.h"
#include "daemon/sandbox/sandbox.h"
#include "tests/fuzz/fuzz.h"

#include <stdbool.h>
#include <string.h>

/* The directories exist, so that all errors come from the text. */
static const char *const overrides[] = {"server.root=/", "server.run_dir=/run"};

/* A value that fits a line, and its key, can be longer than one when printed. */
static bool has_long_lines(const char *text)
{
    for (; *text != '\0'; text += strcspn(text, "\n") + 1)
        if (text[0] != '#' && strcspn(text, "\n") > CONFIG_LINE_MAX)
            return true;
    return false;
}

/* Prints CONFIG, loads the output and prints again: both outputs must be equal. */
static void check_round_trip(const struct config *config)
{
    char *first = NULL, *second = NULL;
    size_t first_length, second_length;
    struct config_sources sources;
    struct config again;
    FILE *out = open_memstream(&first, &first_length);

    config_print(config, false, out);
    fclose(out);
    if (has_long_lines(first)) {
        free(first);
        return;
    }
    sources = (struct config_sources){.file = "/printed.ini",
                                      .text = first,
                                      .length = first_length,
                                      .system = &sandbox_config_system};
    MUST(config_load(&again, &sources, stderr) == 0);
    out = open_memstream(&second, &second_length);
    config_print(&again, false, out);
    fclose(out);
    MUST(first_length == second_length && memcmp(first, second, first_length) == 0);
    config_free(&again);
    free(first);
    free(second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct config_sources sources = {.file = "/fuzz.ini",
                                           .text = size > 0 ? (const char *)data : "",
                                           .length = size,
                                           .overrides = overrides,
                                           .override_count = 2,
                                           .system = &sandbox_config_system};
    struct config config;
    char *messages = NULL;
    size_t length;
    FILE *errors = open_memstream(&messages, &length);
    int failures;

    failures = config_load(&config, &sources, errors);
    fclose(errors);
    MUST((failures == 0) == (length == 0));
    if (failures == 0) {
        check_round_trip(&config);
        config_free(&config);
    }
    free(messages);
    return 0;
}
