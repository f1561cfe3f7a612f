#include "daemon/sandbox/sandbox.h"

#include "common/macros.h"
#include "daemon/base/events.h"
#include "daemon/sandbox/identity.h"
#include "daemon/sandbox/seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
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

/* With this version (Linux 6.2), Landlock controls all flags with which a file may be opened. */
enum { LANDLOCK_TRUNCATE = 3 };

static bool is_complete(void)
{
    return SANDBOX_BUILT && landlock_version() >= LANDLOCK_TRUNCATE && seccomp_possible();
}

const struct config_system sandbox_config_system = {identity_check, can_follow_links, is_complete};

int sandbox_prepare(void)
{
    bool landlock_checks_flags = landlock_version() >= LANDLOCK_TRUNCATE;

    seccomp_prepared = SANDBOX_BUILT && seccomp_possible();
    for (int role = 0; seccomp_prepared && role < SANDBOX_ROLES; role++)
        if (seccomp_prepare((enum sandbox_role)role, landlock_checks_flags) != 0)
            return -1;
    return 0;
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

/*
 * Restricts every right of VERSION, or all but those to connect. An older kernel rejects a struct
 * with unknown fields.
 */
static int make_ruleset(int version, bool connects)
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
    if (connects)
        all.net &= ~(uint64_t)NET_CONNECT_TCP;
    return (int)syscall(SYS_landlock_create_ruleset, &all, size, 0);
}

/* Allows the rights ACCESS below PATH, or to it if it is a file. Returns 0, or -1 with errno. */
static int allow_below(int ruleset, int path, uint64_t access)
{
    struct landlock_path_beneath_attr below = {.allowed_access = access, .parent_fd = path};
    struct stat status;

    if (fstat(path, &status) == 0 && !S_ISDIR(status.st_mode))
        below.allowed_access &= LANDLOCK_ACCESS_FS_READ_FILE;
    return (int)syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &below, 0);
}

static int restrict_files(const int *directories, size_t count, int writable, bool connects)
{
    const uint64_t read = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
    uint64_t write = read | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG |
                     LANDLOCK_ACCESS_FS_REMOVE_FILE;
    int version = landlock_version();
    int ruleset, failed = 0;

    if (version == 0)
        return 0;
    if (version >= LANDLOCK_TRUNCATE)
        write |= rights_by_version[LANDLOCK_TRUNCATE - 1].fs;
    ruleset = make_ruleset(version, connects);
    if (ruleset < 0)
        return -1;
    for (size_t i = 0; i < count && failed == 0; i++)
        failed = allow_below(ruleset, directories[i], read);
    if (failed == 0 && writable >= 0)
        failed = allow_below(ruleset, writable, write);
    if (failed == 0)
        failed = (int)syscall(SYS_landlock_restrict_self, ruleset, 0);
    close(ruleset);
    return failed;
}

/* Resource limits */

/*
 * No core dump: it would contain data of clients. No growing file: only standard error can be one,
 * and a message that does not fit there must not end the process.
 */
static int set_limits(const struct sandbox_profile *profile)
{
    static const struct rlimit none = {0, 0};

    if (setrlimit(RLIMIT_CORE, &none) != 0)
        return -1;
    if (profile->writes_files)
        return 0;
    signal(SIGXFSZ, SIG_IGN);
    return setrlimit(RLIMIT_FSIZE, &none);
}

int sandbox_restrict(enum sandbox_role role, const int *directories, size_t count, int writable)
{
    const struct sandbox_profile *profile = &sandbox_profiles[role];

    if (!SANDBOX_BUILT)
        return 0;
    /* Not dumpable: no process of the same user can read its memory or attach to it. */
    if (set_limits(profile) != 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        restrict_files(directories, count, writable, profile->connects) != 0)
        return -1;
    return seccomp_prepared ? seccomp_enter(role) : 0;
}

/* Entering */

static bool is_one_of(const char *variable, const char *const *names)
{
    for (; *names != NULL; names++)
        if (strncmp(variable, *names, strlen(*names)) == 0)
            return true;
    return false;
}

/*
 * Overwrites the environment of the master, in which a service manager or a container may put
 * secrets.
 */
static void clean_environment(bool connects)
{
    static const char *const needed[] = {"TZ=", "GCOV_", NULL};
    static const char *const to_connect[] = {
        "http_proxy=", "https_proxy=", "HTTPS_PROXY=",   "all_proxy=",    "ALL_PROXY=", "no_proxy=",
        "NO_PROXY=",   "RES_OPTIONS=", "SSL_CERT_FILE=", "SSL_CERT_DIR=", NULL};
    char **kept = environ;

    for (char **variable = environ; variable != NULL && *variable != NULL; variable++)
        if (is_one_of(*variable, needed) || (connects && is_one_of(*variable, to_connect)))
            *kept++ = *variable;
        else
            explicit_bzero(*variable, strlen(*variable));
    if (kept != NULL)
        *kept = NULL;
}

static int by_descriptor(const void *one, const void *other)
{
    const int *a = one, *b = other;

    return (*a > *b) - (*a < *b);
}

/* close_range() exists since Linux 5.9. */
static int close_between(unsigned int first, unsigned int last)
{
    struct rlimit open_files;

    if (first > last || close_range(first, last, 0) == 0)
        return 0;
    if (errno != ENOSYS || getrlimit(RLIMIT_NOFILE, &open_files) != 0)
        return -1;
    for (unsigned int fd = first; fd <= last && fd < open_files.rlim_cur; fd++)
        close((int)fd);
    return 0;
}

int sandbox_close_others(int *keep, size_t count)
{
    unsigned int next = STDERR_FILENO + 1;

    qsort(keep, count, sizeof(*keep), by_descriptor);
    for (size_t i = 0; i < count; i++) {
        if (keep[i] < (int)next)
            continue;
        if (close_between(next, (unsigned int)keep[i] - 1) != 0)
            return -1;
        next = (unsigned int)keep[i] + 1;
    }
    return close_between(next, UINT32_MAX);
}

static int become_user(const struct config *config, const char *name)
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
    event_log(LEVEL_ERROR, "a %s cannot become user %u: %s", name, identity.uid, strerror(errno));
    return -1;
}

/* Opens the directories that links may lead into. Returns their number, or -1 after an error. */
static int open_link_targets(const struct sandbox_setup *setup, int *directories)
{
    int count = 0;

    for (size_t i = 0; i < setup->link_root_count; i++) {
        directories[count] = open(setup->link_root[i], O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (directories[count] < 0) {
            event_log(LEVEL_ERROR, "[files] follow_into: %s: %s", setup->link_root[i],
                      strerror(errno));
            return -1;
        }
        count++;
    }
    return count;
}

/* Opens the directories that may be read and applies Landlock and seccomp. */
static int restrict_access(const struct sandbox_setup *setup)
{
    size_t own = setup->root_count;
    int *directories = calloc(own + CONFIG_LIST_MAX, sizeof(*directories));
    int links, failed = -1;

    if (directories == NULL)
        return -1;
    for (size_t i = 0; i < own; i++)
        directories[i] = setup->roots[i];
    links = open_link_targets(setup, directories + own);
    if (links >= 0)
        failed = sandbox_restrict(setup->role, directories, own + (size_t)links,
                                  setup->writable != NULL ? *setup->writable : -1);
    while (links > 0)
        close(directories[own + (size_t)--links]);
    free(directories);
    return failed;
}

/* What a compromised process writes must not reach the terminal. */
static int release_streams(void)
{
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC), failed = nothing < 0 ? -1 : 0;

    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO && failed == 0; fd++)
        failed = dup2(nothing, fd) < 0 ? -1 : 0;
    if (nothing > STDERR_FILENO)
        close(nothing);
    return failed;
}

static int close_others(const struct sandbox_setup *setup)
{
    int *keep = calloc(setup->keep_count + setup->root_count + 1, sizeof(*keep)), failed;

    if (keep == NULL)
        return -1;
    if (setup->keep_count > 0)
        memcpy(keep, setup->keep, setup->keep_count * sizeof(*keep));
    if (setup->root_count > 0)
        memcpy(keep + setup->keep_count, setup->roots, setup->root_count * sizeof(*keep));
    failed = sandbox_close_others(keep, setup->keep_count + setup->root_count);
    free(keep);
    return failed;
}

int sandbox_enter(const struct sandbox_setup *setup)
{
    const char *name = sandbox_profiles[setup->role].name;

    clean_environment(sandbox_profiles[setup->role].connects);
    if (close_others(setup) != 0) {
        event_log(LEVEL_ERROR, "a %s cannot close the descriptors of the master: %s", name,
                  strerror(errno));
        return -1;
    }
    if (become_user(setup->config, name) != 0)
        return -1;
    if (setup->config->server_jail != JAIL_OFF &&
        ((SANDBOX_BUILT && release_streams() != 0) || restrict_access(setup) != 0)) {
        event_log(LEVEL_ERROR, "a %s cannot enter its sandbox: %s", name, strerror(errno));
        return -1;
    }
    return 0;
}
