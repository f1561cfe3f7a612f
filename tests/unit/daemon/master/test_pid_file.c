/*
 * Who gets the lock of an instance, and what is removed of one that is dead. Replies of a master
 * are the test's.
 */
#include "daemon/master/pid_file.h"

#include "common/log_record.h"
#include "common/macros.h"
#include "common/segment_reader.h"
#include "daemon/base/events.h"
#include "daemon/base/service.h"
#include "daemon/master/process_record.h"
#include "tests/unit/last_event.h"
#include "tests/unit/open_descriptors.h"
#include "tests/unit/own_directory.h"
#include "tests/unit/own_segment.h"
#include "tests/unit/wrapped.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { OTHER_USER = 65534, WAIT_S = 5, PATIENCE_MS = 60000 };

/* How far a master gets that is asked whether it lives. */
enum master { ABSENT, SILENT, REPLIES };

static struct {
    enum master master;
    int listener, client; /* its socket, and a connection to it; -1: none */
    uint64_t now_ns;
    void (*during_sleep)(void);
    void (*before_lock)(void); /* once */
    int unlink_error;          /* of the segment; 0: none */
    bool killed;               /* the process that is waited for */
    pid_t child;               /* 0: none */
    int holder;                /* another descriptor with the lock; -1: none */
    int descriptors;           /* before the test */
    char name[32];             /* of the instance; only this process has it */
    char path[96], lock[96], other[96], socket_path[96], why[512];
    struct config config;
    struct salvage salvage;
    struct log_files logs;
    struct pid_file pid_file;
    struct segment segment, events;
} scene;

/* While the caller waits for the reply of the master; time passes if there is none. */
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    static const char reply[] = "{\"ok\":true}\n";

    if (scene.master == ABSENT) { /* the caller waits for the end of a process */
        int ended = __real_poll(fds, count, scene.killed ? PATIENCE_MS : 0);

        scene.now_ns += ended == 0 ? (uint64_t)timeout_ms * NS_PER_MS : 0;
        scene.killed = ended == 0; /* next */
        return ended;
    }
    if (scene.master == SILENT) {
        scene.now_ns += (uint64_t)timeout_ms * NS_PER_MS;
        return 0;
    }
    if (scene.client < 0) {
        scene.client = accept4(scene.listener, NULL, NULL, SOCK_CLOEXEC);
        assert_int_equal(send(scene.client, reply, strlen(reply), MSG_NOSIGNAL), strlen(reply));
    }
    return __real_poll(fds, count, timeout_ms);
}

/* The monotonic clock advances only while the caller sleeps. The other one makes names unique. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    if (clock != CLOCK_MONOTONIC)
        return timespec_get(now, TIME_UTC) == TIME_UTC ? 0 : -1;
    *now = (struct timespec){.tv_sec = (time_t)(scene.now_ns / NS_PER_S),
                             .tv_nsec = (long)(scene.now_ns % NS_PER_S)};
    return 0;
}

int __wrap_usleep(useconds_t us)
{
    scene.now_ns += us * NS_PER_US;
    if (scene.during_sleep != NULL)
        scene.during_sleep();
    return 0;
}

int __wrap_flock(int fd, int operation)
{
    void (*before)(void) = scene.before_lock;

    scene.before_lock = NULL;
    if (before != NULL)
        before();
    return __real_flock(fd, operation);
}

int __wrap_shm_unlink(const char *name)
{
    if (scene.unlink_error == 0)
        return __real_shm_unlink(name);
    errno = scene.unlink_error;
    return -1;
}

static int begin(void **state)
{
    (void)state;
    memset(&scene, 0, sizeof(scene));
    own_directory_make();
    snprintf(scene.name, sizeof(scene.name), "unit%s", strrchr(own_directory, '-'));
    snprintf(scene.path, sizeof(scene.path), "%s/%s.pid", own_directory, scene.name);
    snprintf(scene.lock, sizeof(scene.lock), "%s/%s.lock", own_directory, scene.name);
    snprintf(scene.other, sizeof(scene.other), "%s/other", own_directory);
    snprintf(scene.socket_path, sizeof(scene.socket_path), "%s/socket", own_directory);
    scene.holder = scene.listener = scene.client = -1;
    scene.config.server_name = scene.name;
    scene.config.server_run_dir = own_directory;
    scene.config.control_socket = scene.socket_path;
    scene.logs = LOG_FILES_NONE;
    scene.logs.config = &scene.config;
    scene.logs.fd[LOG_ACCESS] = open("/dev/null", O_WRONLY | O_CLOEXEC);
    scene.pid_file.lock_fd = -1;
    if (own_segment_create(&scene.events, (struct segment_plan){0}) != 0)
        return -1;
    events_attach(&scene.events, SEGMENT_RING_MASTER);
    atomic_store(&segment_master(&scene.events)->log_level, LEVEL_INFO);
    scene.descriptors = open_descriptors();
    return 0;
}

static void end_child(void)
{
    if (scene.child > 0) {
        kill(scene.child, SIGKILL);
        waitpid(scene.child, NULL, 0);
    }
    scene.child = 0;
}

static int end(void **state)
{
    (void)state;
    end_child();
    pid_file_release(&scene.pid_file);
    signals_unblock();
    if (scene.holder >= 0)
        close(scene.holder);
    segment_destroy(&scene.segment);
    salvage_free(&scene.salvage);
    if (scene.listener >= 0)
        close(scene.listener);
    if (scene.client >= 0)
        close(scene.client);
    assert_int_equal(open_descriptors(), scene.descriptors);
    events_attach(NULL, 0);
    log_files_close(&scene.logs);
    segment_destroy(&scene.events);
    return own_directory_remove();
}

const struct test_fixture test_fixture = {begin, end};

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void expect_file(const char *path, const char *text)
{
    char found[64] = "";
    FILE *file = fopen(path, "r");

    assert_non_null(file);
    found[fread(found, 1, sizeof(found) - 1, file)] = '\0';
    fclose(file);
    assert_string_equal(found, text);
}

static bool exists(const char *path)
{
    struct stat status;

    return lstat(path, &status) == 0;
}

static bool signals_are_blocked(void)
{
    sigset_t signals;

    sigprocmask(SIG_BLOCK, NULL, &signals);
    return sigismember(&signals, SIGTERM) == 1;
}

/* True if another process could get it. */
static bool lock_is_free(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool is_free = __real_flock(fd, LOCK_EX | LOCK_NB) == 0;

    assert_true(fd >= 0);
    close(fd);
    return is_free;
}

static int acquire(void)
{
    scene.pid_file.lock_fd = INT_MAX; /* may be anything before */
    return pid_file_acquire(&scene.pid_file, &scene.config, &scene.salvage, &scene.logs, scene.why,
                            sizeof(scene.why));
}

static void expect_acquired(void)
{
    if (acquire() != 0)
        fail_msg("%s", scene.why);
    assert_true(signals_are_blocked());
    assert_false(lock_is_free(scene.pid_file.lock_path));
}

static void expect_reason(const char *words)
{
    if (strstr(scene.why, words) == NULL)
        fail_msg("no '%s' in '%s'", words, scene.why);
}

static void expect_refusal(const char *words)
{
    assert_int_equal(acquire(), -1);
    assert_int_equal(scene.pid_file.lock_fd, -1);
    expect_reason(words);
}

/* A running process, which will be left by a master. */
static void fork_child(void)
{
    scene.child = fork();
    if (scene.child == 0)
        for (;;)
            pause();
    assert_true(scene.child > 0);
}

/* Returns how the child has ended by now: a signal, 0 if it lives. */
static int end_of_child(void)
{
    int status = 0;

    if (waitpid(scene.child, &status, WNOHANG) != scene.child)
        return 0;
    scene.child = 0;
    return WTERMSIG(status);
}

/* Adds a process to the record as it does itself; START_LATER: one that had the same pid. */
static void record(pid_t pid, uint64_t start_later)
{
    char boot[64] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%63s", boot), 1);
    fclose(file);
    file = fopen(scene.lock, "a");
    assert_non_null(file);
    fprintf(file, "%s %d %lu\n", boot, (int)pid,
            (unsigned long)(process_start_ticks(pid) - start_later));
    assert_int_equal(fclose(file), 0);
}

/* The lock of another master, the child. */
static void hold_lock(void)
{
    char pid[16];

    fork_child();
    snprintf(pid, sizeof(pid), "%d\n", (int)scene.child);
    write_file(scene.path, pid);
    record(scene.child, 0);
    scene.holder = open(scene.lock, O_RDONLY | O_CLOEXEC);
    assert_true(scene.holder >= 0);
    assert_int_equal(__real_flock(scene.holder, LOCK_EX | LOCK_NB), 0);
}

static void release_lock(void)
{
    close(scene.holder);
    scene.holder = -1;
}

/* The control socket of a master. */
static int make_listener(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    memcpy(address.sun_path, scene.socket_path, strlen(scene.socket_path) + 1);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 1000), 0);
    return fd;
}

/* The file of a socket remains when its process has ended. */
static void make_socket(void)
{
    close(make_listener());
}

static void run_master(enum master how)
{
    scene.master = how;
    if (how != ABSENT)
        scene.listener = make_listener();
}

/* --- The lock --- */

TEST(first_process_gets_the_lock)
{
    struct stat status;
    mode_t before = umask(0077);

    expect_acquired();
    umask(before);
    assert_string_equal(scene.pid_file.path, scene.path);
    assert_int_equal(stat(scene.lock, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    assert_int_equal(scene.now_ns, 0);
    pid_file_release(&scene.pid_file);
    assert_int_equal(scene.pid_file.lock_fd, -1);
    assert_false(exists(scene.lock));
}

TEST(running_server_is_reported_at_once)
{
    hold_lock();
    run_master(REPLIES);
    expect_refusal("' is already running with pid ");
    expect_reason("; stop it with: wsctl -n unit-");
    assert_int_equal(scene.now_ns, 0);
    assert_false(signals_are_blocked());
    assert_true(exists(scene.path));
    assert_int_equal(end_of_child(), 0);
}

static void expect_no_signal_held(void)
{
    assert_false(signals_are_blocked());
}

TEST(master_that_does_not_reply_is_waited_for)
{
    static const enum master masters[] = {ABSENT, SILENT};

    hold_lock();
    scene.during_sleep = expect_no_signal_held;
    for (size_t i = 0; i < ARRAY_LENGTH(masters); i++) {
        run_master(masters[i]);
        scene.now_ns = 0;
        expect_refusal(") holds its lock and does not respond; kill it");
        expect_reason("use a name other than unit-");
        /* A master that does not reply takes a second of the last attempt. */
        assert_in_range(scene.now_ns, WAIT_S * NS_PER_S, (WAIT_S + 1) * NS_PER_S + NS_PER_S / 10);
    }
}

TEST(lock_is_acquired_when_they_have_exited)
{
    hold_lock();
    scene.during_sleep = release_lock;
    expect_acquired();
    assert_true(scene.now_ns > 0);
}

static void remove_lock(void)
{
    assert_int_equal(unlink(scene.lock), 0);
}

static void replace_lock(void)
{
    write_file(scene.other, "");
    assert_int_equal(rename(scene.other, scene.lock), 0);
}

/* The previous owner may do it between open() and flock(). */
TEST(lock_of_a_file_that_was_removed_does_not_count)
{
    void (*const changes[])(void) = {remove_lock, replace_lock};

    for (size_t i = 0; i < ARRAY_LENGTH(changes); i++) {
        scene.now_ns = 0;
        scene.before_lock = changes[i];
        expect_acquired();
        assert_true(scene.now_ns > 0);
        assert_false(lock_is_free(scene.lock)); /* the file of that name */
        pid_file_release(&scene.pid_file);
        signals_unblock();
    }
}

TEST(symbolic_link_is_not_a_lock)
{
    assert_int_equal(symlink(scene.other, scene.lock), 0);
    expect_refusal("cannot open the lock");
    expect_reason(strerror(ELOOP));
    assert_false(signals_are_blocked());
    assert_false(exists(scene.other));
    assert_int_equal(scene.now_ns, 0);
}

TEST(run_directory_that_others_may_write_is_refused)
{
    assert_int_equal(chmod(own_directory, 0777), 0);
    expect_refusal("others may write to the run directory");
    assert_false(exists(scene.path));
}

/* The longest path has INSTANCE_PATH_MAX - 1 bytes. */
TEST(path_that_is_too_long_is_refused)
{
    char run_dir[INSTANCE_PATH_MAX + 1];
    size_t length = INSTANCE_PATH_MAX - strlen("/.lock") - strlen(scene.name);

    memset(run_dir, 'x', length);
    memcpy(run_dir, own_directory, strlen(own_directory));
    run_dir[strlen(own_directory)] = '/';
    run_dir[length] = '\0';
    scene.config.server_run_dir = run_dir;
    expect_refusal("is too long");
    assert_false(exists(run_dir));
    assert_int_equal(
        pid_file_inherit(&scene.pid_file, &scene.config, -1, scene.why, sizeof(scene.why)), -1);
    expect_reason("is too long");
    run_dir[length - 1] = '\0';
    expect_acquired();
    assert_true(exists(scene.pid_file.lock_path));
}

/* --- Processes that a dead master has left --- */

TEST(left_process_is_killed_after_five_seconds)
{
    fork_child();
    record(scene.child, 0);
    expect_acquired();
    assert_int_equal(scene.now_ns, WAIT_S * NS_PER_S);
    assert_int_equal(end_of_child(), SIGKILL);
    assert_non_null(strstr(last_event(&scene.events), "does not end: killing it"));
}

TEST(stopped_process_is_killed_at_once)
{
    int status;

    fork_child();
    kill(scene.child, SIGSTOP);
    assert_int_equal(waitpid(scene.child, &status, WUNTRACED), scene.child);
    record(scene.child, 0);
    scene.killed = true;
    expect_acquired();
    assert_int_equal(scene.now_ns, 0);
    assert_int_equal(end_of_child(), SIGKILL);
    assert_non_null(strstr(last_event(&scene.events), "is stopped: killing it"));
}

TEST(process_with_a_reused_pid_is_not_killed)
{
    fork_child();
    record(scene.child, 1);
    expect_acquired();
    assert_int_equal(scene.now_ns, 0);
    assert_int_equal(end_of_child(), 0);
}

TEST(process_of_another_boot_is_not_killed)
{
    char line[64];

    fork_child();
    snprintf(line, sizeof(line), "other-boot %d %lu\n", (int)scene.child,
             (unsigned long)process_start_ticks(scene.child));
    write_file(scene.lock, line);
    expect_acquired();
    assert_int_equal(scene.now_ns, 0);
    assert_int_equal(end_of_child(), 0);
}

/* Such as the old master of an upgrade, whose new one has died. */
TEST(lock_of_a_left_process_does_not_stop_a_start)
{
    hold_lock();
    write_file(scene.path, "2147483647\n");
    scene.during_sleep = release_lock; /* its descriptor is this test's */
    expect_acquired();
    assert_int_equal(end_of_child(), SIGKILL);
}

TEST(record_has_the_living_processes)
{
    char text[512] = "";
    FILE *file;
    pid_t second;

    expect_acquired();
    record(1, 1); /* has ended: another process has its pid */
    second = fork();
    if (second == 0) {
        pid_file_after_fork(&scene.pid_file);
        _exit(scene.pid_file.lock_fd == -1 && !lock_is_free(scene.lock) ? 0 : 1);
    }
    assert_int_equal(waitpid(second, &(int){0}, 0), second);
    file = fopen(scene.lock, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    assert_true(process_record_lives(scene.pid_file.lock_fd, 0) == false); /* but this one */
    snprintf(scene.why, sizeof(scene.why), " %d ", (int)getpid());
    assert_non_null(strstr(text, scene.why));
    snprintf(scene.why, sizeof(scene.why), " %d ", (int)second);
    assert_non_null(strstr(text, scene.why));
    assert_null(strstr(text, " 1 "));
}

/* A debugger may stop it at any place. */
TEST(process_that_is_stopped_with_the_record_delays_nobody)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    pid_t holder, other;
    int fd, status;

    expect_acquired();
    holder = fork();
    if (holder == 0) {
        fd = open(scene.lock, O_RDWR);
        fcntl(fd, F_SETLK, &whole);
        raise(SIGSTOP);
        _exit(0);
    }
    assert_int_equal(waitpid(holder, &status, WUNTRACED), holder);
    other = fork();
    if (other == 0) {
        process_record_add(scene.pid_file.lock_fd);
        raise(SIGSTOP);
        _exit(0);
    }
    assert_int_equal(waitpid(other, &status, WUNTRACED), other);
    assert_true(process_record_lives(scene.pid_file.lock_fd, other));
    kill(other, SIGKILL);
    kill(holder, SIGKILL);
    assert_int_equal(waitpid(other, &status, 0), other);
    assert_int_equal(waitpid(holder, &status, 0), holder);
}

/* --- The segment of another instance --- */

static void log_one_line(void)
{
    const struct log_record record = {.status = 200, .request_line = {"GET / HTTP/1.1", 14}};
    uint64_t words[LOG_RECORD_WORDS_MAX];
    struct log_ring ring;

    assert_int_equal(segment_reserve(&scene.segment, 0, 1), 0);
    ring = segment_ring(&scene.segment, 0);
    log_ring_append(&ring, words, log_record_pack(&record, words));
}

static void make_segment(void)
{
    assert_int_equal(own_segment_create(&scene.segment, (struct segment_plan){0}), 0);
    log_one_line();
    segment_publish(&scene.segment);
    scene.config.server_name = scene.segment.header.name;
}

static bool segment_exists(void)
{
    char file[INSTANCE_PATH_MAX], why[256];

    return instance_find_segment(scene.config.server_name, file, sizeof(file), why, sizeof(why)) ==
           0;
}

/* As if the pid of the master were reused. */
static void end_its_master(void)
{
    segment_shared_header(&scene.segment)->start_ticks++;
}

TEST(segment_of_a_stopped_server_is_removed)
{
    make_segment();
    end_its_master();
    segment_shared_header(&scene.segment)->stopped = 1;
    expect_acquired();
    assert_int_equal(scene.salvage.count, 0);
    assert_false(segment_exists());
}

static void make_invalid_segment(void)
{
    char file[INSTANCE_PATH_MAX];
    int fd;

    assert_int_equal(instance_make_segment_name(scene.name, "", file, sizeof(file)), 0);
    fd = shm_open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    close(fd);
}

/* Of a new master that died with the old one. */
TEST(segment_of_an_unfinished_upgrade_is_removed)
{
    char file[INSTANCE_PATH_MAX];
    int fd;

    assert_int_equal(
        instance_make_segment_name(scene.name, INSTANCE_SEGMENT_NEW, file, sizeof(file)), 0);
    fd = shm_open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
    expect_acquired();
    assert_int_equal(__real_shm_unlink(file), -1);
}

TEST(segment_that_cannot_be_read_is_removed)
{
    make_invalid_segment();
    expect_acquired();
    assert_int_equal(scene.salvage.count, 0);
    assert_false(segment_exists());
}

TEST(segment_that_cannot_be_removed_is_an_error)
{
    make_invalid_segment();
    scene.unlink_error = EPERM;
    expect_refusal("cannot remove the shared memory of 'unit-");
    expect_reason(strerror(EPERM));
    assert_false(exists(scene.path));
    scene.unlink_error = 0;
    assert_int_equal(instance_remove_segments(scene.config.server_name, false), 0);
}

TEST(segment_of_a_dead_server_that_cannot_be_removed_is_an_error)
{
    make_segment();
    end_its_master();
    scene.unlink_error = EPERM;
    expect_refusal(strerror(EPERM));
    scene.unlink_error = 0;
    assert_int_equal(instance_remove_segments(scene.config.server_name, false), 0);
}

/* --- The control socket of another instance --- */

TEST(socket_of_a_live_server_is_kept)
{
    run_master(REPLIES);
    expect_refusal("another server uses the control socket");
    assert_true(exists(scene.socket_path));
    assert_false(exists(scene.path));
}

/* Only root can play the other user. */
TEST(socket_of_another_user_is_kept)
{
    if (geteuid() != 0)
        skip();
    make_socket();
    assert_int_equal(chown(scene.socket_path, OTHER_USER, (gid_t)-1), 0);
    expect_refusal("(uid 65534)");
    assert_true(exists(scene.socket_path));
}

/* --- The content --- */

TEST(pid_replaces_the_previous_content)
{
    char text[32];

    expect_acquired();
    write_file(scene.path, "a text that is longer than the pid\n");
    pid_file_write(&scene.pid_file);
    assert_int_equal(event_count(&scene.events), 0);
    snprintf(text, sizeof(text), "%d\n", (int)getpid());
    expect_file(scene.path, text);
    pid_file_release(&scene.pid_file);
    assert_false(exists(scene.path));
}

/* Its text would never reach the file behind the link. */
TEST(pid_is_not_written_through_a_link)
{
    expect_acquired();
    assert_int_equal(symlink(scene.other, scene.path), 0);
    pid_file_write(&scene.pid_file);
    assert_int_equal(event_count(&scene.events), 1);
    assert_non_null(strstr(last_event(&scene.events), strerror(ELOOP)));
    assert_false(exists(scene.other));
}

/* After an upgrade, the old master releases the lock of a file that belongs to the new one. */
TEST(file_with_another_pid_is_kept)
{
    expect_acquired();
    write_file(scene.path, "4711\n");
    pid_file_release(&scene.pid_file);
    expect_file(scene.path, "4711\n");
    assert_true(lock_is_free(scene.lock));
}

TEST(lock_that_is_not_held_is_not_released)
{
    int descriptors = open_descriptors();

    expect_acquired();
    pid_file_release(&scene.pid_file);
    write_file(scene.path, "");
    pid_file_release(&scene.pid_file);
    assert_true(exists(scene.path));
    assert_int_equal(open_descriptors(), descriptors);
}

/* --- Upgrades --- */

static int inherit(void)
{
    scene.pid_file.lock_fd = INT_MAX;
    return pid_file_inherit(&scene.pid_file, &scene.config, scene.holder, scene.why,
                            sizeof(scene.why));
}

TEST(new_master_inherits_the_lock)
{
    hold_lock();
    assert_int_equal(inherit(), 0);
    assert_int_equal(scene.pid_file.lock_fd, scene.holder);
    assert_string_equal(scene.pid_file.path, scene.path);
    assert_true(signals_are_blocked());
    scene.holder = -1;
}

TEST(name_cannot_change_in_an_upgrade)
{
    hold_lock();
    scene.config.server_name = "unit-other";
    assert_int_equal(inherit(), -1);
    expect_reason("unit-other.lock is not the lock of the running server");
    assert_int_equal(scene.pid_file.lock_fd, -1);
    assert_false(signals_are_blocked());
}
