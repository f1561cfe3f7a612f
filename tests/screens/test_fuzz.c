/*
 * Random input at a console that watches a real server: bytes, escape sequences, pasted text,
 * mouse, UTF-8, at random sizes. The console must not crash, must restore the screen, and must not
 * send a command that changes the server unless a question about it was on the screen and the input
 * agreed.
 *
 * The console talks to the server through a proxy of this program, which sees all commands. After
 * each key the test waits until the console has read it and sleeps, so the screen is what a user
 * would see before the next key.
 *
 * WSCONSOLE_SEED sets the seed, WSCONSOLE_FUZZ_S how many seconds it runs (else EVENTS inputs).
 */
#include "common/clock.h"
#include "common/control_client.h"
#include "common/macros.h"
#include "common/tables.h"
#include "patience.h"
#include "server.h"
#include "terminal.h"
#include "tests/test.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EVENTS = 1500, COMMANDS_KEPT = 64, AGREED_KEPT = 64, SCREEN_BYTES = 65536 };

static const struct {
    const char *name;
    int changes;
} commands[] = {
#define COMMAND(name, function, arguments, min, max, changes, help) {name, changes},
#include "common/commands.def"
#undef COMMAND
};

static const struct {
    const char *command, *question;
} questions[] = {
#define CONFIRM(command, when, by, question) {command, question},
#include "console/scene/confirmations.def"
#undef CONFIRM
};

static struct server *server;
static struct terminal *terminal;
static uint32_t random_state;

/* The proxy */

static struct {
    int listener;
    pthread_t thread;
    pthread_mutex_t lock;
    char line[COMMANDS_KEPT][128]; /* changing commands that nobody has checked yet */
    size_t count;
    size_t total;
} proxy = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool changes_server(const char *line)
{
    size_t length = strcspn(line, " ");
    int words = 0;

    for (const char *at = line; *at != '\0'; at++)
        words += *at == ' ';
    for (size_t i = 0; i < ARRAY_LENGTH(commands); i++)
        if (strlen(commands[i].name) == length && strncmp(commands[i].name, line, length) == 0)
            return words >= commands[i].changes;
    return true;
}

static void note_command(const char *line)
{
    if (!changes_server(line))
        return;
    pthread_mutex_lock(&proxy.lock);
    proxy.total++;
    if (proxy.count < COMMANDS_KEPT)
        snprintf(proxy.line[proxy.count++], sizeof(proxy.line[0]), "%s", line);
    pthread_mutex_unlock(&proxy.lock);
}

/* Reads a line of at most SIZE - 1 bytes without its newline. Returns false at the end. */
static bool read_line(int fd, char *line, size_t size)
{
    size_t length = 0;

    while (length < size - 1 && read(fd, line + length, 1) == 1) {
        if (line[length] == '\n') {
            line[length] = '\0';
            return true;
        }
        length++;
    }
    return false;
}

/* The server must outlive the test. */
static const char *answer_to(const char *line, struct control_client *client)
{
    static const char refused[] = "{\"ok\":false,\"error\":\"the test needs the server\"}";
    const char *answer = NULL;
    char why[256];

    if (strncmp(line, "stop", 4) == 0)
        return refused;
    if (control_connect(client, server_socket(server), why, sizeof(why)) != CONTROL_PENDING ||
        control_send(client, line, why, sizeof(why)) != CONTROL_PENDING ||
        control_receive(client, PATIENCE_S * 1000, &answer, why, sizeof(why)) != CONTROL_REPLY)
        return "{\"ok\":false,\"error\":\"the server does not answer\"}";
    return answer;
}

static void *run_proxy(void *unused)
{
    char line[CONTROL_LINE_MAX];
    int fd;

    (void)unused;
    while ((fd = accept(proxy.listener, NULL, NULL)) >= 0) {
        while (read_line(fd, line, sizeof(line))) {
            struct control_client client = {.fd = -1};
            const char *answer;

            note_command(line);
            answer = answer_to(line, &client);
            if (send(fd, answer, strlen(answer), MSG_NOSIGNAL) >= 0)
                send(fd, "\n", 1, MSG_NOSIGNAL);
            control_close(&client);
        }
        close(fd);
    }
    return NULL;
}

static const char *proxy_path(void)
{
    static char path[sizeof(((struct sockaddr_un *)NULL)->sun_path)];

    snprintf(path, sizeof(path), "%s/proxy", server_directory(server));
    return path;
}

static void start_proxy(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", proxy_path());
    proxy.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(proxy.listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(proxy.listener, 64), 0);
    assert_int_equal(pthread_create(&proxy.thread, NULL, run_proxy, NULL), 0);
}

static void end_proxy(void)
{
    shutdown(proxy.listener, SHUT_RDWR);
    pthread_join(proxy.thread, NULL);
    close(proxy.listener);
    unlink(proxy_path());
}

/* Questions */

/* The screens with a question to which the input agreed, each good for one command. */
static char agreed[AGREED_KEPT][SCREEN_BYTES];
static size_t agreements;

/* The screen as one line with single blanks: questions are broken at the width. */
static void copy_screen(char *to)
{
    const char *from = terminal_text(terminal);
    size_t used = 0;

    for (; *from != '\0' && used + 1 < SCREEN_BYTES; from++) {
        char c = isspace((unsigned char)*from) ? ' ' : *from;

        if (c != ' ' || (used > 0 && to[used - 1] != ' '))
            to[used++] = c;
    }
    to[used] = '\0';
}

static bool question_is_open(void)
{
    const char *text = terminal_text(terminal);

    return strstr(text, "y yes  n no") != NULL || strstr(text, "Enter yes  n no") != NULL;
}

/* A question is not agreed to before it shows its answers: waits for them. */
static void note_agreement(void)
{
    if (strstr(terminal_text(terminal), "  n no") != NULL && !question_is_open())
        terminal_shows(terminal, " yes  n no");
    if (question_is_open())
        copy_screen(agreed[agreements++ % AGREED_KEPT]);
}

/* Finds the newest agreement to LINE and uses it up. */
static bool use_agreement(const char *line)
{
    size_t length = strcspn(line, " ");

    for (size_t back = 1; back <= AGREED_KEPT && back <= agreements; back++) {
        char *screen = agreed[(agreements - back) % AGREED_KEPT];

        for (size_t i = 0; i < ARRAY_LENGTH(questions); i++) {
            char start[128];

            if (strlen(questions[i].command) != length ||
                strncmp(questions[i].command, line, length) != 0)
                continue;
            snprintf(start, sizeof(start), "%.*s", (int)strcspn(questions[i].question, "{"),
                     questions[i].question);
            if (strstr(screen, start) != NULL) {
                screen[0] = '\0';
                return true;
            }
        }
    }
    return false;
}

static void check_commands(void)
{
    char line[128] = "";

    pthread_mutex_lock(&proxy.lock);
    for (size_t i = 0; i < proxy.count && line[0] == '\0'; i++)
        if (!use_agreement(proxy.line[i]))
            snprintf(line, sizeof(line), "%s", proxy.line[i]);
    proxy.count = 0;
    pthread_mutex_unlock(&proxy.lock);
    if (line[0] != '\0')
        fail_msg("the console sent '%s', but no question about it was agreed to; the last:\n%s",
                 line, agreements > 0 ? agreed[(agreements - 1) % AGREED_KEPT] : "none");
}

/* Input */

/* A fixed seed makes a failure reproducible. */
static uint32_t dice(uint32_t sides)
{
    random_state = random_state * 1664525 + 1013904223;
    return (random_state >> 8) % sides;
}

static void start_console(void)
{
    const char *const arguments[] = {WSCONSOLE_ONE_SERVER, "-n", server_name(server), "-s",
                                     proxy_path(),         NULL};
    char only[64];
    const char *const environment[] = {
        only,
#ifndef TEST_SANITIZER /* which must be loaded first */
        /* The jobs of guided scenarios sleep; LD_PRELOAD is separated by blanks. */
        "LD_LIBRARY_PATH=" SLEEPING_WORK_PATH, "LD_PRELOAD=" SLEEPING_WORK,
#endif
        NULL};

    snprintf(only, sizeof(only), "ONLY_SERVER=%s", server_name(server));
    terminal = terminal_start(24, 80, arguments, environment);
    if (!terminal_shows(terminal, "[1 overview]"))
        fail_msg("the console does not start");
}

/* The console has ended: by a key, not by a crash. */
static void check_end(void)
{
    int status = terminal_wait_end(terminal);

    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("the console ended with wait status %x:\n%s", (unsigned)status,
                 terminal_text(terminal));
    assert_false(terminal_in_full_screen(terminal));
    assert_true(terminal_cursor_visible(terminal));
    assert_true(terminal_echoes(terminal));
    terminal_stop(terminal);
    terminal = NULL;
}

static void type(const char *bytes, size_t length)
{
    bool agrees = memchr("yY\r\n", bytes[0], 4) != NULL || memcmp(bytes, "\x1b[<", 3) == 0 ||
                  memcmp(bytes, "\x1b[M", 3) == 0;

    if (agrees)
        note_agreement();
    if (!terminal_type_bytes(terminal, bytes, length) || !terminal_settle(terminal)) {
        check_end();
        start_console();
    }
    check_commands();
}

static void type_byte(int byte)
{
    const char bytes[4] = {(char)byte};

    type(bytes, 1);
}

static void type_keys(void)
{
    static const char *const words[] = {"1",
                                        "2",
                                        "3",
                                        "4",
                                        "5",
                                        "6",
                                        "7",
                                        "8",
                                        "9",
                                        "\t",
                                        "+",
                                        "-",
                                        "w",
                                        "W",
                                        "o",
                                        "O",
                                        "d",
                                        "r",
                                        "x",
                                        "e",
                                        "n",
                                        "c",
                                        "m",
                                        "f",
                                        "y",
                                        "Y",
                                        "\r",
                                        "L",
                                        "I",
                                        "G",
                                        "a",
                                        "g",
                                        "s",
                                        "/",
                                        ":",
                                        "?",
                                        " ",
                                        "j",
                                        "k",
                                        "\x07",
                                        "\x15",
                                        ":stop\r",
                                        ":reload\r",
                                        ":threads 3\r",
                                        ":workers 1\r",
                                        "/status:4xx\r",
                                        ":drain 0\r",
                                        ":show path=/\r",
                                        ":cache-flush\r",
                                        ":view log\r",
                                        ":alert p99 > 1ms\r",
                                        "v",
                                        "t",
                                        "K",
                                        "0",
                                        "C",
                                        "N",
                                        "}",
                                        ">",
                                        "<",
                                        "S",
                                        "Y",
                                        ":columns\r",
                                        ":note x\r",
                                        ":model pool\r",
                                        ":queue drop-head 3\r",
                                        ":set theme mono\r"};

    for (const char *at = words[dice(ARRAY_LENGTH(words))]; *at != '\0'; at++)
        type_byte(*at);
}

static void type_sequence(void)
{
    static const char *const known[] = {"\x1bOA",    "\x1bOB",   "\x1bOC",   "\x1bOD", "\x1b[5~",
                                        "\x1b[6~",   "\x1b[H",   "\x1b[F",   "\x1b[Z", "\x1b[1~",
                                        "\x1b[1;5A", "\x1b[99~", "\x1b[15~", "\x1by",  "\x1bw"};
    char text[64];

    switch (dice(4)) {
    case 0:
        snprintf(text, sizeof(text), "%s", known[dice(ARRAY_LENGTH(known))]);
        break;
    case 1: /* any control sequence */
        snprintf(text, sizeof(text), "\x1b[%s%u;%u%c", dice(2) ? "?" : "", dice(300), dice(300),
                 (char)('@' + dice('~' - '@' + 1)));
        break;
    case 2: /* a string for the terminal */
        snprintf(text, sizeof(text), "\x1b]%u;ywWy\r:stop\r%s", dice(20),
                 dice(2) ? "\x07" : "\x1b\\");
        break;
    default: /* the mouse */
        snprintf(text, sizeof(text), "\x1b[<%u;%u;%u%c", dice(2) ? 0 : dice(80), 1 + dice(220),
                 1 + dice(60), dice(5) ? 'M' : 'm');
    }
    type(text, strlen(text));
}

static void type_paste(void)
{
    static const char *const pasted[] = {
        "hello-w", ":stop\ry", "y", "wy", "\r\r", "d y", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
        "\x1b[A",  "+\r"};
    char text[256] = "\x1b[200~";

    for (uint32_t i = dice(6); i > 0; i--)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s",
                 pasted[dice(ARRAY_LENGTH(pasted))]);
    snprintf(text + strlen(text), sizeof(text) - strlen(text), "\x1b[201~");
    type(text, strlen(text));
}

static void type_something(void)
{
    switch (dice(10)) {
    case 0:
    case 1:
        type_byte((int)dice(256));
        break;
    case 2:
        type("\xc3\xa9", 2);
        break;
    case 3:
        type_paste();
        break;
    case 4:
    case 5:
        type_sequence();
        break;
    default:
        type_keys();
    }
    if (dice(60) == 0) {
        terminal_resize(terminal, 1 + (int)dice(60), 1 + (int)dice(210));
        terminal_settle(terminal); /* else the screen is that of the old size */
    }
}

/* The test */

static int set_up(void **state)
{
    if (server_set_up(state) != 0)
        return -1;
    server = *state;
    server_put_text(server, "/index.html", "hello");
    server_write_config(server, "[workers]\nprocesses = 2\nthreads = 1\nmax_processes = 3\n"
                                "max_threads = 4\noffload_threads = 1-2\n");
    server_start(server, NULL);
    return 0;
}

static int tear_down(void **state)
{
    if (terminal != NULL)
        terminal_stop(terminal);
    terminal = NULL;
    return server_tear_down(state);
}

static bool continues(uint64_t until_ns, unsigned event)
{
    return until_ns != 0 ? clock_monotonic_ns() < until_ns : event < EVENTS;
}

TEST_WITH(random_input_sends_nothing_unconfirmed, set_up, tear_down)
{
    const char *seed = getenv("WSCONSOLE_SEED"), *time_s = getenv("WSCONSOLE_FUZZ_S");
    uint64_t until_ns =
        time_s != NULL ? clock_monotonic_ns() + strtoull(time_s, NULL, 10) * NS_PER_S : 0;
    unsigned event;

    random_state = seed != NULL ? (uint32_t)strtoul(seed, NULL, 10) : 20261123;
    print_message("seed %u\n", random_state);
    start_proxy();
    start_console();
    for (event = 0; continues(until_ns, event); event++)
        type_something();
    kill(terminal_pid(terminal), SIGTERM);
    check_end();
    check_commands();
    end_proxy();
    print_message("%u inputs, %zu questions agreed to, %zu commands\n", event, agreements,
                  proxy.total);
    assert_true(agreements > 0 && proxy.total > 0);
    server_stop(server);
}
