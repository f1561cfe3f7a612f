#include "loadgen/plan/input.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

enum { STEP = 64 * 1024 };

static bool read_all(FILE *file, char **text, size_t *length)
{
    size_t capacity = 0;

    do {
        char *grown = realloc(*text, capacity + STEP + 1);

        if (grown == NULL)
            return false;
        *text = grown;
        capacity += STEP;
        *length += fread(*text + *length, 1, capacity - *length, file);
    } while (*length == capacity);
    (*text)[*length] = '\0';
    return ferror(file) == 0;
}

bool input_read(const char *file, char **text, size_t *length)
{
    FILE *in = fopen(file, "re");
    bool good;
    int error;

    *text = NULL;
    *length = 0;
    if (in == NULL)
        return false;
    good = read_all(in, text, length);
    error = errno;
    fclose(in);
    errno = error;
    return good;
}

int input_each_line(const char *file, int (*read)(void *context, char *text, size_t length),
                    void *context, char *why, size_t size)
{
    FILE *in = fopen(file, "re");
    char *text = NULL;
    size_t capacity = 0;
    ssize_t length;
    int result = 0;

    if (in == NULL) {
        snprintf(why, size, "cannot read '%s': %s", file, strerror(errno));
        return -1;
    }
    while (result == 0 && (length = getline(&text, &capacity, in)) > 0)
        result = read(context, text, (size_t)length);
    if (result == 0 && !feof(in)) {
        snprintf(why, size, "cannot read '%s': %s", file, strerror(errno));
        result = -1;
    }
    free(text);
    fclose(in);
    return result;
}

int input_fail(struct input_place place, const char *format, ...)
{
    va_list arguments;
    int used = snprintf(place.why, place.size, "%s:%u: ", place.file, place.line);

    va_start(arguments, format);
    if (used >= 0 && (size_t)used < place.size)
        vsnprintf(place.why + used, place.size - (size_t)used, format, arguments);
    va_end(arguments);
    return -1;
}
