#include "daemon/sandbox/sandbox.h"

#include "common/macros.h"
#include "daemon/base/events.h"
#include "daemon/sandbox/identity.h"
#include "daemon/sandbox/seccomp.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANDBOX_BUILT false
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANDBOX_BUILT false
#endif
#endif
#ifndef SANDBOX_BUILT
#define SANDBOX_BUILT true
#endif

static bool seccomp_prepared; /* set by sandbox_prepare() */

static int landlock_version(void)
{
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

    return version > 0 ? (int)version : 0;
}

struct sandbox_features sandbox_features(void)
{
    if (!SANDBOX_BUILT)
        return (struct sandbox_features){.built = false};
    return (struct sandbox_features){true, landlock_version(), seccomp_possible()};
}

void sandbox_describe(char *text, size_t size)
{
    struct sandbox_features features = sandbox_features();
    char landlock[32] = "no Landlock";

    if (features.landlock > 0)
        snprintf(landlock, sizeof(landlock), "Landlock %d", features.landlock);
    if (features.built)
        snprintf(text, size, "%s, %s", landlock, features.seccomp ? "seccomp" : "no seccomp");
    else
        snprintf(text, size, "none (sanitizer build)");
}

/*
 * If a link's target changes between the check and the open, only Landlock prevents access outside.
 */
static bool can_follow_links(void)
{
    return !SANDBOX_BUILT || landlock_version() > 0;
}

const struct config_system sandbox_config_system = {identity_check, can_follow_links};

int sandbox_prepare(void)
{
    seccomp_prepared = SANDBOX_BUILT && seccomp_possible();
    return seccomp_prepared ? seccomp_prepare() : 0;
}

/* Landlock */

/*
 * struct landlock_ruleset_attr with ABI 4 and 6, which the headers of Debian 12 lack; landlock(7).
 */
struct ruleset {
    uint64_t fs;
    uint64_t net;
    uint64_t scoped;
};

enum {
    NET_BIND_TCP = 1 << 0,
    NET_CONNECT_TCP = 1 << 1,
    SCOPE_ABSTRACT_UNIX_SOCKET = 1 << 0,
    SCOPE_SIGNAL = 1 << 1,
};

/* The rights that each ABI version added. */
static const struct ruleset rights_by_version[] = {
    {.fs = (1 << 13) - 1},
    {.fs = 1 << 13}, /* REFER */
    {.fs = 1 << 14}, /* TRUNCATE */
    {.net = NET_BIND_TCP | NET_CONNECT_TCP},
    {.fs = 1 << 15}, /* IOCTL_DEV */
    {.scoped = SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL},
};

/* Restricts every right of VERSION. An older kernel rejects a struct with unknown fields. */
static int make_ruleset(int version)
{
    struct ruleset all = {0};
    size_t size = version < 4   ? offsetof(struct ruleset, net)
                  : version < 6 ? offsetof(struct ruleset, scoped)
                                : sizeof(all);

    for (int i = 0; i < version && i < (int)ARRAY_LENGTH(rights_by_version); i++) {
        all.fs |= rights_by_version[i].fs;
        all.net |= rights_by_version[i].net;
        all.scoped |= rights_by_version[i].scoped;
    }
    return (int)syscall(SYS_landlock_create_ruleset, &all, size, 0);
}

static int restrict_files(const int *directories, size_t count)
{
    int version = landlock_version();
    int ruleset, failed = 0;

    if (version == 0)
        return 0;
    ruleset = make_ruleset(version);
    if (ruleset < 0)
        return -1;
    for (size_t i = 0; i < count && failed == 0; i++) {
        const struct landlock_path_beneath_attr below = {
            .allowed_access = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR,
            .parent_fd = directories[i],
        };

        failed =
            (int)syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &below, 0);
    }
    if (failed == 0)
        failed = (int)syscall(SYS_landlock_restrict_self, ruleset, 0);
    close(ruleset);
    return failed;
}

int sandbox_restrict(const int *directories, size_t count)
{
    const struct rlimit no_core = {0, 0};

    if (!SANDBOX_BUILT)
        return 0;
    if (setrlimit(RLIMIT_CORE, &no_core) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        restrict_files(directories, count) != 0)
        return -1;
    return seccomp_prepared ? seccomp_enter() : 0;
}

/* Entering */

static int by_number(const void *one, const void *other)
{
    const int *a = one, *b = other;

    return (*a > *b) - (*a < *b);
}

void sandbox_close_others(int *keep, size_t count)
{
    unsigned int next = STDERR_FILENO + 1;

    qsort(keep, count, sizeof(*keep), by_number);
    for (size_t i = 0; i < count; i++) {
        if (keep[i] < (int)next)
            continue;
        if (keep[i] > (int)next)
            close_range(next, (unsigned int)keep[i] - 1, 0);
        next = (unsigned int)keep[i] + 1;
    }
    close_range(next, UINT32_MAX, 0);
}

static int become_user(const struct config *config)
{
    struct identity identity;
    struct identity_fault fault;

    if (identity_find(config->server_user, config->server_group, geteuid(), &identity, &fault) !=
        0) {
        event_log(LEVEL_ERROR, "[server] %s: %s", fault.group ? "group" : "user", fault.text);
        return -1;
    }
    if (identity_switch(&identity) == 0)
        return 0;
    event_log(LEVEL_ERROR, "a worker cannot become user %u: %s", identity.uid, strerror(errno));
    return -1;
}

/* Opens the directories that may be read and applies Landlock and seccomp. */
static int restrict_access(const struct sandbox_setup *setup)
{
    int directories[1 + CONFIG_LIST_MAX] = {setup->root}, failed = 0;
    size_t count = 1;

    while (failed == 0 && count <= setup->link_root_count) {
        const char *path = setup->link_root[count - 1];

        directories[count] = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        failed = directories[count] < 0 ? -1 : 0;
        if (failed != 0)
            event_log(LEVEL_ERROR, "[files] follow_into: %s: %s", path, strerror(errno));
        count += failed == 0;
    }
    if (failed == 0)
        failed = sandbox_restrict(directories, count);
    while (--count > 0)
        close(directories[count]);
    return failed;
}

int sandbox_enter(const struct sandbox_setup *setup)
{
    int keep[SANDBOX_KEEP_MAX + 1];

    assert(setup->keep_count <= SANDBOX_KEEP_MAX);
    memcpy(keep, setup->keep, setup->keep_count * sizeof(*keep));
    keep[setup->keep_count] = setup->root;
    sandbox_close_others(keep, setup->keep_count + 1);
    if (become_user(setup->config) != 0)
        return -1;
    if (setup->config->server_jail && restrict_access(setup) != 0) {
        event_log(LEVEL_ERROR, "a worker cannot enter its sandbox: %s", strerror(errno));
        return -1;
    }
    return 0;
}
