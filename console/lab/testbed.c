#include "console/lab/testbed.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/private_server.h"
#include "common/process.h"
#include "common/segment_reader.h"
#include "console/data/child.h"

#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    WORDS_MAX = 32,
    LOAD_TEXT = 1024,
    URL_BYTES = 64,
    STALLED_MAX = 100,
    LOCKS_MS = 10000, /* to start or to end */
    POLL_MS = 10,
};

#define RECONNECT_NS (NS_PER_S / 4)

/* A wsload, or examples/locks. */
struct load {
    struct child child;
    bool wanted;
    uint64_t failed_requests; /* counted by the running wsload */
    uint64_t failed_before;   /* counted by earlier ones */
    char message[256];        /* the last line that is not progress */
};

/*
 * Clients that send half a request head and then nothing. A client whose connection the server
 * closes connects again. Their address is 127.0.0.2, which distinguishes them from other clients.
 */
struct stalled_clients {
    int count;            /* wanted */
    uint64_t next_ns;     /* time of the next check; monotonic clock */
    int fds[STALLED_MAX]; /* -1: to be connected */
};

struct testbed {
    const struct lab_scenario *scenario;
    struct private_server *server;
    struct load load[LAB_LOADS], locks;
    struct stalled_clients stalled;
};

/* Files */

static int make_files(const struct testbed *testbed, const struct lab_files *files, char *why,
                      size_t size)
{
    char *bytes = malloc(files->bytes);
    int failed = bytes == NULL ? -1 : 0;
    char path[64];

    if (bytes == NULL)
        snprintf(why, size, "out of memory");
    for (unsigned i = 0; i < files->count && failed == 0; i++) {
        memset(bytes, 'a' + (int)(i % 26), files->bytes);
        snprintf(path, sizeof(path), "/%s/%u.bin", files->list, i);
        failed = private_server_put(testbed->server, path, bytes, files->bytes, why, size);
    }
    free(bytes);
    return failed;
}

static int make_site(const struct testbed *testbed, char *why, size_t size)
{
    static const char page[] = "<!doctype html><title>A page</title><p>A page of the stage.</p>\n";

    for (size_t i = 0; i < LAB_FILES; i++)
        if (testbed->scenario->files[i].list != NULL &&
            make_files(testbed, &testbed->scenario->files[i], why, size) != 0)
            return -1;
    return private_server_put(testbed->server, "/index.html", page, sizeof(page) - 1, why, size);
}

/* Called after the server has started, because the lists contain its port. */
static int make_lists(const struct testbed *testbed, char *why, size_t size)
{
    for (size_t i = 0; i < LAB_FILES; i++) {
        const struct lab_files *files = &testbed->scenario->files[i];
        char path[PRIVATE_SERVER_PATH + 64];
        FILE *list;

        if (files->list == NULL)
            continue;
        snprintf(path, sizeof(path), "%s/%s.urls", private_server_directory(testbed->server),
                 files->list);
        list = fopen(path, "we");
        for (unsigned j = 0; list != NULL && j < files->count; j++)
            fprintf(list, "http://127.0.0.1:%u/%s/%u.bin\n", private_server_port(testbed->server),
                    files->list, j);
        if (list == NULL || fclose(list) != 0) {
            snprintf(why, size, "cannot write %s: %s", path, strerror(errno));
            return -1;
        }
    }
    return 0;
}

/*
 * The access log, if the scenario has an action LAB_RESTORE_LOG: the file "full" of this directory.
 */
static void log_directory(const struct testbed *testbed, char *path, size_t size)
{
    snprintf(path, size, "%s/log", private_server_directory(testbed->server));
}

static bool fills_log(const struct testbed *testbed)
{
    bool found = false;

    for (size_t i = 0; i < LAB_STEPS; i++)
        for (size_t j = 0; j < LAB_ACTIONS; j++)
            found = found || testbed->scenario->steps[i].first[j].act == LAB_RESTORE_LOG ||
                    testbed->scenario->steps[i].then[j].act == LAB_RESTORE_LOG;
    return found;
}

/* Makes the directory of the access log a link to TARGET; in /dev the log is a full disk. */
static int link_log(const struct testbed *testbed, const char *target, char *why, size_t size)
{
    char path[PRIVATE_SERVER_PATH + 32];

    log_directory(testbed, path, sizeof(path));
    unlink(path);
    if (symlink(target, path) == 0)
        return 0;
    return snprintf(why, size, "cannot make %s: %s", path, strerror(errno)), -1;
}

static int start_server(const struct testbed *testbed, char *why, size_t size)
{
    char directory[PRIVATE_SERVER_PATH + 32], option[sizeof(directory) + 32];
    const char *const log_option[] = {option, NULL};

    if (!fills_log(testbed))
        return private_server_start(testbed->server, testbed->scenario->settings, why, size);
    log_directory(testbed, directory, sizeof(directory));
    snprintf(option, sizeof(option), "log.access=%s/full", directory);
    return link_log(testbed, "/dev", why, size) == 0
               ? private_server_start(testbed->server, log_option, why, size)
               : -1;
}

/* Load */

/* Replaces @URL@ and @DIRECTORY@ in WORDS. */
static void expand_words(const struct testbed *testbed, const char *words, char *text, size_t size)
{
    char url[URL_BYTES];
    const struct {
        const char *mark, *name;
    } names[] = {{"@URL@", url}, {"@DIRECTORY@", private_server_directory(testbed->server)}};
    size_t used = 0;

    snprintf(url, sizeof(url), "http://127.0.0.1:%u", private_server_port(testbed->server));
    while (*words != '\0' && used + 1 < size) {
        size_t i = 0;

        while (i < ARRAY_LENGTH(names) && strncmp(words, names[i].mark, strlen(names[i].mark)) != 0)
            i++;
        if (i == ARRAY_LENGTH(names)) {
            text[used++] = *words++;
            continue;
        }
        used += (size_t)snprintf(text + used, size - used, "%s", names[i].name);
        words += strlen(names[i].mark);
    }
    text[used < size ? used : size - 1] = '\0';
}

/* Appends the words of TEXT, which it splits, to the COUNT words of ARGV. */
static void append_words(const char *argv[WORDS_MAX + 1], size_t count, char *text)
{
    char *rest = NULL;

    for (char *word = strtok_r(text, " ", &rest); word != NULL && count < WORDS_MAX;
         word = strtok_r(NULL, " ", &rest))
        argv[count++] = word;
}

static int start_load(struct testbed *testbed, int number, char *why, size_t size)
{
    struct load *load = &testbed->load[number];
    const char *argv[WORDS_MAX + 1] = {"wsload",       "--progress", "--quiet",      "--json",
                                       "-t",           "1",          "--control-fd", "3",
                                       "--max-errors", "100%",       "-d",           "24h"};
    char text[LOAD_TEXT];

    expand_words(testbed, testbed->scenario->loads[number], text, sizeof(text));
    append_words(argv, 12, text);
    load->failed_before += load->failed_requests;
    load->failed_requests = 0;
    load->message[0] = '\0';
    load->wanted = child_start(&load->child, argv, why, size) == 0;
    return load->wanted ? 0 : -1;
}

static void take_load_line(void *context, const char *line)
{
    struct load *load = context;
    json_t *object = json_loads(line, 0, NULL);
    const json_t *failed = json_object_get(object, "failed");

    if (json_is_number(failed))
        load->failed_requests = (uint64_t)json_number_value(failed);
    else if (object == NULL && line[0] != '\0')
        snprintf(load->message, sizeof(load->message), "%s", line);
    json_decref(object);
}

/* examples/locks */

static bool locks_ended(struct load *locks)
{
    int status;

    return locks->child.pid == 0 || child_update(&locks->child, take_load_line, locks, &status);
}

static bool takes_commands(const char *name, char *why, size_t size)
{
    struct segment_reader reader;
    bool takes;

    if (segment_attach(&reader, name, why, size) != SEGMENT_ATTACHED)
        return false;
    takes = reader.map.header.socket_path[0] != '\0';
    segment_detach(&reader);
    return takes;
}

/* Waits until its board is there, and it takes commands. */
static int start_locks(struct testbed *testbed, char *why, size_t size)
{
    struct load *locks = &testbed->locks;
    const char *name = private_server_name(testbed->server);
    const char *argv[WORDS_MAX + 1] = {"example_locks", "-t", "86400", "-n", name};
    char text[LOAD_TEXT], path[PRIVATE_SERVER_PATH];

    if (!process_find_beside(argv[0], path, sizeof(path)))
        argv[0] = "../libexec/webserverd/example_locks";
    snprintf(text, sizeof(text), "%s", testbed->scenario->locks);
    append_words(argv, 5, text);
    if (child_start(&locks->child, argv, why, size) != 0)
        return -1;
    locks->wanted = true;
    for (int waited = 0; waited < LOCKS_MS && !locks_ended(locks); waited += POLL_MS) {
        if (takes_commands(name, why, size))
            return 0;
        usleep(POLL_MS * 1000);
    }
    snprintf(why, size, "example_locks did not start: %s",
             locks->message[0] != '\0' ? locks->message : "no board");
    return -1;
}

/* It removes its board. */
static void stop_locks(struct load *locks)
{
    child_stop(&locks->child);
    for (int waited = 0; waited < LOCKS_MS && !locks_ended(locks); waited += POLL_MS)
        usleep(POLL_MS * 1000);
    child_release(&locks->child);
}

/* Stalled clients */

static const char half[] = "GET / HTTP/1.1\r\nHost: stage\r\nX-Sent: half";

static void set_stalled_clients(struct stalled_clients *clients, int count)
{
    for (int i = 0; i < clients->count; i++)
        if (clients->fds[i] >= 0)
            close(clients->fds[i]);
    clients->count = count < STALLED_MAX ? count : STALLED_MAX;
    for (int i = 0; i < clients->count; i++)
        clients->fds[i] = -1;
    clients->next_ns = 0;
}

/* Returns a descriptor, or -1. On the loopback a connection is established at once, unless the
 * server rejects it. */
static int connect_stalled(uint16_t port)
{
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000002)};
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    if (bind(fd, (struct sockaddr *)&from, sizeof(from)) == 0 &&
        (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0 || errno == EINPROGRESS) &&
        send(fd, half, sizeof(half) - 1, MSG_NOSIGNAL) == (ssize_t)sizeof(half) - 1)
        return fd;
    close(fd);
    return -1;
}

static bool is_closed(int fd)
{
    char said[512];
    ssize_t length;

    do
        length = recv(fd, said, sizeof(said), 0);
    while (length > 0);
    return length == 0 || errno != EAGAIN;
}

static void update_stalled_clients(struct stalled_clients *clients, uint16_t port, uint64_t now_ns)
{
    if (now_ns < clients->next_ns)
        return;
    clients->next_ns = now_ns + RECONNECT_NS;
    for (int i = 0; i < clients->count; i++) {
        if (clients->fds[i] >= 0 && is_closed(clients->fds[i])) {
            close(clients->fds[i]);
            clients->fds[i] = -1;
        }
        if (clients->fds[i] < 0)
            clients->fds[i] = connect_stalled(port);
    }
}

/* Actions */

int testbed_execute(struct testbed *testbed, const struct lab_action *action, pid_t worker,
                    char *why, size_t size)
{
    json_t *answer;

    switch (action->act) {
    case LAB_NOTHING:
        break;
    case LAB_START:
        return start_load(testbed, action->number, why, size);
    case LAB_STOP:
        testbed->load[action->number].wanted = false;
        child_release(&testbed->load[action->number].child);
        break;
    case LAB_CHANGE_LOAD:
        child_send(&testbed->load[action->number].child, action->text);
        break;
    case LAB_STALL:
        set_stalled_clients(&testbed->stalled, action->number);
        break;
    case LAB_KILL:
        if (worker > 0 && getpgid(worker) == private_server_pid(testbed->server) &&
            kill(worker, SIGKILL) == 0)
            break;
        snprintf(why, size, "no worker to kill");
        return -1;
    case LAB_CONFIGURE:
        return private_server_configure(testbed->server, action->text, why, size);
    case LAB_COMMAND:
        answer = private_server_command(testbed->server, action->text, why, size);
        if (answer == NULL)
            return -1;
        json_decref(answer);
        break;
    case LAB_RESTORE_LOG:
        return link_log(testbed, private_server_directory(testbed->server), why, size);
    }
    return 0;
}

/* Start and end */

static int set_up_testbed(struct testbed *testbed, char *why, size_t size)
{
    const struct lab_scenario *scenario = testbed->scenario;

    testbed->server = private_server_create(NULL, why, size);
    if (testbed->server != NULL && scenario->locks != NULL)
        return start_locks(testbed, why, size);
    if (testbed->server == NULL || make_site(testbed, why, size) != 0 ||
        private_server_configure(testbed->server, scenario->config, why, size) != 0 ||
        start_server(testbed, why, size) != 0 || make_lists(testbed, why, size) != 0)
        return -1;
    for (size_t i = 0; i < LAB_ACTIONS; i++)
        if (testbed_execute(testbed, &scenario->begin[i], 0, why, size) != 0)
            return -1;
    return 0;
}

struct testbed *testbed_open(const struct lab_scenario *scenario, char *why, size_t size)
{
    struct testbed *testbed = calloc(1, sizeof(*testbed));

    if (testbed == NULL) {
        snprintf(why, size, "out of memory");
        return NULL;
    }
    testbed->scenario = scenario;
    for (size_t i = 0; i < LAB_LOADS; i++)
        child_init(&testbed->load[i].child);
    child_init(&testbed->locks.child);
    if (set_up_testbed(testbed, why, size) == 0)
        return testbed;
    testbed_close(testbed);
    return NULL;
}

void testbed_close(struct testbed *testbed)
{
    if (testbed == NULL)
        return;
    for (size_t i = 0; i < LAB_LOADS; i++)
        child_release(&testbed->load[i].child);
    stop_locks(&testbed->locks);
    set_stalled_clients(&testbed->stalled, 0);
    private_server_destroy(testbed->server);
    free(testbed);
}

const char *testbed_instance(const struct testbed *testbed, const char **socket)
{
    *socket = testbed->scenario->locks == NULL ? private_server_socket(testbed->server) : NULL;
    return private_server_name(testbed->server);
}

void testbed_update(struct testbed *testbed, uint64_t now_ns)
{
    int status;

    for (size_t i = 0; i < LAB_LOADS; i++)
        child_update(&testbed->load[i].child, take_load_line, &testbed->load[i], &status);
    locks_ended(&testbed->locks);
    if (!private_server_runs(testbed->server))
        return;
    update_stalled_clients(&testbed->stalled, private_server_port(testbed->server), now_ns);
}

uint64_t testbed_failed_requests(const struct testbed *testbed)
{
    uint64_t failed = 0;

    for (size_t i = 0; i < LAB_LOADS; i++)
        failed += testbed->load[i].failed_before + testbed->load[i].failed_requests;
    return failed;
}

const char *testbed_error(const struct testbed *testbed)
{
    for (size_t i = 0; i < LAB_LOADS; i++)
        if (testbed->load[i].wanted && testbed->load[i].child.pid == 0)
            return testbed->load[i].message[0] != '\0' ? testbed->load[i].message : "wsload exited";
    if (testbed->locks.wanted && testbed->locks.child.pid == 0)
        return testbed->locks.message[0] != '\0' ? testbed->locks.message : "locks exited";
    return NULL;
}
