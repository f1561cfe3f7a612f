#include "common/block_lists.h"
#include "common/escape.h"
#include "daemon/base/events.h"
#include "daemon/base/memory_file.h"
#include "daemon/base/process_title.h"
#include "daemon/config/acme.h"
#include "daemon/config/keys.h"
#include "daemon/config/load.h"
#include "daemon/config/options.h"
#include "daemon/master/master.h"
#include "daemon/sandbox/sandbox.h"
#include "daemon/sandbox/service.h"
#include "daemon/tls/certificate_set.h"
#include "daemon/tls/managed.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Returns the exit status. */
static int print_failure(const char *why)
{
    fprintf(stderr, "%swebserverd: %s\n", event_priority(STDERR_FILENO, LEVEL_ERROR), why);
    events_report(why, strlen(why));
    return EXIT_FAILURE;
}

/* Prints each line of TEXT. */
static void print_errors(const char *text)
{
    events_report(text, strlen(text));
    for (size_t length; *text != '\0'; text += length) {
        length = strcspn(text, "\n") + 1;
        fprintf(stderr, "%s%.*s", event_priority(STDERR_FILENO, LEVEL_ERROR), (int)length, text);
    }
}

/* Returns NULL after printing why. */
static struct config *load_or_print_errors(const struct options *options)
{
    const struct config_sources sources = {.file = options->file,
                                           .overrides = options->overrides,
                                           .override_count = options->override_count,
                                           .system = &sandbox_config_system};
    struct config *config = calloc(1, sizeof(*config));
    char *errors = NULL;
    size_t length;
    FILE *memory = config != NULL ? open_memstream(&errors, &length) : NULL;
    bool good = memory != NULL && config_load(config, &sources, memory) == 0;

    if (memory == NULL)
        print_failure("out of memory");
    else if (memstream_close(memory, &errors) == 0)
        print_errors(errors);
    free(errors);
    if (good)
        return config;
    free(config);
    return NULL;
}

static void print_note(void *unused, const char *note)
{
    (void)unused;
    fputs("note: ", stdout);
    escape_print(stdout, note);
    putchar('\n');
}

static void print_certificate_note(void *unused, const struct tls_description *description)
{
    char text[512];

    if (!certificate_is_valid_at(description, (int64_t)time(NULL), text, sizeof(text)))
        print_note(unused, text);
}

static void print_fault(const char *why)
{
    print_failure(why);
}

/* As what -t checks. */
static void print_service(const struct service *service)
{
    char note[sizeof(service->description) + 128];

    snprintf(note, sizeof(note), "checked as %s: %s%s", SERVICE_UNIT, service->description,
             service->activated ? ", on the sockets of the service manager" : "");
    print_note(NULL, note);
    snprintf(note, sizeof(note), "checked without what %s has by %s", SERVICE_UNIT,
             service->not_applied);
    if (service->not_applied[0] != '\0')
        print_note(NULL, note);
    fflush(stdout); /* before errors */
}

/*
 * -t and -T: also reads the certificates and keys; -t, whether a start would succeed. Returns the
 * exit status.
 */
static int check_config(const struct config *config, const struct options *options,
                        const struct service *service, enum options_action action)
{
    struct certificate_set *set = NULL;
    char why[512];

    if (action == OPTIONS_CHECK && preflight_check(config, service, print_fault) != 0)
        return EXIT_FAILURE;
    if (config_has_certificate(config)) {
        set = certificate_set_load(config, -1, why, sizeof(why));
        if (set == NULL)
            return print_failure(why);
    }
    if (action == OPTIONS_DUMP) {
        config_print(config, true, stdout);
    } else {
        fputs("webserverd: the configuration ", stdout);
        escape_print(stdout, options->file != NULL ? options->file : "(defaults)");
        puts(" is valid");
        config_notes(config, KEY_COUNT, service != NULL && service->activated, print_note, NULL);
        if (service == NULL)
            config_root_notes(config, print_note, NULL);
        if (set != NULL)
            certificate_set_describe(set, print_certificate_note, NULL);
        config_acme_describe(config, stdout);
    }
    certificate_set_free(set);
    return EXIT_SUCCESS;
}

/* Loads the configuration and runs, checks or prints it. Returns the exit status. */
static int run_with_config(const struct options *options, enum options_action action)
{
    struct service service;
    struct config *config;
    char why[512];
    int status;

    if (options->as_service && service_enter(&service, why, sizeof(why)) != 0)
        return print_failure(why);
    if (options->as_service)
        print_service(&service);
    config = load_or_print_errors(options);
    if (config == NULL)
        return EXIT_FAILURE;
    if (action == OPTIONS_RUN)
        return master_run(config, options);
    status = check_config(config, options, options->as_service ? &service : NULL, action);
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

/* OpenSSL's memory: a handshake makes 700 allocations. See CRYPTO_set_mem_functions(3). */

static void *take_block(size_t length, const char *file, int line)
{
    (void)file, (void)line;
    return length > 0 ? block_lists_take(length) : NULL;
}

static void *resize_block(void *memory, size_t length, const char *file, int line)
{
    (void)file, (void)line;
    return block_lists_resize(memory, length);
}

static void give_block(void *memory, const char *file, int line)
{
    (void)file, (void)line;
    block_lists_give(memory);
}

int main(int argc, char **argv)
{
    char **words = process_title_prepare(argc, argv);
    struct options options;
    enum options_action action;
    int status = EXIT_SUCCESS;
    char sandbox[64];

    if (words == NULL)
        return print_failure("out of memory");
    action = options_parse(&options, argc, words, stderr);
    events_find_journal();
    events_begin_report();
    if (block_lists_begin())
        CRYPTO_set_mem_functions(take_block, resize_block, give_block);
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
    free(words);
    return status;
}
