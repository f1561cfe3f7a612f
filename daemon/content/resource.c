#include "daemon/content/resource.h"

#include "common/clock.h"
#include "common/macros.h"
#include "daemon/http/date.h"
#include "daemon/http/negotiation.h"
#include "daemon/http/response.h"
#include "daemon/http/target.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    ENTRY_PATH_MORE = 2 + 2 + 8, /* two NULs, the mark and a coding's name */
    DATE_MIN_S = 24 * 60 * 60,   /* earlier mtimes say nothing: reproducible archives set them */
    NAMES_WARM_S = 10, /* for this long a looked-up name is assumed to be in the kernel's cache */
};

/*
 * Reads the whole file; *GOT is less than its size if it shrank meanwhile. Returns 0 or an errno.
 */
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

/* A resource while it is built. */
struct build {
    const struct resource_source *source;
    struct span path;   /* the file's */
    const char *type;   /* media type */
    enum coding coding; /* CODING_IDENTITY: the file itself */
    bool made;          /* the variant is compressed here, not loaded from a file */
    enum coding named;  /* CODING_IDENTITY, or that of a file which is requested by a coded name */
    struct variants variants;
    uint64_t directory_state, directory_ns; /* as in struct resource */
    uint64_t now_ns;
};

static const struct file_identity *file_of(const struct build *build)
{
    return &build->variants.member[build->made ? CODING_IDENTITY : build->coding];
}

static const char *name_in(struct span path)
{
    return (const char *)memrchr(path.start, '/', path.length) + 1;
}

/* Copies PATH without the extension of CODING, if it has this and another one: "/x.wasm.br". */
static bool copy_uncoded(struct span path, enum coding coding, char *uncoded)
{
    struct span extension = coding_extensions[coding];
    const char *name;

    if (path.length <= extension.length ||
        memcmp(path.start + path.length - extension.length, extension.start, extension.length) != 0)
        return false;
    memcpy(uncoded, path.start, path.length - extension.length);
    uncoded[path.length - extension.length] = '\0';
    name = strrchr(uncoded, '/') + 1;
    return name[0] != '\0' && strchr(name + 1, '.') != NULL;
}

/* The media type by [headers], [files] coded_names and [mime]; and the coding by the name. */
static void set_type(struct build *build)
{
    const struct resource_source *source = build->source;
    const char *path = build->path.start;
    const char *configured = header_rules_value(source->headers, path, "Content-Type");
    char uncoded[TARGET_PATH_MAX];

    build->type = mime_type(source->mime, path);
    for (int i = CODING_IDENTITY + 1; i < CODING_COUNT; i++)
        if (source->coded_names[i] && copy_uncoded(build->path, (enum coding)i, uncoded) &&
            strcmp(mime_type(source->mime, uncoded), "application/x-tar") != 0) {
            build->type = mime_type(source->mime, uncoded);
            build->named = (enum coding)i;
        }
    if (configured != NULL)
        build->type = configured;
}

/* A variant's Last-Modified is the later of both mtimes. */
static int64_t modified_of(const struct build *build)
{
    int64_t original = build->variants.member[CODING_IDENTITY].mtime_s;
    int64_t own = file_of(build)->mtime_s;

    return own > original ? own : original;
}

static bool has_date(const struct build *build)
{
    return modified_of(build) >= DATE_MIN_S &&
           header_rules_value(build->source->headers, build->path.start, "Last-Modified") == NULL;
}

/* The codings in which a variant can be made, as bits. */
static uint8_t codings_to_make(const struct build *build, uint64_t length)
{
    const struct resource_source *source = build->source;
    uint8_t codings = 0;

    if (build->coding != CODING_IDENTITY || build->named != CODING_IDENTITY ||
        length < COMPRESSION_MIN_BYTES || length > source->memory_limit ||
        !compression_suits_type(build->type))
        return 0;
    for (int i = CODING_IDENTITY + 1; i < CODING_COUNT; i++)
        if (source->levels.level[i] > 0)
            codings |= (uint8_t)(1U << i);
    return codings;
}

/* True if there is more than one variant, or could be. */
static bool varies(const struct build *build, uint64_t length)
{
    if (build->coding != CODING_IDENTITY || codings_to_make(build, length) != 0)
        return true;
    for (int i = CODING_IDENTITY + 1; i < CODING_COUNT; i++)
        if (build->variants.member[i].inode != 0)
            return true;
    return false;
}

/* The head */

enum { HEAD_MAX = 768 + HEADER_RULES_MAX };

/* A part of the text. */
struct head_piece {
    uint32_t start, length;
};

struct head_text {
    char text[HEAD_MAX];
    uint32_t length;
    struct head_piece type_fields, common_fields, validators, etag, modified;
    /*
     * Last-Modified is the mtime, if it is sent. An mtime in the future is sent as now (RFC 9110
     * section 8.8.2.1) and not used in comparisons.
     */
    bool dated;
};

/* Has room for all fields: the configuration bounds media types and its own fields. */
static void __attribute__((format(printf, 2, 3)))
append_to_head(struct head_text *head, const char *format, ...)
{
    size_t room = HEAD_MAX - head->length;
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = vsnprintf(head->text + head->length, room, format, arguments);
    va_end(arguments);
    head->length += (uint32_t)((size_t)length < room ? (size_t)length : room - 1);
}

/* The head as an HPACK block. */
struct head_block {
    char bytes[HPACK_LINES_MAX(HEAD_MAX)];
    uint32_t length;
    struct head_piece type_fields, common_fields, validators;
};

static void end_piece(const struct head_text *head, struct head_piece *piece)
{
    piece->length = head->length - piece->start;
}

/*
 * A strong validator: it changes with every visible change of the content, and differs for each
 * coding (RFC 9110 section 8.8.3.3), see coding_of_tag(). The ctime covers changes after which the mtime was set back;
 * it also changes with the mode, the owner and the number of links, which costs a needless transfer
 * only.
 */
static void put_etag(struct head_text *head, const struct file_identity *file, enum coding coding)
{
    append_to_head(head, "ETag: ");
    head->etag.start = head->length;
    append_to_head(
        head, "\"%" PRIx64 "-%" PRIx64 ".%" PRIx32 "-%" PRIx64 ".%" PRIx32 "-%" PRIx64 "%s%s\"",
        file->size, (uint64_t)file->mtime_s, file->mtime_ns, (uint64_t)file->ctime_s,
        file->ctime_ns, file->inode, coding != CODING_IDENTITY ? "-" : "",
        coding_names[coding].start);
    end_piece(head, &head->etag);
    append_to_head(head, "\r\n");
}

static void put_date(struct head_text *head, int64_t modified)
{
    char date[HTTP_DATE_BYTES];

    http_date_write(modified, date);
    append_to_head(head, "Last-Modified: ");
    head->modified.start = head->length;
    append_to_head(head, "%.*s", HTTP_DATE_BYTES, date);
    end_piece(head, &head->modified);
    append_to_head(head, "\r\n");
}

static void put_rules(struct head_text *head, const struct build *build, enum header_part part)
{
    head->length += (uint32_t)header_rules_write(build->source->headers, build->path.start, part,
                                                 head->text + head->length);
}

/* Writes the field lines of the resource; LENGTH is the Content-Length. */
static void write_head(struct head_text *head, const struct build *build, uint64_t length)
{
    enum coding coding = build->coding != CODING_IDENTITY ? build->coding : build->named;
    int64_t modified_s = modified_of(build), now_s = time(NULL);
    bool has_date_field = has_date(build);

    head->length = 0;
    head->modified = (struct head_piece){0, 0};
    head->dated = has_date_field && modified_s <= now_s;
    append_to_head(head, "Content-Length: %" PRIu64 "\r\n", length);
    head->type_fields.start = head->length;
    append_to_head(head, "Content-Type: %s\r\n", build->type);
    if (coding != CODING_IDENTITY)
        append_to_head(head, "Content-Encoding: %s\r\n", coding_names[coding].start);
    end_piece(head, &head->type_fields);
    head->common_fields.start = head->length;
    put_rules(head, build, HEADER_OF_CONTENT);
    append_to_head(head, "Accept-Ranges: bytes\r\n");
    if (has_date_field)
        put_date(head, head->dated ? modified_s : now_s);
    head->validators.start = head->length;
    put_etag(head, file_of(build), build->coding);
    if (varies(build, length))
        append_to_head(head, "Vary: Accept-Encoding\r\n");
    put_rules(head, build, HEADER_OF_RESPONSE);
    end_piece(head, &head->validators);
    end_piece(head, &head->common_fields);
    append_to_head(head, "\r\n");
}

/* Appends the field lines of HEAD from START to END. */
static void encode_lines(struct head_block *block, const struct head_text *head, uint32_t start,
                         uint32_t end)
{
    struct span lines = {head->text + start, end - start};

    block->length = (uint32_t)(hpack_put_lines(block->bytes + block->length, lines) - block->bytes);
}

/* Encodes HEAD piece by piece. */
static void encode_head(struct head_block *block, const struct head_text *head)
{
    uint32_t type = head->type_fields.start, common = head->common_fields.start;
    uint32_t validators = head->validators.start;

    block->length = 0;
    encode_lines(block, head, 0, type);
    block->type_fields.start = block->length;
    encode_lines(block, head, type, common);
    block->common_fields.start = block->length;
    encode_lines(block, head, common, validators);
    block->validators.start = block->length;
    encode_lines(block, head, validators, validators + head->validators.length);
    block->type_fields.length = block->common_fields.start - block->type_fields.start;
    block->common_fields.length = block->length - block->common_fields.start;
    block->validators.length = block->length - block->validators.start;
}

/* Building */

static struct span piece_at(const char *text, struct head_piece piece)
{
    return (struct span){text + piece.start, piece.length};
}

/* Writes the cache path and a NUL; returns the length. */
static size_t write_entry_path(char *place, const struct build *build)
{
    struct span name = coding_names[build->coding];
    size_t length = build->path.length;

    memcpy(place, build->path.start, length);
    if (build->coding != CODING_IDENTITY) {
        memcpy(place + length, RESOURCE_VARIANT_MARK, sizeof(RESOURCE_VARIANT_MARK) - 1);
        length += sizeof(RESOURCE_VARIANT_MARK) - 1;
        memcpy(place + length, name.start, name.length);
        length += name.length;
    }
    place[length] = '\0';
    return length;
}

/* TEXT and BLOCK are the copies of HEAD and ENCODED in the resource. */
static void fill_head(struct resource *resource, const struct head_text *head, const char *text,
                      const struct head_block *encoded, const char *block)
{
    resource->head[HTTP_1] = (struct span){text, head->length};
    resource->pieces[HTTP_1] =
        (struct head_pieces){piece_at(text, head->type_fields), piece_at(text, head->common_fields),
                             piece_at(text, head->validators)};
    resource->head[HTTP_2] = (struct span){block, encoded->length};
    resource->pieces[HTTP_2] = (struct head_pieces){piece_at(block, encoded->type_fields),
                                                    piece_at(block, encoded->common_fields),
                                                    piece_at(block, encoded->validators)};
    resource->etag = piece_at(text, head->etag);
    resource->dated = head->dated;
    resource->modified_text = piece_at(text, head->modified);
}

/* Copies BYTES to *PLACE and moves it behind them. */
static char *place_bytes(char **place, const char *bytes, size_t length)
{
    char *copy = *place;

    memcpy(copy, bytes, length);
    *place += length;
    return copy;
}

/* A variant that stands alone saves nothing that is known. */
static uint32_t saved_bytes(const struct build *build, uint64_t body_length)
{
    uint64_t original = build->variants.member[CODING_IDENTITY].size;

    if (build->coding == CODING_IDENTITY || original <= body_length)
        return 0;
    return original - body_length < UINT32_MAX ? (uint32_t)(original - body_length) : UINT32_MAX;
}

/* One allocation for the struct, two paths, the heads and the body (NULL: it stays in the file). */
static struct resource *allocate(const struct build *build, const char *body, uint64_t body_length)
{
    size_t in_memory = body != NULL ? body_length : 0, entry_length;
    struct head_text head;
    struct head_block block;
    struct resource *resource;
    size_t bytes;
    char *place, *text;

    write_head(&head, build, body_length);
    encode_head(&block, &head);
    bytes = sizeof(*resource) + 2 * build->path.length + ENTRY_PATH_MORE + block.length +
            head.length + in_memory;
    resource = malloc(bytes);
    if (resource == NULL)
        return NULL;
    place = (char *)(resource + 1);
    memcpy(place, build->path.start, build->path.length);
    place[build->path.length] = '\0';
    resource->file_path = (struct span){place, build->path.length};
    place += build->path.length + 1;
    entry_length = write_entry_path(place, build);
    cache_entry_init(&resource->entry, place, entry_length, bytes, build->now_ns);
    resource->entry.site = build->source->site;
    place += entry_length + 1;
    text = place_bytes(&place, head.text, head.length);
    resource->body = body != NULL ? place_bytes(&place, body, body_length) : NULL;
    fill_head(resource, &head, text, &block, place_bytes(&place, block.bytes, block.length));
    resource->variants = build->variants;
    resource->coded_only = false;
    resource->may_make = codings_to_make(build, body_length);
    for (int i = 0; i < CODING_COUNT; i++)
        atomic_init(&resource->made_bytes[i], 0);
    resource->coding = build->coding != CODING_IDENTITY ? build->coding : build->named;
    resource->saved_bytes = saved_bytes(build, body_length);
    atomic_init(&resource->directory_state, build->directory_state);
    atomic_init(&resource->directory_ns, build->directory_ns);
    resource->body_length = body_length;
    resource->fd = -1;
    resource->varies = varies(build, body_length);
    resource->modified_s = modified_of(build);
    return resource;
}

/*
 * Copies the file into memory. Reads the body before it writes the head, as the file may have
 * shrunk.
 */
static int load_copy(const struct build *build, const struct file *file, enum files_effort effort,
                     struct resource **resource)
{
    char *body = malloc(file->size + 1);
    uint64_t got;
    int failed;

    if (body == NULL)
        return ENOMEM;
    failed = read_whole(file, body, effort, &got);
    if (failed == 0) {
        *resource = allocate(build, body, got);
        failed = *resource == NULL ? ENOMEM : 0;
    }
    free(body);
    return failed;
}

/* Takes ownership of FILE's descriptor; the resource keeps it if the file is not copied. */
static int load_body(const struct build *build, const struct file *file, enum files_effort reading,
                     struct resource **resource)
{
    int failed;

    if (file->fd < 0) { /* there are only its variants */
        *resource = allocate(build, "", 0);
        if (*resource == NULL)
            return ENOMEM;
        (*resource)->coded_only = true;
        return 0;
    }
    if (file->size <= build->source->copy_limit) {
        failed = load_copy(build, file, reading, resource);
        close(file->fd);
        return failed;
    }
    *resource = allocate(build, NULL, file->size);
    if (*resource == NULL) {
        close(file->fd);
        return ENOMEM;
    }
    (*resource)->fd = file->fd;
    (*resource)->device = file->device;
    (*resource)->entry.holds_descriptor = true;
    return 0;
}

static int64_t wall_s(void)
{
    return (int64_t)(clock_wall_ns() / NS_PER_S);
}

/*
 * Like variants_open(), but first stores the state of the directory. On file systems without
 * negative dentries (tmpfs), checking without blocking that a variant is still missing is
 * impossible; comparing the directory's state works on all.
 */
static int open_with_state(struct build *build, struct file *file)
{
    const struct resource_source *source = build->source;
    struct directory_check check;
    uint64_t state;
    int failed;

    directory_check_init(&check, 0);
    state = directory_check_state(&check, source->root, build->path, FILES_MAY_BLOCK, build->now_ns,
                                  wall_s());
    failed = variants_open(source->root, source->precompressed, build->path.start, FILES_MAY_BLOCK,
                           file, &build->variants);
    if (failed == 0 && state != 0 &&
        variants_complete(check.fd, name_in(build->path), &build->variants)) {
        build->directory_state = state;
        build->directory_ns = build->now_ns;
    }
    directory_check_close(&check);
    return failed;
}

int resource_load(const struct resource_source *source, const char *path, size_t length,
                  enum files_effort opening, enum files_effort reading, uint64_t now_ns,
                  struct resource **resource)
{
    struct build build = {.source = source, .path = {path, length}, .now_ns = now_ns};
    struct file file;
    int failed = opening == FILES_MAY_BLOCK ? open_with_state(&build, &file)
                                            : variants_open(source->root, source->precompressed,
                                                            path, opening, &file, &build.variants);

    if (failed != 0)
        return failed;
    set_type(&build);
    return load_body(&build, &file, reading, resource);
}

/*
 * Sets *BODY to the copy in memory, or reads the file into *READ, which the caller frees. Returns 0
 * or an errno.
 */
static int whole_body(const struct resource *original, enum files_effort effort, struct span *body,
                      char **read)
{
    const struct file file = {
        .fd = original->fd, .device = original->device, .size = original->body_length};
    uint64_t got;
    int failed;

    *read = NULL;
    *body = (struct span){original->body, original->body_length};
    if (original->fd < 0)
        return 0;
    *read = malloc(file.size + 1);
    if (*read == NULL)
        return ENOMEM;
    failed = read_whole(&file, *read, effort, &got);
    *body = (struct span){*read, got};
    return failed;
}

static int compress_body(const struct build *build, struct span body, struct resource **resource)
{
    int level = build->source->levels.level[build->coding];
    char *compressed;
    size_t length;
    int failed = compression_run(build->coding, level, body, &compressed, &length);

    if (failed != 0)
        return failed;
    *resource = allocate(build, compressed, length);
    free(compressed);
    return *resource == NULL ? ENOMEM : 0;
}

static int make_variant(const struct build *build, const struct resource *original,
                        enum files_effort effort, struct resource **resource)
{
    struct span body;
    char *read;
    int failed;

    if ((original->may_make & 1U << build->coding) == 0)
        return ENODATA;
    if (effort == FILES_CACHED_ONLY)
        return EBUSY;
    failed = whole_body(original, effort, &body, &read);
    if (failed == 0)
        failed = compress_body(build, body, resource);
    free(read);
    return failed;
}

int resource_load_variant(const struct resource_source *source, const struct resource *original,
                          enum coding coding, enum files_effort opening, enum files_effort reading,
                          struct resource **resource)
{
    struct build build = {
        .source = source,
        .path = original->file_path,
        .coding = coding,
        .made = original->variants.member[coding].inode == 0,
        .variants = original->variants,
        .directory_state = atomic_load_explicit(&original->directory_state, memory_order_relaxed),
        .directory_ns = atomic_load_explicit(&original->directory_ns, memory_order_relaxed),
        .now_ns = atomic_load_explicit(&original->entry.checked_ns, memory_order_relaxed),
    };
    struct file file;
    int failed;

    set_type(&build);
    if (build.made)
        return make_variant(&build, original, reading, resource);
    failed =
        variants_open_one(source->root, build.path.start, coding, &build.variants, opening, &file);
    return failed != 0 ? failed : load_body(&build, &file, reading, resource);
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

/*
 * True if the directory and the existing variants are unchanged. Returns false after NAMES_WARM_S,
 * because looking up a name may then block.
 */
static bool is_unchanged(const struct resource *resource, const struct directory_check *check,
                         uint64_t directory_state, uint64_t now_ns)
{
    uint64_t seen_ns = atomic_load_explicit(&resource->directory_ns, memory_order_relaxed);

    return directory_state != 0 &&
           directory_state ==
               atomic_load_explicit(&resource->directory_state, memory_order_relaxed) &&
           now_ns - seen_ns < NAMES_WARM_S * NS_PER_S &&
           variants_unchanged(check->fd, name_in(resource->file_path), &resource->variants);
}

static int check_all(const struct resource_source *source, struct resource *resource,
                     enum files_effort effort, const struct directory_check *check,
                     uint64_t directory_state)
{
    struct variants variants;
    struct file file;
    int failed = variants_open(source->root, source->precompressed, resource->file_path.start,
                               effort, &file, &variants);

    if (failed == EAGAIN)
        return EAGAIN;
    /* Shortages say nothing about the file, which is then considered unchanged. */
    if (failed == EMFILE || failed == ENFILE || failed == ENOMEM)
        return 0;
    if (failed != 0)
        return ESTALE;
    if (file.fd >= 0)
        close(file.fd);
    if (directory_state != 0 &&
        !variants_complete(check->fd, name_in(resource->file_path), &variants))
        directory_state = 0;
    atomic_store_explicit(&resource->directory_state, directory_state, memory_order_relaxed);
    return variants_equal(&variants, &resource->variants) ? 0 : ESTALE;
}

int resource_check(const struct resource_source *source, struct resource *resource,
                   enum files_effort effort, struct directory_check *check, uint64_t now_ns)
{
    /* Read the directory first, so that the next check sees any later change. */
    uint64_t directory_state =
        directory_check_state(check, source->root, resource->file_path, effort, now_ns, wall_s());

    if (!is_unchanged(resource, check, directory_state, now_ns)) {
        int failed = check_all(source, resource, effort, check, directory_state);

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
    cache_set_checked(&variant->entry,
                      atomic_load_explicit(&original->entry.checked_ns, memory_order_relaxed));
}

/* Pages */

enum { PAGE_HEAD_MAX = 512 };

/*
 * The fields that a 304 repeats (RFC 9110 section 15.4.5): all after Content-Length and
 * Content-Type.
 */
static struct span fields_after_type(const char *head, size_t length)
{
    const char *type = strchr(head, '\n') + 1;
    const char *rest = strchr(type, '\n') + 1;

    return (struct span){rest, (size_t)(head + length - 2 - rest)};
}

/* One allocation for the struct, the path, the heads and the body. */
int resource_new_page(struct span path, const char *fields, const char *body, size_t length,
                      struct resource **page)
{
    char head[PAGE_HEAD_MAX];
    char block[HPACK_LINES_MAX(PAGE_HEAD_MAX)];
    size_t head_length =
        (size_t)snprintf(head, sizeof(head), "Content-Length: %zu\r\n%s\r\n", length, fields);
    struct span validators = fields_after_type(head, head_length);
    char *block_rest =
        hpack_put_lines(block, (struct span){head, (size_t)(validators.start - head)});
    size_t block_length = (size_t)(hpack_put_lines(block_rest, validators) - block);
    size_t bytes = sizeof(struct resource) + path.length + 1 + head_length + length + block_length;
    struct resource *resource = calloc(1, bytes);
    char *at;

    if (resource == NULL)
        return ENOMEM;
    at = (char *)(resource + 1);
    memcpy(at, path.start, path.length);
    cache_entry_init(&resource->entry, at, path.length, bytes, 0);
    resource->file_path = (struct span){at, path.length};
    at += path.length + 1;
    memcpy(at, head, head_length);
    resource->head[HTTP_1] = (struct span){at, head_length};
    resource->pieces[HTTP_1].validators = fields_after_type(at, head_length);
    at += head_length;
    memcpy(at, body, length);
    resource->body = at;
    resource->body_length = length;
    at += length;
    memcpy(at, block, block_length);
    resource->head[HTTP_2] = (struct span){at, block_length};
    resource->pieces[HTTP_2].validators =
        (struct span){at + (block_rest - block), block_length - (size_t)(block_rest - block)};
    resource->fd = -1;
    *page = resource;
    return 0;
}
