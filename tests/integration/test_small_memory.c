/*
 * A small /dev/shm, such as containers have: changes are refused in time, or workers are replaced
 * one by one. Needs root for a mount namespace of its own.
 */
#include "http_client.h"
#include "load.h"
#include "patience.h"
#include "server.h"

#include "common/macros.h"
#include "tests/test.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

static bool small; /* /dev/shm of this process and its children is small */

static int mount_small(void)
{
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        return -1;
    return mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=12m");
}

static int mount_for_all(void **state)
{
    (void)state;
    small = mount_small() == 0;
    if (!small)
        fprintf(stderr, "skipped: no mount namespace: %s\n", strerror(errno));
    return 0;
}

const struct test_fixture test_group_fixture = {mount_for_all, NULL};
static void start_under_load(struct server *server, const char *dispatch, struct load **load)
{
    server_put_text(server, "/a", "a");
    server_start(server, "cache.max_entries=auto", "workers.processes=2", "workers.threads=2",
                 dispatch, NULL);
    *load = load_start(&(struct load_plan){
        .port = server_port(server), .clients = 4, .target = "/a", .body = "a", .body_length = 1});
    load_pass(*load, LOAD_STEP / 10);
}

SERVER_TEST(workers_are_replaced_one_by_one)
{
    static const char *const dispatches[] = {"workers.dispatch=kernel", "workers.dispatch=master"};

    if (!small)
        skip();
    for (size_t i = 0; i < ARRAY_LENGTH(dispatches); i++) {
        struct load_result result;
        struct load *load;

        start_under_load(server, dispatches[i], &load);
        for (int n = 0; n < 3; n++) {
            server_do(server, "reload");
            load_pass(load, LOAD_STEP / 10);
            server_do(server, "restart all");
            load_pass(load, LOAD_STEP / 10);
        }
        server_do(server, "restart 0");
        server_do(server, "threads 1");
        server_do(server, "threads 2");
        result = load_finish(load);
        load_check(&result);
        server_stop(server);
    }
}

SERVER_TEST(growth_without_memory_is_refused)
{
    static const char *const changes[] = {"threads 60", "workers 16"};
    struct load_result result;
    struct load *load;

    if (!small)
        skip();
    start_under_load(server, NULL, &load);
    for (size_t i = 0; i < ARRAY_LENGTH(changes); i++) {
        server_rejects(server, changes[i], "no shared memory for");
        load_pass(load, LOAD_STEP / 10);
        server_do(server, "reload");
    }
    result = load_finish(load);
    load_check(&result);
    server_stop(server);
}
