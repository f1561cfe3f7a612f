/* The number of descriptors that this process has open, to find those that are left open. */
#ifndef TESTS_OPEN_DESCRIPTORS_H
#define TESTS_OPEN_DESCRIPTORS_H

#include <dirent.h>

/* -1: /proc cannot be read. */
static inline int open_descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    int count = directory != NULL ? 0 : -1;

    while (directory != NULL && readdir(directory) != NULL)
        count++;
    if (directory != NULL)
        closedir(directory);
    return count;
}

#endif
