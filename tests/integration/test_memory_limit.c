/*
 * The server's control group runs out of memory, where the kernel kills a process instead of failing its
 * allocations: caches stop growing in time and are freed, idle connections close, new ones wait.
 * Nothing is lost, and when memory is free again everything is as before.
 */
#include "control_group.h"
#include "http_client.h"
#include "patience.h"
#include "server.h"

#include "common/macros.h"
#include "tests/test.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB    (1024 * 1024ULL)
#define LIMIT  (48 * MIB)
#define SHORT  "workers free their caches"
#define ENOUGH "enough is free again"

enum {
    CLIENTS = 12,
    FILES = 1200,
    FILE_BYTES = 32 * 1024,
    WATCH_MS = 200, /* the server looks at its memory that often */
    IDLE_CLIENTS = 60
};

static const char *const dispatches[] = {"workers.dispatch=kernel", "workers.dispatch=master"};

static void start_in(struct server *server, const struct control_group *group,
                     const char *const *options)
{
    char script[sizeof(group->directory) + 64];
    const char *const wrapper[] = {"sh", "-c", script, "sh", NULL};

    snprintf(script, sizeof(script), "echo $$ > %s/cgroup.procs && exec \"$@\"", group->directory);
    server_start_under(server, wrapper, options);
}

static void put_files(const struct server *server)
{
    static const char bytes[FILE_BYTES];

    server_put_links(server, "/file-", FILES, bytes, sizeof(bytes));
}

static void send_request(struct http_client *client, int file, const char *fields)
{
    char request[128];

    snprintf(request, sizeof(request), "GET /file-%d HTTP/1.1\r\nHost: h\r\n%s\r\n", file % FILES,
             fields);
    http_send(client, request);
}

static void expect(struct http_client *client, int status)
{
    http_expect_response(client, status, NULL);
}

static void expect_ok(struct http_client *client)
{
    expect(client, 200);
}

static void open_all(const struct server *server, struct http_client *client, int count)
{
    for (int i = 0; i < count; i++) {
        http_open(&client[i], server_port(server));
        send_request(&client[i], i, "");
    }
}

static void close_all(struct http_client *client, int count)
{
    for (int i = 0; i < count; i++)
        http_close(&client[i]);
}

/* The cache takes in the whole file. */
static bool wants_one_byte(int i, int n)
{
    return (i + n) % 4 != 0;
}

/*
 * Each client requests its next files, all clients at a time; together they request each file. A quarter
 * of the requests are for the whole file, the others, which cost less, for one byte.
 */
static void ask_for_all(struct http_client *client, int round)
{
    for (int i = round * FILES / CLIENTS; i < (round + 1) * FILES / CLIENTS; i++) {
        for (int n = 0; n < CLIENTS; n++)
            send_request(&client[n], i + n * FILES / CLIENTS,
                         wants_one_byte(i, n) ? "Range: bytes=0-0\r\n" : "");
        for (int n = 0; n < CLIENTS; n++)
            expect(&client[n], wants_one_byte(i, n) ? 206 : 200);
    }
}

/* In each worker all files need more than three quarters of the limit. */
SERVER_TEST(caches_stay_below_the_limit)
{
    struct control_group group;

    if (!control_group_create(&group))
        skip();
    put_files(server);
    for (size_t n = 0; n < ARRAY_LENGTH(dispatches); n++) {
        const char *const options[] = {dispatches[n], "workers.processes=2", "workers.threads=4",
                                       "cache.size=64M", NULL};
        struct http_client client[CLIENTS];
        struct segment_reader segment;

        control_group_limit(&group, LIMIT);
        start_in(server, &group, options);
        server_attach(server, &segment);
        for (int i = 0; i < CLIENTS; i++)
            http_open(&client[i], server_port(server));
        for (int round = 0; round < CLIENTS;
             round++) { /* then each client has requested each file */
            ask_for_all(client, round);
            usleep(WATCH_MS * 1000);
        }
        assert_int_equal(server_metric(server, "workers_died"), 0);
        assert_in_range(server_metric(server, "cache_entries"), 1, FILES);
        control_group_limit(&group, UINT64_MAX);
        WAIT_UNTIL(server_count_events(&segment, ENOUGH) == server_count_events(&segment, SHORT));
        for (int round = 0; server_metric(server, "cache_entries") <= FILES; round++)
            ask_for_all(client, round);
        assert_int_equal(server_metric(server, "connections_closed"), 0);
        close_all(client, CLIENTS);
        segment_detach(&segment);
        server_stop(server);
    }
    control_group_remove(&group);
}

/* Another process takes the memory, so that nothing the workers free helps. */
SERVER_TEST(idle_connections_close_and_new_ones_wait)
{
    struct control_group group;

    if (!control_group_create(&group))
        skip();
    put_files(server);
    for (size_t n = 0; n < ARRAY_LENGTH(dispatches); n++) {
        const char *const options[] = {dispatches[n], "workers.processes=1", "workers.threads=2",
                                       "workers.balance_connections=off", NULL};
        struct http_client idle[IDLE_CLIENTS], more[IDLE_CLIENTS];
        struct segment_reader segment;
        uint64_t limit;
        pid_t other;

        start_in(server, &group, options);
        server_attach(server, &segment);
        open_all(server, idle, IDLE_CLIENTS);
        for (int i = 0; i < IDLE_CLIENTS; i++)
            expect_ok(&idle[i]);
        limit = control_group_used(&group) + 256 * MIB;
        control_group_limit(&group, limit);
        other = control_group_hold(&group, limit * 97 / 100 - control_group_used(&group));
        for (int i = 0; i < IDLE_CLIENTS; i++)
            http_expect_closed(&idle[i]);
        WAIT_UNTIL(server_metric(server, "connections_shed_memory") == IDLE_CLIENTS);
        assert_int_equal(server_metric(server, "cache_entries"), 0);
        assert_int_equal(server_count_events(&segment, "workers accept no connections"), 1);
        open_all(server, more, IDLE_CLIENTS);
        if (n == 0)
            WAIT_UNTIL(server_metric(server, "accept_pauses") > 0);
        kill(other, SIGKILL);
        assert_int_equal(waitpid(other, NULL, 0), other);
        for (int i = 0; i < IDLE_CLIENTS; i++)
            expect_ok(&more[i]);
        WAIT_UNTIL(server_count_events(&segment, ENOUGH) == 1);
        assert_int_equal(server_count_events(&segment, SHORT), 1);
        assert_int_equal(server_metric(server, "workers_died"), 0);
        control_group_limit(&group, UINT64_MAX);
        close_all(idle, IDLE_CLIENTS);
        close_all(more, IDLE_CLIENTS);
        segment_detach(&segment);
        server_stop(server);
    }
    control_group_remove(&group);
}
