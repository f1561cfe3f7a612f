#include "loadgen/plan/work.h"

#include "loadgen/plan/arrivals.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BODY_STEP = 64 * 1024 };

static int refuse(char *why, size_t size, const char *text)
{
    snprintf(why, size, "%s", text);
    return -1;
}

/* ---- Requests, each once ---- */

/* FNV-1a. */
static uint64_t hash(const char *method, const char *url)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325);

    for (; *method != '\0'; method++)
        sum = (sum ^ (unsigned char)*method) * UINT64_C(0x100000001b3);
    for (; *url != '\0'; url++)
        sum = (sum ^ (unsigned char)*url) * UINT64_C(0x100000001b3);
    return sum;
}

/* Where a request is in the index, or where it belongs. */
static uint32_t *find_place(const struct work *work, const char *method, const char *url)
{
    size_t at = hash(method, url) % work->index_size;

    while (work->index[at] != 0) {
        const struct request *request = &work->requests[work->index[at] - 1];

        if (strcmp(request->method, method) == 0 && strcmp(request->target.text, url) == 0)
            break;
        at = (at + 1) % work->index_size;
    }
    return &work->index[at];
}

/* The index is never more than half full. */
static bool grow(struct work *work)
{
    size_t room = work->room > 0 ? 2 * work->room : 16;
    struct request *requests = realloc(work->requests, room * sizeof(*requests));
    uint32_t *index = calloc(2 * room, sizeof(*index));

    if (requests != NULL)
        work->requests = requests;
    if (requests == NULL || index == NULL) {
        free(index);
        return false;
    }
    free(work->index);
    work->index = index;
    work->index_size = 2 * room;
    work->room = room;
    for (size_t i = 0; i < work->count; i++)
        *find_place(work, requests[i].method, requests[i].target.text) = (uint32_t)i + 1;
    return true;
}

/* The number of the request, which is added if it is new; TARGET is taken over. -1 with WHY. */
static int64_t intern(struct work *work, const char *method, struct target *target, char *why,
                      size_t size)
{
    uint32_t *place;
    char *own_method;

    if (work->count == work->room && !grow(work))
        return refuse(why, size, "out of memory");
    place = find_place(work, method, target->text);
    if (*place != 0) {
        target_free(target);
        return *place - 1;
    }
    if (work->count == WORK_REQUESTS_MAX)
        return refuse(why, size, "more than 200000 different requests: split the file");
    own_method = strdup(method);
    if (own_method == NULL)
        return refuse(why, size, "out of memory");
    work->requests[work->count] = (struct request){
        .target = *target,
        .method = own_method,
        .head = strcmp(method, "HEAD") == 0,
    };
    *target = (struct target){0};
    *place = (uint32_t)++work->count;
    return *place - 1;
}

static bool add_entry(struct work *work, struct work_entry entry)
{
    if (work->entry_count == work->entry_room) {
        size_t room = work->entry_room > 0 ? 2 * work->entry_room : 16;
        struct work_entry *grown = realloc(work->entries, room * sizeof(*grown));

        if (grown == NULL)
            return false;
        work->entries = grown;
        work->entry_room = room;
    }
    work->entries[work->entry_count++] = entry;
    return true;
}

int work_add(struct work *work, const char *method, const char *url, struct work_entry entry,
             char *why, size_t size)
{
    const struct target *base = work->count > 0 ? &work->requests[0].target : NULL;
    struct target target;
    int64_t number;

    if (target_parse(&target, base, url, why, size) != 0) {
        target_free(&target);
        return -1;
    }
    number = intern(work, method != NULL ? method : work->plan->method, &target, why, size);
    if (number < 0) {
        target_free(&target);
        return -1;
    }
    entry.request = (uint32_t)number;
    if (work->entry_count >= WORK_ENTRIES_MAX || !add_entry(work, entry))
        return refuse(why, size, "out of memory");
    return 0;
}

/* ---- From the plan ---- */

/* All of FILE, whatever bytes; false with errno. */
static bool read_whole(FILE *file, char **text, size_t *length)
{
    size_t room = 0;

    do {
        char *grown = realloc(*text, room + BODY_STEP);

        if (grown == NULL)
            return false;
        *text = grown;
        room += BODY_STEP;
        *length += fread(*text + *length, 1, room - *length, file);
    } while (*length == room);
    return ferror(file) == 0;
}

static int read_body_file(struct work *work, const char *name, char *why, size_t size)
{
    FILE *file = fopen(name, "re");
    bool good = file != NULL && read_whole(file, &work->body, &work->body_length);

    if (!good)
        snprintf(why, size, "cannot read the body from '%s': %s", name, strerror(errno));
    if (file != NULL)
        fclose(file);
    return good ? 0 : -1;
}

static int read_body(struct work *work, char *why, size_t size)
{
    const struct plan *plan = work->plan;

    if (plan->body_file != NULL)
        return read_body_file(work, plan->body_file, why, size);
    if (plan->body == NULL)
        return 0;
    work->body = strdup(plan->body);
    work->body_length = strlen(plan->body);
    return work->body != NULL ? 0 : refuse(why, size, "out of memory");
}

/* The URL of the command line is what a file's paths are relative to; with a file, only that. */
static int add_urls(struct work *work, char *why, size_t size)
{
    const struct plan *plan = work->plan;
    const char *file = plan->replay_file != NULL ? plan->replay_file : plan->urls_file;

    for (size_t i = 0; i < plan->url_count; i++)
        if (work_add(work, NULL, plan->urls[i], (struct work_entry){0}, why, size) != 0)
            return -1;
    if (file == NULL)
        return 0;
    work->entry_count = 0;
    if (work_read_file(work, file, plan->replay_file != NULL, why, size) != 0)
        return -1;
    if (work->entry_count > 0)
        return 0;
    snprintf(why, size, "'%s' has no request in it that can be sent", file);
    return -1;
}

size_t work_origins(const struct work *work)
{
    size_t count = 0;

    for (uint32_t i = 0; i < work->count; i++)
        count += work->requests[i].origin == i;
    return count;
}

/* The number of an earlier request with the same origin, or its own. */
static uint32_t origin_of(const struct work *work, uint32_t number)
{
    for (uint32_t i = 0; i < number; i++)
        if (work->requests[i].origin == i &&
            target_same_origin(&work->requests[i].target, &work->requests[number].target))
            return i;
    return number;
}

static int make_messages(struct work *work, char *why, size_t size)
{
    const struct fields_body body = {work->body, work->body_length};

    if (!fields_list(work->plan, &body, &work->headers))
        return refuse(why, size, "out of memory");
    for (uint32_t i = 0; i < work->count; i++) {
        struct request *request = &work->requests[i];

        request->origin = origin_of(work, i);
        request->message = fields_message(work->plan, request->method, &request->target,
                                          work->headers, &body, &request->message_length);
        if (request->message == NULL)
            return refuse(why, size, "out of memory");
    }
    return 0;
}

static int make_redirections(struct work *work, char *why, size_t size)
{
    for (size_t i = 0; i < work->plan->redirection_count; i++) {
        struct curl_slist *longer =
            curl_slist_append(work->redirections, work->plan->redirections[i]);

        if (longer == NULL)
            return refuse(why, size, "out of memory");
        work->redirections = longer;
    }
    return 0;
}

/* libcurl would say so for each connection. */
static int check_readable(const char *option, const char *file, char *why, size_t size)
{
    if (file == NULL || access(file, R_OK) == 0)
        return 0;
    snprintf(why, size, "%s %s: cannot be read: %s", option, file, strerror(errno));
    return -1;
}

/*
 * libcurl 7.88 sets HTTP/2 up once more on a connection without TLS that it uses again, which ends it
 * (https://github.com/curl/curl/pull/10643).
 */
static int check_http2(const struct work *work, char *why, size_t size)
{
    const curl_version_info_data *libcurl = curl_version_info(CURLVERSION_NOW);
    bool broken = libcurl->version_num >= 0x075800 && libcurl->version_num < 0x080000;

    if (!broken || work->plan->http != PLAN_HTTP_2 || !work->plan->keepalive ||
        work->requests[0].target.tls)
        return 0;
    snprintf(why, size,
             "--http2 without TLS: libcurl %s breaks connections that are used again; send to "
             "https://, or say --no-keepalive",
             libcurl->version);
    return -1;
}

int work_prepare(struct work *work, const struct plan *plan, char *why, size_t size)
{
    *work = (struct work){.plan = plan};
    if (check_readable("--cacert", plan->ca_file, why, size) != 0 ||
        check_readable("--cert", plan->certificate, why, size) != 0 ||
        check_readable("--key", plan->key, why, size) != 0 || read_body(work, why, size) != 0 ||
        add_urls(work, why, size) != 0 || check_http2(work, why, size) != 0 ||
        make_messages(work, why, size) != 0)
        return -1;
    return make_redirections(work, why, size);
}

int work_resolve(struct work *work, char *why, size_t size)
{
    if (work->plan->unix_socket != NULL || work->plan->proxy != NULL) /* names are its affair */
        return 0;
    for (uint32_t i = 0; i < work->count; i++) {
        struct request *request = &work->requests[i];

        if (request->origin == i && work->plan->redirection_count == 0 &&
            target_resolve(&request->target, work->plan->family, why, size) != 0)
            return -1;
        request->addresses = work->requests[request->origin].target.addresses;
    }
    return 0;
}

void work_free(struct work *work)
{
    for (size_t i = 0; i < work->count; i++) {
        target_free(&work->requests[i].target);
        free((void *)(uintptr_t)work->requests[i].method);
        free(work->requests[i].message);
    }
    free(work->requests);
    free(work->index);
    free(work->entries);
    free(work->body);
    curl_slist_free_all(work->headers);
    curl_slist_free_all(work->redirections);
    *work = (struct work){0};
}

/* ---- In the run ---- */

const struct request *work_choose(struct work *work, uint64_t *random)
{
    size_t at = 0;

    if (work->entry_count > 1)
        at = work->plan->order == PLAN_ORDER_RANDOM
                 ? random_next(random) % work->entry_count
                 : atomic_fetch_add_explicit(&work->cursor, 1, memory_order_relaxed) %
                       work->entry_count;
    return &work->requests[work->entries[at].request];
}

const struct work_entry *work_take_entry(struct work *work)
{
    uint64_t at = atomic_fetch_add_explicit(&work->cursor, 1, memory_order_relaxed);

    return at < work->entry_count ? &work->entries[at] : NULL;
}

uint64_t work_limit(const struct work *work)
{
    return work->plan->replay_file != NULL ? work->entry_count : 0;
}
