#include "console/load/store.h"

#include "common/clock.h"
#include "console/data/user_files.h"
#include "console/ui/graph.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PATH_BYTES = 1024 };

/* The directory of the runs; "" if neither variable is set. */
static void store_directory(char *path, size_t size)
{
    user_files_path("XDG_STATE_HOME", ".local/state", "runs", path, size);
}

static void path_of(const char *name, char *path, size_t size)
{
    size_t length;

    store_directory(path, size);
    length = strlen(path);
    snprintf(path + length, size - length, "/%s", name);
}

static bool is_run_name(const char *name)
{
    size_t length = strlen(name);

    return length > 5 && length < LOAD_NAME_BYTES && name[0] != '.' &&
           strcmp(name + length - 5, ".json") == 0;
}

static int read_run(const char *name, struct load_run *run)
{
    char path[PATH_BYTES];
    json_t *object;
    int result;

    path_of(name, path, sizeof(path));
    object = json_load_file(path, 0, NULL);
    result = object == NULL ? -1 : load_run_from_json(run, object);
    json_decref(object);
    return result;
}

static void describe(struct load_entry *entry, const char *name, const struct load_run *run)
{
    snprintf(entry->name, sizeof(entry->name), "%s", name);
    entry->started_ns = run->started_ns;
    entry->settings = run->settings;
    memcpy(entry->url, run->url, sizeof(entry->url));
    entry->totals = run->totals;
    entry->check = load_run_check(run);
}

static int newest_first(const void *a, const void *b)
{
    const struct load_entry *left = a, *right = b;

    if (left->started_ns != right->started_ns)
        return left->started_ns > right->started_ns ? -1 : 1;
    return strcmp(right->name, left->name);
}

static int add_entry(struct load_store *store, const char *name, const struct load_run *run)
{
    struct load_entry *larger =
        realloc(store->entries, (store->count + 1) * sizeof(*store->entries));

    if (larger == NULL)
        return -1;
    store->entries = larger;
    describe(&store->entries[store->count++], name, run);
    return 0;
}

static void read_all(struct load_store *store, DIR *directory, struct load_run *run)
{
    const struct dirent *entry;

    while ((entry = readdir(directory)) != NULL)
        if (is_run_name(entry->d_name) && read_run(entry->d_name, run) == 0)
            add_entry(store, entry->d_name, run);
    if (store->count > 0)
        qsort(store->entries, store->count, sizeof(*store->entries), newest_first);
}

int load_store_read(struct load_store *store, char *why, size_t size)
{
    char path[PATH_BYTES];
    struct load_run *run = malloc(sizeof(*run));
    DIR *directory;

    load_store_release(store);
    store_directory(path, sizeof(path));
    directory = path[0] != '\0' ? opendir(path) : NULL;
    if (directory != NULL && run != NULL)
        read_all(store, directory, run);
    free(run);
    if (directory != NULL) {
        closedir(directory);
        return 0;
    }
    if (path[0] == '\0' || errno == ENOENT)
        return 0; /* none has been stored yet */
    snprintf(why, size, "cannot read %.200s: %s", path, strerror(errno));
    return -1;
}

void load_store_release(struct load_store *store)
{
    free(store->entries);
    *store = (struct load_store){0};
}

/* Writes a hidden file and renames it, so that readers never see an incomplete run. */
static int write_run(const struct load_run *run, const char *name)
{
    char path[PATH_BYTES], hidden[PATH_BYTES], hidden_name[LOAD_NAME_BYTES + 8];
    json_t *object = load_run_json(run);
    int result;

    store_directory(path, sizeof(path));
    path_of(name, hidden, sizeof(hidden));
    if (object == NULL || path[0] == '\0' || user_files_make_parents(hidden) != 0) {
        json_decref(object);
        return -1;
    }
    snprintf(hidden_name, sizeof(hidden_name), ".%s", name);
    path_of(hidden_name, hidden, sizeof(hidden));
    path_of(name, path, sizeof(path));
    result = json_dump_file(object, hidden, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(object);
    if (result == 0 && rename(hidden, path) == 0)
        return 0;
    unlink(hidden);
    return -1;
}

int load_store_remove(struct load_store *store, size_t i, char *why, size_t size)
{
    char path[PATH_BYTES];

    path_of(store->entries[i].name, path, sizeof(path));
    if (unlink(path) != 0 && errno != ENOENT) {
        snprintf(why, size, "cannot delete %.200s: %s", path, strerror(errno));
        return -1;
    }
    memmove(&store->entries[i], &store->entries[i + 1],
            (store->count - i - 1) * sizeof(*store->entries));
    store->count--;
    return 0;
}

int load_store_add(struct load_store *store, const struct load_run *run, char *why, size_t size)
{
    char name[LOAD_NAME_BYTES];
    time_t second = (time_t)(run->started_ns / NS_PER_S);
    struct tm parts;
    size_t length;

    gmtime_r(&second, &parts);
    length = strftime(name, sizeof(name), "%Y%m%dT%H%M%S", &parts);
    snprintf(name + length, sizeof(name) - length, "-%03u.json",
             (unsigned)(run->started_ns % NS_PER_S / NS_PER_MS));
    if (write_run(run, name) != 0 || add_entry(store, name, run) != 0) {
        snprintf(why, size, "cannot store the run: %s",
                 errno != 0 ? strerror(errno) : "neither XDG_STATE_HOME nor HOME is set");
        return -1;
    }
    qsort(store->entries, store->count, sizeof(*store->entries), newest_first);
    while (store->count > LOAD_STORE_MAX)
        if (load_store_remove(store, store->count - 1, why, size) != 0)
            return -1;
    return 0;
}

int load_store_get(const struct load_entry *entry, struct load_run *run, char *why, size_t size)
{
    if (read_run(entry->name, run) == 0)
        return 0;
    snprintf(why, size, "cannot read the run %s", entry->name);
    return -1;
}

void load_compare(const struct load_totals *before, const struct load_totals *after,
                  struct load_difference *differences)
{
    const struct load_difference all[LOAD_DIFFERENCES] = {
        {"requests/s", before->requests_per_s, after->requests_per_s, GRAPH_COUNT, false},
        {"p50", before->p50_ns, after->p50_ns, GRAPH_TIME, true},
        {"p90", before->p90_ns, after->p90_ns, GRAPH_TIME, true},
        {"p99", before->p99_ns, after->p99_ns, GRAPH_TIME, true},
        {"max", before->max_ns, after->max_ns, GRAPH_TIME, true},
        {"answered", (double)before->answered, (double)after->answered, GRAPH_COUNT, false},
        {"failed", (double)before->failed, (double)after->failed, GRAPH_COUNT, true},
        {"bad statuses", (double)before->bad_statuses, (double)after->bad_statuses, GRAPH_COUNT,
         true},
    };

    memcpy(differences, all, sizeof(all));
}
