/*
 * The access log: which lines get into which file, exactly once, and what is counted and reported.
 */
#include "daemon/logger/internal.h"

#include "common/clock.h"
#include "tests/test.h"
#include "tests/unit/event_output.h"
#include "tests/unit/open_descriptors.h"
#include "tests/unit/own_segment.h"
#include "tests/unit/wrapped.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEXT_MAX = 2 * 1024 * 1024, HOSTS = 4, LOGS = 3, MANY = 12000 };

static char path_a[] = "/log/a", path_b[] = "/log/b", *paths[] = {path_a, path_b};
static uint16_t of_entry[] = {0, 1, 2, 0};
static const struct log_targets with_hosts = {paths, 2, of_entry, HOSTS}, no_hosts = {0};

static struct segment segment;
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

/*
 * Worker slot 0 has two threads, and 1 has one; thread slot 3 is not reserved. No log is open yet.
 */
static int set_up(void **state)
{
    (void)state;
    if (own_segment_create(
            &segment,
            (struct segment_plan){.max_workers = 2, .max_threads = 2, .max_hosts = HOSTS}) != 0 ||
        segment_reserve(&segment, 0, 2) != 0 || segment_reserve(&segment, 1, 1) != 0)
        return -1;
    for (int i = 0; i < LOGS; i++)
        file[i] = open_memory();
    salvage = (struct salvage){.words = NULL};
    access_log = NULL;
    lost_logs = 0;
    events_forget();
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
    for (int i = 0; i < LOGS; i++)
        close(file[i]);
    salvage_free(&salvage);
    segment_destroy(&segment);
    return 0;
}

const struct test_fixture test_fixture = {set_up_without_hosts, tear_down};

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

static void add_words_to_salvage(const uint64_t *words, size_t count)
{
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

static void add_to_salvage(int number, uint16_t host)
{
    uint64_t words[LOG_RECORD_WORDS_MAX];

    add_words_to_salvage(words, pack(number, host, words));
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

/* Without a host only one batch is written, whose rings begin with another one each time. */
TEST(each_batch_begins_with_the_next_ring)
{
    for (int i = 0; i < 5; i++) {
        append(0, 10 * i, 0);
        append(1, 10 * i + 1, 0);
        append(2, 10 * i + 2, 0);
        assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    }
    expect(0, "0 1 2 11 12 10 22 20 21 30 31 32 40 41 42");
}

static uint64_t stopped_at_ns; /* 0: the clock runs */

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    if (stopped_at_ns == 0)
        return __real_clock_gettime(clock, now);
    *now = (struct timespec){.tv_sec = (time_t)(stopped_at_ns / NS_PER_S)};
    return 0;
}

/* Drains lines of thread 0 until the log takes no more of them, or MOST bytes. */
static void flood(uint64_t most)
{
    static char long_text[4000];
    const struct log_ring ring = segment_ring(&segment, 0);
    uint64_t words[LOG_RECORD_WORDS_MAX], count, begin = metric(METRIC_log_bytes);

    memset(long_text, 'x', sizeof(long_text));
    count = log_record_pack(
        &(struct log_record){.status = 200, .request_line = {long_text, sizeof(long_text)}}, words);
    do {
        log_ring_append(&ring, words, count);
        access_log_drain(access_log);
    } while (access_log_unwritten(&segment, &salvage) == 0 &&
             metric(METRIC_log_bytes) - begin < most);
}

TEST(thread_that_logs_too_fast_waits_alone)
{
    enum { MIB = 1 << 20, BURST = 64 * MIB, PER_S = 32 * MIB, LINE = 8192 };
    uint64_t written;

    use(0, open("/dev/null", O_WRONLY | O_CLOEXEC));
    stopped_at_ns = 1000 * NS_PER_S;
    flood(2 * BURST);
    written = metric(METRIC_log_bytes);
    assert_in_range(written, BURST, BURST + LINE);
    assert_string_equal(last_event(), "a thread of worker 0 logs more than 32 MiB/s: its "
                                      "access log lines wait");
    append(1, 1, 0);
    append(2, 2, 0);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    assert_int_equal(access_log_unwritten(&segment, &salvage), 1);
    stopped_at_ns += NS_PER_S;
    while (access_log_drain(access_log) != ACCESS_LOG_IDLE)
        continue;
    assert_int_equal(access_log_unwritten(&segment, &salvage), 0);
    flood(2 * BURST);
    assert_in_range(metric(METRIC_log_bytes), written + PER_S - LINE, written + PER_S + LINE);
    assert_int_equal(event_count(), 1);
    stopped_at_ns = 0;
}

TEST(corrupt_ring_is_reported_with_its_worker)
{
    const struct log_ring ring = segment_ring(&segment, 2);
    uint64_t begun_ns = clock_monotonic_ns();

    append(1, 1, 0);
    atomic_store(&ring.words->head, ring.capacity + 1);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    assert_int_equal(event_count(), 1);
    assert_string_equal(last_event(),
                        "a log ring of worker 1 is corrupt: access log lines are lost");
    assert_int_equal(atomic_load(&ring.cursor->position), ring.capacity + 1);
    atomic_store(&ring.words->head, 3 * ring.capacity);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_IDLE);
    assert_int_equal(atomic_load(&ring.cursor->position), 3 * ring.capacity);
    if (clock_monotonic_ns() - begun_ns < NS_PER_S)
        assert_int_equal(event_count(), 1);
    expect(0, "1");
}

TEST(unreadable_record_is_left_out)
{
    const struct log_ring ring = segment_ring(&segment, 0);
    uint64_t words[LOG_RECORD_HEAD_WORDS] = {LOG_RECORD_HEAD_WORDS};

    log_ring_append(&ring, words, LOG_RECORD_HEAD_WORDS);
    assert_int_equal(access_log_unwritten(&segment, &salvage), 0);
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

TEST(json_names_the_host_of_the_entry)
{
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

TEST_WITH(salvaged_lines_come_first, set_up_with_hosts, tear_down)
{
    add_to_salvage(1, 0);
    add_to_salvage(2, 2);
    add_to_salvage(3, 0);
    add_to_salvage(4, 3); /* no such target */
    append(0, 5, 1);
    append(0, 6, 0);
    /* of a logger that died while it collected them */
    atomic_store(&segment_ring(&segment, 0).cursor->after,
                 atomic_load(&segment_ring(&segment, 0).words->head));
    assert_int_equal(access_log_unwritten(&segment, &salvage), 6);
    while (access_log_drain(access_log) != ACCESS_LOG_IDLE)
        continue;
    expect(0, "1 3 4 6");
    expect(1, "5");
    expect(2, "2");
    assert_int_equal(event_count(), 1);
    assert_string_equal(last_event(),
                        "the previous server was killed: writing its last 4 access log lines");
    assert_int_equal(atomic_load(&segment_logger(&segment)->salvaged), salvage.count);
    assert_int_equal(access_log_unwritten(&segment, &salvage), 0);
}

/* Its hosts had other entries. */
TEST(salvaged_line_in_json_has_no_host)
{
    access_log_free(access_log);
    open_log(&no_hosts, LOG_FORMAT_JSON);
    use(0, file[0]);
    segment_store_host(&segment, 1, 7, "one.example");
    add_to_salvage(1, 1);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    assert_true(has("\"request\":\"GET /1 "));
    assert_int_equal(count_hosts(), 0);
}

TEST(next_logger_continues_the_salvage)
{
    access_log_free(access_log);
    add_to_salvage(1, 0);
    atomic_store(&segment_logger(&segment)->salvaged, salvage.count);
    add_to_salvage(2, 0);
    open_log(&no_hosts, LOG_FORMAT_COMMON);
    use(0, file[0]);
    assert_int_equal(access_log_unwritten(&segment, &salvage), 1);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    expect(0, "2");
    assert_int_equal(event_count(), 0);
}

/* TEXT has one line each of the requests 0 to COUNT - 1, in order. */
static void expect_numbers(const char *text, int count)
{
    const char *end =
        text + strlen(text); /* strstr() of AddressSanitizer reads to the end each time */
    int number = 0;

    while ((text = memmem(text, (size_t)(end - text), "\"GET /", strlen("\"GET /"))) != NULL) {
        text += strlen("\"GET /");
        assert_int_equal(atoi(text), number++);
    }
    assert_int_equal(number, count);
}

/* They do not fit one batch. */
TEST(many_salvaged_lines_are_written_once)
{
    for (int i = 0; i < MANY; i++)
        add_to_salvage(i, 0);
    while (access_log_drain(access_log) != ACCESS_LOG_IDLE)
        continue;
    assert_true(size_of(file[0]) > LOG_BATCH_BYTES && size_of(file[0]) < TEXT_MAX);
    assert_true(atomic_load(&segment_logger(&segment)->batch_bytes) > PIPE_BUF);
    expect_numbers(content_of(file[0]), MANY);
    assert_int_equal(metric(METRIC_log_lines), MANY);
    assert_int_equal(event_count(), 1);
}

/* The first batch is collected again until the log takes a line. */
TEST(salvage_is_logged_once_while_the_log_is_full)
{
    enum { FULL = 64 * 1024 }; /* room for the events, which are in a file, too */

    assert_int_equal(ftruncate(file[0], FULL), 0);
    add_to_salvage(1, 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(drain_with_limit(FULL), ACCESS_LOG_BLOCKED);
    assert_int_equal(event_count(), 2);
    assert_int_equal(size_of(file[0]), FULL);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    assert_int_equal(metric(METRIC_log_lines), 1);
    assert_int_equal(event_count(), 3);
    assert_string_equal(last_event(), "the access log is writable again");
}

/* More of them fit the text of a batch than it has lines. */
TEST(many_short_lines_are_written_once)
{
    uint64_t words[LOG_RECORD_WORDS_MAX];
    size_t count = log_record_pack(&(struct log_record){.status = 200}, words);
    const char *text, *second;

    for (int i = 0; i < MANY; i++)
        add_words_to_salvage(words, count);
    while (access_log_drain(access_log) != ACCESS_LOG_IDLE)
        continue;
    text = content_of(file[0]);
    second = strchr(text, '\n') + 1;
    assert_true((second - text) * MANY > LOG_BATCH_BYTES);
    assert_int_equal(size_of(file[0]), (second - text) * MANY);
    assert_memory_equal(text, second, (size_t)(size_of(file[0]) - (second - text)));
    assert_int_equal(metric(METRIC_log_lines), MANY);
}

/* A log that takes no lines */

TEST(full_log_keeps_whole_lines_and_continues)
{
    off_t line;

    append(0, 1, 0);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    line = size_of(file[0]);
    append(0, 2, 0);
    append(0, 3, 0);
    append(0, 4, 0);
    assert_int_equal(drain_with_limit(2 * line + line / 2), ACCESS_LOG_BLOCKED);
    expect(0, "1 2");
    assert_int_equal(event_count(), 1);
    assert_string_equal(last_event(),
                        "cannot write the access log: File too large; its lines stay in memory");
    assert_string_equal(access_log_fault(access_log), "File too large");
    assert_int_equal(metric(METRIC_log_write_errors), 1);
    assert_int_equal(metric(METRIC_log_lines), 2);
    assert_int_equal(access_log_unwritten(&segment, &salvage), 2);
    assert_int_equal(drain_with_limit(3 * line + 1), ACCESS_LOG_BLOCKED);
    expect(0, "1 2 3");
    assert_int_equal(event_count(), 1);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    expect(0, "1 2 3 4");
    assert_int_equal(event_count(), 2);
    assert_string_equal(last_event(), "the access log is writable again");
    assert_int_equal(metric(METRIC_log_lines), 4);
    assert_int_equal(metric(METRIC_log_bytes), size_of(file[0]));
    append(0, 5, 0);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    assert_int_equal(event_count(), 2);
    assert_int_equal(lost_logs, 0);
}

TEST(log_without_a_file_is_blocked_only_after_a_failure)
{
    struct log_sink none = {.fd = -1};

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

TEST(other_file_gets_what_the_first_one_lacks)
{
    off_t line;

    append(0, 1, 0);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    line = size_of(file[0]);
    append(0, 2, 0);
    append(0, 3, 0);
    assert_int_equal(drain_with_limit(2 * line + 1), ACCESS_LOG_BLOCKED);
    events_forget();
    use(0, file[1]);
    assert_int_equal(event_count(), 0); /* not a batch of another logger */
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    expect(0, "1 2");
    expect(1, "3");
}

/* Only a silence of a second is an error. */
TEST(slow_reader_is_not_reported)
{
    char bytes[4096] = {0};
    int ends[2];

    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    while (write(ends[1], bytes, sizeof(bytes)) > 0)
        continue;
    use(0, ends[1]);
    append(0, 1, 0);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_BLOCKED);
    assert_int_equal(event_count(), 0);
    assert_int_equal(metric(METRIC_log_write_errors), 0);
    assert_int_equal(lost_logs, 0);
    assert_string_equal(access_log_fault(access_log), "its reader takes no more");
    while (read(ends[0], bytes, sizeof(bytes)) > 0)
        continue;
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    assert_int_equal(read(ends[0], bytes, sizeof(bytes)), metric(METRIC_log_bytes));
    assert_int_equal(event_count(), 0);
    close(ends[0]);
    close(ends[1]);
}

/* The file of a host that takes no lines */

TEST_WITH(lines_beyond_the_size_limit_of_a_host_file_are_lost, set_up_with_hosts, tear_down)
{
    off_t line;

    append(0, 1, 1);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    line = size_of(file[1]);
    append(0, 2, 1);
    append(0, 3, 1);
    append(0, 4, 1);
    assert_int_equal(drain_with_limit(2 * line + line / 2), ACCESS_LOG_WRITTEN);
    expect(1, "1 2");
    assert_int_equal(event_count(), 1);
    assert_string_equal(last_event(),
                        "cannot write the access log /log/a of a [host]: File too large; "
                        "its lines are lost meanwhile");
    assert_int_equal(metric(METRIC_log_lines), 2);
    assert_int_equal(metric(METRIC_log_bytes), 2 * line);
    assert_int_equal(metric(METRIC_log_lost), 2);
    assert_int_equal(metric(METRIC_log_write_errors), 1);
    assert_int_equal(access_log_unwritten(&segment, &salvage), 0);
    append(0, 5, 1);
    assert_int_equal(drain_with_limit(2 * line), ACCESS_LOG_WRITTEN);
    assert_int_equal(event_count(), 1);
    append(0, 6, 1);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    expect(1, "1 2 6");
    assert_int_equal(event_count(), 2);
    assert_string_equal(last_event(), "the access log /log/a is writable again; 3 lines are lost");
    append(0, 7, 1);
    assert_int_equal(drain_with_limit(3 * line), ACCESS_LOG_WRITTEN);
    append(0, 8, 1);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    assert_string_equal(last_event(), "the access log /log/a is writable again; 1 line is lost");
    assert_int_equal(metric(METRIC_log_lost), 4);
    assert_int_equal(metric(METRIC_log_lines), 4);
}

TEST_WITH(host_without_an_open_file_loses_its_lines, set_up_with_hosts, tear_down)
{
    struct log_sink none = {.fd = -1};

    access_log_use(access_log, 2, &none);
    append(0, 1, 2);
    append(0, 2, 0);
    while (access_log_drain(access_log) != ACCESS_LOG_IDLE)
        continue;
    expect(0, "2");
    expect(2, "");
    assert_int_equal(metric(METRIC_log_lost), 1);
    assert_int_equal(metric(METRIC_log_lines), 1);
    assert_string_equal(last_event(), "cannot write the access log /log/b of a [host]: Bad file "
                                      "descriptor; its lines are lost meanwhile");
}

/* The batch of another logger */

/*
 * A logger wrote line 1 for TARGET to its file, and died when it had written WRITTEN bytes of a
 * batch of the lines 2 and 3 to FD: nothing of what follows a write has happened. Returns the
 * length of a line.
 */
static off_t leave_batch(uint32_t target, int fd, off_t written)
{
    struct segment_logger *block = segment_logger(&segment);
    const struct log_ring ring = segment_ring(&segment, 0);
    uint64_t begin;
    off_t line;

    open_log(&with_hosts, LOG_FORMAT_COMMON);
    use_files();
    if (fd != file[target])
        use(target, fd);
    append(0, 1, (uint16_t)target);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    line = (off_t)metric(METRIC_log_bytes);
    begin = atomic_load(&ring.cursor->position);
    append(0, 2, (uint16_t)target);
    append(0, 3, (uint16_t)target);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    access_log_free(access_log);
    access_log = NULL;
    assert_int_equal(metric(METRIC_log_bytes), 3 * line);
    metric_set(block->metrics, METRIC_log_lines, 1);
    metric_set(block->metrics, METRIC_log_bytes, (uint64_t)line);
    atomic_store(&ring.cursor->position, begin);
    atomic_store(&block->batch_open, 1);
    if (fd == file[target])
        assert_int_equal(ftruncate(fd, line + written), 0);
    return line;
}

static void forget_left_batch(void)
{
    static const struct log_ring_cursor start;
    const struct log_ring ring = segment_ring(&segment, 0);

    access_log_free(access_log);
    access_log = NULL;
    atomic_store(&ring.words->claimed, 0);
    atomic_store(&ring.words->head, 0);
    *ring.cursor = start;
    atomic_store(&segment_logger(&segment)->batch_open, 0);
    metric_set(segment_logger(&segment)->metrics, METRIC_log_lines, 0);
    metric_set(segment_logger(&segment)->metrics, METRIC_log_bytes, 0);
    for (int i = 0; i < LOGS; i++)
        assert_int_equal(ftruncate(file[i], 0), 0);
    events_forget();
}

/* Whatever part of it the file has. */
TEST_WITH(batch_of_a_dead_logger_is_in_its_file_once, set_up, tear_down)
{
    for (uint32_t target = 0; target < LOGS; target++) {
        off_t line = leave_batch(target, file[target], 0);

        for (off_t written = 0; written <= 2 * line; written += line / 2) {
            const char *end = written == 2 * line ? "it is complete" : "writing it";
            char text[96];

            forget_left_batch();
            leave_batch(target, file[target], written);
            open_log(&with_hosts, LOG_FORMAT_COMMON);
            assert_int_equal(access_log_unwritten(&segment, &salvage), 2);
            use_files();
            snprintf(text, sizeof(text), "a logger that ended left a batch of the access log: %s",
                     end);
            assert_string_equal(last_event(), text);
            access_log_drain(access_log);
            expect(target, "1 2 3");
            assert_int_equal(metric(METRIC_log_lines), 3);
            assert_int_equal(metric(METRIC_log_bytes), 3 * line);
            assert_int_equal(access_log_unwritten(&segment, &salvage), 0);
            use_files();
            assert_int_equal(event_count(), 1);
        }
        forget_left_batch();
    }
}

static const char may_be_repeated[] =
    "a logger that ended left a batch of the access log: writing it; "
    "some of its lines may be repeated";

/* The log was rotated. */
TEST_WITH(batch_is_written_to_the_new_file, set_up, tear_down)
{
    leave_batch(0, file[0], 3);
    open_log(&no_hosts, LOG_FORMAT_COMMON);
    use(0, file[1]);
    assert_string_equal(last_event(), may_be_repeated);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    expect(1, "2 3");
}

TEST_WITH(pipe_gets_the_batch_of_a_dead_logger_again, set_up, tear_down)
{
    char bytes[1024] = "";
    int ends[2];

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    leave_batch(0, ends[1], 0);
    open_log(&no_hosts, LOG_FORMAT_COMMON);
    use(0, ends[1]);
    assert_string_equal(last_event(), may_be_repeated);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    assert_int_equal(metric(METRIC_log_lines), 3);
    assert_true(read(ends[0], bytes, sizeof(bytes) - 1) > 0);
    assert_int_equal(write(file[0], bytes, strlen(bytes)), strlen(bytes));
    expect(0, "1 2 3 2 3");
    close(ends[0]);
    close(ends[1]);
}

/* A logger that was taken over may have noted anything. */
TEST_WITH(forged_batch_leaves_the_file_and_has_all_lines_written, set_up, tear_down)
{
    struct segment_logger *block = segment_logger(&segment);
    off_t size;

    size = leave_batch(0, file[0], 3) + 3;
    atomic_store(&block->batch_bytes, LOG_BATCH_BYTES + 1);
    atomic_store(&block->salvaged, 1);
    add_to_salvage(4, 0);
    add_to_salvage(5, 0);
    open_log(&no_hosts, LOG_FORMAT_COMMON);
    use(0, file[0]);
    assert_int_equal(size_of(file[0]), size);
    while (access_log_drain(access_log) != ACCESS_LOG_IDLE)
        continue;
    assert_non_null(strstr(content_of(file[0]), "\"GET /2 "));
    assert_non_null(strstr(content_of(file[0]), "\"GET /3 "));
    assert_null(strstr(content_of(file[0]), "\"GET /4 "));
    assert_non_null(strstr(content_of(file[0]), "\"GET /5 "));
}

/* Pipes and sockets */

/* A write of a pipe ends with a line, so that other writers cannot split one. */
TEST(pipe_gets_whole_lines_as_it_has_room)
{
    enum { LINES = 3000 };
    enum access_log_state drained;
    char bytes[4096];
    int ends[2];
    ssize_t part;

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    use(0, ends[1]);
    for (int i = 0; i < LINES; i++)
        add_to_salvage(i, 0);
    do {
        char last = '\n';

        drained = access_log_drain(access_log);
        while ((part = read(ends[0], bytes, sizeof(bytes))) > 0) {
            last = bytes[part - 1];
            assert_int_equal(write(file[1], bytes, (size_t)part), part);
        }
        assert_int_equal(last, '\n');
    } while (drained != ACCESS_LOG_IDLE);
    assert_int_equal(fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0); /* others share the flags */
    expect_numbers(content_of(file[1]), LINES);
    assert_int_equal(metric(METRIC_log_lines), LINES);
    close(ends[0]);
    close(ends[1]);
}

/*
 * Makes a pipe that has room for the first PIPE_BUF bytes of a longer line, drains, and makes room.
 * Another record follows.
 */
static void write_part_of_a_long_line(int ends[2])
{
    static char request[LOG_REQUEST_LINE_MAX];
    struct log_record record = {.status = 200};
    uint64_t words[LOG_RECORD_WORDS_MAX];
    char bytes[PIPE_BUF] = {0};
    int room;

    memset(request, 'y', sizeof(request));
    record.request_line = (struct span){request, sizeof(request)};
    add_words_to_salvage(words, log_record_pack(&record, words));
    add_to_salvage(1, 0);
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    room = fcntl(ends[1], F_GETPIPE_SZ);
    for (int filled = 0; filled + PIPE_BUF < room; filled += PIPE_BUF)
        assert_int_equal(write(ends[1], bytes, sizeof(bytes)), sizeof(bytes));
    use(0, ends[1]);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_BLOCKED);
    for (int filled = 0; filled + PIPE_BUF < room; filled += PIPE_BUF)
        assert_int_equal(read(ends[0], bytes, sizeof(bytes)), sizeof(bytes));
}

/* The pipe FD has the long line and the other record, and nothing else. */
static void expect_long_line(int fd)
{
    char text[4 * PIPE_BUF] = "";
    size_t length = 0;

    for (ssize_t part; (part = read(fd, text + length, sizeof(text) - 1 - length)) > 0;)
        length += (size_t)part;
    assert_int_equal(length, metric(METRIC_log_bytes));
    assert_int_equal(strspn(strchr(text, 'y'), "y"), LOG_REQUEST_LINE_MAX);
    assert_non_null(strstr(strchr(text, '\n'), "\"GET /1 "));
}

TEST(line_longer_than_a_write_is_continued)
{
    int ends[2];

    write_part_of_a_long_line(ends);
    use(0, ends[1]); /* it was opened again */
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    expect_long_line(ends[0]);
    close(ends[0]);
    close(ends[1]);
}

TEST(other_pipe_gets_the_whole_line)
{
    int ends[2], other[2];

    write_part_of_a_long_line(ends);
    assert_int_equal(pipe2(other, O_CLOEXEC | O_NONBLOCK), 0);
    use(0, other[1]);
    assert_int_equal(access_log_drain(access_log), ACCESS_LOG_WRITTEN);
    expect_long_line(other[0]);
    for (int i = 0; i < 2; i++) {
        close(ends[i]);
        close(other[i]);
    }
}

/* A logger that exits counts the datagrams that it sent. */
TEST(unfinished_batch_is_continued_by_the_next_logger)
{
    enum access_log_state drained;
    struct log_sink sink;
    char bytes[1024] = "";
    int ends[2], got = 0;

    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    sink = log_sink_make("syslog:", dup(ends[1]), "test");
    access_log_use(access_log, 0, &sink);
    for (int i = 0; i < MANY; i++)
        add_to_salvage(i, 0);
    do /* a pass has a limit of time, too */
        drained = access_log_drain(access_log);
    while (drained == ACCESS_LOG_WRITTEN);
    assert_int_equal(drained, ACCESS_LOG_BLOCKED);
    access_log_finish(access_log);
    access_log_free(access_log);
    access_log = NULL;
    for (; recv(ends[0], bytes, sizeof(bytes), 0) > 0; got++)
        continue;
    assert_true(got > 0);
    assert_int_equal(metric(METRIC_log_lines), got);
    open_log(&no_hosts, LOG_FORMAT_COMMON);
    use(0, file[0]);
    assert_int_equal(event_count(), 1); /* about the salvage */
    while (access_log_drain(access_log) != ACCESS_LOG_IDLE)
        continue;
    snprintf(bytes, sizeof(bytes), "\"GET /%d ", got);
    assert_non_null(strstr(strtok((char *)(uintptr_t)content_of(file[0]), "\n"), bytes));
    close(ends[0]);
    close(ends[1]);
}

TEST_WITH(replaced_and_freed_logs_are_closed, set_up_with_hosts, tear_down)
{
    int descriptors = open_descriptors();

    use_files();
    assert_int_equal(open_descriptors(), descriptors);
    access_log_free(access_log);
    access_log = NULL;
    assert_int_equal(open_descriptors(), descriptors - LOGS);
}
