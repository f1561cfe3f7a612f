#include "daemon/config.h"
#include "daemon/master.h"
#include "daemon/options.h"

#include <stdlib.h>

/* Loads the configuration and does what was asked with it. Returns the exit status. */
static int with_config(const struct options *options, enum options_action action)
{
    struct config config;
    int status = EXIT_SUCCESS;

    if (config_load(&config, options->file, options->overrides, options->override_count, stderr) !=
        0)
        return EXIT_FAILURE;
    if (action == OPTIONS_RUN)
        status = master_run(&config);
    else if (action == OPTIONS_DUMP)
        config_print(&config, stdout);
    else
        printf("webserverd: the configuration %s is good\n",
               options->file != NULL ? options->file : "(defaults)");
    config_free(&config);
    return status;
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
