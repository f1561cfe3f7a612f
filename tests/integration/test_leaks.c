/*
 * A short run under Valgrind's memcheck with requests and resizes: no process may have errors or
 * definite leaks. The master distributes connections; .ci/run has ./dev leaks let the kernel do it.
 */
#include "http_client.h"
#include "load.h"
#include "scratch.h"
#include "server.h"
#include "tests/test.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Valgrind takes long for each request: the load has a low rate while the server is resized. */
enum { REQUESTS = 200, RATE = 200, LARGE = 3 * 1024 * 1024 };

static const char page[] = "<p>a page of the test</p>\n";

static void skip_without_valgrind(void)
{
    if (system("valgrind --version >/dev/null 2>&1") != 0) {
        print_message("skipped: valgrind is not installed\n");
        skip();
    }
}

/* Checks the report of one process: complete and without errors. */
static void check_report(const char *path)
{
    size_t length;
    char *report = scratch_read(path, &length);

    if (strstr(report, "ERROR SUMMARY: 0 errors") == NULL)
        fprintf(stderr, "%s\n", report);
    assert_non_null(strstr(report, "ERROR SUMMARY: 0 errors"));
    free(report);
}

/* Returns the number of reports. */
static uint64_t check_reports(const struct server *server)
{
    DIR *directory = opendir(server_directory(server));
    const struct dirent *entry;
    char path[SCRATCH_PATH_MAX + 256];
    uint64_t count = 0;

    assert_non_null(directory);
    while ((entry = readdir(directory)) != NULL) {
        if (strncmp(entry->d_name, "valgrind.", 9) != 0)
            continue;
        snprintf(path, sizeof(path), "%s/%s", server_directory(server), entry->d_name);
        check_report(path);
        count++;
    }
    closedir(directory);
    return count;
}

/* Hits, misses, errors, a redirect, a large file, connections with and without keep-alive. */
static void use_everything(const struct server *server)
{
    struct load_plan plan = {.port = server_port(server),
                             .clients = 4,
                             .rate = RATE,
                             .target = "/page.html",
                             .body = page,
                             .body_length = sizeof(page) - 1};
    struct load_result result;
    struct load *load;

    http_expect(server_port(server), "/large.bin", 200);
    http_expect(server_port(server), "/absent", 404);
    http_expect(server_port(server), "/directory", 301);
    http_expect(server_port(server), "/%zz", 400);
    for (int round = 0; round < 2; round++) {
        plan.each_connects = round == 1;
        load = load_start(&plan);
        load_pass(load, REQUESTS / 2);
        server_do(server, round == 0 ? "threads 3" : "workers 1");
        load_pass(load, 1);
        result = load_finish(load);
        load_check(&result);
    }
    server_do(server, "threads 1");
    server_do(server, "workers 2");
    http_expect(server_port(server), "/page.html", 200);
    server_do(server, "offload-threads 1");
}

SERVER_TEST(no_process_has_leaks_or_errors)
{
    /* In the sandbox no file can grow, not even the report. Valgrind on a busy machine is slow. */
    static const char *const options[] = {"workers.dispatch=master", "workers.threads=1",
                                          "workers.heartbeat_timeout=0", "server.jail=off", NULL};
    char log_file[SCRATCH_PATH_MAX + 32];
    const char *const valgrind[] = {"valgrind",
                                    "--trace-children=yes",
                                    "--vgdb=no",
                                    "--child-silent-after-fork=no",
                                    "--leak-check=full",
                                    "--errors-for-leak-kinds=definite",
                                    "--error-exitcode=99",
                                    ("--suppressions=" SUPPRESSIONS),
                                    log_file,
                                    NULL};
    static char large[LARGE];
    uint64_t processes;

    skip_without_valgrind();
    server_put_text(server, "/page.html", page);
    server_put_text(server, "/directory/index.html", page);
    server_put(server, "/large.bin", large, LARGE);
    snprintf(log_file, sizeof(log_file), "--log-file=%s/valgrind.%%p", server_directory(server));
    server_start_under(server, valgrind, options);
    use_everything(server);
    processes = 2 + server_metric(server, "workers_started"); /* plus master and logger */
    server_expect_metric(server, "workers_died", 0);
    server_stop(server);
    assert_in_range(check_reports(server), processes, UINT32_MAX);
}
