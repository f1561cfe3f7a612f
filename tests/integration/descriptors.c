#include "descriptors.h"

#include "http_client.h"
#include "patience.h"
#include "scratch.h"
#include "tests/test.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Counts those whose file is in DIRECTORY; "": all. */
static rlim_t count_below(pid_t pid, const char *directory)
{
    char path[64], target[SCRATCH_PATH_MAX];
    rlim_t count = 0;
    struct dirent *entry;
    DIR *list;

    snprintf(path, sizeof(path), "/proc/%d/fd", pid);
    list = opendir(path);
    assert_non_null(list);
    while ((entry = readdir(list)) != NULL) {
        ssize_t length = readlinkat(dirfd(list), entry->d_name, target, sizeof(target) - 1);

        target[length > 0 ? length : 0] = '\0';
        if (length > 0 && strncmp(target, directory, strlen(directory)) == 0)
            count++;
    }
    closedir(list);
    return count;
}

rlim_t descriptors_open(pid_t pid)
{
    return count_below(pid, "");
}

static bool is_serving(const struct segment *segment, uint32_t slot)
{
    return segment_thread_reserved(segment, slot) &&
           atomic_load(&segment_thread_slot(segment, slot)->worker) != SEGMENT_NO_WORKER;
}

static bool all_threads_have_answered(const struct segment_reader *reader)
{
    const struct segment *segment = &reader->map;

    for (uint32_t i = 0; i < segment_count(segment, SEGMENT_THREADS); i++)
        if (is_serving(segment, i) &&
            segment_reader_metric(reader, segment_thread(segment, i), METRIC_requests) == 0)
            return false;
    return true;
}

/* Waits until each serving thread has begun another loop iteration. */
static void await_iterations(const struct segment *segment)
{
    for (uint32_t i = 0; i < segment_count(segment, SEGMENT_THREADS); i++) {
        const _Atomic uint64_t *answer = &segment_thread(segment, i)->answer;
        uint64_t before = is_serving(segment, i) ? atomic_load(answer) : 0;

        WAIT_UNTIL(!is_serving(segment, i) || atomic_load(answer) != before);
    }
}

void descriptors_settle(const struct server *server, const char *target, const pid_t *pids,
                        size_t count)
{
    enum { MOST = 100, ROOT = 1 /* always open */ };
    struct http_client client[MOST];
    struct segment_reader reader;
    char site[SCRATCH_PATH_MAX];
    int opened = 0;

    server_attach(server, &reader);
    while (!all_threads_have_answered(&reader)) { /* the kernel or the master chooses the thread */
        assert_true(opened < MOST);
        http_open_and_get(&client[opened++], server_port(server), target);
    }
    while (opened > 0)
        http_close(&client[--opened]);
    server_expect_metric(server, "connections_open", 0);
    await_iterations(&reader.map); /* a connection is counted until shortly before its close() */
    segment_detach(&reader);
    snprintf(site, sizeof(site), "%.240s/www", server_directory(server));
    for (size_t i = 0; i < count; i++)
        WAIT_UNTIL(count_below(pids[i], site) == ROOT);
}
