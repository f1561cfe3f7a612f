/* The configuration reader: any text loads or yields messages; a loaded configuration prints to a
 * text that loads to the same configuration. */
#include "daemon/config/config.h"
#include "daemon/config/load.h"
#include "daemon/config/reader.h"
#include "tests/fuzz/fuzz.h"

#include <stdbool.h>
#include <string.h>

/* The directories exist, so that all errors come from the text. */
static const char *const overrides[] = {"server.root=/", "server.run_dir=/run"};

/* Printing folds a long value, and not every value can be folded. */
static bool has_long_lines(const char *text)
{
    for (; *text != '\0'; text += strcspn(text, "\n") + 1)
        if (text[0] == ' ' || (text[0] != '#' && strcspn(text, "\n") > CONFIG_LINE_MAX))
            return true;
    return false;
}

/* Prints CONFIG, loads the output and prints again: both outputs must be equal. */
static void check_round_trip(const struct config *config)
{
    char *first = NULL, *second = NULL;
    size_t first_length, second_length;
    struct config again;
    FILE *out = open_memstream(&first, &first_length);

    config_print(config, out);
    fclose(out);
    if (has_long_lines(first)) {
        free(first);
        return;
    }
    MUST(config_load_text(&again, "/printed.ini", first, first_length, NULL, 0, stderr) == 0);
    out = open_memstream(&second, &second_length);
    config_print(&again, out);
    fclose(out);
    MUST(first_length == second_length && memcmp(first, second, first_length) == 0);
    config_free(&again);
    free(first);
    free(second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config config;
    char *messages = NULL;
    size_t length;
    FILE *errors = open_memstream(&messages, &length);
    int failures;

    failures =
        config_load_text(&config, "/fuzz.ini", (const char *)data, size, overrides, 2, errors);
    fclose(errors);
    MUST((failures == 0) == (length == 0));
    if (failures == 0) {
        check_round_trip(&config);
        config_free(&config);
    }
    free(messages);
    return 0;
}
