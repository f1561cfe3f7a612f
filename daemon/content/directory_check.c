#include "daemon/content/directory_check.h"

#include "daemon/base/hash.h"

#include <string.h>
#include <unistd.h>

enum { SETTLED_S = 4 }; /* FAT tells times in steps of two seconds */

void directory_check_init(struct directory_check *look, uint64_t patience_ns)
{
    look->patience_ns = patience_ns;
    look->fd = -1;
}

void directory_check_close(struct directory_check *look)
{
    if (look->fd >= 0)
        close(look->fd);
    look->fd = -1;
}

void directory_check_expire(struct directory_check *look, uint64_t now_ns)
{
    if (now_ns - look->looked_ns > look->patience_ns)
        directory_check_close(look);
}

/* The last change of any kind can't be set back, as that of the content can. */
static uint64_t state_of(const struct file *directory, int64_t wall_s)
{
    uint64_t state = hash_mix(directory->device ^ UINT64_C(0x9e3779b97f4a7c15), directory->inode);

    if (wall_s - directory->ctime_s < SETTLED_S)
        return 0;
    state = hash_mix(state ^ (uint64_t)directory->ctime_s, UINT64_C(0xa0761d6478bd642f));
    return hash_mix(state ^ directory->ctime_ns, UINT64_C(0xe7037ed1a0b428db)) | 1;
}

/* Up to and with its last slash. */
static struct span directory_of(struct span file)
{
    while (file.length > 0 && file.start[file.length - 1] != '/')
        file.length--;
    return file;
}

static void open_directory(struct directory_check *look, const struct files_root *root,
                           enum files_effort effort, int64_t wall_s)
{
    struct file directory;

    if (files_open(root, look->path, effort, &directory) != 0)
        return;
    look->fd = directory.fd;
    look->state = state_of(&directory, wall_s);
}

uint64_t directory_check_state(struct directory_check *look, const struct files_root *root,
                               struct span file, enum files_effort effort, uint64_t now_ns,
                               int64_t wall_s)
{
    struct span path = directory_of(file);
    bool same = look->fd >= 0 && span_is(path, (struct span){look->path, look->length});

    if (same && now_ns - look->looked_ns <= look->patience_ns)
        return look->state;
    directory_check_close(look);
    if (path.length >= sizeof(look->path))
        return 0;
    memcpy(look->path, path.start, path.length);
    look->path[path.length] = '\0';
    look->length = path.length;
    look->looked_ns = now_ns;
    open_directory(look, root, effort, wall_s);
    return look->fd >= 0 ? look->state : 0;
}
