#include "loadgen/plan/request_plan.h"

#include "loadgen/plan/arrivals.h"

#include <stdlib.h>
#include <string.h>

static int fail(char *why, size_t size, const char *text)
{
    snprintf(why, size, "%s", text);
    return -1;
}

/* ---- Distinct requests ---- */

/* FNV-1a */
static uint64_t hash(const char *method, const char *url)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325);

    for (; *method != '\0'; method++)
        sum = (sum ^ (unsigned char)*method) * UINT64_C(0x100000001b3);
    for (; *url != '\0'; url++)
        sum = (sum ^ (unsigned char)*url) * UINT64_C(0x100000001b3);
    return sum;
}

/* The place of a request in the index, or the empty place where it would be inserted. */
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
        *find_place(request_plan, requests[i].method, requests[i].target.text) = (uint32_t)i + 1;
    return true;
}

/* Returns the number of the request, adding it if it is new; -1 with WHY. Takes TARGET over. */
static int64_t intern(struct request_plan *request_plan, const char *method, struct target *target,
                      char *why, size_t size)
{
    uint32_t *place;
    char *own_method;

    if (request_plan->count == request_plan->capacity && !grow(request_plan))
        return fail(why, size, "out of memory");
    place = find_place(request_plan, method, target->text);
    if (*place != 0) {
        target_free(target);
        return *place - 1;
    }
    if (request_plan->count == REQUEST_PLAN_REQUESTS_MAX)
        return fail(why, size, "more than 200000 distinct requests; split the file");
    own_method = strdup(method);
    if (own_method == NULL)
        return fail(why, size, "out of memory");
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

int request_plan_add(struct request_plan *request_plan, const char *method, const char *url,
                     struct request_entry entry, char *why, size_t size)
{
    const struct target *base = request_plan->count > 0 ? &request_plan->requests[0].target : NULL;
    struct target target;
    int64_t number;

    if (target_parse(&target, base, url, why, size) != 0) {
        target_free(&target);
        return 1;
    }
    number = intern(request_plan, method != NULL ? method : request_plan->plan->method, &target,
                    why, size);
    if (number < 0) {
        target_free(&target);
        return -1;
    }
    entry.request = (uint32_t)number;
    if (request_plan->entry_count >= REQUEST_PLAN_ENTRIES_MAX || !add_entry(request_plan, entry))
        return fail(why, size, "out of memory");
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
    curl_slist_free_all(request_plan->connect_to);
    *request_plan = (struct request_plan){0};
}

/* ---- During the run ---- */

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
