#include "loadgen/plan/request_plan.h"

#include "loadgen/plan/arrivals.h"
#include "loadgen/plan/input.h"
#include "loadgen/plan/internal.h"
#include "loadgen/plan/message.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fail_request_plan(char *why, size_t size, const char *text)
{
    snprintf(why, size, "%s", text);
    return -1;
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

static uint64_t hash_request(const struct request *request)
{
    uint64_t sum = hash_text(UINT64_C(0xcbf29ce484222325), request->method);

    sum = hash_text(sum, request->target.text);
    for (const struct curl_slist *field = request->own_fields; field; field = field->next)
        sum = hash_text(sum, field->data);
    for (size_t i = 0; i < request->body_length; i++)
        sum = (sum ^ (unsigned char)request->body[i]) * UINT64_C(0x100000001b3);
    return sum;
}

static bool same_request(const struct request *one, const struct request *other)
{
    const struct curl_slist *a = one->own_fields, *b = other->own_fields;

    if (strcmp(one->method, other->method) != 0 ||
        strcmp(one->target.text, other->target.text) != 0)
        return false;
    for (; a != NULL && b != NULL && strcmp(a->data, b->data) == 0; a = a->next)
        b = b->next;
    if (a != NULL || b != NULL)
        return false;
    return one->body == other->body ||
           (one->body != NULL && other->body != NULL && one->body_length == other->body_length &&
            memcmp(one->body, other->body, one->body_length) == 0);
}

/* The place of a request in the index, or the empty place where it would be inserted. */
static uint32_t *find_place(const struct request_plan *request_plan, const struct request *request)
{
    size_t at = hash_request(request) % request_plan->index_size;

    while (request_plan->index[at] != 0 &&
           !same_request(&request_plan->requests[request_plan->index[at] - 1], request))
        at = (at + 1) % request_plan->index_size;
    return &request_plan->index[at];
}

/* The index is never more than half full. */
static bool grow_index(struct request_plan *request_plan)
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

void request_plan_release(const struct request_plan *request_plan, struct request *request)
{
    target_free(&request->target);
    free((void *)(uintptr_t)request->method);
    if (request->own_fields != NULL || request->owns_fields)
        curl_slist_free_all(request->fields);
    for (size_t i = 0; i < REQUEST_BODY_KINDS; i++)
        curl_slist_free_all(request->shared_fields[i]);
    curl_slist_free_all(request->own_fields);
    if (request->body != request_plan->body)
        free(request->body);
    free(request->message);
    *request = (struct request){0};
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

/*
 * Returns the number of the request, adding it if it is new; -1 with WHY. Takes REQUEST over if it
 * is new.
 */
static int64_t intern(struct request_plan *request_plan, struct request *request, char *why,
                      size_t size)
{
    uint32_t *place;

    if (request_plan->count == request_plan->capacity && !grow_index(request_plan))
        return fail_request_plan(why, size, "out of memory");
    place = find_place(request_plan, request);
    if (*place != 0)
        return *place - 1;
    if (request_plan->count == REQUEST_PLAN_REQUESTS_MAX)
        return fail_request_plan(why, size, "more than 200000 distinct requests; split the file");
    request_plan->requests[request_plan->count] = *request;
    *request = (struct request){0};
    *place = (uint32_t)++request_plan->count;
    return *place - 1;
}

static bool append_entry(struct request_plan *request_plan, struct request_entry entry)
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

/* A copy of TEXT, which may be NULL. Sets *good to false if out of memory. */
static char *copy_text(const char *text, bool *good)
{
    char *copy = text != NULL ? strdup(text) : NULL;

    *good = *good && (text == NULL || copy != NULL);
    return copy;
}

static bool add_template(struct request_plan *request_plan, const struct request_parts *parts)
{
    struct request_template template = {.is_path = parts->path != NULL};
    bool good = true;

    if (request_plan->template_count == request_plan->template_capacity) {
        size_t capacity =
            request_plan->template_capacity > 0 ? 2 * request_plan->template_capacity : 16;
        struct request_template *grown =
            realloc(request_plan->templates, capacity * sizeof(*grown));

        if (grown == NULL)
            return false;
        request_plan->templates = grown;
        request_plan->template_capacity = capacity;
    }
    template.method = copy_text(parts->method, &good);
    template.url = copy_text(parts->path != NULL ? parts->path : parts->url, &good);
    for (const struct curl_slist *field = parts->fields; good && field; field = field->next)
        good = string_list_append(&template.fields, field->data);
    template.body = parts->body != NULL ? malloc(parts->body_length + 1) : NULL;
    template.body_length = parts->body_length;
    if (template.body != NULL)
        memcpy(template.body, parts->body, parts->body_length);
    if (good && (parts->body == NULL || template.body != NULL))
        request_plan->templates[request_plan->template_count++] = template;
    else
        request_template_free(&template);
    return good && (parts->body == NULL || template.body != NULL);
}

int64_t request_plan_add_request(struct request_plan *request_plan,
                                 const struct request_parts *parts, char *why, size_t size)
{
    struct request request = {0};
    int64_t number = -2;

    if (parse_target(request_plan, parts, &request.target, why, size) == 0)
        number = copy_parts(request_plan, parts, &request)
                     ? intern(request_plan, &request, why, size)
                     : fail_request_plan(why, size, "out of memory");
    request_plan_release(request_plan, &request);
    return number;
}

int request_plan_add(struct request_plan *request_plan, const struct request_parts *parts,
                     struct request_entry entry, char *why, size_t size)
{
    int64_t number = (int64_t)request_plan->template_count;

    if (!request_plan->makes_templates)
        number = request_plan_add_request(request_plan, parts, why, size);
    else if (!add_template(request_plan, parts))
        number = fail_request_plan(why, size, "out of memory");
    if (number < 0)
        return number == -2 ? 1 : -1;
    entry.request = (uint32_t)number;
    if (request_plan->entry_count >= REQUEST_PLAN_ENTRIES_MAX || !append_entry(request_plan, entry))
        return fail_request_plan(why, size, "out of memory");
    return 0;
}

int request_plan_build(const struct request_plan *request_plan, const struct request_parts *parts,
                       struct request *request, char *why, size_t size)
{
    if (parse_target(request_plan, parts, &request->target, why, size) != 0)
        return -1;
    if (!copy_parts(request_plan, parts, request))
        return fail_request_plan(why, size, "out of memory");
    for (uint32_t i = 0; i < request_plan->count; i++) {
        const struct request *other = &request_plan->requests[i];

        if (other->origin != i || !target_same_origin(&other->target, &request->target))
            continue;
        request->origin = i;
        request->addresses = other->addresses;
        return 0;
    }
    snprintf(why, size, "'%s' is on another server: name it as a further URL on the command line",
             request->target.text);
    return -1;
}

void request_plan_free(struct request_plan *request_plan)
{
    for (size_t i = 0; i < request_plan->count; i++)
        request_plan_release(request_plan, &request_plan->requests[i]);
    for (size_t i = 0; i < request_plan->template_count; i++)
        request_template_free(&request_plan->templates[i]);
    free(request_plan->templates);
    scenario_set_free(&request_plan->scenarios);
    free(request_plan->requests);
    free(request_plan->index);
    free(request_plan->entries);
    free(request_plan->up_to);
    for (size_t i = 0; i < request_plan->page_count; i++)
        free(request_plan->pages[i].name);
    free(request_plan->pages);
    free(request_plan->causes);
    free(request_plan->body);
    curl_slist_free_all(request_plan->connect_to);
    *request_plan = (struct request_plan){0};
}

/* ---- During the run ---- */

static uint64_t take_number(struct request_plan *request_plan)
{
    return atomic_fetch_add_explicit(&request_plan->cursor, 1, memory_order_relaxed);
}

/* The same for all threads, so that they agree on the row of a pass. */
static uint64_t scatter(const struct request_plan *request_plan, uint64_t number)
{
    uint64_t state = random_begin(request_plan->plan->seed, number);

    return random_next(&state);
}

/* The entries of pass NUMBER over the list: those of one row; NULL: no row is left. */
static const struct request_entry *pass_of(const struct request_plan *request_plan, uint64_t number)
{
    size_t rows = request_plan->entry_count / request_plan->pass_length;

    if (number >= rows && request_plan->plan->rows == PLAN_ROWS_ONCE)
        return NULL;
    if (request_plan->plan->rows == PLAN_ROWS_RANDOM)
        number = scatter(request_plan, number);
    return &request_plan->entries[number % rows * request_plan->pass_length];
}

/* A random position in a pass. */
static size_t random_position(const struct request_plan *request_plan, uint64_t *random)
{
    size_t low = 0, high = request_plan->pass_length - 1;
    double chance;

    if (request_plan->up_to == NULL)
        return random_next(random) % request_plan->pass_length;
    chance = random_unit(random);
    while (low < high) {
        size_t middle = (low + high) / 2;

        if (request_plan->up_to[middle] > chance)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

const struct request_entry *request_plan_next(struct request_plan *request_plan, size_t *position,
                                              uint64_t *random)
{
    const struct plan *plan = request_plan->plan;
    size_t length = request_plan->pass_length;
    const struct request_entry *pass;
    uint64_t number;

    /* Continue the pass of the slot, or begin its next one. */
    if (plan->order == PLAN_ORDER_EACH) {
        pass = &request_plan->entries[*position];
        if (*position % length == 0)
            pass = pass_of(request_plan, take_number(request_plan));
        if (pass != NULL)
            *position = (size_t)(pass - request_plan->entries) + 1;
        return pass;
    }
    if (request_plan->entry_count == 1 && plan->rows != PLAN_ROWS_ONCE)
        return request_plan->entries;
    number = take_number(request_plan);
    if (plan->order == PLAN_ORDER_RANDOM) {
        pass = pass_of(request_plan, number);
        return pass != NULL ? &pass[random_position(request_plan, random)] : NULL;
    }
    pass = pass_of(request_plan, number / length);
    return pass != NULL ? &pass[number % length] : NULL;
}

bool request_plan_next_scenario(struct request_plan *request_plan, struct scenario_start *start)
{
    const struct scenario_set *set = &request_plan->scenarios;
    uint64_t number = take_number(request_plan);
    size_t rows = set->table.rows;

    *start = (struct scenario_start){.scenario = set->order[number % set->order_length]};
    if (rows == 0)
        return true;
    if (number >= rows && request_plan->plan->rows == PLAN_ROWS_ONCE)
        return false;
    if (request_plan->plan->rows == PLAN_ROWS_RANDOM)
        number = scatter(request_plan, number);
    start->table_row = number % rows;
    return true;
}

const struct request_entry *request_plan_take_entry(struct request_plan *request_plan)
{
    uint64_t at = atomic_fetch_add_explicit(&request_plan->cursor, 1, memory_order_relaxed);

    return at < request_plan->entry_count ? &request_plan->entries[at] : NULL;
}

uint64_t request_plan_limit(const struct request_plan *request_plan)
{
    const struct plan *plan = request_plan->plan;

    if (request_plan->scenarios.count > 0 ||
        (plan->replay_file == NULL && plan->rows != PLAN_ROWS_ONCE))
        return 0;
    return plan->order == PLAN_ORDER_RANDOM ? request_plan->entry_count / request_plan->pass_length
                                            : request_plan->entry_count;
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

/* ---- Before the run ---- */

static int read_plan_body(struct request_plan *request_plan, char *why, size_t size)
{
    const struct plan *plan = request_plan->plan;

    if (plan->body_file != NULL) {
        if (input_read(plan->body_file, &request_plan->body, &request_plan->body_length))
            return 0;
        snprintf(why, size, "cannot read body file '%s': %s", plan->body_file, strerror(errno));
        return -1;
    }
    if (plan->body == NULL)
        return 0;
    request_plan->body = strdup(plan->body);
    request_plan->body_length = strlen(plan->body);
    return request_plan->body != NULL ? 0 : fail_request_plan(why, size, "out of memory");
}

static int read_request_source(struct request_plan *request_plan, const char *file, char *why,
                               size_t size)
{
    const struct plan *plan = request_plan->plan;
    int result;

    request_plan->entry_count = 0;
    request_plan->makes_templates = plan->csv_file != NULL;
    result = plan->har_file != NULL
                 ? har_file_read(request_plan, file, plan->think_recorded, why, size)
                 : request_file_read(request_plan, file, plan->replay_file != NULL, why, size);
    if (result != 0)
        return -1;
    if (request_plan->entry_count > 0)
        return 0;
    snprintf(why, size, "'%s' contains no valid request", file);
    return -1;
}

/* The URLs of the command line are only the base of paths, and the servers that steps may name. */
static int read_plan_scenarios(struct request_plan *request_plan, char *why, size_t size)
{
    const struct plan *plan = request_plan->plan;
    struct scenario_set *set = &request_plan->scenarios;

    request_plan->pass_length = request_plan->entry_count;
    if (plan->csv_file != NULL && csv_file_read(&set->table, plan->csv_file, why, size) != 0)
        return -1;
    if (scenario_file_read(set, plan, why, size) != 0)
        return -1;
    return scenario_requests_add(request_plan, why, size);
}

/* If there is a file, the URL of the command line is only the base of the paths in the file. */
static int add_urls(struct request_plan *request_plan, char *why, size_t size)
{
    const struct plan *plan = request_plan->plan;
    const char *file = plan->har_file != NULL      ? plan->har_file
                       : plan->replay_file != NULL ? plan->replay_file
                                                   : plan->urls_file; /* NULL: none */

    request_plan->makes_templates =
        plan->csv_file != NULL && file == NULL && plan->scenario_file == NULL;
    for (size_t i = 0; i < plan->url_count; i++)
        if (request_plan_add(request_plan, &(struct request_parts){.url = plan->urls[i]},
                             (struct request_entry){0}, why, size) != 0)
            return -1;
    if (plan->scenario_file != NULL)
        return read_plan_scenarios(request_plan, why, size);
    if (file != NULL && read_request_source(request_plan, file, why, size) != 0)
        return -1;
    if (plan->csv_file != NULL)
        return expansion_make(request_plan, plan->csv_file, why, size);
    request_plan->pass_length = request_plan->entry_count;
    return 0;
}

/* Zipf's law: the entry of rank k, from 1, has a probability in proportion to 1 / k^S. */
static int rank_entries(struct request_plan *request_plan, char *why, size_t size)
{
    size_t count = request_plan->pass_length;
    double sum = 0;

    if (request_plan->plan->zipf == 0 || count == 0)
        return 0;
    request_plan->up_to = calloc(count, sizeof(*request_plan->up_to));
    if (request_plan->up_to == NULL)
        return fail_request_plan(why, size, "out of memory");
    for (size_t i = 0; i < count; i++)
        request_plan->up_to[i] = sum += pow((double)i + 1, -request_plan->plan->zipf);
    for (size_t i = 0; i < count; i++)
        request_plan->up_to[i] /= sum;
    return 0;
}

/* Finds the origin of each request, makes its message, and sets what applies to all. */
static int complete_requests(struct request_plan *request_plan, char *why, size_t size)
{
    const struct plan *plan = request_plan->plan;
    bool good;

    for (uint32_t i = 0; i < request_plan->count; i++) {
        struct request *requests = request_plan->requests;
        uint32_t origin = 0;

        while (origin < i && (requests[origin].origin != origin ||
                              !target_same_origin(&requests[origin].target, &requests[i].target)))
            origin++;
        requests[i].origin = origin;
    }
    good = message_make_all(request_plan);
    for (size_t i = 0; good && i < plan->connect_to_count; i++)
        good = string_list_append(&request_plan->connect_to, plan->connect_to[i]);
    return good ? 0 : fail_request_plan(why, size, "out of memory");
}

/* Checks a file before the run: libcurl would report the error once per connection. */
static int check_readable(const char *option, const char *file, char *why, size_t size)
{
    if (file == NULL || access(file, R_OK) == 0)
        return 0;
    snprintf(why, size, "%s: cannot read '%s': %s", option, file, strerror(errno));
    return -1;
}

/*
 * libcurl 7.88 sends the HTTP/2 preface again when it reuses a connection without TLS, which the
 * server closes (https://github.com/curl/curl/pull/10643).
 */
static int check_http2(const struct request_plan *request_plan, char *why, size_t size)
{
    const curl_version_info_data *libcurl = curl_version_info(CURLVERSION_NOW);
    bool broken = libcurl->version_num >= 0x075800 && libcurl->version_num < 0x080000;

    if (!broken || request_plan->plan->http != PLAN_HTTP_2 || !request_plan->plan->keepalive ||
        request_plan->requests[0].target.tls || request_plan->plan->engine == PLAN_ENGINE_RAW)
        return 0;
    snprintf(why, size,
             "--http2: libcurl %s cannot reuse HTTP/2 connections without TLS; use --engine raw, "
             "https:// or --no-keepalive",
             libcurl->version);
    return -1;
}

/* The raw engine multiplexes requests to one origin: each of its HTTP/2 connections has one. */
static int check_origins(const struct request_plan *request_plan, char *why, size_t size)
{
    const struct plan *plan = request_plan->plan;

    if (plan->http != PLAN_HTTP_2 || plan->engine != PLAN_ENGINE_RAW ||
        request_plan_count_origins(request_plan) <= 1)
        return 0;
    return fail_request_plan(
        why, size,
        "--http2 with --engine raw sends to one server only: its connections do not "
        "change their server; use --engine curl");
}

int request_plan_prepare(struct request_plan *request_plan, const struct plan *plan, char *why,
                         size_t size)
{
    *request_plan = (struct request_plan){.plan = plan};
    if (check_readable("--cacert", plan->ca_file, why, size) != 0 ||
        check_readable("--cert", plan->certificate, why, size) != 0 ||
        check_readable("--key", plan->key, why, size) != 0 ||
        read_plan_body(request_plan, why, size) != 0 || add_urls(request_plan, why, size) != 0 ||
        rank_entries(request_plan, why, size) != 0 || check_http2(request_plan, why, size) != 0 ||
        complete_requests(request_plan, why, size) != 0)
        return -1;
    return check_origins(request_plan, why, size);
}

int request_plan_resolve(struct request_plan *request_plan, char *why, size_t size)
{
    if (request_plan->plan->unix_socket != NULL || request_plan->plan->proxy != NULL)
        return 0;
    for (uint32_t i = 0; i < request_plan->count; i++) {
        struct request *request = &request_plan->requests[i];

        if (request->origin == i && request_plan->plan->connect_to_count == 0 &&
            request->target.addresses == NULL &&
            target_resolve(&request->target, request_plan->plan->family, why, size) != 0)
            return -1;
        request->addresses = request_plan->requests[request->origin].target.addresses;
    }
    return 0;
}
