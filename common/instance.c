#include "common/instance.h"

#include <ctype.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SYSTEM_RUN_DIR "/run/webserverd" /* of root, or of the user of the system service */

bool instance_name_valid(const char *name)
{
    size_t length = strlen(name);

    if (length == 0 || length > INSTANCE_NAME_MAX || name[0] == '.')
        return false;
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)name[i]) && strchr("._-", name[i]) == NULL)
            return false;
    return true;
}

/* Returns 0 if the result WRITTEN of snprintf() fits SIZE, else -1. */
static int fitted(int written, size_t size)
{
    return written >= 0 && (size_t)written < size ? 0 : -1;
}

int instance_run_dir(char *buffer, size_t size)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");

    if (geteuid() == 0)
        return fitted(snprintf(buffer, size, SYSTEM_RUN_DIR), size);
    if (runtime != NULL && runtime[0] == '/')
        return fitted(snprintf(buffer, size, "%s/webserverd", runtime), size);
    return fitted(snprintf(buffer, size, "/tmp/webserverd-%lu", (unsigned long)geteuid()), size);
}

int instance_socket_path(const char *name, char *buffer, size_t size)
{
    char run_dir[INSTANCE_PATH_MAX];

    if (instance_run_dir(run_dir, sizeof(run_dir)) != 0)
        return -1;
    return fitted(snprintf(buffer, size, "%s/%s.sock", run_dir, name), size);
}

int instance_segment_name(const char *name, char *buffer, size_t size)
{
    return fitted(snprintf(buffer, size, "/webserverd.%s", name), size);
}

/* Only root can create a directory in /run. */
static bool is_service_user(uid_t uid)
{
    struct stat status;

    return lstat(SYSTEM_RUN_DIR, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == uid;
}

bool instance_owner_trusted(uid_t uid, const char *what, char *why, size_t size)
{
    const struct passwd *user;

    if (uid == 0 || uid == geteuid() || is_service_user(uid))
        return true;
    user = getpwuid(uid);
    snprintf(why, size, "%s belongs to %s (uid %lu), not to root, this user or the system service",
             what, user != NULL ? user->pw_name : "another user", (unsigned long)uid);
    return false;
}
