#include "daemon/sandbox/service.h"

#include "common/macros.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <pwd.h>
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
#include <sys/wait.h>
#include <unistd.h>

enum {
    GROUPS_MAX = 64,
    DYNAMIC_UID = 65519 /* the last one of DynamicUser=, if none has been allocated */
};

/* A line of [Service], in the order of the files. */
struct directive {
    const char *name, *value;
};

struct unit {
    char *text; /* of all its files, with NULs */
    struct directive *directive;
    size_t count;
};

static int __attribute__((format(printf, 3, 4)))
explain(char *why, size_t size, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(why, size, format, arguments);
    va_end(arguments);
    return -1;
}

/* The unit */

/* Returns what systemctl with ARGUMENTS prints, or NULL; its messages go to standard error. */
static char *ask_systemctl(char *const arguments[])
{
    char *text = NULL, *bigger;
    size_t length = 0, room = 0;
    ssize_t got = 1;
    int ends[2], status = 0;
    pid_t child;

    if (pipe2(ends, O_CLOEXEC) != 0)
        return NULL;
    child = fork();
    if (child == 0) {
        if (dup2(ends[1], STDOUT_FILENO) >= 0)
            execvp(arguments[0], arguments);
        _exit(EXIT_FAILURE);
    }
    close(ends[1]);
    while (child > 0 && got > 0) {
        if (length + 1 >= room) {
            room = room * 2 + 4096;
            bigger = realloc(text, room);
            if (bigger == NULL)
                break;
            text = bigger;
        }
        got = read(ends[0], text + length, room - length - 1);
        length += got > 0 ? (size_t)got : 0;
    }
    close(ends[0]);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    if (text != NULL && child > 0 && got == 0 && status == 0) {
        text[length] = '\0';
        return text;
    }
    free(text);
    return NULL;
}

static char *skip_blanks(char *text)
{
    return text + strspn(text, " \t");
}

static void trim_end(char *text)
{
    size_t length = strlen(text);

    while (length > 0 && strchr(" \t\r", text[length - 1]) != NULL)
        text[--length] = '\0';
}

/* Replaces "\" and the end of the line by blanks. */
static void join_lines(char *text)
{
    while ((text = strstr(text, "\\\n")) != NULL)
        memcpy(text, "  ", 2);
}

static bool parse_unit(struct unit *unit)
{
    char *rest = unit->text, *line, *equals;
    bool service = false;
    size_t lines = 1;

    join_lines(unit->text);
    for (const char *at = unit->text; *at != '\0'; at++)
        lines += *at == '\n';
    unit->directive = calloc(lines, sizeof(*unit->directive));
    while (unit->directive != NULL && (line = strsep(&rest, "\n")) != NULL) {
        line = skip_blanks(line);
        trim_end(line);
        if (line[0] == '[')
            service = strcmp(line, "[Service]") == 0;
        equals = strchr(line, '=');
        if (!service || strchr("#;[", line[0]) != NULL || equals == NULL)
            continue;
        *equals = '\0';
        trim_end(line);
        unit->directive[unit->count++] = (struct directive){line, skip_blanks(equals + 1)};
    }
    return unit->directive != NULL;
}

static bool read_unit(struct unit *unit)
{
    static char *const words[] = {"systemctl", "cat", "--no-pager", SERVICE_UNIT, NULL};

    *unit = (struct unit){.text = ask_systemctl(words)};
    return unit->text != NULL && parse_unit(unit);
}

static void free_unit(struct unit *unit)
{
    free(unit->text);
    free(unit->directive);
}

/* Each value of NAME after the last empty one, which resets a list. *AT begins at 0. NULL: no more. */
static const char *next_value(const struct unit *unit, const char *name, size_t *at)
{
    if (*at == 0)
        for (size_t i = 0; i < unit->count; i++)
            if (strcmp(unit->directive[i].name, name) == 0 && unit->directive[i].value[0] == '\0')
                *at = i + 1;
    while (*at < unit->count) {
        const struct directive *directive = &unit->directive[(*at)++];

        if (strcmp(directive->name, name) == 0)
            return directive->value;
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

static bool is_on(const struct unit *unit, const char *name)
{
    const char *value = value_of(unit, name);

    return strcmp(value, "yes") == 0 || strcmp(value, "true") == 0 || strcmp(value, "on") == 0 ||
           strcmp(value, "1") == 0;
}

/* The next word of *REST, copied to WORD, without quotes around it or its parts. False: no more. */
static bool next_word(const char **rest, char *word, size_t size)
{
    const char *at = *rest + strspn(*rest, " \t\n");
    size_t length = 0;
    char quote = '\0';

    if (*at == '\0')
        return false;
    for (; *at != '\0' && (quote != '\0' || strchr(" \t\n", *at) == NULL); at++) {
        if (*at == quote)
            quote = '\0';
        else if (quote == '\0' && (*at == '"' || *at == '\''))
            quote = *at;
        else if (length + 1 < size)
            word[length++] = *at;
    }
    word[length] = '\0';
    *rest = at;
    return true;
}

/* True if a socket unit passes its sockets to the service. */
static bool is_activated(void)
{
    static char *const ask[] = {"systemctl",  "show", "--value", "--property=TriggeredBy",
                                SERVICE_UNIT, NULL};
    char *units = ask_systemctl(ask), word[256];
    bool found = false;

    for (const char *rest = units;
         rest != NULL && !found && next_word(&rest, word, sizeof(word));) {
        char *const show[] = {"systemctl", "show", "--value", "--property=ActiveState", word, NULL};
        char *state = strstr(word, ".socket") != NULL ? ask_systemctl(show) : NULL;

        found = state != NULL && strncmp(state, "active", strlen("active")) == 0;
        free(state);
    }
    free(units);
    return found;
}

/* That of DynamicUser= while the service runs. */
static uid_t dynamic_uid(void)
{
    static char *const ask[] = {"systemctl",      "show",       "--value",
                                "--property=UID", SERVICE_UNIT, NULL};
    char *text = ask_systemctl(ask), *end = text;
    unsigned long uid = text != NULL ? strtoul(text, &end, 10) : 0;
    bool known = end != text && uid > 0 && uid < UINT32_MAX;

    free(text);
    return known ? (uid_t)uid : DYNAMIC_UID;
}

/* True if SystemCallFilter= leaves capset(2) out, without which no capability can be dropped. */
static bool filters_capset(const struct unit *unit)
{
    const char *value;
    bool filtered = false;

    for (size_t at = 0; (value = next_value(unit, "SystemCallFilter", &at)) != NULL;)
        if (strstr(value, "capset") != NULL || strstr(value, "@privileged") != NULL)
            filtered = value[0] == '~';
    return filtered;
}

/* User, groups and capabilities */

struct service_identity {
    bool root, dynamic;
    char user[128];
    uid_t uid;
    gid_t gid;
    gid_t group[GROUPS_MAX];
    size_t group_count;
    uint64_t capabilities;
};

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

static uint64_t named_capabilities(const char *value)
{
    uint64_t set = 0;
    char word[64];

    while (next_word(&value, word, sizeof(word)))
        for (size_t i = 0; i < ARRAY_LENGTH(capabilities); i++)
            if (strcasecmp(word, capabilities[i].name) == 0)
                set |= UINT64_C(1) << capabilities[i].number;
    return set;
}

/* Of all, or of none, as NAME lists them; "~" takes some away. */
static uint64_t listed_capabilities(const struct unit *unit, const char *name, uint64_t without)
{
    uint64_t set = 0;
    const char *value;
    bool given = false;

    for (size_t i = 0; i < unit->count; i++)
        given = given || strcmp(unit->directive[i].name, name) == 0;
    if (!given)
        return without;
    for (size_t at = 0, first = 1; (value = next_value(unit, name, &at)) != NULL; first = 0) {
        if (value[0] == '~')
            set = (first ? UINT64_MAX : set) & ~named_capabilities(value + 1);
        else
            set |= named_capabilities(value);
    }
    return set;
}

static int find_group(const char *name, gid_t *gid, char *why, size_t size)
{
    const struct group *entry = getgrnam(name);
    char *end;

    *gid = entry != NULL ? entry->gr_gid : (gid_t)strtoul(name, &end, 10);
    if (entry != NULL || (name[0] != '\0' && *end == '\0'))
        return 0;
    return explain(why, size, "%s names the unknown group '%s'", SERVICE_UNIT, name);
}

static int find_groups(const struct unit *unit, struct service_identity *identity, char *why,
                       size_t size)
{
    int own = GROUPS_MAX / 2;
    const char *value;
    char word[128];

    if (value_of(unit, "Group")[0] != '\0' &&
        find_group(value_of(unit, "Group"), &identity->gid, why, size) != 0)
        return -1;
    if (!identity->root && getpwnam(identity->user) != NULL &&
        getgrouplist(identity->user, identity->gid, identity->group, &own) >= 0)
        identity->group_count = (size_t)own;
    for (size_t at = 0; (value = next_value(unit, "SupplementaryGroups", &at)) != NULL;)
        while (next_word(&value, word, sizeof(word)))
            if (identity->group_count == GROUPS_MAX ||
                find_group(word, &identity->group[identity->group_count++], why, size) != 0)
                return -1;
    return 0;
}

static int find_identity(const struct unit *unit, struct service_identity *identity, char *why,
                         size_t size)
{
    const char *user = value_of(unit, "User");
    const struct passwd *entry;
    char *end;

    *identity = (struct service_identity){.dynamic = is_on(unit, "DynamicUser")};
    snprintf(identity->user, sizeof(identity->user), "%s", user);
    if (user[0] == '\0' && identity->dynamic)
        snprintf(identity->user, sizeof(identity->user), "%.*s",
                 (int)(strlen(SERVICE_UNIT) - strlen(".service")), SERVICE_UNIT);
    identity->root = identity->user[0] == '\0';
    entry = identity->root ? getpwuid(0) : getpwnam(identity->user);
    if (entry != NULL) {
        identity->uid = entry->pw_uid;
        identity->gid = entry->pw_gid;
    } else if (identity->dynamic) {
        identity->uid = identity->gid = dynamic_uid();
    } else if (!identity->root) {
        identity->uid = identity->gid = (uid_t)strtoul(user, &end, 10);
        if (*end != '\0')
            return explain(why, size, "%s names the unknown user '%s'", SERVICE_UNIT, user);
    }
    identity->root = identity->uid == 0;
    if (!is_on(unit, "PrivateUsers")) /* which has capabilities only in its own namespace */
        identity->capabilities =
            listed_capabilities(unit, "CapabilityBoundingSet", UINT64_MAX) &
            (identity->root ? UINT64_MAX : listed_capabilities(unit, "AmbientCapabilities", 0));
    if (!identity->root && identity->capabilities != 0 && filters_capset(unit))
        return explain(why, size,
                       "%s has AmbientCapabilities=, which no process could drop, as "
                       "SystemCallFilter= leaves out capset: the service does not start",
                       SERVICE_UNIT);
    return find_groups(unit, identity, why, size);
}

static void describe_identity(const struct service_identity *identity, FILE *out)
{
    const char *separator = "capabilities";

    fprintf(out, "user %s (%u), ", identity->root ? "root" : identity->user,
            (unsigned int)identity->uid);
    if (identity->capabilities == UINT64_MAX) {
        fputs("all capabilities", out);
        return;
    }
    for (size_t i = 0; i < ARRAY_LENGTH(capabilities); i++) {
        if ((identity->capabilities >> capabilities[i].number & 1) == 0)
            continue;
        fprintf(out, "%s %s", separator, capabilities[i].name);
        separator = "";
    }
    if (separator[0] != '\0')
        fputs("no capabilities", out);
}

/* The user last. */
static int take_identity(const struct service_identity *identity)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {{0}}, held[2];

    if (setgroups(identity->group_count, identity->group) != 0 ||
        setresgid(identity->gid, identity->gid, identity->gid) != 0 ||
        prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0 || syscall(SYS_capget, &header, held) != 0 ||
        setresuid(identity->uid, identity->uid, identity->uid) != 0)
        return -1;
    for (size_t i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
        sets[i].effective = sets[i].permitted = sets[i].inheritable =
            held[i].permitted & (uint32_t)(identity->capabilities >> 32 * i);
    return (int)syscall(SYS_capset, &header, sets);
}

/* Files */

static int mount_empty(const char *path, const char *options)
{
    return mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, options);
}

/* Copies the file FROM to TO, which only the service reads. */
static int copy_credential(const char *from, const char *to,
                           const struct service_identity *identity)
{
    int in = open(from, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), out = -1;
    struct stat status;
    int result = -1;

    if (in >= 0 && fstat(in, &status) == 0)
        out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR);
    if (out >= 0 && fchown(out, identity->uid, identity->gid) == 0)
        result = status.st_size == 0 ||
                         sendfile(out, in, NULL, (size_t)status.st_size) == (ssize_t)status.st_size
                     ? 0
                     : -1;
    if (in >= 0)
        close(in);
    if (out >= 0)
        close(out);
    return result;
}

/* VALUE is "NAME:PATH". */
static int add_credential(const char *value, const char *directory,
                          const struct service_identity *identity, char *why, size_t size)
{
    const char *colon = strchr(value, ':');
    char to[PATH_MAX];

    if (colon == NULL || colon[1] != '/')
        return explain(why, size, "LoadCredential=%s: write NAME:/PATH", value);
    snprintf(to, sizeof(to), "%s/%.*s", directory, (int)(colon - value), value);
    if (copy_credential(colon + 1, to, identity) == 0)
        return 0;
    return explain(why, size, "LoadCredential=%s: %s: the service does not start", value,
                   strerror(errno));
}

static int add_credentials(const struct unit *unit, const struct service_identity *identity,
                           FILE *description, char *why, size_t size)
{
    static const char directory[] = "/run/credentials/" SERVICE_UNIT;
    const char *value, *separator = ", credentials";
    size_t at = 0;

    unsetenv("CREDENTIALS_DIRECTORY");
    if (next_value(unit, "LoadCredential", &at) == NULL)
        return 0;
    if ((mkdir("/run/credentials", 0755) != 0 && errno != EEXIST) ||
        mount_empty("/run/credentials", "mode=755") != 0 || mkdir(directory, 0755) != 0 ||
        setenv("CREDENTIALS_DIRECTORY", directory, 1) != 0)
        return explain(why, size, "%s: %s", directory, strerror(errno));
    for (at = 0; (value = next_value(unit, "LoadCredential", &at)) != NULL;) {
        if (add_credential(value, directory, identity, why, size) != 0)
            return -1;
        fprintf(description, "%s %.*s", separator, (int)strcspn(value, ":"), value);
        separator = "";
    }
    return 0;
}

/*
 * Of StateDirectory= and the like with DynamicUser=: systemd hides those of others in PARENT/private
 * and makes the service the owner of its own and of what is in it.
 */
static int add_directories(const struct unit *unit, const struct service_identity *identity)
{
    static const struct {
        const char *name, *parent;
    } kinds[] = {{"StateDirectory", "/var/lib/private"},
                 {"LogsDirectory", "/var/log/private"},
                 {"CacheDirectory", "/var/cache/private"}};
    char word[256], path[PATH_MAX];

    for (size_t i = 0; identity->dynamic && i < ARRAY_LENGTH(kinds); i++) {
        const char *value;
        bool hidden = false;

        for (size_t at = 0; (value = next_value(unit, kinds[i].name, &at)) != NULL;)
            while (next_word(&value, word, sizeof(word))) {
                if (access(kinds[i].parent, F_OK) != 0)
                    continue; /* the service has not been started yet */
                if (!hidden && mount_empty(kinds[i].parent, "mode=755") != 0)
                    return -1;
                hidden = true;
                snprintf(path, sizeof(path), "%s/%s", kinds[i].parent, word);
                if (mkdir(path, 0755) != 0 || chown(path, identity->uid, identity->gid) != 0)
                    return -1;
            }
    }
    return 0;
}

static int hide_homes(const struct unit *unit)
{
    static const char *const homes[] = {"/home", "/root", "/run/user"};
    const char *mode = value_of(unit, "ProtectHome");
    bool empty = strcmp(mode, "tmpfs") == 0;

    for (size_t i = 0; (empty || is_on(unit, "ProtectHome")) && i < ARRAY_LENGTH(homes); i++)
        if (mount_empty(homes[i], empty ? "mode=755" : "mode=000") != 0 && errno != ENOENT)
            return -1;
    return 0;
}

/* Environment */

static void add_environment(const struct unit *unit)
{
    const char *value;
    char word[4096];

    for (size_t at = 0; (value = next_value(unit, "Environment", &at)) != NULL;)
        while (next_word(&value, word, sizeof(word))) {
            char *equals = strchr(word, '=');

            if (equals == NULL)
                continue;
            *equals = '\0';
            setenv(word, equals + 1, 1);
        }
}

/* Directives that decide on files and are not applied here. */
static void list_not_applied(const struct unit *unit, struct service *service)
{
    static const char *const names[] = {
        "BindPaths",        "BindReadOnlyPaths", "EnvironmentFile",         "ExtensionDirectories",
        "ImportCredential", "InaccessiblePaths", "LoadCredentialEncrypted", "RootDirectory",
        "RootImage",        "SetCredential",     "SetCredentialEncrypted",  "TemporaryFileSystem"};

    service->not_applied[0] = '\0';
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        size_t at = 0, length = strlen(service->not_applied);

        if (next_value(unit, names[i], &at) != NULL)
            snprintf(service->not_applied + length, sizeof(service->not_applied) - length,
                     "%s%s=", length > 0 ? ", " : "", names[i]);
    }
}

/* In a mount namespace of its own. */
static int prepare_files(const struct unit *unit, const struct service_identity *identity,
                         FILE *description, char *why, size_t size)
{
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        return explain(why, size, "cannot have mounts of its own: %s", strerror(errno));
    if (add_credentials(unit, identity, description, why, size) != 0)
        return -1;
    if (add_directories(unit, identity) != 0 || hide_homes(unit) != 0)
        return explain(why, size, "cannot have the directories of %s: %s", SERVICE_UNIT,
                       strerror(errno));
    return 0;
}

static int become_service(const struct unit *unit, struct service *service, char *why, size_t size)
{
    struct service_identity identity;
    FILE *description = fmemopen(service->description, sizeof(service->description), "w");
    int result = -1;

    if (description == NULL)
        return explain(why, size, "%s", strerror(errno));
    if (find_identity(unit, &identity, why, size) == 0) {
        describe_identity(&identity, description);
        result = prepare_files(unit, &identity, description, why, size);
    }
    fclose(description);
    if (result == 0 && take_identity(&identity) != 0)
        result = explain(why, size, "cannot act as user %u: %s", (unsigned int)identity.uid,
                         strerror(errno));
    return result;
}

int service_enter(struct service *service, char *why, size_t size)
{
    struct unit unit;
    int result;

    if (geteuid() != 0)
        return explain(why, size, "only root can act as the user of %s: use sudo", SERVICE_UNIT);
    if (!read_unit(&unit)) {
        free_unit(&unit);
        return explain(why, size,
                       "systemctl cat %s fails: without it nobody can tell what the "
                       "service may open",
                       SERVICE_UNIT);
    }
    service->activated = is_activated();
    list_not_applied(&unit, service);
    add_environment(&unit);
    result = become_service(&unit, service, why, size);
    free_unit(&unit);
    return result;
}
