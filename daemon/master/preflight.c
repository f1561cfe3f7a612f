/*
 * What -t checks beside the configuration: that this process could start the server now. It changes
 * nothing.
 */
#include "daemon/master/listeners.h"
#include "daemon/master/master.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_reader.h"
#include "daemon/base/directory.h"
#include "daemon/config/hosts.h"
#include "daemon/config/value.h"
#include "daemon/logger/log_files.h"
#include "daemon/sandbox/identity.h"
#include "daemon/sandbox/service.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

/* An address of metrics.listen that server.listen has, too; NULL: none. */
static const char *find_shared_address(const struct config *config)
{
    for (size_t i = 0; i < config->metrics_listen.count; i++)
        for (size_t j = 0; j < config->server_listen.count; j++)
            if (listen_socket_port(&config->metrics_listen.item[i]) != 0 &&
                strcmp(config->metrics_listen.item[i].text, config->server_listen.item[j].text) ==
                    0)
                return config->metrics_listen.item[i].text;
    return NULL;
}

static int check_addresses(const struct config *config, bool activated,
                           void (*report)(const char *why))
{
    char listening[sizeof(((struct segment_header *)NULL)->listening)], why[512];
    const char *shared = activated ? NULL : find_shared_address(config);
    int result = 0;

    if (shared != NULL) {
        snprintf(why, sizeof(why),
                 "metrics.listen and server.listen both have %s: give one of them another port",
                 shared);
        report(why);
        result = -1;
    }
    find_served(config->server_name, listening, sizeof(listening));
    for (size_t i = 0; i < config->server_listen.count && !activated; i++) {
        const struct config_address *address = &config->server_listen.item[i];

        if (is_served(listening, address) ||
            listen_socket_check(address, "server.listen", why, sizeof(why)) == 0)
            continue;
        report(why);
        result = -1;
    }
    for (size_t i = 0; i < config->metrics_listen.count && listening[0] == '\0'; i++) {
        if (listen_socket_check(&config->metrics_listen.item[i], "metrics.listen", why,
                                sizeof(why)) == 0)
            continue;
        report(why);
        result = -1;
    }
    return result;
}

/* The run directory and the control socket */

/* Whether this user may make PATH in its directory. */
static bool can_make(const char *path, const char *what, const char *key,
                     void (*report)(const char *why))
{
    struct directory_entry entry;
    char why[PATH_MAX + 256];
    bool found = directory_find(&entry, path, 0) == 0, can;
    int error;

    can = found && faccessat(entry.directory, ".", W_OK | X_OK, AT_EACCESS) == 0;
    error = errno;
    if (found)
        close(entry.directory);
    if (can)
        return true;
    snprintf(why, sizeof(why), "cannot create the %s %s: %s (set %s)", what, path, strerror(error),
             key);
    report(why);
    return false;
}

/*
 * A run directory that exists may belong to the user of a service. The control socket is in it
 * unless it has a path of its own.
 */
static int check_control(const struct config *config, void (*report)(const char *why))
{
    const char *run_dir = config->server_run_dir, *socket = config->control_socket;
    size_t length = strlen(run_dir);
    bool inside = strncmp(socket, run_dir, length) == 0 && socket[length] == '/';
    bool good =
        access(run_dir, F_OK) == 0 || can_make(run_dir, "run directory", "server.run_dir", report);

    if (!inside && !can_make(socket, "control socket", "control.socket", report))
        good = false;
    return good ? 0 : -1;
}

/* Certificates and keys */

static int check_readable(const struct config_words *files, void (*report)(const char *why))
{
    char why[PATH_MAX + 256];
    int result = 0;

    for (size_t i = 0; i < files->count; i++) {
        if (faccessat(AT_FDCWD, files->item[i], R_OK, AT_EACCESS) == 0)
            continue;
        snprintf(why, sizeof(why), "[tls] certificate: %s: %s%s", files->item[i], strerror(errno),
                 errno == EACCES ? " (for a service: LoadCredential=, or a group that may read it, "
                                   "by SupplementaryGroups=)"
                                 : "");
        report(why);
        result = -1;
    }
    return result;
}

static int check_certificates(const struct config *config, void (*report)(const char *why))
{
    int result = check_readable(&config->tls_certificate, report);

    result = check_readable(&config->tls_key, report) != 0 ? -1 : result;
    for (size_t i = 0; i < config->host_count; i++) {
        const struct config_host *host = &config->hosts[i];

        if (host->given[HOST_KEY_certificate] && (check_readable(&host->certificate, report) != 0 ||
                                                  check_readable(&host->key, report) != 0))
            result = -1;
    }
    return result;
}

/* Document roots */

static const char *root_of(const struct config *config, size_t site)
{
    return site == 0 ? config->server_root : config->hosts[site - 1].root;
}

/*
 * The first root that the workers may not enter; NULL: none. The master opens the roots, so only
 * their own permissions count. With IDENTITY, which is taken, in a child.
 */
static const char *find_barred_root(const struct config *config, const struct identity *identity)
{
    size_t count = config->host_count + 1, i = 0;
    int *fd = calloc(count, sizeof(*fd));
    const char *barred = NULL;
    struct stat status;

    for (i = 0; fd != NULL && i < count; i++)
        fd[i] = open(root_of(config, i), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd != NULL && (!identity->changes || identity_switch(identity) == 0))
        for (i = 0; i < count && barred == NULL; i++)
            if (fd[i] >= 0 && fstatat(fd[i], ".", &status, 0) != 0 && errno == EACCES)
                barred = root_of(config, i);
    for (i = 0; fd != NULL && i < count; i++)
        if (fd[i] >= 0)
            close(fd[i]);
    free(fd);
    return barred;
}

static const char *find_barred_root_in_child(const struct config *config,
                                             const struct identity *identity)
{
    const char *barred = NULL;
    int ends[2];
    pid_t child;

    if (pipe2(ends, O_CLOEXEC) != 0)
        return NULL;
    child = fork();
    if (child == 0) {
        barred = find_barred_root(config, identity);
        (void)!write(ends[1], &barred, sizeof(barred)); /* it is in the memory of both */
        _exit(EXIT_SUCCESS);
    }
    close(ends[1]);
    if (child < 0 || read(ends[0], &barred, sizeof(barred)) != sizeof(barred))
        barred = NULL;
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
        continue;
    close(ends[0]);
    return barred;
}

static int check_roots(const struct config *config, void (*report)(const char *why))
{
    struct identity identity;
    struct identity_fault fault;
    const char *barred;
    char why[PATH_MAX + 256];

    if (identity_find(config->server_user, config->server_group, geteuid(), &identity, &fault) != 0)
        return 0; /* the configuration has been checked */
    barred = identity.changes ? find_barred_root_in_child(config, &identity)
                              : find_barred_root(config, &identity);
    if (barred == NULL)
        return 0;
    snprintf(why, sizeof(why),
             "the workers run as user %u, who may not enter %s: its files would be answered 403 "
             "(chmod o+rx, or set server.user)",
             (unsigned int)(identity.changes ? identity.uid : geteuid()), barred);
    report(why);
    return -1;
}

int preflight_check(const struct config *config, const struct service *service,
                    void (*report)(const char *why))
{
    const int results[] = {
        log_files_check_access(config, report),
        check_addresses(config, service != NULL && service->activated, report),
        service != NULL ? 0 : check_control(config, report), /* RuntimeDirectory= makes it */
        check_certificates(config, report),
        check_roots(config, report),
    };
    char why[512];
    int result = log_files_check(config, why, sizeof(why));

    if (result != 0)
        report(why);
    for (size_t i = 0; i < ARRAY_LENGTH(results); i++)
        result = results[i] != 0 ? -1 : result;
    return result;
}
