/* The files of the state directory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/macros.h"
#include "daemon/acme/state.h"

#include "daemon/acme/process.h"
#include "daemon/sandbox/identity.h"
#include "tests/unit/open_descriptors.h"
#include "tests/unit/own_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static int directory, descriptors_before;
static int write_interruptions;   /* of the next calls of write() */
static size_t write_most = 65536; /* bytes that it writes at once */

/* Replaced by the linker: see wrap() in tests/unit/CMakeLists.txt. */
/* NOLINTBEGIN(clang-diagnostic-reserved-identifier): names of the linker */
ssize_t __wrap_write(int fd, const void *bytes, size_t length);
ssize_t __real_write(int fd, const void *bytes, size_t length);
/* NOLINTEND(clang-diagnostic-reserved-identifier) */

ssize_t __wrap_write(int fd, const void *bytes, size_t length)
{
    if (write_interruptions > 0) {
        write_interruptions--;
        errno = EINTR;
        return -1;
    }
    return __real_write(fd, bytes, length < write_most ? length : write_most);
}

static int set_up(void **state)
{
    (void)state;
    own_directory_make();
    directory = open(own_directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(directory >= 0);
    descriptors_before = open_descriptors();
    return 0;
}

/* No function leaves a descriptor open. */
static int tear_down(void **state)
{
    (void)state;
    assert_int_equal(open_descriptors(), descriptors_before);
    close(directory);
    return own_directory_remove();
}

static bool exists(const char *name)
{
    return faccessat(directory, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void put(const char *name, const char *text)
{
    assert_int_equal(state_write(directory, name, text), 0);
}

static void assert_text(const char *name, const char *text)
{
    char *read = state_read(directory, name);

    assert_non_null(read);
    assert_string_equal(read, text);
    free(read);
}

/* Preparing */

/* Returns the result of acme_prepare_state() for PATH below own_directory. */
static int prepare(const char *path, const char *user, const char *group, char *why, size_t size)
{
    char full[8192], server_user[64], server_group[64];
    struct config config = {0};

    snprintf(full, sizeof(full), "%s/%s", own_directory, path);
    snprintf(server_user, sizeof(server_user), "%s", user);
    snprintf(server_group, sizeof(server_group), "%s", group);
    config.acme_state_dir = full;
    config.server_user = server_user;
    config.server_group = server_group;
    return acme_prepare_state(&config, why, size);
}

static struct stat status_of(const char *name)
{
    struct stat status;

    assert_int_equal(fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW), 0);
    return status;
}

static void directory_is_made_for_the_workers(void **state)
{
    struct identity identity;
    struct identity_fault fault;
    mode_t mask = umask(022);
    char why[256];
    uid_t uid;

    (void)state;
    assert_int_equal(identity_find("", "", geteuid(), &identity, &fault), 0);
    uid = identity.changes ? identity.uid : geteuid();
    assert_int_equal(prepare("a/b/state", "", "", why, sizeof(why)), 0);
    assert_int_equal(status_of("a").st_mode, S_IFDIR | 0755);
    assert_int_equal(status_of("a/b").st_mode, S_IFDIR | 0755);
    assert_int_equal(status_of("a").st_uid, geteuid());
    assert_int_equal(status_of("a/b/state").st_mode, S_IFDIR | 0700);
    assert_int_equal(status_of("a/b/state").st_uid, uid);
    assert_int_equal(prepare("a/b/state", "", "", why, sizeof(why)), 0);
    umask(mask);
}

static void mode_is_corrected(void **state)
{
    static const mode_t modes[] = {0755, 0710, 0600, 01700};
    char why[256];

    (void)state;
    assert_int_equal(mkdirat(directory, "state", 0700), 0);
    for (size_t i = 0; i < ARRAY_LENGTH(modes); i++) {
        assert_int_equal(fchmodat(directory, "state", modes[i], 0), 0);
        assert_int_equal(prepare("state", "", "", why, sizeof(why)), 0);
        assert_int_equal(status_of("state").st_mode, S_IFDIR | 0700);
    }
}

static void unusable_directory_is_reported(void **state)
{
    char why[256], text[256], too_long[8000];
    static const struct {
        const char *path;
        int error;
    } cases[] = {{"file", ENOTDIR}, {"file/state", ENOTDIR}, {"link", ENOTDIR}};

    (void)state;
    put("file", "");
    assert_int_equal(mkdirat(directory, "other", 0700), 0);
    assert_int_equal(symlinkat("other", directory, "link"), 0);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        assert_int_equal(prepare(cases[i].path, "", "", why, sizeof(why)), -1);
        snprintf(text, sizeof(text), "[acme] state_dir: %s/%s: %s", own_directory, cases[i].path,
                 strerror(cases[i].error));
        assert_string_equal(why, text);
    }
    memset(too_long, 'x', sizeof(too_long));
    too_long[sizeof(too_long) - 2] = '/';
    too_long[sizeof(too_long) - 1] = '\0';
    assert_int_equal(prepare(too_long, "", "", why, sizeof(why)), -1);
}

static void unknown_identity_is_reported(void **state)
{
    char why[256];

    (void)state;
    assert_int_equal(prepare("state", "no-such-user-here", "", why, sizeof(why)), -1);
    assert_memory_equal(why, "[server] user: ", 15);
    assert_int_equal(prepare("state", "", "no-such-group-here", why, sizeof(why)), -1);
    assert_memory_equal(why, "[server] group: ", 16);
    assert_false(exists("state"));
}

/* Reading */

static void text_is_read(void **state)
{
    (void)state;
    put("file", "text");
    assert_text("file", "text");
    put("file", "");
    assert_text("file", "");
}

static void link_or_directory_is_not_read(void **state)
{
    (void)state;
    put("file", "text");
    assert_int_equal(symlinkat("file", directory, "link"), 0);
    assert_int_equal(mkdirat(directory, "directory", 0700), 0);
    assert_null(state_read(directory, "link"));
    assert_int_equal(errno, ELOOP);
    assert_null(state_read(directory, "missing"));
    assert_int_equal(errno, ENOENT);
    assert_null(state_read(directory, "directory"));
}

static void fifo_is_read_without_a_writer(void **state)
{
    (void)state;
    assert_int_equal(mkfifoat(directory, "fifo", 0600), 0);
    assert_text("fifo", "");
}

static void long_file_is_cut(void **state)
{
    char *text = malloc(STATE_FILE_MAX + 2), *read;

    (void)state;
    assert_non_null(text);
    memset(text, 'x', STATE_FILE_MAX + 1);
    text[STATE_FILE_MAX + 1] = '\0';
    put("file", text);
    text[STATE_FILE_MAX] = '\0';
    read = state_read(directory, "file");
    assert_non_null(read);
    assert_string_equal(read, text);
    free(read);
    free(text);
}

static void only_objects_are_read_as_json(void **state)
{
    static const char *const others[] = {"[]", "{", "", "7"};
    json_t *json;

    (void)state;
    put("file", "{\"a\": 7}");
    json = state_read_json(directory, "file");
    assert_int_equal(json_integer_value(json_object_get(json, "a")), 7);
    json_decref(json);
    assert_null(state_read_json(directory, "missing"));
    for (size_t i = 0; i < ARRAY_LENGTH(others); i++) {
        put("file", others[i]);
        assert_null(state_read_json(directory, "file"));
    }
}

/* Writing */

static void file_is_replaced(void **state)
{
    int left = openat(directory, "file.new", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    (void)state;
    assert_int_equal(write(left, "of a killed process", 19), 19);
    close(left);
    put("file", "a");
    assert_text("file", "a");
    assert_false(exists("file.new"));
    assert_int_equal(status_of("file").st_mode, S_IFREG | 0600);
    put("file", "b");
    assert_text("file", "b");
}

static void all_is_written(void **state)
{
    (void)state;
    write_interruptions = 2;
    write_most = 3;
    put("file", "0123456789");
    write_most = 65536;
    assert_int_equal(write_interruptions, 0);
    assert_text("file", "0123456789");
}

/* Limits the size of files that this process writes. */
static void limit_files(rlim_t bytes)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void failure_leaves_the_old_file(void **state)
{
    struct rlimit usual;
    int failed, error;

    (void)state;
    put("file", "old");
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &usual), 0);
    limit_files(5);
    failed = state_write(directory, "file", "0123456789");
    error = errno;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &usual), 0);
    assert_int_equal(failed, -1);
    assert_int_equal(error, EFBIG);
    assert_text("file", "old");
    assert_false(exists("file.new"));
    assert_int_equal(mkdirat(directory, "directory", 0700), 0);
    assert_int_equal(state_write(directory, "directory", "text"), -1);
    assert_int_equal(errno, EISDIR);
    assert_false(exists("directory.new"));
}

static void link_is_not_written_through(void **state)
{
    (void)state;
    put("other", "other");
    assert_int_equal(symlinkat("other", directory, "file.new"), 0);
    assert_int_equal(state_write(directory, "file", "text"), -1);
    assert_int_equal(errno, ELOOP);
    assert_text("other", "other");
}

static void json_is_written(void **state)
{
    (void)state;
    assert_int_equal(state_write_json(directory, "file", json_pack("{s:i}", "a", 7)), 0);
    assert_text("file", "{\n  \"a\": 7\n}");
    assert_int_equal(state_write_json(directory, "file", NULL), -1);
    assert_int_equal(errno, ENOMEM);
    assert_int_equal(mkdirat(directory, "directory", 0700), 0);
    assert_int_equal(state_write_json(directory, "directory", json_object()), -1);
    assert_int_equal(errno, EISDIR);
}

static void files_are_renamed_and_removed(void **state)
{
    (void)state;
    put("a", "a");
    put("b", "b");
    assert_int_equal(state_rename(directory, "a", "b"), 0);
    assert_false(exists("a"));
    assert_text("b", "a");
    assert_int_equal(state_rename(directory, "a", "b"), -1);
    assert_int_equal(state_remove(directory, "b"), 0);
    assert_false(exists("b"));
    assert_int_equal(state_remove(directory, "b"), 0);
    assert_int_equal(mkdirat(directory, "directory", 0700), 0);
    assert_int_equal(state_remove(directory, "directory"), -1);
}

static void missing_space_is_reported(void **state)
{
    struct rlimit usual;
    int enough, none, error;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &usual), 0);
    limit_files(8192);
    enough = state_check_space(directory, 8192);
    none = state_check_space(directory, 8193);
    error = errno;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &usual), 0);
    assert_int_equal(enough, 0);
    assert_int_equal(none, -1);
    assert_int_equal(error, EFBIG);
    assert_false(exists("space.new"));
    assert_int_equal(mkdirat(directory, "space.new", 0700), 0);
    assert_int_equal(state_check_space(directory, 1), -1);
    assert_int_equal(errno, EISDIR);
}

static void lock_is_for_one_process(void **state)
{
    int first = state_lock(directory), again;

    (void)state;
    assert_true(first >= 0);
    assert_int_equal(state_lock(directory), -1);
    assert_int_equal(errno, EWOULDBLOCK);
    close(first);
    again = state_lock(directory);
    assert_true(again >= 0);
    close(again);
    assert_int_equal(unlinkat(directory, "lock", 0), 0);
    assert_int_equal(mkdirat(directory, "lock", 0700), 0);
    assert_int_equal(state_lock(directory), -1);
    assert_int_equal(errno, EISDIR);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(directory_is_made_for_the_workers),
        TEST(mode_is_corrected),
        TEST(unusable_directory_is_reported),
        TEST(unknown_identity_is_reported),
        TEST(text_is_read),
        TEST(link_or_directory_is_not_read),
        TEST(fifo_is_read_without_a_writer),
        TEST(long_file_is_cut),
        TEST(only_objects_are_read_as_json),
        TEST(file_is_replaced),
        TEST(all_is_written),
        TEST(failure_leaves_the_old_file),
        TEST(link_is_not_written_through),
        TEST(json_is_written),
        TEST(files_are_renamed_and_removed),
        TEST(missing_space_is_reported),
        TEST(lock_is_for_one_process),
    };

    signal(SIGXFSZ, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
