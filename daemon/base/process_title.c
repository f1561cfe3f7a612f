#include "daemon/base/process_title.h"

#include "common/instance.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* The strings of arguments and environment, one after the other. */
static struct {
    char *start;
    size_t size; /* 0: not known */
} area;

static char server[INSTANCE_NAME_MAX + sizeof(" ()")];

/* The size of the strings of LIST that follow END one after the other. */
static size_t adjacent_bytes(char *const *list, const char *end)
{
    size_t size = 0;

    for (; *list != NULL && *list == end + size; list++)
        size += strlen(*list) + 1;
    return size;
}

/* Moves the SIZE bytes of the environment at START elsewhere. Returns false if out of memory. */
static bool move_environment(const char *start, size_t size)
{
    /* Until the end of the process; volatile: leak checkers find it. */
    __attribute__((unused)) static char *volatile kept;
    char *strings;

    if (size == 0)
        return true;
    kept = strings = malloc(size);
    if (strings == NULL)
        return false;
    memcpy(strings, start, size);
    for (char **variable = environ; *variable != NULL; variable++)
        if (*variable >= start && *variable < start + size)
            *variable = strings + (*variable - start);
    return true;
}

static char **copy_arguments(int argc, char **argv)
{
    size_t pointers = ((size_t)argc + 1) * sizeof(*argv), size = pointers;
    char **copy, *at;

    for (int i = 0; i < argc; i++)
        size += strlen(argv[i]) + 1;
    copy = calloc(1, size);
    if (copy == NULL)
        return NULL;
    at = (char *)copy + pointers;
    for (int i = 0; i < argc; i++) {
        copy[i] = at;
        at = stpcpy(at, argv[i]) + 1;
    }
    return copy;
}

char **process_title_prepare(int argc, char **argv)
{
    char **copy = copy_arguments(argc, argv);
    /* The kernel puts the strings above the pointers to them. */
    bool own = argv[0] > (const char *)argv;
    size_t arguments = own ? adjacent_bytes(argv, argv[0]) : 0;
    size_t environment = own ? adjacent_bytes(environ, argv[0] + arguments) : 0;

    if (copy == NULL || !move_environment(argv[0] + arguments, environment)) {
        free(copy);
        return NULL;
    }
    area.start = argv[0];
    area.size = arguments + environment;
    return copy;
}

void process_title_set_server(const char *name)
{
    if (strcmp(name, INSTANCE_DEFAULT_NAME) == 0)
        server[0] = '\0';
    else
        snprintf(server, sizeof(server), " (%s)", name);
}

void process_title_format(char *title, size_t size, const char *role)
{
    snprintf(title, size, "webserverd: %s%s", role, server);
}

static void set_title(const char *role)
{
    char title[PROCESS_TITLE_BYTES];
    size_t length;

    if (area.size == 0)
        return;
    process_title_format(title, sizeof(title), role);
    length = strlen(title);
    length = length < area.size ? length : area.size - 1;
    memcpy(area.start, title, length);
    memset(area.start + length, 0, area.size - length);
}

void process_title_set_master(void)
{
    set_title("master");
}

void process_title_set_child(const char *role, ...)
{
    char text[32], name[sizeof("ws-") + sizeof(text)];
    va_list arguments;

    va_start(arguments, role);
    vsnprintf(text, sizeof(text), role, arguments);
    va_end(arguments);
    set_title(text);
    snprintf(name, sizeof(name), "ws-%s", text);
    for (char *blank = name; (blank = strchr(blank, ' ')) != NULL;)
        *blank = '-'; /* a blank would add a word to /proc/PID/stat */
    prctl(PR_SET_NAME, name);
}
