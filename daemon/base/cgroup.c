#include "daemon/base/cgroup.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = PATH_MAX + 256, KEY_BYTES = 64 };

/* The names of a version. */
struct version {
    const char *directory; /* below the root of all control groups, where version 1 is mounted */
    const char *mark;      /* a file of each group */
    const char *limit, *used;
    const char *files[2]; /* the lines of memory.stat that count pages of files */
};

/* By number of the version, minus 1. */
static const struct version memory_versions[] = {
    {
        "memory",
        "memory.usage_in_bytes",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        {"total_inactive_file", "total_active_file"},
    },
    {
        "",
        "memory.current",
        "memory.max",
        "memory.current",
        {"inactive_file", "active_file"},
    },
};

static const struct version cpu_versions[] = {
    {.directory = "cpu", .mark = "cgroup.procs", .limit = "cpu.cfs_quota_us"},
    {.directory = "", .mark = "cgroup.procs", .limit = "cpu.max"},
};

struct cgroup {
    const struct version *version;
    char path[PATH_MAX]; /* the directory of the process's group */
    size_t root_length;  /* length of the part that is the root group's path */
};

/* ---- Which group ---- */

/* Whether LIST, such as "cpu,memory", has WORD. */
static bool has_controller(const char *list, const char *word)
{
    for (const char *at = list; (at = strstr(at, word)) != NULL; at++)
        if ((at == list || at[-1] == ',') && (at[strlen(word)] == ',' || at[strlen(word)] == '\0'))
            return true;
    return false;
}

/* Reads a line of SELF: "number:controllers:path". Returns its one of VERSIONS, or NULL. */
static const struct version *parse_group_line(char *line, const struct version versions[2],
                                              const char **path)
{
    char *controllers = strchr(line, ':'), *rest;

    line[strcspn(line, "\n")] = '\0';
    rest = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (rest == NULL)
        return NULL;
    *rest = '\0';
    *path = rest + 1;
    if (has_controller(controllers + 1, versions[0].directory))
        return &versions[0];
    return controllers[1] == '\0' ? &versions[1] : NULL;
}

static bool has_file(const char *directory, const char *name)
{
    char path[PATH_MAX + KEY_BYTES];

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    return access(path, R_OK) == 0;
}

/*
 * Takes PATH below ROOT, or, in a container that sees only its own group, ROOT itself. Returns
 * false if that is not controlled there.
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
        has_file(cgroup->path, version->mark))
        return true;
    cgroup->path[length] = '\0';
    return has_file(cgroup->path, version->mark);
}

/* The group in SELF that one of VERSIONS controls. */
static bool find_group(struct cgroup *cgroup, const struct version versions[2], const char *self,
                       const char *root)
{
    FILE *file = fopen(self, "re");
    char line[LINE_MAX_BYTES];
    bool found = false;

    while (file != NULL && !found && fgets(line, sizeof(line), file) != NULL) {
        const char *path = NULL;
        const struct version *version = parse_group_line(line, versions, &path);

        found = version != NULL && take_group(cgroup, version, root, path);
    }
    if (file != NULL)
        fclose(file);
    return found;
}

/* DIRECTORY becomes that of the group above. False: there is none. */
static bool go_up(const struct cgroup *cgroup, char *directory)
{
    char *last = strrchr(directory, '/');

    if (last == NULL || (size_t)(last - directory) < cgroup->root_length)
        return false;
    *last = '\0';
    return true;
}

struct cgroup *cgroup_open(const char *self, const char *root)
{
    struct cgroup *cgroup = malloc(sizeof(*cgroup));

    if (cgroup != NULL && find_group(cgroup, memory_versions, self, root))
        return cgroup;
    free(cgroup);
    return NULL;
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
    do {
        struct cgroup_memory memory = memory_in(cgroup, directory);

        if (memory.limit_bytes > 0 &&
            (scarcest.limit_bytes == 0 ||
             (double)memory.used_bytes / (double)memory.limit_bytes >
                 (double)scarcest.used_bytes / (double)scarcest.limit_bytes))
            scarcest = memory;
    } while (go_up(cgroup, directory));
    return scarcest;
}

/* ---- CPU time ---- */

/* How many CPUs the group in DIRECTORY may use; 0: no limit. */
static double cpus_in(const struct version *version, const char *directory)
{
    FILE *file = open_file(directory, version->limit);
    double quota = 0, period = 0;
    int numbers;

    if (file == NULL)
        return 0;
    numbers = fscanf(file, "%lf %lf", &quota, &period); /* "max" is no number, -1 no limit */
    fclose(file);
    if (numbers == 1) {
        uint64_t us = read_group_number(directory, "cpu.cfs_period_us");

        period = us != UINT64_MAX ? (double)us : 0;
    }
    return numbers >= 1 && quota > 0 && period > 0 ? quota / period : 0;
}

uint32_t cgroup_cpus(const char *self, const char *root)
{
    struct cgroup cgroup;
    double least = 0;

    if (!find_group(&cgroup, cpu_versions, self, root))
        return 0;
    do {
        double cpus = cpus_in(cgroup.version, cgroup.path);

        if (cpus > 0 && (least == 0 || cpus < least))
            least = cpus;
    } while (go_up(&cgroup, cgroup.path));
    return least < UINT32_MAX ? (uint32_t)ceil(least) : 0;
}
