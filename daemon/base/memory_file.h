/*
 * Files in memory, which have no name and end with their last descriptor (memfd_create(2)), a
 * helper for open_memstream(3), and zeroed pages.
 */
#ifndef DAEMON_MEMORY_FILE_H
#define DAEMON_MEMORY_FILE_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>

/* Since Linux 6.3. With sysctl vm.memfd_noexec = 2 a file without it cannot be made. */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

enum { MEMORY_FILE_SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE };

/*
 * Zeros, for munmap(2). A page becomes resident when it is written; calloc() may clear memory that
 * was used before. NULL: out of memory.
 */
static inline void *memory_map_zeros(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return memory == MAP_FAILED ? NULL : memory;
}

/* An empty file, which can be sealed; NAME is for /proc. Returns a descriptor, or -1 with errno. */
static inline int memory_file_open(const char *name)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

    return fd < 0 && errno == EINVAL ? memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING) : fd;
}

/* From now on nobody can change the file. Returns 0, or -1 with errno. */
static inline int memory_file_seal(int fd)
{
    return fcntl(fd, F_ADD_SEALS, MEMORY_FILE_SEALS);
}

/* True if FD is a file in memory that nobody can change. */
static inline bool memory_file_is_sealed(int fd)
{
    int seals = fcntl(fd, F_GET_SEALS);

    return seals >= 0 && (seals & MEMORY_FILE_SEALS) == MEMORY_FILE_SEALS;
}

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
