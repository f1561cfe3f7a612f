/* What can be turned by one step, up or down. */
#ifndef CONSOLE_KNOBS_H
#define CONSOLE_KNOBS_H

enum knob {
    KNOB_THREADS, /* serving threads in each worker */
    KNOB_WORKERS,
    KNOB_OFFLOAD_THREADS, /* at most, in each worker */
    KNOB_COUNT
};

#endif
