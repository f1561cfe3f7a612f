/*
 * The document roots and the directories of [files] follow_into. The master holds them open for the
 * workers, so that all of a generation serve the same trees, also one that replaces a dead worker.
 * If another directory has the path of one, a new generation gets it: the sandbox of a worker
 * admits no other directories than those of its start.
 */
#include "daemon/master/internal.h"

#include "common/clock.h"
#include "daemon/base/events.h"
#include "daemon/base/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOOK_MS = 10 };

/* A generation that fails must not be followed by many. */
static const uint64_t ROOTS_PAUSE_NS = 5 * NS_PER_S;

/* Opening */

int roots_open(struct roots *roots, const struct config *config, char *why, size_t size)
{
    const struct config_words *into = &config->files_follow_into;
    size_t sites = config->host_count + 1, most = sites + into->count;

    *roots = (struct roots){.path = calloc(most, sizeof(*roots->path)),
                            .fd = calloc(most, sizeof(*roots->fd)),
                            .missing = calloc(most, sizeof(*roots->missing))};
    if (roots->path == NULL || roots->fd == NULL || roots->missing == NULL) {
        snprintf(why, size, "out of memory");
        roots_close(roots);
        return -1;
    }
    for (size_t i = 0; i < most; i++) {
        const char *path = i == 0      ? config->server_root
                           : i < sites ? config->hosts[i - 1].root
                                       : into->item[i - sites];
        bool shared = i > 0 && strcmp(path, config->server_root) == 0;

        roots->path[i] = path;
        roots->fd[i] = shared ? -1 : open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (roots->fd[i] < 0 && !shared) {
            snprintf(why, size, "cannot open %s: %s", path, strerror(errno));
            roots_close(roots);
            return -1;
        }
        roots->count++;
    }
    return 0;
}

void roots_close(struct roots *roots)
{
    for (size_t i = 0; roots->fd != NULL && i < roots->count; i++)
        if (roots->fd[i] >= 0)
            close(roots->fd[i]);
    free(roots->path);
    free(roots->fd);
    free(roots->missing);
    *roots = (struct roots){.count = 0};
}

/* Watching */

/* The directory that contains PATH: a change there may be that of a root. */
static void watch_parent(int inotify, const char *path)
{
    char parent[PATH_MAX];
    size_t length = strlen(path);

    while (length > 0 && path[length - 1] == '/')
        length--;
    while (length > 0 && path[length - 1] != '/')
        length--;
    if (length >= sizeof(parent))
        return;
    snprintf(parent, sizeof(parent), "%.*s", (int)length, length > 0 ? path : ".");
    inotify_add_watch(inotify, length > 0 ? parent : ".", IN_CREATE | IN_MOVED_TO | IN_ONLYDIR);
}

static void report_missing(struct roots *roots, size_t i, int error)
{
    struct stat held;
    bool deleted = fstat(roots->fd[i], &held) != 0 || held.st_nlink == 0;

    if (!roots->missing[i])
        event_log(LEVEL_WARN, "document root %s is missing: %s; until there is another one, %s",
                  roots->path[i], strerror(error),
                  deleted ? "files are answered 503"
                          : "the directory that had this name is served");
    roots->missing[i] = true;
}

/* True if the path of root I leads to another directory. */
static bool is_replaced(struct roots *roots, size_t i)
{
    struct stat held, now = {.st_mode = S_IFDIR};
    int error = stat(roots->path[i], &now) != 0 ? errno : S_ISDIR(now.st_mode) ? 0 : ENOTDIR;

    if (error != 0) {
        report_missing(roots, i, error);
        return false;
    }
    if (fstat(roots->fd[i], &held) != 0 || held.st_dev != now.st_dev || held.st_ino != now.st_ino)
        return true;
    if (roots->missing[i])
        event_log(LEVEL_INFO, "document root %s is back", roots->path[i]);
    roots->missing[i] = false;
    return false;
}

void roots_look(struct master *master)
{
    struct root_watch *watch = &master->root_watch;
    struct roots *roots = &master->roots;
    uint64_t now_ns = clock_monotonic_ns();
    bool replaced = false;

    if (master->reload.previous != NULL || lifecycle_is_stopping(master))
        return;
    for (size_t i = 0; i < roots->count; i++) {
        if (roots->fd[i] < 0)
            continue;
        if (watch->inotify >= 0)
            watch_parent(watch->inotify, roots->path[i]);
        replaced |= is_replaced(roots, i);
    }
    if (replaced && now_ns >= watch->next_ns && reload_renew(master, RENEWAL_ROOTS))
        watch->next_ns = now_ns + ROOTS_PAUSE_NS;
}

void roots_committed(struct master *master, const struct roots *before)
{
    const struct roots *now = &master->roots;
    struct stat old, new;

    master->root_watch.next_ns = 0;
    for (size_t i = 0; i < now->count; i++)
        if (fstat(before->fd[i], &old) == 0 && fstat(now->fd[i], &new) == 0 &&
            (old.st_dev != new.st_dev || old.st_ino != new.st_ino))
            event_log(LEVEL_INFO, "document root %s replaced, generation %u", now->path[i],
                      master->workers.generation);
}

static void on_root_look(evutil_socket_t fd, short what, void *argument)
{
    (void)fd, (void)what;
    roots_look(argument);
}

/* Several changes in a short time cause one look. */
static void on_parent_changed(evutil_socket_t fd, short what, void *argument)
{
    struct root_watch *watch = &((struct master *)argument)->root_watch;
    char events[4096];

    (void)what;
    while (read(fd, events, sizeof(events)) > 0)
        continue;
    if (!event_pending(watch->look, EV_TIMEOUT, NULL))
        loop_start_timer(watch->look, LOOK_MS);
}

int root_watch_start(struct master *master)
{
    struct root_watch *watch = &master->root_watch;

    watch->look = event_new(master->base, -1, 0, on_root_look, master);
    if (watch->look == NULL)
        return -1;
    watch->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (watch->inotify < 0) {
        event_log(LEVEL_WARN, "cannot watch the document roots, looks once a second instead: %s",
                  strerror(errno));
        return 0;
    }
    watch->changed =
        event_new(master->base, watch->inotify, EV_READ | EV_PERSIST, on_parent_changed, master);
    if (watch->changed == NULL || event_add(watch->changed, NULL) != 0)
        return -1;
    roots_look(master);
    return 0;
}

void root_watch_free(struct root_watch *watch)
{
    loop_free_event(watch->look);
    loop_free_event(watch->changed);
    if (watch->inotify >= 0)
        close(watch->inotify);
    watch->inotify = -1;
}
