/* Reads input files. Main thread. */
#ifndef LOADGEN_INPUT_H
#define LOADGEN_INPUT_H

#include "common/macros.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Reads all of FILE into *text, which has a NUL after its *length bytes. The caller frees *text in either case.
 * Returns false with errno.
 */
bool input_read(const char *file, char **text, size_t *length);

/* A line of a file, and where its fault is described: WHY with SIZE bytes. All borrowed. */
struct input_place {
    const char *file;
    uint32_t line;
    char *why;
    size_t size;
};

/*
 * Calls READ with each line of FILE and its LENGTH, with the line end, until it returns a number other than 0, which is
 * then returned. Returns 0 at the end, or -1 with WHY if FILE cannot be read.
 */
int input_each_line(const char *file, int (*read)(void *context, char *text, size_t length),
                    void *context, char *why, size_t size);

/* Describes a fault: "FILE:LINE: " and the message. Returns -1. */
int input_fail(struct input_place place, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
