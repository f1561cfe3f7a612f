/*
 * The control socket: every command of commands.def, its errors, and misbehaving clients.
 */
#include "http_client.h"
#include "patience.h"
#include "server.h"

#include "common/control_client.h"
#include "common/macros.h"
#include "common/tables.h"
#include "tests/test.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    LAST_WORD_MS = PATIENCE_S * 1000,
    PLACES = 64,         /* for clients, as in daemon/control/socket.h */
    RESERVED_PLACES = 2, /* of these, for root and the server's user */
    SILENT_S = 5,        /* a client that is silent for longer may lose its place */
};

static void open_client(const struct server *server, struct control_client *client)
{
    char why[256];

    if (control_connect(client, server_socket(server), why, sizeof(why)) != CONTROL_PENDING)
        fail_msg("%s", why);
}

static void say(struct control_client *client, const char *bytes, size_t length)
{
    assert_int_equal(send(client->fd, bytes, length, MSG_NOSIGNAL), length);
}

/* Receives the next line. It is valid until the next call. */
static json_t *hear(struct control_client *client)
{
    char why[256] = "no reply";
    const char *line;
    json_t *reply;

    client->length = 0;
    if (control_receive(client, LAST_WORD_MS, &line, why, sizeof(why)) != CONTROL_REPLY)
        fail_msg("%s", why);
    reply = json_loads(line, 0, NULL);
    assert_non_null(reply);
    return reply;
}

static void expect_ok(struct control_client *client, bool ok)
{
    json_t *reply = hear(client);

    assert_int_equal(json_is_true(json_object_get(reply, "ok")), ok);
    json_decref(reply);
}

static json_int_t integer_in(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    if (!json_is_integer(value))
        fail_msg("no number '%s' in the reply", key);
    return json_integer_value(value);
}

static const char *text_in(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    if (text == NULL)
        fail_msg("no text '%s' in the reply", key);
    return text;
}

/* --- The commands --- */

SERVER_TEST(ping_reports_name_and_version)
{
    json_t *reply;

    server_start(server, NULL);
    reply = server_control(server, "ping");
    assert_true(json_is_true(json_object_get(reply, "ok")));
    assert_string_equal(text_in(reply, "name"), server_name(server));
    assert_int_equal(integer_in(reply, "pid"), server_pid(server));
    json_decref(reply);
    server_stop(server);
}

SERVER_TEST(status_has_all_counters_and_processes)
{
    json_t *status;
    const json_t *metrics, *workers;

    server_start(server, "workers.processes=3", "workers.threads=2", NULL);
    status = server_control(server, "status");
    metrics = json_object_get(status, "metrics");
    for (size_t i = 0; i < METRIC_COUNT; i++)
        assert_true(integer_in(metrics, metric_table[i].name) >= 0);
    workers = json_object_get(status, "workers");
    assert_int_equal(integer_in(workers, "wanted"), 3);
    assert_int_equal(integer_in(workers, "actual"), 3);
    assert_int_equal(json_array_size(json_object_get(workers, "list")), 3);
    assert_int_equal(integer_in(json_object_get(status, "threads"), "actual"), 2);
    assert_string_equal(text_in(status, "dispatch"), "kernel");
    json_decref(status);
    server_stop(server);
}

/* A number of OBJECT of the reply to `status`. */
static double status_number(const struct server *server, const char *object, const char *name)
{
    json_t *status = server_control(server, "status");
    double value = json_number_value(json_object_get(json_object_get(status, object), name));

    json_decref(status);
    return value;
}

SERVER_TEST(status_counts_each_status_and_derives_figures)
{
    server_put_text(server, "/a", "a");
    server_start(server, NULL);
    for (int i = 0; i < 4; i++)
        http_expect(server_port(server), "/a", 200);
    http_expect(server_port(server), "/b", 404);
    http_expect(server_port(server), "/%zz", 400);
    server_expect_metric(server, "requests", 6);
    server_expect_metric(server, "responses_200", 4);
    server_expect_metric(server, "responses_404", 1);
    server_expect_metric(server, "responses_400", 1);
    assert_true(status_number(server, "figures", "responses_2xx") == 4);
    assert_true(status_number(server, "figures", "responses_4xx") == 2);
    assert_true(status_number(server, "figures", "errors") == 2);
    assert_true(status_number(server, "figures", "response_time_mean") ==
                (double)server_metric(server, "response_time") / 6);
    assert_true(status_number(server, "latency_ns", "p50") > 0);
    assert_true(status_number(server, "latency_ns", "max") >=
                status_number(server, "figures", "response_time_mean"));
    WAIT_UNTIL(status_number(server, "figures", "requests_per_core") > 0);
    server_stop(server);
}

SERVER_TEST(help_lists_every_command)
{
    json_t *all, *one;

    server_start(server, NULL);
    all = server_control(server, "help");
    assert_int_equal(json_array_size(json_object_get(all, "commands")), COMMAND_COUNT);
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        const json_t *entry = json_array_get(json_object_get(all, "commands"), i);

        assert_string_equal(text_in(entry, "name"), command_table[i].name);
        assert_string_equal(text_in(entry, "help"), command_table[i].help);
        one = server_control(server, "help %s", command_table[i].name);
        assert_int_equal(json_array_size(json_object_get(one, "commands")), 1);
        json_decref(one);
    }
    json_decref(all);
    server_rejects(server, "help nonsense", "unknown command 'nonsense'");
    server_stop(server);
}

/* The reply to a change follows when it is in force; later commands see the new number. */
SERVER_TEST(changes_are_in_force_at_the_reply)
{
    static const struct {
        const char *command;
        int number;
    } cases[] = {{"threads", 5}, {"threads", 1}, {"threads", 2}, {"workers", 4},
                 {"workers", 1}, {"workers", 2}, {"threads", 2}};

    server_put_text(server, "/a", "a");
    server_start(server, NULL);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        json_t *reply = server_control(server, "%s %d", cases[i].command, cases[i].number);
        pid_t pids[16];

        assert_int_equal(integer_in(reply, "wanted"), cases[i].number);
        assert_int_equal(integer_in(reply, "actual"), cases[i].number);
        json_decref(reply);
        reply = server_control(server, "%s", cases[i].command);
        assert_int_equal(integer_in(reply, "actual"), cases[i].number);
        json_decref(reply);
        if (strcmp(cases[i].command, "workers") == 0)
            assert_int_equal(server_workers(server, pids, 16), cases[i].number);
        http_expect(server_port(server), "/a", 200);
    }
    server_stop(server);
}

SERVER_TEST(offload_threads_takes_number_or_range)
{
    static const struct {
        const char *range;
        int least, most; /* total of all workers */
    } cases[] = {{"3", 6, 6}, {"2-5", 4, 10}, {"1", 2, 2}, {"64", 128, 128}, {"1-1", 2, 2}};

    server_start(server, "workers.processes=2", NULL);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        json_t *reply = server_control(server, "offload-threads %s", cases[i].range);

        assert_true(json_is_true(json_object_get(reply, "ok")));
        assert_in_range(integer_in(reply, "actual"), cases[i].least, cases[i].most);
        json_decref(reply);
    }
    server_stop(server);
}

SERVER_TEST(log_level_is_shown_and_set)
{
    static const char *const levels[] = {"debug", "warn", "error", "info"};
    json_t *reply;

    server_start(server, NULL);
    for (size_t i = 0; i < ARRAY_LENGTH(levels); i++) {
        server_do(server, "log-level %s", levels[i]);
        reply = server_control(server, "log-level");
        assert_string_equal(text_in(reply, "level"), levels[i]);
        json_decref(reply);
    }
    server_stop(server);
}

SERVER_TEST(invalid_commands_get_an_error)
{
    static const struct {
        const char *line, *words;
    } cases[] = {
        {"pong", "unknown command 'pong', did you mean 'ping'?"},
        {"PING", "unknown command 'PING'"},
        {"ping now", "usage: ping"},
        {"threads 1 2", "usage: threads [N]"},
        {"threads 0", "invalid number of serving threads '0'"},
        {"threads -1", "invalid number of serving threads '-1'"},
        {"threads many", "invalid number of serving threads 'many'"},
        {"threads 99999999999999999999", "invalid number"},
        {"threads 65", "invalid number of serving threads '65' (valid: 1-64)"},
        {"workers 0", "invalid number of workers '0'"},
        {"workers 9", "invalid number of workers '9' (valid: 1-8)"},
        {"offload-threads 0", "invalid number of offload threads '0' (valid: N or MIN-MAX, 1-64)"},
        {"offload-threads 5-2", "invalid number of offload threads '5-2'"},
        {"offload-threads 1-65", "invalid number of offload threads '1-65'"},
        {"offload-threads 2-", "invalid number of offload threads '2-'"},
        {"offload-threads -2", "invalid number of offload threads '-2'"},
        {"offload-threads 0-1", "invalid number of offload threads '0-1'"},
        {"offload-threads 65", "invalid number of offload threads '65'"},
        {"offload-threads 8-x", "invalid number of offload threads '8-x'"},
        {"log-level loud", "invalid level 'loud'"},
        {"config servr", "unknown section or key 'servr'"},
        {"config tls.certificat",
         "unknown section or key 'tls.certificat', did you mean 'tls.certificate'?"},
        {"balance maybe", "invalid word 'maybe' (valid: on, off)"},
        {"limit-client 10.0.0.1 off 5m", "'off' takes no time"},
        {"cache-policy fifo", "invalid cache policy 'fifo' (valid: sieve, lru)"},
        {"cache-size much", "'much' is not a size; examples: 4096"},
        {"cache-purge index.html", "invalid path 'index.html': it must begin with '/'"},
        {"a b c d e f g h i j k l m n o p q r s t", "unknown command 'a'"},
        {"status {\"x\":1}", "usage: status"},
    };

    server_start(server, "workers.max_processes=8", "workers.max_threads=64", NULL);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
        server_rejects(server, cases[i].line, cases[i].words);
    server_do(server, "ping");
    server_stop(server);
}

SERVER_TEST(stop_stops_the_server)
{
    server_start(server, NULL);
    server_do(server, "stop");
    server_stopped(server);
}

/* --- The socket --- */

SERVER_TEST(socket_is_owner_only_by_default)
{
    static const struct {
        const char *option;
        mode_t mode;
    } cases[] = {{"control.mode=0600", 0600}, {"control.mode=0660", 0660}};
    struct stat status;

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        server_start(server, cases[i].option, NULL);
        assert_int_equal(stat(server_socket(server), &status), 0);
        assert_int_equal(status.st_mode & 0777, cases[i].mode);
        server_stop(server);
    }
}

SERVER_TEST(early_disconnects_are_harmless)
{
    static const char *const words[] = {"", "pin", "status\n", "threads 4\n", "workers 3\n"};

    server_start(server, NULL);
    for (size_t i = 0; i < ARRAY_LENGTH(words); i++) {
        struct control_client client;

        open_client(server, &client);
        say(&client, words[i], strlen(words[i]));
        control_close(&client);
    }
    server_do(server, "ping");
    server_do(server, "workers 2");
    server_stop(server);
}

/* 60 bytes before a character that the error message cuts. */
SERVER_TEST(long_word_in_an_error_is_cut)
{
    server_start(server, NULL);
    server_rejects(
        server, "threads xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\xc3\xa4",
        "invalid number of serving threads 'xxxxxxxxxx");
    server_stop(server);
}

/* A client that is silent for long is closed for another one: a test that was stopped begins again. */
static bool was_stopped(uint64_t since_ns)
{
    return clock_monotonic_ns() - since_ns >= SILENT_S * NS_PER_S;
}

/* A child of another user takes all places that it gets, tells their number and waits. */
static pid_t occupy(const struct server *server, int *to_child, unsigned *places)
{
    enum { OTHER_USER = 65534 };
    int ready[2], stay[2];
    pid_t pid;

    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(stay), 0);
    pid = fork();
    if (pid == 0) {
        static struct sockaddr_un address = {.sun_family = AF_UNIX};
        unsigned count = 0;
        char byte[64];

        close(ready[0]);
        close(stay[1]);
        snprintf(address.sun_path, sizeof(address.sun_path), "%s", server_socket(server));
        if (setresuid(OTHER_USER, OTHER_USER, OTHER_USER) != 0)
            _exit(1);
        for (;;) {
            int fd = socket(AF_UNIX, SOCK_STREAM, 0);

            if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
                _exit(2);
            if (send(fd, "ping\n", 5, MSG_NOSIGNAL) != 5 || read(fd, byte, sizeof(byte)) < 11 ||
                memcmp(byte, "{\"ok\":true", 10) != 0)
                break;
            count++;
        }
        if (write(ready[1], &count, sizeof(count)) < 0 || read(stay[0], byte, 1) < 0)
            _exit(3);
        _exit(0);
    }
    close(ready[1]);
    close(stay[0]);
    if (read(ready[0], places, sizeof(*places)) != sizeof(*places))
        fail_msg("the other user cannot connect");
    close(ready[0]);
    *to_child = stay[1];
    return pid;
}

/* Ends the child of occupy(). */
static void leave(pid_t child, int to_child)
{
    int status;

    close(to_child);
    assert_int_equal(waitpid(child, &status, 0), child);
}

/* Other users may enter the two directories above PATH. */
static void open_directories_of(const char *path)
{
    char directory[256];

    snprintf(directory, sizeof(directory), "%s", path);
    for (int i = 0; i < 2; i++) {
        *strrchr(directory, '/') = '\0';
        assert_int_equal(chmod(directory, 0755), 0);
    }
}

SERVER_TEST(other_users_cannot_take_all_places)
{
    unsigned places = 0;
    int to_child;
    uint64_t begun_ns;
    pid_t child;

    if (geteuid() != 0)
        skip();
    server_start(server, "control.mode=0666", NULL);
    open_directories_of(server_socket(server));
    begun_ns = clock_monotonic_ns();
    child = occupy(server, &to_child, &places);
    while (places != PLACES - RESERVED_PLACES) {
        assert_true(was_stopped(begun_ns));
        leave(child, to_child);
        begun_ns = clock_monotonic_ns();
        child = occupy(server, &to_child, &places);
    }
    server_do(server, "ping");
    server_do(server, "threads 2");
    leave(child, to_child);
    server_stop(server);
}

/* All send half a line and wait. The first ones get a reply when they complete it. */
SERVER_TEST(each_of_a_thousand_clients_gets_an_answer)
{
    enum { CLIENTS = 1000 };
    struct control_client *client = calloc(CLIENTS, sizeof(*client));
    unsigned replied = 0, refused = 0, closed = 0;

    assert_non_null(client);
    server_start(server, NULL);
    for (int i = 0; i < CLIENTS; i++) {
        open_client(server, &client[i]);
        send(client[i].fd, "pin", 3, MSG_NOSIGNAL); /* may be closed already */
    }
    for (int i = 0; i < CLIENTS; i++) {
        char why[256];
        const char *line;

        send(client[i].fd, "g\n", 2, MSG_NOSIGNAL);
        if (control_receive(&client[i], LAST_WORD_MS, &line, why, sizeof(why)) != CONTROL_REPLY)
            closed++;
        else if (strstr(line, "\"ok\":true") != NULL)
            replied++;
        else if (strstr(line, "too many control clients") != NULL)
            refused++;
        control_close(&client[i]);
    }
    /* The server closes clients that are silent too long when others come. */
    assert_int_equal(replied + refused + closed, CLIENTS);
    assert_true(replied > 0);
    server_do(server, "ping");
    server_stop(server);
    free(client);
}

/* Its replies queue up to a limit. Then the server closes it; other clients are not affected. */
SERVER_TEST(client_that_never_reads_blocks_nobody)
{
    struct control_client client;
    bool open = true;

    server_start(server, NULL);
    open_client(server, &client);
    while (open) {
        struct pollfd wait = {.fd = client.fd, .events = POLLOUT};

        open = send(client.fd, "status\n", 7, MSG_NOSIGNAL) == 7 || errno == EAGAIN;
        if (open && errno == EAGAIN && poll(&wait, 1, ASK_AGAIN_MS) == 0)
            break; /* the server stopped reading, which is also a limit */
    }
    for (int i = 0; i < 20; i++)
        server_do(server, "ping");
    control_close(&client);
    server_do(server, "threads 3");
    server_stop(server);
}

SERVER_TEST(same_change_by_two_clients_gets_two_replies)
{
    struct control_client first, second;
    json_t *reply;

    server_start(server, NULL);
    open_client(server, &first);
    open_client(server, &second);
    say(&first, "threads 6\n", 10);
    say(&second, "threads 3\n", 10);
    expect_ok(&first, true);
    expect_ok(&second, true);
    control_close(&first);
    control_close(&second);
    reply = server_control(server, "threads");
    assert_int_equal(integer_in(reply, "actual"), integer_in(reply, "wanted"));
    json_decref(reply);
    server_stop(server);
}
