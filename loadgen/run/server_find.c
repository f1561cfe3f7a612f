#include "loadgen/run/server_find.h"

#include "common/clock.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEGMENTS "/dev/shm"
#define PREFIX   "webserverd."

/* Whether ADDRESS, as the server names what it listens on, is where TARGET leads. */
static bool is_at(const char *address, const struct target *target)
{
    static const char *const any[] = {"*", "0.0.0.0", "[::]"};
    static const char *const local[] = {"127.0.0.1", "[::1]", "localhost", "::1"};
    const char *colon = strrchr(address, ':');
    size_t length = colon != NULL ? (size_t)(colon - address) : 0;
    bool host_is_local = false, for_all = false, for_local = false;

    if (colon == NULL || (uint16_t)strtoul(colon + 1, NULL, 10) != target->port)
        return false;
    for (size_t i = 0; i < sizeof(local) / sizeof(local[0]); i++) {
        host_is_local |= strcmp(target->host, local[i]) == 0;
        for_local |= strlen(local[i]) == length && strncmp(address, local[i], length) == 0;
    }
    for (size_t i = 0; i < sizeof(any) / sizeof(any[0]); i++)
        for_all |= strlen(any[i]) == length && strncmp(address, any[i], length) == 0;
    return (host_is_local && (for_all || for_local)) ||
           (strlen(target->host) == length && strncmp(address, target->host, length) == 0);
}

static bool listens_at(const struct segment_reader *reader, const struct request_plan *request_plan)
{
    char text[sizeof(reader->map.header->listening) + 1], *rest = NULL;
    const char *path = request_plan->plan->unix_socket;

    snprintf(text, sizeof(text), "%s", reader->map.header->listening);
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        bool of_unix = strncmp(word, "unix:", 5) == 0;

        if (path != NULL ? of_unix && strcmp(word + 5, path) == 0
                         : !of_unix && is_at(word, &request_plan->requests[0].target))
            return true;
    }
    return false;
}

/* Attaches to the server of that name if it runs and listens at the target. */
static bool try_name(struct segment_reader *reader, const char *name,
                     const struct request_plan *request_plan)
{
    char why[256];

    if (segment_attach(reader, name, why, sizeof(why)) != SEGMENT_ATTACHED)
        return false;
    if (segment_health(reader, clock_monotonic_ns()) == SEGMENT_ALIVE &&
        listens_at(reader, request_plan))
        return true;
    segment_detach(reader);
    return false;
}

/* Requests to several hosts, or sent elsewhere than they are named for, are nobody's. */
static bool can_be_found(const struct request_plan *request_plan)
{
    for (size_t i = 0; i < request_plan->count; i++)
        if (request_plan->requests[i].origin != 0)
            return false;
    return request_plan->plan->redirection_count == 0 && request_plan->plan->proxy == NULL;
}

bool server_find(const struct request_plan *request_plan, struct segment_reader *reader)
{
    DIR *folder = can_be_found(request_plan) ? opendir(SEGMENTS) : NULL;
    const struct dirent *entry;
    bool found = false;

    while (folder != NULL && !found && (entry = readdir(folder)) != NULL)
        if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) == 0)
            found = try_name(reader, entry->d_name + strlen(PREFIX), request_plan);
    if (folder != NULL)
        closedir(folder);
    return found;
}
