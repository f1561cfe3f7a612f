/* Output, exit status and memory of main() for each kind of command line. The master does not run. */
#include "daemon/base/service.h"
#include "daemon/config/load.h"
#include "daemon/config/options.h"
#include "daemon/logger/log_files.h"
#include "daemon/master/inheritance.h"
#include "daemon/sandbox/sandbox.h"
#include "daemon/tls/context.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MASTER_STATUS = 7 };

/* The main() of webserverd, which the build renames. */
int webserverd_main(int argc, char **argv);

/* Not yet freed by main(). */
static struct {
    struct config *config;
    int contents; /* of configurations */
    int contexts; /* of TLS */
    int options;
} held;

static bool is_upgrade, logs_do_not_fit;
static int daemonize_result;
static char calls[64]; /* names of functions, in order */

/* Replaced by the linker: see wrap() in tests/unit/CMakeLists.txt. The labels are its names. */
int real_config_load(struct config *config, const struct config_sources *sources,
                     FILE *errors) __asm__("__real_config_load");
int wrapped_config_load(struct config *config, const struct config_sources *sources,
                        FILE *errors) __asm__("__wrap_config_load");
void real_config_free(struct config *config) __asm__("__real_config_free");
void wrapped_config_free(struct config *config) __asm__("__wrap_config_free");
void real_free(void *memory) __asm__("__real_free");
void wrapped_free(void *memory) __asm__("__wrap_free");
struct tls_context *real_tls_context_new(const struct config *config,
                                         const struct managed_certificates *managed,
                                         struct tls_tickets *tickets, char *why,
                                         size_t size) __asm__("__real_tls_context_new");
struct tls_context *wrapped_tls_context_new(const struct config *config,
                                            const struct managed_certificates *managed,
                                            struct tls_tickets *tickets, char *why,
                                            size_t size) __asm__("__wrap_tls_context_new");
void real_tls_context_free(struct tls_context *context) __asm__("__real_tls_context_free");
void wrapped_tls_context_free(struct tls_context *context) __asm__("__wrap_tls_context_free");
void real_options_free(struct options *options) __asm__("__real_options_free");
void wrapped_options_free(struct options *options) __asm__("__wrap_options_free");
int wrapped_log_files_check(const struct config *config, char *why,
                            size_t size) __asm__("__wrap_log_files_check");
int wrapped_daemonize(void) __asm__("__wrap_daemonize");
bool wrapped_inheritance_is_upgrade(void) __asm__("__wrap_inheritance_is_upgrade");
int wrapped_master_run(struct config *config,
                       const struct options *options) __asm__("__wrap_master_run");

int wrapped_config_load(struct config *config, const struct config_sources *sources, FILE *errors)
{
    int result = real_config_load(config, sources, errors);

    held.config = config;
    held.contents += result == 0;
    return result;
}

void wrapped_config_free(struct config *config)
{
    held.contents--;
    real_config_free(config);
}

void wrapped_free(void *memory)
{
    if (memory == held.config)
        held.config = NULL;
    real_free(memory);
}

struct tls_context *wrapped_tls_context_new(const struct config *config,
                                            const struct managed_certificates *managed,
                                            struct tls_tickets *tickets, char *why, size_t size)
{
    struct tls_context *context = real_tls_context_new(config, managed, tickets, why, size);

    held.contexts += context != NULL;
    return context;
}

void wrapped_tls_context_free(struct tls_context *context)
{
    held.contexts -= context != NULL;
    real_tls_context_free(context);
}

void wrapped_options_free(struct options *options)
{
    held.options--;
    real_options_free(options);
}

int wrapped_log_files_check(const struct config *config, char *why, size_t size)
{
    (void)config;
    snprintf(why, size, "no room for the logs");
    return logs_do_not_fit ? -1 : 0;
}

int wrapped_daemonize(void)
{
    strcat(calls, "daemonize ");
    errno = EMFILE;
    return daemonize_result;
}

bool wrapped_inheritance_is_upgrade(void)
{
    return is_upgrade;
}

int wrapped_master_run(struct config *config, const struct options *options)
{
    assert_ptr_equal(config, held.config);
    assert_int_equal(held.options, 1);
    assert_non_null(options->argv);
    strcat(calls, "master_run ");
    config_free(config);
    free(config);
    return MASTER_STATUS;
}

/* Calls of main() */

struct result {
    int status;
    char out[64 * 1024], err[4096];
};

/* Redirects FD to a file in memory. Returns a duplicate of the original, for restore(). */
static int divert(int fd)
{
    int before = dup(fd), file = memfd_create("stream", MFD_CLOEXEC);

    assert_true(before >= 0 && file >= 0);
    assert_int_equal(dup2(file, fd), fd);
    close(file);
    return before;
}

/* Makes FD a duplicate of BEFORE again and closes BEFORE. TEXT receives what was written meanwhile. */
static void restore(int fd, int before, char *text, size_t size)
{
    ssize_t length = pread(fd, text, size, 0);

    dup2(before, fd);
    close(before);
    assert_in_range(length, 0, size - 1);
    text[length] = '\0';
}

/* Calls main() with the words of LINE, which blanks separate. */
static const struct result *call_main(const char *line)
{
    static struct result result;
    char *argv[32] = {"webserverd"}, words[1024];
    int argc = 1, out, err;

    snprintf(words, sizeof(words), "%s", line);
    for (char *word = strtok(words, " "); word != NULL; word = strtok(NULL, " "))
        argv[argc++] = word;
    calls[0] = '\0';
    held.options = 1;
    fflush(NULL);
    out = divert(STDOUT_FILENO);
    err = divert(STDERR_FILENO);
    result.status = webserverd_main(argc, argv);
    fflush(NULL);
    restore(STDOUT_FILENO, out, result.out, sizeof(result.out));
    restore(STDERR_FILENO, err, result.err, sizeof(result.err));
    assert_null(held.config);
    assert_int_equal(held.contents, 0);
    assert_int_equal(held.contexts, 0);
    assert_int_equal(held.options, 0);
    return &result;
}

/* OUT and ERR are the complete output. */
static void check(const char *line, int status, const char *out, const char *err)
{
    const struct result *result = call_main(line);

    assert_string_equal(result->err, err);
    assert_string_equal(result->out, out);
    assert_int_equal(result->status, status);
    assert_string_equal(calls, "");
}

/* A new working directory with a configuration and a certificate */

static const char *const files[] = {"good.ini", "localhost.pem", "localhost.key"};
static char no_key[512]; /* the message if good.ini is the key */

static int enter_directory(void **state)
{
    static char directory[] = "/tmp/webserverd-main-XXXXXX";
    char path[256];
    FILE *file;

    unsetenv("XDG_RUNTIME_DIR"); /* it may be too long for a control socket */
    if (mkdtemp(directory) == NULL || chdir(directory) != 0 || getcwd(path, sizeof(path)) == NULL)
        return -1;
    *state = directory;
    file = fopen(files[0], "w");
    if (file == NULL)
        return -1;
    fputs("[server]\nroot = .\n[connections]\nmax = 1234\n", file);
    fclose(file);
    chmod(files[0], 0600); /* a key that others can read causes a warning */
    snprintf(no_key, sizeof(no_key),
             "webserverd: [tls] certificate: %s/good.ini: contains no private key in PEM format\n",
             path);
    check("-S .", EXIT_SUCCESS, "[tls]\ncertificate = ./localhost.pem\nkey = ./localhost.key\n",
          "");
    return 0;
}

static int leave_directory(void **state)
{
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        unlink(files[i]);
    return chdir("/") == 0 ? rmdir(*state) : -1;
}

static void check_names_the_file_and_dump_prints_its_content(void **state)
{
    const struct result *result;

    (void)state;
    check("-t", EXIT_SUCCESS, "webserverd: the configuration (defaults) is valid\n", "");
    check("-t -f good.ini", EXIT_SUCCESS, "webserverd: the configuration good.ini is valid\n", "");
    result = call_main("-T -f good.ini");
    assert_string_equal(result->err, "");
    assert_non_null(strstr(result->out, "\nmax = 1234\n"));
    assert_null(strstr(result->out, "webserverd: the configuration"));
    assert_int_equal(result->status, EXIT_SUCCESS);
}

static void faulty_configuration_fails_whatever_the_action(void **state)
{
    static const char *const actions[] = {"", "-d", "-t", "-T"};

    (void)state;
    for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++) {
        const struct result *result;
        char line[64];

        snprintf(line, sizeof(line), "%s -o connections.max=x", actions[i]);
        result = call_main(line);
        assert_non_null(strstr(result->err, "connections.max"));
        assert_string_equal(result->out, "");
        assert_int_equal(result->status, EXIT_FAILURE);
        assert_string_equal(calls, "");
    }
}

#define TLS "-o server.listen=https://127.0.0.1:0 -o tls.certificate=localhost.pem -o tls.key="

static void check_reads_certificates_and_keys(void **state)
{
    (void)state;
    check("-t " TLS "localhost.key", EXIT_SUCCESS,
          "webserverd: the configuration (defaults) is valid\n", "");
    check("-t " TLS "good.ini", EXIT_FAILURE, "", no_key);
    check("-T " TLS "good.ini", EXIT_FAILURE, "", no_key);
}

static void check_refuses_logs_without_descriptors(void **state)
{
    (void)state;
    logs_do_not_fit = true;
    check("-t", EXIT_FAILURE, "", "webserverd: no room for the logs\n");
    check("-t " TLS "good.ini", EXIT_FAILURE, "", no_key);
    logs_do_not_fit = false;
}

static void certificate_that_exists_is_not_replaced(void **state)
{
    (void)state;
    check("-S .", EXIT_FAILURE, "",
          "webserverd: cannot create ./localhost.key: File exists (it is not replaced: remove it, "
          "or name another directory)\n");
}

static void version_names_the_sandbox(void **state)
{
    char sandbox[64], expected[256];

    (void)state;
    sandbox_describe(sandbox, sizeof(sandbox));
    snprintf(expected, sizeof(expected), "webserverd %s\nsandbox of workers: %s\n",
             WEBSERVERD_VERSION, sandbox);
    check("-V", EXIT_SUCCESS, expected, "");
}

static void help_prints_usage_and_unknown_option_is_an_error(void **state)
{
    const struct result *result = call_main("-h");

    (void)state;
    assert_string_equal(result->err, "");
    assert_memory_equal(result->out, "usage: webserverd ", 18);
    assert_int_equal(result->status, EXIT_SUCCESS);
    check("-z", OPTIONS_EXIT_USAGE, "", "webserverd: unknown option -z\ntry webserverd -h\n");
}

static void start(const char *line, int status, const char *expected_calls, const char *err)
{
    const struct result *result = call_main(line);

    assert_string_equal(result->err, err);
    assert_string_equal(result->out, "");
    assert_int_equal(result->status, status);
    assert_string_equal(calls, expected_calls);
}

static void only_a_detached_start_daemonizes_unless_upgraded(void **state)
{
    (void)state;
    start("", MASTER_STATUS, "master_run ", "");
    start("-d", MASTER_STATUS, "daemonize master_run ", "");
    daemonize_result = -1;
    start("-d", EXIT_FAILURE, "daemonize ",
          "webserverd: cannot run in the background: Too many open files\n");
    is_upgrade = true; /* it runs there already */
    start("-d", MASTER_STATUS, "master_run ", "");
    is_upgrade = false;
    daemonize_result = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_names_the_file_and_dump_prints_its_content),
        cmocka_unit_test(faulty_configuration_fails_whatever_the_action),
        cmocka_unit_test(check_reads_certificates_and_keys),
        cmocka_unit_test(check_refuses_logs_without_descriptors),
        cmocka_unit_test(certificate_that_exists_is_not_replaced),
        cmocka_unit_test(version_names_the_sandbox),
        cmocka_unit_test(help_prints_usage_and_unknown_option_is_an_error),
        cmocka_unit_test(only_a_detached_start_daemonizes_unless_upgraded),
    };

    return cmocka_run_group_tests(tests, enter_directory, leave_directory);
}
