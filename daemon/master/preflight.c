/*
 * What -t checks beside the configuration: that this process could start the server now. It changes
 * nothing.
 */
#include "daemon/master/listeners.h"
#include "daemon/master/master.h"

#include "common/clock.h"
#include "common/segment_reader.h"
#include "daemon/config/hosts.h"
#include "daemon/config/value.h"
#include "daemon/logger/log_files.h"
#include "daemon/sandbox/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Listen addresses */

/* Those of the server with this name that runs, which a reload keeps; empty: none runs. */
static void find_served(const char *name, char *listening, size_t size)
{
    struct segment_reader reader;
    char why[256];

    listening[0] = '\0';
    if (segment_attach(&reader, name, why, sizeof(why)) != SEGMENT_ATTACHED)
        return;
    if (segment_health(&reader, clock_monotonic_ns()) <= SEGMENT_SILENT)
        segment_listening(&reader.map, listening, size);
    segment_detach(&reader);
}

/* True if one of LISTENING has the port, or path, of ADDRESS. */
static bool is_served(const char *listening, const struct config_address *address)
{
    char text[sizeof(((struct segment_header *)NULL)->listening)], *rest = text, *one;
    const char *port = strrchr(address->text, ':');

    snprintf(text, sizeof(text), "%s", listening);
    while ((one = strsep(&rest, " ")) != NULL) {
        const char *other = strrchr(one, ':');

        if (other != NULL && port != NULL && strcmp(other, port) == 0)
            return true;
    }
    return false;
}

static int check_addresses(const struct config *config, char *why, size_t size)
{
    char listening[sizeof(((struct segment_header *)NULL)->listening)];

    find_served(config->server_name, listening, sizeof(listening));
    for (size_t i = 0; i < config->server_listen.count; i++)
        if (!is_served(listening, &config->server_listen.item[i]) &&
            listen_socket_check(&config->server_listen.item[i], "server.listen", why, size) != 0)
            return -1;
    for (size_t i = 0; i < config->metrics_listen.count && listening[0] == '\0'; i++)
        if (listen_socket_check(&config->metrics_listen.item[i], "metrics.listen", why, size) != 0)
            return -1;
    return 0;
}

/* Document roots */

/* The first root that this process may not enter or list; NULL: none. */
static const char *find_barred_root(const struct config *config)
{
    if (faccessat(AT_FDCWD, config->server_root, X_OK, AT_EACCESS) != 0 && errno == EACCES)
        return config->server_root;
    for (size_t i = 0; i < config->host_count; i++)
        if (faccessat(AT_FDCWD, config->hosts[i].root, X_OK, AT_EACCESS) != 0 && errno == EACCES)
            return config->hosts[i].root;
    return NULL;
}

/* Looks as the user of the workers, in a child if this is root. */
static int check_roots(const struct config *config, char *why, size_t size)
{
    struct identity identity;
    struct identity_fault fault;
    const char *barred = NULL;
    int ends[2];
    pid_t child;

    if (identity_find(config->server_user, config->server_group, geteuid(), &identity, &fault) != 0)
        return 0; /* the configuration has been checked */
    if (!identity.changes) {
        barred = find_barred_root(config);
    } else if (pipe2(ends, O_CLOEXEC) == 0) {
        child = fork();
        if (child == 0) {
            barred = identity_switch(&identity) == 0 ? find_barred_root(config) : NULL;
            (void)!write(ends[1], &barred, sizeof(barred)); /* it is in the memory of both */
            _exit(EXIT_SUCCESS);
        }
        close(ends[1]);
        if (child > 0 && read(ends[0], &barred, sizeof(barred)) != sizeof(barred))
            barred = NULL;
        while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
            continue;
        close(ends[0]);
    }
    if (barred == NULL)
        return 0;
    snprintf(why, size,
             "the workers run as user %u, who may not enter %s: its files would be answered 403 "
             "(chmod o+rx, or set server.user)",
             (unsigned int)(identity.changes ? identity.uid : geteuid()), barred);
    return -1;
}

int preflight_check(const struct config *config, char *why, size_t size)
{
    return log_files_check(config, why, size) == 0 &&
                   log_files_check_access(config, why, size) == 0 &&
                   check_addresses(config, why, size) == 0 && check_roots(config, why, size) == 0
               ? 0
               : -1;
}
