#include "loadgen/plan/request_plan.h"

#include "loadgen/plan/arrivals.h"

#include <stdlib.h>
#include <string.h>

static int fail(char *why, size_t size, const char *text)
{
    snprintf(why, size, "%s", text);
    return -1;
}

bool string_list_append(struct curl_slist **list, const char *text)
{
    struct curl_slist *longer = curl_slist_append(*list, text);

    if (longer != NULL)
        *list = longer;
    return longer != NULL;
}

/* ---- Distinct requests ---- */

/* FNV-1a; also of the terminating NUL. */
static uint64_t hash_text(uint64_t sum, const char *text)
{
    do
        sum = (sum ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    while (*text++ != '\0');
    return sum;
}

static uint64_t hash(const struct request *request)
{
    uint64_t sum = hash_text(UINT64_C(0xcbf29ce484222325), request->method);

    sum = hash_text(sum, request->target.text);
    for (const struct curl_slist *field = request->own_fields; field; field = field->next)
        sum = hash_text(sum, field->data);
    for (size_t i = 0; i < request->body_length; i++)
        sum = (sum ^ (unsigned char)request->body[i]) * UINT64_C(0x100000001b3);
    return sum;
}

static bool same_fields(const struct curl_slist *one, const struct curl_slist *other)
{
    while (one != NULL && other != NULL && strcmp(one->data, other->data) == 0) {
        one = one->next;
        other = other->next;
    }
    return one == NULL && other == NULL;
}

static bool same_body(const struct request *one, const struct request *other)
{
    if (one->body == other->body)
        return true;
    return one->body != NULL && other->body != NULL && one->body_length == other->body_length &&
           memcmp(one->body, other->body, one->body_length) == 0;
}

static bool same_request(const struct request *one, const struct request *other)
{
    return strcmp(one->method, other->method) == 0 &&
           strcmp(one->target.text, other->target.text) == 0 &&
           same_fields(one->own_fields, other->own_fields) && same_body(one, other);
}

/* The place of a request in the index, or the empty place where it would be inserted. */
static uint32_t *find_place(const struct request_plan *request_plan, const struct request *request)
{
    size_t at = hash(request) % request_plan->index_size;

    while (request_plan->index[at] != 0 &&
           !same_request(&request_plan->requests[request_plan->index[at] - 1], request))
        at = (at + 1) % request_plan->index_size;
    return &request_plan->index[at];
}

/* The index is never more than half full. */
static bool grow(struct request_plan *request_plan)
{
    size_t capacity = request_plan->capacity > 0 ? 2 * request_plan->capacity : 16;
    struct request *requests = realloc(request_plan->requests, capacity * sizeof(*requests));
    uint32_t *index = calloc(2 * capacity, sizeof(*index));

    if (requests != NULL)
        request_plan->requests = requests;
    if (requests == NULL || index == NULL) {
        free(index);
        return false;
    }
    free(request_plan->index);
    request_plan->index = index;
    request_plan->index_size = 2 * capacity;
    request_plan->capacity = capacity;
    for (size_t i = 0; i < request_plan->count; i++)
        *find_place(request_plan, &requests[i]) = (uint32_t)i + 1;
    return true;
}

static void free_request(const struct request_plan *request_plan, struct request *request)
{
    target_free(&request->target);
    free((void *)(uintptr_t)request->method);
    if (request->own_fields != NULL)
        curl_slist_free_all(request->fields);
    curl_slist_free_all(request->own_fields);
    if (request->body != request_plan->body)
        free(request->body);
    free(request->message);
}

/* Copies PARTS but the URL. Returns false if out of memory. */
static bool copy_parts(const struct request_plan *request_plan, const struct request_parts *parts,
                       struct request *request)
{
    const char *method = parts->method != NULL ? parts->method : request_plan->plan->method;
    bool good = true;

    request->method = strdup(method);
    request->head = strcmp(method, "HEAD") == 0;
    for (const struct curl_slist *field = parts->fields; good && field; field = field->next)
        good = string_list_append(&request->own_fields, field->data);
    request->body = parts->body != NULL ? malloc(parts->body_length + 1) : request_plan->body;
    request->body_length = parts->body != NULL ? parts->body_length : request_plan->body_length;
    if (parts->body != NULL && request->body != NULL)
        memcpy(request->body, parts->body, parts->body_length);
    return good && request->method != NULL && (parts->body == NULL || request->body != NULL);
}

/* Returns the number of the request, adding it if it is new; -1 with WHY. Takes REQUEST over if it is new. */
static int64_t intern(struct request_plan *request_plan, struct request *request, char *why,
                      size_t size)
{
    uint32_t *place;

    if (request_plan->count == request_plan->capacity && !grow(request_plan))
        return fail(why, size, "out of memory");
    place = find_place(request_plan, request);
    if (*place != 0)
        return *place - 1;
    if (request_plan->count == REQUEST_PLAN_REQUESTS_MAX)
        return fail(why, size, "more than 200000 distinct requests; split the file");
    request_plan->requests[request_plan->count] = *request;
    *request = (struct request){0};
    *place = (uint32_t)++request_plan->count;
    return *place - 1;
}

static bool add_entry(struct request_plan *request_plan, struct request_entry entry)
{
    if (request_plan->entry_count == request_plan->entry_capacity) {
        size_t capacity = request_plan->entry_capacity > 0 ? 2 * request_plan->entry_capacity : 16;
        struct request_entry *grown = realloc(request_plan->entries, capacity * sizeof(*grown));

        if (grown == NULL)
            return false;
        request_plan->entries = grown;
        request_plan->entry_capacity = capacity;
    }
    request_plan->entries[request_plan->entry_count++] = entry;
    return true;
}

/* Parses the URL of PARTS. Returns 0, or -1 with WHY. */
static int parse_target(const struct request_plan *request_plan, const struct request_parts *parts,
                        struct target *target, char *why, size_t size)
{
    const struct target *base = request_plan->count > 0 ? &request_plan->requests[0].target : NULL;

    return parts->path != NULL ? target_parse_path(target, base, parts->path, why, size)
                               : target_parse(target, base, parts->url, why, size);
}

int request_plan_add(struct request_plan *request_plan, const struct request_parts *parts,
                     struct request_entry entry, char *why, size_t size)
{
    struct request request = {0};
    int64_t number = -1;
    int result = 1;

    if (parse_target(request_plan, parts, &request.target, why, size) == 0) {
        number = copy_parts(request_plan, parts, &request)
                     ? intern(request_plan, &request, why, size)
                     : fail(why, size, "out of memory");
        result = number < 0 ? -1 : 0;
    }
    free_request(request_plan, &request);
    entry.request = (uint32_t)number;
    if (result == 0 &&
        (request_plan->entry_count >= REQUEST_PLAN_ENTRIES_MAX || !add_entry(request_plan, entry)))
        result = fail(why, size, "out of memory");
    return result;
}

void request_plan_free(struct request_plan *request_plan)
{
    for (size_t i = 0; i < request_plan->count; i++)
        free_request(request_plan, &request_plan->requests[i]);
    for (size_t i = 0; i < REQUEST_BODY_KINDS; i++)
        curl_slist_free_all(request_plan->shared_fields[i]);
    free(request_plan->requests);
    free(request_plan->index);
    free(request_plan->entries);
    free(request_plan->body);
    curl_slist_free_all(request_plan->connect_to);
    *request_plan = (struct request_plan){0};
}

/* ---- During the run ---- */

/* The next position of a list of COUNT entries. */
static size_t advance(size_t *position, size_t count)
{
    size_t at = *position;

    *position = at + 1 < count ? at + 1 : 0;
    return at;
}

const struct request_entry *request_plan_next(struct request_plan *request_plan, size_t *position,
                                              uint64_t *random)
{
    size_t count = request_plan->entry_count;

    switch (request_plan->plan->order) {
    case PLAN_ORDER_ONCE:
        return request_plan_take_entry(request_plan);
    case PLAN_ORDER_EACH:
        return &request_plan->entries[advance(position, count)];
    case PLAN_ORDER_RANDOM:
        return &request_plan->entries[random_next(random) % count];
    case PLAN_ORDER_SEQUENCE:
        break;
    }
    return &request_plan->entries[count > 1 ? atomic_fetch_add_explicit(&request_plan->cursor, 1,
                                                                        memory_order_relaxed) %
                                                  count
                                            : 0];
}

const struct request_entry *request_plan_take_entry(struct request_plan *request_plan)
{
    uint64_t at = atomic_fetch_add_explicit(&request_plan->cursor, 1, memory_order_relaxed);

    return at < request_plan->entry_count ? &request_plan->entries[at] : NULL;
}

uint64_t request_plan_limit(const struct request_plan *request_plan)
{
    const struct plan *plan = request_plan->plan;

    return plan->replay_file != NULL || plan->order == PLAN_ORDER_ONCE ? request_plan->entry_count
                                                                       : 0;
}

bool request_plan_has_tls(const struct request_plan *request_plan)
{
    for (size_t i = 0; i < request_plan->count; i++)
        if (request_plan->requests[i].target.tls)
            return true;
    return false;
}

size_t request_plan_count_origins(const struct request_plan *request_plan)
{
    size_t count = 0;

    for (uint32_t i = 0; i < request_plan->count; i++)
        count += request_plan->requests[i].origin == i;
    return count;
}
