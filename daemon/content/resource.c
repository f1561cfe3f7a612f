#include "daemon/content/resource.h"

#include "common/clock.h"
#include "common/macros.h"
#include "daemon/content/resource_head.h"
#include "daemon/http/coding.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    COMPRESS_LEAST = 512, /* bytes: below, a gzip frame and a packet's end eat up what is saved */
    ENTRY_PATH_MORE = 2 + 2 + 8, /* two NULs, the mark and a coding's name */
    NAMES_WARM_S = 10,           /* the kernel still knows a name that was looked at so long ago */
};

/* The whole file; fewer bytes when it has shrunk. Returns 0 or an errno. */
static int read_whole(const struct file *file, char *buffer, enum files_effort effort,
                      uint64_t *got)
{
    *got = 0;
    while (*got < file->size) {
        ssize_t n =
            files_read(file->fd, file->device, buffer + *got, file->size - *got, *got, effort);

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

/* What is put together into a resource. */
struct making {
    const struct resource_source *source;
    struct span path;   /* of the file */
    enum coding coding; /* not CODING_IDENTITY: a variant of the file... */
    bool made;          /* ...that we make */
    struct variants variants;
    uint64_t directory_state, directory_ns; /* as in struct resource */
    uint64_t now_ns;
};

static const struct file_identity *file_of(const struct making *making)
{
    return &making->variants.member[making->made ? CODING_IDENTITY : making->coding];
}

/* What a client sees of a change of either: a variant is as young as the younger of both. */
static int64_t modified_of(const struct making *making)
{
    int64_t original = making->variants.member[CODING_IDENTITY].mtime_s;
    int64_t own = file_of(making)->mtime_s;

    return own > original ? own : original;
}

static bool may_gzip(const struct making *making, uint64_t length)
{
    return making->source->compress && making->coding == CODING_IDENTITY &&
           length >= COMPRESS_LEAST && length <= making->source->memory_limit &&
           coding_compressible(mime_type(making->source->mime, making->path.start));
}

/* Answers depend on Accept-Encoding where there is, or may be, more than one variant. */
static bool varies(const struct making *making, uint64_t length)
{
    if (making->coding != CODING_IDENTITY || may_gzip(making, length))
        return true;
    for (int i = CODING_IDENTITY + 1; i < CODING_COUNT; i++)
        if (making->variants.member[i].inode != 0)
            return true;
    return false;
}

static void write_head(struct resource_head *head, const struct making *making, uint64_t length)
{
    const struct head_facts facts = {
        .path = making->path.start,
        .type = mime_type(making->source->mime, making->path.start),
        .rules = making->source->headers,
        .file = file_of(making),
        .coding = making->coding,
        .varies = varies(making, length),
        .modified_s = modified_of(making),
        .length = length,
        .wall_s = time(NULL),
    };

    resource_head_write(head, &facts);
}

/* The path in the cache, ended by NUL; returns its length. */
static size_t write_entry_path(char *place, const struct making *making)
{
    struct span name = coding_names[making->coding];
    size_t length = making->path.length;

    memcpy(place, making->path.start, length);
    if (making->coding != CODING_IDENTITY) {
        memcpy(place + length, RESOURCE_VARIANT_MARK, sizeof(RESOURCE_VARIANT_MARK) - 1);
        length += sizeof(RESOURCE_VARIANT_MARK) - 1;
        memcpy(place + length, name.start, name.length);
        length += name.length;
    }
    place[length] = '\0';
    return length;
}

static void fill(struct resource *resource, const struct making *making,
                 const struct resource_head *head, uint64_t body_length)
{
    resource->variants = making->variants;
    resource->may_gzip = may_gzip(making, body_length);
    atomic_init(&resource->gzip_not_smaller, false);
    atomic_init(&resource->directory_state, making->directory_state);
    atomic_init(&resource->directory_ns, making->directory_ns);
    resource->head_length = head->length;
    resource->body_length = body_length;
    resource->fd = -1;
    resource->typing = piece_at(resource->answer, head->typing);
    resource->sharing = piece_at(resource->answer, head->sharing);
    resource->validators = piece_at(resource->answer, head->validators);
    resource->etag = piece_at(resource->answer, head->etag);
    resource->varies = varies(making, body_length);
    resource->dated = head->dated;
    resource->modified_s = modified_of(making);
    resource->modified_text = piece_at(resource->answer, head->modified);
}

/* One piece of memory: the struct, the two paths, the head, the body (NULL: it stays in its file). */
static struct resource *allocate(const struct making *making, const char *body,
                                 uint64_t body_length)
{
    size_t in_memory = body != NULL ? body_length : 0, entry_length;
    struct resource_head head;
    struct resource *resource;
    size_t bytes;
    char *place;

    write_head(&head, making, body_length);
    bytes = sizeof(*resource) + 2 * making->path.length + ENTRY_PATH_MORE + head.length + in_memory;
    resource = malloc(bytes);
    if (resource == NULL)
        return NULL;
    place = (char *)(resource + 1);
    memcpy(place, making->path.start, making->path.length);
    place[making->path.length] = '\0';
    resource->file_path = (struct span){place, making->path.length};
    place += making->path.length + 1;
    entry_length = write_entry_path(place, making);
    cache_entry_init(&resource->entry, place, entry_length, bytes, making->now_ns);
    place += entry_length + 1;
    memcpy(place, head.text, head.length);
    if (in_memory > 0)
        memcpy(place + head.length, body, in_memory);
    resource->answer = place;
    resource->answer_length = head.length + in_memory;
    fill(resource, making, &head, body_length);
    return resource;
}

/* A file that goes into memory. The body is read first: the file may have shrunk meanwhile. */
static int load_small(const struct making *making, const struct file *file,
                      enum files_effort effort, struct resource **resource)
{
    char *body = malloc(file->size + 1);
    uint64_t got;
    int failed;

    if (body == NULL)
        return ENOMEM;
    failed = read_whole(file, body, effort, &got);
    if (failed == 0) {
        *resource = allocate(making, body, got);
        failed = *resource == NULL ? ENOMEM : 0;
    }
    free(body);
    return failed;
}

/* A file that is sent from its descriptor, which the resource takes over. */
static int load_large(const struct making *making, const struct file *file,
                      struct resource **resource)
{
    *resource = allocate(making, NULL, file->size);
    if (*resource == NULL)
        return ENOMEM;
    (*resource)->fd = file->fd;
    (*resource)->device = file->device;
    (*resource)->entry.holds_descriptor = true;
    return 0;
}

/* FILE is closed, or the resource's. */
static int load(const struct making *making, const struct file *file, enum files_effort reading,
                struct resource **resource)
{
    int failed = file->size > making->source->copy_limit
                     ? load_large(making, file, resource)
                     : load_small(making, file, reading, resource);

    if (failed != 0 || (*resource)->fd < 0)
        close(file->fd);
    return failed;
}

static int64_t wall_s(void)
{
    return (int64_t)(clock_wall_ns() / NS_PER_S);
}

static const char *name_in(struct span path)
{
    return (const char *)memrchr(path.start, '/', path.length) + 1;
}

/*
 * Opens the variants as variants_open() does and notes the directory's state, as it was before. A file system
 * that does not remember which names are missing (tmpfs) can't tell without waiting that a variant is
 * still missing; that the directory is the same, each can.
 */
static int open_in_folder(struct making *making, struct file *file)
{
    const struct resource_source *source = making->source;
    struct directory_check look;
    uint64_t state;
    int failed;

    directory_check_init(&look, 0);
    state = directory_check_state(&look, source->root, making->path, FILES_MAY_BLOCK,
                                  making->now_ns, wall_s());
    failed = variants_open(source->root, source->precompressed, making->path.start, FILES_MAY_BLOCK,
                           file, &making->variants);
    if (failed == 0 && state != 0 &&
        variants_complete(look.fd, name_in(making->path), &making->variants)) {
        making->directory_state = state;
        making->directory_ns = making->now_ns;
    }
    directory_check_close(&look);
    return failed;
}

int resource_load(const struct resource_source *source, const char *path, size_t length,
                  enum files_effort opening, enum files_effort reading, uint64_t now_ns,
                  struct resource **resource)
{
    struct making making = {.source = source, .path = {path, length}, .now_ns = now_ns};
    struct file file;
    int failed = opening == FILES_MAY_BLOCK ? open_in_folder(&making, &file)
                                            : variants_open(source->root, source->precompressed,
                                                            path, opening, &file, &making.variants);

    return failed != 0 ? failed : load(&making, &file, reading, resource);
}

/* The file as it is: from the copy, or read anew into *READ, which the caller frees. 0 or an errno. */
static int whole_body(const struct resource *original, enum files_effort effort, struct span *body,
                      char **read)
{
    const struct file file = {
        .fd = original->fd, .device = original->device, .size = original->body_length};
    uint64_t got;
    int failed;

    *read = NULL;
    *body = (struct span){original->answer + original->head_length, original->body_length};
    if (original->fd < 0)
        return 0;
    *read = malloc(file.size + 1);
    if (*read == NULL)
        return ENOMEM;
    failed = read_whole(&file, *read, effort, &got);
    *body = (struct span){*read, got};
    return failed;
}

static int make_gzip(const struct making *making, struct span body, struct resource **resource)
{
    char *compressed;
    size_t length;
    int failed = coding_gzip(body.start, body.length, &compressed, &length);

    if (failed != 0)
        return failed;
    *resource = allocate(making, compressed, length);
    free(compressed);
    return *resource == NULL ? ENOMEM : 0;
}

static int make_variant(const struct making *making, const struct resource *original,
                        enum files_effort effort, struct resource **resource)
{
    struct span body;
    char *read;
    int failed;

    if (!original->may_gzip || making->coding != CODING_GZIP)
        return ENODATA;
    if (effort == FILES_CACHED_ONLY)
        return EBUSY;
    failed = whole_body(original, effort, &body, &read);
    if (failed == 0)
        failed = make_gzip(making, body, resource);
    free(read);
    return failed;
}

int resource_load_variant(const struct resource_source *source, const struct resource *original,
                          enum coding coding, enum files_effort opening, enum files_effort reading,
                          uint64_t now_ns, struct resource **resource)
{
    const struct making making = {
        .source = source,
        .path = original->file_path,
        .coding = coding,
        .made = original->variants.member[coding].inode == 0,
        .variants = original->variants,
        .directory_state = atomic_load_explicit(&original->directory_state, memory_order_relaxed),
        .directory_ns = atomic_load_explicit(&original->directory_ns, memory_order_relaxed),
        .now_ns = now_ns,
    };
    struct file file;
    int failed;

    if (making.made)
        return make_variant(&making, original, reading, resource);
    failed = variants_open_one(source->root, making.path.start, coding, &making.variants, opening,
                               &file);
    return failed != 0 ? failed : load(&making, &file, reading, resource);
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

/* The file could not be looked at for want of something: what was true a while ago still serves. */
static bool is_shortage(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOMEM;
}

/*
 * No name has come or gone in the directory since the variants was looked for, and its members look as
 * they did. A name that was not looked at for long may have to be read from a disk.
 */
static bool is_unchanged(const struct resource *resource, const struct directory_check *look,
                         uint64_t directory_state, uint64_t now_ns)
{
    uint64_t seen_ns = atomic_load_explicit(&resource->directory_ns, memory_order_relaxed);

    return directory_state != 0 &&
           directory_state ==
               atomic_load_explicit(&resource->directory_state, memory_order_relaxed) &&
           now_ns - seen_ns < NAMES_WARM_S * NS_PER_S &&
           variants_unchanged(look->fd, name_in(resource->file_path), &resource->variants);
}

static int check_all(const struct resource_source *source, struct resource *resource,
                     enum files_effort effort, const struct directory_check *look,
                     uint64_t directory_state)
{
    struct variants variants;
    struct file file;
    int failed = variants_open(source->root, source->precompressed, resource->file_path.start,
                               effort, &file, &variants);

    if (failed == EAGAIN)
        return EAGAIN;
    if (failed != 0)
        return is_shortage(failed) ? 0 : ESTALE;
    close(file.fd);
    if (directory_state != 0 &&
        !variants_complete(look->fd, name_in(resource->file_path), &variants))
        directory_state = 0;
    atomic_store_explicit(&resource->directory_state, directory_state, memory_order_relaxed);
    return variants_equal(&variants, &resource->variants) ? 0 : ESTALE;
}

int resource_check(const struct resource_source *source, struct resource *resource,
                   enum files_effort effort, struct directory_check *look, uint64_t now_ns)
{
    /* The directory first: what changes in it from now on is seen the next time. */
    uint64_t directory_state =
        directory_check_state(look, source->root, resource->file_path, effort, now_ns, wall_s());

    if (!is_unchanged(resource, look, directory_state, now_ns)) {
        int failed = check_all(source, resource, effort, look, directory_state);

        if (failed != 0)
            return failed;
    }
    atomic_store_explicit(&resource->directory_ns, now_ns, memory_order_relaxed);
    return 0;
}

void resource_share_check(struct resource *variant, const struct resource *original)
{
    atomic_store_explicit(&variant->directory_state,
                          atomic_load_explicit(&original->directory_state, memory_order_relaxed),
                          memory_order_relaxed);
    atomic_store_explicit(&variant->directory_ns,
                          atomic_load_explicit(&original->directory_ns, memory_order_relaxed),
                          memory_order_relaxed);
}
