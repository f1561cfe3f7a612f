/* The number of descriptors that this process has open, to find those that are left open. */
#ifndef TESTS_OPEN_DESCRIPTORS_H
#define TESTS_OPEN_DESCRIPTORS_H

#include "tests/test.h"

#include <dirent.h>

static inline int open_descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    int count = 0;

    assert_non_null(directory);
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count;
}

#endif
