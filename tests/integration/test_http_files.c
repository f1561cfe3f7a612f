/*
 * Files: visibility, exact content, changes.
 */
#include "held_thread.h"
#include "http_client.h"
#include "patience.h"
#include "scratch.h"
#include "server.h"

#include "common/macros.h"
#include "tests/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LARGEST = 8 * 1024 * 1024 };

/* Returns LENGTH bytes that depend on SEED and position. The caller must free them. */
static char *make_bytes(size_t length, unsigned seed)
{
    char *bytes = malloc(length + 1);

    assert_non_null(bytes);
    for (size_t begin = 0; begin < length; begin += 4099)
        for (size_t i = begin; i < length && i < begin + 4099; i++)
            bytes[i] = (char)(i * 131 + begin / 4099 + seed);
    bytes[length] = '\0';
    return bytes;
}

static void expect_body(const struct server *server, const char *target, const char *body,
                        size_t length)
{
    struct http_response response;

    http_get(server_port(server), target, 200, &response);
    assert_int_equal(response.body_length, length);
    assert_memory_equal(response.body, body, length);
    http_response_free(&response);
}

static void in_site(const struct server *server, const char *path, char *full)
{
    snprintf(full, SCRATCH_PATH_MAX, "%s/www%s", server_directory(server), path);
}

/* --- Visibility --- */

SERVER_TEST(dot_files_are_hidden)
{
    static const struct {
        const char *target;
        int status;
    } cases[] = {
        {"/.secret", 404},           {"/%2esecret", 404},
        {"/sub/.git/config", 404},   {"/sub/.git/", 404},
        {"/..strange", 404},         {"/.well-known/token", 200},
        {"/.well-known", 301},       {"/.well-known/.hidden", 404},
        {"/.well-known2/file", 404}, {"/sub/.well-known/file", 404},
        {"/plain.name", 200},
    };

    server_put_text(server, "/.secret", "x");
    server_put_text(server, "/sub/.git/config", "x");
    server_put_text(server, "/..strange", "x");
    server_put_text(server, "/.well-known/token", "x");
    server_put_text(server, "/.well-known/.hidden", "x");
    server_put_text(server, "/.well-known2/file", "x");
    server_put_text(server, "/sub/.well-known/file", "x");
    server_put_text(server, "/plain.name", "x");
    server_start(server, NULL);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
        http_expect(server_port(server), cases[i].target, cases[i].status);
    server_stop(server);
}

SERVER_TEST(special_files_are_rejected_without_blocking)
{
    char path[SCRATCH_PATH_MAX];

    server_put_text(server, "/file", "x");
    server_put_text(server, "/unreadable", "x");
    in_site(server, "/fifo", path);
    assert_int_equal(mkfifo(path, 0644), 0);
    in_site(server, "/unreadable", path);
    assert_int_equal(chmod(path, 0), 0);
    server_start(server, NULL);
    http_expect(server_port(server), "/fifo", 403);
    if (geteuid() != 0) /* root can read it anyway */
        http_expect(server_port(server), "/unreadable", 403);
    http_expect(server_port(server), "/file", 200);
    server_stop(server);
}

/* --- Content --- */

static const char *const settings[][3] = {
    {"cache.enabled=on"},
    {"cache.enabled=off"},
    {"cache.policy=lru"},
    {"cache.max_object=1K"},
    {"workers.offload_threads=1", "workers.offload_queue=1"},
    {"workers.dispatch=master"},
};

SERVER_TEST(content_is_exact_with_all_settings)
{
    static const size_t sizes[] = {0,     1,      1023,    1024,    1025,   16384,
                                   65537, 300000, 1048576, 1048577, LARGEST};
    char *bytes[ARRAY_LENGTH(sizes)], path[32];

    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        bytes[i] = make_bytes(sizes[i], (unsigned)i);
        snprintf(path, sizeof(path), "/%zu", sizes[i]);
        server_put(server, path, bytes[i], sizes[i]);
    }
    for (size_t set = 0; set < ARRAY_LENGTH(settings); set++) {
        server_start(server, settings[set][0], settings[set][1], NULL);
        for (int round = 0; round < 2; round++) {
            for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
                snprintf(path, sizeof(path), "/%zu", sizes[i]);
                expect_body(server, path, bytes[i], sizes[i]);
            }
        }
        server_stop(server);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++)
        free(bytes[i]);
}

SERVER_TEST(large_files_are_sent_to_several_clients_at_once)
{
    enum { CLIENTS = 6 };
    struct http_client client[CLIENTS];
    char *bytes = make_bytes(LARGEST, 7);

    server_put(server, "/large.bin", bytes, LARGEST);
    server_start(server, "workers.processes=1", "workers.threads=1", NULL);
    for (int i = 0; i < CLIENTS; i++) {
        http_open(&client[i], server_port(server));
        http_send(&client[i], "GET /large.bin HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    for (int i = CLIENTS; i-- > 0;) {
        struct http_response response;

        http_receive(&client[i], HTTP_WITH_BODY, &response);
        assert_int_equal(response.body_length, LARGEST);
        assert_memory_equal(response.body, bytes, LARGEST);
        http_response_free(&response);
        http_close(&client[i]);
    }
    free(bytes);
    server_stop(server);
}

SERVER_TEST(cache_is_used_and_counted_only_if_on)
{
    static const struct {
        const char *option;
        uint64_t hits, inserted;
    } cases[] = {{"cache.enabled=on", 4, 1}, {"cache.enabled=off", 0, 0}};

    server_put_text(server, "/a", "a");
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        server_start(server, cases[i].option, "workers.processes=1", NULL);
        for (int n = 0; n < 5; n++)
            expect_body(server, "/a", "a", 1);
        server_expect_metric(server, "cache_hits", cases[i].hits);
        server_expect_metric(server, "cache_inserted", cases[i].inserted);
        server_stop(server);
    }
}

SERVER_TEST(small_cache_stays_within_limits)
{
    enum { FILES = 60, BYTES = 8 * 1024, BOUND = 64 * 1024 };
    static const char *const policies[] = {"cache.policy=sieve", "cache.policy=lru"};
    char *bytes = make_bytes(BYTES + FILES, 3), path[16];

    for (int i = 0; i < FILES; i++) {
        snprintf(path, sizeof(path), "/%d", i);
        server_put(server, path, bytes + i, BYTES);
    }
    for (size_t policy = 0; policy < ARRAY_LENGTH(policies); policy++) {
        server_start(server, "cache.size=64K", "cache.max_object=16K", policies[policy],
                     "workers.processes=1", NULL);
        for (int i = 0; i < 4 * FILES; i++) {
            snprintf(path, sizeof(path), "/%d", i % 7 == 0 ? 0 : i % FILES);
            expect_body(server, path, bytes + (i % 7 == 0 ? 0 : i % FILES), BYTES);
        }
        assert_in_range(server_metric(server, "cache_bytes"), 1, BOUND);
        assert_true(server_metric(server, "cache_evicted") > 0);
        server_stop(server);
    }
    free(bytes);
}

/* The kernel knows no speed of the loopback device: the file can be opened, but not read. */
SERVER_TEST(failed_read_is_500)
{
    static const char root[] = "/sys/devices/virtual/net/lo", file[] = "/speed";
    char option[64], path[64], byte;
    int fd;

    snprintf(path, sizeof(path), "%s%s", root, file);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, &byte, 1) >= 0) {
        print_message("skipped: %s can be read, or does not exist\n", path);
        close(fd);
        return;
    }
    close(fd);
    snprintf(option, sizeof(option), "server.root=%s", root);
    server_start(server, option, NULL);
    for (int i = 0; i < 2; i++) /* not cached */
        http_expect(server_port(server), file, 500);
    http_expect(server_port(server), "/missing", 404);
    server_expect_metric(server, "responses_500", 2);
    server_expect_metric(server, "cache_entries", 0);
    server_stop(server);
}

static void ask_on(struct http_client *client, const char *last_bytes, int status, const char *body)
{
    http_send(client, last_bytes);
    http_expect_response(client, status, body);
}

SERVER_TEST(default_cache_holds_5000_small_files)
{
    enum { FILES = 5000 };
    struct http_client client;
    static const char text[] = "a small file";
    char request[64];

    server_put_links(server, "/", FILES, text, sizeof(text) - 1);
    server_start(server, "workers.processes=1", "cache.max_entries=auto", NULL);
    http_open(&client, server_port(server));
    for (int i = 0; i < FILES; i++) {
        snprintf(request, sizeof(request), "GET /%d HTTP/1.1\r\nHost: h\r\n\r\n", i);
        ask_on(&client, request, 200, text);
    }
    http_close(&client);
    server_expect_metric(server, "cache_entries", FILES);
    server_expect_metric(server, "cache_evicted", 0);
    server_stop(server);
}

/* --- Changes --- */

static bool body_is(const struct server *server, const char *target, const char *body)
{
    struct http_response response;
    bool same;

    http_get(server_port(server), target, 200, &response);
    same = strcmp(response.body, body) == 0;
    http_response_free(&response);
    return same;
}

static bool status_is(const struct server *server, const char *target, int status)
{
    struct http_response response;
    char request[128];
    int got;

    snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: h\r\n\r\n", target);
    http_request(server_port(server), request, &response);
    got = response.status;
    http_response_free(&response);
    return got == status;
}

SERVER_TEST(file_replaced_by_rename_is_served)
{
    static const char *const options[] = {"cache.revalidate=0", "cache.revalidate=200ms",
                                          "cache.enabled=off"};
    char path[SCRATCH_PATH_MAX];

    in_site(server, "/page.txt", path);
    for (size_t i = 0; i < ARRAY_LENGTH(options); i++) {
        server_put_text(server, "/page.txt", "before");
        server_start(server, options[i], NULL);
        expect_body(server, "/page.txt", "before", 6);
        server_put_text(server, "/page.txt", "behind");
        WAIT_UNTIL(body_is(server, "/page.txt", "behind"));
        unlink(path);
        WAIT_UNTIL(status_is(server, "/page.txt", 404));
        server_put_text(server, "/page.txt/index.html", "a directory now");
        WAIT_UNTIL(status_is(server, "/page.txt", 301));
        assert_true(body_is(server, "/page.txt/", "a directory now"));
        server_stop(server);
        scratch_remove(path);
    }
}

SERVER_TEST(revalidate_0_serves_change_at_once)
{
    char body[16];

    server_put_text(server, "/n", "start");
    server_start(server, "cache.revalidate=0", NULL);
    for (int i = 0; i < 50; i++) {
        snprintf(body, sizeof(body), "%d", i);
        server_put_text(server, "/n", body);
        assert_true(body_is(server, "/n", body));
    }
    server_stop(server);
}

/*
 * The thread wakes up for the begin of a request, and is stopped before it reads, until the rest
 * arrives: the loop iteration began when the cached state was new.
 */
static void try_long_iteration(struct server *server, int status)
{
    enum { REVALIDATE_S = 2 };
    struct http_client client;
    pid_t worker, thread;

    if (!server_has_own_model())
        skip(); /* which thread serves the connection? */
    server_start(server, "cache.revalidate=2s", "workers.processes=1", "workers.threads=1",
                 "server.jail=off", NULL);
    http_open(&client, server_port(server));
    WAIT_UNTIL(server_workers(server, &worker, 1) == 1);
    thread = held_thread_find(worker);
    for (int i = 0; i < 3; i++) /* an offload thread may answer the first one */
        ask_on(&client, "GET /n HTTP/1.1\r\nHost: h\r\n\r\n", status, status == 200 ? "old" : NULL);
    if (!held_thread_stop(thread))
        skip();
    http_send(&client, "GET /n HTTP/1.1\r\n");
    held_thread_run_to(thread, SYS_recvfrom);
    server_put_text(server, "/n", "new");
    sleep(REVALIDATE_S);
    http_send(&client, "Host: h\r\n\r\n");
    held_thread_release(thread);
    ask_on(&client, "", 200, "new");
    http_close(&client);
    server_stop(server);
}

SERVER_TEST(change_during_a_long_iteration_is_served)
{
    server_put_text(server, "/n", "old");
    try_long_iteration(server, 200);
}

SERVER_TEST(new_file_during_a_long_iteration_is_served)
{
    try_long_iteration(server, 404);
}

/*
 * No response mixes two versions: all letters of a body are equal and its length is as announced.
 */
SERVER_TEST(changing_file_is_never_mixed)
{
    enum { SMALL = 50 * 1000, LARGE = 3 * 1000 * 1000 };
    struct http_client client;
    char *versions[2] = {malloc(LARGE), malloc(LARGE)};

    memset(versions[0], 'a', LARGE);
    memset(versions[1], 'b', LARGE);
    server_put(server, "/f", versions[0], SMALL);
    server_start(server, "cache.revalidate=0", NULL);
    http_open(&client, server_port(server));
    for (int i = 0; i < 120; i++) {
        struct http_response response;
        size_t length = i % 3 == 0 ? LARGE : SMALL;

        http_send(&client, "GET /f HTTP/1.1\r\nHost: h\r\n\r\n");
        server_put(server, "/f", versions[i % 2], length);
        http_receive(&client, HTTP_WITH_BODY, &response);
        assert_int_equal(response.status, 200);
        assert_true(response.body_length == SMALL || response.body_length == LARGE);
        if (memcmp(response.body, response.body + 1, response.body_length - 1) != 0)
            fail_msg("a mixture of two versions");
        http_response_free(&response);
    }
    http_close(&client);
    free(versions[0]);
    free(versions[1]);
    server_stop(server);
}

/* An offload thread reads it, because a serving thread does not wait for a disk. */
SERVER_TEST(file_that_is_only_on_disk_is_read_by_another_thread)
{
    char *bytes = make_bytes(LARGEST, 7), path[SCRATCH_PATH_MAX];
    struct http_client client;
    struct http_response response;
    uint64_t before;
    bool was_cold = false, was_offloaded = false;

    server_put(server, "/cold.bin", bytes, LARGEST);
    in_site(server, "/cold.bin", path);
    server_start(server, "workers.processes=1", "workers.threads=1", "cache.revalidate=1h", NULL);
    http_open(&client, server_port(server));
    http_send(&client, "HEAD /cold.bin HTTP/1.1\r\nHost: h\r\n\r\n");
    http_receive(&client, HTTP_HEAD_ONLY, &response);
    http_response_free(&response);
    http_close(&client);
    before = server_metric(server, "offloaded");
    for (int i = 0; i < SCRATCH_COLD_TRIES && !was_offloaded; i++) {
        was_cold = scratch_make_cold(path) || was_cold;
        expect_body(server, "/cold.bin", bytes, LARGEST);
        was_offloaded = server_metric(server, "offloaded") > before;
    }
    assert_true(was_offloaded || !was_cold);
    server_stop(server);
    free(bytes);
    if (!was_cold)
        skip();
}

/*
 * The Content-Length cannot be met: the sent bytes are right, the connection closes, and the
 * response is counted as cut short.
 */
SERVER_TEST(file_truncated_while_sent_closes_connection)
{
    enum { HUGE_FILE = 32 * 1024 * 1024 }; /* larger than the socket buffers */
    struct http_client client;
    char *bytes = make_bytes(HUGE_FILE, 11), path[SCRATCH_PATH_MAX];
    const int small = 64 * 1024;
    const char *end;

    server_put(server, "/large.bin", bytes, HUGE_FILE);
    server_start(server, NULL);
    http_open(&client, server_port(server));
    setsockopt(client.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    http_send(&client, "GET /large.bin HTTP/1.1\r\nHost: h\r\n\r\n");
    server_expect_metric(server, "connections_busy", 1);
    in_site(server, "/large.bin", path);
    assert_int_equal(truncate(path, HUGE_FILE / 2), 0);
    http_read_to_end(&client);
    end = memmem(client.bytes, client.length, "\r\n\r\n", 4);
    assert_non_null(end);
    end += 4;
    assert_true(client.length - (size_t)(end - client.bytes) < HUGE_FILE);
    assert_memory_equal(end, bytes, HUGE_FILE / 2);
    http_close(&client);
    server_expect_metric(server, "responses_cut_short", 1);
    free(bytes);
    server_stop(server);
}
