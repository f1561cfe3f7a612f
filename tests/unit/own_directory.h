/* A directory that only the running test uses. */
#ifndef TESTS_OWN_DIRECTORY_H
#define TESTS_OWN_DIRECTORY_H

#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char own_directory[32]; /* its path */

static inline void own_directory_make(void)
{
    strcpy(own_directory, "/tmp/webserverd-unit-XXXXXX");
    assert_non_null(mkdtemp(own_directory));
}

/* With what is in it. Returns 0, or -1. */
static inline int own_directory_remove(void)
{
    char command[64];

    snprintf(command, sizeof(command), "rm -rf %s", own_directory);
    return system(command) == 0 ? 0 : -1;
}

#endif
