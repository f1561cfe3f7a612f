/* What is wrong with a value of the configuration, and whoever is told of it. Any thread. */
#ifndef DAEMON_CONFIG_FAULT_H
#define DAEMON_CONFIG_FAULT_H

#include "common/macros.h"

#include <stddef.h>

enum { CONFIG_PROBLEM_MAX = 256, CONFIG_ADVICE_MAX = 512 };

/* What is wrong with a text, and which part of it. */
struct config_fault {
    size_t offset, length; /* of the offending word, bytes */
    const char *problem, *advice;
};

/* Who is told of faults; a text may have more than one. The fault is valid during the call. */
struct config_faults {
    void (*tell)(void *owner, const struct config_fault *fault);
    void *owner;
};

/* Tells of one fault, in the words of FORMAT. Returns -1. */
int config_fault_tell(const struct config_faults *faults, size_t offset, size_t length,
                      const char *advice, const char *format, ...) PRINTF_LIKE(5, 6);
int config_fault_memory(const struct config_faults *faults);

#endif
