/*
 * Running out of what a server lives on: clients may wait, or be told to come again; nobody crashes,
 * nobody spins, and when there is some again all goes on.
 */
#include "http_client.h"
#include "patience.h"
#include "server.h"

#include "common/macros.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DESCRIPTORS_LEFT = 8, CLIENTS = 24 };

/* Descriptors */

static int open_descriptors(pid_t pid)
{
    char command[64], text[16];
    FILE *listing;

    snprintf(command, sizeof(command), "ls /proc/%d/fd | wc -l", pid);
    listing = popen(command, "r");
    assert_non_null(listing);
    assert_non_null(fgets(text, sizeof(text), listing));
    pclose(listing);
    return atoi(text);
}

static pid_t one_worker(const struct server *server)
{
    pid_t pid = 0;

    assert_int_equal(server_workers(server, &pid, 1), 1);
    return pid;
}

static void leave_descriptors(pid_t pid, int left)
{
    rlim_t most = (rlim_t)(open_descriptors(pid) + left);
    const struct rlimit limit = {most, most};

    assert_int_equal(prlimit(pid, RLIMIT_NOFILE, &limit, NULL), 0);
}

static void connections_wait_for_descriptors_without_a_spin(void **state)
{
    struct server *server = *state;
    struct http_client client[CLIENTS];
    uint64_t wakeups;

    server_put_text(server, "/page.html", "a page");
    /* Whoever changes the limits of another process has to be the same user. */
    server_start(server, geteuid() == 0 ? "server.user=root" : "server.jail=on",
                 "workers.processes=1", "workers.threads=1", "connections.defer_accept=off", NULL);
    http_expect(server_port(server), "/page.html", 200);
    leave_descriptors(one_worker(server), DESCRIPTORS_LEFT);
    for (int i = 0; i < CLIENTS; i++)
        http_open(&client[i], server_port(server));
    WAIT_UNTIL(server_metric(server, "accept_errors") > 0);
    wakeups = server_metric(server, "wakeups");
    sleep(1);
    /* It looks again once a second, and not thousands of times. */
    assert_true(server_metric(server, "wakeups") - wakeups < 100);
    for (int i = 0; i < CLIENTS; i++) {
        struct http_answer answer;

        http_say(&client[i], "GET /page.html HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        http_take(&client[i], HTTP_WITH_BODY, &answer);
        assert_int_equal(answer.status, 200);
        http_answer_free(&answer);
        http_close(&client[i]); /* makes room for one that waits */
    }
    server_stop(server);
}

/* Memory. A sanitizer has an allocator of its own, which the preloaded one would replace. */

#ifndef TEST_SANITIZER

enum { ROUNDS = 12, REQUESTS = 60 };

/* What a client does without minding the answer. Returns its status, 0: there was none. */
static int try(const struct server *server, const char *request)
{
    struct http_client client;
    char answer[256];
    ssize_t length;
    int status = 0;

    http_open(&client, server_port(server));
    http_say(&client, request);
    length = recv(client.fd, answer, sizeof(answer) - 1, 0);
    answer[length > 0 ? length : 0] = '\0';
    sscanf(answer, "HTTP/1.1 %d", &status);
    http_close(&client);
    return status;
}

static void ask_for_everything(const struct server *server, unsigned round)
{
    static const struct {
        const char *begins, *fields;
    } forms[] = {
        {"GET /file-", ""},
        {"GET /file-", "Accept-Encoding: gzip\r\n"},
        {"GET /file-", "Range: bytes=1-2,5-9\r\n"},
        {"GET /none-", ""},
        {"GET /folder?", ""},
        {"GET /folder/?", ""},
        {"GET /folder/?", "Accept: application/json\r\n"},
        {"OPTIONS /file-", ""},
        {"DELETE /file-", "Content-Length: 0\r\n"},
    };

    for (unsigned i = 0; i < REQUESTS; i++) {
        char request[256];
        int status;

        snprintf(request, sizeof(request), "%s%u HTTP/1.1\r\nHost: h\r\n%s\r\n",
                 forms[i % ARRAY_LENGTH(forms)].begins, i % 20 + round * 20,
                 forms[i % ARRAY_LENGTH(forms)].fields);
        status = try(server, request);
        if (status != 0 && status != 200 && status != 204 && status != 206 && status != 301 &&
            status != 404 && status != 405 && status != 500 && status != 503)
            fail_msg("status %d to: %s", status, request);
    }
}

static void put_files(const struct server *server)
{
    char path[32], text[4096];

    memset(text, 'x', sizeof(text));
    for (unsigned i = 0; i < ROUNDS * 20; i++) {
        snprintf(path, sizeof(path), "/file-%u", i);
        server_put(server, path, text, sizeof(text));
    }
    server_put_text(server, "/folder/inside", "x");
}

static void memory_that_fails_ends_no_process(void **state)
{
    static const char preload[] = "LD_PRELOAD=" FAILING_MEMORY;
    static const char *const wrapper[] = {
        "env", preload, "FAILING_ONE_IN=20", "FAILING_AFTER=3000", "FAILING_SEED=1", NULL};
    static const char *const options[] = {"files.autoindex=on", "workers.processes=2", NULL};
    struct server *server = *state;

    put_files(server);
    server_start_under(server, wrapper, options);
    for (unsigned round = 0; round < ROUNDS; round++)
        ask_for_everything(server, round);
    assert_int_equal(server_metric(server, "workers_died"), 0);
    server_stop(server);
}

#endif

#define TEST(name) cmocka_unit_test_setup_teardown(name, server_set_up, server_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(connections_wait_for_descriptors_without_a_spin),
#ifndef TEST_SANITIZER
        TEST(memory_that_fails_ends_no_process),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
