/* How much of a file can be sent without waiting for a disk, and which bytes are read before. */
#include "daemon/connection/file_window.h"

#include "own_loop.h"
#include "tests/test.h"
#include "tests/unit/wrapped.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/uio.h>

enum { FD = 77, DEVICE = 88, CHUNK = 64 * 1024, DEADLINE_MS = 60000 };

static struct connection connection;
static struct resource resource = {.fd = FD, .device = DEVICE};
static struct file_window window;
static int checks, reads, windows_read; /* calls */
static uint64_t checked;                /* offset of the last check */
static uint64_t read_from, read_bytes;  /* by the job */
static uint64_t file_bytes;             /* end of the file */
static int check_error;                 /* 0: the byte is in the page cache */
static bool out_of_memory;

/* The check whether the last byte is in the page cache. */
ssize_t __wrap_preadv2(int fd, const struct iovec *pieces, int count, off_t offset, int flags)
{
    assert_int_equal(fd, FD);
    assert_int_equal(count, 1);
    assert_int_equal(pieces[0].iov_len, 1);
    assert_int_equal(flags, RWF_NOWAIT);
    checks++;
    checked = (uint64_t)offset;
    errno = check_error;
    return check_error == 0 ? 1 : -1;
}

/* On an offload thread. */
ssize_t __wrap_pread(int fd, void *buffer, size_t length, off_t offset)
{
    (void)buffer;
    assert_int_equal(fd, FD);
    assert_true(length >= CHUNK);
    if (reads++ == 0)
        read_from = (uint64_t)offset;
    assert_int_equal(offset, read_from + read_bytes);
    if ((uint64_t)offset >= file_bytes)
        return 0;
    length =
        file_bytes - (uint64_t)offset < CHUNK ? (size_t)(file_bytes - (uint64_t)offset) : CHUNK;
    read_bytes += length;
    return (ssize_t)length;
}

void *__wrap_calloc(size_t count, size_t size)
{
    return out_of_memory ? NULL : __real_calloc(count, size);
}

static void on_read(struct file_window *of, struct connection *reader)
{
    assert_ptr_equal(of, &window);
    assert_ptr_equal(reader, &connection);
    assert_int_equal(connection.client.jobs_out, 0);
    windows_read++;
}

static int set_up(void **state)
{
    (void)state;
    loop_open();
    worker.offload = offload_start(1, 1, 1, segment_worker(&segment, 0));
    connection = (struct connection){.loop = &loop};
    atomic_store(&resource.entry.references, 1);
    window = (struct file_window){.read = on_read};
    checks = reads = windows_read = check_error = 0;
    checked = read_from = read_bytes = 0;
    file_bytes = UINT64_MAX;
    out_of_memory = false;
    return worker.offload != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    assert_int_equal(atomic_load(&resource.entry.references), 1); /* the test's */
    offload_stop(worker.offload);
    loop_close();
    return 0;
}

const struct test_fixture test_fixture = {set_up, tear_down};

static uint64_t bytes_at(uint64_t offset, uint64_t length)
{
    return file_window_bytes(&window, &connection, &resource, offset, length);
}

/* Until the job comes back. */
static void finish_job(void)
{
    struct pollfd wait = {.fd = loop.mailbox.eventfd, .events = POLLIN};

    assert_int_equal(connection.client.jobs_out, 1);
    assert_int_equal(loop.context.jobs_out, 1);
    assert_int_equal(windows_read, 0);
    assert_int_equal(poll(&wait, 1, DEADLINE_MS), 1);
    mailbox_deliver(&loop.mailbox, &loop);
    assert_int_equal(windows_read, 1);
    assert_int_equal(loop.context.jobs_out, 0);
}

TEST(last_byte_of_a_window_is_checked_once)
{
    const uint64_t whole = FILE_WINDOW_BYTES;

    assert_int_equal(bytes_at(100, 2 * whole), whole);
    assert_int_equal(checks, 1);
    assert_int_equal(checked, 100 + whole - 1);
    assert_int_equal(bytes_at(100, 2 * whole), whole);
    assert_int_equal(bytes_at(100 + whole - 1, 2 * whole), 1);
    assert_int_equal(bytes_at(200, 10), 10);
    assert_int_equal(checks, 1);
    assert_int_equal(bytes_at(100 + whole, 50), 50); /* the next window */
    assert_int_equal(checks, 2);
    assert_int_equal(checked, 100 + whole + 49);
    assert_int_equal(bytes_at(99, 1), 1); /* before it */
    assert_int_equal(checks, 3);
    assert_int_equal(checked, 99);
}

TEST(cold_window_is_read_by_a_job)
{
    check_error = EAGAIN;
    assert_int_equal(bytes_at(1000, 3 * CHUNK), 0);
    finish_job();
    assert_int_equal(loop_metric(METRIC_offloaded), 1);
    assert_int_equal(read_from, 1000);
    assert_int_equal(read_bytes, 3 * CHUNK);
    assert_int_equal(reads, 3);
    checks = 0;
    assert_int_equal(bytes_at(1000, 3 * CHUNK), 3 * CHUNK);
    assert_int_equal(checks, 0);
}

TEST(job_ends_with_the_file)
{
    check_error = EAGAIN;
    file_bytes = CHUNK + 1;
    assert_int_equal(bytes_at(0, 4 * CHUNK), 0);
    finish_job();
    assert_int_equal(read_bytes, CHUNK + 1);
    assert_int_equal(reads, 3);
}

static void expect_sent_at_once(void)
{
    assert_int_equal(bytes_at(0, 10), 10);
    assert_int_equal(atomic_load(&resource.entry.references), 1);
    assert_int_equal(connection.client.jobs_out, 0);
    assert_int_equal(loop.context.jobs_out, 0);
    assert_int_equal(loop_metric(METRIC_offloaded), 0);
}

TEST(bytes_are_sent_after_a_read_error)
{
    check_error = EIO;
    expect_sent_at_once();
}

static sem_t begins, gate;

static void wait_at_the_gate(struct offload_job *job)
{
    (void)job;
    sem_post(&begins);
    sem_wait(&gate);
}

static void ignore_job(struct offload_job *job)
{
    (void)job;
}

TEST(cold_bytes_are_sent_if_no_job_can_be_submitted)
{
    static struct offload_job jobs[2];

    assert_true(sem_init(&begins, 0, 0) == 0 && sem_init(&gate, 0, 0) == 0);
    check_error = EAGAIN;
    out_of_memory = true;
    expect_sent_at_once();
    out_of_memory = false;
    file_window_clear(&window);
    for (int i = 0; i < 2; i++) { /* one runs, the other one fills the queue */
        jobs[i] = (struct offload_job){.run = wait_at_the_gate,
                                       .finish = ignore_job,
                                       .work = SPAN("/file"),
                                       .owner = &loop.mailbox};
        assert_true(offload_submit(worker.offload, &jobs[i], LOOP_NOW_NS));
        if (i == 0)
            sem_wait(&begins);
    }
    expect_sent_at_once();
    sem_post(&gate);
    sem_post(&gate);
}
