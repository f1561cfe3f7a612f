#include "daemon/master/process_record.h"

#include "common/clock.h"
#include "common/segment.h"
#include "daemon/base/events.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

enum { BOOT_BYTES = 40, KILLED_MS = 2000, LOCK_TRIES = 100, LOCK_PAUSE_MS = 1 };

struct recorded_process {
    char boot[BOOT_BYTES]; /* start times of different boots cannot be compared */
    int pid;
    uint64_t start_ticks;
};

static void identify_this_process(struct recorded_process *process)
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

    *process = (struct recorded_process){
        .boot = "-", .pid = getpid(), .start_ticks = process_start_ticks(getpid())};
    if (file == NULL)
        return;
    if (fscanf(file, "%39s", process->boot) != 1)
        strcpy(process->boot, "-");
    fclose(file);
}

/*
 * Reads the processes that have not ended, without this one. Returns their number. The caller frees
 * *LIST.
 */
static size_t read_living(FILE *file, const struct recorded_process *self,
                          struct recorded_process **list)
{
    struct recorded_process process, *larger;
    size_t count = 0;

    *list = NULL;
    rewind(file);
    while (fscanf(file, "%39s %d %" SCNu64, process.boot, &process.pid, &process.start_ticks) ==
           3) {
        if (process.pid <= 0 || process.pid == self->pid || strcmp(process.boot, self->boot) != 0 ||
            process_has_ended(process.pid, process.start_ticks))
            continue;
        larger = realloc(*list, (count + 1) * sizeof(*larger));
        if (larger == NULL)
            break;
        *list = larger;
        larger[count++] = process;
    }
    return count;
}

/*
 * Opens the record FD again, as descriptors that are copies share one position. Others must not read
 * or write meanwhile; but the process that holds the record may be stopped, so that the wait for it
 * ends. *LOCKED is then false.
 */
static FILE *open_record(int fd, bool write, bool *locked)
{
    struct flock whole = {.l_type = write ? F_WRLCK : F_RDLCK, .l_whence = SEEK_SET};
    char path[32];
    FILE *file;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    file = fopen(path, write ? "r+e" : "re");
    *locked = false;
    for (int tries = 0; file != NULL && !*locked && tries < LOCK_TRIES; tries++) {
        *locked = fcntl(fileno(file), F_SETLK, &whole) == 0; /* until fclose() */
        if (!*locked)
            usleep(LOCK_PAUSE_MS * 1000);
    }
    return file;
}

/* read_living() for the record FD. */
static size_t read_record(int fd, struct recorded_process **living)
{
    struct recorded_process self;
    bool locked;
    size_t count;
    FILE *file = open_record(fd, false, &locked);

    *living = NULL;
    if (file == NULL)
        return 0;
    identify_this_process(&self);
    count = read_living(file, &self, living);
    fclose(file);
    return count;
}

static void write_process(FILE *file, const struct recorded_process *process)
{
    fprintf(file, "%s %d %" PRIu64 "\n", process->boot, process->pid, process->start_ticks);
}

void process_record_add(int fd)
{
    bool locked;
    FILE *file = open_record(fd, true, &locked);
    struct recorded_process self, *living = NULL;
    size_t count;

    if (file == NULL)
        return;
    identify_this_process(&self);
    if (locked) {
        count = read_living(file, &self, &living);
        rewind(file);
        for (size_t i = 0; i < count; i++)
            write_process(file, &living[i]);
    } else {
        fseek(file, 0, SEEK_END);
    }
    write_process(file, &self);
    if (fflush(file) == 0 && locked)
        (void)!ftruncate(fileno(file), ftell(file));
    free(living);
    fclose(file);
}

bool process_record_lives(int fd, pid_t pid)
{
    struct recorded_process *living;
    size_t count = read_record(fd, &living);
    bool lives = false;

    for (size_t i = 0; i < count; i++)
        lives |= pid == 0 || living[i].pid == pid;
    free(living);
    return lives;
}

/* Returns a descriptor that means exactly PROCESS; -1: it has ended, or the kernel has none. */
static int open_process(const struct recorded_process *process)
{
    int fd = pidfd_open(process->pid, 0);

    if (fd < 0 || !process_has_ended(process->pid, process->start_ticks))
        return fd;
    close(fd);
    return -1;
}

static bool has_exited(int pidfd, int wait_ms)
{
    struct pollfd readable = {.fd = pidfd, .events = POLLIN};

    return poll(&readable, 1, wait_ms) > 0;
}

static void kill_process(int pidfd, pid_t pid, const char *why)
{
    event_log(LEVEL_WARN, "process %d of the previous server %s: killing it", pid, why);
    pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
}

/* The others may wait for the end of those that are stopped. */
static void kill_stopped(const struct recorded_process *process, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int pidfd = process_is_stopped(process[i].pid) ? open_process(&process[i]) : -1;

        if (pidfd < 0)
            continue;
        kill_process(pidfd, process[i].pid, "is stopped");
        close(pidfd);
    }
}

void process_record_end_all(int fd, int wait_ms)
{
    uint64_t deadline_ns = clock_monotonic_ns() + (uint64_t)wait_ms * NS_PER_MS;
    struct recorded_process *living;
    size_t count = read_record(fd, &living);

    kill_stopped(living, count);
    for (size_t i = 0; i < count; i++) {
        uint64_t now_ns = clock_monotonic_ns();
        int left_ms = now_ns < deadline_ns ? (int)((deadline_ns - now_ns) / NS_PER_MS) : 0;
        int pidfd = open_process(&living[i]);

        if (pidfd < 0)
            continue;
        if (!has_exited(pidfd, left_ms)) {
            kill_process(pidfd, living[i].pid, "does not end");
            has_exited(pidfd, KILLED_MS);
        }
        close(pidfd);
    }
    free(living);
}
