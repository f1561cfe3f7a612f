#include "daemon/exchange.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/account.h"
#include "daemon/http_date.h"
#include "daemon/target.h"
#include "daemon/thread.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MUST_WAIT = -1, LOCATION_MAX = 6 * 1024 };

/* A request on its way to an answer. */
struct exchange {
    struct connection *connection;
    struct serving_thread *thread;
    const struct request *request;
    uint64_t began_ns;
    enum outcome outcome;
    bool may_wait; /* false: nothing that would need a second look at the request */
};

/* Composing */

static bool connection_goes_on(const struct exchange *exchange)
{
    const struct config *config = exchange->thread->site->config;
    const struct connection *connection = exchange->connection;

    return exchange->request->keep_alive && config->connections_keepalive && !connection->closing &&
           exchange->thread->mode != THREAD_STOPPING &&
           (config->connections_keepalive_requests == 0 ||
            connection->requests + 1 < config->connections_keepalive_requests);
}

static void put_prefix(const struct exchange *exchange, int status)
{
    struct output *output = &exchange->thread->output;
    enum persistence persistence = PERSIST_CLOSE;

    exchange->connection->closing = !connection_goes_on(exchange);
    if (exchange->connection->closing && exchange->request->keep_alive)
        exchange->connection->linger_wanted = true; /* it may send on, not knowing */
    if (!exchange->connection->closing)
        persistence = exchange->request->minor_version == 0 ? PERSIST_KEEP_ALIVE : PERSIST_DEFAULT;
    output->used += response_prefix(&exchange->thread->prefixes, status, persistence,
                                    output->buffer + output->used);
}

static void put_span(const struct exchange *exchange, struct span text)
{
    output_put(&exchange->thread->output, text.start, text.length);
}

static bool wants_body(const struct exchange *exchange)
{
    return exchange->request->method != METHOD_HEAD;
}

static void drop_resource(const struct exchange *exchange, struct resource *resource)
{
    resource_release(exchange->thread->site->cache, resource);
}

/* The body of RESOURCE as the end of the output: copied when small, else borrowed. */
static void put_body(const struct exchange *exchange, struct resource *resource, bool held)
{
    struct output *output = &exchange->thread->output;

    if (resource->fd < 0 && resource->body_length <= OUTPUT_COPY_MAX) {
        output_put(output, resource->answer + resource->head_length, resource->body_length);
        if (held)
            drop_resource(exchange, resource);
        return;
    }
    output->body = resource;
    output->body_held = held;
    output->body_offset = resource->fd < 0 ? resource->head_length : 0;
    output->body_left = resource->body_length;
}

/* Conditional requests, RFC 9110 sections 13.1.2 and 13.1.3. */

static bool etag_listed(struct span list, struct span etag)
{
    const char *at = list.start, *end = list.start + list.length;

    if (span_is(list, SPAN("*")))
        return true;
    while (at < end) {
        const char *start, *close;

        while (at < end && (*at == ' ' || *at == '\t' || *at == ','))
            at++;
        if (end - at > 2 && at[0] == 'W' && at[1] == '/')
            at += 2; /* If-None-Match compares weakly */
        start = at;
        if (at >= end || *at != '"' ||
            (close = memchr(at + 1, '"', (size_t)(end - at - 1))) == NULL)
            return false;
        at = close + 1;
        if (span_is((struct span){start, (size_t)(at - start)}, etag))
            return true;
    }
    return false;
}

static bool not_modified(const struct exchange *exchange, const struct resource *resource)
{
    const struct request *request = exchange->request;
    int64_t since;

    if (request->if_none_match.start != NULL)
        return etag_listed(request->if_none_match, resource->etag);
    return request->if_modified_since.start != NULL &&
           http_date_read(request->if_modified_since, exchange->thread->prefixes.second, &since) ==
               0 &&
           resource->mtime_s <= since;
}

static void answer_not_modified(const struct exchange *exchange, struct resource *resource,
                                bool held)
{
    put_prefix(exchange, 304);
    put_span(exchange, resource->validators);
    put_span(exchange, SPAN("\r\n"));
    account_pack(exchange->connection, exchange->request, 304, exchange->outcome, 0,
                 exchange->began_ns);
    if (held)
        drop_resource(exchange, resource);
}

/* HELD: the caller's reference goes with the answer. */
static enum exchange_result answer_resource(const struct exchange *exchange,
                                            struct resource *resource, bool held)
{
    if (UNLIKELY(not_modified(exchange, resource))) {
        answer_not_modified(exchange, resource, held);
        return EXCHANGE_ANSWERED;
    }
    put_prefix(exchange, 200);
    output_put(&exchange->thread->output, resource->answer, resource->head_length);
    account_pack(exchange->connection, exchange->request, 200, exchange->outcome,
                 wants_body(exchange) ? resource->body_length : 0, exchange->began_ns);
    if (wants_body(exchange))
        put_body(exchange, resource, held);
    else if (held)
        drop_resource(exchange, resource);
    return EXCHANGE_ANSWERED;
}

/* Finding the file */

static void run_load(struct offload_job *job)
{
    struct load_job *load = CONTAINER_OF(job, struct load_job, job);

    load->failed = resource_load(&load->site->source, load->path, load->length, FILES_MAY_BLOCK,
                                 FILES_MAY_BLOCK, load->job.queued_ns, &load->resource);
}

/* Gives the loading to an offload thread. False: the queue is full, or memory is short. */
static bool submit_load(const struct exchange *exchange, const char *path, size_t length)
{
    struct serving_thread *thread = exchange->thread;
    struct load_job *load = calloc(1, sizeof(*load) + length + 1);

    if (load == NULL)
        return false;
    load->job.run = run_load;
    load->job.work = load->path;
    load->job.owner = &thread->mailbox;
    load->job.kind = LETTER_LOADED;
    load->connection = exchange->connection;
    load->site = thread->site;
    load->length = length;
    memcpy(load->path, path, length);
    if (!offload_submit(thread->site->offload, &load->job, thread->turn_ns)) {
        free(load);
        return false;
    }
    exchange->connection->job_out = true;
    thread->jobs_out++;
    metric_add(thread->metrics, METRIC_offloaded, 1);
    return true;
}

static void remember(const struct exchange *exchange, struct resource *resource)
{
    if (exchange->thread->site->cache != NULL)
        cache_insert(exchange->thread->site->cache, &resource->entry);
}

/* Opens and reads without waiting for a disk; what would wait goes to an offload thread. */
static int load_now(struct exchange *exchange, const char *path, size_t length,
                    struct resource **found)
{
    struct serving_thread *thread = exchange->thread;
    const struct resource_source *source = &thread->site->source;
    int failed;

    segment_activity_state(thread->activity, THREAD_STATE_FILE, thread->turn_ns);
    failed = resource_load(source, path, length, FILES_CACHED_ONLY, FILES_CACHED_ONLY,
                           thread->turn_ns, found);
    if (failed == EAGAIN || failed == EBUSY) {
        if (exchange->may_wait && submit_load(exchange, path, length))
            return MUST_WAIT;
        /* Opens are never refused: the loop does them itself. Reading a cold file is. */
        failed = resource_load(source, path, length, FILES_MAY_BLOCK, FILES_CACHED_ONLY,
                               thread->turn_ns, found);
        if (failed == EBUSY)
            metric_add(thread->metrics, METRIC_offload_refused, 1);
    }
    if (failed == 0)
        remember(exchange, *found);
    return failed;
}

/* What an offload thread brought for this path, if it did: 0 and a reference, or its errno. */
static bool take_loaded(struct exchange *exchange, const char *path, size_t length,
                        struct resource **found, int *failed)
{
    for (struct load_job *load = exchange->connection->loaded; load != NULL; load = load->next) {
        if (load->length != length || memcmp(load->path, path, length) != 0)
            continue;
        *failed = load->failed;
        *found = load->resource;
        if (load->resource != NULL)
            cache_hold(&load->resource->entry);
        exchange->outcome = OUTCOME_OFFLOAD;
        return true;
    }
    return false;
}

/* True when the entry is still what the file system has; MUST_WAIT when that takes a disk. */
static int still_true(struct exchange *exchange, struct resource *resource)
{
    struct serving_thread *thread = exchange->thread;
    uint64_t max_age_ns = thread->site->config->cache_revalidate * NS_PER_MS;
    int changed;

    if (!cache_claim_check(&resource->entry, thread->turn_ns, max_age_ns))
        return true;
    segment_activity_state(thread->activity, THREAD_STATE_FILE, thread->turn_ns);
    changed = resource_check(&thread->site->source, resource, FILES_CACHED_ONLY);
    if (changed == EAGAIN && exchange->may_wait &&
        submit_load(exchange, resource->entry.path, resource->entry.path_length))
        return MUST_WAIT;
    if (changed == EAGAIN)
        changed = resource_check(&thread->site->source, resource, FILES_MAY_BLOCK);
    if (changed == 0)
        return true;
    cache_invalidate(thread->site->cache, &resource->entry);
    return false;
}

/* 0 with a reference in *FOUND, MUST_WAIT, or an errno (EISDIR for a folder). */
static int find_resource(struct exchange *exchange, const char *path, size_t length,
                         struct resource **found)
{
    struct cache *cache = exchange->thread->site->cache;
    struct cache_entry *entry;
    int failed, fresh;

    if (take_loaded(exchange, path, length, found, &failed))
        return failed;
    exchange->outcome = OUTCOME_HIT;
    segment_activity_state(exchange->thread->activity, THREAD_STATE_LOCK,
                           exchange->thread->turn_ns);
    entry = cache != NULL ? cache_find(cache, path, length) : NULL;
    if (entry != NULL) {
        *found = CONTAINER_OF(entry, struct resource, entry);
        fresh = still_true(exchange, *found);
        if (fresh == true)
            return 0;
        cache_release(cache, entry);
        if (fresh == MUST_WAIT)
            return MUST_WAIT;
    }
    exchange->outcome = OUTCOME_MISS;
    return load_now(exchange, path, length, found);
}

/* The file is gone: what the cache still has of it must not be served again. */
static void forget_path(struct cache *cache, const char *path, size_t length)
{
    struct cache_entry *entry = cache_find(cache, path, length);

    if (entry == NULL)
        return;
    cache_invalidate(cache, entry);
    cache_release(cache, entry);
}

struct connection *exchange_loaded(struct load_job *job)
{
    struct connection *connection = job->connection;
    struct serving_thread *thread = connection->thread;

    thread->jobs_out--;
    connection->job_out = false;
    job->next = connection->loaded;
    connection->loaded = job;
    if (job->resource != NULL && thread->site->cache != NULL)
        cache_insert(thread->site->cache, &job->resource->entry);
    else if (thread->site->cache != NULL)
        forget_path(thread->site->cache, job->path, job->length);
    return connection;
}

void exchange_forget(struct connection *connection, struct cache *cache)
{
    struct load_job *load;

    while ((load = connection->loaded) != NULL) {
        connection->loaded = load->next;
        if (load->resource != NULL)
            resource_release(cache, load->resource);
        free(load);
    }
}

/* Errors */

static const char *extra_fields(int status)
{
    return status == 405 ? "Allow: GET, HEAD\r\n" : status == 503 ? "Retry-After: 1\r\n" : "";
}

static void put_error_head(const struct exchange *exchange, int status, uint64_t length)
{
    struct output *output = &exchange->thread->output;

    put_prefix(exchange, status);
    output->used += (size_t)snprintf(output->buffer + output->used, RESPONSE_BODY_MAX,
                                     "%sContent-Type: text/html; charset=utf-8\r\n"
                                     "Content-Length: %" PRIu64 "\r\n\r\n",
                                     extra_fields(status), length);
    account_pack(exchange->connection, exchange->request, status, OUTCOME_ERROR,
                 wants_body(exchange) ? length : 0, exchange->began_ns);
}

static void answer_built_in(const struct exchange *exchange, int status)
{
    char page[RESPONSE_BODY_MAX];
    size_t length = response_error_page(status, page);

    put_error_head(exchange, status, length);
    if (wants_body(exchange))
        output_put(&exchange->thread->output, page, length);
}

/* With the site's own page, if there is one. */
static enum exchange_result answer_error(struct exchange *exchange, int status)
{
    const char *folder = exchange->thread->site->config->files_error_pages;
    char path[TARGET_PATH_MAX];
    int length = snprintf(path, sizeof(path), "%s/%d.html", folder, status);
    enum outcome of_request = exchange->outcome;
    struct resource *page;
    int failed = ENOENT;

    if (folder[0] == '/' && (size_t)length < sizeof(path))
        failed = find_resource(exchange, path, (size_t)length, &page);
    exchange->outcome = of_request; /* not of its error page */
    if (failed == MUST_WAIT)
        return EXCHANGE_WAITING;
    if (failed != 0) {
        answer_built_in(exchange, status);
        return EXCHANGE_ANSWERED;
    }
    put_error_head(exchange, status, page->body_length);
    if (wants_body(exchange))
        put_body(exchange, page, true);
    else
        drop_resource(exchange, page);
    return EXCHANGE_ANSWERED;
}

/* Folders */

/* Appends PATH, percent-encoded where RFC 3986 section 3.3 asks for it; returns the new length. */
static size_t encode_path(char *to, size_t length, const char *path)
{
    static const char digits[] = "0123456789ABCDEF";

    for (; *path != '\0' && length < LOCATION_MAX; path++) {
        unsigned char c = (unsigned char)*path;

        if (isalnum(c) || strchr("/-._~!$&'()*+,;=:@", c) != NULL) {
            to[length++] = (char)c;
        } else {
            to[length++] = '%';
            to[length++] = digits[c >> 4];
            to[length++] = digits[c & 15];
        }
    }
    return length;
}

/* "/folder" becomes "/folder/", with its query. */
static enum exchange_result answer_folder_redirect(struct exchange *exchange,
                                                   const struct target *target)
{
    char location[LOCATION_MAX + 8];
    struct output *output = &exchange->thread->output;
    size_t length = encode_path(location, 0, target->path);

    if (length + target->query.length + 2 > LOCATION_MAX)
        return answer_error(exchange, 414);
    put_prefix(exchange, 301);
    put_span(exchange, SPAN("Location: "));
    output_put(output, location, length);
    put_span(exchange, SPAN("/"));
    if (target->query.start != NULL) {
        put_span(exchange, SPAN("?"));
        put_span(exchange, target->query);
    }
    put_span(exchange, SPAN("\r\nContent-Length: 0\r\n\r\n"));
    account_pack(exchange->connection, exchange->request, 301, exchange->outcome, 0,
                 exchange->began_ns);
    return EXCHANGE_ANSWERED;
}

/* The index file is missing: 403 when the folder itself is there, for there is nothing to show. */
static enum exchange_result answer_without_index(struct exchange *exchange,
                                                 const struct target *target)
{
    struct resource *none;
    int failed = find_resource(exchange, target->path, target->length, &none);

    if (failed == MUST_WAIT)
        return EXCHANGE_WAITING;
    if (failed == 0)
        drop_resource(exchange, none);
    return answer_error(exchange, failed == EISDIR ? 403 : 404);
}

/* The whole way of a GET or HEAD that the front table does not know. */

/* A segment that begins with a dot, but for the well-known folder of RFC 8615. */
static bool is_hidden(const char *path)
{
    const char *dot = strstr(path, "/.");

    if (dot == path && strncmp(path, "/.well-known", 12) == 0 &&
        (path[12] == '/' || path[12] == '\0'))
        dot = strstr(path + 1, "/.");
    return dot != NULL;
}

/* The file's path: the target's, and for a folder its index. False when that is too long. */
static bool file_path(const struct exchange *exchange, const struct target *target, char *path,
                      size_t *length)
{
    const char *index = target->folder ? exchange->thread->site->config->server_index : "";
    int written = snprintf(path, TARGET_PATH_MAX, "%s%s", target->path, index);

    *length = (size_t)written;
    return written < TARGET_PATH_MAX;
}

static int status_of(int failed)
{
    return failed == EBUSY ? 503 : files_status(failed);
}

static enum exchange_result answer_path(struct exchange *exchange, const struct target *target)
{
    char path[TARGET_PATH_MAX];
    struct resource *resource;
    size_t length;
    int failed;

    if (!file_path(exchange, target, path, &length))
        return answer_error(exchange, 414);
    if (is_hidden(path))
        return answer_error(exchange, 404);
    failed = find_resource(exchange, path, length, &resource);
    if (failed == MUST_WAIT)
        return EXCHANGE_WAITING;
    if (failed == EISDIR && !target->folder)
        return answer_folder_redirect(exchange, target);
    if (failed == EISDIR || (failed == ENOENT && target->folder))
        return answer_without_index(exchange, target);
    if (failed != 0)
        return answer_error(exchange, status_of(failed));
    if (exchange->thread->front != NULL && resource->entry.stored)
        cache_front_store(exchange->thread->front, exchange->request->target, &resource->entry,
                          exchange->thread->turn_ns);
    return answer_resource(exchange, resource, true);
}

static enum exchange_result answer_slowly(struct exchange *exchange)
{
    struct target target;
    int status = target_canonical(exchange->request->target, &target);

    return status != 0 ? answer_error(exchange, status) : answer_path(exchange, &target);
}

/* A front table's entry, unless it has to be loaded anew: then NULL. */
static struct resource *front_resource(struct exchange *exchange)
{
    struct serving_thread *thread = exchange->thread;
    struct cache_entry *entry;
    struct resource *resource;

    if (thread->front == NULL || exchange->connection->loaded != NULL)
        return NULL;
    entry = cache_front_find(thread->front, exchange->request->target, thread->turn_ns);
    if (entry == NULL)
        return NULL;
    resource = CONTAINER_OF(entry, struct resource, entry);
    return still_true(exchange, resource) == true ? resource : NULL;
}

static enum exchange_result answer_get(struct exchange *exchange)
{
    struct resource *resource = front_resource(exchange);

    if (LIKELY(resource != NULL)) {
        exchange->outcome = OUTCOME_HIT;
        return answer_resource(exchange, resource, false);
    }
    return exchange->connection->job_out ? EXCHANGE_WAITING : answer_slowly(exchange);
}

/* A request that never came to ask for a file is neither. */
static void count_outcome(const struct exchange *exchange)
{
    _Atomic uint64_t *metrics = exchange->thread->metrics;

    if (exchange->outcome == OUTCOME_HIT)
        metric_add(metrics, METRIC_cache_hits, 1);
    else if (exchange->outcome != OUTCOME_ERROR)
        metric_add(metrics, METRIC_cache_misses, 1);
}

/* Either the request waits, and began now, or it is answered and what was brought for it goes. */
static enum exchange_result conclude(struct exchange *exchange, enum exchange_result result)
{
    struct connection *connection = exchange->connection;

    if (result == EXCHANGE_WAITING) {
        connection->began_ns = exchange->began_ns;
        connection->closing = false; /* it is looked at again, and closes only when answered */
        return result;
    }
    connection->began_ns = 0;
    if (UNLIKELY(connection->loaded != NULL))
        exchange_forget(connection, exchange->thread->site->cache);
    return result;
}

static struct exchange begin(struct connection *connection, const struct request *request)
{
    struct serving_thread *thread = connection->thread;

    return (struct exchange){
        .connection = connection,
        .thread = thread,
        .request = request,
        .began_ns = connection->began_ns != 0 ? connection->began_ns : thread->turn_ns,
        .outcome = OUTCOME_ERROR,
        .may_wait = true,
    };
}

enum exchange_result exchange_answer(struct connection *connection, const struct request *request)
{
    struct exchange exchange = begin(connection, request);
    enum exchange_result result;

    if (UNLIKELY(request->has_body)) {
        connection->closing = true; /* the body is not read: nothing behind it can be trusted */
        connection->linger_wanted = true;
    }
    if (LIKELY(request->method == METHOD_GET || request->method == METHOD_HEAD)) {
        result = answer_get(&exchange);
        if (result == EXCHANGE_ANSWERED)
            count_outcome(&exchange);
    } else {
        result = answer_error(&exchange, request->method == METHOD_UNKNOWN ? 501 : 405);
    }
    return conclude(&exchange, result);
}

enum exchange_result exchange_refuse(struct connection *connection, const struct request *request,
                                     int status)
{
    struct exchange exchange = begin(connection, request);

    connection->closing = true;
    connection->linger_wanted = true;
    exchange.may_wait = status != 408; /* nothing more is coming that could be looked at again */
    return conclude(&exchange, answer_error(&exchange, status));
}
