#include "loadgen/lab/usage.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PROCESSES_MAX = 256, PATH = 80, LINE = 256 };

/* Calls FUNCTION for each thread id of PID. */
static void for_each_thread(pid_t pid, void (*function)(void *context, pid_t pid, pid_t thread),
                            void *context)
{
    char path[PATH];
    DIR *directory;
    const struct dirent *entry;

    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    directory = opendir(path);
    while (directory != NULL && (entry = readdir(directory)) != NULL)
        if (entry->d_name[0] != '.')
            function(context, pid, (pid_t)atoi(entry->d_name));
    if (directory != NULL)
        closedir(directory);
}

struct processes {
    pid_t *pids;
    size_t count, most;
};

static void add_children(void *context, pid_t pid, pid_t thread)
{
    struct processes *processes = context;
    char path[PATH];
    FILE *file;
    int child;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)thread);
    file = fopen(path, "re");
    while (file != NULL && processes->count < processes->most && fscanf(file, "%d", &child) == 1)
        processes->pids[processes->count++] = (pid_t)child;
    if (file != NULL)
        fclose(file);
}

/* Fills PIDS with PID and its descendants. Returns the number, at most MOST. */
static size_t find_processes(pid_t pid, pid_t *pids, size_t most)
{
    struct processes processes = {pids, 0, most};

    if (most == 0)
        return 0;
    pids[processes.count++] = pid;
    for (size_t i = 0; i < processes.count; i++)
        for_each_thread(pids[i], add_children, &processes);
    return processes.count;
}

static void add_cpu(void *context, pid_t pid, pid_t thread)
{
    uint64_t *sum = context, ns;
    char path[PATH];
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", (int)pid, (int)thread);
    file = fopen(path, "re");
    if (file != NULL && fscanf(file, "%" SCNu64, &ns) == 1)
        *sum += ns;
    if (file != NULL)
        fclose(file);
}

/* The sum over all threads of PID and its descendants. */
static uint64_t sum_threads(pid_t pid, void (*add)(void *sum, pid_t pid, pid_t thread))
{
    pid_t pids[PROCESSES_MAX] = {0};
    size_t count = find_processes(pid, pids, PROCESSES_MAX);
    uint64_t sum = 0;

    for (size_t i = 0; i < count; i++)
        for_each_thread(pids[i], add, &sum);
    return sum;
}

uint64_t usage_cpu_ns(pid_t pid)
{
    return sum_threads(pid, add_cpu);
}

static void add_switches(void *context, pid_t pid, pid_t thread)
{
    uint64_t *sum = context, switches;
    char path[PATH], line[LINE];
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/status", (int)pid, (int)thread);
    file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        if (sscanf(line, "voluntary_ctxt_switches: %" SCNu64, &switches) == 1 ||
            sscanf(line, "nonvoluntary_ctxt_switches: %" SCNu64, &switches) == 1)
            *sum += switches;
    if (file != NULL)
        fclose(file);
}

uint64_t usage_switches(pid_t pid)
{
    return sum_threads(pid, add_switches);
}

static void add_memory(pid_t pid, struct usage *usage)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), resident = 0, shared = 0;
    char path[PATH];
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
    file = fopen(path, "re");
    if (file != NULL && fscanf(file, "%*u %" SCNu64 " %" SCNu64, &resident, &shared) == 2) {
        usage->resident += resident * page;
        usage->anonymous += (resident - shared) * page;
    }
    if (file != NULL)
        fclose(file);
}

/* Adds the open descriptors of PID to *SUM. Returns false without permission. */
static bool add_descriptors(pid_t pid, uint64_t *sum)
{
    char path[PATH];
    DIR *directory;
    const struct dirent *entry;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    directory = opendir(path);
    if (directory == NULL)
        return false;
    while ((entry = readdir(directory)) != NULL)
        *sum += entry->d_name[0] != '.';
    closedir(directory);
    return true;
}

struct usage usage_of(pid_t pid)
{
    struct usage usage = {.cpu_ns = usage_cpu_ns(pid), .descriptors_seen = true};
    pid_t pids[PROCESSES_MAX] = {0};

    usage.processes = find_processes(pid, pids, PROCESSES_MAX);
    for (size_t i = 0; i < usage.processes; i++) {
        add_memory(pids[i], &usage);
        usage.descriptors_seen =
            add_descriptors(pids[i], &usage.descriptors) && usage.descriptors_seen;
    }
    return usage;
}
