#include "daemon/base/memory_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

/* Since Linux 6.3. With sysctl vm.memfd_noexec = 2 a file without it cannot be made. */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

enum { ALL_SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE };

int memory_file_open(const char *name)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

    return fd < 0 && errno == EINVAL ? memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING) : fd;
}

int memory_file_seal(int fd)
{
    return fcntl(fd, F_ADD_SEALS, ALL_SEALS);
}

bool memory_file_is_sealed(int fd)
{
    int seals = fcntl(fd, F_GET_SEALS);

    return seals >= 0 && (seals & ALL_SEALS) == ALL_SEALS;
}
