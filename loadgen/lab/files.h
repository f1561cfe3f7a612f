/* Numbered files on a private server, and lists of their URLs for wsload's -f. Main thread. */
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

/*
 * Waits until the files are on the disk: the kernel cannot evict dirty pages. Returns 0, or -1 with
 * WHY.
 */
int files_sync(struct lab *lab, const struct files *files);

/*
 * Makes POINT request the files with the COUNT NUMBERS, in this order, once. Writes their URLs to
 * NAME.list in the server's directory. Returns 0, or -1 with WHY.
 */
int files_request(struct lab *lab, const struct files *files, struct point *point, const char *name,
                  const uint32_t *numbers, size_t count);

/* Asks the kernel to evict them from its page cache. Returns 0, or -1 with WHY. */
int files_evict(struct lab *lab, const struct files *files);

/* Reads them into the page cache. Returns 0, or -1 with WHY. */
int files_preload(struct lab *lab, const struct files *files);

/*
 * The percentage of files whose first byte is in the page cache; NAN if unknown. Does not load
 * them.
 */
double files_cached(const struct files *files);

#endif
