/* Files in memory, which have no name and end with their last descriptor (memfd_create(2)). */
#ifndef DAEMON_MEMORY_FILE_H
#define DAEMON_MEMORY_FILE_H

#include <stdbool.h>

/* An empty file, which can be sealed; NAME is for /proc. Returns a descriptor, or -1 with errno. */
int memory_file_open(const char *name);

/* From now on nobody can change the file. Returns 0, or -1 with errno. */
int memory_file_seal(int fd);

/* True if FD is a file in memory that nobody can change. */
bool memory_file_is_sealed(int fd);

#endif
