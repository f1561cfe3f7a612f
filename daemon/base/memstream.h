/* A helper for open_memstream(3). */
#ifndef DAEMON_MEMSTREAM_H
#define DAEMON_MEMSTREAM_H

#include <errno.h>
#include <stdio.h>

/*
 * Closes OUT, which writes to *TEXT; the caller frees *TEXT in any case. Returns 0, or ENOMEM, also
 * if glibc reports success but leaves *TEXT NULL.
 */
static inline int memstream_close(FILE *out, char *const *text)
{
    int failed = ferror(out);

    return fclose(out) != 0 || failed || *text == NULL ? ENOMEM : 0;
}

#endif
