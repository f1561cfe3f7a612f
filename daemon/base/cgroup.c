#include "daemon/base/cgroup.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = PATH_MAX + 256, KEY_BYTES = 64 };

/* The names of a version. */
struct version {
    const char *directory; /* below the root of all control groups, where version 1 is mounted */
    const char *limit, *used;
    const char *files[2]; /* the lines of memory.stat that count pages of files */
};

static const struct version version_1 = {
    "memory",
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    {"total_inactive_file", "total_active_file"},
};

static const struct version version_2 = {
    "",
    "memory.max",
    "memory.current",
    {"inactive_file", "active_file"},
};

struct cgroup {
    const struct version *version;
    char path[PATH_MAX]; /* the directory of the process's group */
    size_t root_length;  /* length of the part that is the root group's path */
};

/* ---- Which group ---- */

/* Whether LIST, such as "cpu,memory", has the word "memory". */
static bool has_memory(const char *list)
{
    static const char word[] = "memory";

    for (const char *at = list; (at = strstr(at, word)) != NULL; at++)
        if ((at == list || at[-1] == ',') && (at[strlen(word)] == ',' || at[strlen(word)] == '\0'))
            return true;
    return false;
}

/* Reads a line of SELF: "number:controllers:path". Returns the version, or NULL. */
static const struct version *parse_group_line(char *line, const char **path)
{
    char *controllers = strchr(line, ':'), *rest;

    line[strcspn(line, "\n")] = '\0';
    rest = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (rest == NULL)
        return NULL;
    *rest = '\0';
    *path = rest + 1;
    if (has_memory(controllers + 1))
        return &version_1;
    return controllers[1] == '\0' ? &version_2 : NULL;
}

static bool has_file(const char *directory, const char *name)
{
    char path[PATH_MAX + KEY_BYTES];

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    return access(path, R_OK) == 0;
}

/*
 * Takes PATH below ROOT, or, in a container that sees only its own group, ROOT itself. Returns
 * false if memory is not controlled there.
 */
static bool take_group(struct cgroup *cgroup, const struct version *version, const char *root,
                       const char *path)
{
    int length = snprintf(cgroup->path, sizeof(cgroup->path), "%s/%s", root, version->directory);
    int rest;

    if (length < 0 || length >= (int)sizeof(cgroup->path))
        return false;
    cgroup->version = version;
    cgroup->root_length = (size_t)length;
    rest = snprintf(cgroup->path + length, sizeof(cgroup->path) - (size_t)length, "%s",
                    strcmp(path, "/") != 0 ? path : "");
    if (rest >= 0 && rest < (int)sizeof(cgroup->path) - length &&
        has_file(cgroup->path, version->used))
        return true;
    cgroup->path[length] = '\0';
    return has_file(cgroup->path, version->used);
}

struct cgroup *cgroup_open(const char *self, const char *root)
{
    FILE *file = fopen(self, "re");
    struct cgroup *cgroup = malloc(sizeof(*cgroup));
    char line[LINE_MAX_BYTES];
    bool found = false;

    while (file != NULL && cgroup != NULL && !found && fgets(line, sizeof(line), file) != NULL) {
        const char *path = NULL;
        const struct version *version = parse_group_line(line, &path);

        found = version != NULL && take_group(cgroup, version, root, path);
    }
    if (file != NULL)
        fclose(file);
    if (!found) {
        free(cgroup);
        return NULL;
    }
    return cgroup;
}

void cgroup_close(struct cgroup *cgroup)
{
    free(cgroup);
}

/* ---- How much is in use ---- */

static FILE *open_file(const char *directory, const char *name)
{
    char path[PATH_MAX + KEY_BYTES];

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    return fopen(path, "re");
}

/* Returns UINT64_MAX if the file has no number, such as "max". */
static uint64_t read_group_number(const char *directory, const char *name)
{
    FILE *file = open_file(directory, name);
    char text[KEY_BYTES] = "", *end;
    unsigned long long number;

    if (file == NULL)
        return UINT64_MAX;
    if (fgets(text, sizeof(text), file) == NULL)
        text[0] = '\0';
    fclose(file);
    number = strtoull(text, &end, 10);
    return end != text ? number : UINT64_MAX;
}

static uint64_t read_file_pages(const struct cgroup *cgroup, const char *directory)
{
    FILE *file = open_file(directory, "memory.stat");
    char line[KEY_BYTES * 2], key[KEY_BYTES];
    unsigned long long number;
    uint64_t sum = 0;

    if (file == NULL)
        return 0;
    while (fgets(line, sizeof(line), file) != NULL)
        if (sscanf(line, "%63s %llu", key, &number) == 2 &&
            (strcmp(key, cgroup->version->files[0]) == 0 ||
             strcmp(key, cgroup->version->files[1]) == 0))
            sum += number;
    fclose(file);
    return sum;
}

static struct cgroup_memory memory_in(const struct cgroup *cgroup, const char *directory)
{
    uint64_t limit = read_group_number(directory, cgroup->version->limit), used, files;

    if (limit == 0 || limit > INT64_MAX / 2) /* version 1 has a huge number for "none" */
        return (struct cgroup_memory){0};
    used = read_group_number(directory, cgroup->version->used);
    if (used == UINT64_MAX)
        return (struct cgroup_memory){0};
    files = read_file_pages(cgroup, directory);
    used -= files < used ? files : used;
    return (struct cgroup_memory){limit, used < limit ? used : limit};
}

struct cgroup_memory cgroup_memory(const struct cgroup *cgroup)
{
    struct cgroup_memory scarcest = {0};
    char directory[PATH_MAX];

    memcpy(directory, cgroup->path, sizeof(directory));
    for (;;) {
        struct cgroup_memory memory = memory_in(cgroup, directory);
        char *last = strrchr(directory, '/');

        if (memory.limit_bytes > 0 &&
            (scarcest.limit_bytes == 0 ||
             (double)memory.used_bytes / (double)memory.limit_bytes >
                 (double)scarcest.used_bytes / (double)scarcest.limit_bytes))
            scarcest = memory;
        if (last == NULL || (size_t)(last - directory) < cgroup->root_length)
            return scarcest;
        *last = '\0';
    }
}
