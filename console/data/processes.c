#include "console/data/processes.h"

#include "common/clock.h"
#include "common/macros.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    STATE_FIELD = 3,
    USER_FIELD = 14,
    SYSTEM_FIELD,
    USER_OF_ENDED_FIELD,
    SYSTEM_OF_ENDED_FIELD,
    RESIDENT_FIELD = 24
};

#define FREE_BELOW 0.1 /* share of the time in which some task waits on a machine with free CPUs */
#define US_PER_S   1000000

int process_stat_parse(const char *text, uint64_t ticks, uint64_t page, struct process_stat *stat)
{
    const char *field =
        strrchr(text, ')'); /* end of field 2, the name, which may contain anything */
    uint64_t values[RESIDENT_FIELD + 1] = {0};

    for (int number = 3; number <= RESIDENT_FIELD; number++) {
        field = field == NULL ? NULL : strchr(field + 1, ' ');
        if (field == NULL)
            return -1;
        if (number == STATE_FIELD)
            stat->state = field[1];
        values[number] = strtoull(field, NULL, 10);
    }
    stat->cpu_ns = (values[USER_FIELD] + values[SYSTEM_FIELD]) * (NS_PER_S / ticks);
    stat->ended_ns =
        (values[USER_OF_ENDED_FIELD] + values[SYSTEM_OF_ENDED_FIELD]) * (NS_PER_S / ticks);
    stat->resident_bytes = values[RESIDENT_FIELD] * page;
    return 0;
}

int machine_stat_parse(const char *text, uint64_t *all_ticks, uint64_t *stolen_ticks)
{
    uint64_t user, nice, system, idle, disk, hard, soft, stolen;

    if (sscanf(text,
               "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
               " %" SCNu64 " %" SCNu64,
               &user, &nice, &system, &idle, &disk, &hard, &soft, &stolen) != 8)
        return -1;
    *all_ticks = user + nice + system + idle + disk + hard + soft + stolen;
    *stolen_ticks = stolen;
    return 0;
}

/* Reads the start of a file as text. Returns 0, or -1. */
static int read_text(const char *path, char *text, size_t size)
{
    FILE *file = fopen(path, "re");
    size_t length;

    if (file == NULL)
        return -1;
    length = fread(text, 1, size - 1, file);
    fclose(file);
    text[length] = '\0';
    return 0;
}

static int read_stat(const char *path, struct process_stat *stat)
{
    char text[1024];

    if (read_text(path, text, sizeof(text)) != 0)
        return -1;
    return process_stat_parse(text, (uint64_t)sysconf(_SC_CLK_TCK), (uint64_t)sysconf(_SC_PAGESIZE),
                              stat);
}

static int read_process_stat(int32_t pid, struct process_stat *stat)
{
    char path[40];

    snprintf(path, sizeof(path), "/proc/%" PRId32 "/stat", pid);
    return read_stat(path, stat);
}

/* CPU usage between two readings, cores; NAN if there was no earlier reading. */
static float cores_between(uint64_t then_ns, uint64_t now_ns, uint64_t cpu_then, uint64_t cpu_now)
{
    return then_ns != 0 && now_ns > then_ns && cpu_now >= cpu_then
               ? (float)((double)(cpu_now - cpu_then) / (double)(now_ns - then_ns))
               : NAN;
}

static const struct process_usage *process_before(const struct process_table *table, int32_t pid)
{
    for (uint32_t i = 0; i < table->count; i++)
        if (table->process[i].pid == pid && table->process[i].resident_bytes != 0)
            return &table->process[i];
    return NULL;
}

/* Finds thread TID; tries index GUESS first, because indexes seldom change. */
static const struct thread_usage *thread_before(const struct process_table *table, int32_t tid,
                                                uint32_t guess)
{
    if (guess < table->thread_count && table->thread[guess].tid == tid)
        return &table->thread[guess];
    for (uint32_t i = 0; i < table->thread_count; i++)
        if (table->thread[i].tid == tid)
            return &table->thread[i];
    return NULL;
}

struct reading {
    const struct process_table *before;
    struct process_table *into;
    uint64_t ran_ns, waited_ns; /* all threads together, since BEFORE */
};

static void measure_process(const struct reading *reading, enum role role, uint32_t slot,
                            int32_t pid)
{
    const struct process_usage *before = process_before(reading->before, pid);
    struct process_table *into = reading->into;
    struct process_usage usage = {.role = role, .slot = slot, .pid = pid, .cores = NAN};
    struct process_stat stat = {0};

    if (pid <= 0 || into->count == PROCESSES_MAX)
        return;
    if (read_process_stat(pid, &stat) == 0) {
        usage.cpu_ns = stat.cpu_ns;
        usage.resident_bytes = stat.resident_bytes;
        if (before != NULL)
            usage.cores = cores_between(reading->before->time_ns, into->time_ns, before->cpu_ns,
                                        usage.cpu_ns);
    }
    into->stopped[into->count] = stat.state == 'T' || stat.state == 't';
    into->process[into->count++] = usage;
}

uint64_t ended_children_take(struct ended_children *children, int32_t pid, uint64_t gone_ns,
                             uint64_t passed_ns)
{
    uint64_t most_ns = passed_ns * (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t counted_ns = children->counted_ns + gone_ns, ended_ns;
    struct process_stat stat;

    if (read_process_stat(pid, &stat) != 0 || stat.ended_ns < children->ended_ns) {
        *children = (struct ended_children){0};
        return 0;
    }
    ended_ns = stat.ended_ns - children->ended_ns;
    children->ended_ns = stat.ended_ns;
    children->counted_ns = counted_ns > ended_ns ? counted_ns - ended_ns : 0;
    ended_ns -= ended_ns < counted_ns ? ended_ns : counted_ns;
    return ended_ns < most_ns ? ended_ns : most_ns;
}

/* What was counted of the processes that have ended since the last table. */
static uint64_t counted_of_gone(const struct process_table *before,
                                const struct process_table *into)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < before->count; i++) {
        uint32_t j = 0;

        while (j < into->count &&
               (into->process[j].pid != before->process[i].pid || into->process[j].cpu_ns == 0))
            j++;
        if (j == into->count)
            sum += before->process[i].cpu_ns;
    }
    return sum;
}

/* Adds to the first process what its children had that have ended. */
static void measure_ended(const struct reading *reading, int32_t pid)
{
    struct process_table *into = reading->into;
    uint64_t passed_ns = into->time_ns - reading->before->time_ns;
    uint64_t cpu_ns =
        ended_children_take(&into->ended, pid, counted_of_gone(reading->before, into), passed_ns);

    for (uint32_t i = 0; i < into->count && passed_ns > 0; i++)
        if (into->process[i].pid == pid)
            into->process[i].cores += (float)((double)cpu_ns / (double)passed_ns);
}

/* The wait of a thread that was at index BEFORE of the last table (NULL: it is new). */
static void take_wait(struct reading *reading, int32_t pid, int32_t tid,
                      const struct thread_usage *before)
{
    struct thread_wait *wait = &reading->into->wait[reading->into->thread_count];
    const struct thread_wait *last =
        before != NULL ? &reading->before->wait[before - reading->before->thread] : NULL;
    char path[64], text[128];

    *wait = (struct thread_wait){0};
    snprintf(path, sizeof(path), "/proc/%" PRId32 "/task/%" PRId32 "/schedstat", pid, tid);
    if (read_text(path, text, sizeof(text)) != 0 ||
        sscanf(text, "%" SCNu64 " %" SCNu64, &wait->ran_ns, &wait->waited_ns) != 2)
        return;
    if (last == NULL || wait->ran_ns < last->ran_ns || wait->waited_ns < last->waited_ns)
        return;
    reading->ran_ns += wait->ran_ns - last->ran_ns;
    reading->waited_ns += wait->waited_ns - last->waited_ns;
}

static void measure_thread(struct reading *reading, int32_t pid, int32_t tid)
{
    struct process_table *into = reading->into;
    const struct thread_usage *before = thread_before(reading->before, tid, into->thread_count);
    struct thread_usage usage = {.tid = tid, .cores = NAN};
    struct process_stat stat;
    char path[64];

    if (pid <= 0 || tid <= 0 || into->thread_count == PROCESS_THREADS_MAX)
        return;
    snprintf(path, sizeof(path), "/proc/%" PRId32 "/task/%" PRId32 "/stat", pid, tid);
    if (read_stat(path, &stat) != 0)
        return;
    usage.cpu_ns = stat.cpu_ns;
    if (before != NULL)
        usage.cores =
            cores_between(reading->before->time_ns, into->time_ns, before->cpu_ns, usage.cpu_ns);
    take_wait(reading, pid, tid, before);
    into->thread[into->thread_count++] = usage;
}

static int32_t pid_of_worker(const struct snapshot *now, uint32_t slot)
{
    for (uint32_t i = 0; i < now->worker_count; i++)
        if (now->workers[i].slot == slot && now->workers[i].state != WORKER_NONE)
            return now->workers[i].pid;
    return 0;
}

static void measure_threads(struct reading *reading, const struct snapshot *now)
{
    for (uint32_t i = 0; i < now->thread_count; i++)
        if (now->threads[i].activity.state != THREAD_STATE_NONE)
            measure_thread(reading, pid_of_worker(now, now->threads[i].worker),
                           now->threads[i].activity.tid);
    for (uint32_t i = 0; i < now->worker_count; i++)
        for (uint32_t j = 0; j < now->workers[i].offload_count; j++)
            measure_thread(reading, now->workers[i].pid, now->workers[i].offload[j].activity.tid);
}

static float share(uint64_t part, uint64_t whole)
{
    return whole == 0 ? NAN : part > whole ? 1.0F : (float)((double)part / (double)whole);
}

static uint64_t usage_growth(uint64_t before, uint64_t now)
{
    return before != 0 && now > before ? now - before : 0;
}

static void take_shortage(const struct reading *reading)
{
    const struct process_table *before = reading->before;
    struct process_table *into = reading->into;
    struct cpu_shortage *shortage = &into->shortage;
    uint64_t passed_ns = into->time_ns - before->time_ns;
    uint64_t wanted_ns = reading->ran_ns + reading->waited_ns;
    char text[256];
    const char *total;

    *shortage = (struct cpu_shortage){before->time_ns != 0, NAN, NAN, NAN};
    if (before->time_ns != 0)
        shortage->server = share(reading->waited_ns, wanted_ns > passed_ns ? wanted_ns : passed_ns);
    into->pressure_us = into->all_ticks = into->stolen_ticks = 0;
    if (read_text("/proc/pressure/cpu", text, sizeof(text)) == 0 &&
        (total = strstr(text, "total=")) != NULL)
        into->pressure_us = strtoull(total + strlen("total="), NULL, 10);
    if (before->pressure_us != 0 && into->pressure_us != 0)
        shortage->machine =
            share(usage_growth(before->pressure_us, into->pressure_us) * (NS_PER_S / US_PER_S),
                  passed_ns);
    if (read_text("/proc/stat", text, sizeof(text)) == 0)
        machine_stat_parse(text, &into->all_ticks, &into->stolen_ticks);
    if (before->all_ticks != 0)
        shortage->stolen = share(usage_growth(before->stolen_ticks, into->stolen_ticks),
                                 usage_growth(before->all_ticks, into->all_ticks));
}

double cpu_shortage_wait(const struct cpu_shortage *shortage)
{
    return shortage->known == 0                     ? NAN
           : (double)shortage->machine < FREE_BELOW ? 0
                                                    : (double)shortage->server;
}

/* A server of another program may serve in its first process. */
static bool is_worker(const struct snapshot *now, int32_t pid)
{
    uint32_t i = 0;

    while (i < now->worker_count && now->workers[i].pid != pid)
        i++;
    return i < now->worker_count;
}

void processes_take(struct process_table *table, const struct snapshot *now)
{
    static struct process_table before; /* too large for the stack */
    struct reading reading = {.before = &before, .into = table};

    before = *table;

    table->time_ns = now->time_ns;
    table->count = 0;
    table->thread_count = 0;
    if (!is_worker(now, now->server.pid))
        measure_process(&reading, ROLE_MASTER, 0, now->server.pid);
    for (uint32_t i = 0; i < now->worker_count; i++)
        if (now->workers[i].state != WORKER_NONE)
            measure_process(&reading, ROLE_WORKER, now->workers[i].slot, now->workers[i].pid);
    measure_process(&reading, ROLE_LOGGER, 0, now->logger_pid);
    measure_process(&reading, ROLE_KEYS, 0, now->keys_pid);
    measure_process(&reading, ROLE_METRICS, 0, now->metrics_pid);
    if (now->server.lacks_section
            [SEGMENT_CONFIG]) /* another program, which may fork for each connection */
        measure_ended(&reading, now->server.pid);
    measure_threads(&reading, now);
    take_shortage(&reading);
}

const struct process_usage *processes_stopped(const struct process_table *table)
{
    for (uint32_t i = 0; i < table->count; i++)
        if (table->stopped[i])
            return &table->process[i];
    return NULL;
}

double processes_thread_cores(const struct process_table *table, int32_t tid)
{
    const struct thread_usage *usage = thread_before(table, tid, 0);

    return usage == NULL ? NAN : (double)usage->cores;
}

bool processes_read_recorded(struct process_table *table, const unsigned char *bytes,
                             uint64_t length)
{
    static const uint32_t kept[] = {PROCESSES_MAX, 66};
    size_t start = offsetof(struct process_table, process), head;

    static_assert(offsetof(struct process_table, thread) ==
                      offsetof(struct process_table, process) +
                          PROCESSES_MAX * sizeof(struct process_usage),
                  "the threads follow the processes");
    for (size_t i = 0; i < ARRAY_LENGTH(kept); i++) {
        size_t fewer = (PROCESSES_MAX - kept[i]) * sizeof(struct process_usage);

        if (length + fewer != offsetof(struct process_table, shortage) &&
            length + fewer != PROCESS_TABLE_RECORDED)
            continue;
        head = start + kept[i] * sizeof(struct process_usage);
        table->shortage = (struct cpu_shortage){0};
        memcpy(table, bytes, head);
        memcpy(table->thread, bytes + head, length - head);
        table->count = table->count < kept[i] ? table->count : kept[i];
        table->thread_count =
            table->thread_count < PROCESS_THREADS_MAX ? table->thread_count : PROCESS_THREADS_MAX;
        return true;
    }
    return false;
}
