#include "common/private_server.h"

#include "common/clock.h"
#include "common/control_client.h"
#include "common/instance.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    OPTIONS_MAX = 40,
    OPTION_TEXT = PRIVATE_SERVER_PATH + 32,
    LOOK_MS = 10,
    START_MS = 15000,
    ANSWER_MS = 15000,
    IN_ORDER_MS = 5000,
    BY_FORCE_MS = 2000,
};

struct private_server {
    char program[PRIVATE_SERVER_PATH];
    char folder[PRIVATE_SERVER_PATH];
    char site[PRIVATE_SERVER_PATH], output[PRIVATE_SERVER_PATH], config[PRIVATE_SERVER_PATH];
    char socket[INSTANCE_PATH_MAX];
    char name[INSTANCE_NAME_MAX + 1];
    pid_t pid; /* of the master, and of its process group; 0: none runs */
    uint16_t port;
    int core; /* below 0: all */
};

/* Its place */

/* BESIDE is relative to the folder of this program. */
static bool find_beside(char *program, const char *beside)
{
    char self[PRIVATE_SERVER_PATH];
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    char *slash;

    if (length <= 0)
        return false;
    self[length] = '\0';
    slash = strrchr(self, '/');
    if (slash == NULL)
        return false;
    *slash = '\0';
    length = snprintf(program, PRIVATE_SERVER_PATH, "%s/%s", self, beside);
    return length < PRIVATE_SERVER_PATH && access(program, X_OK) == 0;
}

static void find_program(struct private_server *server, const char *program)
{
    if (program != NULL)
        snprintf(server->program, sizeof(server->program), "%s", program);
    else if (!find_beside(server->program, "webserverd") &&
             !find_beside(server->program, "../sbin/webserverd"))
        snprintf(server->program, sizeof(server->program), "webserverd");
}

/* Workers of a master that is root are someone else, who has to get through to the site. */
static int make_folder(struct private_server *server)
{
    const char *base = getenv("TMPDIR");
    int length;

    snprintf(server->folder, sizeof(server->folder), "%s/webserverd-XXXXXX",
             base != NULL && strlen(base) < INSTANCE_PATH_MAX / 3 ? base : "/tmp");
    if (mkdtemp(server->folder) == NULL || chmod(server->folder, 0711) != 0)
        return -1;
    snprintf(server->name, sizeof(server->name), "private-%s", strrchr(server->folder, '-') + 1);
    length = snprintf(server->socket, sizeof(server->socket), "%s/%s.sock", server->folder,
                      server->name);
    snprintf(server->site, sizeof(server->site), "%.*s/www", PRIVATE_SERVER_PATH - 8,
             server->folder);
    snprintf(server->output, sizeof(server->output), "%.*s/output", PRIVATE_SERVER_PATH - 8,
             server->folder);
    snprintf(server->config, sizeof(server->config), "%.*s/webserver.ini", PRIVATE_SERVER_PATH - 16,
             server->folder);
    if (length >= (int)sizeof(server->socket)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return mkdir(server->site, 0755);
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
    if (make_folder(server) == 0)
        return server;
    snprintf(why, size, "cannot make a folder for a private webserverd, %s: %s", server->folder,
             strerror(errno));
    private_server_destroy(server);
    return NULL;
}

int private_server_configure(const struct private_server *server, const char *text, char *why,
                             size_t size)
{
    char fresh[PRIVATE_SERVER_PATH + 8];
    FILE *file;
    bool good;

    snprintf(fresh, sizeof(fresh), "%s.new", server->config);
    file = fopen(fresh, "we");
    good = file != NULL && fputs(text, file) >= 0;
    if (file != NULL)
        good = fclose(file) == 0 && good;
    if (good && rename(fresh, server->config) == 0)
        return 0;
    return snprintf(why, size, "cannot write %s: %s", server->config, strerror(errno)), -1;
}

/* Starting */

struct command_line {
    const char *word[2 * OPTIONS_MAX + 4];
    char own[5][OPTION_TEXT];
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
    snprintf(line->own[1], OPTION_TEXT, "server.run_dir=%s", server->folder);
    snprintf(line->own[2], OPTION_TEXT, "server.root=%s", server->site);
    snprintf(line->own[3], OPTION_TEXT, "log.access=%.*s/access.log", PRIVATE_SERVER_PATH - 16,
             server->folder);
    snprintf(line->own[4], OPTION_TEXT, "server.listen=127.0.0.1:0");
    for (size_t i = 0; i < 5; i++)
        add_option(line, line->own[i]);
    add_option(line, "workers.drain_timeout=1s");
    for (; options != NULL && options[count] != NULL && count < OPTIONS_MAX - 6; count++)
        add_option(line, options[count]);
    line->word[line->count] = NULL;
    return options == NULL || options[count] == NULL;
}

void private_server_use_core(struct private_server *server, int core)
{
    server->core = core;
}

static void stay_on(int core)
{
    cpu_set_t cores;

    CPU_ZERO(&cores);
    CPU_SET((size_t)core, &cores);
    if (sched_setaffinity(0, sizeof(cores), &cores) != 0)
        dprintf(STDERR_FILENO, "cannot run on core %d: %s\n", core, strerror(errno));
}

/* In the child. */
static void become(const struct command_line *line, int core, int output, pid_t parent)
{
    char **words = (char **)(uintptr_t)line->word;
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0, 0);
    if (core >= 0)
        stay_on(core);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    unsetenv("NOTIFY_SOCKET");
    if (getppid() != parent)
        _exit(1);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    execvp(words[0], words);
    dprintf(STDERR_FILENO, "cannot run %s: %s\n", words[0], strerror(errno));
    _exit(127);
}

static int launch(struct private_server *server, const struct command_line *line)
{
    int output = open(server->output, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
    int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    pid_t parent = getpid(), pid = output >= 0 && in >= 0 ? fork() : -1;

    if (pid == 0) {
        dup2(in, STDIN_FILENO);
        become(line, server->core, output, parent);
    }
    if (pid > 0) {
        setpgid(pid, pid); /* whichever of the two comes first */
        server->pid = pid;
    }
    if (output >= 0)
        close(output);
    if (in >= 0)
        close(in);
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

static uint16_t port_in(const json_t *status)
{
    const char *address =
        json_string_value(json_array_get(json_object_get(status, "listening"), 0));
    const char *colon = address != NULL ? strrchr(address, ':') : NULL;

    return colon != NULL ? (uint16_t)strtoul(colon + 1, NULL, 10) : 0;
}

static bool serves(struct private_server *server)
{
    char why[PRIVATE_SERVER_WHY];
    json_t *status = private_server_command(server, "status", why, sizeof(why));

    server->port = status != NULL && all_serve(status) ? port_in(status) : 0;
    json_decref(status);
    return server->port != 0;
}

/* What it said last, or that it said nothing. */
static void tell_output(const struct private_server *server, char *why, size_t size)
{
    FILE *file = fopen(server->output, "re");
    char line[PRIVATE_SERVER_WHY], last[PRIVATE_SERVER_WHY] = "nothing";

    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        if (line[strcspn(line, "\n")] == '\n' && line[0] != '\n')
            snprintf(last, sizeof(last), "%.*s", (int)strcspn(line, "\n"), line);
    if (file != NULL)
        fclose(file);
    snprintf(why, size, "%s did not start; it said: %.350s", server->program, last);
}

static void pause_ms(long ms)
{
    const struct timespec time = {0, ms * (long)NS_PER_MS};

    nanosleep(&time, NULL);
}

static bool has_ended(struct private_server *server)
{
    if (server->pid != 0 && waitpid(server->pid, NULL, WNOHANG) == 0)
        return false;
    return true;
}

bool private_server_runs(struct private_server *server)
{
    return server->pid != 0 && !has_ended(server);
}

/* Those that a dead master leaves end by themselves; not those that are stuck. */
static void end_group(pid_t group)
{
    for (int waited = 0; waited < BY_FORCE_MS; waited += LOOK_MS) {
        if (kill(-group, 0) != 0)
            return;
        if (waited == BY_FORCE_MS / 2)
            kill(-group, SIGKILL);
        pause_ms(LOOK_MS);
    }
}

/* Behind the master's end, however it came: its group, and a segment that it could not remove. */
static void clean_up(struct private_server *server)
{
    char segment[sizeof(server->name) + 32];

    end_group(server->pid);
    server->pid = 0;
    server->port = 0;
    if (instance_segment_name(server->name, segment, sizeof(segment)) == 0)
        shm_unlink(segment);
}

int private_server_start(struct private_server *server, const char *const *options, char *why,
                         size_t size)
{
    uint64_t give_up_ns = clock_monotonic_ns() + START_MS * NS_PER_MS;
    struct command_line line;

    if (!write_line(&line, server, options))
        return snprintf(why, size, "more than %d options", OPTIONS_MAX - 6), -1;
    if (launch(server, &line) != 0)
        return snprintf(why, size, "cannot start a process: %s", strerror(errno)), -1;
    while (!serves(server)) {
        bool ended = has_ended(server);

        if (ended || clock_monotonic_ns() > give_up_ns) {
            tell_output(server, why, size);
            if (ended)
                clean_up(server);
            private_server_stop(server);
            return -1;
        }
        pause_ms(LOOK_MS);
    }
    return 0;
}

/* Ending */

static bool ends_within(struct private_server *server, int ms)
{
    for (int waited = 0; waited < ms; waited += LOOK_MS) {
        if (has_ended(server))
            return true;
        pause_ms(LOOK_MS);
    }
    return has_ended(server);
}

void private_server_stop(struct private_server *server)
{
    pid_t group = server->pid;

    if (group == 0)
        return;
    kill(group, SIGTERM);
    if (!ends_within(server, IN_ORDER_MS)) {
        kill(-group, SIGKILL);
        waitpid(group, NULL, 0);
    }
    clean_up(server);
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status;
    (void)type;
    (void)walk;
    remove(path);
    return 0;
}

void private_server_destroy(struct private_server *server)
{
    if (server == NULL)
        return;
    private_server_stop(server);
    if (server->folder[0] != '\0')
        nftw(server->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(server);
}

/* Using it */

const char *private_server_name(const struct private_server *server)
{
    return server->name;
}

const char *private_server_directory(const struct private_server *server)
{
    return server->folder;
}

const char *private_server_root(const struct private_server *server)
{
    return server->site;
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

static json_t *refused(json_t *answer, const char *line, char *why, size_t size)
{
    const char *error = json_string_value(json_object_get(answer, "error"));

    snprintf(why, size, "'%s' was refused: %s", line, error != NULL ? error : "no reason given");
    json_decref(answer);
    return NULL;
}

json_t *private_server_command(const struct private_server *server, const char *line, char *why,
                               size_t size)
{
    struct control_client client;
    const char *text;
    json_t *answer = NULL;

    if (control_connect(&client, server->socket, why, size) != CONTROL_PENDING)
        return NULL;
    snprintf(why, size, "no answer to '%s' within %d s", line, ANSWER_MS / 1000);
    if (control_send(&client, line, why, size) == CONTROL_PENDING &&
        control_receive(&client, ANSWER_MS, &text, why, size) == CONTROL_REPLY) {
        answer = json_loads(text, 0, NULL);
        if (answer == NULL)
            snprintf(why, size, "the answer to '%s' is no JSON", line);
    }
    control_close(&client);
    if (answer != NULL && !json_is_true(json_object_get(answer, "ok")))
        return refused(answer, line, why, size);
    return answer;
}

static void make_folders(char *path, size_t from)
{
    for (char *slash = strchr(path + from, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0755);
        *slash = '/';
    }
}

int private_server_put(const struct private_server *server, const char *path, const void *bytes,
                       size_t length, char *why, size_t size)
{
    char full[2 * PRIVATE_SERVER_PATH];
    FILE *file;
    bool good;

    if (snprintf(full, sizeof(full), "%s%s", server->site, path) >= (int)sizeof(full))
        return snprintf(why, size, "the path %.64s… is too long", path), -1;
    make_folders(full, strlen(server->site) + 1);
    file = fopen(full, "we");
    good = file != NULL && fwrite(bytes, 1, length, file) == length;
    if (file != NULL)
        good = fclose(file) == 0 && good;
    if (!good)
        snprintf(why, size, "cannot write %s: %s", full, strerror(errno));
    return good ? 0 : -1;
}
