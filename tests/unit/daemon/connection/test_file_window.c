/* How much of a file can be sent without waiting for a disk, and which bytes are read before. */
#include "daemon/connection/file_window.h"

#include "common/segment_writer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FD = 77, DEVICE = 88, CHUNK = 64 * 1024 };

static struct event_loop loop; /* too large for the stack */
static struct worker_context worker;
static struct connection connection;
static struct resource resource;
static struct file_window window;
static struct mailbox mailbox;
static _Atomic uint64_t metrics[METRIC_COUNT];

static int checks, reads, windows_read; /* calls */
static uint64_t checked;                /* offset of the last check */
static uint64_t read_from, read_bytes;  /* by the job */
static uint64_t file_bytes;             /* end of the file */
static int check_error;                 /* 0: the byte is in the page cache */
static int references;
static bool queue_is_full, out_of_memory;
static struct offload_job *job;

/* Replaced by the linker: see wrap() in tests/unit/CMakeLists.txt. */
/* NOLINTBEGIN(clang-diagnostic-reserved-identifier): names of the linker */
ssize_t __wrap_files_read(int fd, uint64_t device, void *buffer, size_t length, uint64_t offset,
                          enum files_effort effort);
bool __wrap_offload_submit(struct offload *offload, struct offload_job *submitted, uint64_t now_ns);
void __wrap_cache_acquire(struct cache_entry *entry);
void __wrap_resource_release(struct cache *cache, struct resource *released);
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
/* NOLINTEND(clang-diagnostic-reserved-identifier) */

ssize_t __wrap_files_read(int fd, uint64_t device, void *buffer, size_t length, uint64_t offset,
                          enum files_effort effort)
{
    (void)buffer;
    assert_int_equal(fd, FD);
    assert_int_equal(device, DEVICE);
    if (effort == FILES_CACHED_ONLY) {
        assert_int_equal(length, 1);
        checks++;
        checked = offset;
        errno = check_error;
        return check_error == 0 ? 1 : -1;
    }
    assert_true(length >= CHUNK);
    if (reads++ == 0)
        read_from = offset;
    assert_int_equal(offset, read_from + read_bytes);
    if (offset >= file_bytes)
        return 0;
    length = file_bytes - offset < CHUNK ? (size_t)(file_bytes - offset) : CHUNK;
    read_bytes += length;
    return (ssize_t)length;
}

bool __wrap_offload_submit(struct offload *offload, struct offload_job *submitted, uint64_t now_ns)
{
    (void)offload, (void)now_ns;
    if (queue_is_full)
        return false;
    assert_ptr_equal(submitted->owner, &mailbox);
    job = submitted;
    return true;
}

void __wrap_cache_acquire(struct cache_entry *entry)
{
    assert_ptr_equal(entry, &resource.entry);
    references++;
}

void __wrap_resource_release(struct cache *cache, struct resource *released)
{
    (void)cache;
    assert_ptr_equal(released, &resource);
    references--;
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
    memset(&loop, 0, sizeof(loop));
    memset(metrics, 0, sizeof(metrics));
    loop.context.worker = &worker;
    loop.context.metrics = metrics;
    loop.context.mailbox = &mailbox;
    memset(&connection, 0, sizeof(connection));
    connection.loop = &loop;
    resource.fd = FD;
    resource.device = DEVICE;
    window = (struct file_window){.read = on_read};
    checks = reads = windows_read = check_error = references = 0;
    checked = read_from = read_bytes = 0;
    file_bytes = UINT64_MAX;
    queue_is_full = out_of_memory = false;
    job = NULL;
    return 0;
}

static uint64_t bytes_at(uint64_t offset, uint64_t length)
{
    return file_window_bytes(&window, &connection, &resource, offset, length);
}

static void last_byte_of_a_window_is_checked_once(void **state)
{
    const uint64_t whole = FILE_WINDOW_BYTES;

    (void)state;
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

static void cold_window_is_read_by_a_job(void **state)
{
    (void)state;
    check_error = EAGAIN;
    assert_int_equal(bytes_at(1000, 3 * CHUNK), 0);
    assert_non_null(job);
    assert_int_equal(references, 1);
    assert_int_equal(connection.client.jobs_out, 1);
    assert_int_equal(loop.context.jobs_out, 1);
    assert_int_equal(metric_get(metrics, METRIC_offloaded), 1);
    job->run(job);
    assert_int_equal(read_from, 1000);
    assert_int_equal(read_bytes, 3 * CHUNK);
    assert_int_equal(reads, 3);
    assert_int_equal(windows_read, 0);
    job->finish(job);
    assert_int_equal(windows_read, 1);
    assert_int_equal(references, 0);
    assert_int_equal(loop.context.jobs_out, 0);
    checks = 0;
    assert_int_equal(bytes_at(1000, 3 * CHUNK), 3 * CHUNK);
    assert_int_equal(checks, 0);
}

static void job_ends_with_the_file(void **state)
{
    (void)state;
    check_error = EAGAIN;
    file_bytes = CHUNK + 1;
    assert_int_equal(bytes_at(0, 4 * CHUNK), 0);
    job->run(job);
    assert_int_equal(read_bytes, CHUNK + 1);
    assert_int_equal(reads, 3);
    job->finish(job);
}

static void expect_sent_at_once(void)
{
    assert_int_equal(bytes_at(0, 10), 10);
    assert_null(job);
    assert_int_equal(references, 0);
    assert_int_equal(connection.client.jobs_out, 0);
    assert_int_equal(loop.context.jobs_out, 0);
    assert_int_equal(metric_get(metrics, METRIC_offloaded), 0);
}

static void bytes_are_sent_after_a_read_error(void **state)
{
    (void)state;
    check_error = EIO;
    expect_sent_at_once();
}

static void cold_bytes_are_sent_if_no_job_can_be_submitted(void **state)
{
    (void)state;
    check_error = EAGAIN;
    queue_is_full = true;
    expect_sent_at_once();
    file_window_clear(&window);
    queue_is_full = false;
    out_of_memory = true;
    expect_sent_at_once();
    out_of_memory = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(last_byte_of_a_window_is_checked_once, set_up),
        cmocka_unit_test_setup(cold_window_is_read_by_a_job, set_up),
        cmocka_unit_test_setup(job_ends_with_the_file, set_up),
        cmocka_unit_test_setup(bytes_are_sent_after_a_read_error, set_up),
        cmocka_unit_test_setup(cold_bytes_are_sent_if_no_job_can_be_submitted, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
