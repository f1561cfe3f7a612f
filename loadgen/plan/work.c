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
static uint32_t *find_place(const struct request_plan *request_plan, const char *method,
                            const char *url)
{
    size_t at = hash(method, url) % request_plan->index_size;

    while (request_plan->index[at] != 0) {
        const struct request *request = &request_plan->requests[request_plan->index[at] - 1];

        if (strcmp(request->method, method) == 0 && strcmp(request->target.text, url) == 0)
            break;
        at = (at + 1) % request_plan->index_size;
    }
    return &request_plan->index[at];
}

/* The index is never more than half full. */
static bool grow(struct request_plan *request_plan)
{
    size_t room = request_plan->room > 0 ? 2 * request_plan->room : 16;
    struct request *requests = realloc(request_plan->requests, room * sizeof(*requests));
    uint32_t *index = calloc(2 * room, sizeof(*index));

    if (requests != NULL)
        request_plan->requests = requests;
    if (requests == NULL || index == NULL) {
        free(index);
        return false;
    }
    free(request_plan->index);
    request_plan->index = index;
    request_plan->index_size = 2 * room;
    request_plan->room = room;
    for (size_t i = 0; i < request_plan->count; i++)
        *find_place(request_plan, requests[i].method, requests[i].target.text) = (uint32_t)i + 1;
    return true;
}

/* The number of the request, which is added if it is new; TARGET is taken over. -1 with WHY. */
static int64_t intern(struct request_plan *request_plan, const char *method, struct target *target,
                      char *why, size_t size)
{
    uint32_t *place;
    char *own_method;

    if (request_plan->count == request_plan->room && !grow(request_plan))
        return refuse(why, size, "out of memory");
    place = find_place(request_plan, method, target->text);
    if (*place != 0) {
        target_free(target);
        return *place - 1;
    }
    if (request_plan->count == REQUEST_PLAN_REQUESTS_MAX)
        return refuse(why, size, "more than 200000 different requests: split the file");
    own_method = strdup(method);
    if (own_method == NULL)
        return refuse(why, size, "out of memory");
    request_plan->requests[request_plan->count] = (struct request){
        .target = *target,
        .method = own_method,
        .head = strcmp(method, "HEAD") == 0,
    };
    *target = (struct target){0};
    *place = (uint32_t)++request_plan->count;
    return *place - 1;
}

static bool add_entry(struct request_plan *request_plan, struct request_entry entry)
{
    if (request_plan->entry_count == request_plan->entry_room) {
        size_t room = request_plan->entry_room > 0 ? 2 * request_plan->entry_room : 16;
        struct request_entry *grown = realloc(request_plan->entries, room * sizeof(*grown));

        if (grown == NULL)
            return false;
        request_plan->entries = grown;
        request_plan->entry_room = room;
    }
    request_plan->entries[request_plan->entry_count++] = entry;
    return true;
}

int request_plan_add(struct request_plan *request_plan, const char *method, const char *url,
                     struct request_entry entry, char *why, size_t size)
{
    const struct target *base = request_plan->count > 0 ? &request_plan->requests[0].target : NULL;
    struct target target;
    int64_t number;

    if (target_parse(&target, base, url, why, size) != 0) {
        target_free(&target);
        return -1;
    }
    number = intern(request_plan, method != NULL ? method : request_plan->plan->method, &target,
                    why, size);
    if (number < 0) {
        target_free(&target);
        return -1;
    }
    entry.request = (uint32_t)number;
    if (request_plan->entry_count >= REQUEST_PLAN_ENTRIES_MAX || !add_entry(request_plan, entry))
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

static int read_body_file(struct request_plan *request_plan, const char *name, char *why,
                          size_t size)
{
    FILE *file = fopen(name, "re");
    bool good = file != NULL && read_whole(file, &request_plan->body, &request_plan->body_length);

    if (!good)
        snprintf(why, size, "cannot read the body from '%s': %s", name, strerror(errno));
    if (file != NULL)
        fclose(file);
    return good ? 0 : -1;
}

static int read_body(struct request_plan *request_plan, char *why, size_t size)
{
    const struct plan *plan = request_plan->plan;

    if (plan->body_file != NULL)
        return read_body_file(request_plan, plan->body_file, why, size);
    if (plan->body == NULL)
        return 0;
    request_plan->body = strdup(plan->body);
    request_plan->body_length = strlen(plan->body);
    return request_plan->body != NULL ? 0 : refuse(why, size, "out of memory");
}

/* The URL of the command line is what a file's paths are relative to; with a file, only that. */
static int add_urls(struct request_plan *request_plan, char *why, size_t size)
{
    const struct plan *plan = request_plan->plan;
    const char *file = plan->replay_file != NULL ? plan->replay_file : plan->urls_file;

    for (size_t i = 0; i < plan->url_count; i++)
        if (request_plan_add(request_plan, NULL, plan->urls[i], (struct request_entry){0}, why,
                             size) != 0)
            return -1;
    if (file == NULL)
        return 0;
    request_plan->entry_count = 0;
    if (request_file_read(request_plan, file, plan->replay_file != NULL, why, size) != 0)
        return -1;
    if (request_plan->entry_count > 0)
        return 0;
    snprintf(why, size, "'%s' has no request in it that can be sent", file);
    return -1;
}

size_t request_plan_count_origins(const struct request_plan *request_plan)
{
    size_t count = 0;

    for (uint32_t i = 0; i < request_plan->count; i++)
        count += request_plan->requests[i].origin == i;
    return count;
}

/* The number of an earlier request with the same origin, or its own. */
static uint32_t origin_of(const struct request_plan *request_plan, uint32_t number)
{
    for (uint32_t i = 0; i < number; i++)
        if (request_plan->requests[i].origin == i &&
            target_same_origin(&request_plan->requests[i].target,
                               &request_plan->requests[number].target))
            return i;
    return number;
}

static int make_messages(struct request_plan *request_plan, char *why, size_t size)
{
    const struct fields_body body = {request_plan->body, request_plan->body_length};

    if (!fields_list(request_plan->plan, &body, &request_plan->headers))
        return refuse(why, size, "out of memory");
    for (uint32_t i = 0; i < request_plan->count; i++) {
        struct request *request = &request_plan->requests[i];

        request->origin = origin_of(request_plan, i);
        request->message = fields_message(request_plan->plan, request->method, &request->target,
                                          request_plan->headers, &body, &request->message_length);
        if (request->message == NULL)
            return refuse(why, size, "out of memory");
    }
    return 0;
}

static int make_redirections(struct request_plan *request_plan, char *why, size_t size)
{
    for (size_t i = 0; i < request_plan->plan->redirection_count; i++) {
        struct curl_slist *longer =
            curl_slist_append(request_plan->redirections, request_plan->plan->redirections[i]);

        if (longer == NULL)
            return refuse(why, size, "out of memory");
        request_plan->redirections = longer;
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
static int check_http2(const struct request_plan *request_plan, char *why, size_t size)
{
    const curl_version_info_data *libcurl = curl_version_info(CURLVERSION_NOW);
    bool broken = libcurl->version_num >= 0x075800 && libcurl->version_num < 0x080000;

    if (!broken || request_plan->plan->http != PLAN_HTTP_2 || !request_plan->plan->keepalive ||
        request_plan->requests[0].target.tls)
        return 0;
    snprintf(why, size,
             "--http2 without TLS: libcurl %s breaks connections that are used again; send to "
             "https://, or say --no-keepalive",
             libcurl->version);
    return -1;
}

int request_plan_prepare(struct request_plan *request_plan, const struct plan *plan, char *why,
                         size_t size)
{
    *request_plan = (struct request_plan){.plan = plan};
    if (check_readable("--cacert", plan->ca_file, why, size) != 0 ||
        check_readable("--cert", plan->certificate, why, size) != 0 ||
        check_readable("--key", plan->key, why, size) != 0 ||
        read_body(request_plan, why, size) != 0 || add_urls(request_plan, why, size) != 0 ||
        check_http2(request_plan, why, size) != 0 || make_messages(request_plan, why, size) != 0)
        return -1;
    return make_redirections(request_plan, why, size);
}

int request_plan_resolve(struct request_plan *request_plan, char *why, size_t size)
{
    if (request_plan->plan->unix_socket != NULL ||
        request_plan->plan->proxy != NULL) /* names are its affair */
        return 0;
    for (uint32_t i = 0; i < request_plan->count; i++) {
        struct request *request = &request_plan->requests[i];

        if (request->origin == i && request_plan->plan->redirection_count == 0 &&
            target_resolve(&request->target, request_plan->plan->family, why, size) != 0)
            return -1;
        request->addresses = request_plan->requests[request->origin].target.addresses;
    }
    return 0;
}

void request_plan_free(struct request_plan *request_plan)
{
    for (size_t i = 0; i < request_plan->count; i++) {
        target_free(&request_plan->requests[i].target);
        free((void *)(uintptr_t)request_plan->requests[i].method);
        free(request_plan->requests[i].message);
    }
    free(request_plan->requests);
    free(request_plan->index);
    free(request_plan->entries);
    free(request_plan->body);
    curl_slist_free_all(request_plan->headers);
    curl_slist_free_all(request_plan->redirections);
    *request_plan = (struct request_plan){0};
}

/* ---- In the run ---- */

const struct request *request_plan_next(struct request_plan *request_plan, uint64_t *random)
{
    size_t at = 0;

    if (request_plan->entry_count > 1)
        at = request_plan->plan->order == PLAN_ORDER_RANDOM
                 ? random_next(random) % request_plan->entry_count
                 : atomic_fetch_add_explicit(&request_plan->cursor, 1, memory_order_relaxed) %
                       request_plan->entry_count;
    return &request_plan->requests[request_plan->entries[at].request];
}

const struct request_entry *request_plan_take_entry(struct request_plan *request_plan)
{
    uint64_t at = atomic_fetch_add_explicit(&request_plan->cursor, 1, memory_order_relaxed);

    return at < request_plan->entry_count ? &request_plan->entries[at] : NULL;
}

uint64_t request_plan_limit(const struct request_plan *request_plan)
{
    return request_plan->plan->replay_file != NULL ? request_plan->entry_count : 0;
}
