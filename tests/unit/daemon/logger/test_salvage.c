/* Lines left by a killed server: what the next one writes, and to which file. */
#include "daemon/logger/salvage.h"

#include "common/log_record.h"
#include "tests/test.h"
#include "tests/unit/event_output.h"
#include "tests/unit/own_segment.h"
#include "tests/unit/wrapped.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { THREADS = 3, HOSTS = 4, SIZE_BEFORE = 100, BATCH_BYTES = 50 };

static char *first_name[] = {"a.example"}, *second_name[] = {"b.example"};
static struct config_host hosts[] = {
    {.names = first_name, .name_count = 1, .access_log = "/log/a"},
    {.names = second_name, .name_count = 1, .access_log = "/log/b"},
};
static const struct config config = {.log_access = "/log/all", .hosts = hosts, .host_count = 2};

static struct segment segment;
static struct log_files files;
static int host_fds[3]; /* and one after the descriptors of the logs */
static struct salvage salvage;

static bool out_of_memory;

void *__wrap_realloc(void *memory, size_t size)
{
    return out_of_memory ? NULL : __real_realloc(memory, size);
}

/*
 * Thread slot 1 is not reserved. The hosts have the entries 2 and 3, and have changed their order.
 */
static int set_up(void **state)
{
    (void)state;
    if (own_segment_create(
            &segment, (struct segment_plan){.max_threads = THREADS, .max_hosts = HOSTS}) != 0 ||
        segment_reserve_worker(&segment, 0) != 0 || segment_reserve_thread(&segment, 0) != 0 ||
        segment_reserve_thread(&segment, 2) != 0)
        return -1;
    segment_store_host(&segment, 0, 10, "*");
    segment_store_host(&segment, 2, 12, "b.example");
    segment_store_host(&segment, 3, 13, "a.example");
    files = (struct log_files){.config = &config, .host_fd = host_fds};
    if (log_targets_make(&files.targets, &config) != 0)
        return -1;
    files.fd[LOG_ACCESS] = memfd_create("access", MFD_CLOEXEC);
    files.fd[LOG_ERROR] = -1;
    host_fds[0] = memfd_create("a", MFD_CLOEXEC);
    host_fds[1] = memfd_create("b", MFD_CLOEXEC);
    host_fds[2] = memfd_create("other", MFD_CLOEXEC);
    salvage = (struct salvage){.words = NULL};
    events_forget();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    salvage_free(&salvage);
    for (uint32_t log = 0; log < LOG_KINDS + 2; log++)
        log_files_lose(&files, log);
    close(host_fds[2]);
    log_targets_free(&files.targets);
    segment_destroy(&segment);
    return 0;
}

const struct test_fixture test_fixture = {set_up, tear_down};

/* Appends the record of a request by thread THREAD for the host with ENTRY. */
static void append(uint32_t thread, uint16_t entry, uint16_t status)
{
    const struct log_record record = {
        .host = entry, .status = status, .request_line = {"GET /a/page HTTP/1.1", 20}};
    const struct log_ring ring = segment_ring(&segment, thread);
    uint64_t words[LOG_RECORD_WORDS_MAX];
    uint64_t count = log_record_pack(&record, words);

    log_ring_append(&ring, words, count);
}

/* Reads the salvage, and expects just COUNT records with these STATUSES and TARGETS in it. */
static void expect(size_t count, const uint16_t *statuses, const uint32_t *targets)
{
    size_t position = 0;

    salvage_read(&salvage, &segment, &files);
    for (size_t i = 0; i < count; i++) {
        struct log_record record;

        assert_true(position < salvage.count);
        assert_int_equal(log_record_unpack(salvage.words + position, &record), 0);
        assert_int_equal(record.status, statuses[i]);
        assert_int_equal(record.request_line.length, 20);
        assert_memory_equal(record.request_line.start, "GET /a/page HTTP/1.1", 20);
        assert_int_equal(salvage_target(salvage.words + position, &files.targets), targets[i]);
        position += log_ring_words(salvage.words[position]);
    }
    assert_int_equal(position, salvage.count);
}

TEST(each_record_has_the_target_of_its_host)
{
    static const uint16_t statuses[] = {201, 202, 203, 204, 205, 206};
    static const uint32_t targets[] = {0, 2, 1, 0, 0, 2};

    append(0, 0, 201);
    append(0, 2, 202);
    append(0, 3, 203);
    append(0, 1, 204); /* an entry that is not in use */
    append(0, UINT16_MAX, 205);
    append(2, 2, 206);
    expect(6, statuses, targets);
    assert_string_equal(last_event(), "");
}

TEST(records_have_target_0_without_host_files)
{
    static const uint16_t statuses[] = {201};
    static const uint32_t targets[] = {0};

    log_targets_free(&files.targets);
    append(0, 2, 201);
    expect(1, statuses, targets);
    assert_int_equal(log_record_host(salvage.words), 0);
}

TEST(full_ring_is_read_to_its_end)
{
    const struct log_ring ring = segment_ring(&segment, 2);
    uint64_t records = 0;

    for (; log_ring_has_room(&ring, 64); records++)
        append(2, 0, 200);
    salvage_read(&salvage, &segment, &files);
    assert_int_equal(salvage.count, atomic_load(&ring.words->head));
    assert_int_equal(salvage.count, records * log_ring_words(salvage.words[0]));
}

TEST(lines_that_have_no_memory_are_reported)
{
    append(0, 0, 200);
    out_of_memory = true;
    salvage_read(&salvage, &segment, &files);
    out_of_memory = false;
    assert_int_equal(salvage.count, 0);
    assert_string_equal(last_event(), "no memory for all access log lines of the killed server");
}

TEST(log_that_is_off_needs_no_lines)
{
    append(0, 0, 200);
    log_files_lose(&files, LOG_ACCESS);
    salvage_read(&salvage, &segment, &files);
    assert_int_equal(salvage.count, 0);
}

/* The segment is of a server of another program, which has log rings. */
TEST(segment_without_logger_has_no_salvage)
{
    static const enum segment_kind kinds[] = {SEGMENT_LOGGER, SEGMENT_LOG_CURSORS};

    append(0, 0, 200);
    for (size_t i = 0; i < ARRAY_LENGTH(kinds); i++) {
        const struct segment_section section = segment.section[kinds[i]];

        segment.section[kinds[i]] = (struct segment_section){.kind = kinds[i]};
        salvage_read(&salvage, &segment, &files);
        segment.section[kinds[i]] = section;
        assert_int_equal(salvage.count, 0);
    }
}

/* A batch */

/* The logger died while it wrote BATCH_BYTES to FD, which had SIZE_BEFORE and has SIZE now. */
static void leave_batch(int fd, off_t size)
{
    struct segment_logger *block = segment_logger(&segment);
    struct stat file;

    assert_int_equal(ftruncate(fd, size), 0);
    assert_int_equal(fstat(fd, &file), 0);
    atomic_store(&block->batch_device, file.st_dev);
    atomic_store(&block->batch_inode, file.st_ino);
    atomic_store(&block->batch_size_before, SIZE_BEFORE);
    atomic_store(&block->batch_bytes, BATCH_BYTES);
    atomic_store(&block->batch_open, 1);
}

/* Ring 0 has a record of the batch, status 200, and one after it, status 404. */
static void append_around_the_batch(void)
{
    const struct log_ring ring = segment_ring(&segment, 0);

    append(0, 0, 200);
    atomic_store(&ring.cursor->after, atomic_load(&ring.words->head));
    append(0, 0, 404);
}

static off_t size_of(int fd)
{
    struct stat file;

    assert_int_equal(fstat(fd, &file), 0);
    return file.st_size;
}

static const uint16_t both[] = {200, 404};
static const uint32_t no_targets[] = {0, 0};

TEST(complete_batch_is_not_written_again)
{
    append_around_the_batch();
    leave_batch(files.fd[LOG_ACCESS], SIZE_BEFORE + BATCH_BYTES);
    expect(1, both + 1, no_targets);
    assert_int_equal(size_of(files.fd[LOG_ACCESS]), SIZE_BEFORE + BATCH_BYTES);
}

TEST(complete_batch_of_a_host_is_not_written_again)
{
    append_around_the_batch();
    leave_batch(host_fds[1], SIZE_BEFORE + BATCH_BYTES);
    expect(1, both + 1, no_targets);
}

TEST(partial_batch_is_cut_off_and_written_again)
{
    append_around_the_batch();
    leave_batch(files.fd[LOG_ACCESS], SIZE_BEFORE + BATCH_BYTES - 1);
    expect(2, both, no_targets);
    assert_int_equal(size_of(files.fd[LOG_ACCESS]), SIZE_BEFORE);
    assert_string_equal(last_event(), "");
}

TEST(partial_batch_that_cannot_be_cut_off_is_reported)
{
    char path[64];
    int writable = files.fd[LOG_ACCESS];

    append_around_the_batch();
    leave_batch(writable, SIZE_BEFORE + 1);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", writable);
    files.fd[LOG_ACCESS] = open(path, O_RDONLY | O_CLOEXEC);
    close(writable);
    expect(2, both, no_targets);
    assert_string_equal(last_event(), "cannot truncate a partial batch of the access log: "
                                      "Invalid argument");
}

TEST(batch_that_was_not_begun_is_written)
{
    append_around_the_batch();
    leave_batch(files.fd[LOG_ACCESS], SIZE_BEFORE);
    expect(2, both, no_targets);
    assert_int_equal(size_of(files.fd[LOG_ACCESS]), SIZE_BEFORE);
}

/* The record of a batch counts only while a batch is open, and only for a file that is open now. */
TEST(other_batches_leave_the_files_as_they_are)
{
    struct segment_logger *block = segment_logger(&segment);
    int fd = files.fd[LOG_ACCESS];

    append_around_the_batch();
    leave_batch(fd, SIZE_BEFORE + BATCH_BYTES);
    atomic_store(&block->batch_open, 0);
    expect(2, both, no_targets);
    salvage_free(&salvage);
    leave_batch(fd, SIZE_BEFORE + BATCH_BYTES);
    atomic_store(&block->batch_bytes, 0);
    expect(2, both, no_targets);
    salvage_free(&salvage);
    leave_batch(fd, SIZE_BEFORE + BATCH_BYTES);
    atomic_store(&block->batch_inode, 0);
    expect(2, both, no_targets);
    salvage_free(&salvage);
    leave_batch(fd, SIZE_BEFORE + BATCH_BYTES);
    atomic_store(&block->batch_device, 0);
    expect(2, both, no_targets);
    salvage_free(&salvage);
    leave_batch(host_fds[2], SIZE_BEFORE + BATCH_BYTES);
    expect(2, both, no_targets);
    assert_int_equal(size_of(fd), SIZE_BEFORE + BATCH_BYTES);
    assert_string_equal(last_event(), "");
}

/* A reload */

TEST(reload_renumbers_the_targets)
{
    static struct config_host after_hosts[] = {{.access_log = "/log/b"}, {.access_log = "/log/0"}};
    static const struct config after_config = {
        .log_access = "/log/all", .hosts = after_hosts, .host_count = 2};
    static const uint32_t expected[] = {2, 0, 0};
    struct log_targets after;
    size_t position = 0, end;

    append(0, 2, 200);
    append(0, 3, 200);
    append(0, 0, 200);
    append(0, 2, 200); /* behind the end */
    salvage_read(&salvage, &segment, &files);
    end = salvage.count - log_ring_words(salvage.words[0]);
    salvage.count = end;
    assert_int_equal(log_targets_make(&after, &after_config), 0);
    log_record_set_host(salvage.words + end, 1);
    salvage_renumber(&salvage, &files.targets, &after);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(salvage_target(salvage.words + position, &after), expected[i]);
        position += log_ring_words(salvage.words[position]);
    }
    assert_int_equal(position, end);
    assert_int_equal(log_record_host(salvage.words + end), 1);
    log_targets_free(&after);
}

TEST(freed_salvage_is_empty)
{
    append(0, 0, 200);
    salvage_read(&salvage, &segment, &files);
    assert_true(salvage.count > 0);
    salvage_free(&salvage);
    assert_null(salvage.words);
    assert_int_equal(salvage.count, 0);
    assert_int_equal(salvage.room, 0);
}
