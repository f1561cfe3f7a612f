#include "daemon/content/variants.h"

#include "daemon/http/target.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct file_identity identity_of(const struct file *file)
{
    return (struct file_identity){.device = file->device,
                                  .inode = file->inode,
                                  .size = file->size,
                                  .mtime_s = file->mtime_s,
                                  .mtime_ns = file->mtime_ns,
                                  .ctime_s = file->ctime_s,
                                  .ctime_ns = file->ctime_ns};
}

static bool same_identity(const struct file_identity *one, const struct file_identity *other)
{
    return one->device == other->device && one->inode == other->inode && one->size == other->size &&
           one->mtime_s == other->mtime_s && one->mtime_ns == other->mtime_ns &&
           one->ctime_s == other->ctime_s && one->ctime_ns == other->ctime_ns;
}

bool variants_equal(const struct variants *one, const struct variants *other)
{
    for (int i = 0; i < CODING_COUNT; i++)
        if (!same_identity(&one->member[i], &other->member[i]))
            return false;
    return true;
}

/* A variant has no variants of its own. */
static bool is_variant(const char *path)
{
    size_t length = strlen(path);

    for (int i = CODING_IDENTITY + 1; i < CODING_COUNT; i++) {
        struct span extension = coding_extensions[i];

        if (length > extension.length &&
            memcmp(path + length - extension.length, extension.start, extension.length) == 0)
            return true;
    }
    return false;
}

static int open_variant(const struct files_root *root, const char *path, enum coding coding,
                        enum files_effort effort, struct file *file)
{
    char name[TARGET_PATH_MAX + 8];
    int length = snprintf(name, sizeof(name), "%s%s", path, coding_extensions[coding].start);
    int failed;

    if ((size_t)length >= sizeof(name))
        return ENAMETOOLONG;
    failed = files_open(root, name, effort, file);
    if (failed == 0 && file->directory) {
        close(file->fd);
        return EISDIR;
    }
    return failed;
}

/* Adds the variant in CODING if it exists. Returns EAGAIN if that needs a disk, else 0. */
static int probe_variant(const struct files_root *root, const char *path, enum coding coding,
                         enum files_effort effort, struct variants *variants)
{
    struct file file;
    int failed = open_variant(root, path, coding, effort, &file);

    if (failed != 0)
        return failed == EAGAIN ? EAGAIN : 0;
    if (file.mtime_s >= variants->member[CODING_IDENTITY].mtime_s)
        variants->member[coding] = identity_of(&file);
    close(file.fd);
    return 0;
}

static int probe_variants(const struct files_root *root, const char *path, enum files_effort effort,
                          struct variants *variants)
{
    int failed = 0;

    for (int i = CODING_IDENTITY + 1; i < CODING_COUNT && failed == 0; i++)
        failed = probe_variant(root, path, (enum coding)i, effort, variants);
    return failed;
}

/* PATH does not exist. Returns 0 if it has variants, else ENOENT or EAGAIN. */
static int open_alone(const struct files_root *root, const char *path, enum files_effort effort,
                      struct file *file, struct variants *variants)
{
    int failed = probe_variants(root, path, effort, variants);

    *file = (struct file){.fd = -1};
    for (int i = CODING_IDENTITY + 1; i < CODING_COUNT; i++)
        if (variants->member[i].inode != 0)
            return failed;
    return failed != 0 ? failed : ENOENT;
}

int variants_open(const struct files_root *root, enum config_precompressed precompressed,
                  const char *path, enum files_effort effort, struct file *file,
                  struct variants *variants)
{
    bool probes = precompressed != PRECOMPRESSED_OFF && !is_variant(path);
    int failed = files_open(root, path, effort, file);

    memset(variants, 0, sizeof(*variants));
    if (failed == ENOENT && probes && precompressed == PRECOMPRESSED_ALONE)
        return open_alone(root, path, effort, file, variants);
    if (failed != 0)
        return failed;
    if (file->directory)
        failed = EISDIR;
    variants->member[CODING_IDENTITY] = identity_of(file);
    if (failed == 0 && probes)
        failed = probe_variants(root, path, effort, variants);
    if (failed != 0)
        close(file->fd);
    return failed;
}

int variants_open_one(const struct files_root *root, const char *path, enum coding coding,
                      const struct variants *variants, enum files_effort effort, struct file *file)
{
    struct file_identity found;
    int failed = open_variant(root, path, coding, effort, file);

    if (failed != 0)
        return failed;
    found = identity_of(file);
    if (same_identity(&found, &variants->member[coding]))
        return 0;
    close(file->fd);
    return ESTALE;
}

/* Stats NAME's variant in CODING: 0 with *FILE filled, or an errno. */
static int look_at(int directory, const char *name, enum coding coding, struct file *file)
{
    char variant[NAME_MAX + 8];

    snprintf(variant, sizeof(variant), "%s%s", name, coding_extensions[coding].start);
    return files_look(directory, variant, file);
}

bool variants_unchanged(int directory, const char *name, const struct variants *variants)
{
    for (int i = 0; i < CODING_COUNT; i++) {
        struct file_identity found;
        struct file file;

        if (variants->member[i].inode == 0)
            continue;
        if (look_at(directory, name, (enum coding)i, &file) != 0 || file.directory)
            return false;
        found = identity_of(&file);
        if (!same_identity(&found, &variants->member[i]))
            return false;
    }
    return true;
}

bool variants_complete(int directory, const char *name, const struct variants *variants)
{
    struct file file;

    for (int i = CODING_IDENTITY; i < CODING_COUNT; i++)
        if (variants->member[i].inode == 0 &&
            look_at(directory, name, (enum coding)i, &file) != ENOENT)
            return false;
    return true;
}
