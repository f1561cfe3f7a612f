#include "common/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { START_TIME_FIELD = 22 };

uint64_t process_start_ticks(pid_t pid)
{
    char path[40], text[1024];
    const char *field;
    size_t length;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    file = fopen(path, "re");
    if (file == NULL)
        return 0;
    length = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[length] = '\0';
    field = strrchr(text, ')'); /* the name may hold anything; field 2 ends here */
    for (int number = 2; field != NULL && number < START_TIME_FIELD; number++)
        field = strchr(field + 1, ' ');
    return field != NULL ? strtoull(field, NULL, 10) : 0;
}
