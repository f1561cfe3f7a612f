#include "daemon/sandbox/service.h"

#include "common/macros.h"
#include "daemon/sandbox/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    GROUPS_MAX = 64,
    DYNAMIC_UID = 65519 /* the last one of DynamicUser=, if none has been allocated */
};

/*
 * The unit: first its files, for what systemctl show does not print, then its properties, in which
 * systemd has joined the files. Each line ends with NUL.
 */
static const char show_unit[] =
    "systemctl cat " SERVICE_UNIT " && "
    "systemctl show --property=User,Group,SupplementaryGroups,DynamicUser,UID,"
    "PrivateUsers,CapabilityBoundingSet,AmbientCapabilities,SystemCallFilter,StateDirectory,"
    "LogsDirectory,ProtectHome,Environment " SERVICE_UNIT;

/* Succeeds if a socket unit passes its sockets to the service. */
static const char is_activated[] =
    "systemctl is-active $(systemctl show --value --property=TriggeredBy " SERVICE_UNIT
    ") >/dev/null 2>&1";

struct unit {
    char *text; /* of malloc() */
    size_t size;
    struct identity identity;
    uint64_t capabilities;
    FILE *description;
    char *why;
    size_t why_size;
};

/* Returns -1. */
static int __attribute__((format(printf, 2, 3)))
refuse(const struct unit *unit, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(unit->why, unit->why_size, format, arguments);
    va_end(arguments);
    return -1;
}

static int read_service_unit(struct unit *unit)
{
    FILE *pipe = popen(show_unit, "re");
    size_t room = 0;
    ssize_t length = pipe != NULL ? getdelim(&unit->text, &room, '\0', pipe) : -1;

    if (pipe == NULL || pclose(pipe) != 0 || length < 0)
        return refuse(unit,
                      "systemctl does not show %s: without it nobody can tell what the "
                      "service may open",
                      SERVICE_UNIT);
    unit->size = (size_t)length;
    for (char *end = unit->text; (end = strchr(end, '\n')) != NULL; end++) {
        *end = '\0';
        for (char *last = end; last > unit->text && last[-1] == ' ';)
            *--last = '\0';
    }
    return 0;
}

/* Each value of NAME. *AT begins at 0. NULL: no more. */
static const char *next_value(const struct unit *unit, const char *name, size_t *at)
{
    size_t length = strlen(name);

    while (*at < unit->size) {
        const char *line = unit->text + *at;

        *at += strlen(line) + 1;
        if (strncmp(line, name, length) == 0 && line[length + strspn(line + length, " ")] == '=')
            return line + length + strspn(line + length, " =");
    }
    return NULL;
}

/* The last value; "": none. */
static const char *value_of(const struct unit *unit, const char *name)
{
    const char *last = "", *value;

    for (size_t at = 0; (value = next_value(unit, name, &at)) != NULL;)
        last = value;
    return last;
}

static bool property_is_on(const struct unit *unit, const char *name)
{
    return strcmp(value_of(unit, name), "yes") == 0;
}

/* The next word of *REST, which systemd quotes for a shell, copied to WORD. False: no more. */
static bool next_word(const char **rest, char *word, size_t size)
{
    const char *at = *rest + strspn(*rest, " ");
    size_t length = 0;
    bool quoted = false, found = *at != '\0';

    for (; *at != '\0' && (quoted || *at != ' '); at++) {
        if (*at == '"')
            quoted = !quoted;
        else if (length + 1 < size && (*at != '\\' || *++at != '\0'))
            word[length++] = *at;
    }
    word[length] = '\0';
    *rest = at;
    return found;
}

/* User, groups and capabilities */

/* Those that decide on ports and files. */
static const struct {
    const char *name;
    unsigned int number;
} capabilities[] = {
    {"CAP_CHOWN", CAP_CHOWN},
    {"CAP_DAC_OVERRIDE", CAP_DAC_OVERRIDE},
    {"CAP_DAC_READ_SEARCH", CAP_DAC_READ_SEARCH},
    {"CAP_FOWNER", CAP_FOWNER},
    {"CAP_NET_BIND_SERVICE", CAP_NET_BIND_SERVICE},
    {"CAP_SETGID", CAP_SETGID},
    {"CAP_SETUID", CAP_SETUID},
};

static void find_capabilities(struct unit *unit)
{
    const char *separator = "capabilities";
    const char *names =
        value_of(unit, unit->identity.uid == 0 ? "CapabilityBoundingSet" : "AmbientCapabilities");
    char word[64];

    /* With PrivateUsers= they hold only in the user namespace of the service. */
    while (!property_is_on(unit, "PrivateUsers") && next_word(&names, word, sizeof(word)))
        for (size_t i = 0; i < ARRAY_LENGTH(capabilities); i++)
            if (strcasecmp(word, capabilities[i].name) == 0) {
                unit->capabilities |= UINT64_C(1) << capabilities[i].number;
                fprintf(unit->description, "%s %s", separator, capabilities[i].name);
                separator = "";
            }
    if (unit->capabilities == 0)
        fputs("no capabilities", unit->description);
}

/* True if SystemCallFilter= leaves capset(2) out, without which no capability can be dropped. */
static bool filters_capset(const struct unit *unit)
{
    const char *calls = value_of(unit, "SystemCallFilter");
    bool named = strstr(calls, "capset") != NULL;

    return calls[0] == '~' ? named : calls[0] != '\0' && !named;
}

static int find_identity(struct unit *unit)
{
    const char *user = value_of(unit, "User"), *group = value_of(unit, "Group");
    struct identity *identity = &unit->identity;
    struct identity_fault fault;
    uid_t uid;

    if (user[0] == '\0')
        user = "root";
    if (identity_find(user, group, 0, identity, &fault) != 0) {
        if (!property_is_on(unit, "DynamicUser"))
            return refuse(unit, "%s: %s", SERVICE_UNIT, fault.text);
        /* The user exists while the service runs, and has its own group unless the unit names one. */
        uid = (uid_t)strtoul(value_of(unit, "UID"), NULL, 10);
        if (uid == 0)
            uid = DYNAMIC_UID;
        if (group[0] == '\0' || identity_find("root", group, 0, identity, &fault) != 0)
            identity->gid = uid;
        identity->uid = uid;
        snprintf(identity->user, sizeof(identity->user), "%s", user);
    }
    fprintf(unit->description, "user %s (%u), ", user, (unsigned int)identity->uid);
    find_capabilities(unit);
    if (identity->uid != 0 && unit->capabilities != 0 && filters_capset(unit))
        return refuse(unit,
                      "%s has AmbientCapabilities=, which no process could drop, as "
                      "SystemCallFilter= leaves out capset: the service does not start",
                      SERVICE_UNIT);
    return 0;
}

static int take_groups(const struct unit *unit)
{
    const char *others = value_of(unit, "SupplementaryGroups");
    struct identity found;
    struct identity_fault fault;
    gid_t groups[GROUPS_MAX];
    int count = GROUPS_MAX / 2;
    char word[128];

    if (getgrouplist(unit->identity.user, unit->identity.gid, groups, &count) < 0)
        count = GROUPS_MAX / 2;
    while (count < GROUPS_MAX && next_word(&others, word, sizeof(word))) {
        if (identity_find("root", word, 0, &found, &fault) != 0)
            return refuse(unit, "%s: %s", SERVICE_UNIT, fault.text);
        groups[count++] = found.gid;
    }
    return setgroups((size_t)count, groups) == 0 ? 0 : refuse(unit, "%s", strerror(errno));
}

static int take_identity(const struct unit *unit)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {{0}}, held[2];
    uid_t uid = unit->identity.uid;
    gid_t gid = unit->identity.gid;

    if (take_groups(unit) != 0)
        return -1;
    if (setresgid(gid, gid, gid) == 0 && prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) == 0 &&
        syscall(SYS_capget, &header, held) == 0 && setresuid(uid, uid, uid) == 0) {
        for (size_t i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
            sets[i].effective = sets[i].permitted = sets[i].inheritable =
                held[i].permitted & (uint32_t)(unit->capabilities >> 32 * i);
        if (syscall(SYS_capset, &header, sets) == 0)
            return 0;
    }
    return refuse(unit, "cannot act as user %u: %s", (unsigned int)uid, strerror(errno));
}

/* Files, in a mount namespace */

static int mount_empty(const char *path)
{
    return mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755");
}

static int copy_credential(const struct unit *unit, const char *from, const char *to)
{
    int in = open(from, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    int out = in >= 0 ? open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR) : -1;
    ssize_t sent = out < 0 ? -1 : fchown(out, unit->identity.uid, unit->identity.gid);

    while (sent >= 0 && (sent = sendfile(out, in, NULL, INT_MAX)) > 0)
        continue;
    if (in >= 0)
        close(in);
    if (out >= 0)
        close(out);
    return (int)sent;
}

static int add_credentials(const struct unit *unit)
{
    static const char directory[] = "/run/credentials/" SERVICE_UNIT;
    const char *value, *separator = ", credentials";
    char to[PATH_MAX];
    size_t begin = 0;

    unsetenv("CREDENTIALS_DIRECTORY");
    if (value_of(unit, "LoadCredential")[0] == '\0')
        return 0;
    if ((mkdir("/run/credentials", 0755) != 0 && errno != EEXIST) ||
        mount_empty("/run/credentials") != 0 || mkdir(directory, 0755) != 0 ||
        setenv("CREDENTIALS_DIRECTORY", directory, 1) != 0)
        return refuse(unit, "%s: %s", directory, strerror(errno));
    for (size_t at = 0; (value = next_value(unit, "LoadCredential", &at)) != NULL;)
        if (value[0] == '\0') /* which resets the list */
            begin = at;
    while ((value = next_value(unit, "LoadCredential", &begin)) != NULL) {
        int name = (int)strcspn(value, ":");

        snprintf(to, sizeof(to), "%s/%.*s", directory, name, value);
        if (value[name] == '\0' || value[name + 1] != '/')
            return refuse(unit, "LoadCredential=%s: write NAME:/PATH", value);
        if (copy_credential(unit, value + name + 1, to) != 0)
            return refuse(unit, "LoadCredential=%s: %s: the service does not start", value,
                          strerror(errno));
        fprintf(unit->description, "%s %.*s", separator, name, value);
        separator = "";
    }
    return 0;
}

/*
 * With DynamicUser=, systemd hides the directories of others in PARENT and makes the service the
 * owner of its own, which PROPERTY names, and of what is in them.
 */
static int add_directories(const struct unit *unit, const char *property, const char *parent)
{
    const char *names = value_of(unit, property);
    char word[256], path[PATH_MAX];

    if (!property_is_on(unit, "DynamicUser") || names[0] == '\0' || access(parent, F_OK) != 0)
        return 0; /* the last: the service has not been started yet */
    if (mount_empty(parent) != 0)
        return refuse(unit, "%s: %s", parent, strerror(errno));
    while (next_word(&names, word, sizeof(word))) {
        snprintf(path, sizeof(path), "%s/%s", parent, word);
        if (mkdir(path, 0755) != 0 || chown(path, unit->identity.uid, unit->identity.gid) != 0)
            return refuse(unit, "%s: %s", path, strerror(errno));
    }
    return 0;
}

static int take_files(const struct unit *unit)
{
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        return refuse(unit, "cannot have mounts of its own: %s", strerror(errno));
    if (add_credentials(unit) != 0 ||
        add_directories(unit, "StateDirectory", "/var/lib/private") != 0)
        return -1;
    return add_directories(unit, "LogsDirectory", "/var/log/private");
}

/* The service */

static void take_environment(const struct unit *unit)
{
    const char *words = value_of(unit, "Environment");
    char word[4096], *equals;

    while (next_word(&words, word, sizeof(word)))
        if ((equals = strchr(word, '=')) != NULL) {
            *equals = '\0';
            setenv(word, equals + 1, 1);
        }
}

/* Directives that decide on files and are not applied here. */
static void list_not_applied(const struct unit *unit, struct service *service)
{
    static const char *const names[] = {"BindPaths",
                                        "BindReadOnlyPaths",
                                        "CacheDirectory",
                                        "EnvironmentFile",
                                        "ExtensionDirectories",
                                        "ImportCredential",
                                        "InaccessiblePaths",
                                        "LoadCredentialEncrypted",
                                        "ProtectHome",
                                        "RootDirectory",
                                        "RootImage",
                                        "SetCredential",
                                        "SetCredentialEncrypted",
                                        "TemporaryFileSystem"};

    service->not_applied[0] = '\0';
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        const char *value = value_of(unit, names[i]);
        size_t length = strlen(service->not_applied);

        if (value[0] != '\0' && strcmp(value, "no") != 0 && strcmp(value, "read-only") != 0)
            snprintf(service->not_applied + length, sizeof(service->not_applied) - length,
                     "%s%s=", length > 0 ? ", " : "", names[i]);
    }
}

int service_enter(struct service *service, char *why, size_t size)
{
    struct unit unit = {.why = why, .why_size = size};
    int result = -1;

    if (geteuid() != 0)
        return refuse(&unit, "only root can act as the user of %s: use sudo", SERVICE_UNIT);
    unit.description = fmemopen(service->description, sizeof(service->description), "w");
    if (unit.description == NULL)
        return refuse(&unit, "%s", strerror(errno));
    if (read_service_unit(&unit) == 0 && find_identity(&unit) == 0 && take_files(&unit) == 0) {
        service->activated = system(is_activated) == 0;
        list_not_applied(&unit, service);
        take_environment(&unit);
        result = take_identity(&unit);
    }
    fclose(unit.description);
    free(unit.text);
    return result;
}
