#include "loadgen/run/server.h"

#include "common/clock.h"
#include "common/control_client.h"
#include "common/macros.h"
#include "common/segment_reader.h"

#include "loadgen/base/interrupts.h"
#include "loadgen/base/resources.h"
#include "loadgen/plan/request_plan.h"

#include <dirent.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    CHECK_TIMEOUT_MS = 5000, /* a server thread may get no CPU for a while after its response */
    CHECK_STEP_MS = 10,
    CONTROL_TIMEOUT_MS = 60000,
    CONTROL_STEP_MS = 50,
};

/* ---- Finding the server ---- */

/* Removes the scheme from ADDRESS. Returns whether it is that of TARGET; without one it is http. */
static bool take_scheme(const char **address, const struct target *target)
{
    bool tls = strncmp(*address, "https://", 8) == 0;

    *address += tls ? 8 : strncmp(*address, "http://", 7) == 0 ? 7 : 0;
    return tls == target->tls;
}

/* Whether connections to TARGET reach a server that listens on ADDRESS. */
static bool is_at(const char *address, const struct target *target)
{
    static const char *const any[] = {"*", "0.0.0.0", "[::]"};
    static const char *const local[] = {"127.0.0.1", "[::1]", "localhost", "::1"};
    bool host_is_local = false, for_all = false, for_local = false;
    bool scheme = take_scheme(&address, target);
    const char *colon = strrchr(address, ':');
    size_t length = colon != NULL ? (size_t)(colon - address) : 0;

    if (!scheme || colon == NULL || (uint16_t)strtoul(colon + 1, NULL, 10) != target->port)
        return false;
    for (size_t i = 0; i < ARRAY_LENGTH(local); i++) {
        host_is_local |= strcmp(target->host, local[i]) == 0;
        for_local |= strlen(local[i]) == length && strncmp(address, local[i], length) == 0;
    }
    for (size_t i = 0; i < ARRAY_LENGTH(any); i++)
        for_all |= strlen(any[i]) == length && strncmp(address, any[i], length) == 0;
    return (host_is_local && (for_all || for_local)) ||
           (strlen(target->host) == length && strncmp(address, target->host, length) == 0);
}

static bool listens_at(const struct segment_reader *reader, const struct request_plan *request_plan)
{
    char text[sizeof(reader->map.header.listening) + 1], *rest = NULL;
    const char *path = request_plan->plan->unix_socket;

    segment_listening(&reader->map, text, sizeof(text));
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        bool of_unix = strncmp(word, "unix:", 5) == 0;

        if (path != NULL ? of_unix && strcmp(word + 5, path) == 0
                         : !of_unix && is_at(word, &request_plan->requests[0].target))
            return true;
    }
    return false;
}

/* Attaches to the server called NAME if it runs and listens at the target. */
static bool try_name(struct segment_reader *reader, const char *name,
                     const struct request_plan *request_plan)
{
    char why[256];

    if (segment_attach(reader, name, why, sizeof(why)) != SEGMENT_ATTACHED)
        return false;
    if (listens_at(reader, request_plan) &&
        segment_health(reader, clock_monotonic_ns()) == SEGMENT_ALIVE)
        return true;
    segment_detach(reader);
    return false;
}

/* Whether all requests go to one origin, and directly. */
static bool has_one_target(const struct request_plan *request_plan)
{
    for (size_t i = 0; i < request_plan->count; i++)
        if (request_plan->requests[i].origin != 0)
            return false;
    return request_plan->plan->connect_to_count == 0 && request_plan->plan->proxy == NULL;
}

static bool find_server(const struct request_plan *request_plan, struct segment_reader *reader)
{
    DIR *directory = has_one_target(request_plan) ? opendir(INSTANCE_SHARED_MEMORY) : NULL;
    char name[INSTANCE_NAME_MAX + 1];
    const struct dirent *entry;
    bool found = false;

    while (directory != NULL && !found && (entry = readdir(directory)) != NULL)
        if (instance_of_segment(entry->d_name, name))
            found = try_name(reader, name, request_plan);
    if (directory != NULL)
        closedir(directory);
    return found;
}

/* ---- Checking its counters ---- */

struct server_check {
    struct segment_reader reader;
    uint64_t counted_before;
    uint64_t begun_ns;
    uint64_t cpu_ns_before;
};

/* CPU time of the server's running processes; excludes processes that have exited. */
static uint64_t server_cpu_ns(const struct server_check *check)
{
    const struct segment *map = &check->reader.map;
    uint64_t ns = resources_process_cpu_ns(map->header.master_pid) +
                  resources_process_cpu_ns(atomic_load(&segment_master(map)->logger_pid)) +
                  resources_process_cpu_ns(atomic_load(&segment_master(map)->keys_pid)) +
                  resources_process_cpu_ns(atomic_load(&segment_master(map)->metrics_pid));

    for (uint32_t i = 0; i < segment_count(map, SEGMENT_WORKERS); i++)
        if (segment_worker_reserved(map, i))
            ns += resources_process_cpu_ns(atomic_load(&segment_worker_slot(map, i)->pid));
    return ns;
}

static double server_cores(const struct server_check *check)
{
    uint64_t cpu_ns = server_cpu_ns(check), now_ns = clock_monotonic_ns();

    if (cpu_ns <= check->cpu_ns_before || now_ns <= check->begun_ns)
        return NAN;
    return (double)(cpu_ns - check->cpu_ns_before) / (double)(now_ns - check->begun_ns);
}

struct server_check *server_check_begin(const struct request_plan *request_plan)
{
    struct server_check *check = calloc(1, sizeof(*check));

    if (check == NULL || !find_server(request_plan, &check->reader)) {
        free(check);
        return NULL;
    }
    check->counted_before = segment_reader_sum(&check->reader, METRIC_requests);
    check->cpu_ns_before = server_cpu_ns(check);
    check->begun_ns = clock_monotonic_ns();
    return check;
}

void server_check_end(struct server_check *check, uint64_t answered,
                      struct server_check_result *result)
{
    const struct timespec step = {0, CHECK_STEP_MS * (long)NS_PER_MS};

    *result =
        (struct server_check_result){.outcome = SERVER_CHECK_NONE, .sent = answered, .cores = NAN};
    if (check == NULL)
        return;
    result->cores = server_cores(check);
    for (int waited = 0; waited <= CHECK_TIMEOUT_MS; waited += CHECK_STEP_MS) {
        result->counted =
            segment_reader_sum(&check->reader, METRIC_requests) - check->counted_before;
        if (result->counted >= answered)
            break;
        nanosleep(&step, NULL);
    }
    result->outcome = result->counted == answered ? SERVER_CHECK_SAME : SERVER_CHECK_DIFFERS;
    snprintf(result->name, sizeof(result->name), "%s", check->reader.map.header.name);
    segment_detach(&check->reader);
    free(check);
}

/* ---- Changing its size ---- */

struct server_control {
    char name[64], socket[INSTANCE_PATH_MAX];
    struct server_sizes original;
    bool changed;
    bool restoring; /* ignores signals */
    uint64_t deadline_ns;
};

static void read_sizes(struct server_control *control, const struct segment_reader *reader)
{
    const struct segment_header *header = &reader->map.header;
    const struct segment_master *master = segment_master(&reader->map);

    snprintf(control->name, sizeof(control->name), "%s", header->name);
    snprintf(control->socket, sizeof(control->socket), "%s", header->socket_path);
    control->original = (struct server_sizes){atomic_load(&master->workers_wanted),
                                              atomic_load(&master->threads_wanted)};
}

struct server_control *server_control_begin(const struct plan *plan, char *why, size_t size)
{
    struct server_control *control = calloc(1, sizeof(*control));
    struct segment_reader reader;
    struct request_plan request_plan;
    bool found = false;

    if (control == NULL) {
        snprintf(why, size, "out of memory");
        return NULL;
    }
    if (request_plan_prepare(&request_plan, plan, why, size) == 0) {
        found = find_server(&request_plan, &reader);
        if (!found)
            snprintf(why, size, "no webserverd of this machine listens at %s",
                     request_plan.requests[0].target.text);
    }
    request_plan_free(&request_plan);
    if (!found) {
        free(control);
        return NULL;
    }
    read_sizes(control, &reader);
    segment_detach(&reader);
    return control;
}

const char *server_control_name(const struct server_control *control)
{
    return control->name;
}

struct server_sizes server_control_original(const struct server_control *control)
{
    return control->original;
}

/* Waits up to TIMEOUT_MS. Returns whether a signal is pending. */
static bool is_interrupted(const struct server_control *control, int timeout_ms)
{
    struct pollfd fd = {.fd = control->restoring ? -1 : interrupts_fd(), .events = POLLIN};

    return poll(&fd, 1, timeout_ms) > 0;
}

static bool is_timed_out(const struct server_control *control)
{
    return clock_monotonic_ns() >= control->deadline_ns;
}

/* Returns the reply, owned by the caller; or NULL with WHY, which is empty after a signal. */
static json_t *receive_reply(const struct server_control *control, struct control_client *client,
                             char *why, size_t size)
{
    enum control_result result = CONTROL_PENDING;
    const char *line;

    while (result == CONTROL_PENDING && !is_timed_out(control) && !is_interrupted(control, 0))
        result = control_receive(client, CONTROL_STEP_MS, &line, why, size);
    if (result == CONTROL_REPLY)
        return json_loads(line, 0, NULL);
    if (result == CONTROL_PENDING)
        snprintf(why, size, "%s", is_timed_out(control) ? "no reply within a minute" : "");
    return NULL;
}

/* Sends the command LINE. Returns as receive_reply() does. */
static json_t *send_command(const struct server_control *control, const char *line, char *why,
                            size_t size)
{
    struct control_client client;
    json_t *reply = NULL;

    if (control_connect(&client, control->socket, why, size) != CONTROL_PENDING)
        return NULL;
    if (control_send(&client, line, why, size) == CONTROL_PENDING)
        reply = receive_reply(control, &client, why, size);
    control_close(&client);
    return reply;
}

/* Returns 1 if NUMBER is in effect, 0 if not yet, or -1 with WHY if the server rejected it. */
static int is_in_effect(const json_t *reply, uint32_t number, char *why, size_t size)
{
    const char *error = json_string_value(json_object_get(reply, "error"));

    if (error != NULL) {
        snprintf(why, size, "%s", error);
        return -1;
    }
    return json_integer_value(json_object_get(reply, "actual")) == (json_int_t)number;
}

/*
 * Sets the number of WHAT (workers or threads). The server replies when the number is in effect; if
 * another client changes it meanwhile, queries the number until it is in effect. Returns 0, also
 * after a signal, or -1 with WHY.
 */
static int set_number(struct server_control *control, const char *what, uint32_t number, char *why,
                      size_t size)
{
    char line[64];
    int done = 0;

    snprintf(line, sizeof(line), "%s %" PRIu32, what, number);
    while (done == 0) {
        json_t *reply = send_command(control, line, why, size);

        if (reply == NULL)
            return why[0] == '\0' ? 0 : -1;
        done = is_in_effect(reply, number, why, size);
        json_decref(reply);
        snprintf(line, sizeof(line), "%s", what);
        if (done == 0 && is_timed_out(control)) {
            snprintf(why, size, "%s not at %" PRIu32 " after a minute", what, number);
            done = -1;
        } else if (done == 0 && is_interrupted(control, CONTROL_STEP_MS)) {
            return 0;
        }
    }
    return done > 0 ? 0 : -1;
}

int server_control_set(struct server_control *control, struct server_sizes sizes, char *why,
                       size_t size)
{
    char reason[256] = "";

    control->deadline_ns = clock_monotonic_ns() + CONTROL_TIMEOUT_MS * NS_PER_MS;
    control->changed = true;
    if (set_number(control, "workers", sizes.workers, reason, sizeof(reason)) == 0 &&
        set_number(control, "threads", sizes.threads_per_worker, reason, sizeof(reason)) == 0)
        return 0;
    snprintf(why, size, "cannot set server %s to %" PRIu32 " workers with %" PRIu32 " threads: %s",
             control->name, sizes.workers, sizes.threads_per_worker, reason);
    return -1;
}

char *server_control_format_commands(const struct server_control *control, char *text, size_t size)
{
    snprintf(text, size, "wsctl -n %s workers %" PRIu32 " && wsctl -n %s threads %" PRIu32,
             control->name, control->original.workers, control->name,
             control->original.threads_per_worker);
    return text;
}

int server_control_end(struct server_control *control, char *why, size_t size)
{
    char reason[400] = "", commands[SERVER_CONTROL_COMMANDS];
    int result = 0;

    if (control == NULL)
        return 0;
    control->restoring = true;
    if (control->changed)
        result = server_control_set(control, control->original, reason, sizeof(reason));
    if (result != 0)
        snprintf(why, size, "%s; to restore it, run: %s", reason,
                 server_control_format_commands(control, commands, sizeof(commands)));
    free(control);
    return result;
}
