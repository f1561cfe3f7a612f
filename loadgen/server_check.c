#include "loadgen/server_check.h"

#include "common/clock.h"
#include "common/segment_reader.h"

#include "loadgen/processor_time.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PATIENCE_MS = 1000, STEP_MS = 10 };

#define SEGMENTS "/dev/shm"
#define PREFIX   "webserverd."

struct server_check {
    struct segment_reader reader;
    char name[64];
    uint64_t before;
    uint64_t begun_ns, cpu_ns; /* when, and what its processes had used by then */
};

/* Whether ADDRESS, as the server names what it listens on, is where TARGET leads. */
static bool is_at(const char *address, const struct target *target)
{
    static const char *const any[] = {"*", "0.0.0.0", "[::]"};
    static const char *const local[] = {"127.0.0.1", "[::1]", "localhost", "::1"};
    const char *colon = strrchr(address, ':');
    size_t length = colon != NULL ? (size_t)(colon - address) : 0;
    bool host_is_local = false, for_all = false, for_local = false;

    if (colon == NULL || (uint16_t)strtoul(colon + 1, NULL, 10) != target->port)
        return false;
    for (size_t i = 0; i < sizeof(local) / sizeof(local[0]); i++) {
        host_is_local |= strcmp(target->host, local[i]) == 0;
        for_local |= strlen(local[i]) == length && strncmp(address, local[i], length) == 0;
    }
    for (size_t i = 0; i < sizeof(any) / sizeof(any[0]); i++)
        for_all |= strlen(any[i]) == length && strncmp(address, any[i], length) == 0;
    return (host_is_local && (for_all || for_local)) ||
           (strlen(target->host) == length && strncmp(address, target->host, length) == 0);
}

static bool listens_at(const struct segment_reader *reader, const struct work *work)
{
    char text[sizeof(reader->map.directory->listening) + 1], *rest = NULL;
    const char *path = work->plan->unix_socket;

    snprintf(text, sizeof(text), "%s", reader->map.directory->listening);
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        bool of_unix = strncmp(word, "unix:", 5) == 0;

        if (path != NULL ? of_unix && strcmp(word + 5, path) == 0
                         : !of_unix && is_at(word, &work->requests[0].target))
            return true;
    }
    return false;
}

/* Attaches to the server of that name if it runs and listens at the target. */
static bool try_name(struct server_check *check, const char *name, const struct work *work)
{
    char why[256];

    if (segment_attach(&check->reader, name, why, sizeof(why)) != SEGMENT_ATTACHED)
        return false;
    if (segment_health(&check->reader, clock_monotonic_ns()) == SEGMENT_ALIVE &&
        listens_at(&check->reader, work)) {
        snprintf(check->name, sizeof(check->name), "%s", name);
        return true;
    }
    segment_detach(&check->reader);
    return false;
}

/* Requests to several hosts, or sent elsewhere than they are named for, are nobody's to count. */
static bool can_be_checked(const struct work *work)
{
    for (size_t i = 0; i < work->count; i++)
        if (work->requests[i].origin != 0)
            return false;
    return work->plan->redirection_count == 0 && work->plan->proxy == NULL;
}

/* Processor time of its processes so far. One that ends takes its part along. */
static uint64_t cpu_of(const struct server_check *check)
{
    const struct segment *map = &check->reader.map;
    uint64_t ns = processor_time_of(map->directory->master_pid) +
                  processor_time_of(atomic_load(&segment_logger(map)->pid));

    for (uint32_t i = 0; i < segment_count(map, SEGMENT_WORKERS); i++)
        if (segment_slot_reserved(segment_worker_slot(map, i)))
            ns += processor_time_of(atomic_load(&segment_worker(map, i)->pid));
    return ns;
}

static double cores_of(const struct server_check *check)
{
    uint64_t cpu_ns = cpu_of(check), now_ns = clock_monotonic_ns();

    if (cpu_ns <= check->cpu_ns || now_ns <= check->begun_ns)
        return NAN;
    return (double)(cpu_ns - check->cpu_ns) / (double)(now_ns - check->begun_ns);
}

struct server_check *server_check_begin(const struct work *work)
{
    struct server_check *check = can_be_checked(work) ? calloc(1, sizeof(*check)) : NULL;
    DIR *folder = check != NULL ? opendir(SEGMENTS) : NULL;
    const struct dirent *entry;
    bool found = false;

    while (folder != NULL && !found && (entry = readdir(folder)) != NULL)
        if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) == 0)
            found = try_name(check, entry->d_name + strlen(PREFIX), work);
    if (folder != NULL)
        closedir(folder);
    if (found) {
        check->before = segment_reader_sum(&check->reader, METRIC_requests);
        check->cpu_ns = cpu_of(check);
        check->begun_ns = clock_monotonic_ns();
        return check;
    }
    free(check);
    return NULL;
}

void server_check_end(struct server_check *check, uint64_t answered,
                      struct server_check_result *result)
{
    const struct timespec step = {0, STEP_MS * (long)NS_PER_MS};

    *result =
        (struct server_check_result){.outcome = SERVER_CHECK_NONE, .sent = answered, .cores = NAN};
    if (check == NULL)
        return;
    result->cores = cores_of(check);
    for (int waited = 0; waited <= PATIENCE_MS; waited += STEP_MS) {
        result->counted = segment_reader_sum(&check->reader, METRIC_requests) - check->before;
        if (result->counted >= answered)
            break;
        nanosleep(&step, NULL);
    }
    result->outcome = result->counted == answered ? SERVER_CHECK_SAME : SERVER_CHECK_DIFFERS;
    snprintf(result->name, sizeof(result->name), "%s", check->name);
    segment_detach(&check->reader);
    free(check);
}
