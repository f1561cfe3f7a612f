#include "daemon/sandbox/confinement.h"

#include "common/macros.h"
#include "daemon/base/events.h"
#include "daemon/sandbox/identity.h"
#include "daemon/sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* Opens the folders that may be read below, the root and the fences, and locks the process in. */
static int enter_jail(const struct files_root *root)
{
    int folders[1 + CONFIG_LIST_MAX] = {root->fd}, failed = 0;
    size_t count = 1;

    while (failed == 0 && count <= root->fence_count) {
        folders[count] = open(root->fence[count - 1], O_PATH | O_DIRECTORY | O_CLOEXEC);
        failed = folders[count] < 0 ? -1 : 0;
        if (failed != 0)
            event_log(LEVEL_ERROR, "[files] follow_into: %s: %s", root->fence[count - 1],
                      strerror(errno));
        count += failed == 0;
    }
    if (failed == 0)
        failed = jail_enter(folders, count);
    while (--count > 0)
        close(folders[count]);
    return failed;
}

int confinement_enter(const struct files_root *root, const struct worker_setup *setup)
{
    const struct config *config = setup->config;
    int keep[] = {setup->command_fd, setup->connection_fd, setup->doorbell,
                  setup->lock_fd,    setup->segment->fd,   root->fd};
    struct identity identity;
    struct identity_fault fault;

    jail_close_others(keep, ARRAY_LENGTH(keep));
    if (identity_find(config->server_user, config->server_group, geteuid(), &identity, &fault) !=
        0) {
        event_log(LEVEL_ERROR, "[server] %s: %s", fault.group ? "group" : "user", fault.text);
        return -1;
    }
    if (identity_take(&identity) != 0) {
        event_log(LEVEL_ERROR, "a worker cannot become user %u: %s", identity.uid, strerror(errno));
        return -1;
    }
    if (config->server_jail && enter_jail(root) != 0) {
        event_log(LEVEL_ERROR, "a worker cannot lock itself in: %s", strerror(errno));
        return -1;
    }
    return 0;
}
