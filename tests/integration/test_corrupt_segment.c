/*
 * Values that a compromised worker may leave in its pages of the segment. The test stores them in
 * its place: the segment belongs to the user of the master.
 */
#include "http_client.h"
#include "patience.h"
#include "server.h"

#include "common/macros.h"
#include "common/segment_reader.h"
#include "tests/test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* The segment with write access. */
struct forgery {
    struct segment_reader reader;
    struct segment segment;
};

static void open_segment(const struct server *server, struct forgery *forgery)
{
    char path[128];
    int fd;

    server_attach(server, &forgery->reader);
    forgery->segment = forgery->reader.map;
    server_segment_path(server, path, sizeof(path));
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    forgery->segment.base =
        mmap(NULL, forgery->segment.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(forgery->segment.base, MAP_FAILED);
    close(fd);
}

static void close_segment(struct forgery *forgery)
{
    munmap(forgery->segment.base, forgery->segment.size);
    segment_detach(&forgery->reader);
}

static pid_t only_worker(const struct server *server)
{
    pid_t pid = 0;

    assert_int_equal(server_workers(server, &pid, 1), 1);
    return pid;
}

static bool is_replaced(const struct server *server, pid_t former)
{
    pid_t pid;

    return server_workers(server, &pid, 1) == 1 && pid != former;
}

SERVER_TEST(hang_after_heartbeat_of_the_future_is_noticed)
{
    struct forgery forgery;
    pid_t worker;

    server_start(server, "workers.processes=1", "workers.heartbeat_timeout=4s", NULL);
    open_segment(server, &forgery);
    worker = only_worker(server);
    server_signal(worker, SIGSTOP);
    atomic_store(&segment_worker(&forgery.segment, 0)->heartbeat_ns, UINT64_MAX);
    WAIT_UNTIL(is_replaced(server, worker));
    close_segment(&forgery);
    server_stop(server);
}

SERVER_TEST(successor_logs_all_requests_whatever_the_ring_contained)
{
    static const uint64_t heads[] = {0, 12345, UINT64_MAX - 2, UINT64_MAX / 2};
    enum { REQUESTS = 50 };
    struct forgery forgery;
    uint64_t lines = 0;

    server_put_text(server, "/page", "text");
    server_start(server, "workers.processes=1", "workers.threads=1", NULL);
    open_segment(server, &forgery);
    for (size_t i = 0; i < ARRAY_LENGTH(heads); i++) {
        const struct log_ring ring = segment_ring(&forgery.segment, 0);
        pid_t worker = only_worker(server);

        server_signal(worker, SIGSTOP);
        atomic_store(&ring.words->claimed, heads[i]);
        atomic_store(&ring.words->head, heads[i]);
        server_signal(worker, SIGKILL);
        WAIT_UNTIL(is_replaced(server, worker));
        for (int request = 0; request < REQUESTS; request++)
            http_expect(server_port(server), "/page", 200);
        lines += REQUESTS;
        server_expect_metric(server, "log_lines", lines);
    }
    assert_int_equal(server_metric(server, "log_dropped"), 0);
    close_segment(&forgery);
    server_stop(server);
}
