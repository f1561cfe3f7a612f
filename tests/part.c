#include "tests/part.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void read_part(size_t *part, size_t *parts)
{
    const char *text = getenv("TEST_PART");

    *part = *parts = 1;
    if (text != NULL &&
        (sscanf(text, "%zu/%zu", part, parts) != 2 || *part == 0 || *part > *parts)) {
        fprintf(stderr, "invalid TEST_PART '%s' (example: 2/5)\n", text);
        exit(EXIT_FAILURE);
    }
}

bool part_has(size_t number)
{
    size_t part, parts;

    read_part(&part, &parts);
    return number % parts == part - 1;
}

size_t part_select(struct CMUnitTest *tests, size_t count)
{
    const char *name = getenv("TEST_NAME");
    size_t part, parts, selected = 0;

    read_part(&part, &parts);
    if (count < parts) {
        fprintf(stderr, "%zu tests have no %zu parts\n", count, parts);
        exit(EXIT_FAILURE);
    }
    for (size_t i = 0; i < count; i++)
        if (part_has(i) && (name == NULL || strcmp(name, tests[i].name) == 0))
            tests[selected++] = tests[i];
    setvbuf(stdout, NULL, _IOLBF, 0); /* a test that hangs shows its name */
    umask(022); /* workers of root read the files of the tests as another user */
    return selected;
}
