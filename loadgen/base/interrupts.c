#include "loadgen/base/interrupts.h"

#include "common/macros.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static const int signals[] = {SIGINT, SIGTERM, SIGQUIT, SIGHUP};

static struct sigaction before[ARRAY_LENGTH(signals)];
static unsigned depth;
static volatile sig_atomic_t fd = -1; /* an eventfd */

static void on_signal(int number)
{
    const uint64_t one = 1;
    int error = errno;

    (void)number;
    if (write(fd, &one, sizeof(one)) != (ssize_t)sizeof(one))
        (void)0; /* the counter is at its maximum */
    errno = error;
}

static void install(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < ARRAY_LENGTH(signals); i++) {
        sigaction(signals[i], NULL, &before[i]);
        if (signals[i] != SIGHUP || before[i].sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
    }
}

int interrupts_begin(void)
{
    if (depth == 0) {
        fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (fd < 0)
            return errno;
        install();
    }
    depth++;
    return 0;
}

void interrupts_end(void)
{
    if (--depth > 0)
        return;
    for (size_t i = 0; i < ARRAY_LENGTH(signals); i++)
        sigaction(signals[i], &before[i], NULL);
    close(fd);
    fd = -1;
}

int interrupts_fd(void)
{
    return fd;
}

uint64_t interrupts_take(void)
{
    uint64_t count = 0;

    if (read(fd, &count, sizeof(count)) != (ssize_t)sizeof(count))
        return 0;
    return count;
}

/* ---- Events of libevent ---- */

/* Only one thread may call exit(). */
_Noreturn static void end_program(int error)
{
    static atomic_flag failed = ATOMIC_FLAG_INIT;

    while (atomic_flag_test_and_set(&failed))
        pause();
    fprintf(stderr, "wsload: cannot add to the event loop: %s\n", strerror(error));
    exit(EXIT_FAILURE);
}

void events_add(struct event *event, const struct timeval *wait)
{
    errno = ENOMEM; /* libevent does not set it if its own memory is the reason */
    if (event_add(event, wait) != 0)
        end_program(errno);
}
