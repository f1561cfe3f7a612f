/* The files of the state directory. */
#include "common/macros.h"
#include "daemon/acme/state.h"

#include "daemon/acme/process.h"
#include "daemon/sandbox/identity.h"
#include "tests/test.h"
#include "tests/unit/event_output.h"
#include "tests/unit/open_descriptors.h"
#include "tests/unit/own_directory.h"
#include "tests/unit/wrapped.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OLD_UID = 61001, OWN_UID = 61002 };

static int directory, descriptors_before;
static int write_interruptions;   /* of the next calls of write() */
static size_t write_most = 65536; /* bytes that it writes at once */
static const char *acme_user;
static char why[512]; /* of the last failure of prepare() */
static struct {
    const char *name;
    struct passwd entry;
} own_user; /* in the user database; NULL: none */

struct passwd *__wrap_getpwnam(const char *name)
{
    if (own_user.name != NULL && strcmp(name, own_user.name) == 0)
        return &own_user.entry;
    return strcmp(name, "webserverd-acme") == 0 ? NULL : __real_getpwnam(name);
}

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
    events_forget();
    acme_user = "";
    own_user.name = NULL;
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

const struct test_fixture test_fixture = {set_up, tear_down};

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

/* Opens the state directory PATH below own_directory, and closes it. Returns 0, or -1 with `why`. */
static int prepare(const char *path, const char *user, const char *group)
{
    char full[8192], server_user[64], server_group[64];
    struct config config = {.acme_user = acme_user};
    int fd;

    snprintf(full, sizeof(full), "%s/%s", own_directory, path);
    snprintf(server_user, sizeof(server_user), "%s", user);
    snprintf(server_group, sizeof(server_group), "%s", group);
    config.acme_state_dir = full;
    config.server_user = server_user;
    config.server_group = server_group;
    fd = acme_open_state(&config, why, sizeof(why));
    if (fd >= 0)
        close(fd);
    return fd < 0 ? -1 : 0;
}

static struct stat status_of(const char *name)
{
    struct stat status;

    assert_int_equal(fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW), 0);
    return status;
}

static int prepare_program(void **state)
{
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    return 0;
}

const struct test_fixture test_group_fixture = {prepare_program, NULL};

TEST(directory_is_made_for_the_workers)
{
    struct identity identity;
    struct identity_fault fault;
    mode_t mask = umask(022);
    uid_t uid;

    assert_int_equal(identity_find("", "", geteuid(), &identity, &fault), 0);
    uid = identity.changes ? identity.uid : geteuid();
    assert_int_equal(prepare("a/b/state", "", ""), 0);
    assert_int_equal(status_of("a").st_mode, S_IFDIR | 0755);
    assert_int_equal(status_of("a/b").st_mode, S_IFDIR | 0755);
    assert_int_equal(status_of("a").st_uid, geteuid());
    assert_int_equal(status_of("a/b/state").st_mode, S_IFDIR | 0700);
    assert_int_equal(status_of("a/b/state").st_uid, uid);
    assert_int_equal(prepare("a/b/state", "", ""), 0);
    umask(mask);
}

TEST(mode_is_corrected)
{
    static const mode_t modes[] = {0755, 0710, 0600, 01700};

    assert_int_equal(mkdirat(directory, "state", 0700), 0);
    for (size_t i = 0; i < ARRAY_LENGTH(modes); i++) {
        assert_int_equal(fchmodat(directory, "state", modes[i], 0), 0);
        assert_int_equal(prepare("state", "", ""), 0);
        assert_int_equal(status_of("state").st_mode, S_IFDIR | 0700);
    }
}

/* The user database has USER with number UID. */
static void add_user(char *user, uid_t uid)
{
    own_user.name = user;
    own_user.entry = (struct passwd){.pw_name = user, .pw_uid = uid, .pw_gid = uid};
}

TEST(process_has_a_user_of_its_own)
{
    static const struct {
        const char *setting;
        char *exists;
        bool own;
    } cases[] = {
        {"", "webserverd-acme", true}, {"somebody", "somebody", true}, {"", "other", false}};

    if (geteuid() != 0)
        skip();
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        acme_user = cases[i].setting;
        add_user(cases[i].exists, OWN_UID);
        assert_int_equal(prepare("state", "daemon", ""), 0);
        assert_int_equal(status_of("state").st_uid == OWN_UID, cases[i].own);
        assert_int_equal(status_of("state").st_gid == OWN_UID, cases[i].own);
        assert_int_equal(unlinkat(directory, "state", AT_REMOVEDIR), 0);
    }
}

/* Runs a shell with COMMAND, in which $F is NAME, in the state directory. */
static void run_in_state(const char *name, const char *command)
{
    char text[512];

    snprintf(text, sizeof(text), "cd %s/state && F=%s && %s", own_directory, name, command);
    assert_int_equal(system(text), 0);
}

/* Gives the state directory to OLD_UID, with its file PATH if that is a file of its own. */
static void give_to_old_user(const char *path)
{
    struct stat status = status_of(path);

    assert_int_equal(fchownat(directory, "state", OLD_UID, OLD_UID, 0), 0);
    if (status.st_uid == 0 && (status.st_nlink == 1 || S_ISDIR(status.st_mode)))
        assert_int_equal(fchownat(directory, path, OLD_UID, OLD_UID, AT_SYMLINK_NOFOLLOW), 0);
}

/* What a process of OLD_UID may have left. The file "target" is outside. */
TEST(files_of_the_user_before_are_taken_over)
{
    static const struct {
        const char *name, *make, *report; /* NULL: taken over */
    } cases[] = {
        {"account.key", "echo -n key >$F", NULL},
        {"large.pem", "truncate -s 1G $F", NULL},
        {"link", "ln -s ../target $F", "a symbolic link"},
        {"absolute", "ln -s $PWD/../target $F", "a symbolic link"},
        {"dangling", "ln -s missing $F", "a symbolic link"},
        {"directory-link", "ln -s .. $F", "a symbolic link"},
        {"hard", "ln ../target $F", "a hard link"},
        {"fifo", "mkfifo $F", "not a regular file"},
        {"device", "mknod $F c 1 3", "not a regular file"},
        {"directory", "mkdir $F && ln -s ../../target $F/link", "not a regular file"},
        {"other", "touch $F && chown daemon $F", "a file of another user"},
    };
    char text[256], path[64];

    if (geteuid() != 0)
        skip();
    acme_user = "somebody";
    add_user("somebody", OWN_UID);
    put("target", "outside");
    assert_int_equal(mkdirat(directory, "state", 0755), 0);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        const char *report = cases[i].report;
        struct stat before;

        run_in_state(cases[i].name, cases[i].make);
        run_in_state("lock", "touch $F && chown 61001 $F");
        snprintf(path, sizeof(path), "state/%s", cases[i].name);
        give_to_old_user(path);
        before = status_of(path);
        events_forget();
        assert_int_equal(prepare("state", "", ""), 0);
        assert_int_equal(status_of(path).st_uid, report == NULL ? OWN_UID : before.st_uid);
        assert_int_equal(status_of(path).st_mode, before.st_mode);
        assert_int_equal(event_count(), report == NULL ? 1 : 2);
        snprintf(text, sizeof(text), "[acme] state_dir: %s keeps its owner: %s", cases[i].name,
                 report != NULL ? report : "");
        if (report != NULL)
            assert_string_equal(last_event(), text);
        assert_int_equal(status_of("target").st_uid, 0);
        assert_int_equal(status_of("target").st_mode, S_IFREG | 0600);
        assert_text("target", "outside");
        run_in_state(cases[i].name, "rm -r $F");
    }
    assert_int_equal(status_of("state").st_uid, OWN_UID);
    assert_int_equal(status_of("state").st_mode, S_IFDIR | 0700);
}

/* A wrong path should cost as little as possible. */
TEST(files_of_another_directory_keep_their_owner)
{
    if (geteuid() != 0)
        skip();
    acme_user = "somebody";
    add_user("somebody", OWN_UID);
    assert_int_equal(mkdirat(directory, "state", 0755), 0);
    run_in_state("file", "touch $F");
    assert_int_equal(prepare("state", "", ""), 0);
    assert_int_equal(status_of("state").st_uid, OWN_UID);
    assert_int_equal(status_of("state/file").st_uid, 0);
    assert_int_equal(event_count(), 0);
}

TEST(number_of_reports_is_limited)
{
    if (geteuid() != 0)
        skip();
    acme_user = "somebody";
    add_user("somebody", OWN_UID);
    assert_int_equal(mkdirat(directory, "state", 0755), 0);
    run_in_state("lock", "touch $F && for i in $(seq 100); do ln -s x $i || exit; done");
    assert_int_equal(prepare("state", "", ""), 0);
    assert_int_equal(event_count(), 22);
    assert_string_equal(last_event(), "[acme] state_dir: 80 more keep their owner");
}

TEST(state_directory_that_others_can_replace_is_refused)
{
    if (geteuid() != 0)
        skip();
    assert_int_equal(mkdirat(directory, "of-another", 0755), 0);
    assert_int_equal(mkdirat(directory, "of-another/state", 0755), 0);
    assert_int_equal(fchownat(directory, "of-another", OLD_UID, OLD_UID, 0), 0);
    assert_int_equal(prepare("of-another/state", "", ""), -1);
    assert_non_null(strstr(why, "/of-another/state: others could replace it: "));
    assert_non_null(strstr(why, "/of-another belongs to another user (uid 61001)"));
    assert_int_equal(status_of("of-another/state").st_uid, 0);
    assert_int_equal(status_of("of-another/state").st_mode, S_IFDIR | 0755);
}

TEST(unusable_directory_is_reported)
{
    char text[256], too_long[8000];
    static const struct {
        const char *path;
        int error;
    } cases[] = {{"file", ENOTDIR}, {"file/state", ENOTDIR}, {"link", ENOTDIR}};

    put("file", "");
    assert_int_equal(mkdirat(directory, "other", 0700), 0);
    assert_int_equal(symlinkat("other", directory, "link"), 0);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        assert_int_equal(prepare(cases[i].path, "", ""), -1);
        snprintf(text, sizeof(text), "[acme] state_dir: %s/%s: %s", own_directory, cases[i].path,
                 strerror(cases[i].error));
        assert_string_equal(why, text);
    }
    memset(too_long, 'x', sizeof(too_long));
    too_long[sizeof(too_long) - 2] = '/';
    too_long[sizeof(too_long) - 1] = '\0';
    assert_int_equal(prepare(too_long, "", ""), -1);
}

TEST(unknown_identity_is_reported)
{
    assert_int_equal(prepare("state", "no-such-user-here", ""), -1);
    assert_memory_equal(why, "[server] user: ", 15);
    assert_int_equal(prepare("state", "", "no-such-group-here"), -1);
    assert_memory_equal(why, "[server] group: ", 16);
    acme_user = "no-such-user-here";
    assert_int_equal(prepare("state", "", ""), -1);
    assert_memory_equal(why, "[acme] user: ", 13);
    assert_false(exists("state"));
}

/* Reading */

TEST(text_is_read)
{
    put("file", "text");
    assert_text("file", "text");
    put("file", "");
    assert_text("file", "");
}

TEST(link_or_directory_is_not_read)
{
    put("file", "text");
    assert_int_equal(symlinkat("file", directory, "link"), 0);
    assert_int_equal(mkdirat(directory, "directory", 0700), 0);
    assert_null(state_read(directory, "link"));
    assert_int_equal(errno, ELOOP);
    assert_null(state_read(directory, "missing"));
    assert_int_equal(errno, ENOENT);
    assert_null(state_read(directory, "directory"));
}

TEST(fifo_is_read_without_a_writer)
{
    assert_int_equal(mkfifoat(directory, "fifo", 0600), 0);
    assert_text("fifo", "");
}

TEST(long_file_is_cut)
{
    char *text = malloc(STATE_FILE_MAX + 2), *read;

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

TEST(only_objects_are_read_as_json)
{
    static const char *const others[] = {"[]", "{", "", "7"};
    json_t *json;

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

TEST(file_is_replaced)
{
    int left = openat(directory, "file.new", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    assert_int_equal(write(left, "of a killed process", 19), 19);
    close(left);
    put("file", "a");
    assert_text("file", "a");
    assert_false(exists("file.new"));
    assert_int_equal(status_of("file").st_mode, S_IFREG | 0600);
    put("file", "b");
    assert_text("file", "b");
}

TEST(all_is_written)
{
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

TEST(failure_leaves_the_old_file)
{
    struct rlimit usual;
    int failed, error;

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

/* A process that has been taken over can leave them to the next. */
TEST(what_is_in_the_way_is_replaced_or_reported)
{
    static const struct {
        const char *make;
        int error;
    } cases[] = {
        {"ln -s other file.new", 0},
        {"ln -s $PWD/other file.new", 0},
        {"ln -s missing file.new", 0},
        {"ln other file.new", 0},
        {"mkfifo file.new", 0},
        {"truncate -s 1G file.new", 0},
        {"mkdir file.new", EISDIR},
        {"ln -s other file", 0},
        {"rm -f file; mkfifo file", 0},
        {"rm -f file; ln other file", 0},
        {"rm -f file; mkdir file", EISDIR},
    };
    char command[256];

    put("other", "other");
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        snprintf(command, sizeof(command), "cd %s && rm -rf file file.new && %s", own_directory,
                 cases[i].make);
        assert_int_equal(system(command), 0);
        errno = 0;
        assert_int_equal(state_write(directory, "file", "text"), cases[i].error == 0 ? 0 : -1);
        if (cases[i].error == 0)
            assert_text("file", "text");
        else
            assert_int_equal(errno, cases[i].error);
        assert_text("other", "other");
    }
}

TEST(json_is_written)
{
    assert_int_equal(state_write_json(directory, "file", json_pack("{s:i}", "a", 7)), 0);
    assert_text("file", "{\n  \"a\": 7\n}");
    assert_int_equal(state_write_json(directory, "file", NULL), -1);
    assert_int_equal(errno, ENOMEM);
    assert_int_equal(mkdirat(directory, "directory", 0700), 0);
    assert_int_equal(state_write_json(directory, "directory", json_object()), -1);
    assert_int_equal(errno, EISDIR);
}

TEST(files_are_renamed_and_removed)
{
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

TEST(missing_space_is_reported)
{
    struct rlimit usual;
    int enough, none, error;

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

TEST(lock_is_for_one_process)
{
    int first = state_lock(directory), again;

    assert_true(first >= 0);
    assert_int_equal(state_lock(directory), -1);
    assert_int_equal(errno, EWOULDBLOCK);
    close(first);
    again = state_lock(directory);
    assert_true(again >= 0);
    close(again);
    assert_int_equal(unlinkat(directory, "lock", 0), 0);
    put("target", "target");
    assert_int_equal(symlinkat("target", directory, "lock"), 0);
    again = state_lock(directory);
    assert_true(again >= 0);
    close(again);
    assert_text("target", "target");
    assert_int_equal(status_of("lock").st_mode, S_IFREG | 0600);
    assert_int_equal(unlinkat(directory, "lock", 0), 0);
    assert_int_equal(mkdirat(directory, "lock", 0700), 0);
    assert_int_equal(state_lock(directory), -1);
    assert_int_equal(errno, EISDIR);
}
