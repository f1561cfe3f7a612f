#include "daemon/sandbox/sandbox.h"

#include "common/macros.h"
#include "daemon/sandbox/seccomp.h"

#include <errno.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define JAIL_BUILT false
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define JAIL_BUILT false
#endif
#endif
#ifndef JAIL_BUILT
#define JAIL_BUILT true
#endif

/* Newer than the headers of Debian 12: versions 4 and 6 of the interface, see landlock(7). */
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

/* What each version of the interface added to the first one's thirteen rights on files. */
static const struct ruleset rights_by_version[] = {
    {.fs = (1 << 13) - 1},
    {.fs = 1 << 13}, /* REFER */
    {.fs = 1 << 14}, /* TRUNCATE */
    {.net = NET_BIND_TCP | NET_CONNECT_TCP},
    {.fs = 1 << 15}, /* IOCTL_DEV */
    {.scoped = SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL},
};

static bool calls_filtered; /* since jail_prepare() */

static int landlock_version(void)
{
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

    return version > 0 ? (int)version : 0;
}

struct jail_abilities jail_abilities(void)
{
    if (!JAIL_BUILT)
        return (struct jail_abilities){.built = false};
    return (struct jail_abilities){true, landlock_version(), jail_calls_possible()};
}

void jail_describe(char *text, size_t size)
{
    struct jail_abilities can = jail_abilities();
    char landlock[32] = "no Landlock";

    if (can.landlock > 0)
        snprintf(landlock, sizeof(landlock), "Landlock %d", can.landlock);
    if (can.built)
        snprintf(text, size, "%s, %s", landlock, can.seccomp ? "seccomp" : "no seccomp");
    else
        snprintf(text, size, "none (built for a sanitizer)");
}

/* Everything that this kernel's version can forbid. The kernel checks only as many bytes as given. */
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

static int allow_reading(int ruleset, int folder)
{
    const struct landlock_path_beneath_attr below = {
        .allowed_access = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR,
        .parent_fd = folder,
    };

    return (int)syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &below, 0);
}

static int forbid_files(const int *folders, size_t count)
{
    int version = landlock_version();
    int ruleset, failed = 0;

    if (version == 0)
        return 0;
    ruleset = make_ruleset(version);
    if (ruleset < 0)
        return -1;
    for (size_t i = 0; i < count && failed == 0; i++)
        failed = allow_reading(ruleset, folders[i]);
    if (failed == 0)
        failed = (int)syscall(SYS_landlock_restrict_self, ruleset, 0);
    close(ruleset);
    return failed;
}

int jail_prepare(void)
{
    calls_filtered = JAIL_BUILT && jail_calls_possible();
    return calls_filtered ? jail_calls_prepare() : 0;
}

int jail_enter(const int *folders, size_t count)
{
    const struct rlimit no_core = {0, 0};

    if (!JAIL_BUILT)
        return 0;
    if (setrlimit(RLIMIT_CORE, &no_core) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        forbid_files(folders, count) != 0)
        return -1;
    return calls_filtered ? jail_calls_forbid() : 0;
}

static int by_number(const void *one, const void *other)
{
    const int *a = one, *b = other;

    return (*a > *b) - (*a < *b);
}

void jail_close_others(int *keep, size_t count)
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
