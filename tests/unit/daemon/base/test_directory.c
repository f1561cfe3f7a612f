/* Paths in which another user puts links, and directories that he can replace. */
#include "common/macros.h"
#include "daemon/base/directory.h"
#include "tests/test.h"
#include "tests/unit/open_descriptors.h"
#include "tests/unit/own_directory.h"
#include "tests/unit/wrapped.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

enum { OTHER_USER = 65534 };

static int descriptors_before;
static int openat2_error;      /* 0: it is there */
static void (*exchange)(void); /* by another user, just before bind() */
static struct directory_entry entry;
static struct stat bound;
static char why[8192];

long __wrap_syscall(long number, ...)
{
    const char *path;
    const void *how;
    va_list list;
    int directory;

    assert_int_equal(number, SYS_openat2);
    va_start(list, number);
    directory = va_arg(list, int);
    path = va_arg(list, const char *);
    how = va_arg(list, const void *);
    va_end(list);
    errno = openat2_error;
    return openat2_error != 0
               ? -1
               : __real_syscall(number, directory, path, how, sizeof(struct open_how));
}

int __wrap_bind(int fd, const struct sockaddr *address, socklen_t length)
{
    if (exchange != NULL)
        exchange();
    return __real_bind(fd, address, length);
}

/*
 * Directories "own" and "other", the latter of another user, with the same in both: the file "file",
 * the directory "target" with a file, and links to it.
 */
static int make_tree(void **state)
{
    static const char script[] =
        "cd %s && mkdir own other && for d in own other; do (cd $d && mkdir target && echo -n text "
        "| "
        "tee file target/file >hidden && ln -s target link && ln -s $PWD/target absolute && "
        "ln -s file file-link && ln -s $PWD/file file-absolute && ln -s missing dangling && "
        "ln -s loop loop && ln -s ../own/target up && mkfifo fifo) || exit; done";
    char command[1024];

    (void)state;
    own_directory_make();
    openat2_error = 0;
    exchange = NULL;
    snprintf(command, sizeof(command), script, own_directory);
    if (system(command) != 0)
        return -1;
    descriptors_before = open_descriptors();
    return 0;
}

/* No function leaves a descriptor open. */
static int remove_tree(void **state)
{
    (void)state;
    assert_int_equal(open_descriptors(), descriptors_before);
    return own_directory_remove();
}

const struct test_fixture test_fixture = {make_tree, remove_tree};

/* PATH below own_directory. */
static const char *below(const char *path)
{
    static char full[PATH_MAX + 64];

    snprintf(full, sizeof(full), "%s/%s", own_directory, path);
    return full;
}

/* Only root can give a file away. */
static void give_away(const char *path)
{
    if (geteuid() != 0)
        skip();
    assert_int_equal(lchown(below(path), OTHER_USER, (gid_t)-1), 0);
}

/* Returns the first byte of what PATH names, '-' and errno if it is not found. */
static char find_and_read(const char *path)
{
    char byte = '-';
    int fd;

    if (directory_find(&entry, path, 0) != 0)
        return byte;
    fd = directory_open_entry(entry.directory, entry.name, O_RDONLY | O_NONBLOCK, 0);
    if (fd >= 0 && read(fd, &byte, 1) != 1)
        byte = '0';
    if (fd >= 0)
        close(fd);
    close(entry.directory);
    return byte;
}

struct path_case {
    const char *path;
    char byte;
    int error;
};

static void expect_paths(const char *directory, const struct path_case *cases, size_t count)
{
    static const int errors[] = {0, ENOSYS, EPERM};
    char path[512];

    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < ARRAY_LENGTH(errors); k++) {
            openat2_error = errors[k];
            snprintf(path, sizeof(path), "%s/%s", directory, cases[i].path);
            errno = 0;
            if (find_and_read(below(path)) != cases[i].byte ||
                (cases[i].byte == '-' && errno != cases[i].error))
                fail_msg("%s: %s", path, strerror(errno));
        }
}

TEST(own_links_on_the_way_are_followed)
{
    static const struct path_case cases[] = {
        {"file", 't', 0},
        {"target/file", 't', 0},
        {"link/file", 't', 0},
        {"absolute/file", 't', 0},
        {"up/file", 't', 0},
        {"./link/..//file", 't', 0},
        {"file-link", '-', ELOOP}, /* never the last one */
        {"file-absolute", '-', ELOOP},
        {"missing", '-', ENOENT},
        {"missing/file", '-', ENOENT},
        {"dangling/file", '-', ENOENT},
        {"loop/file", '-', ELOOP},
        {"file/file", '-', ENOTDIR},
        {"file-link/file", '-', ENOTDIR},
    };

    expect_paths("own", cases, ARRAY_LENGTH(cases));
    assert_int_equal(directory_find(&entry, below("own/link/new"), 0), 0);
    assert_string_equal(entry.weakness, "");
    assert_string_equal(entry.name, "new");
    close(entry.directory);
}

TEST(links_in_a_directory_of_another_user_are_not_followed)
{
    static const struct path_case cases[] = {
        {"file", 't', 0},
        {"target/file", 't', 0},
        {"link/file", '-', ELOOP},
        {"absolute/file", '-', ELOOP},
        {"up/file", '-', ELOOP},
        {"file-link", '-', ELOOP},
        {"file-absolute", '-', ELOOP},
        {"dangling/file", '-', ELOOP},
    };
    char expected[128];

    give_away("other");
    expect_paths("other", cases, ARRAY_LENGTH(cases));
    snprintf(expected, sizeof(expected), "%s belongs to another user (uid %d)", below("other"),
             OTHER_USER);
    assert_int_equal(directory_find(&entry, below("other/link/x"), 0), -1);
    assert_string_equal(entry.weakness, expected);
    assert_int_equal(directory_find(&entry, below("other/target/x"), 0), 0);
    assert_string_equal(entry.weakness, expected);
    close(entry.directory);
}

TEST(link_of_another_user_is_not_followed)
{
    static const struct path_case cases[] = {{"link/file", '-', ELOOP}, {"absolute/file", 't', 0}};

    give_away("own/link");
    expect_paths("own", cases, ARRAY_LENGTH(cases));
}

TEST(directory_that_others_may_write_is_a_weakness)
{
    static const struct {
        mode_t mode;
        bool weak;
    } cases[] = {{0775, true}, {0757, true}, {0777, true}, {01777, false}, {0755, false}};

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char expected[128];

        snprintf(expected, sizeof(expected), "group or others may write to %s", below("own"));
        assert_int_equal(chmod(below("own"), cases[i].mode), 0);
        assert_int_equal(directory_find(&entry, below("own/target/x"), 0), 0);
        assert_string_equal(entry.weakness, cases[i].weak ? expected : "");
        close(entry.directory);
        assert_int_equal(directory_find(&entry, below("own/link/x"), 0), cases[i].weak ? -1 : 0);
        if (!cases[i].weak)
            close(entry.directory);
    }
}

TEST(relative_and_top_paths_are_found)
{
    char before[PATH_MAX];

    assert_non_null(getcwd(before, sizeof(before)));
    assert_int_equal(chdir(below("own")), 0);
    assert_int_equal(find_and_read("link/file"), 't');
    assert_int_equal(find_and_read("file"), 't');
    assert_int_equal(chdir(before), 0);
    assert_int_equal(directory_find(&entry, "/", 0), 0);
    assert_string_equal(entry.name, ".");
    close(entry.directory);
    assert_int_equal(directory_find(&entry, below("own/target///"), 0), 0);
    assert_string_equal(entry.name, "target");
    close(entry.directory);
}

TEST(too_long_paths_are_refused)
{
    static char path[2 * PATH_MAX];

    memset(path, 'x', PATH_MAX);
    assert_int_equal(directory_find(&entry, path, 0), -1);
    assert_int_equal(errno, ENAMETOOLONG);
    path[NAME_MAX + 1] = '\0';
    assert_int_equal(directory_find(&entry, path, 0), -1);
    assert_int_equal(errno, ENAMETOOLONG);
}

TEST(missing_directories_are_made)
{
    mode_t mask = umask(022);
    struct stat status;
    int fd;

    assert_int_equal(directory_open(below("own/link/a/b"), false, why, sizeof(why)), -1);
    fd = directory_open(below("own/link/a/b"), true, why, sizeof(why));
    assert_true(fd >= 0);
    close(fd);
    umask(mask);
    assert_int_equal(stat(below("own/target/a"), &status), 0);
    assert_int_equal(status.st_mode, S_IFDIR | 0755);
    assert_int_equal(stat(below("own/target/a/b"), &status), 0);
    assert_int_equal(status.st_mode, S_IFDIR | 0700);
}

TEST(files_of_others_are_not_removed_and_renamed)
{
    struct stat status;
    char from[128], to[128];

    give_away("other");
    assert_int_equal(directory_remove(below("other/link/file")), -1);
    assert_int_equal(errno, ELOOP);
    snprintf(from, sizeof(from), "%s", below("other/link/file"));
    snprintf(to, sizeof(to), "%s", below("own/new"));
    assert_int_equal(directory_rename(from, to), -1);
    assert_int_equal(directory_rename(to, from), -1);
    assert_int_equal(stat(from, &status), 0);
    snprintf(from, sizeof(from), "%s", below("own/link/file"));
    assert_int_equal(directory_rename(from, to), 0);
    assert_int_equal(stat(below("own/target/file"), &status), -1);
    assert_int_equal(stat(to, &status), 0);
    assert_int_equal(directory_remove(below("own/file-link")), 0); /* the link itself */
    assert_int_equal(stat(below("own/file"), &status), 0);
    assert_int_equal(directory_remove(to), 0);
    assert_int_equal(directory_remove(to), -1);
    assert_int_equal(errno, ENOENT);
}

TEST(root_opens_no_directory_that_others_can_replace)
{
    static const struct {
        const char *path, *why;
    } cases[] = {
        {"other/target", "others could replace it: "},
        {"other/new", "others could replace it: "},
        {"other/link/new", "Too many levels of symbolic links; "},
        {"own/link", "Not a directory"},
        {"own/file", "Not a directory"},
        {"own/fifo", "Not a directory"},
    };
    struct stat status;

    give_away("other");
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        assert_int_equal(directory_open(below(cases[i].path), true, why, sizeof(why)), -1);
        if (strstr(why, cases[i].why) == NULL || strstr(why, below(cases[i].path)) == NULL)
            fail_msg("%s: %s", cases[i].path, why);
    }
    assert_int_equal(stat(below("other/new"), &status), -1);
    assert_int_equal(stat(below("other/target/new"), &status), -1);
}

/* Binds a socket to PATH, with mode 0620. Returns 0, or errno. */
static int bind_there(const char *path, char name[sizeof(struct sockaddr_un)])
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int error = directory_bind(fd, below(path), 0620, &bound) == 0 ? 0 : errno;
    struct sockaddr_un address = {0};
    socklen_t length = sizeof(address);

    getsockname(fd, (struct sockaddr *)&address, &length);
    strcpy(name, address.sun_path);
    close(fd);
    return error;
}

TEST(socket_is_bound_with_its_mode)
{
    char name[sizeof(struct sockaddr_un)];
    struct stat status;

    assert_int_equal(bind_there("own/link/socket", name), 0);
    assert_string_equal(name, below("own/link/socket"));
    assert_int_equal(stat(below("own/target/socket"), &status), 0);
    assert_int_equal(status.st_mode, S_IFSOCK | 0620);
    assert_int_equal(status.st_ino, bound.st_ino);
    assert_int_equal(bind_there("own/link/socket", name), EADDRINUSE);
    assert_int_equal(bind_there("own/dangling", name), EADDRINUSE);
    assert_int_equal(bind_there("own/missing/socket", name), ENOENT);
}

/* Other user: the directory in which the socket is to be, with a link to one of root. */
static void exchange_target(void)
{
    char from[128], to[128];

    snprintf(from, sizeof(from), "%s", below("other/target"));
    snprintf(to, sizeof(to), "%s", below("other/moved"));
    assert_int_equal(rename(from, to), 0);
    snprintf(to, sizeof(to), "%s", below("own/target"));
    assert_int_equal(symlink(to, from), 0);
}

TEST(exchanged_directory_gets_no_socket)
{
    char name[sizeof(struct sockaddr_un)];
    struct stat status;

    give_away("other");
    assert_int_equal(bind_there("other/link/socket", name), ELOOP);
    exchange = exchange_target;
    assert_int_equal(bind_there("other/target/socket", name), 0);
    assert_int_equal(lstat(below("own/target/socket"), &status), -1);
    assert_int_equal(lstat(below("other/moved/socket"), &status), 0);
    assert_int_equal(status.st_ino, bound.st_ino);
    assert_memory_equal(name, "/proc/self/fd/", 14);
}
