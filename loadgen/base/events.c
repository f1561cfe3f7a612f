#include "loadgen/base/events.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Only one thread may call exit(). */
_Noreturn static void fail(int error)
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
        fail(errno);
}
