/*
 * Opening below a root: one table of paths, with openat2() and where it is denied. The tree is in a
 * temporary directory.
 */
#include "common/macros.h"
#include "daemon/content/files.h"
#include "tests/test.h"
#include "tests/unit/open_descriptors.h"
#include "tests/unit/wrapped.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static int openat2_error; /* 0: openat2() works */
static bool no_resolve_cached;

long __wrap_syscall(long number, ...)
{
    va_list list;
    long a, b, c, d;

    va_start(list, number);
    a = va_arg(list, long);
    b = va_arg(list, long);
    c = va_arg(list, long);
    d = va_arg(list, long);
    va_end(list);
    if (number == SYS_openat2 && openat2_error != 0) {
        errno = openat2_error;
        return -1;
    }
    if (number == SYS_openat2 && no_resolve_cached &&
        (((const struct open_how *)(uintptr_t)c)->resolve & RESOLVE_CACHED) != 0) {
        errno = EINVAL;
        return -1;
    }
    return __real_syscall(number, a, b, c, d);
}

/* A kernel that has openat2(), one that does not, and the filter of an old container. */
static const int openat2_errors[] = {0, ENOSYS, EPERM};

static char base[] = "/tmp/test-files-XXXXXX";
static int base_fd, root_fd, descriptors;
static struct files_root root;
static char longest_name[NAME_MAX + 2], name_too_long[NAME_MAX + 3];
static char deep_path[PATH_MAX + 64], path_too_long[PATH_MAX + 64];

static void make_file(int directory, const char *name, const char *content, mode_t mode)
{
    int fd = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, strlen(content)), strlen(content));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static void make_socket(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    assert_true(fd >= 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/root/%s", base, name);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    close(fd);
}

static void make_links(void)
{
    static const struct {
        const char *name, *target;
    } links[] = {
        {"link-inside", "file"},
        {"link-directory", "directory"},
        {"link-above", "../outside"},
        {"link-absolute", "/etc/passwd"},
        {"link-root", "/"},
        {"link-dangling", "nowhere"},
        {"link-itself", "link-itself"},
        {"link-up", ".."},
        {"link-magic", "/proc/self/root/etc/passwd"},
        {"link-chain", "link-inside"},
        {"link-slash", "directory/"},
        {"link-through", "link-directory/.././directory//file"},
        {"link-out-and-back", "../root/file"},
        {"link-fifo", "fifo"},
        {"link-shared", "../shared/file"},
        {"link-shared-not", "../shared-not/file"},
        {"directory/link-deep", "../directory/../file"},
        {"directory/link-shared", "../../shared"},
    };
    char absolute[64];

    for (size_t i = 0; i < ARRAY_LENGTH(links); i++)
        assert_int_equal(symlinkat(links[i].target, root_fd, links[i].name), 0);
    snprintf(absolute, sizeof(absolute), "%s/root/file", base);
    assert_int_equal(symlinkat(absolute, root_fd, "link-absolute-inside"), 0);
    assert_int_equal(symlinkat("../../outside", root_fd, "directory/link-above"), 0);
    snprintf(absolute, sizeof(absolute), "%s/shared", base);
    assert_int_equal(symlinkat(absolute, root_fd, "link-shared-absolute"), 0);
    assert_int_equal(symlinkat("../root/directory", base_fd, "shared/link-home"), 0);
    assert_int_equal(symlinkat("../outside", base_fd, "shared/link-out"), 0);
}

static void make_long_paths(void)
{
    longest_name[0] = '/';
    memset(longest_name + 1, 'n', NAME_MAX);
    make_file(root_fd, longest_name + 1, "long", 0644);
    name_too_long[0] = '/';
    memset(name_too_long + 1, 'n', NAME_MAX + 1);
    for (size_t i = 0; i < PATH_MAX - 6; i += 2)
        memcpy(deep_path + i, "/.", 2);
    strcat(deep_path, "/file");
    assert_true(strlen(deep_path) < PATH_MAX);
    for (size_t i = 0; i < PATH_MAX + 32; i += 2)
        memcpy(path_too_long + i, "/.", 2);
}

static int
    replacements; /* the file "replaced" is replaced before that many calls of readlinkat() */

static bool root_is_moved; /* before the next call for it, which is after that for the file */

ssize_t __wrap_readlinkat(int directory, const char *name, char *buffer, size_t size)
{
    if (root_is_moved && atoi(name) == root_fd) {
        root_is_moved = false;
        renameat(base_fd, "root", base_fd, "root-of-before");
    }
    if (replacements > 0 && atoi(name) != root_fd) {
        replacements--;
        make_file(root_fd, "new", "new", 0644);
        renameat(root_fd, "new", root_fd, "replaced");
    }
    return __real_readlinkat(directory, name, buffer, size);
}

static int nowait_error; /* of preadv2(); 0: it works */
static unsigned nowait_reads;

ssize_t __wrap_preadv2(int fd, const struct iovec *pieces, int count, off_t offset, int flags)
{
    nowait_reads++;
    if (nowait_error == 0)
        return __real_preadv2(fd, pieces, count, offset, flags);
    errno = nowait_error;
    return -1;
}

static struct files_root root_at(int fd)
{
    return (struct files_root){.fd = fd, .descriptors = descriptors};
}

static int make_tree(void **state)
{
    (void)state;
    descriptors = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
    umask(0);
    if (mkdtemp(base) == NULL)
        return -1;
    base_fd = open(base, O_PATH | O_DIRECTORY);
    assert_int_equal(mkdirat(base_fd, "root", 0755), 0);
    root_fd = openat(base_fd, "root", O_PATH | O_DIRECTORY);
    root = root_at(root_fd);
    make_file(base_fd, "outside", "secret", 0644);
    make_file(root_fd, "file", "content", 0644);
    make_file(root_fd, "empty", "", 0644);
    make_file(root_fd, "unreadable", "x", 0);
    make_file(root_fd, ".dot", "dot", 0644);
    make_file(root_fd, "\xff\x01 \\%41", "odd", 0644);
    make_file(root_fd, "...", "dots", 0644);
    assert_int_equal(mkdirat(base_fd, "shared", 0755), 0);
    make_file(base_fd, "shared/file", "shared", 0644);
    assert_int_equal(mkdirat(base_fd, "shared-not", 0755), 0);
    make_file(base_fd, "shared-not/file", "not shared", 0644);
    assert_int_equal(mkdirat(root_fd, "directory", 0755), 0);
    assert_int_equal(mkdirat(root_fd, "search-only", 0755), 0);
    assert_int_equal(mkdirat(root_fd, "closed", 0755), 0);
    make_file(root_fd, "directory/file", "deeper", 0644);
    make_file(root_fd, "search-only/file", "found", 0644);
    make_file(root_fd, "closed/file", "hidden", 0644);
    assert_int_equal(fchmodat(root_fd, "search-only", 0111, 0), 0);
    assert_int_equal(fchmodat(root_fd, "closed", 0, 0), 0);
    assert_int_equal(mkfifoat(root_fd, "fifo", 0644), 0);
    make_socket("socket");
    make_links();
    make_long_paths();
    return 0;
}

static int remove_tree(void **state)
{
    char command[128];

    (void)state;
    close(root_fd);
    close(base_fd);
    snprintf(command, sizeof(command), "chmod -R u+rwx %s/root; rm -rf %s", base, base);
    return system(command) == 0 ? 0 : -1;
}

const struct test_fixture test_group_fixture = {make_tree, remove_tree};

struct files_case {
    const char *path;
    int error;
    bool directory;
    const char *content; /* of a file that can be opened */
    bool unless_root;    /* skipped as root, who may read all files */
};

static const struct files_case cases[] = {
    {"/", 0, true, NULL, false},
    {"/file", 0, false, "content", false},
    {"/empty", 0, false, "", false},
    {"/directory", 0, true, NULL, false},
    {"/directory/", 0, true, NULL, false},
    {"/directory/file", 0, false, "deeper", false},
    {"/.dot", 0, false, "dot", false},
    {"/...", 0, false, "dots", false},
    {"/\xff\x01 \\%41", 0, false, "odd", false},
    {"/search-only/file", 0, false, "found", false},
    {longest_name, 0, false, "long", false},
    {deep_path, 0, false, "content", false},
    {"/search-only", EACCES, false, NULL, true},
    {"/unreadable", EACCES, false, NULL, true},
    {"/closed", EACCES, false, NULL, true},
    {"/closed/file", EACCES, false, NULL, true},
    {"/closed/missing", EACCES, false, NULL, true},
    /* Missing, or not a directory. */
    {"/missing", ENOENT, false, NULL, false},
    {"/missing/", ENOENT, false, NULL, false},
    {"/missing/file", ENOENT, false, NULL, false},
    {"/directory/missing", ENOENT, false, NULL, false},
    {"/FILE", ENOENT, false, NULL, false},
    {"/file/", ENOTDIR, false, NULL, false},
    {"/file/file", ENOTDIR, false, NULL, false},
    {"/fifo/", ENOTDIR, false, NULL, false},
    {name_too_long, ENAMETOOLONG, false, NULL, false},
    {path_too_long, ENAMETOOLONG, false, NULL, false},
    /* Paths out of the root. Callers pass canonical paths, but these must fail, too. */
    {"/..", EXDEV, false, NULL, false},
    {"/../outside", EXDEV, false, NULL, false},
    {"/../root/file", EXDEV, false, NULL, false},
    {"/directory/../../outside", EXDEV, false, NULL, false},
    {"//../outside", EXDEV, false, NULL, false},
    {"//etc/passwd", ENOENT, false, NULL, false},
    /* Links, none of which is followed. */
    {"/link-inside", ELOOP, false, NULL, false},
    {"/link-directory", ELOOP, false, NULL, false},
    {"/link-directory/", ELOOP, false, NULL, false},
    {"/link-directory/file", ELOOP, false, NULL, false},
    {"/link-above", ELOOP, false, NULL, false},
    {"/directory/link-above", ELOOP, false, NULL, false},
    {"/link-absolute", ELOOP, false, NULL, false},
    {"/link-absolute-inside", ELOOP, false, NULL, false},
    {"/link-root/etc/passwd", ELOOP, false, NULL, false},
    {"/link-root", ELOOP, false, NULL, false},
    {"/link-up/outside", ELOOP, false, NULL, false},
    {"/link-dangling", ELOOP, false, NULL, false},
    {"/link-itself", ELOOP, false, NULL, false},
    {"/link-magic", ELOOP, false, NULL, false},
    /* Neither file nor directory. */
    {"/fifo", EACCES, false, NULL, false},
    {"/socket", EACCES, false, NULL, false},
};

/*
 * The same links with other policies. EXDEV: outside the root and the link root. Without openat2()
 * the policy inside, too, depends only on where a link ends.
 */
struct link_case {
    const char *path;
    int inside, follow,
        fenced;          /* errors by policy; fenced: follow, with base/shared as link root */
    const char *content; /* NULL: a directory */
};

static const struct link_case link_cases[] = {
    {"/file", 0, 0, 0, "content"},
    {"/directory/", 0, 0, 0, NULL},
    {"/missing", ENOENT, ENOENT, ENOENT, NULL},
    {"/file/", ENOTDIR, ENOTDIR, ENOTDIR, NULL},
    {"/fifo", EACCES, EACCES, EACCES, NULL},
    {"/socket", EACCES, EACCES, EACCES, NULL},
    {"/link-inside", 0, 0, 0, "content"},
    {"/link-inside/", ENOTDIR, ENOTDIR, ENOTDIR, NULL},
    {"/link-directory", 0, 0, 0, NULL},
    {"/link-directory/", 0, 0, 0, NULL},
    {"/link-directory/file", 0, 0, 0, "deeper"},
    {"/link-directory/missing", ENOENT, ENOENT, ENOENT, NULL},
    {"/link-chain", 0, 0, 0, "content"},
    {"/link-slash", 0, 0, 0, NULL},
    {"/link-slash/file", 0, 0, 0, "deeper"},
    {"/link-through", 0, 0, 0, "deeper"},
    {"/directory/link-deep", 0, 0, 0, "content"},
    {"/link-directory/link-deep", 0, 0, 0, "content"},
    {"/link-fifo", EACCES, EACCES, EACCES, NULL},
    {"/link-dangling", ENOENT, ENOENT, ENOENT, NULL},
    {"/link-itself", ELOOP, ELOOP, ELOOP, NULL},
    {"/link-absolute-inside", EXDEV, 0, 0, "content"},
    {"/link-out-and-back", EXDEV, 0, 0, "content"},
    {"/link-above", EXDEV, EXDEV, EXDEV, NULL},
    {"/directory/link-above", EXDEV, EXDEV, EXDEV, NULL},
    {"/link-directory/link-above", EXDEV, EXDEV, EXDEV, NULL},
    {"/link-absolute", EXDEV, EXDEV, EXDEV, NULL},
    {"/link-root", EXDEV, EXDEV, EXDEV, NULL},
    {"/link-root/etc/passwd", EXDEV, EXDEV, EXDEV, NULL},
    {"/link-up", EXDEV, EXDEV, EXDEV, NULL},
    {"/link-up/outside", EXDEV, EXDEV, EXDEV, NULL},
    {"/link-shared", EXDEV, EXDEV, 0, "shared"},
    {"/link-shared-absolute", EXDEV, EXDEV, 0, NULL},
    {"/link-shared-absolute/file", EXDEV, EXDEV, 0, "shared"},
    {"/directory/link-shared/file", EXDEV, EXDEV, 0, "shared"},
    {"/link-shared-absolute/link-home/file", EXDEV, 0, 0, "deeper"},
    {"/link-shared-absolute/link-out", EXDEV, EXDEV, EXDEV, NULL},
    {"/link-shared-not", EXDEV, EXDEV, EXDEV, NULL},
};

/* With FILES_CACHED_ONLY the kernel may return EAGAIN at any time: then retry with blocking. */
static int open_somehow(const char *path, enum files_effort effort, struct file *file)
{
    int error = files_open(&root, path, effort, file);

    return error == EAGAIN && effort == FILES_CACHED_ONLY
               ? files_open(&root, path, FILES_MAY_BLOCK, file)
               : error;
}

static void check_opened(const struct files_case *c, const struct file *file)
{
    char content[64];
    struct stat status;

    assert_int_equal(file->directory, c->directory);
    assert_int_equal(fstat(file->fd, &status), 0);
    assert_true(file->size == (uint64_t)status.st_size && file->mtime_s == status.st_mtim.tv_sec &&
                file->mtime_ns == (uint32_t)status.st_mtim.tv_nsec &&
                file->inode == status.st_ino && file->device == status.st_dev);
    assert_int_equal(fcntl(file->fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    if (c->content == NULL)
        return;
    assert_int_equal(
        files_read(file->fd, file->device, content, sizeof(content), 0, FILES_MAY_BLOCK),
        strlen(c->content));
    assert_memory_equal(content, c->content, strlen(c->content));
}

/* Without openat2() another errno may deny it, for the same status unless a link is dangling. */
static bool is_same_denial(const struct files_case *c, int error)
{
    return error == c->error ||
           (c->error != 0 && error != 0 && files_status(error) == files_status(c->error));
}

static void try_all(enum files_effort effort)
{
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        const struct files_case *c = &cases[i];
        struct file file = {.fd = -1};
        int error;

        if (c->unless_root && geteuid() == 0)
            continue;
        if (openat2_error != 0 && c->path == deep_path)
            continue; /* not canonical */
        error = open_somehow(c->path, effort, &file);
        if (openat2_error == 0 ? error != c->error : !is_same_denial(c, error))
            fail_msg("%.60s: %s instead of %s", c->path, strerror(error), strerror(c->error));
        if (error == 0) {
            check_opened(c, &file);
            close(file.fd);
        }
    }
}

TEST(paths_stay_below_the_root)
{
    int before = open_descriptors();

    for (size_t i = 0; i < ARRAY_LENGTH(openat2_errors); i++) {
        openat2_error = openat2_errors[i];
        try_all(FILES_MAY_BLOCK);
        try_all(FILES_CACHED_ONLY);
    }
    openat2_error = 0;
    assert_int_equal(open_descriptors(), before);
}

/* Linux 5.6 to 5.11 */
TEST(without_resolve_cached_the_lookup_may_block)
{
    no_resolve_cached = true;
    try_all(FILES_CACHED_ONLY);
    no_resolve_cached = false;
}

static void try_link(const struct link_case *c, int expected, enum files_effort effort)
{
    const struct files_case opened = {.directory = c->content == NULL, .content = c->content};
    struct file file = {.fd = -1};
    int error = open_somehow(c->path, effort, &file);

    if (error != expected)
        fail_msg("%s: %s instead of %s", c->path, strerror(error), strerror(expected));
    if (error != 0)
        return;
    check_opened(&opened, &file);
    close(file.fd);
}

static void try_links(enum files_effort effort)
{
    char shared[sizeof(base) + 16];
    const char *const fence[] = {"/nowhere", shared};

    snprintf(shared, sizeof(shared), "%s/shared", base);
    for (size_t i = 0; i < ARRAY_LENGTH(link_cases); i++) {
        root.links = FILES_LINKS_INSIDE;
        try_link(&link_cases[i], openat2_error == 0 ? link_cases[i].inside : link_cases[i].follow,
                 effort);
        root.links = FILES_LINKS_FOLLOW;
        try_link(&link_cases[i], link_cases[i].follow, effort);
        root.link_root = fence;
        root.link_root_count = ARRAY_LENGTH(fence);
        try_link(&link_cases[i], link_cases[i].fenced, effort);
        root = root_at(root_fd);
    }
}

TEST(links_are_followed_by_policy)
{
    int before = open_descriptors();

    for (size_t i = 0; i < ARRAY_LENGTH(openat2_errors); i++) {
        openat2_error = openat2_errors[i];
        try_links(FILES_MAY_BLOCK);
        try_links(FILES_CACHED_ONLY);
    }
    openat2_error = 0;
    assert_int_equal(open_descriptors(), before);
}

/* Ends with the test program. */
static pid_t start_renaming(void)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        renameat(base_fd, "moving", base_fd, "moved");
        renameat(base_fd, "moved", base_fd, "moving");
    }
}

/* The kernel gives up resolving ".." below a directory while any file of the system is renamed. */
TEST(links_are_followed_during_renames)
{
    enum { LOOKUPS = 20000 };
    pid_t pid;

    make_file(base_fd, "moving", "", 0644);
    pid = start_renaming();
    root.links = FILES_LINKS_INSIDE;
    for (int i = 0; i < LOOKUPS; i++) {
        struct file file;

        assert_int_equal(files_find(&root, "/directory/link-deep", FILES_MAY_BLOCK, &file), 0);
        close(file.fd);
    }
    root = root_at(root_fd);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

TEST(file_is_found_while_its_root_is_renamed)
{
    struct file file;

    openat2_error = ENOSYS;
    root_is_moved = true;
    assert_int_equal(files_find(&root, "/file", FILES_MAY_BLOCK, &file), 0);
    assert_false(root_is_moved);
    close(file.fd);
    openat2_error = 0;
    assert_int_equal(renameat(base_fd, "root-of-before", base_fd, "root"), 0);
}

/* Without openat2(), the path that the kernel gives is compared; it then ends with " (deleted)". */
/* A root that was removed may be made again, unlike a file. */
TEST(file_below_a_removed_root_is_stale)
{
    struct files_root removed;
    struct file file;

    assert_int_equal(mkdirat(base_fd, "removed", 0755), 0);
    removed = root_at(openat(base_fd, "removed", O_PATH | O_DIRECTORY));
    assert_int_equal(files_find(&removed, "/file", FILES_MAY_BLOCK, &file), ENOENT);
    assert_int_equal(unlinkat(base_fd, "removed", AT_REMOVEDIR), 0);
    assert_int_equal(files_find(&removed, "/file", FILES_MAY_BLOCK, &file), ESTALE);
    assert_int_equal(files_status(ESTALE), 503);
    close(removed.fd);
}

TEST(file_that_is_replaced_meanwhile_is_found)
{
    struct file file;

    openat2_error = ENOSYS;
    make_file(root_fd, "replaced", "old", 0644);
    replacements = 2;
    assert_int_equal(files_find(&root, "/replaced", FILES_MAY_BLOCK, &file), 0);
    close(file.fd);
    replacements = 3;
    assert_int_equal(files_find(&root, "/replaced", FILES_MAY_BLOCK, &file), ELOOP);
    openat2_error = 0;
}

TEST(magic_links_are_not_followed)
{
    static const char *const paths[] = {"/exe",  "/cwd",  "/cwd/", "/root/etc/passwd",
                                        "/fd/0", "/cwd/x"};
    int proc = open("/proc/self", O_PATH | O_DIRECTORY);
    const struct files_root root_of_proc = root_at(proc);
    struct file file;

    assert_true(proc >= 0);
    for (size_t i = 0; i < ARRAY_LENGTH(paths); i++)
        for (size_t j = 0; j < ARRAY_LENGTH(openat2_errors); j++) {
            openat2_error = openat2_errors[j];
            int error = files_open(&root_of_proc, paths[i], FILES_MAY_BLOCK, &file);

            assert_true(openat2_error == 0 ? error == ELOOP : error != 0);
        }
    openat2_error = 0;
    close(proc);
}

TEST(device_is_eacces)
{
    int dev = open("/dev", O_PATH | O_DIRECTORY);
    const struct files_root root_of_dev = root_at(dev);
    struct file file;

    assert_true(dev >= 0);
    for (size_t i = 0; i < ARRAY_LENGTH(openat2_errors); i++) {
        openat2_error = openat2_errors[i];
        assert_int_equal(files_open(&root_of_dev, "/null", FILES_MAY_BLOCK, &file), EACCES);
    }
    openat2_error = 0;
    close(dev);
}

/* Neither way opens it for reading, which would wake a writer of the FIFO or move a tape. */
TEST(special_file_is_never_opened)
{
    static const char *const paths[] = {"/fifo", "/device", "/link-fifo"};
    int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    char event[512], path[sizeof(base) + 16];
    struct file file;

    assert_true(watch >= 0);
    if (geteuid() == 0)
        assert_int_equal(mknodat(root_fd, "device", S_IFCHR | 0666, makedev(1, 3)), 0);
    snprintf(path, sizeof(path), "%s/root", base);
    assert_true(inotify_add_watch(watch, path, IN_OPEN) >= 0);
    for (size_t i = 0; i < ARRAY_LENGTH(paths); i++)
        for (size_t j = 0; j < ARRAY_LENGTH(openat2_errors); j++) {
            openat2_error = openat2_errors[j];
            root.links = FILES_LINKS_DENY;
            files_open(&root, paths[i], FILES_MAY_BLOCK, &file);
            root.links = FILES_LINKS_FOLLOW;
            assert_int_not_equal(files_open(&root, paths[i], FILES_MAY_BLOCK, &file), 0);
        }
    openat2_error = 0;
    root.links = FILES_LINKS_DENY;
    assert_int_equal(read(watch, event, sizeof(event)), -1);
    assert_int_equal(files_open(&root, "/file", FILES_MAY_BLOCK, &file), 0);
    assert_true(read(watch, event, sizeof(event)) > 0); /* the watch sees what is opened */
    close(file.fd);
    close(watch);
    unlinkat(root_fd, "device", 0);
}

TEST(out_of_descriptors_is_emfile)
{
    struct rlimit usual, none;
    struct file file;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &usual), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = usual.rlim_max};
    for (size_t i = 0; i < ARRAY_LENGTH(openat2_errors); i++) {
        int error;

        openat2_error = openat2_errors[i];
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
        error = files_open(&root, "/directory/file", FILES_MAY_BLOCK, &file);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &usual), 0);
        assert_int_equal(error, EMFILE);
    }
    openat2_error = 0;
}

TEST(read_returns_what_pread_does)
{
    static const enum files_effort efforts[] = {FILES_MAY_BLOCK, FILES_CACHED_ONLY};
    struct file file;
    char content[16];

    assert_int_equal(files_open(&root, "/file", FILES_MAY_BLOCK, &file), 0);
    for (size_t i = 0; i < ARRAY_LENGTH(efforts); i++) { /* just written, so in the page cache */
        assert_int_equal(files_read(file.fd, file.device, content, sizeof(content), 0, efforts[i]),
                         7);
        assert_memory_equal(content, "content", 7);
        assert_int_equal(files_read(file.fd, file.device, content, 3, 4, efforts[i]), 3);
        assert_memory_equal(content, "ent", 3);
        assert_int_equal(files_read(file.fd, file.device, content, sizeof(content), 7, efforts[i]),
                         0);
        assert_int_equal(
            files_read(file.fd, file.device, content, sizeof(content), 1 << 20, efforts[i]), 0);
    }
    close(file.fd);
    errno = 0;
    assert_int_equal(files_read(file.fd, file.device, content, 1, 0, FILES_CACHED_ONLY), -1);
    assert_int_equal(errno, EBADF);
}

/* A file system without RWF_NOWAIT is remembered by its device. */
TEST(read_without_nowait_may_block)
{
    enum { DEVICE = 1000, DEVICES_MAX = 16 };
    static const int errors[] = {EOPNOTSUPP, ENOSYS};
    struct file file;
    char byte;

    assert_int_equal(files_open(&root, "/file", FILES_MAY_BLOCK, &file), 0);
    nowait_reads = 0;
    files_read(file.fd, DEVICE, &byte, 1, 0, FILES_MAY_BLOCK);
    assert_int_equal(nowait_reads, 0);
    nowait_error = EAGAIN;
    assert_int_equal(files_read(file.fd, DEVICE, &byte, 1, 0, FILES_CACHED_ONLY), -1);
    assert_int_equal(errno, EAGAIN);
    for (unsigned i = 0; i < DEVICES_MAX + 2; i++) {
        nowait_error = errors[i % 2];
        nowait_reads = 0;
        for (int j = 0; j < 3; j++)
            assert_int_equal(files_read(file.fd, DEVICE + i, &byte, 1, 0, FILES_CACHED_ONLY), 1);
        assert_int_equal(nowait_reads, i < DEVICES_MAX ? 1 : 3); /* the table is full */
    }
    nowait_error = 0;
    close(file.fd);
}

TEST(errno_maps_to_status)
{
    static const struct {
        int error, status;
    } statuses[] = {
        {ENOENT, 404}, {ENOTDIR, 404}, {ENAMETOOLONG, 404}, {EACCES, 403}, {EPERM, 403},
        {ELOOP, 403},  {EXDEV, 403},   {EMFILE, 503},       {ENFILE, 503}, {ENOMEM, 503},
        {EAGAIN, 503}, {EBUSY, 503},   {EIO, 500},          {EBADF, 500},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(statuses); i++)
        assert_int_equal(files_status(statuses[i].error), statuses[i].status);
}
