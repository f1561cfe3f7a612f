#include "daemon/content/listing.h"

#include "daemon/http/target.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* What is asked for */

static bool is_parameter(struct span part, const char *name, const char *value)
{
    size_t length = strlen(name);

    return part.length == length + 1 + strlen(value) && memcmp(part.start, name, length) == 0 &&
           part.start[length] == '=' && memcmp(part.start + length + 1, value, strlen(value)) == 0;
}

static void take_parameter(struct listing_order *order, struct span part)
{
    if (is_parameter(part, "sort", "size"))
        order->key = LISTING_BY_SIZE;
    else if (is_parameter(part, "sort", "time"))
        order->key = LISTING_BY_TIME;
    else if (is_parameter(part, "order", "desc"))
        order->descending = true;
}

struct listing_order listing_order_read(struct span query)
{
    struct listing_order order = {.key = LISTING_BY_NAME};

    while (query.length > 0) {
        const char *end = memchr(query.start, '&', query.length);
        size_t length = end != NULL ? (size_t)(end - query.start) : query.length;

        take_parameter(&order, (struct span){query.start, length});
        length += end != NULL;
        query = (struct span){query.start + length, query.length - length};
    }
    return order;
}

/* Reading */

struct reading {
    const struct files_root *root;
    const char *path; /* of the directory, with a slash at its end */
    bool hidden;
    int directory;
    struct listing *listing;
    size_t room;
};

/* Names that no target can have, see daemon/http/target.h. */
static bool is_out_of_reach(const char *name)
{
    for (; *name != '\0'; name++)
        if ((unsigned char)*name < 0x20 || *name == 0x7f || *name == '\\')
            return true;
    return false;
}

static bool is_shown(const struct reading *reading, const char *name)
{
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return false;
    return (name[0] != '.' || reading->hidden) && !is_out_of_reach(name);
}

/* A link is what it leads to, if it may be followed. */
static bool look_through(const struct reading *reading, const char *name, struct file *file)
{
    char path[TARGET_PATH_MAX + 256];

    if (reading->root->links == FILES_LINKS_DENY)
        return false;
    snprintf(path, sizeof(path), "%s%s", reading->path, name);
    if (files_open(reading->root, path, FILES_MAY_BLOCK, file) != 0)
        return false;
    close(file->fd);
    return true;
}

static bool look_at(const struct reading *reading, const char *name, struct listing_entry *entry)
{
    struct stat status;
    struct file file;

    if (fstatat(reading->directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0)
        return false;
    if (S_ISLNK(status.st_mode)) {
        if (!look_through(reading, name, &file))
            return false;
    } else if (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)) {
        file = (struct file){.directory = S_ISDIR(status.st_mode),
                             .size = (uint64_t)status.st_size,
                             .mtime_s = status.st_mtim.tv_sec};
    } else {
        return false;
    }
    *entry = (struct listing_entry){.directory = file.directory,
                                    .size = file.directory ? 0 : file.size,
                                    .mtime_s = file.mtime_s};
    return true;
}

static bool make_room(struct reading *reading)
{
    size_t room = reading->room == 0 ? 64 : reading->room * 2;
    struct listing_entry *entry;

    if (reading->listing->count < reading->room)
        return true;
    entry = realloc(reading->listing->entry, room * sizeof(*entry));
    if (entry == NULL)
        return false;
    reading->listing->entry = entry;
    reading->room = room;
    return true;
}

/* 0 or an errno. Beyond LISTING_MAX an entry is counted without a look. */
static int take(struct reading *reading, const char *name)
{
    struct listing *listing = reading->listing;
    struct listing_entry entry;

    if (!is_shown(reading, name))
        return 0;
    if (listing->count == LISTING_MAX) {
        listing->total++;
        return 0;
    }
    if (!look_at(reading, name, &entry))
        return 0;
    entry.name = strdup(name);
    if (entry.name == NULL || !make_room(reading)) {
        free(entry.name);
        return ENOMEM;
    }
    listing->entry[listing->count++] = entry;
    listing->total++;
    return 0;
}

/* Takes FD over. */
static int read_directory(struct reading *reading, int fd)
{
    DIR *stream = fdopendir(fd);
    const struct dirent *entry;
    int failed = 0;

    if (stream == NULL) {
        failed = errno;
        close(fd);
        return failed;
    }
    reading->directory = dirfd(stream);
    while (failed == 0 && (errno = 0, entry = readdir(stream)) != NULL)
        failed = take(reading, entry->d_name);
    if (failed == 0)
        failed = errno;
    closedir(stream);
    return failed;
}

/* Sorting */

static int by_number(uint64_t one, uint64_t other)
{
    return (one > other) - (one < other);
}

static int by_name(const struct listing_entry *one, const struct listing_entry *other)
{
    int difference = strcasecmp(one->name, other->name);

    return difference != 0 ? difference : strcmp(one->name, other->name);
}

/* Directories first, whatever the order; equals are by name. */
static int compare(const void *a, const void *b, void *argument)
{
    const struct listing_entry *one = a, *other = b;
    const struct listing_order *order = argument;
    int difference = 0;

    if (one->directory != other->directory)
        return one->directory ? -1 : 1;
    if (order->key == LISTING_BY_SIZE)
        difference = by_number(one->size, other->size);
    else if (order->key == LISTING_BY_TIME)
        difference = (one->mtime_s > other->mtime_s) - (one->mtime_s < other->mtime_s);
    else
        difference = by_name(one, other);
    if (difference == 0)
        return by_name(one, other);
    return order->descending ? -difference : difference;
}

int listing_read(const struct files_root *root, const char *path, bool hidden,
                 const struct listing_order *order, struct listing *listing)
{
    struct reading reading = {.root = root, .path = path, .hidden = hidden, .listing = listing};
    struct file file;
    int failed = files_open(root, path, FILES_MAY_BLOCK, &file);

    *listing = (struct listing){.count = 0};
    if (failed != 0)
        return failed;
    if (!file.directory) {
        close(file.fd);
        return ENOTDIR;
    }
    failed = read_directory(&reading, file.fd);
    if (failed != 0) {
        listing_free(listing);
        return failed;
    }
    if (listing->count > 0)
        qsort_r(listing->entry, listing->count, sizeof(*listing->entry), compare,
                (void *)(uintptr_t)order);
    return 0;
}

void listing_free(struct listing *listing)
{
    for (size_t i = 0; i < listing->count; i++)
        free(listing->entry[i].name);
    free(listing->entry);
    *listing = (struct listing){.count = 0};
}
