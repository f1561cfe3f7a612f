/* The targets of the access log; which logs the master opens, and with which rights. */
#include "daemon/logger/log_files.h"

#include "common/macros.h"
#include "tests/test.h"
#include "tests/unit/open_descriptors.h"
#include "tests/unit/wrapped.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[64], path[96], other[96], off[] = "off";
static char why[512];
static struct config_host host = {.access_log = other};
static rlim_t descriptors_allowed; /* 0: as it is */

int __wrap_getrlimit(int resource, struct rlimit *limit)
{
    int failed = __real_getrlimit(resource, limit);

    if (descriptors_allowed > 0)
        limit->rlim_max = descriptors_allowed;
    return failed;
}

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

const struct test_fixture test_fixture = {make_directory, remove_directory};

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

TEST(new_file_is_not_readable_by_others)
{
    struct stat file;
    mode_t mask = umask(0);
    int fd = open_log(path);

    umask(mask);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &file), 0);
    assert_int_equal(file.st_mode & 07777, 0640);
    assert_int_equal(fcntl(fd, F_GETFL) & (O_ACCMODE | O_APPEND), O_WRONLY | O_APPEND);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    close(fd);
}

TEST(symbolic_link_is_refused)
{
    struct stat file;

    assert_int_equal(symlink(other, path), 0);
    expect_refused(path, "it is a symbolic link");
    assert_int_equal(stat(other, &file), -1); /* not created either */
}

/* In a directory of another user, whose links root must not follow. */
TEST(links_of_another_user_are_refused)
{
    static const struct {
        const char *make, *name, *reason; /* NULL: opened */
    } cases[] = {
        {"touch theirs/log", "log", NULL},
        {"true", "new.log", NULL},
        {"ln -s ../target theirs/log", "log", "it is a symbolic link"},
        {"ln -s $PWD/target theirs/log", "log", "it is a symbolic link"},
        {"ln target theirs/log", "log", "it is a hard link, and others may have made it: "},
        {"ln -s .. theirs/sub", "sub/target", "a symbolic link of others is in its path: "},
        {"ln -s $PWD theirs/sub", "sub/new", "a symbolic link of others is in its path: "},
    };
    char command[512], log[256];

    if (geteuid() != 0)
        skip();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int fd;

        snprintf(command, sizeof(command),
                 "cd %s && rm -rf theirs target && mkdir theirs && echo -n text >target && %s && "
                 "chown -h nobody theirs",
                 directory, cases[i].make);
        assert_int_equal(system(command), 0);
        snprintf(log, sizeof(log), "%s/theirs/%s", directory, cases[i].name);
        if (cases[i].reason != NULL) {
            expect_refused(log, cases[i].reason);
        } else {
            fd = open_log(log);
            assert_true(fd >= 0);
            close(fd);
        }
        snprintf(command, sizeof(command),
                 "cd %s && test $(cat target) = text && test ! -e new && rm -rf theirs target",
                 directory);
        assert_int_equal(system(command), 0);
    }
}

TEST(directory_and_socket_are_refused)
{
    expect_refused(directory, "Is a directory");
    expect_refused("syslog:@/nowhere/at/all", "No such file or directory");
    expect_refused("/nowhere/at/all", "No such file or directory");
    expect_refused("syslog:local9", "unknown syslog facility");
}

TEST(pipe_is_opened_only_with_a_reader)
{
    int reader, fd;

    assert_int_equal(mkfifo(path, 0600), 0);
    expect_refused(path, "No such device or address");
    reader = open(path, O_RDONLY | O_NONBLOCK);
    fd = open_log(path);
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    close(fd);
    close(reader);
}

TEST(character_device_is_opened)
{
    int fd = open_log("/dev/null");

    assert_true(fd >= 0);
    close(fd);
}

TEST(failed_reopen_keeps_the_old_files)
{
    struct config config = {.log_access = path, .log_error = other};
    struct log_files files;
    struct stat before, after;

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

TEST(log_that_is_off_is_not_lacking)
{
    struct config config = {.log_access = off, .log_error = path};
    struct log_files files;

    assert_int_equal(log_files_open(&files, &config, why, sizeof(why)), 0);
    assert_int_equal(files.fd[LOG_ACCESS], -1);
    assert_false(log_files_lack(&files, LOG_ACCESS));
    log_files_lose(&files, LOG_ERROR);
    assert_true(log_files_lack(&files, LOG_ERROR));
    assert_int_equal(log_files_restore(&files, LOG_ERROR, why, sizeof(why)), 0);
    assert_false(log_files_lack(&files, LOG_ERROR));
    log_files_close(&files);
}

/* Logs of hosts */

static ino_t inode_of(const struct log_files *files, uint32_t log)
{
    struct stat file;

    assert_int_equal(fstat(log_files_fd(files, log), &file), 0);
    return file.st_ino;
}

static ino_t inode_at(const char *name)
{
    struct stat file;

    assert_int_equal(stat(name, &file), 0);
    return file.st_ino;
}

TEST(access_log_that_is_off_is_replaced_if_a_host_has_one)
{
    struct config config = {.log_access = off, .log_error = path, .hosts = &host, .host_count = 1};
    int descriptors = open_descriptors();
    struct log_files files;

    assert_int_equal(log_files_open(&files, &config, why, sizeof(why)), 0);
    assert_int_equal(log_files_count(&files), LOG_KINDS + 1);
    assert_int_equal(inode_of(&files, LOG_ACCESS), inode_at("/dev/null"));
    assert_int_equal(inode_of(&files, LOG_ERROR), inode_at(path));
    assert_int_equal(inode_of(&files, LOG_KINDS), inode_at(other));
    log_files_lose(&files, LOG_ACCESS);
    assert_true(log_files_lack(&files, LOG_ACCESS));
    assert_false(log_files_lack(&files, LOG_KINDS));
    log_files_lose(&files, LOG_KINDS);
    log_files_lose(&files, LOG_KINDS);
    assert_true(log_files_lack(&files, LOG_KINDS));
    assert_int_equal(open_descriptors(), descriptors + 1);
    assert_int_equal(log_files_restore(&files, LOG_KINDS, why, sizeof(why)), 0);
    assert_int_equal(inode_of(&files, LOG_KINDS), inode_at(other));
    log_files_close(&files);
    assert_int_equal(open_descriptors(), descriptors);
}

/* A slow reader would hold up all hosts. */
TEST(pipe_is_refused_as_the_log_of_a_host)
{
    struct config config = {.log_access = path, .log_error = path, .hosts = &host, .host_count = 1};
    struct log_files files;
    int reader, descriptors;

    assert_int_equal(mkfifo(other, 0600), 0);
    reader = open(other, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(reader >= 0);
    descriptors = open_descriptors();
    assert_int_equal(log_files_open(&files, &config, why, sizeof(why)), -1);
    assert_non_null(strstr(why, "cannot open the access log"));
    assert_non_null(strstr(why, other));
    assert_non_null(strstr(why, " of a [host]: a pipe or terminal can only be [log] access"));
    assert_int_equal(open_descriptors(), descriptors);
    close(reader);
}

TEST(failed_open_leaves_no_descriptor)
{
    struct config config = {.log_access = path, .log_error = directory};
    int descriptors = open_descriptors();
    struct log_files files;

    assert_int_equal(log_files_open(&files, &config, why, sizeof(why)), -1);
    expect_refused("syslog:@/nowhere/at/all", "No such file or directory");
    assert_int_equal(open_descriptors(), descriptors);
}

TEST(reopened_logs_are_those_of_the_same_hosts)
{
    struct config config = {.log_access = path, .log_error = path, .hosts = &host, .host_count = 1};
    struct log_files files;
    int descriptors;
    ino_t before;

    assert_int_equal(log_files_open(&files, &config, why, sizeof(why)), 0);
    assert_int_equal(log_targets_reserve(&files.targets, 3), 0);
    files.targets.of_entry[2] = 1;
    before = inode_of(&files, LOG_KINDS);
    descriptors = open_descriptors();
    unlink(other);
    assert_int_equal(close(open(other, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)), 0);
    assert_int_not_equal(before, inode_at(other));
    assert_int_equal(log_files_reopen(&files, why, sizeof(why)), 0);
    assert_int_equal(inode_of(&files, LOG_KINDS), inode_at(other));
    assert_int_equal(log_targets_of_entry(&files.targets, 2), 1);
    assert_int_equal(open_descriptors(), descriptors);
    log_files_close(&files);
    assert_null(files.host_fd);
    assert_int_equal(files.targets.count, 0);
}

/* Four for each file of a host, and 48. */
TEST(logs_of_hosts_need_descriptors)
{
    struct config config = {.log_access = path, .log_error = path, .hosts = &host, .host_count = 1};
    struct log_files files;

    descriptors_allowed = 52;
    assert_int_equal(log_files_check(&config, why, sizeof(why)), 0);
    descriptors_allowed = 51;
    assert_int_equal(log_files_check(&config, why, sizeof(why)), -1);
    assert_string_equal(why, "1 access log of [host] sections: the master needs 52 descriptors (4 "
                             "for each, and 48), but 51 are allowed (raise the limit: ulimit -n)");
    assert_int_equal(log_files_open(&files, &config, why, sizeof(why)), -1);
    config.host_count = 0;
    assert_int_equal(log_files_check(&config, why, sizeof(why)), 0);
    descriptors_allowed = 0;
}

/* Targets */

static struct config_host hosts[] = {
    {.access_log = "/log/b"},   {.access_log = "/log/a"}, {.access_log = "off"},
    {.access_log = "/log/all"}, {.access_log = "/log/b"},
};
static const struct config hosts_config = {
    .log_access = "/log/all", .hosts = hosts, .host_count = ARRAY_LENGTH(hosts)};

static struct log_targets targets;

static int make_targets(void **state)
{
    (void)state;
    assert_int_equal(log_targets_make(&targets, &hosts_config), 0);
    return 0;
}

static int free_targets(void **state)
{
    (void)state;
    log_targets_free(&targets);
    return 0;
}

TEST_WITH(each_file_is_one_target, make_targets, free_targets)
{
    static const uint32_t expected[] = {2, 1, 0, 0, 2};

    assert_int_equal(targets.count, 2);
    assert_int_equal(log_targets_count(&hosts_config), 2);
    assert_string_equal(targets.path[0], "/log/a");
    assert_string_equal(targets.path[1], "/log/b");
    for (size_t i = 0; i < ARRAY_LENGTH(hosts); i++)
        assert_int_equal(log_targets_of_config(&targets, &hosts[i]), expected[i]);
    assert_int_equal(log_targets_of_config(&targets, NULL), 0);
}

TEST_WITH(hosts_without_files_have_no_targets, make_targets, free_targets)
{
    static struct config_host without = {.access_log = "off"};
    const struct config empty = {.log_access = "off", .hosts = &without, .host_count = 1};
    struct log_targets none;

    assert_int_equal(log_targets_make(&none, &empty), 0);
    assert_int_equal(none.count, 0);
    assert_int_equal(log_targets_of_config(&none, &without), 0);
    log_targets_free(&none);
}

/* A worker may write any host into a record. */
TEST_WITH(entry_out_of_range_has_target_0, make_targets, free_targets)
{
    static const uint64_t outside[] = {4, 5, UINT16_MAX, UINT64_MAX};

    for (size_t i = 0; i < ARRAY_LENGTH(outside); i++)
        assert_int_equal(log_targets_of_entry(&targets, outside[i]), 0);
    assert_int_equal(log_targets_reserve(&targets, 4), 0);
    targets.of_entry[3] = 2;
    assert_int_equal(log_targets_of_entry(&targets, 2), 0);
    assert_int_equal(log_targets_of_entry(&targets, 3), 2);
    for (size_t i = 0; i < ARRAY_LENGTH(outside); i++)
        assert_int_equal(log_targets_of_entry(&targets, outside[i]), 0);
}

TEST_WITH(key_finds_the_file_after_a_reload, make_targets, free_targets)
{
    static struct config_host more[] = {{.access_log = "/log/b"}, {.access_log = "/a"}};
    const struct config reloaded = {
        .log_access = "/log/all", .hosts = more, .host_count = ARRAY_LENGTH(more)};
    struct log_targets after;

    assert_int_equal(log_targets_make(&after, &reloaded), 0);
    assert_int_equal(log_targets_key(&targets, 0), 0);
    assert_int_equal(log_targets_find(&targets, 0), 0);
    for (uint32_t i = 1; i <= targets.count; i++) {
        assert_int_not_equal(log_targets_key(&targets, i), 0);
        assert_int_equal(log_targets_find(&targets, log_targets_key(&targets, i)), i);
    }
    assert_int_equal(log_targets_find(&after, log_targets_key(&targets, 2)), 2);
    assert_int_equal(log_targets_find(&after, log_targets_key(&targets, 1)), 0);
    log_targets_free(&after);
}

TEST_WITH(targets_are_equal_with_the_same_files_for_the_same_entries, make_targets, free_targets)
{
    struct log_targets others;

    assert_int_equal(log_targets_make(&others, &hosts_config), 0);
    assert_true(log_targets_equal(&targets, &others));
    assert_int_equal(log_targets_reserve(&others, 8), 0);
    assert_true(log_targets_equal(&targets, &others));
    others.of_entry[7] = 1;
    assert_false(log_targets_equal(&targets, &others));
    assert_false(log_targets_equal(&others, &targets));
    others.of_entry[7] = 0;
    others.path[1][1] = 'x';
    assert_false(log_targets_equal(&targets, &others));
    log_targets_free(&others);
}
