/* A private webserverd: it starts, replies, and leaves nothing behind, however it ends. */
#include "common/clock.h"
#include "common/private_server.h"
#include "patience.h"
#include "scratch.h"
#include "tests/test.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static struct private_server *create(void)
{
    char why[PRIVATE_SERVER_WHY];
    struct private_server *server = private_server_create(WEBSERVERD_BINARY, why, sizeof(why));

    if (server == NULL)
        fail_msg("%s", why);
    return server;
}

static void start(struct private_server *server, const char *const *options)
{
    char why[PRIVATE_SERVER_WHY];

    if (private_server_start(server, options, why, sizeof(why)) != 0)
        fail_msg("%s", why);
}

/* Paths and processes of a server, to check them after its end. */
struct traces {
    char directory[PRIVATE_SERVER_PATH];
    char segment[PRIVATE_SERVER_PATH];
};

static struct traces traces_of(const struct private_server *server)
{
    struct traces traces;

    snprintf(traces.directory, sizeof(traces.directory), "%s", private_server_directory(server));
    snprintf(traces.segment, sizeof(traces.segment), "webserverd.%s", private_server_name(server));
    return traces;
}

static void check_nothing_left(const struct traces *traces)
{
    assert_int_equal(scratch_count("/dev/shm", traces->segment), 0);
    assert_int_not_equal(access(traces->directory, F_OK), 0);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

TEST(private_server_serves_and_leaves_nothing)
{
    const char *const options[] = {"workers.processes=1", "workers.threads=2", NULL};
    char why[PRIVATE_SERVER_WHY];
    struct private_server *server = create();
    struct traces traces = traces_of(server);
    json_t *reply;

    assert_int_equal(private_server_put(server, "/a/b.txt", "text", 4, why, sizeof(why)), 0);
    for (int times = 0; times < 2; times++) {
        start(server, options);
        assert_int_not_equal(private_server_port(server), 0);
        assert_int_equal(scratch_count("/dev/shm", traces.segment), 1);
        reply = private_server_command(server, "threads", why, sizeof(why));
        assert_non_null(reply);
        json_decref(reply);
        assert_null(private_server_command(server, "threads none", why, sizeof(why)));
        assert_non_null(strstr(why, "failed"));
        private_server_stop(server);
        assert_int_equal(scratch_count("/dev/shm", traces.segment), 0);
    }
    private_server_destroy(server);
    check_nothing_left(&traces);
}

TEST(two_private_servers_are_independent)
{
    struct private_server *one = create(), *other = create();
    struct traces of_one = traces_of(one), of_other = traces_of(other);

    start(one, NULL);
    start(other, NULL);
    assert_int_not_equal(private_server_port(one), private_server_port(other));
    private_server_destroy(one);
    private_server_destroy(other);
    check_nothing_left(&of_one);
    check_nothing_left(&of_other);
}

TEST(private_server_stays_on_its_core)
{
    struct private_server *server = create();
    cpu_set_t ours, its;
    int core = 0;

    assert_int_equal(sched_getaffinity(0, sizeof(ours), &ours), 0);
    while (!CPU_ISSET((size_t)core, &ours))
        core++;
    private_server_use_core(server, core);
    start(server, NULL);
    assert_int_equal(sched_getaffinity(private_server_pid(server), sizeof(its), &its), 0);
    assert_int_equal(CPU_COUNT(&its), 1);
    assert_true(CPU_ISSET((size_t)core, &its));
    private_server_stop(server);
    private_server_use_core(server, -1);
    start(server, NULL);
    assert_int_equal(sched_getaffinity(private_server_pid(server), sizeof(its), &its), 0);
    assert_true(CPU_EQUAL(&its, &ours));
    private_server_destroy(server);
}

TEST(failed_start_reports_reason)
{
    const char *const options[] = {"workers.processes=none", NULL};
    char why[PRIVATE_SERVER_WHY];
    struct private_server *server = create();
    struct traces traces = traces_of(server);

    assert_int_equal(private_server_start(server, options, why, sizeof(why)), -1);
    assert_non_null(strstr(why, "did not start"));
    assert_int_equal(private_server_pid(server), 0);
    private_server_destroy(server);
    check_nothing_left(&traces);
}

TEST(missing_program_is_named)
{
    char why[PRIVATE_SERVER_WHY];
    struct private_server *server = private_server_create("/nowhere/webserverd", why, sizeof(why));

    assert_non_null(server);
    assert_int_equal(private_server_start(server, NULL, why, sizeof(why)), -1);
    assert_non_null(strstr(why, "/nowhere/webserverd"));
    private_server_destroy(server);
}

/* Also its workers, which become orphans of this process. */
TEST(killed_private_server_leaves_nothing)
{
    struct private_server *server = create();
    struct traces traces = traces_of(server);

    prctl(PR_SET_CHILD_SUBREAPER, 1);
    start(server, NULL);
    assert_int_equal(kill(private_server_pid(server), SIGKILL), 0);
    private_server_destroy(server);
    WAIT_UNTIL(waitpid(-1, NULL, WNOHANG) == -1);
    check_nothing_left(&traces);
}

static bool is_gone(const char *segment)
{
    return scratch_count("/dev/shm", segment) == 0;
}

TEST(private_server_of_a_killed_process_leaves_nothing)
{
    char text[512] = "", name[64], directory[256], segment[80];
    int told[2];
    pid_t child;

    assert_int_equal(pipe(told), 0);
    child = fork();
    if (child == 0) {
        char why[PRIVATE_SERVER_WHY];
        struct private_server *server = private_server_create(WEBSERVERD_BINARY, why, sizeof(why));

        if (server != NULL && private_server_start(server, NULL, why, sizeof(why)) == 0)
            dprintf(told[1], "%s %s", private_server_name(server),
                    private_server_directory(server));
        pause();
    }
    assert_true(read(told[0], text, sizeof(text) - 1) > 0);
    assert_int_equal(sscanf(text, "%63s %255s", name, directory), 2);
    snprintf(segment, sizeof(segment), "webserverd.%s", name);
    assert_int_equal(scratch_count("/dev/shm", segment), 1);
    kill(child, SIGKILL);
    WAIT_UNTIL(is_gone(segment));
    WAIT_UNTIL(waitpid(-1, NULL, WNOHANG) == -1);
    WAIT_UNTIL(access(directory, F_OK) != 0);
    close(told[0]);
    close(told[1]);
}

/* Checks the value of a key as reported by the server. */
static void expect_key(const struct private_server *server, const char *key, const char *value)
{
    char line[128], why[PRIVATE_SERVER_WHY];
    json_t *reply;

    snprintf(line, sizeof(line), "config %s", key);
    reply = private_server_command(server, line, why, sizeof(why));
    assert_non_null(reply);
    assert_string_equal(json_string_value(json_object_get(
                            json_array_get(json_object_get(reply, "keys"), 0), "value")),
                        value);
    json_decref(reply);
}

TEST(reload_reads_configuration_again)
{
    const char *const options[] = {"workers.processes=1", NULL};
    char why[PRIVATE_SERVER_WHY];
    struct private_server *server = create();
    json_t *reply;

    assert_false(private_server_runs(server));
    assert_int_equal(private_server_configure(server,
                                              "[log]\nwhen_full = wait\n"
                                              "[workers]\nprocesses = 2\n",
                                              why, sizeof(why)),
                     0);
    start(server, options);
    assert_true(private_server_runs(server));
    expect_key(server, "log.when_full", "wait");
    expect_key(server, "workers.processes", "1"); /* the option has precedence */
    assert_int_equal(
        private_server_configure(server, "[log]\nwhen_full = drop\n", why, sizeof(why)), 0);
    reply = private_server_command(server, "reload", why, sizeof(why));
    assert_non_null(reply);
    json_decref(reply);
    expect_key(server, "log.when_full", "drop");
    kill(private_server_pid(server), SIGKILL);
    WAIT_UNTIL(!private_server_runs(server));
    private_server_destroy(server);
}
