#include "daemon/resource.h"

#include "common/macros.h"
#include "daemon/resource_head.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Up to LENGTH bytes; fewer when the file has shrunk. Returns 0 or an errno. */
static int read_whole(int fd, char *buffer, uint64_t length, enum files_effort effort,
                      uint64_t *got)
{
    *got = 0;
    while (*got < length) {
        ssize_t n = files_read(fd, buffer + *got, length - *got, *got, effort);

        if (n < 0)
            return errno == EAGAIN ? EBUSY : errno;
        if (n == 0)
            break;
        *got += (uint64_t)n;
    }
    return 0;
}

static struct span piece_at(const char *text, struct head_piece piece)
{
    return (struct span){text + piece.start, piece.length};
}

/* One piece of memory: the struct, the path, the head, the body. */
static struct resource *allocate(const struct file *file, const char *path, size_t path_length,
                                 const struct resource_head *head, const char *body,
                                 uint64_t body_length, uint64_t now_ns)
{
    size_t in_memory = body != NULL ? body_length : 0;
    size_t bytes = sizeof(struct resource) + path_length + 1 + head->length + in_memory;
    struct resource *resource = malloc(bytes);
    char *place;

    if (resource == NULL)
        return NULL;
    place = (char *)(resource + 1);
    memcpy(place, path, path_length);
    place[path_length] = '\0';
    cache_entry_init(&resource->entry, place, path_length, bytes, now_ns);
    place += path_length + 1;
    memcpy(place, head->text, head->length);
    if (in_memory > 0)
        memcpy(place + head->length, body, in_memory);
    resource->device = file->device;
    resource->inode = file->inode;
    resource->file_size = file->size;
    resource->mtime_s = file->mtime_s;
    resource->mtime_ns = file->mtime_ns;
    resource->answer = place;
    resource->head_length = head->length;
    resource->answer_length = head->length + in_memory;
    resource->body_length = body_length;
    resource->fd = -1;
    resource->typing = piece_at(place, head->typing);
    resource->sharing = piece_at(place, head->sharing);
    resource->validators = piece_at(place, head->validators);
    resource->etag = piece_at(place, head->etag);
    resource->dated = head->dated;
    return resource;
}

static void write_head(struct resource_head *head, const struct resource_source *source,
                       const struct file *file, const char *path, uint64_t length)
{
    const struct head_facts facts = {
        .path = path,
        .type = mime_type(source->mime, path),
        .rules = source->headers,
        .file = file,
        .length = length,
        .wall_s = time(NULL),
    };

    resource_head_write(head, &facts);
}

/* A file that goes into memory. The body is read first: the file may have shrunk meanwhile. */
static int load_small(const struct resource_source *source, const struct file *file,
                      const char *path, size_t length, enum files_effort effort, uint64_t now_ns,
                      struct resource **resource)
{
    char *body = malloc(file->size + 1);
    struct resource_head head;
    uint64_t got;
    int failed;

    if (body == NULL)
        return ENOMEM;
    failed = read_whole(file->fd, body, file->size, effort, &got);
    if (failed == 0) {
        write_head(&head, source, file, path, got);
        *resource = allocate(file, path, length, &head, body, got, now_ns);
        failed = *resource == NULL ? ENOMEM : 0;
    }
    free(body);
    return failed;
}

/* A file that is sent from its descriptor, which the resource takes over. */
static int load_large(const struct resource_source *source, const struct file *file,
                      const char *path, size_t length, uint64_t now_ns, struct resource **resource)
{
    struct resource_head head;

    write_head(&head, source, file, path, file->size);
    *resource = allocate(file, path, length, &head, NULL, file->size, now_ns);
    if (*resource == NULL)
        return ENOMEM;
    (*resource)->fd = file->fd;
    return 0;
}

int resource_load(const struct resource_source *source, const char *path, size_t length,
                  enum files_effort opening, enum files_effort reading, uint64_t now_ns,
                  struct resource **resource)
{
    struct file file;
    int failed = files_open(source->root, path, opening, &file);

    if (failed != 0)
        return failed;
    if (file.folder)
        failed = EISDIR;
    else if (file.size > source->memory_limit)
        failed = load_large(source, &file, path, length, now_ns, resource);
    else
        failed = load_small(source, &file, path, length, reading, now_ns, resource);
    if (failed != 0 || (*resource)->fd < 0)
        close(file.fd);
    return failed;
}

void resource_destroy(struct cache_entry *entry)
{
    struct resource *resource = CONTAINER_OF(entry, struct resource, entry);

    if (resource->fd >= 0)
        close(resource->fd);
    free(resource);
}

void resource_release(struct cache *cache, struct resource *resource)
{
    if (cache != NULL)
        cache_release(cache, &resource->entry);
    else if (atomic_fetch_sub_explicit(&resource->entry.references, 1, memory_order_acq_rel) == 1)
        resource_destroy(&resource->entry);
}

static bool same_file(const struct resource *resource, const struct file *file)
{
    return !file->folder && file->device == resource->device && file->inode == resource->inode &&
           file->size == resource->file_size && file->mtime_s == resource->mtime_s &&
           file->mtime_ns == resource->mtime_ns;
}

int resource_check(const struct resource_source *source, const struct resource *resource,
                   enum files_effort effort)
{
    struct file file;
    int failed = files_open(source->root, resource->entry.path, effort, &file);
    bool same;

    if (failed == EAGAIN)
        return EAGAIN;
    if (failed != 0)
        return ESTALE;
    same = same_file(resource, &file);
    close(file.fd);
    return same ? 0 : ESTALE;
}
