/* The end of an open_memstream(3). */
#ifndef DAEMON_MEMORY_FILE_H
#define DAEMON_MEMORY_FILE_H

#include <errno.h>
#include <stdio.h>

/*
 * Closes OUT, which writes to *TEXT; the caller frees that in any case. Returns 0, or ENOMEM: glibc
 * does not always say so itself, but leaves no text.
 */
static inline int memory_file_close(FILE *out, char *const *text)
{
    int failed = ferror(out);

    return fclose(out) != 0 || failed || *text == NULL ? ENOMEM : 0;
}

#endif
