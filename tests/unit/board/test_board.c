/* include/wsboard.h, read by the reader of the console: the same format, and what a program stores. */
#define WSBOARD_IMPLEMENTATION
#include "wsboard.h"

#include "common/log_record.h"
#include "common/macros.h"
#include "common/segment_reader.h"
#include "tests/test.h"

#include <arpa/inet.h>
#include <glob.h>
#include <sys/wait.h>

static char name[32];
static struct segment_reader reader;

static int choose_name(void **state)
{
    (void)state;
    snprintf(name, sizeof(name), "board-%d", (int)getpid());
    return 0;
}

static int remove_board(void **state)
{
    char path[64];

    (void)state;
    snprintf(path, sizeof(path), "/dev/shm/webserverd.%s", name);
    unlink(path); /* left by a test that failed */
    return 0;
}

const struct test_fixture test_group_fixture = {choose_name, remove_board};

static void attach(void)
{
    char why[256];

    segment_detach(&reader);
    if (segment_attach(&reader, name, why, sizeof(why)) != SEGMENT_ATTACHED)
        fail_msg("%s", why);
}

/* A board of its own for each test: a process opens one board, so each test is a child. */
static int in_child(void (*test)(void))
{
    int status;
    pid_t pid;

    fflush(stdout);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        test();
        board_close();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

#define BOARD_TEST(name)                                                                           \
    static void name##_in_child(void);                                                             \
    TEST(name)                                                                                     \
    {                                                                                              \
        assert_int_equal(in_child(name##_in_child), 0);                                            \
    }                                                                                              \
    static void name##_in_child(void)

static bool refuse_posix_fallocate, refuse_madvise;
static int madvised;

/* Replaced by the linker: see wrap() in tests/unit/CMakeLists.txt. The labels are its names. */
int real_posix_fallocate(int fd, off_t offset, off_t length) __asm__("__real_posix_fallocate");
int wrapped_posix_fallocate(int fd, off_t offset, off_t length) __asm__("__wrap_posix_fallocate");
int wrapped_posix_fallocate(int fd, off_t offset, off_t length)
{
    return refuse_posix_fallocate ? ENOSPC : real_posix_fallocate(fd, offset, length);
}

int real_madvise(void *address, size_t length, int advice) __asm__("__real_madvise");
int wrapped_madvise(void *address, size_t length, int advice) __asm__("__wrap_madvise");
int wrapped_madvise(void *address, size_t length, int advice)
{
    madvised++;
    if (!refuse_madvise)
        return real_madvise(address, length, advice);
    errno = EFAULT;
    return -1;
}

static void open_board(void)
{
    assert_int_equal(board_open(name, 8080), 0);
    attach();
}

static uint64_t sum(enum metric metric)
{
    return segment_reader_sum(&reader, metric);
}

/* The format */

static_assert((int)BOARD_LOCK == (int)THREAD_STATE_LOCK, "the states have the same numbers");
static_assert((int)BOARD_QUEUE == (int)THREAD_STATE_QUEUE, "the states have the same numbers");
static_assert((int)BOARD_COMPUTE == (int)THREAD_STATE_COMPUTE, "the states have the same numbers");
static_assert((int)BOARD_ERROR == (int)LEVEL_ERROR, "the levels have the same numbers");
static_assert(sizeof(struct wsboard_header) == sizeof(struct segment_header), "the same");
static_assert(offsetof(struct wsboard_header, socket_path) ==
                  offsetof(struct segment_header, socket_path),
              "the same");
static_assert(sizeof(wsboard_unseen.latency) == sizeof(struct histogram), "the same");
static_assert(sizeof(struct wsboard_event) == sizeof(struct event_slot), "the same");
static_assert((int)WSBOARD_RECORD_HEAD == (int)LOG_RECORD_HEAD_WORDS, "the same");

BOARD_TEST(board_is_described_as_webserverd_is)
{
    open_board();
    for (uint32_t i = 0; i < reader.map.header.metric_count; i++) {
        const struct segment_metric *line = segment_at(&reader.map, SEGMENT_METRICS, i);
        int known = 0;

        while (known < METRIC_COUNT && strcmp(metric_table[known].name, line->name) != 0)
            known++;
        if (known == METRIC_COUNT)
            fail_msg("webserverd has no metric %s", line->name);
        assert_int_equal(line->scope, metric_table[known].scope);
        assert_int_equal(line->kind, metric_table[known].kind);
        assert_int_equal(line->unit, metric_table[known].unit);
        assert_int_equal(reader.metric[known].line, i);
    }
    for (size_t i = 0; i < STATUS_METRICS; i++)
        if (reader.metric[status_metrics[i].metric].line < 0)
            fail_msg("the board does not count status %d", status_metrics[i].status);
    for (uint32_t i = 0; i < THREAD_STATE_COUNT; i++) {
        const struct segment_state *state = segment_at(&reader.map, SEGMENT_STATES, i);

        if (state->letter == '\0')
            continue; /* no call sets it */
        assert_int_equal(state->letter, thread_state_table[i].letter);
        assert_string_equal(state->name, thread_state_table[i].name);
    }
}

/* Requests */

BOARD_TEST(request_is_counted_and_logged)
{
    static const struct {
        const char *line;
        int status;
        enum metric counted_as;
    } cases[] = {{"GET /a HTTP/1.1\r\nHost: h", 200, METRIC_responses_200},
                 {"GET /b HTTP/1.0\r\n", 299, METRIC_responses_200},
                 {"PUT /c HTTP/1.1", 418, METRIC_responses_400},
                 {"", 404, METRIC_responses_404},
                 {"GET /d HTTP/1.1\n", 599, METRIC_responses_500}};
    struct sockaddr_in client = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xc0000207)};
    uint64_t words[LOG_RECORD_WORDS_MAX], position = 0, now_ns = board_now();
    struct log_record record;
    struct log_ring ring;

    open_board();
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        uint64_t before;

        attach();
        before = sum(cases[i].counted_as);
        if (i == 1)
            board_client(&client);
        board_begin_at(cases[i].line, strlen(cases[i].line), now_ns);
        board_end_at(cases[i].status, 100, now_ns + 1000);
        assert_int_equal(sum(cases[i].counted_as), before + 1);
    }
    board_end(200, 1); /* without a begin */
    assert_int_equal(sum(METRIC_requests), ARRAY_LENGTH(cases));
    assert_int_equal(sum(METRIC_bytes_sent), 100 * ARRAY_LENGTH(cases));
    assert_int_equal(sum(METRIC_response_time), 1000 * ARRAY_LENGTH(cases));
    ring = segment_ring(&reader.map, wsboard_self.number);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        size_t length = strcspn(cases[i].line, "\r\n");

        assert_int_equal(log_ring_read(&ring, &position, words, LOG_RECORD_WORDS_MAX),
                         LOG_RING_RECORD);
        assert_int_equal(log_record_unpack(words, &record), 0);
        assert_int_equal(record.request_line.length, length);
        assert_memory_equal(record.request_line.start, cases[i].line, length);
        assert_int_equal(record.status, cases[i].status);
        assert_int_equal(record.duration_ns, 1000);
        assert_int_equal(record.address[12], i == 0 ? 127 : 192);
        assert_int_equal(record.protocol, i == 1   ? LOG_PROTOCOL_HTTP_1_0
                                          : i == 3 ? LOG_PROTOCOL_UNKNOWN
                                                   : LOG_PROTOCOL_HTTP_1_1);
    }
    assert_int_equal(log_ring_read(&ring, &position, words, LOG_RECORD_WORDS_MAX), LOG_RING_EMPTY);
}

BOARD_TEST(request_line_of_any_length_is_stored)
{
    static const size_t lengths[] = {0, 1, 7, 8, 9, 15, 16, 94, 95, 96, 97, 104, 255, 256, 257};
    uint64_t words[LOG_RECORD_WORDS_MAX], position = 0;
    char text[300];
    struct log_record record;
    struct log_ring ring;

    open_board();
    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = (char)('a' + i % 26);
    for (size_t i = 0; i < ARRAY_LENGTH(lengths); i++) {
        char expected[97] = "", *work;

        board_begin(text, lengths[i]);
        work = (char *)&segment_thread(&reader.map, wsboard_self.number)->activity.work;
        snprintf(expected, 96, "%.*s", (int)lengths[i], text);
        assert_string_equal(work, expected);
        board_end(200, 0);
        ring = segment_ring(&reader.map, wsboard_self.number);
        assert_int_equal(log_ring_read(&ring, &position, words, LOG_RECORD_WORDS_MAX),
                         LOG_RING_RECORD);
        assert_int_equal(log_record_unpack(words, &record), 0);
        assert_int_equal(record.request_line.length, lengths[i] > 256 ? 256 : lengths[i]);
        assert_memory_equal(record.request_line.start, text, record.request_line.length);
    }
}

BOARD_TEST(latency_is_in_the_bucket_of_webserverd)
{
    static const uint64_t values[] = {0,
                                      1,
                                      127,
                                      128,
                                      129,
                                      255,
                                      256,
                                      1000,
                                      123456789,
                                      UINT64_C(1) << 37,
                                      UINT64_C(1) << 38,
                                      UINT64_C(1) << 50};
    static struct histogram expected, counted;

    open_board();
    for (size_t i = 0; i < ARRAY_LENGTH(values); i++) {
        board_begin_at("x", 1, 7);
        board_end_at(200, 0, 7 + values[i]);
        histogram_record(&expected, values[i]);
    }
    attach();
    segment_add_all_latency(&reader.map, &counted);
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        assert_int_equal(counted.bucket[i], expected.bucket[i]);
    assert_int_equal(counted.sum, expected.sum);
    assert_int_equal(counted.max, expected.max);
}

/* Threads and processes */

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { SHORT_THREADS = 1000 }; /* a thread costs much more */
#else
enum { SHORT_THREADS = 10000 };
#endif
enum { AT_ONCE = 50 };

static void *one_request(void *unused)
{
    (void)unused;
    board_begin("GET / HTTP/1.1", 14);
    board_end(200, 1);
    return NULL;
}

static uint32_t threads_shown(void)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < segment_count(&reader.map, SEGMENT_THREADS); i++)
        if (segment_thread_reserved(&reader.map, i))
            count += segment_thread(&reader.map, i)->activity.state != THREAD_STATE_NONE;
    return count;
}

BOARD_TEST(short_threads_lose_no_count_and_no_slot)
{
    pthread_t thread[AT_ONCE];

    open_board();
    for (int i = 0; i < SHORT_THREADS / AT_ONCE; i++) {
        for (int j = 0; j < AT_ONCE; j++)
            assert_int_equal(pthread_create(&thread[j], NULL, one_request, NULL), 0);
        for (int j = 0; j < AT_ONCE; j++)
            pthread_join(thread[j], NULL);
    }
    assert_int_equal(sum(METRIC_requests), SHORT_THREADS);
    assert_int_equal(threads_shown(), 0);
    assert_int_equal(segment_worker(&reader.map, 0)->threads_actual, 0);
}

enum { CHILDREN = 60 };

static void end_child(int number)
{
    one_request(NULL);
    board_connection(1);
    if (number % 3 == 0)
        kill(getpid(), SIGKILL);
    if (number % 3 == 1)
        exit(0);
    board_connection(-1);
    _exit(0);
}

/* Fewer than there are slots at a time; those that are killed or call _exit() leave theirs taken. */
BOARD_TEST(children_are_counted_and_their_slots_used_again)
{
    pid_t pid;

    open_board();
    one_request(NULL);
    for (int i = 0; i < CHILDREN; i++) {
        pid = fork();
        if (pid == 0)
            end_child(i);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
    }
    assert_int_equal(sum(METRIC_requests), CHILDREN + 1);
    assert_int_equal(sum(METRIC_connections_accepted), CHILDREN);
    assert_int_equal(segment_worker_slot(&reader.map, 0)->pid, getpid());
}

BOARD_TEST(child_takes_the_slot_that_it_names)
{
    pid_t pid;

    open_board();
    pid = fork();
    if (pid == 0) {
        board_worker(5);
        board_worker(99);
        one_request(NULL);
        _exit(segment_worker_slot(&reader.map, 5)->pid == getpid() ? 0 : 1);
    } else {
        int status;

        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
}

enum { STORM_PARENTS = 4, STORM_CHILDREN = 25 };

/* More children at a time than there are slots: those without one are not counted. */
static void storm(void)
{
    for (int i = 0; i < STORM_CHILDREN; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            one_request(NULL);
            if (i % 2 == 0)
                kill(getpid(), SIGKILL);
            exit(0);
        }
    }
    while (wait(NULL) > 0)
        ;
}

BOARD_TEST(storm_of_children_leaves_free_slots)
{
    uint64_t requests;

    open_board();
    one_request(NULL);
    for (int i = 0; i < STORM_PARENTS; i++)
        if (fork() == 0) {
            storm();
            exit(0);
        }
    while (wait(NULL) > 0)
        ;
    requests = sum(METRIC_requests);
    assert_in_range(requests, WSBOARD_WORKERS, STORM_PARENTS * STORM_CHILDREN + 1);
    if (fork() == 0) {
        one_request(NULL);
        exit(0);
    }
    wait(NULL);
    assert_int_equal(sum(METRIC_requests), requests + 1); /* there is a free slot */
}

/* States, queue, locks, events */

static uint32_t own_state(void)
{
    return segment_thread(&reader.map, wsboard_self.number)->activity.state;
}

BOARD_TEST(state_name_and_queue_are_shown)
{
    const struct segment_thread *thread;

    open_board();
    board_name("acceptor with a long name");
    board_state(BOARD_ACCEPT);
    assert_int_equal(own_state(), THREAD_STATE_ACCEPT);
    board_begin("GET /x HTTP/1.1", 15);
    assert_int_equal(own_state(), THREAD_STATE_WRITE);
    thread = segment_thread(&reader.map, wsboard_self.number);
    assert_memory_equal(&thread->activity.work, "GET /x HTTP/1.1", 16);
    board_end(200, 1);
    assert_int_equal(own_state(), THREAD_STATE_IDLE);
    assert_string_equal((char *)segment_at(&reader.map, SEGMENT_NAMES, wsboard_self.number),
                        "acceptor with a");
    board_state(BOARD_QUEUE);
    board_queue(3, 16);
    assert_int_equal(own_state(), THREAD_STATE_READ);
    board_waited(board_now() - 1000000);
    board_count(BOARD_DROPPED, 2);
    board_count(BOARD_CACHE_HITS, 5);
    assert_int_equal(sum(METRIC_queue_length), 3);
    assert_int_equal(sum(METRIC_queue_capacity), 16);
    assert_int_equal(sum(METRIC_queue_taken), 1);
    assert_true(sum(METRIC_queue_wait) >= 1000000);
    assert_int_equal(sum(METRIC_queue_dropped), 2);
    assert_int_equal(sum(METRIC_cache_hits), 5);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static volatile bool waiting, go;

static void *wait_for_lock(void *unused)
{
    (void)unused;
    board_state(BOARD_FILE);
    waiting = true;
    board_lock(&mutex);
    assert_int_equal(own_state(), THREAD_STATE_FILE);
    while (!go)
        board_wait(&condition, &mutex);
    assert_int_equal(own_state(), THREAD_STATE_FILE);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

static void await_state(uint32_t slot, uint32_t wanted)
{
    while (!segment_thread_reserved(&reader.map, slot) ||
           segment_thread(&reader.map, slot)->activity.state != wanted)
        sched_yield(); /* the time limit of the test ends a hang */
}

BOARD_TEST(wait_for_lock_and_condition_is_a_state)
{
    pthread_t thread;

    open_board();
    assert_int_equal(board_lock(&mutex), 0);
    board_state(BOARD_COMPUTE); /* this thread has slot 0 */
    assert_int_equal(pthread_create(&thread, NULL, wait_for_lock, NULL), 0);
    await_state(1, THREAD_STATE_LOCK);
    pthread_mutex_unlock(&mutex);
    await_state(1, THREAD_STATE_QUEUE);
    pthread_mutex_lock(&mutex);
    go = true;
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&mutex);
    pthread_join(thread, NULL);
    assert_true(sum(METRIC_lock_waits) >= 1);
    assert_true(sum(METRIC_lock_wait) > 0);
}

/* Names */

static void check_second_open(void)
{
    pid_t pid;
    int status;

    open_board();
    pid = fork();
    if (pid == 0) {
        wsboard_own.board = NULL; /* as another program */
        _exit(board_open(name, 1) == -1 && errno == EEXIST ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

TEST(name_of_a_running_program_is_refused)
{
    static const char *const wrong[] = {
        "", ".a", "a/b", "a b", "0123456789012345678901234567890123456789012345678901234567890123"};
    char why[256];

    for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++) {
        assert_int_equal(board_open(wrong[i], 1), -1);
        assert_int_equal(errno, EINVAL);
    }
    assert_int_equal(in_child(check_second_open), 0);
    assert_int_equal(segment_attach(&reader, name, why, sizeof(why)), SEGMENT_ABSENT);
}

enum { RIVALS = 8, RACES = 10 };

/* Each opens the same name at the same moment: one gets it, also if it is that of a dead program. */
TEST(one_of_several_programs_gets_a_name)
{
    for (int race = 0; race < RACES; race++) {
        int start[2], end[2], opened = 0, status;
        char byte;

        assert_int_equal(pipe(start), 0);
        assert_int_equal(pipe(end), 0);
        for (int i = 0; i < RIVALS; i++)
            if (fork() == 0) {
                close(start[1]);
                close(end[1]);
                status = read(start[0], &byte, 1) == 0 && board_open(name, 1) == 0 ? 0 : errno;
                if (status == 0 && read(end[0], &byte, 1) == 0 && race % 2 == 0)
                    board_close(); /* else the next race begins with the board of a dead program */
                _exit(status);
            }
        close(start[0]);
        close(end[0]);
        close(start[1]); /* now */
        for (int i = 0; i < RIVALS - 1; i++) {
            wait(&status);
            assert_int_equal(WEXITSTATUS(status), EEXIST);
        }
        close(end[1]);
        wait(&status);
        opened += status == 0;
        assert_int_equal(opened, 1);
    }
    assert_int_equal(in_child(open_board), 0);
}

/* Root has every permission, so it plays the two users. */
TEST(board_of_another_user_is_refused)
{
    enum { OWNER = 12345678, OTHER = 12345679 };
    enum segment_attach_result attached;
    int opened, opened_again, error;
    char why[256];

    if (geteuid() != 0)
        skip();
    assert_int_equal(seteuid(OWNER), 0);
    opened = board_open(name, 1);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(seteuid(OTHER), 0);
    attached = segment_attach(&reader, name, why, sizeof(why));
    wsboard_own.board = NULL; /* as another program */
    opened_again = board_open(name, 1);
    error = errno;
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(unlink(wsboard_own.path), 0);
    assert_int_equal(opened, 0);
    assert_int_not_equal(attached, SEGMENT_ATTACHED);
    assert_int_equal(opened_again, -1);
    assert_true(error == EEXIST || error == EACCES);
}

static void work_until_killed(void)
{
    if (board_open(name, 1) != 0)
        _exit(1);
    for (;;)
        one_request(NULL);
}

/* A reader finds a board that can be read, or none; the next program can open it. */
TEST(killed_program_leaves_a_board_that_can_be_replaced)
{
    char why[256], pattern[80];
    glob_t left = {0};

    for (unsigned i = 0; i < 200; i++) {
        pid_t pid = fork();
        enum segment_attach_result result;

        if (pid == 0)
            work_until_killed();
        usleep(i * 37 % 4000); /* a random moment */
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        result = segment_attach(&reader, name, why, sizeof(why));
        if (result == SEGMENT_ATTACHED) {
            struct histogram latency = {0};

            assert_int_equal(segment_health(&reader, 0), SEGMENT_DEAD);
            segment_add_all_latency(&reader.map, &latency);
            assert_in_range(sum(METRIC_requests), histogram_count(&latency),
                            histogram_count(&latency) + 1);
        } else if (result != SEGMENT_ABSENT) {
            fail_msg("%s", why);
        }
        segment_detach(&reader);
    }
    assert_int_equal(in_child(open_board), 0);
    assert_int_equal(segment_attach(&reader, name, why, sizeof(why)), SEGMENT_ABSENT);
    snprintf(pattern, sizeof(pattern), "/dev/shm/webserverd.%s*", name);
    assert_int_equal(glob(pattern, 0, NULL, &left), GLOB_NOMATCH);
}

/* Failures */

static void call_everything(void)
{
    board_begin("x", 1);
    board_end(200, 1);
    board_state(BOARD_FILE);
    board_name("x");
    board_worker(1);
    board_connection(1);
    board_queue(1, 2);
    board_waited(0);
    board_count(BOARD_DROPPED, 1);
    board_event(BOARD_INFO, "x");
    assert_int_equal(board_lock(&mutex), 0);
    assert_int_equal(pthread_mutex_unlock(&mutex), 0);
}

BOARD_TEST(calls_do_nothing_without_memory)
{
    refuse_posix_fallocate = true;
    assert_int_equal(board_open(name, 1), -1);
    assert_int_equal(errno, ENOSPC);
    call_everything();
    assert_int_equal(board_control(NULL, ""), -1);
    refuse_posix_fallocate = false;
    refuse_madvise = true;
    open_board(); /* there is no room for a thread */
    madvised = 0;
    call_everything();
    assert_int_equal(sum(METRIC_requests), 0);
    assert_int_equal(madvised, 1); /* a try takes long: not in each call */
    refuse_madvise = false;
    for (int i = 0; i < 1024 && sum(METRIC_requests) == 0; i++) /* a try is rare */
        call_everything();
    assert_int_equal(sum(METRIC_requests), 1);
}

/* Commands */

static int accept_command(const char *command, const char *argument, char *answer, size_t size)
{
    (void)command;
    (void)argument;
    (void)answer;
    (void)size;
    return 0;
}

BOARD_TEST(closed_board_has_no_socket)
{
    open_board();
    assert_int_equal(board_control(accept_command, "threads"), 0);
    attach();
    assert_int_equal(access(reader.map.header.socket_path, F_OK), 0);
    board_close();
    assert_int_not_equal(access(reader.map.header.socket_path, F_OK), 0);
}
