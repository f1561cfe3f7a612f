/* wsload: loads a web server and says how it did. The steps of a run; each lives in its own file.
 */
#include "loadgen/descriptors.h"
#include "loadgen/options.h"
#include "loadgen/report.h"
#include "loadgen/run.h"
#include "loadgen/work.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WHY_TEXT = 512 };

static int complain(const char *why)
{
    fprintf(stderr, "wsload: %s\n", why);
    return RESULT_WRONG_USE;
}

/* Cores that this process may use. */
static uint32_t count_cores(void)
{
    cpu_set_t cores;

    if (sched_getaffinity(0, sizeof(cores), &cores) == 0 && CPU_COUNT(&cores) > 0)
        return (uint32_t)CPU_COUNT(&cores);
    return 1;
}

/* Colour is for people: on a terminal, unless they said no (https://no-color.org). */
static bool want_colour(void)
{
    const char *no_color = getenv("NO_COLOR"), *terminal = getenv("TERM");

    return isatty(STDOUT_FILENO) && (no_color == NULL || no_color[0] == '\0') && terminal != NULL &&
           strcmp(terminal, "dumb") != 0;
}

static int report(const struct result *result)
{
    if (!result->plan->json)
        report_text(stdout, result, want_colour());
    else if (report_json(stdout, result) != 0)
        return complain("cannot write the report: out of memory");
    errno = 0;
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "wsload: cannot write the report: %s\n", strerror(errno));
        return RESULT_WRONG_USE;
    }
    return (int)result_status(result);
}

static int load(const struct plan *plan, struct work *work)
{
    struct result *result = malloc(sizeof(*result));
    char why[WHY_TEXT];
    int status;

    if (result == NULL)
        return complain("out of memory");
    if (run(plan, work, result, why, sizeof(why)) == 0) {
        status = report(result);
        run_free(result);
    } else {
        status = complain(why);
    }
    free(result);
    return status;
}

/* A host that nobody knows is a run in which nothing was answered, not a wrong use. */
static int prepare_and_load(const struct plan *plan)
{
    struct work work;
    char why[WHY_TEXT];
    int status;

    if (work_prepare(&work, plan, why, sizeof(why)) != 0 ||
        descriptors_reserve(plan->connections, plan->threads, why, sizeof(why)) != 0) {
        status = complain(why);
    } else if (work_resolve(&work, why, sizeof(why)) != 0) {
        complain(why);
        status = RESULT_NOTHING;
    } else {
        status = load(plan, &work);
    }
    work_free(&work);
    return status;
}

int main(int argc, char **argv)
{
    struct plan plan;
    char why[WHY_TEXT];
    int status;

    switch (options_parse(argc, argv, count_cores(), &plan, why, sizeof(why))) {
    case OPTIONS_HELP:
        options_help(stdout);
        return RESULT_GOOD;
    case OPTIONS_VERSION:
        printf("wsload %s (%s)\n", WEBSERVERD_VERSION, curl_version());
        return RESULT_GOOD;
    case OPTIONS_WRONG:
        return complain(why);
    case OPTIONS_RUN:
        break;
    }
    signal(SIGPIPE, SIG_IGN);
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return complain("libcurl cannot be set up");
    status = prepare_and_load(&plan);
    curl_global_cleanup();
    return status;
}
