/* A file and its precompressed variants, in a temporary directory. */
#include "daemon/content/variants.h"

#include "common/macros.h"
#include "tests/test.h"
#include "tests/unit/open_descriptors.h"
#include "tests/unit/own_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NEWEST_S = 1000000 };

static struct files_root root;
static int descriptors_before;

static int set_up(void **state)
{
    (void)state;
    own_directory_make();
    root =
        (struct files_root){.fd = open(own_directory, O_PATH | O_DIRECTORY | O_CLOEXEC),
                            .descriptors = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC)};
    assert_true(root.fd >= 0 && root.descriptors >= 0);
    descriptors_before = open_descriptors();
    return 0;
}

/* No function leaves a descriptor open that the caller has not closed. */
static int tear_down(void **state)
{
    (void)state;
    assert_int_equal(open_descriptors(), descriptors_before);
    close(root.fd);
    close(root.descriptors);
    return own_directory_remove();
}

const struct test_fixture test_fixture = {set_up, tear_down};

static void set_time(const char *name, int64_t seconds)
{
    const struct timespec times[] = {{.tv_sec = seconds}, {.tv_sec = seconds}};

    assert_int_equal(utimensat(root.fd, name, times, 0), 0);
}

/* Makes the file NAME with NAME as its content. */
static void put(const char *name, int64_t seconds)
{
    int fd = openat(root.fd, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, name, strlen(name)), strlen(name));
    close(fd);
    set_time(name, seconds);
}

static bool has_member(const struct variants *variants, enum coding coding)
{
    return variants->member[coding].inode != 0;
}

/* The members of PATH, which exists. */
static struct variants members_of(const char *path, bool precompressed)
{
    struct variants variants;
    struct file file;

    assert_int_equal(variants_open(&root, precompressed, path, FILES_MAY_BLOCK, &file, &variants),
                     0);
    close(file.fd);
    return variants;
}

TEST(identity_is_that_of_the_file)
{
    struct file_identity identity;
    struct variants variants;
    struct stat status;

    put("a", NEWEST_S);
    variants = members_of("/a", true);
    identity = variants.member[CODING_IDENTITY];
    assert_int_equal(fstatat(root.fd, "a", &status, 0), 0);
    assert_true(identity.device == status.st_dev && identity.inode == status.st_ino &&
                identity.size == 1 && identity.mtime_s == NEWEST_S && identity.mtime_ns == 0 &&
                identity.ctime_s == status.st_ctim.tv_sec &&
                identity.ctime_ns == (uint32_t)status.st_ctim.tv_nsec);
    for (int i = CODING_IDENTITY + 1; i < CODING_COUNT; i++)
        assert_false(has_member(&variants, (enum coding)i));
}

TEST(variants_alone_are_found_if_wanted)
{
    struct variants variants;
    struct file file;

    put("a.br", NEWEST_S);
    put("a.gz", 1);
    assert_int_equal(
        variants_open(&root, PRECOMPRESSED_ON, "/a", FILES_MAY_BLOCK, &file, &variants), ENOENT);
    assert_int_equal(
        variants_open(&root, PRECOMPRESSED_ALONE, "/a", FILES_MAY_BLOCK, &file, &variants), 0);
    assert_int_equal(file.fd, -1);
    assert_false(has_member(&variants, CODING_IDENTITY));
    assert_true(has_member(&variants, CODING_BR));
    assert_true(has_member(&variants, CODING_GZIP));
    assert_false(has_member(&variants, CODING_ZSTD));
    assert_true(variants_complete(root.fd, "a", &variants));
    put("a", NEWEST_S); /* now there is an original */
    assert_false(variants_complete(root.fd, "a", &variants));
    assert_int_equal(
        variants_open(&root, PRECOMPRESSED_ALONE, "/b", FILES_MAY_BLOCK, &file, &variants), ENOENT);
    assert_int_equal(
        variants_open(&root, PRECOMPRESSED_ALONE, "/b.br", FILES_MAY_BLOCK, &file, &variants),
        ENOENT);
}

TEST(variant_is_not_older_than_its_file)
{
    struct variants variants;

    put("a", NEWEST_S);
    put("a.br", NEWEST_S - 1);
    put("a.zst", NEWEST_S);
    put("a.gz", NEWEST_S + 1);
    variants = members_of("/a", true);
    assert_false(has_member(&variants, CODING_BR));
    assert_true(has_member(&variants, CODING_ZSTD));
    assert_int_equal(variants.member[CODING_ZSTD].size, 5);
    assert_true(has_member(&variants, CODING_GZIP));
    variants = members_of("/a", false);
    for (int i = CODING_IDENTITY + 1; i < CODING_COUNT; i++)
        assert_false(has_member(&variants, (enum coding)i));
}

TEST(variant_has_no_variants)
{
    struct variants variants;

    put("a.gz", NEWEST_S);
    put("a.gz.gz", NEWEST_S);
    variants = members_of("/a.gz", true);
    assert_false(has_member(&variants, CODING_GZIP));
    put("a.gzx", NEWEST_S);
    put("a.gzx.gz", NEWEST_S);
    variants = members_of("/a.gzx", true);
    assert_true(has_member(&variants, CODING_GZIP));
}

TEST(missing_file_has_no_members)
{
    struct variants variants;
    struct file file;

    memset(&variants, 0xff, sizeof(variants));
    assert_int_equal(variants_open(&root, true, "/none", FILES_MAY_BLOCK, &file, &variants),
                     ENOENT);
    for (int i = 0; i < CODING_COUNT; i++)
        assert_false(has_member(&variants, (enum coding)i));
}

TEST(directory_is_not_opened)
{
    struct variants variants;
    struct file file;

    assert_int_equal(mkdirat(root.fd, "directory", 0755), 0);
    assert_int_equal(variants_open(&root, true, "/directory", FILES_MAY_BLOCK, &file, &variants),
                     EISDIR);
    put("a", NEWEST_S);
    assert_int_equal(mkdirat(root.fd, "a.gz", 0755), 0);
    set_time("a.gz", NEWEST_S);
    variants = members_of("/a", true);
    assert_false(has_member(&variants, CODING_GZIP));
    assert_int_equal(variants_open_one(&root, "/a", CODING_GZIP, &variants, FILES_MAY_BLOCK, &file),
                     EISDIR);
}

TEST(one_variant_is_opened_if_unchanged)
{
    struct variants variants;
    struct file file;
    char content[8];

    put("a", NEWEST_S);
    put("a.gz", NEWEST_S);
    variants = members_of("/a", true);
    assert_int_equal(variants_open_one(&root, "/a", CODING_GZIP, &variants, FILES_MAY_BLOCK, &file),
                     0);
    assert_int_equal(read(file.fd, content, sizeof(content)), 4);
    assert_memory_equal(content, "a.gz", 4);
    close(file.fd);
    set_time("a.gz", NEWEST_S + 1);
    assert_int_equal(variants_open_one(&root, "/a", CODING_GZIP, &variants, FILES_MAY_BLOCK, &file),
                     ESTALE);
    assert_int_equal(variants_open_one(&root, "/a", CODING_BR, &variants, FILES_MAY_BLOCK, &file),
                     ENOENT);
}

TEST(each_member_of_an_identity_counts)
{
    static const struct file_identity others[] = {
        {2, 1, 1, 1, 1, 1, 1}, {1, 2, 1, 1, 1, 1, 1}, {1, 1, 2, 1, 1, 1, 1}, {1, 1, 1, 2, 1, 1, 1},
        {1, 1, 1, 1, 2, 1, 1}, {1, 1, 1, 1, 1, 2, 1}, {1, 1, 1, 1, 1, 1, 2},
    };
    struct variants one = {0};

    for (int coding = 0; coding < CODING_COUNT; coding++)
        one.member[coding] = (struct file_identity){1, 1, 1, 1, 1, 1, 1};
    assert_true(variants_equal(&one, &one));
    for (size_t i = 0; i < ARRAY_LENGTH(others); i++)
        for (int coding = 0; coding < CODING_COUNT; coding++) {
            struct variants other = one;

            other.member[coding] = others[i];
            assert_false(variants_equal(&one, &other));
        }
}

TEST(change_of_each_member_is_seen)
{
    static const char *const names[] = {"a", "a.gz", "a.zst", "a.br"};
    struct variants variants;

    for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
        put(names[i], NEWEST_S);
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        variants = members_of("/a", true);
        assert_true(variants_unchanged(root.fd, "a", &variants));
        set_time(names[i], NEWEST_S + 1);
        assert_false(variants_unchanged(root.fd, "a", &variants));
        set_time(names[i], NEWEST_S);
    }
    variants = members_of("/a", true);
    assert_int_equal(unlinkat(root.fd, "a.br", 0), 0);
    assert_false(variants_unchanged(root.fd, "a", &variants));
}

TEST(new_variant_makes_the_variants_incomplete)
{
    struct variants variants;

    put("a", NEWEST_S);
    put("a.gz", NEWEST_S);
    variants = members_of("/a", true);
    assert_true(variants_complete(root.fd, "a", &variants));
    put("a.br", NEWEST_S - 1);
    assert_true(variants_unchanged(root.fd, "a", &variants));
    assert_false(variants_complete(root.fd, "a", &variants));
    assert_int_equal(unlinkat(root.fd, "a.br", 0), 0);
    assert_true(variants_complete(root.fd, "a", &variants));
    assert_int_equal(symlinkat("none", root.fd, "a.zst"), 0);
    assert_false(variants_complete(root.fd, "a", &variants));
}

TEST(member_that_is_a_directory_is_changed)
{
    struct variants variants = {0};
    struct file file;

    assert_int_equal(mkdirat(root.fd, "a", 0755), 0);
    assert_int_equal(files_look(root.fd, "a", &file), 0);
    variants.member[CODING_IDENTITY] =
        (struct file_identity){file.device,   file.inode,   file.size,    file.mtime_s,
                               file.mtime_ns, file.ctime_s, file.ctime_ns};
    assert_false(variants_unchanged(root.fd, "a", &variants));
}

/* The extension does not fit a name, but the file is served. */
TEST(longest_name_has_no_variants)
{
    char path[NAME_MAX + 2];
    struct variants variants;

    memset(path, 'n', sizeof(path));
    path[0] = '/';
    path[NAME_MAX + 1] = '\0';
    put(path + 1, NEWEST_S);
    variants = members_of(path, true);
    assert_true(has_member(&variants, CODING_IDENTITY));
    assert_false(has_member(&variants, CODING_GZIP));
    assert_true(variants_unchanged(root.fd, path + 1, &variants));
}
