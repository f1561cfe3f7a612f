/* A confined child: what it leaves, how it ends, and that it never keeps the master waiting. */
#include "daemon/sandbox/sandbox.h"
#include "daemon/tls/confined.h"
#include "tests/test.h"
#include "tests/unit/open_descriptors.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const struct config config = {.server_user = (char *)"", .server_group = (char *)""};
static struct confined confined;

static enum confined_result run(confined_work *work)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), before = open_descriptors();
    enum confined_result result;

    assert_int_equal(confined_start(&confined, &config, "a.pem", &fd, 1, work, &fd), 0);
    result = confined_result(&confined, true);
    assert_int_equal(open_descriptors(), before);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(confined.child, 0);
    close(fd);
    return result;
}

static bool read_file(void *argument, char *why, size_t size)
{
    char byte;

    (void)why, (void)size;
    return pread(*(int *)argument, &byte, 1, 0) == 0;
}

static bool give_reason(void *argument, char *why, size_t size)
{
    (void)argument;
    snprintf(why, size, "a.pem: bad");
    return false;
}

static bool crash(void *argument, char *why, size_t size)
{
    (void)argument, (void)why, (void)size;
    abort();
}

/* As one that was taken over: it looks as if it had ended, and runs on. */
static bool close_and_sleep(void *argument, char *why, size_t size)
{
    static const struct timespec hour = {.tv_sec = 3600};

    (void)argument, (void)why, (void)size;
    for (int fd = 3; fd < 64; fd++)
        close(fd);
    while (nanosleep(&hour, NULL) == 0)
        continue;
    return true;
}

static bool write_much(void *argument, char *why, size_t size)
{
    static char much[1000];

    (void)argument, (void)why, (void)size;
    memset(much, 'x', sizeof(much));
    for (int fd = 3; fd < 64; fd++)
        if (write(fd, much, sizeof(much)) > 0)
            break;
    return false;
}

TEST(work_succeeds_or_fails)
{
    assert_int_equal(run(read_file), CONFINED_DONE);
    assert_string_equal(confined.why, "");
    assert_int_equal(run(give_reason), CONFINED_REFUSED);
    assert_string_equal(confined.why, "a.pem: bad");
}

TEST(crash_is_a_refusal)
{
    assert_int_equal(run(crash), CONFINED_REFUSED);
    assert_memory_equal(confined.why, "a.pem: ended the process that reads it by signal ", 49);
}

/* Before, the master waited for it for ever. */
TEST(child_that_only_looks_ended_is_killed)
{
    assert_int_equal(run(close_and_sleep), CONFINED_REFUSED);
}

static bool sleep_long(void *argument, char *why, size_t size)
{
    static const struct timespec hour = {.tv_sec = 3600};

    (void)argument, (void)why, (void)size;
    return nanosleep(&hour, NULL) != 0;
}

TEST(child_is_killed_at_its_deadline)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    assert_int_equal(confined_start(&confined, &config, "a.pem", &fd, 1, sleep_long, NULL), 0);
    assert_int_equal(confined_result(&confined, false), CONFINED_RUNS);
    confined.deadline_ns = 0;
    assert_int_equal(confined_result(&confined, false), CONFINED_REFUSED);
    assert_string_equal(confined.why,
                        "a.pem: takes more than 60 s to read: the machine is too busy");
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    close(fd);
}

TEST(long_report_is_cut)
{
    assert_int_equal(run(write_much), CONFINED_REFUSED);
    assert_int_equal(strlen(confined.why), sizeof(confined.why) - 1);
}

TEST(child_that_runs_can_be_left)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), pair[2];

    assert_int_equal(pipe(pair), 0);
    assert_int_equal(confined_start(&confined, &config, "a.pem", pair, 2, close_and_sleep, &fd), 0);
    confined_abandon(&confined);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    close(fd);
    close(pair[0]);
    close(pair[1]);
}

static int prepare(void **state)
{
    (void)state;
    return sandbox_prepare();
}

const struct test_fixture test_group_fixture = {prepare, NULL};
