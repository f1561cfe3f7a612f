#include "daemon/connection/file_window.h"

#include "common/macros.h"
#include "common/segment_writer.h"

#include <errno.h>
#include <stdlib.h>

/* Reads a window into the page cache. */
struct warm_job {
    struct offload_job job;
    struct file_window *window;
    struct connection *connection;
    struct resource *file; /* a reference */
    uint64_t offset, length;
};

static void set_warm(struct file_window *window, uint64_t from, uint64_t length)
{
    window->warm_from = from;
    window->warm_until = from + length;
}

/* On an offload thread. */
static void run_warm(struct offload_job *job)
{
    struct warm_job *warm = CONTAINER_OF(job, struct warm_job, job);
    char buffer[64 * 1024];
    uint64_t done = 0;
    ssize_t got = 1;

    for (; done < warm->length && got > 0; done += (uint64_t)got)
        got = files_read(warm->file->fd, warm->file->device, buffer, sizeof(buffer),
                         warm->offset + done, FILES_MAY_BLOCK);
}

/* Back on the owning thread. */
static void finish_warm(struct offload_job *job)
{
    struct warm_job *warm = CONTAINER_OF(job, struct warm_job, job);
    struct file_window *window = warm->window;
    struct connection *connection = warm->connection;
    struct transaction_context *context = &connection->loop->context;

    context->jobs_out--;
    connection->client.jobs_out--;
    set_warm(window, warm->offset, warm->length);
    resource_release(context->worker->cache, warm->file);
    free(warm);
    window->read(window, connection);
}

static bool submit_warm(struct file_window *window, struct connection *connection,
                        struct resource *file, uint64_t offset, uint64_t length)
{
    struct transaction_context *context = &connection->loop->context;
    struct warm_job *warm = calloc(1, sizeof(*warm));

    if (warm == NULL)
        return false;
    warm->job = (struct offload_job){.run = run_warm,
                                     .finish = finish_warm,
                                     .work = file->file_path,
                                     .state = THREAD_STATE_FILE,
                                     .activity = context->activity,
                                     .owner = context->mailbox};
    warm->window = window;
    warm->connection = connection;
    warm->file = file;
    warm->offset = offset;
    warm->length = length;
    if (!offload_submit(context->worker->offload, &warm->job, context->loop_now_ns)) {
        free(warm);
        return false;
    }
    cache_acquire(&file->entry);
    connection->client.jobs_out++;
    context->jobs_out++;
    metric_add(context->metrics, METRIC_offloaded, 1);
    return true;
}

/* True if the last of LENGTH bytes at OFFSET is not in the page cache. */
static bool is_cold(const struct resource *file, uint64_t offset, uint64_t length)
{
    char byte;

    return files_read(file->fd, file->device, &byte, 1, offset + length - 1, FILES_CACHED_ONLY) <
               0 &&
           errno == EAGAIN;
}

uint64_t file_window_bytes(struct file_window *window, struct connection *connection,
                           struct resource *file, uint64_t offset, uint64_t length)
{
    if (offset < window->warm_from || offset >= window->warm_until) {
        uint64_t bytes = length < FILE_WINDOW_BYTES ? length : FILE_WINDOW_BYTES;

        if (is_cold(file, offset, bytes) && submit_warm(window, connection, file, offset, bytes))
            return 0;
        set_warm(window, offset, bytes);
    }
    return window->warm_until - offset < length ? window->warm_until - offset : length;
}
