#include "console/data/instances.h"

#include "common/clock.h"
#include "common/escape.h"
#include "common/process.h"
#include "common/units.h"
#include "console/data/processes.h"

#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { WORKERS_MAX = 64 };

/* What a server had counted when it was last looked at. */
struct counted {
    uint64_t generation, time_ns, requests, errors; /* time 0: never */
    struct histogram_window latency;
    struct {
        int32_t pid;
        uint64_t cpu_ns;
    } worker[WORKERS_MAX];
    struct ended_children ended;
};

/* That of the server of READER, or a place for it: the one looked at longest ago. */
static struct counted *counted_of(const struct segment_reader *reader)
{
    static struct counted list[INSTANCES_MAX];
    struct counted *oldest = &list[0];

    for (size_t i = 0; i < INSTANCES_MAX; i++) {
        if (list[i].time_ns > 0 && list[i].generation == reader->map.header.generation)
            return &list[i];
        if (list[i].time_ns < oldest->time_ns)
            oldest = &list[i];
    }
    *oldest = (struct counted){.generation = reader->map.header.generation};
    return oldest;
}

static uint64_t cpu_of_process(int32_t pid)
{
    struct timespec used;
    clockid_t clock;

    return pid > 0 && clock_getcpuclockid(pid, &clock) == 0 && clock_gettime(clock, &used) == 0
               ? (uint64_t)used.tv_sec * NS_PER_S + (uint64_t)used.tv_nsec
               : 0;
}

/*
 * CPU time of the workers in the last PASSED_NS. Those of another program that have ended since then
 * are counted: it may fork for each connection.
 */
static uint64_t cpu_since(struct counted *counted, const struct segment_reader *reader,
                          uint64_t passed_ns)
{
    uint32_t count = segment_count(&reader->map, SEGMENT_WORKER_SLOTS);
    uint64_t sum = 0, gone_ns = 0;

    for (uint32_t i = 0; i < count && i < WORKERS_MAX; i++) {
        int32_t pid =
            atomic_load_explicit(&segment_worker_slot(&reader->map, i)->pid, memory_order_relaxed);
        uint64_t cpu_ns = cpu_of_process(pid);

        if (pid != counted->worker[i].pid) {
            sum += cpu_ns;
            gone_ns += counted->worker[i].cpu_ns;
        } else if (cpu_ns > counted->worker[i].cpu_ns)
            sum += cpu_ns - counted->worker[i].cpu_ns;
        counted->worker[i].pid = pid;
        counted->worker[i].cpu_ns = cpu_ns;
    }
    if (segment_count(&reader->map, SEGMENT_CONFIG) == 0)
        sum +=
            ended_children_take(&counted->ended, reader->map.header.master_pid, gone_ns, passed_ns);
    return sum;
}

/* Fills the rates since the last look at the same server; at the first one they are unknown. */
static void measure(const struct segment_reader *reader, struct instance_load *load)
{
    struct counted *counted = counted_of(reader);
    uint64_t now_ns = clock_monotonic_ns(), errors = 0, ns = now_ns - counted->time_ns;
    uint64_t requests = segment_reader_sum(reader, METRIC_requests);
    uint64_t cpu_ns = cpu_since(counted, reader, ns);
    struct histogram latency = {0};

    for (size_t i = 0; i < STATUS_METRICS; i++)
        if (status_metrics[i].status >= 400)
            errors += segment_reader_sum(reader, status_metrics[i].metric);
    segment_add_all_latency(&reader->map, &latency);
    histogram_window_move(&counted->latency, &latency);
    if (counted->time_ns > 0) {
        load->requests = figure_rate(counted->requests, requests, ns);
        load->errors = figure_rate(counted->errors, errors, ns);
        load->cores = figure_rate(0, cpu_ns, ns) / (double)NS_PER_S;
        if (histogram_count(&counted->latency.since) > 0)
            load->p99_ns = (double)histogram_percentile(&counted->latency.since, 99);
    }
    counted->time_ns = now_ns;
    counted->requests = requests;
    counted->errors = errors;
}

struct instance_load instance_load(const struct segment_reader *reader)
{
    const struct segment_master *master = segment_master(&reader->map);
    struct instance_load load = {.requests = NAN, .errors = NAN, .p99_ns = NAN, .cores = NAN};

    measure(reader, &load);
    load.connections = (double)segment_connections_open(&reader->map);
    for (uint32_t i = 0; i < segment_count(&reader->map, SEGMENT_WORKER_SLOTS); i++)
        load.workers += atomic_load_explicit(&segment_worker_slot(&reader->map, i)->state,
                                             memory_order_relaxed) == WORKER_SERVING;
    load.workers_wanted = atomic_load_explicit(&master->workers_wanted, memory_order_relaxed);
    load.state = segment_health(reader, clock_monotonic_ns()) == SEGMENT_SILENT       ? "silent"
                 : atomic_load_explicit(&master->stopping, memory_order_relaxed) != 0 ? "stopping"
                 : load.workers < load.workers_wanted                                 ? "starting"
                                                                                      : "serving";
    return load;
}

/* Fills RECENT from the history of the server. */
static void read_recent(const struct segment_reader *reader, double *recent)
{
    static struct sample_copy sample; /* too large for the stack */
    uint64_t samples = segment_samples(reader), time_ns = 0, requests = 0;

    for (uint64_t back = INSTANCE_RECENT + 1; back > 0; back--) {
        bool known =
            back <= samples && segment_read_sample(reader, samples - back, &sample, NULL, 0);

        if (back <= INSTANCE_RECENT)
            recent[INSTANCE_RECENT - back] =
                known && time_ns > 0 && sample.time_ns > time_ns
                    ? figure_rate(requests, sample.values[METRIC_requests],
                                  sample.time_ns - time_ns)
                    : NAN;
        time_ns = known ? sample.time_ns : 0;
        requests = sample.values[METRIC_requests];
    }
}

static bool describe_instance(const char *name, struct instance *instance)
{
    struct segment_reader reader;
    enum segment_health health;
    char why[256];

    if (segment_attach(&reader, name, why, sizeof(why)) != SEGMENT_ATTACHED)
        return false;
    health = segment_health(&reader, clock_monotonic_ns());
    if (health != SEGMENT_ALIVE && health != SEGMENT_SILENT) {
        segment_detach(&reader);
        return false;
    }
    snprintf(instance->name, sizeof(instance->name), "%s", name);
    escape_bytes(instance->listening, sizeof(instance->listening), reader.map.header.listening,
                 strnlen(reader.map.header.listening, sizeof(reader.map.header.listening)));
    snprintf(instance->socket, sizeof(instance->socket), "%.*s",
             (int)strnlen(reader.map.header.socket_path, INSTANCE_PATH_MAX - 1),
             reader.map.header.socket_path);
    escape_text(instance->version, sizeof(instance->version), reader.map.header.version,
                strnlen(reader.map.header.version, sizeof(reader.map.header.version)));
    read_recent(&reader, instance->recent);
    instance->pid = reader.map.header.master_pid;
    instance->started_ns = segment_counted_since_ns(&reader.map);
    instance->age_ns = process_age_ns(instance->pid, instance->started_ns);
    instance->load = instance_load(&reader);
    segment_detach(&reader);
    return true;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct instance *)a)->name, ((const struct instance *)b)->name);
}

/* A server that another user may have started has the same name, or its segment was left. */
static bool is_listed(const struct instance *list, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].name, name) == 0)
            return true;
    return false;
}

size_t instances_find(struct instance *list)
{
    DIR *directory = opendir(INSTANCE_SHARED_MEMORY);
    char name[INSTANCE_NAME_MAX + 1];
    struct dirent *entry;
    size_t count = 0;

    while (directory != NULL && count < INSTANCES_MAX && (entry = readdir(directory)) != NULL)
        if (instance_of_segment(entry->d_name, name) && !is_listed(list, count, name) &&
            describe_instance(name, &list[count]))
            count++;
    if (directory != NULL)
        closedir(directory);
    qsort(list, count, sizeof(*list), by_name);
    return count;
}

/*
 * Lists those in /dev/shm that are not in LIST, because this user may not read them. Returns their
 * number.
 */
static size_t list_unreadable(const struct instance *list, size_t count, FILE *out)
{
    DIR *directory = opendir(INSTANCE_SHARED_MEMORY);
    const char *separator = count > 0 ? "; not readable: " : "not readable: ";
    size_t found = 0;
    char path[sizeof(INSTANCE_SHARED_MEMORY "/") + NAME_MAX];
    char name[INSTANCE_NAME_MAX + 1], needs[128];
    const struct dirent *entry;

    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        if (!instance_of_segment(entry->d_name, name) || is_listed(list, count, name) ||
            faccessat(dirfd(directory), entry->d_name, R_OK, AT_EACCESS) == 0)
            continue;
        snprintf(path, sizeof(path), INSTANCE_SHARED_MEMORY "/%s", entry->d_name);
        instance_describe_access(path, S_IRGRP, needs, sizeof(needs));
        fprintf(out, "%s%s (%s)", separator, name, needs);
        separator = ", ";
        found++;
    }
    if (directory != NULL)
        closedir(directory);
    return found;
}

void instances_advise(char *text, size_t size)
{
    static struct instance list[INSTANCES_MAX]; /* too large for the stack */
    size_t count = instances_find(list);
    FILE *out = fmemopen(text, size, "w");

    text[0] = '\0';
    if (out == NULL)
        return;
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s%s", i > 0 ? ", " : "running: ", list[i].name);
    if (count > 0)
        fputs(" (-n NAME selects one)", out);
    if (list_unreadable(list, count, out) == 0 && count == 0)
        fputs("no server is running", out);
    fclose(out);
}

static bool is_same_file(const char *left, const char *right)
{
    struct stat a, b;

    return strcmp(left, right) == 0 || (stat(left, &a) == 0 && stat(right, &b) == 0 &&
                                        a.st_dev == b.st_dev && a.st_ino == b.st_ino);
}

bool instance_with_socket(const char *socket, char *name)
{
    static struct instance list[INSTANCES_MAX]; /* too large for the stack */
    size_t count = instances_find(list);

    for (size_t i = 0; i < count; i++)
        if (socket != NULL ? is_same_file(list[i].socket, socket) : count == 1) {
            snprintf(name, sizeof(list[i].name), "%s", list[i].name);
            return true;
        }
    return false;
}

void instances_print(FILE *out)
{
    static struct instance list[INSTANCES_MAX];
    size_t count = instances_find(list);
    char age[UNITS_TEXT];

    if (count == 0)
        fprintf(out, "no server is running\n");
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%-24s pid %-8" PRId32 " up %-10s version %-9s on %s\n", list[i].name,
                list[i].pid, units_format_age(age, sizeof(age), list[i].age_ns), list[i].version,
                list[i].listening);
}

static json_t *json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *json_instance(const struct instance *instance)
{
    const struct instance_load *load = &instance->load;
    bool wanted = load->workers_wanted > 0; /* another program does not say */

    return json_pack("{s:o, s:o, s:s, s:i, s:o, s:o, s:f, s:i, s:o, s:o, s:o, s:o, s:o}", "name",
                     json_text(instance->name), "version", json_text(instance->version), "state",
                     load->state, "pid", (int)instance->pid, "listening",
                     json_text(instance->listening), "socket", json_text(instance->socket),
                     "uptime_s", floor((double)instance->age_ns / NS_PER_S), "workers",
                     (int)load->workers, "workers_wanted",
                     wanted ? json_integer(load->workers_wanted) : json_null(), "requests_per_s",
                     json_number(load->requests), "errors_per_s", json_number(load->errors),
                     "p99_ns", json_number(load->p99_ns), "cores", json_number(load->cores));
}

int instances_print_json(FILE *out)
{
    static struct instance list[INSTANCES_MAX];
    size_t count = instances_find(list);
    json_t *all = json_array();
    char *text, *safe = NULL;

    if (count > 0) {
        usleep(INSTANCES_LOOK_MS * 1000);
        count = instances_find(list);
    }
    for (size_t i = 0; i < count; i++)
        json_array_append_new(all, json_instance(&list[i]));
    text = json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(15));
    if (text != NULL && (safe = escape_json_text(text)) != NULL)
        fprintf(out, "%s\n", safe);
    free(text);
    json_decref(all);
    text = safe;
    free(safe);
    return text != NULL ? 0 : -1;
}

#define OTHERS " and %zu others"

bool instances_ambiguous(const char *name, char *why, size_t size)
{
    static struct instance list[INSTANCES_MAX];
    size_t count = instances_find(list), used, length;

    snprintf(why, size, "%zu servers run; -n NAME chooses one:", count);
    for (size_t i = 0; i < count; i++) {
        used = strlen(why);
        length = strlen(list[i].name);
        if (i + 1 < count && used + 1 + length + sizeof(OTHERS) > size) {
            snprintf(why + used, size - used, OTHERS, count - i);
            break;
        }
        snprintf(why + used, size - used, " %s", list[i].name);
    }
    return count > 1 && !is_listed(list, count, name);
}

/* Control socket */

/*
 * Reads the path from the segment; it is empty if there is no readable segment. Returns -1 with WHY
 * if the segment belongs to another user.
 */
static int socket_of_segment(const char *name, char *path, size_t path_size, char *why, size_t size)
{
    struct segment_reader reader;
    enum segment_attach_result result = segment_attach(&reader, name, why, size);
    int length;

    path[0] = '\0';
    if (result != SEGMENT_ATTACHED)
        return result == SEGMENT_FOREIGN ? -1 : 0;
    length = snprintf(path, path_size, "%.*s", INSTANCE_PATH_MAX, reader.map.header.socket_path);
    segment_detach(&reader);
    if (length < 0 || (size_t)length >= path_size)
        path[0] = '\0';
    return 0;
}

/* The only socket NAME.sock of the run directory PATH, into PATH. Returns 0, or -1 with WHY. */
static int socket_of_run_dir(char *path, size_t path_size, char *why, size_t size)
{
    char pattern[INSTANCE_PATH_MAX + sizeof("/*.sock")], needs[128];
    glob_t found;
    int result = -1;

    snprintf(pattern, sizeof(pattern), "%s/*.sock", path);
    if (faccessat(AT_FDCWD, path, R_OK | X_OK, AT_EACCESS) != 0) {
        instance_describe_access(path, S_IRGRP, needs, sizeof(needs));
        snprintf(why, size, "cannot read the run directory %s (%s)", path, needs);
        return -1;
    }
    if (glob(pattern, 0, NULL, &found) != 0)
        found.gl_pathc = 0;
    if (found.gl_pathc == 1 &&
        (size_t)snprintf(path, path_size, "%s", found.gl_pathv[0]) < path_size)
        result = 0;
    else
        snprintf(why, size, "%s has %zu control sockets: name one", path, found.gl_pathc);
    if (found.gl_pathc > 0)
        globfree(&found);
    return result;
}

int instance_control_socket(const char *name, const char *given, char *path, size_t path_size,
                            char *why, size_t size)
{
    if (given != NULL) {
        struct stat status;

        if ((size_t)snprintf(path, path_size, "%s", given) < path_size)
            return stat(path, &status) == 0 && S_ISDIR(status.st_mode)
                       ? socket_of_run_dir(path, path_size, why, size)
                       : 0;
        snprintf(why, size, "socket path '%s' is too long (at most %zu bytes)", given,
                 path_size - 1);
        return -1;
    }
    if (!instance_name_valid(name)) {
        snprintf(why, size,
                 "invalid instance name '%s' (letters, digits, '.', '_' and '-', at most %d)", name,
                 INSTANCE_NAME_MAX);
        return -1;
    }
    if (socket_of_segment(name, path, path_size, why, size) != 0)
        return -1;
    if (path[0] != '\0' || instance_socket_path(name, path, path_size) == 0)
        return 0;
    snprintf(why, size, "the control socket path of '%s' would be too long (at most %zu bytes)",
             name, path_size - 1);
    return -1;
}

/* Attachment */

#define CHECK_EVERY_NS  NS_PER_S       /* while attached */
#define ATTACH_EVERY_NS (NS_PER_S / 4) /* while not attached */

struct source {
    char name[INSTANCE_NAME_MAX + 16]; /* room for an invalid name, for the message */
    enum source_state state;
    uint64_t next_check_ns;
    struct segment_reader reader;
    struct segment_reader former; /* the one before, if HAS_FORMER */
    bool has_former;
    bool shown; /* set by source_show(): the reader is borrowed, do not detach */
    char why[256];
};

struct source *source_open(const char *name)
{
    struct source *source = calloc(1, sizeof(*source));

    if (source == NULL)
        return NULL;
    snprintf(source->name, sizeof(source->name), "%s", name);
    return source;
}

void source_close(struct source *source)
{
    if (source == NULL)
        return;
    if (!source->shown)
        segment_detach(&source->reader);
    source_release_former(source);
    free(source);
}

static void set_state(struct source *source, enum source_state state)
{
    source->state = state;
    if (state == SOURCE_LIVE)
        source->why[0] = '\0';
}

/* The dead webserverd has a successor soon, and its log is in a file. Others are worth a look. */
static bool is_worth_attaching(const struct source *source, const struct segment_reader *reader,
                               enum segment_health health)
{
    return health == SEGMENT_ALIVE || health == SEGMENT_SILENT ||
           (health == SEGMENT_DEAD && source->state == SOURCE_ABSENT &&
            segment_count(&reader->map, SEGMENT_CONFIG) == 0);
}

/* Attaches if the daemon runs; a segment left by a dead webserverd is ignored. */
static bool attach_running(struct source *source, struct segment_reader *reader, uint64_t now_ns,
                           char *why, size_t size)
{
    enum segment_health health;

    if (segment_attach(reader, source->name, why, size) != SEGMENT_ATTACHED)
        return false;
    health = segment_health(reader, now_ns);
    if (is_worth_attaching(source, reader, health))
        return true;
    snprintf(why, size, "no webserverd '%s' is running; the last one (pid %d) has ended",
             source->name, (int)reader->map.header.master_pid);
    segment_detach(reader);
    return false;
}

static bool try_attach(struct source *source, uint64_t now_ns)
{
    struct segment_reader reader;
    char why[sizeof(source->why)];

    source->next_check_ns = now_ns + ATTACH_EVERY_NS;
    if (!attach_running(source, &reader, now_ns, why, sizeof(why))) {
        if (source->state == SOURCE_ABSENT)
            memcpy(source->why, why, sizeof(source->why));
        return false;
    }
    source_release_former(source);
    source->former = source->reader;
    source->has_former = source->state == SOURCE_ENDED;
    source->reader = reader;
    source->next_check_ns = now_ns; /* it may be dead: see is_worth_attaching() */
    set_state(source, SOURCE_LIVE);
    return true;
}

static void check_daemon(struct source *source, uint64_t now_ns)
{
    enum segment_health health = segment_health(&source->reader, now_ns);

    source->next_check_ns = now_ns + CHECK_EVERY_NS;
    switch (health) {
    case SEGMENT_ALIVE:
        set_state(source, SOURCE_LIVE);
        break;
    case SEGMENT_SILENT:
        snprintf(source->why, sizeof(source->why),
                 "the master (pid %d) does not respond: stopped or overloaded",
                 (int)source->reader.map.header.master_pid);
        set_state(source, SOURCE_SILENT);
        break;
    case SEGMENT_STOPPED:
    case SEGMENT_DEAD:
    case SEGMENT_REPLACED:
        snprintf(source->why, sizeof(source->why), "%s'%s' %s",
                 segment_count(&source->reader.map, SEGMENT_CONFIG) > 0 ? "webserverd " : "",
                 source->name,
                 health == SEGMENT_STOPPED    ? "has stopped"
                 : health == SEGMENT_REPLACED ? "was replaced by another daemon"
                                              : "has died");
        set_state(source, SOURCE_ENDED);
        break;
    }
}

bool source_update(struct source *source, uint64_t now_ns)
{
    if (now_ns < source->next_check_ns)
        return false;
    if (source->state == SOURCE_LIVE || source->state == SOURCE_SILENT)
        check_daemon(source, now_ns);
    if (source->state == SOURCE_ABSENT || source->state == SOURCE_ENDED)
        return try_attach(source, now_ns);
    return false;
}

const struct segment_reader *source_former(const struct source *source)
{
    return source->has_former ? &source->former : NULL;
}

void source_release_former(struct source *source)
{
    if (source->has_former)
        segment_detach(&source->former);
    source->has_former = false;
}

void source_show(struct source *source, const struct segment_reader *reader,
                 enum source_state state, const char *why)
{
    source->shown = true;
    if (reader != NULL)
        source->reader = *reader;
    set_state(source, state);
    snprintf(source->why, sizeof(source->why), "%s", why);
}

enum source_state source_state(const struct source *source)
{
    return source->state;
}

const char *source_why(const struct source *source)
{
    return source->why;
}

const char *source_name(const struct source *source)
{
    return source->name;
}

const struct segment_reader *source_reader(const struct source *source)
{
    return source->state == SOURCE_ABSENT ? NULL : &source->reader;
}
