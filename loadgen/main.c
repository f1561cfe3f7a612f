/* wsload, the load generator: begins a run, a sweep, a search, the lab, or compares or merges reports. */
#include "common/block_lists.h"
#include "common/escape.h"
#include "common/macros.h"

#include "loadgen/base/resources.h"
#include "loadgen/cli/options.h"
#include "loadgen/lab/session.h"
#include "loadgen/report/report.h"
#include "loadgen/run/run.h"
#include "loadgen/sweep/find.h"

#include <curl/curl.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <unistd.h>

enum { WHY_TEXT = 512 };

static int fail(const char *why)
{
    escape_report("wsload", why);
    return RESULT_USAGE_ERROR;
}

static int fail_write(const struct plan *plan, int error)
{
    char why[WHY_TEXT];

    snprintf(why, sizeof(why), "cannot write the report%s%.400s: %s",
             plan->output != NULL ? " to " : "", plan->output != NULL ? plan->output : "",
             strerror(error));
    return fail(why);
}

/* Opens the file before the run, so that a long run does not fail at its end. */
static FILE *open_output(const struct plan *plan)
{
    FILE *out = plan->output != NULL ? fopen(plan->output, "we") : stdout;

    if (out == NULL)
        fail_write(plan, errno);
    return out;
}

static int close_output(const struct plan *plan, FILE *out, int status)
{
    bool failed;

    errno = 0;
    failed = ferror(out) != 0;
    failed = (out == stdout ? fflush(out) : fclose(out)) != 0 || failed;
    return failed ? fail_write(plan, errno != 0 ? errno : EIO) : status;
}

static int report(FILE *out, const struct result *result)
{
    bool colour = out == stdout && live_terminal_wants_colour(out);

    return report_write(out, result, colour);
}

static void explain_unreachable(const struct result *result)
{
    char why[WHY_TEXT];

    result_explain_unreachable(result, why, sizeof(why));
    fail(why);
}

static int load(const struct plan *plan, FILE *out)
{
    struct result *result = malloc(sizeof(*result));
    char why[WHY_TEXT];
    enum trial_outcome outcome;
    int status;

    if (result == NULL)
        return fail("out of memory");
    outcome = plan->rounds > 1                 ? repeat_run(plan, result, why, sizeof(why))
              : plan_hostile_clients(plan) > 0 ? hostile_run(plan, result, why, sizeof(why))
                                               : trial_run(plan, NULL, result, why, sizeof(why));
    status = (int)trial_status(outcome, result);
    if (outcome != TRIAL_DONE) {
        fail(why);
    } else {
        if (result->unreachable)
            explain_unreachable(result);
        if ((!result->unreachable || plan->format != PLAN_FORMAT_TEXT) && report(out, result) != 0)
            status = fail_write(plan, errno);
        result_free(result);
    }
    free(result);
    return status;
}

static int sweep(const struct plan *plan, FILE *out)
{
    char why[WHY_TEXT];
    enum result_status status;
    struct sweep *sweep = sweep_run(plan, &status, why, sizeof(why));
    bool colour = out == stdout && live_terminal_wants_colour(out);

    if (sweep == NULL) {
        fail(why);
        return (int)status;
    }
    status = sweep->status;
    if (sweep_report(out, sweep, colour) != 0)
        status = (enum result_status)fail_write(plan, errno);
    sweep_free(sweep);
    return (int)status;
}

static int find(const struct plan *plan, FILE *out)
{
    char why[WHY_TEXT];
    enum result_status status;
    struct find *find = find_run(plan, &status, why, sizeof(why));
    bool colour = out == stdout && live_terminal_wants_colour(out);

    if (find == NULL) {
        fail(why);
        return (int)status;
    }
    if (find_report(out, find, colour) != 0)
        status = (enum result_status)fail_write(plan, errno);
    free(find);
    return (int)status;
}

static int compare(const struct plan *plan, FILE *out)
{
    char why[WHY_TEXT];
    json_t *a = compare_read(plan->compare, why, sizeof(why)), *b = NULL;
    int status;

    if (a != NULL)
        b = compare_read(plan->urls[0], why, sizeof(why));
    if (b == NULL)
        status = fail(why);
    else
        status = compare_write(out, a, b) ? RESULT_GATE : RESULT_GOOD;
    json_decref(a);
    json_decref(b);
    return status;
}

static int merge(const struct plan *plan, FILE *out)
{
    char why[WHY_TEXT];
    struct stored_result *merged = merge_reports(plan, why, sizeof(why));
    int status;

    if (merged == NULL)
        return fail(why);
    status = (int)result_status(&merged->result);
    if (report(out, &merged->result) != 0)
        status = fail_write(plan, errno);
    stored_result_free(merged);
    return status;
}

static int conduct(const struct plan *plan, FILE *out)
{
    if (plan->compare != NULL)
        return compare(plan, out);
    if (plan->command == PLAN_MERGE)
        return merge(plan, out);
    if (plan->command == PLAN_FIND)
        return find(plan, out);
    return plan->command == PLAN_SWEEP ? sweep(plan, out) : load(plan, out);
}

static char *copy_to_block(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = block_lists_take(size);

    return copy != NULL ? memcpy(copy, text, size) : NULL;
}

/* A request makes 70 allocations: from the lists of freed blocks. Returns false on failure. */
static bool init_libcurl(void)
{
    CURLcode code =
        block_lists_begin()
            ? curl_global_init_mem(CURL_GLOBAL_DEFAULT, block_lists_take, block_lists_give,
                                   block_lists_resize, copy_to_block, block_lists_take_zeroed)
            : curl_global_init(CURL_GLOBAL_DEFAULT);

    return code == CURLE_OK;
}

static int run_lab(int argc, char **argv)
{
    int status;

    signal(SIGPIPE, SIG_IGN);
    if (!init_libcurl())
        return fail("cannot initialize libcurl");
    status = lab_main(argc, argv);
    curl_global_cleanup();
    return status;
}

/* Drops libevent's messages: the callers report its errors. */
static void ignore_warning(int severity, const char *text)
{
    (void)severity;
    (void)text;
}

static int flush_output(void)
{
    return fflush(stdout) == 0 && ferror(stdout) == 0 ? RESULT_GOOD : RESULT_USAGE_ERROR;
}

/* Whether a value of OPTION may be a secret: a password, a cookie or a token. */
static bool is_secret(const char *option, const char *value)
{
    static const char *const fields[] = {"Authorization:", "Proxy-Authorization:", "Cookie:"};

    if (strcmp(option, "-u") == 0 || strcmp(option, "--user") == 0)
        return true;
    if (strcmp(option, "-x") == 0 || strcmp(option, "--proxy") == 0)
        return strchr(value, '@') != NULL;
    if (strcmp(option, "-H") != 0 && strcmp(option, "--header") != 0)
        return false;
    for (size_t i = 0; i < ARRAY_LENGTH(fields); i++)
        if (strncasecmp(value, fields[i], strlen(fields[i])) == 0)
            return true;
    return false;
}

/* Writes WORD, quoted for a shell if necessary. */
static void put_quoted(FILE *out, const char *word)
{
    if (word[0] != '\0' && word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                             "0123456789%+,-./:=@_~")] == '\0') {
        fputs(word, out);
        return;
    }
    fputc('\'', out);
    for (; *word != '\0'; word++)
        if (*word == '\'')
            fputs("'\\''", out);
        else
            fputc(*word, out);
    fputc('\'', out);
}

/* Splits "-uNAME:PASS" and "--user=NAME:PASS" into OPTION and its value; NULL: it has none. */
static const char *joined_value(const char *word, char *option, size_t size)
{
    size_t length = strncmp(word, "--", 2) == 0 ? strcspn(word, "=") : 2;

    snprintf(option, size, "%.*s", (int)length, word);
    if (word[0] != '-' || strlen(word) <= length)
        return NULL;
    return word + length + (word[1] == '-');
}

/* The command line for reports; secrets are "***". NULL without memory. */
static char *describe_command(int argc, char *const *argv)
{
    char *text = NULL, option[64] = "";
    size_t size;
    FILE *out = open_memstream(&text, &size);

    if (out == NULL)
        return NULL;
    fputs("wsload", out);
    for (int i = 1; i < argc; i++) {
        char joined[sizeof(option)];
        const char *value = joined_value(argv[i], joined, sizeof(joined));

        fputc(' ', out);
        if (is_secret(option, argv[i]))
            fputs("***", out);
        else if (value != NULL && is_secret(joined, value))
            fprintf(out, "%s%s***", joined, joined[1] == '-' ? "=" : "");
        else
            put_quoted(out, argv[i]);
        snprintf(option, sizeof(option), "%s", argv[i]);
    }
    return fclose(out) == 0 ? text : NULL;
}

/* Occupies closed standard descriptors, so that no connection gets their numbers. */
static void reserve_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 &&
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
            exit(RESULT_USAGE_ERROR);
}

int main(int argc, char **argv)
{
    struct plan plan;
    enum options_result result;
    char why[WHY_TEXT], *command_line;
    FILE *out;
    int status;

    reserve_standard_descriptors();
    if (argc > 1 && strcmp(argv[1], "lab") == 0)
        return run_lab(argc - 1, argv + 1);
    result = options_parse(argc, argv, resources_cores(), &plan, why, sizeof(why));
    switch (result) {
    case OPTIONS_HELP:
    case OPTIONS_HELP_ALL:
        options_help(stdout, result == OPTIONS_HELP_ALL);
        return flush_output();
    case OPTIONS_VERSION:
        printf("wsload %s (%s)\n", WEBSERVERD_VERSION, curl_version());
        return flush_output();
    case OPTIONS_WRONG:
        return fail(why);
    case OPTIONS_RUN:
        break;
    }
    if (plan.control_fd >= 0 && fcntl(plan.control_fd, F_GETFD) < 0) {
        snprintf(why, sizeof(why), "--control-fd %d: not an open descriptor", plan.control_fd);
        return fail(why);
    }
    signal(SIGPIPE, SIG_IGN);
    event_set_log_callback(ignore_warning);
    plan.unicode = live_terminal_has_unicode();
    if (!plan.seed_given && getrandom(&plan.seed, sizeof(plan.seed), 0) == sizeof(plan.seed))
        plan.seed &= PLAN_SEED_MAX;
    if (baseline_apply(&plan, why, sizeof(why)) != 0)
        return fail(why);
    if (!init_libcurl())
        return fail("cannot initialize libcurl");
    out = open_output(&plan);
    if (out == NULL)
        return RESULT_USAGE_ERROR;
    command_line = describe_command(argc, argv);
    plan.command_line = command_line;
    status = close_output(&plan, out, conduct(&plan, out));
    free(command_line);
    curl_global_cleanup();
    return status;
}
