#include "daemon/sandbox/identity.h"

#include "common/macros.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The default user of root's workers: owns no files and exists on every system. */
static const char default_user[] = "nobody";

/* TEXT must be a decimal number and nothing else. */
static bool parse_id(const char *text, unsigned long *value)
{
    char *end;

    if (text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    *value = strtoul(text, &end, 10);
    return errno == 0 && *end == '\0' && *value < UINT32_MAX;
}

static int __attribute__((format(printf, 3, 4)))
report_identity_fault(struct identity_fault *fault, bool group, const char *format, ...)
{
    va_list arguments;

    fault->group = group;
    va_start(arguments, format);
    vsnprintf(fault->text, sizeof(fault->text), format, arguments);
    va_end(arguments);
    return -1;
}

/* getpwnam(3) lists the errno values that mean an unknown name; all others are failed lookups. */
static int report_unknown(struct identity_fault *fault, bool group, const char *name)
{
    const char *what = group ? "group" : "user";

    if (errno == EIO || errno == EMFILE || errno == ENFILE || errno == ENOMEM)
        return report_identity_fault(fault, group, "cannot look up the %s '%s': %s", what, name,
                                     strerror(errno));
    return report_identity_fault(fault, group, "unknown %s '%s'", what, name);
}

/* Sets uid and the user's primary group. */
static int find_user_of_workers(const char *name, struct identity *identity,
                                struct identity_fault *fault)
{
    const struct passwd *entry;
    unsigned long number;

    errno = 0;
    entry = getpwnam(name);
    if (entry == NULL && parse_id(name, &number))
        entry = getpwuid((uid_t)number);
    if (entry == NULL)
        return report_unknown(fault, false, name);
    if ((size_t)snprintf(identity->user, sizeof(identity->user), "%s", entry->pw_name) >=
        sizeof(identity->user))
        return report_identity_fault(fault, false, "the name '%s' is too long", name);
    identity->uid = entry->pw_uid;
    identity->gid = entry->pw_gid;
    return 0;
}

static int find_group_of_workers(const char *name, struct identity *identity,
                                 struct identity_fault *fault)
{
    const struct group *entry;
    unsigned long number;

    errno = 0;
    entry = getgrnam(name);
    if (entry == NULL && parse_id(name, &number))
        entry = getgrgid((gid_t)number);
    if (entry == NULL)
        return report_unknown(fault, true, name);
    identity->gid = entry->gr_gid;
    return 0;
}

int identity_find(const char *user, const char *group, uid_t self, struct identity *identity,
                  struct identity_fault *fault)
{
    *identity = (struct identity){.changes = self == 0};
    if (user[0] == '\0' && group[0] == '\0' && self != 0)
        return 0;
    if (user[0] == '\0' && self != 0)
        return report_identity_fault(fault, true, "only root can run processes in group '%s'",
                                     group);
    if (find_user_of_workers(user[0] != '\0' ? user : default_user, identity, fault) != 0)
        return -1;
    if (group[0] != '\0' && find_group_of_workers(group, identity, fault) != 0)
        return -1;
    if (self == 0)
        return 0;
    if (identity->uid != self)
        return report_identity_fault(fault, false, "only root can run processes as user '%s'",
                                     user);
    if (group[0] != '\0')
        return report_identity_fault(fault, true, "only root can run processes in group '%s'",
                                     group);
    return 0;
}

int identity_check(const char *user, const char *group, bool *group_at_fault, char *why,
                   size_t size)
{
    struct identity identity;
    struct identity_fault fault;

    if (identity_find(user, group, geteuid(), &identity, &fault) == 0)
        return 0;
    *group_at_fault = fault.group;
    snprintf(why, size, "%s", fault.text);
    return -1;
}

static bool has_capabilities(const struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3])
{
    for (size_t i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
        if ((sets[i].effective | sets[i].permitted | sets[i].inheritable) != 0)
            return true;
    return false;
}

/*
 * Also drops the ambient capabilities that a service manager gave to an unprivileged master; they
 * are part of the permitted and of the inheritable ones. A service manager may forbid capset(2), so
 * it is not called without need. The bounding set limits only what execve(2) may gain: nothing,
 * because of no_new_privs.
 */
static int drop_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {{0}};
    static const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3];

    if (syscall(SYS_capget, &header, sets) == 0 && !has_capabilities(sets))
        return 0;
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0 && errno != EINVAL)
        return -1;
    return (int)syscall(SYS_capset, &header, none);
}

int identity_check_switch(void)
{
    const uint32_t needed = 1U << CAP_SETUID | 1U << CAP_SETGID;
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {{0}};

    if (syscall(SYS_capget, &header, sets) != 0)
        return 0;
    if (geteuid() == 0 && (sets[0].effective & needed) != needed) {
        errno = EPERM;
        return -1;
    }
    if (geteuid() == 0) /* this call changes nothing, but may be filtered */
        return setresuid((uid_t)-1, (uid_t)-1, (uid_t)-1);
    return has_capabilities(sets) ? (int)syscall(SYS_capset, &header, sets) : 0;
}

int identity_switch(const struct identity *identity)
{
    if (identity->changes && (initgroups(identity->user, identity->gid) != 0 ||
                              setresgid(identity->gid, identity->gid, identity->gid) != 0 ||
                              setresuid(identity->uid, identity->uid, identity->uid) != 0))
        return -1;
    return drop_capabilities();
}
