/* A helper for open_memstream(3). */
#ifndef DAEMON_MEMSTREAM_H
#define DAEMON_MEMSTREAM_H

#include <errno.h>
#include <stdio.h>

/*
 * Closes OUT, which writes to *TEXT. Returns 0 or ENOMEM; the caller frees *TEXT in both cases.
 * Checks *TEXT too, because glibc may report success and leave it NULL.
 */
static inline int memstream_close(FILE *out, char *const *text)
{
    int failed = ferror(out);

    return fclose(out) != 0 || failed || *text == NULL ? ENOMEM : 0;
}

#endif
