/*
 * Resources: how files are loaded, compressed and checked. The files are on tmpfs if the machine
 * has one, because it has no negative dentries.
 */
#include "common/clock.h"
#include "daemon/content/resource.h"
#include "daemon/content/variants.h"
#include "daemon/http/response.h"
#include "tests/test.h"
#include "tests/unit/open_descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

enum { SETTLED_MOST_MS = 30000, LOOK_MS = 50 };

struct place {
    char path[64];
    struct files_root root;
    struct mime_table *mime;
    struct header_rules headers;
    struct resource_source source;
    struct directory_check look; /* of the checking thread */
};

static const char *const files[] = {"page.html", "page.html.gz", "lone.html", "lone.html.br",
                                    "sized.html"};

static const char *tmpfs_directory(void)
{
    struct statfs shm;

    return statfs("/dev/shm", &shm) == 0 && shm.f_type == TMPFS_MAGIC ? "/dev/shm" : "/tmp";
}

static void put(const struct place *place, const char *name)
{
    int fd = openat(place->root.fd, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, name, strlen(name)), strlen(name));
    close(fd);
}

static int set_up(void **state)
{
    struct place *place = calloc(1, sizeof(*place));

    snprintf(place->path, sizeof(place->path), "%s/resource-XXXXXX", tmpfs_directory());
    assert_non_null(mkdtemp(place->path));
    place->root.fd = open(place->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    place->root.descriptors = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(place->root.fd >= 0);
    place->mime = mime_table_new(NULL, NULL, 0);
    assert_non_null(place->mime);
    place->source = (struct resource_source){.root = &place->root,
                                             .mime = place->mime,
                                             .headers = &place->headers,
                                             .memory_limit = 4096,
                                             .copy_limit = 4096,
                                             .precompressed = true};
    put(place, "page.html");
    put(place, "page.html.gz");
    put(place, "lone.html");
    directory_check_init(&place->look, 0);
    *state = place;
    return 0;
}

static int tear_down(void **state)
{
    struct place *place = *state;

    directory_check_close(&place->look);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        unlinkat(place->root.fd, files[i], 0);
    close(place->root.fd);
    close(place->root.descriptors);
    rmdir(place->path);
    mime_table_free(place->mime);
    free(place);
    return 0;
}

const struct test_fixture test_group_fixture = {set_up, tear_down};

/* Waits until the directory's timestamp would show another change: before, it has no state. */
static void wait_until_settled(struct place *place)
{
    static const struct timespec moment = {.tv_nsec = LOOK_MS * 1000000L};
    struct span file = {"/page.html", 10};

    for (int waited = 0; waited < SETTLED_MOST_MS; waited += LOOK_MS) {
        if (directory_check_state(&place->look, &place->root, file, FILES_MAY_BLOCK,
                                  clock_monotonic_ns(), (int64_t)time(NULL)) != 0)
            return;
        nanosleep(&moment, NULL);
    }
    fail_msg("%s does not come to rest", place->path);
}

static struct resource *load(const struct place *place, const char *path)
{
    struct resource *resource = NULL;

    assert_int_equal(resource_load(&place->source, path, strlen(path), FILES_MAY_BLOCK,
                                   FILES_MAY_BLOCK, clock_monotonic_ns(), &resource),
                     0);
    return resource;
}

static struct resource *load_gzip(const struct place *place, const struct resource *original)
{
    struct resource *variant = NULL;

    assert_int_equal(resource_load_variant(&place->source, original, CODING_GZIP, FILES_MAY_BLOCK,
                                           FILES_MAY_BLOCK, &variant),
                     0);
    return variant;
}

static int check(struct place *place, struct resource *resource)
{
    return resource_check(&place->source, resource, FILES_CACHED_ONLY, &place->look,
                          clock_monotonic_ns());
}

/* It is made from what the original held then. */
TEST(variant_is_as_old_as_original)
{
    struct place *place = *state;
    struct resource *page = load(place, "/page.html"), *variant;

    atomic_store(&page->entry.checked_ns, 1000);
    variant = load_gzip(place, page);
    assert_int_equal(atomic_load(&variant->entry.checked_ns), 1000);
    cache_set_checked(&page->entry, 2000);
    resource_share_check(variant, page);
    assert_int_equal(atomic_load(&variant->entry.checked_ns), 2000);
    resource_release(NULL, variant);
    resource_release(NULL, page);
}

TEST(loaded_file_is_checked_without_blocking)
{
    struct place *place = *state;
    struct resource *lone, *page, *variant;

    wait_until_settled(place);
    lone = load(place, "/lone.html");
    page = load(place, "/page.html");
    variant = load_gzip(place, page);
    assert_int_equal(check(place, lone), 0);
    assert_int_equal(check(place, page), 0);
    assert_int_equal(check(place, variant), 0);
    put(place, "lone.html.br");
    assert_int_not_equal(check(place, lone), 0);
    resource_release(NULL, variant);
    resource_release(NULL, page);
    resource_release(NULL, lone);
}

/* The variant is cached before the state of the directory is known. */
TEST(variant_takes_over_check_of_its_file)
{
    struct place *place = *state;
    struct resource *page, *variant;

    wait_until_settled(place);
    page = load(place, "/page.html");
    variant = load_gzip(place, page);
    variant->directory_state = 0;
    resource_share_check(variant, page);
    assert_int_equal(check(place, variant), 0);
    resource_release(NULL, variant);
    resource_release(NULL, page);
}

/* Makes "sized.html", with BYTES that compress well. */
static void put_sized(const struct place *place, size_t bytes)
{
    int fd = openat(place->root.fd, "sized.html", O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0644);

    assert_true(fd >= 0);
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(write(fd, "a", 1), 1);
    close(fd);
}

TEST(size_decides_where_the_body_is)
{
    const struct place *place = *state;
    int before = open_descriptors();

    put_sized(place, 100);
    for (uint64_t limit = 99; limit <= 100; limit++) {
        struct place with_limit = *place;
        struct resource *resource;

        with_limit.source.copy_limit = limit;
        resource = load(&with_limit, "/sized.html");
        assert_int_equal(resource->fd >= 0, limit == 99);
        assert_int_equal(resource->entry.holds_descriptor, limit == 99);
        assert_int_equal(resource->body != NULL, limit == 100);
        assert_int_equal(resource->body_length, 100);
        if (limit == 99)
            assert_int_equal(resource->device, resource->variants.member[CODING_IDENTITY].device);
        resource_release(NULL, resource);
        assert_int_equal(open_descriptors(), before);
    }
}

TEST(only_some_sizes_are_compressed)
{
    static const struct {
        size_t bytes;
        uint64_t memory_limit;
        bool compress, makes_gzip;
    } cases[] = {
        {511, 4096, true, false}, {512, 4096, true, true},   {512, 512, true, true},
        {513, 512, true, false},  {512, 4096, false, false},
    };
    struct place with = *(struct place *)*state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct resource *resource;

        put_sized(&with, cases[i].bytes);
        with.source.memory_limit = cases[i].memory_limit;
        with.source.levels.level[CODING_GZIP] = cases[i].compress ? 6 : 0;
        resource = load(&with, "/sized.html");
        assert_int_equal(resource->may_make, cases[i].makes_gzip ? 1U << CODING_GZIP : 0);
        assert_int_equal(resource->varies, cases[i].makes_gzip);
        resource_release(NULL, resource);
    }
}

/* From the copy in memory, and from the open file. */
TEST(gzip_variant_is_made)
{
    struct place with = *(struct place *)*state;
    uint64_t length = 0;

    put_sized(&with, 1000);
    with.source.levels.level[CODING_GZIP] = 6;
    for (uint64_t limit = 999; limit <= 1000; limit++) {
        struct resource *original, *variant = NULL;

        with.source.copy_limit = limit;
        original = load(&with, "/sized.html");
        assert_int_equal(resource_load_variant(&with.source, original, CODING_GZIP, FILES_MAY_BLOCK,
                                               FILES_CACHED_ONLY, &variant),
                         EBUSY);
        assert_int_equal(resource_load_variant(&with.source, original, CODING_BR, FILES_MAY_BLOCK,
                                               FILES_MAY_BLOCK, &variant),
                         ENODATA);
        variant = load_gzip(&with, original);
        assert_in_range(variant->body_length, 10, 100);
        assert_true(length == 0 || variant->body_length == length);
        length = variant->body_length;
        assert_string_equal(variant->entry.path, "/sized.html//gzip");
        assert_int_equal(variant->entry.path_length, 17);
        assert_string_equal(variant->file_path.start, "/sized.html");
        assert_int_equal(variant->fd, -1);
        assert_int_equal(variant->may_make, 0);
        assert_int_equal(variant->coding, CODING_GZIP);
        assert_int_equal(variant->saved_bytes, 1000 - length);
        assert_true(variant->varies);
        resource_release(NULL, variant);
        assert_int_equal(original->saved_bytes, 0);
        original->may_make = 0;
        assert_int_equal(resource_load_variant(&with.source, original, CODING_GZIP, FILES_MAY_BLOCK,
                                               FILES_MAY_BLOCK, &variant),
                         ENODATA);
        resource_release(NULL, original);
    }
}

static int check_with_disk(struct place *place, struct resource *resource)
{
    return resource_check(&place->source, resource, FILES_MAY_BLOCK, &place->look,
                          clock_monotonic_ns());
}

TEST(changed_file_is_stale)
{
    struct place *place = *state;
    struct resource *resource;
    int before;

    directory_check_close(&place->look);
    before = open_descriptors();
    put_sized(place, 100);
    resource = load(place, "/sized.html");
    put_sized(place, 101);
    assert_int_equal(check_with_disk(place, resource), ESTALE);
    assert_int_equal(unlinkat(place->root.fd, "sized.html", 0), 0);
    assert_int_equal(check_with_disk(place, resource), ESTALE);
    directory_check_close(&place->look);
    assert_int_equal(open_descriptors(), before);
    resource_release(NULL, resource);
}

/* It says nothing about the file. */
TEST(shortage_of_descriptors_does_not_make_stale)
{
    struct place *place = *state;
    struct rlimit usual, none;
    struct resource *resource;
    int failed;

    put_sized(place, 100);
    resource = load(place, "/sized.html");
    assert_int_equal(unlinkat(place->root.fd, "sized.html", 0), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &usual), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = usual.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    failed = check_with_disk(place, resource);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &usual), 0);
    assert_int_equal(failed, 0);
    resource_release(NULL, resource);
}

/* RFC 9110 section 8.8.2.1. */
TEST(mtime_in_the_future_is_not_compared)
{
    struct place *place = *state;

    put_sized(place, 100);
    for (int future = 0; future <= 1; future++) {
        int64_t when = (int64_t)time(NULL) + (future != 0 ? 100000 : -100000);
        const struct timespec times[] = {{.tv_sec = when}, {.tv_sec = when}};
        struct resource *resource;

        assert_int_equal(utimensat(place->root.fd, "sized.html", times, 0), 0);
        resource = load(place, "/sized.html");
        assert_int_equal(resource->dated, future == 0);
        assert_int_equal(resource->modified_s, when);
        assert_int_equal(resource->modified_text.length, 29);
        resource_release(NULL, resource);
    }
}

static void expect_span(struct span span, struct span expected)
{
    assert_int_equal(span.length, expected.length);
    assert_memory_equal(span.start, expected.start, span.length);
}

/* A 304 repeats all fields after Content-Length and Content-Type. */
TEST(page_has_heads_of_both_versions)
{
    static const struct {
        const char *fields, *validators;
    } cases[] = {{"Content-Type: a/b\r\nVary: x\r\n", "Vary: x\r\n"},
                 {"Content-Type: a/b\r\n", ""}};

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        const struct span validators = span_of(cases[i].validators);
        char head[128], block[HPACK_LINES_MAX(sizeof(head))];
        int length = snprintf(head, sizeof(head), "Content-Length: 4\r\n%s\r\n", cases[i].fields);
        struct resource *page = NULL;
        const char *end;

        assert_int_equal(
            resource_new_page((struct span){"/d/x", 3}, cases[i].fields, "body and more", 4, &page),
            0);
        assert_string_equal(page->entry.path, "/d/");
        assert_string_equal(page->file_path.start, "/d/");
        assert_int_equal(page->file_path.length, 3);
        assert_int_equal(page->fd, -1);
        expect_span((struct span){page->body, page->body_length}, SPAN("body"));
        expect_span(page->head[HTTP_1], (struct span){head, (size_t)length});
        expect_span(page->pieces[HTTP_1].validators, validators);
        end = hpack_put_lines(block, (struct span){head, (size_t)length - 2});
        expect_span(page->head[HTTP_2], (struct span){block, (size_t)(end - block)});
        end = hpack_put_lines(block, validators);
        expect_span(page->pieces[HTTP_2].validators, (struct span){block, (size_t)(end - block)});
        end = page->head[HTTP_2].start + page->head[HTTP_2].length;
        assert_true(page->entry.bytes >= (size_t)(end - (const char *)page));
        resource_release(NULL, page);
    }
}
