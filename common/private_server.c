#include "common/private_server.h"

#include "common/clock.h"
#include "common/control_client.h"
#include "common/instance.h"
#include "common/macros.h"
#include "common/private_server_guard.h"
#include "common/process.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    OPTIONS_MAX = 40,
    OWN_OPTIONS = 5,
    OPTION_TEXT = PRIVATE_SERVER_PATH + 32,
    POLL_MS = 10,
    START_MS = 30000,
    REPLY_MS = 30000,
    FINISH_MS = 1000, /* then requests in progress are cut */
    STOP_MS = 30000,  /* longer than any wait of the stop itself */
    GROUP_MS = 2000,
};

struct private_server {
    char program[PRIVATE_SERVER_PATH];
    char directory[PRIVATE_SERVER_PATH];
    char root[PRIVATE_SERVER_PATH], output[PRIVATE_SERVER_PATH], config[PRIVATE_SERVER_PATH];
    char socket[INSTANCE_PATH_MAX];
    char name[INSTANCE_NAME_MAX + 1];
    pid_t pid; /* the master leads its process group; 0: not running */
    uint16_t port;
    int core; /* negative: all */
    struct private_server_guard guard;
};

static void find_program(struct private_server *server, const char *program)
{
    if (program != NULL)
        snprintf(server->program, sizeof(server->program), "%s", program);
    else if (!process_find_beside("webserverd", server->program, sizeof(server->program)) &&
             !process_find_beside("../sbin/webserverd", server->program, sizeof(server->program)))
        snprintf(server->program, sizeof(server->program), "webserverd");
}

/* Workers of root run as another user, who reads it whatever the umask. */
static int make_public_directory(const char *path)
{
    return mkdir(path, 0755) == 0 ? chmod(path, 0755) : -1;
}

/* If the master is root, its workers run as another user, who needs search permission. */
static int make_directory(struct private_server *server)
{
    const char *base = getenv("TMPDIR");
    int length;

    snprintf(server->directory, sizeof(server->directory), "%s/webserverd-XXXXXX",
             base != NULL && strlen(base) < INSTANCE_PATH_MAX / 3 ? base : "/tmp");
    if (mkdtemp(server->directory) == NULL || chmod(server->directory, 0711) != 0)
        return -1;
    snprintf(server->name, sizeof(server->name), "private-%s", strrchr(server->directory, '-') + 1);
    length = snprintf(server->socket, sizeof(server->socket), "%s/%s.sock", server->directory,
                      server->name);
    snprintf(server->root, sizeof(server->root), "%.*s/www", PRIVATE_SERVER_PATH - 8,
             server->directory);
    snprintf(server->output, sizeof(server->output), "%.*s/output", PRIVATE_SERVER_PATH - 8,
             server->directory);
    snprintf(server->config, sizeof(server->config), "%.*s/webserver.ini", PRIVATE_SERVER_PATH - 16,
             server->directory);
    if (length >= (int)sizeof(server->socket)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return make_public_directory(server->root);
}

struct private_server *private_server_create(const char *program, char *why, size_t size)
{
    struct private_server *server = calloc(1, sizeof(*server));

    if (server == NULL) {
        snprintf(why, size, "out of memory");
        return NULL;
    }
    server->core = -1;
    find_program(server, program);
    if (make_directory(server) == 0 &&
        private_server_guard_start(&server->guard, server->directory, server->name) == 0)
        return server;
    snprintf(why, size, "cannot create the directory %s for a private webserverd: %s",
             server->directory, strerror(errno));
    private_server_destroy(server);
    return NULL;
}

int private_server_configure(const struct private_server *server, const char *text, char *why,
                             size_t size)
{
    char new_path[PRIVATE_SERVER_PATH + 8];
    FILE *file;
    bool good;

    snprintf(new_path, sizeof(new_path), "%s.new", server->config);
    file = fopen(new_path, "we");
    good = file != NULL && fputs(text, file) >= 0;
    if (file != NULL)
        good = fclose(file) == 0 && good;
    if (good && rename(new_path, server->config) == 0)
        return 0;
    return snprintf(why, size, "cannot write %s: %s", server->config, strerror(errno)), -1;
}

struct command_line {
    const char *word[2 * OPTIONS_MAX + 4];
    char own[OWN_OPTIONS][OPTION_TEXT];
    size_t count;
};

static void add_option(struct command_line *line, const char *option)
{
    line->word[line->count++] = "-o";
    line->word[line->count++] = option;
}

/* Returns false when there are too many options. */
static bool write_line(struct command_line *line, const struct private_server *server,
                       const char *const *options)
{
    size_t count = 0;

    line->count = 0;
    line->word[line->count++] = server->program;
    if (access(server->config, F_OK) == 0) {
        line->word[line->count++] = "-f";
        line->word[line->count++] = server->config;
    }
    snprintf(line->own[0], OPTION_TEXT, "server.name=%s", server->name);
    snprintf(line->own[1], OPTION_TEXT, "server.run_dir=%s", server->directory);
    snprintf(line->own[2], OPTION_TEXT, "server.root=%s", server->root);
    snprintf(line->own[3], OPTION_TEXT, "log.access=%.*s/access.log", PRIVATE_SERVER_PATH - 16,
             server->directory);
    snprintf(line->own[4], OPTION_TEXT, "server.listen=127.0.0.1:0");
    for (size_t i = 0; i < OWN_OPTIONS; i++)
        add_option(line, line->own[i]);
    for (; options != NULL && options[count] != NULL && count < OPTIONS_MAX - OWN_OPTIONS; count++)
        add_option(line, options[count]);
    line->word[line->count] = NULL;
    return options == NULL || options[count] == NULL;
}

int private_server_certify(const struct private_server *server, char *why, size_t size)
{
    const char *const words[] = {server->program, "-S", server->directory, NULL};
    const int fds[] = {STDIN_FILENO, -1, STDERR_FILENO};
    pid_t pid = process_fork();
    int status = -1;

    if (pid == 0)
        process_exec(words[0], words, fds, ARRAY_LENGTH(fds));
    if (pid > 0 && waitpid(pid, &status, 0) == pid && status == 0)
        return 0;
    return snprintf(why, size, "%s -S %s failed", server->program, server->directory), -1;
}

void private_server_use_core(struct private_server *server, int core)
{
    server->core = core;
}

static int launch(struct private_server *server, const struct command_line *line)
{
    int output = open(server->output, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
    const int fds[] = {-1, output, output};
    pid_t pid = output >= 0 ? process_fork() : -1;
    cpu_set_t cores;

    if (pid == 0) {
        setpgid(0, 0);
        private_server_guard_watch(&server->guard, getpid());
        CPU_ZERO(&cores);
        CPU_SET((size_t)(server->core >= 0 ? server->core : 0), &cores);
        if (server->core >= 0 && sched_setaffinity(0, sizeof(cores), &cores) != 0)
            dprintf(STDERR_FILENO, "cannot run on core %d: %s\n", server->core, strerror(errno));
        unsetenv("NOTIFY_SOCKET");
        process_exec(line->word[0], line->word, fds, ARRAY_LENGTH(fds));
    }
    if (pid > 0) {
        setpgid(pid, pid); /* also done in the child, because either process may run first */
        server->pid = pid;
    }
    if (output >= 0)
        close(output);
    return pid > 0 ? 0 : -1;
}

static json_int_t number_at(const json_t *status, const char *group, const char *key)
{
    return json_integer_value(json_object_get(json_object_get(status, group), key));
}

static bool all_serve(const json_t *status)
{
    const json_t *workers = json_object_get(json_object_get(status, "workers"), "list");
    const json_t *worker;
    size_t i;

    json_array_foreach(workers, i, worker)
    {
        const char *state = json_string_value(json_object_get(worker, "state"));

        if (state == NULL || strcmp(state, "serving") != 0)
            return false;
    }
    return json_array_size(workers) == (size_t)number_at(status, "workers", "wanted") &&
           number_at(status, "threads", "wanted") == number_at(status, "threads", "actual");
}

static bool answers_as_ready(struct private_server *server)
{
    char why[PRIVATE_SERVER_WHY];
    json_t *status = private_server_command(server, "status", why, sizeof(why));
    const char *address =
        json_string_value(json_array_get(json_object_get(status, "listening"), 0));
    const char *colon = address != NULL ? strrchr(address, ':') : NULL;

    server->port = colon != NULL && all_serve(status) ? (uint16_t)strtoul(colon + 1, NULL, 10) : 0;
    json_decref(status);
    return server->port != 0;
}

/* Writes the last line of the server's output into WHY. */
static void describe_failure(const struct private_server *server, char *why, size_t size)
{
    FILE *file = fopen(server->output, "re");
    char line[PRIVATE_SERVER_WHY], last[PRIVATE_SERVER_WHY] = "no output";

    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        if (line[strcspn(line, "\n")] == '\n' && line[0] != '\n')
            snprintf(last, sizeof(last), "%.*s", (int)strcspn(line, "\n"), line);
    if (file != NULL)
        fclose(file);
    snprintf(why, size, "%s did not start: %.350s", server->program, last);
}

static void pause_ms(long ms)
{
    const struct timespec time = {0, ms * (long)NS_PER_MS};

    nanosleep(&time, NULL);
}

static bool has_exited(struct private_server *server)
{
    if (server->pid != 0 && waitpid(server->pid, NULL, WNOHANG) == 0)
        return false;
    return true;
}

bool private_server_runs(struct private_server *server)
{
    return server->pid != 0 && !has_exited(server);
}

/* Waits for the processes of a dead master, which exit by themselves; kills those that hang. */
static void end_orphans(pid_t group)
{
    for (int waited = 0; waited < GROUP_MS; waited += POLL_MS) {
        if (kill(-group, 0) != 0)
            return;
        if (waited == GROUP_MS / 2)
            kill(-group, SIGKILL);
        pause_ms(POLL_MS);
    }
}

/* After the master exited: ends its process group and removes its segment if it still exists. */
static void clean_up(struct private_server *server)
{
    end_orphans(server->pid);
    server->pid = 0;
    server->port = 0;
    instance_remove_segments(server->name, false);
    private_server_guard_watch(&server->guard, 0);
}

int private_server_start(struct private_server *server, const char *const *options, char *why,
                         size_t size)
{
    uint64_t deadline_ns = clock_monotonic_ns() + START_MS * NS_PER_MS;
    struct command_line line;

    if (!write_line(&line, server, options))
        return snprintf(why, size, "more than %d options", OPTIONS_MAX - OWN_OPTIONS), -1;
    if (launch(server, &line) != 0)
        return snprintf(why, size, "cannot start a process: %s", strerror(errno)), -1;
    while (!answers_as_ready(server)) {
        bool exited = has_exited(server);

        if (exited || clock_monotonic_ns() > deadline_ns) {
            describe_failure(server, why, size);
            if (exited)
                clean_up(server);
            private_server_stop(server);
            return -1;
        }
        pause_ms(POLL_MS);
    }
    return 0;
}

static bool exits_within(struct private_server *server, int ms)
{
    for (int waited = 0; waited < ms; waited += POLL_MS) {
        if (has_exited(server))
            return true;
        pause_ms(POLL_MS);
    }
    return has_exited(server);
}

void private_server_stop(struct private_server *server)
{
    pid_t group = server->pid;

    if (group == 0)
        return;
    kill(group, SIGTERM);
    if (!exits_within(server, FINISH_MS))
        kill(group, SIGTERM); /* the second one stops at once */
    if (!exits_within(server, STOP_MS)) {
        kill(-group, SIGKILL);
        waitpid(group, NULL, 0);
    }
    clean_up(server);
}

void private_server_destroy(struct private_server *server)
{
    if (server == NULL)
        return;
    private_server_stop(server);
    if (server->directory[0] != '\0')
        private_server_remove(server->directory);
    private_server_guard_end(&server->guard);
    free(server);
}

const char *private_server_name(const struct private_server *server)
{
    return server->name;
}

const char *private_server_directory(const struct private_server *server)
{
    return server->directory;
}

const char *private_server_root(const struct private_server *server)
{
    return server->root;
}

const char *private_server_socket(const struct private_server *server)
{
    return server->socket;
}

uint16_t private_server_port(const struct private_server *server)
{
    return server->port;
}

pid_t private_server_pid(const struct private_server *server)
{
    return server->pid;
}

json_t *private_server_command(const struct private_server *server, const char *line, char *why,
                               size_t size)
{
    struct control_client client;
    const char *text, *error;
    json_t *reply = NULL;

    if (control_connect(&client, server->socket, why, size) != CONTROL_PENDING)
        return NULL;
    snprintf(why, size, "no reply to '%s' within %d s", line, REPLY_MS / 1000);
    if (control_send(&client, line, why, size) == CONTROL_PENDING &&
        control_receive(&client, REPLY_MS, &text, why, size) == CONTROL_REPLY) {
        reply = json_loads(text, 0, NULL);
        if (reply == NULL)
            snprintf(why, size, "the reply to '%s' is not JSON", line);
    }
    control_close(&client);
    if (reply == NULL || json_is_true(json_object_get(reply, "ok")))
        return reply;
    error = json_string_value(json_object_get(reply, "error"));
    snprintf(why, size, "'%s' failed: %s", line, error != NULL ? error : "no reason given");
    json_decref(reply);
    return NULL;
}

int private_server_put(const struct private_server *server, const char *path, const void *bytes,
                       size_t length, char *why, size_t size)
{
    char full[2 * PRIVATE_SERVER_PATH];
    FILE *file;
    bool good;

    if (snprintf(full, sizeof(full), "%s%s", server->root, path) >= (int)sizeof(full))
        return snprintf(why, size, "the path %.64s… is too long", path), -1;
    for (char *slash = strchr(full + strlen(server->root) + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        make_public_directory(full);
        *slash = '/';
    }
    file = fopen(full, "we");
    good =
        file != NULL && fchmod(fileno(file), 0644) == 0 && fwrite(bytes, 1, length, file) == length;
    if (file != NULL)
        good = fclose(file) == 0 && good;
    if (!good)
        snprintf(why, size, "cannot write %s: %s", full, strerror(errno));
    return good ? 0 : -1;
}
