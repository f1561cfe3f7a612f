#include "daemon/config.h"
#include "daemon/master.h"
#include "daemon/options.h"

#include <stdlib.h>

/* What is left to do with a good configuration, other than to run with it. */
static void show(const struct options *options, enum options_action action,
                 const struct config *config)
{
    if (action == OPTIONS_DUMP)
        config_print(config, stdout);
    else
        printf("webserverd: the configuration %s is good\n",
               options->file != NULL ? options->file : "(defaults)");
}

/* Loads the configuration and does what was asked with it. Returns the exit status. */
static int with_config(const struct options *options, enum options_action action)
{
    struct config *config = calloc(1, sizeof(*config));

    if (config == NULL || config_load(config, options->file, options->overrides,
                                      options->override_count, stderr) != 0) {
        free(config);
        return EXIT_FAILURE;
    }
    if (action == OPTIONS_RUN)
        return master_run(config, options);
    show(options, action, config);
    config_free(config);
    free(config);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    struct options options;
    enum options_action action = options_parse(&options, argc, argv, stderr);
    int status = EXIT_SUCCESS;

    switch (action) {
    case OPTIONS_RUN:
    case OPTIONS_CHECK:
    case OPTIONS_DUMP:
        status = with_config(&options, action);
        break;
    case OPTIONS_VERSION:
        options_print_version(stdout);
        break;
    case OPTIONS_HELP:
        options_print_usage(stdout);
        break;
    case OPTIONS_WRONG:
        status = OPTIONS_EXIT_USAGE;
        break;
    }
    options_free(&options);
    return status;
}
