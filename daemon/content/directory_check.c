#include "daemon/content/directory_check.h"

#include "daemon/base/hash.h"

#include <string.h>
#include <unistd.h>

enum { SETTLED_S = 4 }; /* FAT has timestamps in steps of two seconds */

void directory_check_init(struct directory_check *check, uint64_t max_age_ns)
{
    check->max_age_ns = max_age_ns;
    check->fd = -1;
}

void directory_check_close(struct directory_check *check)
{
    if (check->fd >= 0)
        close(check->fd);
    check->fd = -1;
}

void directory_check_expire(struct directory_check *check, uint64_t now_ns)
{
    if (now_ns - check->checked_ns >= check->max_age_ns)
        directory_check_close(check);
}

/* Uses the ctime, which unlike the mtime cannot be set. */
static uint64_t state_of(const struct file *directory, int64_t wall_s)
{
    uint64_t state = hash_mix(directory->device ^ UINT64_C(0x9e3779b97f4a7c15), directory->inode);

    if (wall_s - directory->ctime_s < SETTLED_S)
        return 0;
    state = hash_mix(state ^ (uint64_t)directory->ctime_s, UINT64_C(0xa0761d6478bd642f));
    return hash_mix(state ^ directory->ctime_ns, UINT64_C(0xe7037ed1a0b428db)) | 1;
}

/* Up to and including the last slash. */
static struct span directory_of(struct span file)
{
    const char *slash = memrchr(file.start, '/', file.length);

    return (struct span){file.start, (size_t)(slash + 1 - file.start)};
}

static void find_directory(struct directory_check *check, const struct files_root *root,
                           enum files_effort effort, int64_t wall_s)
{
    struct file directory;

    if (files_find(root, check->path, effort, &directory) != 0)
        return;
    check->fd = directory.fd;
    check->state = state_of(&directory, wall_s);
}

uint64_t directory_check_state(struct directory_check *check, const struct files_root *root,
                               struct span file, enum files_effort effort, uint64_t now_ns,
                               int64_t wall_s)
{
    struct span path = directory_of(file);
    bool same = check->fd >= 0 && check->root == root &&
                span_is(path, (struct span){check->path, check->length});

    if (same && now_ns - check->checked_ns < check->max_age_ns)
        return check->state;
    directory_check_close(check);
    if (path.length >= sizeof(check->path))
        return 0;
    check->root = root;
    memcpy(check->path, path.start, path.length);
    check->path[path.length] = '\0';
    check->length = path.length;
    check->checked_ns = now_ns;
    find_directory(check, root, effort, wall_s);
    return check->fd >= 0 ? check->state : 0;
}
