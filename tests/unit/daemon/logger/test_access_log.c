/* The access log: which lines get into which file, exactly once, and what is counted and reported. */
#include "daemon/logger/access_log.h"

#include "common/clock.h"
#include "tests/unit/logged_event.h"
#include "tests/unit/open_descriptors.h"
#include "tests/unit/own_segment.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEXT_MAX = 2 * 1024 * 1024, HOSTS = 4, LOGS = 3, MANY = 12000 };

static char path_a[] = "/log/a", path_b[] = "/log/b", *paths[] = {path_a, path_b};
static uint16_t of_entry[] = {0, 1, 2, 0};
static const struct log_targets with_hosts = {paths, 2, of_entry, HOSTS}, no_hosts = {0};

static struct segment segment;
static struct log_journal journal;
static struct salvage salvage;
static struct access_log *access_log;
static int file[LOGS]; /* the log of each target; the sinks have duplicates */
static int lost_logs;

static void on_lost(void *context, uint32_t log)
{
    (void)context;
    assert_int_equal(log, LOG_ACCESS);
    lost_logs++;
}

static const struct log_owner owner = {.lost = on_lost};

static void open_log(const struct log_targets *targets, enum log_format format)
{
    access_log = access_log_new(&(struct access_log_setup){.segment = &segment,
                                                           .journal = &journal,
                                                           .salvage = &salvage,
                                                           .targets = targets,
                                                           .owner = &owner,
                                                           .format = format});
    assert_non_null(access_log);
}

static void use(uint32_t target, int fd)
{
    struct log_sink sink = log_sink_make("-", dup(fd), "test");

    access_log_use(access_log, target, &sink);
}

static void use_files(void)
{
    for (uint32_t target = LOGS; target-- > 0;)
        use(target, file[target]);
}

/* Like the files of the master, it is only appended to. */
static int open_memory(void)
{
    int fd = memfd_create("log", MFD_CLOEXEC);

    assert_int_equal(fcntl(fd, F_SETFL, O_APPEND), 0);
    return fd;
}

/* Worker slot 0 has two threads, and 1 has one; thread slot 3 is not reserved. No log is open yet. */
static int set_up(void **state)
{
    (void)state;
    if (own_segment_create(
            &segment,
            (struct segment_plan){.max_workers = 2, .max_threads = 2, .max_hosts = HOSTS}) != 0 ||
        segment_reserve(&segment, 0, 2) != 0 || segment_reserve(&segment, 1, 1) != 0 ||
        log_journal_open(&journal) != 0)
        return -1;
    for (int i = 0; i < LOGS; i++)
        file[i] = open_memory();
    salvage = (struct salvage){.words = NULL};
    access_log = NULL;
    lost_logs = events = 0;
    logged[0] = '\0';
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    return 0;
}

static int set_up_with_hosts(void **state)
{
    if (set_up(state) != 0)
        return -1;
    open_log(&with_hosts, LOG_FORMAT_COMMON);
    use_files();
    return 0;
}

static int set_up_without_hosts(void **state)
{
    if (set_up(state) != 0)
        return -1;
    open_log(&no_hosts, LOG_FORMAT_COMMON);
    use(0, file[0]);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    access_log_free(access_log);
    log_journal_close(&journal);
    for (int i = 0; i < LOGS; i++)
        close(file[i]);
    salvage_free(&salvage);
    segment_destroy(&segment);
    return 0;
}

static uint64_t pack(int number, uint16_t host, uint64_t words[LOG_RECORD_WORDS_MAX])
{
    char request[32];
    int length = snprintf(request, sizeof(request), "GET /%d HTTP/1.1", number);

    return log_record_pack(&(struct log_record){.host = host,
                                                .status = 200,
                                                .request_line = {request, (size_t)length}},
                           words);
}

/* A request with NUMBER, by thread THREAD, for the host with entry HOST. */
static void append(uint32_t thread, int number, uint16_t host)
{
    const struct log_ring ring = segment_ring(&segment, thread);
    uint64_t words[LOG_RECORD_WORDS_MAX], count = pack(number, host, words);

    log_ring_append(&ring, words, count);
}

static void add_to_salvage(int number, uint16_t host)
{
    uint64_t words[LOG_RECORD_WORDS_MAX], count = pack(number, host, words);

    if (salvage.count + count > salvage.room) {
        size_t room = 2 * (salvage.room + count);
        uint64_t *grown = realloc(salvage.words, room * sizeof(*words));

        assert_non_null(grown);
        salvage.words = grown;
        salvage.room = room;
    }
    memcpy(salvage.words + salvage.count, words, count * sizeof(*words));
    salvage.count += count;
}

static const char *content_of(int fd)
{
    static char text[TEXT_MAX];
    ssize_t length = pread(fd, text, sizeof(text) - 1, 0);

    assert_true(length >= 0);
    text[length] = '\0';
    return text;
}

/* The file of TARGET has lines of requests with these numbers ("1 2 3"), and nothing else. */
static void expect(uint32_t target, const char *numbers)
{
    const char *at = content_of(file[target]);
    char found[256] = "";

    while (*at != '\0') {
        const char *end = strchr(at, '\n'), *number = strstr(at, "\"GET /");
        size_t length = strlen(found);

        assert_non_null(end);
        assert_true(number != NULL && number < end);
        snprintf(found + length, sizeof(found) - length, "%s%d", length > 0 ? " " : "",
                 atoi(number + strlen("\"GET /")));
        at = end + 1;
    }
    assert_string_equal(found, numbers);
}

static uint64_t metric(enum metric metric)
{
    return metric_get(segment_logger(&segment)->metrics, metric);
}

static off_t size_of(int fd)
{
    struct stat status;

    assert_int_equal(fstat(fd, &status), 0);
    return status.st_size;
}

static void limit_file_size(rlim_t bytes)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* Drains while files cannot grow beyond BYTES. */
static enum access_log_state drain_with_limit(off_t bytes)
{
    enum access_log_state state;

    limit_file_size((rlim_t)bytes);
    state = access_log_drain(access_log);
    limit_file_size(RLIM_INFINITY);
    return state;
}

/* The rings */

static void each_line_is_in_the_file_of_its_host(void **state)
{
    (void)state;
    append(0, 1, 0);
    append(0, 2, 1);
    append(0, 3, 1);
    append(0, 4, 0);
    append(0, 5, UINT16_MAX);
    append(2, 6, 2);
    while (access_log_drain(access_log) != ACCESS_LOG_IDLE)
        continue;
    expect(0, "1 4 5");
    expect(1, "2 3");
    expect(2, "6");
    assert_int_equal(metric(METRIC_log_lines), 6);
    assert_int_equal(metric(METRIC_log_bytes),
                     size_of(file[0]) + size_of(file[1]) + size_of(file[2]));
    assert_int_equal(metric(METRIC_log_lost), 0);
    assert_int_equal(events, 0);
    assert_int_equal(access_log_unwritten(&segment, &journal, &salvage), 0);
}

static void drain_is_idle_without_lines(void **state)
{
    (void)state;
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_IDLE);
    append(1, 1, 0);
    append(2, 2, 0);
    assert_int_equal(access_log_unwritten(&segment, &journal, &salvage), 2);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    assert_int_equal(access_log_unwritten(&segment, &journal, &salvage), 0);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_IDLE);
    expect(0, "1 2");
}

/* Without a host only one batch is written, whose rings begin with another one each time. */
static void each_batch_begins_with_the_next_ring(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        append(0, 10 * i, 0);
        append(1, 10 * i + 1, 0);
        append(2, 10 * i + 2, 0);
        assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    }
    expect(0, "0 1 2 11 12 10 22 20 21 30 31 32 40 41 42");
}

static void corrupt_ring_is_reported_with_its_worker(void **state)
{
    const struct log_ring ring = segment_ring(&segment, 2);
    uint64_t begun_ns = clock_monotonic_ns();

    (void)state;
    append(1, 1, 0);
    atomic_store(&ring.words->head, ring.capacity + 1);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    assert_int_equal(events, 1);
    assert_string_equal(logged,
                        "a log ring of worker slot 1 is corrupt: access log lines are lost");
    assert_int_equal(atomic_load(&ring.cursor->position), ring.capacity + 1);
    atomic_store(&ring.words->head, 3 * ring.capacity);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_IDLE);
    assert_int_equal(atomic_load(&ring.cursor->position), 3 * ring.capacity);
    if (clock_monotonic_ns() - begun_ns < NS_PER_S)
        assert_int_equal(events, 1);
    expect(0, "1");
}

static void unreadable_record_is_left_out(void **state)
{
    const struct log_ring ring = segment_ring(&segment, 0);
    uint64_t words[LOG_RECORD_HEAD_WORDS] = {LOG_RECORD_HEAD_WORDS};

    (void)state;
    log_ring_append(&ring, words, LOG_RECORD_HEAD_WORDS);
    assert_int_equal(access_log_unwritten(&segment, &journal, &salvage), 0);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_IDLE);
    assert_int_equal(atomic_load(&ring.cursor->position), LOG_RECORD_HEAD_WORDS);
    append(0, 1, 0);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    expect(0, "1");
    assert_int_equal(metric(METRIC_log_lines), 1);
}

static bool has(const char *words)
{
    return strstr(content_of(file[0]), words) != NULL;
}

/* Number of lines in JSON that name their host. */
static int count_hosts(void)
{
    int count = 0;

    for (const char *at = content_of(file[0]); (at = strstr(at, "\"host\":")) != NULL; at++)
        count++;
    return count;
}

static void json_names_the_host_of_the_entry(void **state)
{
    (void)state;
    access_log_free(access_log);
    open_log(&no_hosts, LOG_FORMAT_JSON);
    use(0, file[0]);
    segment_store_host(&segment, 1, 7, "one.example");
    segment_store_host(&segment, 3, 8, "three.example");
    append(0, 1, 1);
    append(0, 2, 3);
    append(0, 3, 2);     /* not in use */
    append(0, 4, HOSTS); /* out of range */
    append(0, 5, 3);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    assert_true(has("\"host\":\"one.example\",\"request\":\"GET /1 "));
    assert_true(has("\"host\":\"three.example\",\"request\":\"GET /2 "));
    assert_true(has("\"host\":\"three.example\",\"request\":\"GET /5 "));
    assert_int_equal(count_hosts(), 3);
    assert_int_equal(metric(METRIC_log_lines), 5);
    segment_store_host(&segment, 3, 9, "later.example");
    append(0, 6, 3);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    assert_true(has("\"host\":\"later.example\",\"request\":\"GET /6 "));
}

/* The salvage */

static void salvaged_lines_come_first(void **state)
{
    (void)state;
    add_to_salvage(1, 0);
    add_to_salvage(2, 2);
    add_to_salvage(3, 0);
    add_to_salvage(4, 3); /* no such target */
    append(0, 5, 1);
    append(0, 6, 0);
    assert_int_equal(access_log_unwritten(&segment, &journal, &salvage), 6);
    while (access_log_drain(access_log) != ACCESS_LOG_IDLE)
        continue;
    expect(0, "1 3 4 6");
    expect(1, "5");
    expect(2, "2");
    assert_int_equal(events, 1);
    assert_string_equal(logged,
                        "the previous server was killed: writing its last 4 access log lines");
    assert_int_equal(atomic_load(&journal.batch->salvaged), salvage.count);
    assert_int_equal(access_log_unwritten(&segment, &journal, &salvage), 0);
}

/* Its hosts had other entries. */
static void salvaged_line_in_json_has_no_host(void **state)
{
    (void)state;
    access_log_free(access_log);
    open_log(&no_hosts, LOG_FORMAT_JSON);
    use(0, file[0]);
    segment_store_host(&segment, 1, 7, "one.example");
    add_to_salvage(1, 1);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    assert_true(has("\"request\":\"GET /1 "));
    assert_int_equal(count_hosts(), 0);
}

static void next_logger_continues_the_salvage(void **state)
{
    (void)state;
    access_log_free(access_log);
    add_to_salvage(1, 0);
    atomic_store(&journal.batch->salvaged, salvage.count);
    add_to_salvage(2, 0);
    open_log(&no_hosts, LOG_FORMAT_COMMON);
    use(0, file[0]);
    assert_int_equal(access_log_unwritten(&segment, &journal, &salvage), 1);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    expect(0, "2");
    assert_int_equal(events, 0);
}

/* They do not fit one batch. */
static void many_salvaged_lines_are_written_once(void **state)
{
    const char *at;
    int number = 0;

    (void)state;
    for (int i = 0; i < MANY; i++)
        add_to_salvage(i, 0);
    while (access_log_drain(access_log) != ACCESS_LOG_IDLE)
        continue;
    at = content_of(file[0]);
    assert_true(size_of(file[0]) > LOG_BATCH_BYTES && size_of(file[0]) < TEXT_MAX);
    while ((at = strstr(at, "\"GET /")) != NULL) {
        at += strlen("\"GET /");
        assert_int_equal(atoi(at), number++);
    }
    assert_int_equal(number, MANY);
    assert_int_equal(metric(METRIC_log_lines), MANY);
    assert_int_equal(events, 1);
}

/* A log that takes no lines */

static void full_log_keeps_whole_lines_and_continues(void **state)
{
    off_t line;

    (void)state;
    append(0, 1, 0);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    line = size_of(file[0]);
    append(0, 2, 0);
    append(0, 3, 0);
    append(0, 4, 0);
    assert_int_equal(drain_with_limit(2 * line + line / 2), ACCESS_LOG_BLOCKED);
    expect(0, "1 2");
    assert_int_equal(events, 1);
    assert_string_equal(logged,
                        "cannot write the access log: File too large; its lines stay in memory");
    assert_string_equal(access_log_fault(access_log), "File too large");
    assert_int_equal(metric(METRIC_log_write_errors), 1);
    assert_int_equal(metric(METRIC_log_lines), 1);
    assert_int_equal(access_log_unwritten(&segment, &journal, &salvage), 2);
    assert_int_equal(drain_with_limit(3 * line + 1), ACCESS_LOG_BLOCKED);
    expect(0, "1 2 3");
    assert_int_equal(events, 1);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    expect(0, "1 2 3 4");
    assert_int_equal(events, 2);
    assert_string_equal(logged, "the access log is writable again");
    assert_int_equal(metric(METRIC_log_lines), 4);
    assert_int_equal(metric(METRIC_log_bytes), size_of(file[0]));
    append(0, 5, 0);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    assert_int_equal(events, 2);
    assert_int_equal(lost_logs, 0);
}

static void log_without_a_file_is_blocked_only_after_a_failure(void **state)
{
    struct log_sink none = {.fd = -1};

    (void)state;
    access_log_use(access_log, 0, &none);
    append(0, 1, 0);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_IDLE);
    use(0, file[0]);
    assert_int_equal(drain_with_limit(1), ACCESS_LOG_BLOCKED);
    access_log_use(access_log, 0, &none);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_BLOCKED);
    use(0, file[0]);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    expect(0, "1");
}

static void other_file_gets_what_the_first_one_lacks(void **state)
{
    off_t line;

    (void)state;
    append(0, 1, 0);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    line = size_of(file[0]);
    append(0, 2, 0);
    append(0, 3, 0);
    assert_int_equal(drain_with_limit(2 * line + 1), ACCESS_LOG_BLOCKED);
    events = 0;
    use(0, file[1]);
    assert_int_equal(events, 0); /* not a batch of another logger */
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    expect(0, "1 2");
    expect(1, "3");
}

static void reader_that_has_gone_is_reported_to_the_owner(void **state)
{
    char bytes[4096] = {0};
    int ends[2];

    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    use(0, ends[1]);
    close(ends[0]);
    append(0, 1, 0);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_BLOCKED);
    assert_int_equal(lost_logs, 1);
    assert_int_equal(events, 1);
    assert_string_equal(logged,
                        "cannot write the access log: Broken pipe; its lines stay in memory");
    assert_int_equal(metric(METRIC_log_write_errors), 1);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_BLOCKED);
    assert_int_equal(lost_logs, 1);
    close(ends[1]);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    use(0, ends[1]);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    assert_int_equal(read(ends[0], bytes, sizeof(bytes)), metric(METRIC_log_bytes));
    assert_non_null(strstr(bytes, "\"GET /1 "));
    close(ends[0]);
    close(ends[1]);
}

/* Only a silence of a second is an error. */
static void slow_reader_is_not_reported(void **state)
{
    char bytes[4096] = {0};
    int ends[2];

    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    while (write(ends[1], bytes, sizeof(bytes)) > 0)
        continue;
    use(0, ends[1]);
    append(0, 1, 0);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_BLOCKED);
    assert_int_equal(events, 0);
    assert_int_equal(metric(METRIC_log_write_errors), 0);
    assert_int_equal(lost_logs, 0);
    assert_string_equal(access_log_fault(access_log), "its reader takes no more");
    while (read(ends[0], bytes, sizeof(bytes)) > 0)
        continue;
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    assert_int_equal(read(ends[0], bytes, sizeof(bytes)), metric(METRIC_log_bytes));
    assert_int_equal(events, 0);
    close(ends[0]);
    close(ends[1]);
}

/* The file of a host that takes no lines */

static void lines_beyond_the_size_limit_of_a_host_file_are_lost(void **state)
{
    off_t line;

    (void)state;
    append(0, 1, 1);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    line = size_of(file[1]);
    append(0, 2, 1);
    append(0, 3, 1);
    append(0, 4, 1);
    assert_int_equal(drain_with_limit(2 * line + line / 2), ACCESS_LOG_WRITTEN);
    expect(1, "1 2");
    assert_int_equal(events, 1);
    assert_string_equal(logged, "cannot write the access log /log/a of a [host]: File too large; "
                                "its lines are lost meanwhile");
    assert_int_equal(metric(METRIC_log_lines), 2);
    assert_int_equal(metric(METRIC_log_bytes), 2 * line);
    assert_int_equal(metric(METRIC_log_lost), 2);
    assert_int_equal(metric(METRIC_log_write_errors), 1);
    assert_int_equal(access_log_unwritten(&segment, &journal, &salvage), 0);
    append(0, 5, 1);
    assert_int_equal(drain_with_limit(2 * line), ACCESS_LOG_WRITTEN);
    assert_int_equal(events, 1);
    append(0, 6, 1);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    expect(1, "1 2 6");
    assert_int_equal(events, 2);
    assert_string_equal(logged, "the access log /log/a is writable again; 3 lines are lost");
    append(0, 7, 1);
    assert_int_equal(drain_with_limit(3 * line), ACCESS_LOG_WRITTEN);
    append(0, 8, 1);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    assert_string_equal(logged, "the access log /log/a is writable again; 1 line is lost");
    assert_int_equal(metric(METRIC_log_lost), 4);
    assert_int_equal(metric(METRIC_log_lines), 4);
}

static void host_without_an_open_file_loses_its_lines(void **state)
{
    struct log_sink none = {.fd = -1};

    (void)state;
    memset(journal.batch->text, '\n', sizeof(journal.batch->text)); /* left from earlier batches */
    access_log_use(access_log, 2, &none);
    append(0, 1, 2);
    append(0, 2, 0);
    while (access_log_drain(access_log) != ACCESS_LOG_IDLE)
        continue;
    expect(0, "2");
    expect(2, "");
    assert_int_equal(metric(METRIC_log_lost), 1);
    assert_int_equal(metric(METRIC_log_lines), 1);
    assert_string_equal(logged, "cannot write the access log /log/b of a [host]: Bad file "
                                "descriptor; its lines are lost meanwhile");
}

/* The batch of another logger */

static const char old[] = "old\n", batch[] = "\"GET /1\n\"GET /2\n";

/*
 * A logger died that was to write the batch for TARGET to file[TARGET], which had OLD before and has
 * the first WRITTEN bytes of the batch. The batch was of ring 0.
 */
static void leave_batch(uint32_t target, size_t written)
{
    struct segment_logger *block = segment_logger(&segment);
    const struct log_ring ring = segment_ring(&segment, 0);
    struct stat status;

    append(0, 1, (uint16_t)target);
    append(0, 2, (uint16_t)target);
    atomic_store(&ring.cursor->after, atomic_load(&ring.words->head));
    memcpy(journal.batch->text, batch, sizeof(batch) - 1);
    log_journal_begin(&journal, sizeof(batch) - 1);
    atomic_store(&journal.batch->target, log_targets_key(&with_hosts, target));
    assert_int_equal(write(file[target], old, sizeof(old) - 1), sizeof(old) - 1);
    assert_int_equal(fstat(file[target], &status), 0);
    assert_int_equal(write(file[target], batch, written), written);
    atomic_store(&block->batch_device, status.st_dev);
    atomic_store(&block->batch_inode, status.st_ino);
    atomic_store(&block->batch_size_before, sizeof(old) - 1);
    atomic_store(&block->batch_bytes, sizeof(batch) - 1);
    atomic_store(&block->lines_after, 102);
    atomic_store(&block->bytes_after, 103);
    atomic_store(&journal.batch->lost_after, 104);
    atomic_store(&block->batch_open, 1);
}

static void expect_continued(uint32_t target)
{
    char text[64];

    snprintf(text, sizeof(text), "%s%s", old, batch);
    assert_string_equal(content_of(file[target]), text);
    assert_int_equal(metric(METRIC_log_lines), 102);
    assert_int_equal(metric(METRIC_log_bytes), 103);
    assert_int_equal(metric(METRIC_log_lost), 104);
    assert_int_equal(atomic_load(&segment_logger(&segment)->batch_open), 0);
    assert_int_equal(access_log_unwritten(&segment, &journal, &salvage), 0);
}

static void continue_after(size_t written)
{
    char text[160];

    leave_batch(0, written);
    open_log(&no_hosts, LOG_FORMAT_COMMON);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_BLOCKED); /* no file yet */
    use(0, file[0]);
    snprintf(text, sizeof(text),
             "a logger that ended left a batch of the access log: %zu of 16 bytes were written, "
             "writing the rest",
             written);
    assert_string_equal(logged, text);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    expect_continued(0);
    use(0, file[0]);
    assert_int_equal(events, 1);
}

static void batch_not_yet_begun_is_written(void **state)
{
    (void)state;
    continue_after(0);
}

static void batch_is_continued_within_a_line(void **state)
{
    (void)state;
    continue_after(11);
}

static void complete_batch_is_only_counted(void **state)
{
    (void)state;
    continue_after(sizeof(batch) - 1);
}

static void batch_of_a_host_is_continued_in_its_file(void **state)
{
    (void)state;
    leave_batch(2, 3);
    open_log(&with_hosts, LOG_FORMAT_COMMON);
    use(2, file[2]);
    assert_int_equal(events, 1);
    use(1, file[1]);
    use(0, file[0]);
    assert_int_equal(events, 1);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    expect_continued(2);
    assert_int_equal(size_of(file[0]), 0);
    assert_int_equal(size_of(file[1]), 0);
}

/* The log was rotated: the new file gets the whole batch. */
static void batch_is_written_to_the_new_file(void **state)
{
    (void)state;
    leave_batch(0, 3);
    open_log(&no_hosts, LOG_FORMAT_COMMON);
    use(0, file[1]);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    assert_string_equal(content_of(file[1]), batch);
}

static void second_part_of_a_batch_is_continued_in_its_file(void **state)
{
    (void)state;
    leave_batch(0, 0);
    assert_int_equal(write(file[0], batch + 8, 3), 3);
    log_journal_set_done(&journal, 8);
    atomic_store(&journal.batch->begin, 8);
    atomic_store(&segment_logger(&segment)->batch_bytes, 8);
    open_log(&no_hosts, LOG_FORMAT_COMMON);
    use(0, file[0]);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    assert_string_equal(content_of(file[0]), "old\n\"GET /2\n");
}

static void invalid_record_of_a_batch_has_all_lines_written(void **state)
{
    (void)state;
    leave_batch(1, 3);
    atomic_store(&journal.batch->target, 0);
    atomic_store(&journal.batch->begin, UINT64_MAX);
    open_log(&no_hosts, LOG_FORMAT_COMMON);
    use(0, file[0]);
    assert_int_equal(events, 2);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    expect(0, "1 2");
    assert_int_equal(metric(METRIC_log_lines), 2);
}

/* A pipe: `done` counts what it has. */
static void continue_in_pipe(bool same, const char *rest)
{
    struct segment_logger *block = segment_logger(&segment);
    char bytes[64] = {0};
    struct stat status;
    int ends[2];

    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    assert_int_equal(fstat(ends[1], &status), 0);
    leave_batch(0, 0);
    atomic_store(&journal.batch->stream, 1);
    log_journal_set_done(&journal, 11);
    atomic_store(&block->batch_device, status.st_dev);
    atomic_store(&block->batch_inode, status.st_ino + !same);
    open_log(&no_hosts, LOG_FORMAT_COMMON);
    use(0, ends[1]);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    assert_true(read(ends[0], bytes, sizeof(bytes) - 1) > 0);
    assert_string_equal(bytes, rest);
    close(ends[0]);
    close(ends[1]);
}

static void pipe_gets_the_rest_of_the_line(void **state)
{
    (void)state;
    continue_in_pipe(true, "T /2\n");
}

static void other_pipe_gets_the_whole_line(void **state)
{
    (void)state;
    continue_in_pipe(false, "\"GET /2\n");
}

static void written_lines_of_an_open_batch_are_not_unwritten(void **state)
{
    (void)state;
    leave_batch(0, 0);
    assert_int_equal(access_log_unwritten(&segment, &journal, &salvage), 2);
    log_journal_set_done(&journal, 9);
    assert_int_equal(access_log_unwritten(&segment, &journal, &salvage), 1);
    atomic_store(&segment_logger(&segment)->batch_open, 0);
    assert_int_equal(access_log_unwritten(&segment, &journal, &salvage), 2);
}

static void replaced_and_freed_logs_are_closed(void **state)
{
    int descriptors = open_descriptors();

    (void)state;
    use_files();
    assert_int_equal(open_descriptors(), descriptors);
    access_log_free(access_log);
    access_log = NULL;
    assert_int_equal(open_descriptors(), descriptors - LOGS);
}

#define BARE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define HOST(name) cmocka_unit_test_setup_teardown(name, set_up_with_hosts, tear_down)
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_without_hosts, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HOST(each_line_is_in_the_file_of_its_host),
        TEST(drain_is_idle_without_lines),
        TEST(each_batch_begins_with_the_next_ring),
        TEST(corrupt_ring_is_reported_with_its_worker),
        TEST(unreadable_record_is_left_out),
        TEST(json_names_the_host_of_the_entry),
        HOST(salvaged_lines_come_first),
        TEST(salvaged_line_in_json_has_no_host),
        TEST(next_logger_continues_the_salvage),
        TEST(many_salvaged_lines_are_written_once),
        TEST(full_log_keeps_whole_lines_and_continues),
        TEST(log_without_a_file_is_blocked_only_after_a_failure),
        TEST(other_file_gets_what_the_first_one_lacks),
        TEST(reader_that_has_gone_is_reported_to_the_owner),
        TEST(slow_reader_is_not_reported),
        HOST(lines_beyond_the_size_limit_of_a_host_file_are_lost),
        HOST(host_without_an_open_file_loses_its_lines),
        BARE(batch_not_yet_begun_is_written),
        BARE(batch_is_continued_within_a_line),
        BARE(complete_batch_is_only_counted),
        BARE(batch_of_a_host_is_continued_in_its_file),
        BARE(batch_is_written_to_the_new_file),
        BARE(second_part_of_a_batch_is_continued_in_its_file),
        BARE(invalid_record_of_a_batch_has_all_lines_written),
        BARE(pipe_gets_the_rest_of_the_line),
        BARE(other_pipe_gets_the_whole_line),
        BARE(written_lines_of_an_open_batch_are_not_unwritten),
        HOST(replaced_and_freed_logs_are_closed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
