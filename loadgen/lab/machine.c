#include "loadgen/lab/machine.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/units.h"

#include <curl/curl.h>
#include <dirent.h>
#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

void machine_add(struct machine *machine, const char *label, const char *text, bool changes)
{
    struct machine_fact *fact = &machine->fact[machine->count];

    if (machine->count == MACHINE_FACTS)
        return;
    machine->count++;
    snprintf(fact->label, sizeof(fact->label), "%s", label);
    snprintf(fact->text, sizeof(fact->text), "%s", text);
    fact->changes = changes;
}

PRINTF_LIKE(3, 4)
static void add_fact(struct machine *machine, const char *label, const char *format, ...)
{
    char text[MACHINE_TEXT];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    machine_add(machine, label, text, false);
}

/* The first line of a file. */
static bool read_first_line(const char *path, char *text, size_t size)
{
    FILE *file = fopen(path, "re");
    bool good = file != NULL && fgets(text, (int)size, file) != NULL;

    if (file != NULL)
        fclose(file);
    if (good)
        text[strcspn(text, "\n")] = '\0';
    return good && text[0] != '\0';
}

/* The value of the first line "KEY <blanks> : VALUE" of a file. */
static bool read_keyed_value(const char *path, const char *key, char *text, size_t size)
{
    FILE *file = fopen(path, "re");
    char line[4096];
    bool found = false;

    while (file != NULL && !found && fgets(line, sizeof(line), file) != NULL) {
        const char *value = line + strlen(key);

        if (strncmp(line, key, strlen(key)) != 0)
            continue;
        value += strspn(value, " \t");
        if (*value != ':')
            continue;
        value++;
        value += strspn(value, " \t");
        snprintf(text, size, "%.*s", (int)strcspn(value, "\n"), value);
        found = true;
    }
    if (file != NULL)
        fclose(file);
    return found;
}

static void add_processor(struct machine *machine)
{
    char model[MACHINE_TEXT / 2] = "unknown model", governor[32];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    cpu_set_t allowed;
    int usable = (int)cores;

    read_keyed_value("/proc/cpuinfo", "model name", model, sizeof(model));
    if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0)
        usable = CPU_COUNT(&allowed);
    if (usable < cores)
        add_fact(machine, "Processor", "%s, %ld cores, %d of them available", model, cores, usable);
    else
        add_fact(machine, "Processor", "%s, %ld core%s", model, cores, cores == 1 ? "" : "s");
    if (read_first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", governor,
                        sizeof(governor)))
        add_fact(machine, "Governor", "%s", governor);
}

/* Other guests of the host may take CPU time. */
static void add_virtualisation(struct machine *machine)
{
    char flags[4096], product[64];
    bool container = access("/.dockerenv", F_OK) == 0 || access("/run/.containerenv", F_OK) == 0;
    bool virtual = read_keyed_value("/proc/cpuinfo", "flags", flags, sizeof(flags)) &&
                   strstr(flags, " hypervisor") != NULL;

    if (!virtual && !container)
        return;
    if (!read_first_line("/sys/class/dmi/id/product_name", product, sizeof(product)))
        product[0] = '\0';
    add_fact(machine, "Virtual", "%s%s%s%s%s", virtual ? "a virtual machine" : "",
             virtual && product[0] != '\0' ? ": " : "", virtual ? product : "",
             virtual && container ? ", " : "", container ? "in a container" : "");
}

void machine_describe(struct machine *machine, const char *server)
{
    char text[MACHINE_TEXT], bytes[UNITS_TEXT];
    struct utsname name;
    double load[1];
    time_t now = time(NULL);
    struct tm parts;

    machine->count = 0;
    add_processor(machine);
    if (read_keyed_value("/proc/meminfo", "MemTotal", text, sizeof(text)))
        add_fact(machine, "Memory", "%s",
                 units_format_bytes(bytes, sizeof(bytes), strtod(text, NULL) * 1024));
    add_virtualisation(machine);
    if (uname(&name) == 0)
        add_fact(machine, "Kernel", "%s %s, %s", name.sysname, name.release, name.machine);
    add_fact(machine, "Versions", "webserverd %s, wsload %s, libcurl %s", server,
             WEBSERVERD_VERSION, curl_version_info(CURLVERSION_NOW)->version);
    if (getloadavg(load, 1) == 1) {
        snprintf(text, sizeof(text), "%.2f runnable processes, average of the last minute",
                 load[0]);
        machine_add(machine, "Load", text, true);
    }
    if (localtime_r(&now, &parts) != NULL &&
        strftime(text, sizeof(text), "%Y-%m-%d %H:%M %Z", &parts) > 0)
        machine_add(machine, "Started", text, true);
}

/* ---- Usage of processes ---- */

enum { PROCESSES_MAX = 256, PROC_PATH = 80, PROC_LINE = 512 };

/* Calls FUNCTION for each thread id of PID. */
static void for_each_thread(pid_t pid, void (*function)(void *context, pid_t pid, pid_t thread),
                            void *context)
{
    char path[PROC_PATH];
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
    char path[PROC_PATH];
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

/* The sum over all threads of PID and its descendants. */
static uint64_t sum_over_threads(pid_t pid, void (*add)(void *sum, pid_t pid, pid_t thread))
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
    pid_t pids[PROCESSES_MAX] = {0};
    size_t count = find_processes(pid, pids, PROCESSES_MAX);
    uint64_t sum = 0;
    struct timespec used;
    clockid_t clock;

    for (size_t i = 0; i < count; i++)
        if (clock_getcpuclockid(pids[i], &clock) == 0 && clock_gettime(clock, &used) == 0)
            sum += (uint64_t)used.tv_sec * NS_PER_S + (uint64_t)used.tv_nsec;
    return sum;
}

static void add_switches(void *context, pid_t pid, pid_t thread)
{
    uint64_t *sum = context, switches;
    char path[PROC_PATH], line[PROC_LINE];
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
    return sum_over_threads(pid, add_switches);
}

static void add_memory(pid_t pid, struct usage *usage)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), resident = 0, shared = 0;
    char path[PROC_PATH];
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
    char path[PROC_PATH];
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

int machine_first_core(void)
{
    cpu_set_t cores;
    int core = 0;

    if (sched_getaffinity(0, sizeof(cores), &cores) != 0)
        return 0;
    while (core < CPU_SETSIZE - 1 && !CPU_ISSET((size_t)core, &cores))
        core++;
    return core;
}

/* ---- What others take ---- */

/*
 * Adds the lines "cpuN user nice system idle iowait irq softirq steal" of /proc/stat for the cores
 * of this process. Interrupts belong to no program.
 */
static void read_cores(struct contention_begin *begin)
{
    FILE *file = fopen("/proc/stat", "re");
    char line[PROC_LINE];
    cpu_set_t cores;
    unsigned core;

    if (sched_getaffinity(0, sizeof(cores), &cores) != 0)
        CPU_ZERO(&cores);
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        uint64_t user, nice, system, idle, iowait, irq, softirq, steal;

        if (sscanf(line,
                   "cpu%u %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
                   " %" SCNu64 " %" SCNu64,
                   &core, &user, &nice, &system, &idle, &iowait, &irq, &softirq, &steal) != 9 ||
            core >= CPU_SETSIZE || !CPU_ISSET(core, &cores))
            continue;
        begin->tasks += user + nice + system;
        begin->stolen += steal;
        begin->all += user + nice + system + idle + iowait + irq + softirq + steal;
    }
    if (file != NULL)
        fclose(file);
}

/* Runnable threads other than this one, per core of the machine; 0 if unknown. */
static double read_queue(void)
{
    FILE *file = fopen("/proc/loadavg", "re");
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned runnable = 0;

    if (file != NULL && fscanf(file, "%*f %*f %*f %u/", &runnable) != 1)
        runnable = 0;
    if (file != NULL)
        fclose(file);
    return runnable > 1 && cores > 0 ? (double)(runnable - 1) / (double)cores : 0;
}

static uint64_t own_cpu_ns(void)
{
    struct timespec used;

    return clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) == 0
               ? (uint64_t)used.tv_sec * NS_PER_S + (uint64_t)used.tv_nsec
               : 0;
}

struct contention_begin contention_begin(uint64_t server_ns)
{
    struct contention_begin begin = {.own_ns = own_cpu_ns() + server_ns, .waiting = read_queue()};

    read_cores(&begin);
    return begin;
}

void contention_add(struct contention *sum, const struct contention_begin *begin,
                    uint64_t server_ns)
{
    struct contention_begin end = {.own_ns = own_cpu_ns() + server_ns};
    double tick_s = 1.0 / (double)sysconf(_SC_CLK_TCK), tasks_s, own_s;

    read_cores(&end);
    if (begin->all == 0 || end.all < begin->all || end.own_ns < begin->own_ns)
        return;
    tasks_s = (double)(end.tasks - begin->tasks) * tick_s;
    own_s = (double)(end.own_ns - begin->own_ns) / (double)NS_PER_S;
    sum->all_s += (double)(end.all - begin->all) * tick_s;
    sum->stolen_s += (double)(end.stolen - begin->stolen) * tick_s;
    sum->others_s += tasks_s - own_s; /* negative in some short trials: ticks are coarse */
    sum->waiting += begin->waiting;
    sum->trials++;
}

void contention_join(struct contention *sum, const struct contention *other)
{
    sum->all_s += other->all_s;
    sum->others_s += other->others_s;
    sum->stolen_s += other->stolen_s;
    sum->waiting += other->waiting;
    sum->trials += other->trials;
}

static double percent_of(double part_s, const struct contention *sum)
{
    return sum->all_s > 0 && part_s > 0 ? 100 * part_s / sum->all_s : 0;
}

bool contention_is_high(const struct contention *sum)
{
    return percent_of(sum->others_s, sum) > CONTENTION_OTHERS_MOST ||
           percent_of(sum->stolen_s, sum) > CONTENTION_STOLEN_MOST ||
           sum->waiting > (double)sum->trials;
}

char *contention_describe(char *buffer, const struct contention *sum)
{
    snprintf(buffer, CONTENTION_TEXT,
             "other programs used %.0f%% of the CPU time, the hypervisor withheld %.0f%%, and %.1f "
             "other threads per core were runnable",
             percent_of(sum->others_s, sum), percent_of(sum->stolen_s, sum),
             sum->trials > 0 ? sum->waiting / sum->trials : 0);
    return buffer;
}
