/* What can be turned by one step, up or down. */
#ifndef CONSOLE_TUNABLES_H
#define CONSOLE_TUNABLES_H

enum tunable {
    TUNABLE_THREADS, /* serving threads in each worker */
    TUNABLE_WORKERS,
    TUNABLE_OFFLOAD_THREADS, /* at most, in each worker */
    TUNABLE_COUNT
};

#endif
