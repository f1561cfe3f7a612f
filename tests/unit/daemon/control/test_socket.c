/*
 * The control socket: its file, and clients that wait, are silent, send too much or read too
 * little. Commands are answered by the test, and the test moves the clock.
 */
#include "daemon/control/socket.h"

#include "common/clock.h"
#include "common/instance.h"
#include "common/macros.h"
#include "tests/test.h"
#include "tests/unit/open_descriptors.h"
#include "tests/unit/wrapped.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { START_S = 1000, BIG_REPLY = 100 * 1024, REPLY_LIMIT_S = 17 };

#define NAME "socket"

static struct {
    char directory[64]; /* the current one */
    struct event_base *base;
    struct config config;
    struct control_socket *control;
    char why[256];
    uint64_t shift_ns; /* of the clock */
    struct event *pause;
    bool in_force; /* the change of "wait" */
    unsigned commands;
    unsigned accepts;      /* calls of accept4() */
    int accept_error;      /* of the next call; 0: none */
    unsigned mallocs_fail; /* number of the next calls of malloc() that fail */
} scene;

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    (void)clock;
    *now = (struct timespec){.tv_sec = START_S + (time_t)(scene.shift_ns / NS_PER_S)};
    return 0;
}

/* Only the pause after a shortage lasts a second or more; the test ends it. */
int __wrap_event_add(struct event *event, const struct timeval *timeout)
{
    if (timeout == NULL || timeout->tv_sec == 0)
        return __real_event_add(event, timeout);
    scene.pause = event;
    return 0;
}

int __wrap_accept4(int from, struct sockaddr *peer, socklen_t *length, int flags)
{
    int error = scene.accept_error, fd;

    scene.accepts++;
    scene.accept_error = 0;
    errno = error;
    if (error != 0)
        return -1;
    fd = __real_accept4(from, peer, length, flags);
    /* However much the kernel keeps by default. */
    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){64 * 1024}, sizeof(int));
    return fd;
}

void *__wrap_malloc(size_t size)
{
    if (scene.mallocs_fail == 0)
        return __real_malloc(size);
    scene.mallocs_fail--;
    return NULL;
}

static bool is_in_force(void *owner, uint64_t token)
{
    assert_ptr_equal(owner, &scene);
    assert_int_equal(token, 5);
    return scene.in_force;
}

static json_t *report(void *owner, uint64_t token)
{
    (void)owner, (void)token;
    return json_pack("{s:s}", "reply", "done");
}

/*
 * "wait" is in force later; "big" has a long reply. For "lost" and a part of "partial" there is no
 * memory. Others get an echo.
 */
static struct control_reply run(void *owner, char *line, unsigned uid, int pid)
{
    static char big[BIG_REPLY];

    assert_ptr_equal(owner, &scene);
    assert_int_equal(uid, geteuid());
    assert_int_equal(pid, getpid());
    scene.commands++;
    if (strcmp(line, "wait") == 0)
        return (struct control_reply){.in_force = is_in_force,
                                      .report = report,
                                      .token = 5,
                                      .wait_limit_ms = REPLY_LIMIT_S * 1000};
    if (strcmp(line, "big") == 0) {
        memset(big, 'b', sizeof(big) - 1);
        return (struct control_reply){.json = json_pack("{s:s}", "reply", big)};
    }
    if (strcmp(line, "partial") == 0) {
        json_t *list = json_array();

        scene.mallocs_fail = 1;
        json_array_append_new(list, json_string("a")); /* adds nothing */
        return (struct control_reply){.json = json_pack("{s:o}", "reply", list)};
    }
    scene.mallocs_fail = strcmp(line, "lost") == 0;
    return (struct control_reply){.json = json_pack("{s:s}", "reply", line)};
}

static bool open_socket(bool beside)
{
    scene.control = control_socket_open(&scene.config, beside, scene.base, run, &scene, scene.why,
                                        sizeof(scene.why));
    return scene.control != NULL;
}

static void close_socket(bool remove)
{
    control_socket_close(scene.control, remove);
    scene.control = NULL;
}

static int begin(void **state)
{
    (void)state;
    memset(&scene, 0, sizeof(scene));
    snprintf(scene.directory, sizeof(scene.directory), "/tmp/test_socket.XXXXXX");
    if (mkdtemp(scene.directory) == NULL || chdir(scene.directory) != 0)
        return -1;
    scene.config.control_socket = NAME;
    scene.config.control_group = "";
    scene.config.control_mode = 0600;
    scene.base = event_base_new();
    return scene.base != NULL ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    close_socket(true);
    event_base_free(scene.base);
    return chdir("/") == 0 && rmdir(scene.directory) == 0 ? 0 : -1; /* nothing is left in it */
}

const struct test_fixture test_fixture = {begin, end};

static bool exists(const char *name)
{
    struct stat status;

    return lstat(name, &status) == 0;
}

static mode_t mode_of(const char *name)
{
    struct stat status;

    assert_int_equal(lstat(name, &status), 0);
    return status.st_mode & ALLPERMS;
}

/* --- The file --- */

TEST(socket_leaves_nothing)
{
    int before = open_descriptors();

    for (int beside = 0; beside <= 1; beside++) {
        const char *name = beside ? NAME ".new" : NAME;

        assert_true(open_socket(beside));
        assert_true(exists(name));
        assert_int_equal(mode_of(name), 0600);
        close_socket(true);
        assert_false(exists(name));
        assert_int_equal(open_descriptors(), before);
    }
    assert_true(open_socket(false));
    close_socket(false);
    assert_true(exists(NAME));
    assert_int_equal(open_descriptors(), before);
    assert_int_equal(unlink(NAME), 0);
    close_socket(true); /* none */
}

TEST(new_socket_replaces_the_old_one)
{
    struct control_socket *old;

    assert_true(open_socket(false));
    old = scene.control;
    assert_true(open_socket(true));
    assert_int_equal(control_socket_promote(scene.control, &scene.config), 0);
    assert_false(exists(NAME ".new"));
    control_socket_close(old, true); /* the file is not its own any more */
    assert_true(exists(NAME));
    close_socket(true);
    assert_false(exists(NAME));
}

TEST(new_socket_that_was_left_is_removed)
{
    assert_true(open_socket(true));
    close_socket(false);
    assert_true(open_socket(true));
    close_socket(false);
    control_socket_remove_new(&scene.config);
    assert_false(exists(NAME ".new"));
}

static void expect_no_socket(const char *why)
{
    int before = open_descriptors();

    assert_false(open_socket(false));
    if (strstr(scene.why, why) == NULL)
        fail_msg("'%s' is not in '%s'", why, scene.why);
    assert_int_equal(open_descriptors(), before);
}

TEST(socket_that_cannot_be_opened_leaves_nothing)
{
    char name[INSTANCE_PATH_MAX + 1];

    scene.config.control_socket = "none/" NAME;
    expect_no_socket("cannot open the control socket none/" NAME ": No such file or directory");
    memset(name, 'x', sizeof(name));
    name[INSTANCE_PATH_MAX] = '\0';
    scene.config.control_socket = name;
    expect_no_socket("File name too long");
    name[INSTANCE_PATH_MAX - 1] = '\0';
    assert_true(open_socket(false));
    assert_true(exists(name));
    assert_int_equal(control_socket_promote(scene.control, &scene.config), 0);
    close_socket(true);
    scene.config.control_socket = NAME;
    assert_int_equal(symlink("other", NAME), 0);
    expect_no_socket("Address already in use");
    assert_int_equal(unlink(NAME), 0); /* it was kept */
    scene.config.control_group = "no such group";
    expect_no_socket("control.group: unknown group 'no such group'");
    assert_false(exists(NAME));
    scene.config.control_group = "4294967295";
    expect_no_socket("control.group: unknown group '4294967295'");
}

static int set_access(void)
{
    return control_socket_set_access(scene.control, &scene.config, scene.why, sizeof(scene.why));
}

TEST(access_follows_the_configuration)
{
    char group[16];

    snprintf(group, sizeof(group), "%u", (unsigned)getegid());
    assert_true(open_socket(false));
    scene.config.control_mode = 0640;
    assert_int_equal(set_access(), 0);
    assert_int_equal(mode_of(NAME), 0640);
    scene.config.control_mode = 0600;
    scene.config.control_group = group;
    assert_int_equal(set_access(), 0);
    assert_int_equal(mode_of(NAME), 0660);
    scene.config.control_group = "no such group";
    assert_int_equal(set_access(), -1);
    assert_int_equal(mode_of(NAME), 0660);
}

TEST(access_of_another_file_is_not_set)
{
    int before;
    FILE *file;

    assert_true(open_socket(false));
    before = open_descriptors();
    assert_int_equal(rename(NAME, "away"), 0);
    assert_int_equal(set_access(), -1);
    assert_non_null(strstr(scene.why, "No such file or directory"));
    file = fopen(NAME, "w");
    assert_non_null(file);
    fclose(file);
    assert_int_equal(chmod(NAME, 0644), 0);
    assert_int_equal(set_access(), -1);
    assert_non_null(strstr(scene.why, "Stale file handle"));
    assert_int_equal(mode_of(NAME), 0644);
    assert_int_equal(open_descriptors(), before);
    close_socket(true);
    assert_true(exists(NAME));
    assert_int_equal(unlink(NAME), 0);
    assert_int_equal(unlink("away"), 0);
}

/* --- Clients --- */

static int connect_client(void)
{
    const struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = NAME};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

/* Handles all events that are ready. */
static void run_loop(void)
{
    for (int i = 0; i < 10; i++)
        assert_true(event_base_loop(scene.base, EVLOOP_NONBLOCK) >= 0);
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
    run_loop();
}

static void expect_reply(int fd, const char *expected)
{
    char text[512] = "";
    ssize_t got = recv(fd, text, sizeof(text) - 1, 0);

    if (got != (ssize_t)strlen(expected) || strcmp(text, expected) != 0)
        fail_msg("the reply is '%s', not '%s'", text, expected);
}

static void expect_silence(int fd)
{
    char byte;

    assert_int_equal(recv(fd, &byte, 1, 0), -1);
    assert_int_equal(errno, EAGAIN);
}

static void expect_end(int fd)
{
    char byte;

    assert_int_equal(recv(fd, &byte, 1, 0), 0);
    close(fd);
}

#define ECHO(word) "{\"reply\":\"" word "\"}\n"

TEST(each_line_is_answered)
{
    int fd;

    assert_true(open_socket(false));
    fd = connect_client();
    say(fd, "a\nb\r\n");
    expect_reply(fd, ECHO("a") ECHO("b"));
    say(fd, "\xff\nc\n");
    expect_reply(
        fd, "{\"ok\":false,\"error\":\"the command has a NUL byte or is not UTF-8\"}\n" ECHO("c"));
    assert_int_equal(scene.commands, 3);
    assert_int_equal(send(fd, "x\0y\nd", 5, MSG_NOSIGNAL), 5);
    run_loop();
    expect_reply(fd, "{\"ok\":false,\"error\":\"the command has a NUL byte or is not UTF-8\"}\n");
    say(fd, "e\n");
    expect_reply(fd, ECHO("de"));
    close(fd);
}

/* A word that is cut in the middle of a character is no valid JSON string. */
TEST(errors_may_contain_any_bytes)
{
    json_t *error = control_error("invalid '%s'\n\tsee", "a\xc3\xff\x1b");

    assert_string_equal(json_string_value(json_object_get(error, "error")),
                        "invalid 'a\\xc3\\xff\\x1b'\n\tsee");
    json_decref(error);
}

static bool buffer_memory_fails;

static void *allocate_for_buffers(size_t size)
{
    return buffer_memory_fails ? NULL : malloc(size);
}

static int prepare_program(void **state)
{
    (void)state;
    event_set_mem_functions(allocate_for_buffers, realloc, free);
    return 0;
}

const struct test_fixture test_group_fixture = {prepare_program, NULL};

TEST(line_stays_in_the_buffer_without_memory)
{
    static const char *const lines[] = {"\n", "\r\n", "ping\n"};

    for (size_t i = 0; i < ARRAY_LENGTH(lines); i++) {
        struct evbuffer *buffer = evbuffer_new();
        char *line;

        evbuffer_add(buffer, lines[i], strlen(lines[i]));
        buffer_memory_fails = true;
        assert_int_equal(control_line_read(buffer, &line), CONTROL_LINE_NO_MEMORY);
        buffer_memory_fails = false;
        assert_null(line);
        assert_int_equal(evbuffer_get_length(buffer), strlen(lines[i]));
        evbuffer_free(buffer);
    }
}

TEST(line_above_the_limit_is_refused)
{
    char line[CONTROL_LINE_MAX + 2], reply[CONTROL_LINE_MAX + 64];
    int fd;

    assert_true(open_socket(false));
    fd = connect_client();
    memset(line, 'x', sizeof(line));
    line[CONTROL_LINE_MAX - 1] = '\n';
    line[CONTROL_LINE_MAX] = '\0';
    say(fd, line);
    assert_int_equal(recv(fd, reply, sizeof(reply), 0), CONTROL_LINE_MAX - 1 + strlen(ECHO("")));
    line[CONTROL_LINE_MAX - 1] = 'x';
    line[CONTROL_LINE_MAX] = '\n';
    line[CONTROL_LINE_MAX + 1] = '\0';
    say(fd, line);
    expect_reply(fd, "{\"ok\":false,\"error\":\"line too long (limit: 4095 bytes)\"}\n");
    assert_int_equal(scene.commands, 1);
    expect_end(fd);
    fd = connect_client(); /* without a newline */
    memset(line, 'x', sizeof(line) - 1);
    line[CONTROL_LINE_MAX] = '\0';
    say(fd, line);
    expect_silence(fd);
    say(fd, "x");
    expect_reply(fd, "{\"ok\":false,\"error\":\"line too long (limit: 4095 bytes)\"}\n");
    expect_end(fd);
}

TEST(reply_without_memory_is_an_error)
{
    int fd;

    assert_true(open_socket(false));
    fd = connect_client();
    say(fd, "lost\na\n");
    expect_reply(fd, "{\"ok\":false,\"error\":\"out of memory\"}\n" ECHO("a"));
    say(fd, "partial\nb\n");
    expect_reply(fd, "{\"ok\":false,\"error\":\"out of memory\"}\n" ECHO("b"));
    close(fd);
}

TEST(lines_wait_for_the_reply_before)
{
    int fd;

    assert_true(open_socket(false));
    fd = connect_client();
    say(fd, "wait\na\n");
    expect_silence(fd);
    control_socket_check(scene.control);
    run_loop();
    expect_silence(fd);
    assert_int_equal(scene.commands, 1);
    scene.in_force = true;
    control_socket_check(scene.control);
    run_loop();
    expect_reply(fd, ECHO("done") ECHO("a"));
    say(fd, "b\n");
    expect_reply(fd, ECHO("b"));
    close(fd);
}

TEST(reply_that_takes_too_long_is_an_error)
{
    int fd;

    assert_true(open_socket(false));
    fd = connect_client();
    say(fd, "wait\n");
    scene.shift_ns = (REPLY_LIMIT_S + 1) * NS_PER_S;
    control_socket_check(scene.control);
    run_loop();
    expect_reply(
        fd, "{\"ok\":false,\"error\":\"the change is not complete after 17 s: a worker does not "
            "respond; see status and the error log\"}\n");
    close(fd);
}

TEST(half_closed_client_gets_its_reply)
{
    int fd;

    assert_true(open_socket(false));
    fd = connect_client();
    say(fd, "wait\na\n");
    shutdown(fd, SHUT_WR);
    run_loop();
    expect_silence(fd);
    scene.in_force = true;
    control_socket_check(scene.control);
    run_loop();
    expect_reply(fd, ECHO("done") ECHO("a"));
    expect_end(fd);
    fd = connect_client();
    say(fd, "b\n");
    shutdown(fd, SHUT_WR);
    run_loop();
    expect_reply(fd, ECHO("b"));
    expect_end(fd);
}

/* The number of commands that have run for a client that reads nothing is limited. */
TEST(unread_replies_are_bounded)
{
    enum { LINES = 40 }; /* more than the kernel keeps */
    static char bytes[BIG_REPLY];
    size_t all = 0;
    ssize_t got;
    int fd;

    assert_true(open_socket(false));
    fd = connect_client();
    for (int i = 0; i < LINES; i++)
        say(fd, "big\n");
    assert_in_range(scene.commands, 3, LINES - 1);
    do {
        run_loop();
        while ((got = recv(fd, bytes, sizeof(bytes), 0)) > 0) {
            all += (size_t)got;
            run_loop();
        }
    } while (scene.commands < LINES);
    run_loop();
    while ((got = recv(fd, bytes, sizeof(bytes), 0)) > 0) {
        all += (size_t)got;
        run_loop();
    }
    assert_int_equal(all, LINES * (BIG_REPLY - 1 + strlen(ECHO(""))));
    close(fd);
}

/* --- Too many clients --- */

static void fill(int *fds)
{
    for (int i = 0; i < CONTROL_CLIENTS_MAX; i++) {
        fds[i] = connect_client();
        say(fds[i], "a\n");
        expect_reply(fds[i], ECHO("a"));
    }
}

static void close_all(const int *fds)
{
    for (int i = 0; i < CONTROL_CLIENTS_MAX; i++)
        close(fds[i]);
}

static void expect_refusal(void)
{
    int fd = connect_client();

    run_loop();
    expect_reply(fd, "{\"ok\":false,\"error\":\"too many control clients\"}\n");
    expect_end(fd);
}

TEST(place_of_a_closed_client_is_free)
{
    int fds[CONTROL_CLIENTS_MAX];

    assert_true(open_socket(false));
    fill(fds);
    expect_refusal();
    close(fds[3]);
    run_loop();
    fds[3] = connect_client();
    say(fds[3], "a\n");
    expect_reply(fds[3], ECHO("a"));
    expect_refusal();
    close_all(fds);
}

/* One that waits for a reply is not silent. */
TEST(client_that_is_silent_for_longest_is_replaced)
{
    int fds[CONTROL_CLIENTS_MAX], fd;

    assert_true(open_socket(false));
    fill(fds);
    say(fds[0], "wait\n");
    scene.shift_ns = 2 * NS_PER_S;
    for (int i = 2; i < CONTROL_CLIENTS_MAX; i++) {
        say(fds[i], "a\n");
        expect_reply(fds[i], ECHO("a"));
    }
    scene.shift_ns = 4 * NS_PER_S;
    expect_refusal();
    scene.shift_ns = 8 * NS_PER_S; /* the reply may still come: see REPLY_LIMIT_S */
    fd = connect_client();
    say(fd, "b\n");
    expect_reply(fd, ECHO("b"));
    expect_end(fds[1]);
    expect_silence(fds[0]);
    expect_silence(fds[2]);
    fds[1] = fd;
    close_all(fds);
}

/* --- accept() --- */

TEST(shortage_pauses_accepting_for_a_second)
{
    int fd;

    assert_true(open_socket(false));
    scene.accept_error = EMFILE;
    fd = connect_client();
    say(fd, "a\n");
    assert_int_equal(scene.accepts, 1);
    expect_silence(fd);
    assert_non_null(scene.pause);
    event_active(scene.pause, EV_TIMEOUT, 1);
    run_loop();
    expect_reply(fd, ECHO("a"));
    close(fd);
}

TEST(lost_client_does_not_pause_accepting)
{
    static const int errors[] = {EAGAIN, EINTR, ECONNABORTED};

    assert_true(open_socket(false));
    for (size_t i = 0; i < ARRAY_LENGTH(errors); i++) {
        int fd;

        scene.accept_error = errors[i];
        fd = connect_client();
        say(fd, "a\n");
        expect_reply(fd, ECHO("a"));
        close(fd);
    }
}
