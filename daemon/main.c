#include "common/escape.h"
#include "daemon/base/service.h"
#include "daemon/config/acme.h"
#include "daemon/config/load.h"
#include "daemon/config/options.h"
#include "daemon/logger/log_files.h"
#include "daemon/master/inheritance.h"
#include "daemon/master/master.h"
#include "daemon/sandbox/sandbox.h"
#include "daemon/tls/context.h"
#include "daemon/tls/managed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Prints for -t and -T. */
static void print_valid(const struct options *options, enum options_action action,
                        const struct config *config)
{
    if (action == OPTIONS_DUMP) {
        config_print(config, stdout);
    } else {
        fputs("webserverd: the configuration ", stdout);
        escape_print(stdout, options->file != NULL ? options->file : "(defaults)");
        puts(" is valid");
        config_acme_describe(config, stdout);
    }
}

/* After an upgrade the process already runs in the background. */
static int run_master(struct config *config, const struct options *options)
{
    if (!options->detach || inheritance_is_upgrade() || daemonize() == 0)
        return master_run(config, options);
    fprintf(stderr, "webserverd: cannot run in the background: %s\n", strerror(errno));
    config_free(config);
    free(config);
    return EXIT_FAILURE;
}

/* Returns the exit status. */
static int check_certificates(const struct config *config)
{
    struct tls_context *tls;
    char why[512];

    if (!config_has_certificate(config))
        return EXIT_SUCCESS;
    tls = tls_context_new(config, NULL, NULL, why, sizeof(why));
    if (tls == NULL) {
        fprintf(stderr, "webserverd: %s\n", why);
        return EXIT_FAILURE;
    }
    tls_context_free(tls);
    return EXIT_SUCCESS;
}

/* Loads the configuration and runs, checks or prints it. Returns the exit status. */
static int run_with_config(const struct options *options, enum options_action action)
{
    const struct config_sources sources = {.file = options->file,
                                           .overrides = options->overrides,
                                           .override_count = options->override_count,
                                           .system = &sandbox_config_system};
    struct config *config = calloc(1, sizeof(*config));
    char why[512];
    int status;

    if (config == NULL || config_load(config, &sources, stderr) != 0) {
        free(config);
        return EXIT_FAILURE;
    }
    if (action == OPTIONS_RUN)
        return run_master(config, options);
    status = check_certificates(config);
    if (status == EXIT_SUCCESS && log_files_check(config, why, sizeof(why)) != 0) {
        fprintf(stderr, "webserverd: %s\n", why);
        status = EXIT_FAILURE;
    }
    if (status == EXIT_SUCCESS)
        print_valid(options, action, config);
    config_free(config);
    free(config);
    return status;
}

/* Returns the exit status. */
static int write_self_signed(const char *directory)
{
    struct self_signed files;
    char why[PATH_MAX + 256];

    if (self_signed_write(&files, directory, "localhost", why, sizeof(why)) != 0) {
        fputs("webserverd: ", stderr);
        escape_print(stderr, why);
        fputc('\n', stderr);
        return EXIT_FAILURE;
    }
    fputs("[tls]\ncertificate = ", stdout);
    escape_print(stdout, files.certificate);
    fputs("\nkey = ", stdout);
    escape_print(stdout, files.key);
    fputc('\n', stdout);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    struct options options;
    enum options_action action = options_parse(&options, argc, argv, stderr);
    int status = EXIT_SUCCESS;
    char sandbox[64];

    switch (action) {
    case OPTIONS_RUN:
    case OPTIONS_CHECK:
    case OPTIONS_DUMP:
        status = run_with_config(&options, action);
        break;
    case OPTIONS_SELF_SIGNED:
        status = write_self_signed(options.directory);
        break;
    case OPTIONS_VERSION:
        sandbox_describe(sandbox, sizeof(sandbox));
        options_print_version(stdout, sandbox);
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
