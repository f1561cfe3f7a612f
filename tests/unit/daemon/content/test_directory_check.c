#include "daemon/content/files.h"

#include "tests/test.h"
#include "tests/unit/open_descriptors.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE_NS = 1000, LATER_S = 60 };

static struct place {
    char path[64];
    struct files_root root;
    struct directory_check look;
} place;

static int set_up(void **state)
{
    (void)state;
    snprintf(place.path, sizeof(place.path), "/tmp/directory-look-XXXXXX");
    assert_non_null(mkdtemp(place.path));
    place.root.fd = open(place.path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(place.root.fd >= 0);
    assert_int_equal(mkdirat(place.root.fd, "a", 0755), 0);
    assert_int_equal(mkdirat(place.root.fd, "b", 0755), 0);
    directory_check_init(&place.look, PATIENCE_NS);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    directory_check_close(&place.look);
    unlinkat(place.root.fd, "a/new", 0);
    unlinkat(place.root.fd, "a", AT_REMOVEDIR);
    unlinkat(place.root.fd, "c", AT_REMOVEDIR);
    unlinkat(place.root.fd, "b", AT_REMOVEDIR);
    close(place.root.fd);
    rmdir(place.path);
    return 0;
}

const struct test_fixture test_fixture = {set_up, tear_down};

static int64_t later(void)
{
    return (int64_t)time(NULL) + LATER_S;
}

static uint64_t look_at(const char *file, uint64_t now_ns, int64_t wall_s)
{
    return directory_check_state(&place.look, &place.root, span_of(file), FILES_MAY_BLOCK, now_ns,
                                 wall_s);
}

static void make_new(void)
{
    int fd = openat(place.root.fd, "a/new", O_CREAT | O_WRONLY | O_CLOEXEC, 0644);

    assert_true(fd >= 0);
    close(fd);
}

TEST(state_changes_when_a_name_is_added)
{
    uint64_t before = look_at("/a/x.html", 1, later());

    assert_int_not_equal(before, 0);
    assert_int_equal(look_at("/a/y.html", 2 * PATIENCE_NS, later()), before);
    make_new();
    assert_int_not_equal(look_at("/a/x.html", 4 * PATIENCE_NS, later()), before);
}

TEST(state_is_reused_until_max_age)
{
    uint64_t before = look_at("/a/x.html", 1, later());
    int fd = place.look.fd;

    make_new();
    assert_int_equal(look_at("/a/x.html", PATIENCE_NS, later()), before);
    assert_int_equal(place.look.fd, fd);
    assert_int_not_equal(look_at("/a/x.html", 1 + PATIENCE_NS, later()), before);
}

/* The clock of a loop iteration does not advance, even if a request arrives during it. */
TEST(state_is_not_reused_with_max_age_0)
{
    uint64_t before;

    directory_check_init(&place.look, 0);
    before = look_at("/a/x.html", 1, later());
    assert_int_equal(look_at("/a/x.html", 1, later()), before);
    make_new();
    assert_int_not_equal(look_at("/a/x.html", 1, later()), before);
}

TEST(directories_have_different_states)
{
    uint64_t root = look_at("/x.html", 1, later());
    uint64_t a = look_at("/a/x.html", 1, later());
    uint64_t b = look_at("/b/x.html", 1, later());

    assert_int_not_equal(root, 0);
    assert_int_not_equal(a, b);
    assert_int_not_equal(a, root);
    assert_int_not_equal(b, root);
    assert_int_equal(look_at("/a/x.html", 1, later()), a);
}

/* Another directory under the same name, such as a new release of a site. */
TEST(replaced_directory_changes_the_state)
{
    uint64_t before = look_at("/a/x.html", 1, later());

    assert_int_equal(renameat(place.root.fd, "a", place.root.fd, "c"), 0);
    assert_int_equal(renameat(place.root.fd, "b", place.root.fd, "a"), 0);
    assert_int_not_equal(look_at("/a/x.html", 2 * PATIENCE_NS, later()), before);
}

TEST(recently_changed_directory_has_no_state)
{
    make_new();
    assert_int_equal(look_at("/a/x.html", 1, (int64_t)time(NULL)), 0);
    assert_int_not_equal(look_at("/a/x.html", 2 * PATIENCE_NS, later()), 0);
}

/* FAT has timestamps in steps of two seconds. */
TEST(directory_is_settled_after_four_seconds)
{
    struct stat status;

    assert_int_equal(fstatat(place.root.fd, "a", &status, 0), 0);
    assert_int_equal(look_at("/a/x.html", 1, status.st_ctim.tv_sec + 3), 0);
    assert_int_not_equal(look_at("/a/x.html", 2 * PATIENCE_NS, status.st_ctim.tv_sec + 4), 0);
}

/* Two sites. */
TEST(roots_have_different_states)
{
    struct files_root other = place.root;
    uint64_t before = look_at("/x.html", 1, later());
    int descriptors = open_descriptors();

    other.fd = openat(place.root.fd, "a", O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_int_not_equal(
        directory_check_state(&place.look, &other, SPAN("/x.html"), FILES_MAY_BLOCK, 1, later()),
        before);
    assert_int_equal(look_at("/x.html", 1, later()), before);
    close(other.fd);
    assert_int_equal(open_descriptors(), descriptors); /* of one directory */
}

TEST(path_over_255_bytes_has_no_state)
{
    char path[sizeof(place.look.path) + 8];
    size_t longest = sizeof(place.look.path) - 1;

    for (size_t length = longest; length <= longest + 1; length++) {
        size_t at = 0;

        while (at < length) { /* "/././/", which is the root */
            path[at++] = '/';
            if (at + 2 <= length)
                path[at++] = '.';
        }
        path[length - 1] = '/';
        strcpy(path + length, "x");
        assert_int_equal(look_at(path, 1, later()) != 0, length == longest);
        assert_int_equal(place.look.fd >= 0, length == longest);
    }
}

TEST(missing_directory_has_no_state)
{
    char path[DIRECTORY_CHECK_PATH_MAX + 8];

    assert_int_not_equal(look_at("/a/x.html", 1, later()), 0);
    assert_int_equal(look_at("/none/x.html", 1, later()), 0);
    memset(path, 'p', sizeof(path));
    memcpy(path + sizeof(path) - 4, "/x", 3);
    path[0] = '/';
    assert_int_equal(look_at(path, 1, later()), 0);
    assert_int_equal(place.look.fd, -1);
}

TEST(directory_is_closed_after_max_age)
{
    look_at("/a/x.html", 1, later());
    directory_check_expire(&place.look, PATIENCE_NS);
    assert_true(place.look.fd >= 0);
    directory_check_expire(&place.look, 1 + PATIENCE_NS);
    assert_int_equal(place.look.fd, -1);
}
