/* Instance names and paths, and properties of the .def lists.
 */
#include "common/instance.h"
#include "common/macros.h"
#include "common/tables.h"
#include "tests/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TEST(names_are_validated)
{
    static const struct {
        const char *name;
        bool valid;
    } cases[] = {
        {"webserverd", true},
        {"a", true},
        {"Site-2.test_x", true},
        {"-", true},
        {"123456789012345678901234567890123456789012345678", true},
        {"1234567890123456789012345678901234567890123456789", false},
        {"", false},
        {".", false},
        {"..", false},
        {".hidden", false},
        {"a/b", false},
        {"a b", false},
        {"a\n", false},
        {"\xc3\xa4", false},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
        if (instance_name_valid(cases[i].name) != cases[i].valid)
            fail_msg("'%s' should be %s", cases[i].name, cases[i].valid ? "valid" : "invalid");
}

/* --- Segments: files in /dev/shm, which these tests remove --- */

static char instance[INSTANCE_NAME_MAX + 1], found[INSTANCE_PATH_MAX], reason[256];

static int name_instance(void **state)
{
    (void)state;
    snprintf(instance, sizeof(instance), "test-instance-%d", (int)getpid());
    return 0;
}

static int remove_segments(void **state)
{
    (void)state;
    return instance_remove_segments(instance, false);
}

static const char *path_of(const char *end)
{
    static char path[128];

    snprintf(path, sizeof(path), "/dev/shm/webserverd.%s%s", instance, end);
    return path;
}

static void put_segment(const char *end)
{
    int fd = open(path_of(end), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    close(fd);
}

static bool is_there(const char *end)
{
    return access(path_of(end), F_OK) == 0;
}

static int find(void)
{
    errno = 0;
    return instance_find_segment(instance, found, sizeof(found), reason, sizeof(reason));
}

static void expect_found(const char *end)
{
    assert_int_equal(find(), 0);
    assert_string_equal(found, path_of(end) + strlen(INSTANCE_SHARED_MEMORY));
}

TEST(segment_name_cannot_be_predicted)
{
    char one[INSTANCE_PATH_MAX], other[INSTANCE_PATH_MAX], name[INSTANCE_NAME_MAX + 1];

    assert_int_equal(instance_make_segment_name("site", "", one, sizeof(one)), 0);
    assert_int_equal(instance_make_segment_name("site", "", other, sizeof(other)), 0);
    assert_string_not_equal(one, other);
    assert_int_equal(strncmp(one, "/webserverd.site.", 17), 0);
    assert_int_equal(strspn(one + 17, "0123456789abcdef"), 16);
    assert_true(instance_of_segment(one + 1, name));
    assert_string_equal(name, "site");
    assert_int_equal(instance_make_segment_name("site", "", one, strlen(one)), -1);
    assert_int_equal(errno, ENAMETOOLONG);
}

TEST_WITH(newest_segment_is_found, name_instance, remove_segments)
{
    static const char *const ends[] = {"", ".ffffffffffffffff", ".0000000000000000"};

    assert_int_equal(find(), -1);
    assert_int_equal(errno, ENOENT);
    for (size_t i = 0; i < ARRAY_LENGTH(ends); i++) {
        put_segment(ends[i]);
        usleep(20000); /* the clock of files may advance that slowly */
        expect_found(ends[i]);
    }
}

TEST_WITH(other_files_are_no_segments, name_instance, remove_segments)
{
    static const char *const ends[] = {".0123456789abcdef.new", ".0123456789ABCDEF",
                                       ".0123456789abcde",      "x",
                                       ".0123456789abcdef0",    ".new"};
    char name[INSTANCE_NAME_MAX + 1];

    for (size_t i = 0; i < ARRAY_LENGTH(ends); i++) {
        put_segment(ends[i]);
        assert_int_equal(find(), -1);
        assert_int_equal(unlink(path_of(ends[i])), 0);
    }
    assert_int_equal(mkdir(path_of(".0123456789abcdef"), 0700), 0);
    assert_int_equal(find(), -1);
    assert_int_equal(instance_remove_segments(instance, false), 0);
    assert_int_equal(rmdir(path_of(".0123456789abcdef")), 0);
    assert_false(instance_of_segment("sem.site", name));
    assert_false(instance_of_segment("webserverd.", name));
    assert_false(instance_of_segment("webserverd.site.0123456789abcdef.new", name));
    assert_true(instance_of_segment("webserverd.site", name));
    assert_string_equal(name, "site");
}

TEST_WITH(new_segments_are_removed_alone, name_instance, remove_segments)
{
    put_segment(".0123456789abcdef");
    put_segment(".fedcba9876543210.new");
    assert_int_equal(instance_remove_segments(instance, true), 0);
    assert_true(is_there(".0123456789abcdef"));
    assert_false(is_there(".fedcba9876543210.new"));
    assert_int_equal(instance_remove_segments(instance, false), 0);
    assert_false(is_there(".0123456789abcdef"));
}

/* Only root can play the other user. */
TEST_WITH(segments_of_other_users_are_not_used, name_instance, remove_segments)
{
    if (geteuid() != 0)
        skip();
    put_segment("");
    assert_int_equal(chown(path_of(""), 65534, (gid_t)-1), 0);
    assert_int_equal(find(), -1);
    assert_non_null(strstr(reason, "(uid 65534), not to root"));
    put_segment(".0123456789abcdef");
    assert_int_equal(chown(path_of(""), 65534, (gid_t)-1), 0); /* is the newest */
    expect_found(".0123456789abcdef");
    assert_int_equal(instance_remove_segments(instance, false), 0);
    assert_true(is_there(""));
    assert_int_equal(unlink(path_of("")), 0);
}

TEST(only_root_and_this_user_are_trusted)
{
    char why[128] = "";

    assert_true(instance_owner_trusted(0, "x", why, sizeof(why)));
    assert_true(instance_owner_trusted(geteuid(), "x", why, sizeof(why)));
    assert_string_equal(why, "");
    assert_false(instance_owner_trusted(12345678, "the file x", why, sizeof(why)));
    assert_string_equal(why, "the file x belongs to another user (uid 12345678), not to root, "
                             "this user or the system service");
    assert_false(instance_owner_trusted(1, "the file x", why, sizeof(why)));
    assert_non_null(strstr(why, "belongs to daemon (uid 1)"));
}

TEST(run_dir_and_socket_depend_on_user)
{
    char folder[INSTANCE_PATH_MAX], expected[INSTANCE_PATH_MAX], text[INSTANCE_PATH_MAX];

    setenv("XDG_RUNTIME_DIR", "/some/where", 1);
    if (geteuid() == 0)
        snprintf(expected, sizeof(expected), "/run/webserverd");
    else
        snprintf(expected, sizeof(expected), "/some/where/webserverd");
    assert_int_equal(instance_run_dir(folder, sizeof(folder)), 0);
    assert_string_equal(folder, expected);

    assert_int_equal(instance_socket_path("site", text, sizeof(text)), 0);
    assert_int_equal(strncmp(text, expected, strlen(expected)), 0);
    assert_string_equal(text + strlen(expected), "/site.sock");
    assert_int_equal(instance_socket_path("site", text, 10), -1);

    setenv("XDG_RUNTIME_DIR", "not/absolute", 1);
    if (geteuid() != 0)
        snprintf(expected, sizeof(expected), "/tmp/webserverd-%lu", (unsigned long)geteuid());
    assert_int_equal(instance_run_dir(folder, sizeof(folder)), 0);
    assert_string_equal(folder, expected);
}

/* Names, labels and help texts must fit the fixed fields of the segment. */
TEST(metric_texts_fit_the_segment)
{
    for (size_t i = 0; i < METRIC_COUNT; i++) {
        assert_in_range(strlen(metric_table[i].name), 1, 31);
        assert_in_range(strlen(metric_table[i].label), 1, 15);
        assert_in_range(strlen(metric_table[i].help), 1, 127);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(metric_table[i].name, metric_table[j].name);
    }
}

TEST(state_letters_are_unique)
{
    for (size_t i = 0; i < THREAD_STATE_COUNT; i++) {
        assert_in_range(strlen(thread_state_table[i].name), 1, 14);
        assert_in_range(strlen(thread_state_table[i].help), 1, 63);
        for (size_t j = 0; j < i; j++)
            assert_int_not_equal(thread_state_table[i].letter, thread_state_table[j].letter);
    }
}

TEST(table_find_returns_index)
{
    assert_int_equal(table_find("debug", level_names, LEVEL_COUNT), LEVEL_DEBUG);
    assert_int_equal(table_find("error", level_names, LEVEL_COUNT), LEVEL_ERROR);
    assert_int_equal(table_find("Error", level_names, LEVEL_COUNT), -1);
    assert_int_equal(table_find("", level_names, LEVEL_COUNT), -1);
    assert_int_equal(table_find("warn", level_names, 0), -1);
}
