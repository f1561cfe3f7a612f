/*
 * Files of a private server's site that an experiment asks for one after the other, and the list of
 * their URLs, as wsload's -f reads it. Main thread.
 */
#ifndef LOADGEN_LAB_FILES_H
#define LOADGEN_LAB_FILES_H

#include "loadgen/lab/points.h"

struct files {
    struct private_server *server;
    const char *name; /* "/NAME/NUMBER.bin" */
    uint32_t count;
    size_t bytes; /* of each */
};

/* Writes the files. Returns 0, or -1 with WHY. */
int files_write(struct lab *lab, const struct files *files);

/* Waits until the disk has them: what it has not cannot be forgotten. Returns 0, or -1 with WHY. */
int files_settle(struct lab *lab, const struct files *files);

/*
 * Writes a list of COUNT numbers of them, in that order, and makes POINT ask for them, each once.
 * NAME is the list's. Returns 0, or -1 with WHY.
 */
int files_ask(struct lab *lab, const struct files *files, struct point *point, const char *name,
              const uint32_t *numbers, size_t count);

/* Asks the kernel to forget what it has of them in memory. Returns 0, or -1 with WHY. */
int files_forget(struct lab *lab, const struct files *files);

/* Reads them, so that the kernel has them in memory. Returns 0, or -1 with WHY. */
int files_read(struct lab *lab, const struct files *files);

/*
 * How many of them have their first byte in memory, in percent; NAN when that cannot be told. Asking
 * does not bring them there.
 */
double files_in_memory(const struct files *files);

#endif
