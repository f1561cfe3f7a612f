/* Who may write to the run directory and to the directories above it. */
#include "daemon/master/pid_file.h"

#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OTHER_USER = 65534 };

static char top[64], middle[80], run[96], why[512];

/* TOP/middle/run, where the last does not exist. */
static int make_directories(void **state)
{
    (void)state;
    snprintf(top, sizeof(top), "/tmp/test-run-dir-XXXXXX");
    if (mkdtemp(top) == NULL)
        return -1;
    snprintf(middle, sizeof(middle), "%s/middle", top);
    snprintf(run, sizeof(run), "%s/run", middle);
    why[0] = '\0';
    return mkdir(middle, 0755);
}

static int remove_directories(void **state)
{
    (void)state;
    if (rmdir(run) != 0)
        unlink(run);
    if (rmdir(middle) != 0)
        unlink(middle);
    return rmdir(top);
}

const struct test_fixture test_fixture = {make_directories, remove_directories};

static void expect_refusal(const char *words, const char *advice)
{
    assert_int_equal(run_dir_prepare(run, why, sizeof(why)), -1);
    if (strstr(why, words) == NULL || strstr(why, advice) == NULL)
        fail_msg("no '%s' and '%s' in '%s'", words, advice, why);
}

TEST(directory_is_created)
{
    struct stat status;

    assert_int_equal(run_dir_prepare(run, why, sizeof(why)), 0);
    assert_int_equal(stat(run, &status), 0);
    assert_int_equal(status.st_mode & 0022, 0);
    assert_int_equal(run_dir_prepare(run, why, sizeof(why)), 0);
}

TEST(directory_that_others_may_write_is_refused)
{
    static const mode_t modes[] = {0775, 0757, 0777, 01777};

    assert_int_equal(mkdir(run, 0755), 0);
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        assert_int_equal(chmod(run, modes[i]), 0);
        expect_refusal("group or others may write to the run directory", "chmod go-w");
    }
    assert_int_equal(chmod(run, 0755), 0);
    assert_int_equal(run_dir_prepare(run, why, sizeof(why)), 0);
}

TEST(directory_above_must_be_sticky_if_others_may_write)
{
    assert_int_equal(chmod(middle, 0777), 0);
    expect_refusal("replace the run directory", "chmod go-w");
    assert_int_equal(chmod(middle, 0770), 0);
    expect_refusal("replace the run directory", middle);
    assert_int_equal(chmod(middle, 01777), 0);
    assert_int_equal(run_dir_prepare(run, why, sizeof(why)), 0);
}

TEST(symbolic_link_is_no_run_directory)
{
    assert_int_equal(symlink("/tmp", run), 0);
    expect_refusal("is not a directory owned by this user", "server.run_dir");
}

/* Only root can play the other user. */
TEST(directories_of_another_user_are_refused)
{
    if (geteuid() != 0)
        skip();
    assert_int_equal(mkdir(run, 0755), 0);
    assert_int_equal(chown(run, OTHER_USER, (gid_t)-1), 0);
    expect_refusal("is not a directory owned by this user", "server.run_dir");
    assert_int_equal(chown(run, 0, (gid_t)-1), 0);
    assert_int_equal(chown(middle, OTHER_USER, (gid_t)-1), 0);
    expect_refusal(middle, "(uid 65534)");
}

TEST(link_of_another_user_above_is_refused)
{
    char target[80];

    if (geteuid() != 0)
        skip();
    snprintf(target, sizeof(target), "%s/target", top);
    assert_int_equal(rename(middle, target), 0);
    assert_int_equal(symlink("target", middle), 0);
    assert_int_equal(run_dir_prepare(run, why, sizeof(why)), 0);
    assert_int_equal(lchown(middle, OTHER_USER, (gid_t)-1), 0);
    expect_refusal(middle, "(uid 65534)");
    assert_int_equal(rmdir(run), 0);
    assert_int_equal(rmdir(target), 0);
}
