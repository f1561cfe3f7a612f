/* Which log targets the master opens, and with which rights. */
#include "daemon/logger/log_files.h"

#include "common/macros.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[64], path[96], other[96];
static char why[256];

static int make_directory(void **state)
{
    (void)state;
    snprintf(directory, sizeof(directory), "/tmp/log-files-test-XXXXXX");
    if (mkdtemp(directory) == NULL)
        return -1;
    snprintf(path, sizeof(path), "%s/log", directory);
    snprintf(other, sizeof(other), "%s/other", directory);
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    unlink(path);
    unlink(other);
    rmdir(path);
    return rmdir(directory);
}

static int open_log(const char *text)
{
    why[0] = '\0';
    return log_file_open(text, STDERR_FILENO, why, sizeof(why));
}

static void expect_refused(const char *text, const char *words)
{
    assert_int_equal(open_log(text), -1);
    if (strstr(why, words) == NULL)
        fail_msg("'%s' is not in: %s", words, why);
}

static void new_file_is_not_readable_by_others(void **state)
{
    struct stat file;
    mode_t mask = umask(0);
    int fd = open_log(path);

    (void)state;
    umask(mask);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &file), 0);
    assert_int_equal(file.st_mode & 07777, 0640);
    assert_int_equal(fcntl(fd, F_GETFL) & (O_ACCMODE | O_APPEND), O_WRONLY | O_APPEND);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    close(fd);
}

static void symbolic_link_is_refused(void **state)
{
    struct stat file;

    (void)state;
    assert_int_equal(symlink(other, path), 0);
    expect_refused(path, "it is a symbolic link");
    assert_int_equal(stat(other, &file), -1); /* not created either */
}

static void directory_and_socket_are_refused(void **state)
{
    (void)state;
    expect_refused(directory, "Is a directory");
    expect_refused("syslog:@/nowhere/at/all", "No such file or directory");
    expect_refused("/nowhere/at/all", "No such file or directory");
    expect_refused("syslog:local9", "unknown syslog facility");
}

static void pipe_is_opened_only_with_a_reader(void **state)
{
    int reader, fd;

    (void)state;
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_refused(path, "No such device or address");
    reader = open(path, O_RDONLY | O_NONBLOCK);
    fd = open_log(path);
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    close(fd);
    close(reader);
}

static void character_device_is_opened(void **state)
{
    int fd = open_log("/dev/null");

    (void)state;
    assert_true(fd >= 0);
    close(fd);
}

static void failed_reopen_keeps_the_old_files(void **state)
{
    struct config config = {.log_access = path, .log_error = other};
    struct log_files files;
    struct stat before, after;

    (void)state;
    assert_int_equal(log_files_open(&files, &config, why, sizeof(why)), 0);
    assert_int_equal(fstat(files.fd[LOG_ACCESS], &before), 0);
    unlink(path);
    unlink(other);
    assert_int_equal(mkdir(other, 0700), 0);
    assert_int_equal(log_files_reopen(&files, why, sizeof(why)), -1);
    assert_non_null(strstr(why, "cannot open the error log"));
    assert_int_equal(fstat(files.fd[LOG_ACCESS], &after), 0);
    assert_int_equal(after.st_ino, before.st_ino);
    assert_int_equal(rmdir(other), 0);
    assert_int_equal(log_files_reopen(&files, why, sizeof(why)), 0);
    log_files_close(&files);
}

static void log_that_is_off_is_not_lacking(void **state)
{
    char off[] = "off";
    struct config config = {.log_access = off, .log_error = path};
    struct log_files files;

    (void)state;
    assert_int_equal(log_files_open(&files, &config, why, sizeof(why)), 0);
    assert_int_equal(files.fd[LOG_ACCESS], -1);
    assert_false(log_files_lack(&files, LOG_ACCESS));
    log_files_lose(&files, LOG_ERROR);
    assert_true(log_files_lack(&files, LOG_ERROR));
    assert_int_equal(log_files_restore(&files, LOG_ERROR, why, sizeof(why)), 0);
    assert_false(log_files_lack(&files, LOG_ERROR));
    log_files_close(&files);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_directory, remove_directory)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(new_file_is_not_readable_by_others), TEST(symbolic_link_is_refused),
        TEST(directory_and_socket_are_refused),   TEST(pipe_is_opened_only_with_a_reader),
        TEST(character_device_is_opened),         TEST(failed_reopen_keeps_the_old_files),
        TEST(log_that_is_off_is_not_lacking),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
