#include "console/data/top.h"

#include "common/clock.h"
#include "common/span.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sketch */

/* A word at a time. */
static uint32_t hash_of_key(const char *key, size_t length)
{
    uint64_t hash = length, word;

    for (; length > 0;
         key += sizeof(word), length -= length < sizeof(word) ? length : sizeof(word)) {
        word = 0;
        memcpy(&word, key, length < sizeof(word) ? length : sizeof(word));
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 32;
    }
    return (uint32_t)hash;
}

static size_t kept_length(size_t length)
{
    return length < SKETCH_KEY_BYTES ? length : SKETCH_KEY_BYTES - 1;
}

static uint32_t find_key(const struct sketch *sketch, uint32_t hash, const struct sketch_item *item)
{
    size_t length = kept_length(item->length);

    for (uint32_t i = sketch->bucket[hash % SKETCH_BUCKETS]; i > 0; i = sketch->node[i - 1].next)
        if (sketch->node[i - 1].hash == hash &&
            memcmp(sketch->entry[i - 1].key, item->key, length) == 0 &&
            sketch->entry[i - 1].key[length] == '\0')
            return i - 1;
    return SKETCH_KEYS;
}

static void link_entry(struct sketch *sketch, uint32_t place, uint32_t hash)
{
    uint16_t *bucket = &sketch->bucket[hash % SKETCH_BUCKETS];

    sketch->node[place].hash = hash;
    sketch->node[place].next = *bucket;
    *bucket = (uint16_t)(place + 1);
}

static void unlink_entry(struct sketch *sketch, uint32_t place)
{
    uint16_t *link = &sketch->bucket[sketch->node[place].hash % SKETCH_BUCKETS];

    while (*link != place + 1)
        link = &sketch->node[*link - 1].next;
    *link = sketch->node[place].next;
}

static void put_in_heap(struct sketch *sketch, uint32_t at, uint16_t place)
{
    sketch->node[at].heap = place;
    sketch->node[place].at = (uint16_t)at;
}

static double rank_at(const struct sketch *sketch, uint32_t at)
{
    return sketch->node[sketch->node[at].heap].rank;
}

/* Restores the heap after the rank of PLACE has changed. */
static void settle(struct sketch *sketch, uint16_t place)
{
    uint32_t at = sketch->node[place].at;
    double rank = sketch->node[place].rank;

    for (; at > 0 && rank < rank_at(sketch, (at - 1) / 2); at = (at - 1) / 2)
        put_in_heap(sketch, at, sketch->node[(at - 1) / 2].heap);
    for (;;) {
        uint32_t below = 2 * at + 1;

        if (below + 1 < sketch->used && rank_at(sketch, below + 1) < rank_at(sketch, below))
            below++;
        if (below >= sketch->used || rank_at(sketch, below) >= rank)
            break;
        put_in_heap(sketch, at, sketch->node[below].heap);
        at = below;
    }
    put_in_heap(sketch, at, place);
}

/* The index for a new key; SKETCH_KEYS if all others rank higher. */
static uint32_t place_for(struct sketch *sketch, enum sketch_order order,
                          const struct sketch_item *item)
{
    uint32_t place;

    if (sketch->used < SKETCH_KEYS) {
        sketch->entry[sketch->used] = (struct sketch_entry){0};
        put_in_heap(sketch, sketch->used, (uint16_t)sketch->used);
        return sketch->used++;
    }
    place = sketch->node[0].heap;
    if (order == SKETCH_BY_LONGEST && item->longest_ns <= sketch->node[place].rank)
        return SKETCH_KEYS;
    unlink_entry(sketch, place);
    sketch->entry[place] = (struct sketch_entry){
        .count = order == SKETCH_BY_COUNT ? sketch->entry[place].count : 0,
        .error = order == SKETCH_BY_COUNT ? sketch->entry[place].count : 0,
    };
    return place;
}

/*
 * Makes a sketch empty; so is a zeroed one. The keys of an empty sketch take no memory that was not
 * touched before.
 */
static void sketch_clear(struct sketch *sketch)
{
    sketch->used = 0;
    memset(sketch->bucket, 0, sizeof(sketch->bucket));
}

void sketch_add(struct sketch *sketch, enum sketch_order order, const struct sketch_item *item)
{
    uint32_t hash = hash_of_key(item->key, kept_length(item->length)),
             place = find_key(sketch, hash, item);
    struct sketch_entry *entry;

    if (place == SKETCH_KEYS) {
        place = place_for(sketch, order, item);
        if (place == SKETCH_KEYS)
            return;
        link_entry(sketch, place, hash);
        memcpy(sketch->entry[place].key, item->key, kept_length(item->length));
    }
    entry = &sketch->entry[place];
    entry->count += item->count;
    entry->error += item->error;
    entry->floor += item->floor;
    entry->bytes += item->bytes;
    entry->duration_ns += item->duration_ns;
    if (item->longest_ns > entry->longest_ns)
        entry->longest_ns = item->longest_ns;
    sketch->node[place].rank = order == SKETCH_BY_COUNT ? entry->count : entry->longest_ns;
    settle(sketch, (uint16_t)place);
}

static int more_counted(const void *a, const void *b)
{
    const struct sketch_entry *left = a, *right = b;

    double certain = left->count - left->error, other = right->count - right->error;

    if (certain != other)
        return certain > other ? -1 : 1;
    if (left->count != right->count)
        return left->count > right->count ? -1 : 1;
    return strcmp(left->key, right->key);
}

static int longer(const void *a, const void *b)
{
    const struct sketch_entry *left = a, *right = b;

    if (left->longest_ns != right->longest_ns)
        return left->longest_ns > right->longest_ns ? -1 : 1;
    return strcmp(left->key, right->key);
}

void sketch_sort(struct sketch *sketch, enum sketch_order order)
{
    qsort(sketch->entry, sketch->used, sizeof(*sketch->entry),
          order == SKETCH_BY_COUNT ? more_counted : longer);
}

/* Top lists */

const char *const top_list_names[TOP_LISTS] = {"paths",  "clients", "agents",   "referers",
                                               "errors", "slowest", "protocols"};

struct pane {
    uint64_t number; /* time / TOP_PANE_S, plus 1; 0: never used */
    double seen, missed;
    struct sketch list[TOP_LISTS];
};

struct top {
    struct pane *pane[TOP_PANES]; /* allocated on first use; only what is used is touched */
    uint64_t since_ns;            /* start of the known requests; 0: the first pane */
};

struct top *top_create(void)
{
    return calloc(1, sizeof(struct top));
}

void top_destroy(struct top *top)
{
    if (top == NULL)
        return;
    for (size_t i = 0; i < TOP_PANES; i++)
        free(top->pane[i]);
    free(top);
}

static uint64_t pane_number(uint64_t time_ns)
{
    return time_ns / (TOP_PANE_S * NS_PER_S) + 1;
}

static void pane_clear(struct pane *pane, uint64_t number)
{
    pane->number = number;
    pane->seen = pane->missed = 0;
    for (size_t i = 0; i < TOP_LISTS; i++)
        sketch_clear(&pane->list[i]);
}

/* The pane of TIME_NS, cleared if it was reused. NULL: too old, or out of memory. */
static struct pane *pane_at(struct top *top, uint64_t time_ns)
{
    uint64_t number = pane_number(time_ns);
    struct pane **place = &top->pane[number % TOP_PANES];

    if (*place == NULL) {
        *place = malloc(sizeof(**place));
        if (*place == NULL)
            return NULL;
        pane_clear(*place, number);
    }
    if ((*place)->number > number)
        return NULL;
    if ((*place)->number < number)
        pane_clear(*place, number);
    return *place;
}

/* The path of a request line: the second word, without the query. */
static struct span path_of(struct span request)
{
    const char *start = memchr(request.start, ' ', request.length), *end;

    if (start != NULL)
        request = (struct span){start + 1, request.length - (size_t)(start + 1 - request.start)};
    end = memchr(request.start, ' ', request.length);
    if (end != NULL)
        request.length = (size_t)(end - request.start);
    end = memchr(request.start, '?', request.length);
    if (end != NULL)
        request.length = (size_t)(end - request.start);
    return request;
}

/* Adds a request to the count of KEY, its readable form; "" counts as a path only. */
static void count_key(struct pane *pane, enum top_list list, const char *key,
                      const struct log_record *record)
{
    struct sketch_item item = {.key = key,
                               .length = strlen(key),
                               .count = 1,
                               .bytes = (double)record->body_bytes,
                               .duration_ns = (double)record->duration_ns,
                               .longest_ns = (double)record->duration_ns};

    if (item.length > 0 || list == TOP_PATHS)
        sketch_add(&pane->list[list], list == TOP_SLOWEST ? SKETCH_BY_LONGEST : SKETCH_BY_COUNT,
                   &item);
}

void top_add(struct top *top, const struct tail_record *record)
{
    const struct log_record *log = &record->log;
    struct pane *pane = pane_at(top, log->time_ns);
    struct span path = path_of(log->request_line);
    char text[TAIL_REQUEST_BYTES], error[TAIL_REQUEST_BYTES + 8];

    if (pane == NULL)
        return;
    pane->seen++;
    tail_readable(text, sizeof(text), path.start, path.length);
    count_key(pane, TOP_PATHS, text, log);
    count_key(pane, TOP_SLOWEST, text, log);
    if (log->status >= 400) {
        snprintf(error, sizeof(error), "%d %s", (int)log->status, text);
        count_key(pane, TOP_ERRORS, error, log);
    }
    *client_address_put(log->address, text) = '\0';
    count_key(pane, TOP_CLIENTS, text, log);
    tail_readable(text, sizeof(text), log->agent.start, log->agent.length);
    count_key(pane, TOP_AGENTS, text, log);
    tail_readable(text, sizeof(text), log->referer.start, log->referer.length);
    count_key(pane, TOP_REFERERS, text, log);
    count_key(pane, TOP_PROTOCOLS, tail_protocol_text(log->protocol, log->tls, text), log);
}

void top_miss(struct top *top, uint64_t time_ns, uint64_t count)
{
    struct pane *pane = count > 0 ? pane_at(top, time_ns) : NULL;

    if (pane != NULL)
        pane->missed += (double)count;
}

/* The highest count that a key which is absent from SKETCH can have. */
static double floor_of(const struct sketch *sketch)
{
    double lowest = INFINITY;

    if (sketch->used < SKETCH_KEYS)
        return 0;
    for (uint32_t i = 0; i < sketch->used; i++)
        lowest = fmin(lowest, sketch->entry[i].count);
    return lowest;
}

/* Adds a pane; returns the floor of its sketch. */
static double collect_pane(struct top_view *into, enum top_list list, const struct pane *pane)
{
    const struct sketch *from = &pane->list[list];
    enum sketch_order order = list == TOP_SLOWEST ? SKETCH_BY_LONGEST : SKETCH_BY_COUNT;
    double scale = pane->seen > 0 ? (pane->seen + pane->missed) / pane->seen : 1;
    double floor = order == SKETCH_BY_COUNT ? floor_of(from) * scale : 0;

    for (uint32_t i = 0; i < from->used; i++) {
        const struct sketch_entry *entry = &from->entry[i];
        struct sketch_item item = {.key = entry->key,
                                   .length = strlen(entry->key),
                                   .count = entry->count * scale,
                                   .error = entry->error * scale,
                                   .bytes = entry->bytes * scale,
                                   .duration_ns = entry->duration_ns * scale,
                                   .longest_ns = entry->longest_ns,
                                   .floor = floor};

        sketch_add(&into->sketch, order, &item);
    }
    into->seen += pane->seen;
    into->missed += pane->missed;
    return floor;
}

/* Adds to each entry what the panes without its key may have counted. */
static void add_floors(struct sketch *sketch, double floors)
{
    for (uint32_t i = 0; i < sketch->used; i++) {
        double absent = floors - sketch->entry[i].floor;

        if (absent < 0.5) /* rounding */
            continue;
        sketch->entry[i].count += absent;
        sketch->entry[i].error += absent;
    }
}

void top_set_known_since(struct top *top, uint64_t time_ns)
{
    top->since_ns = time_ns > top->since_ns ? time_ns : top->since_ns;
}

uint64_t top_known_since(const struct top *top)
{
    return top->since_ns;
}

int top_collect(const struct top *top, enum top_list list, uint64_t end_ns, int seconds,
                struct top_view *into)
{
    uint64_t last = pane_number(end_ns), first = pane_number(top->since_ns);
    uint64_t panes = (uint64_t)(seconds + TOP_PANE_S - 1) / TOP_PANE_S, window, known; /* s */
    double floors = 0;

    into->seen = into->missed = 0;
    sketch_clear(&into->sketch);
    panes = panes < 1 ? 1 : panes > TOP_PANES - 1 ? TOP_PANES - 1 : panes;
    for (uint64_t i = 0; i < panes && i < last && last - i >= first; i++) {
        const struct pane *pane = top->pane[(last - i) % TOP_PANES];

        if (pane != NULL && pane->number == last - i)
            floors += collect_pane(into, list, pane);
    }
    add_floors(&into->sketch, floors);
    sketch_sort(&into->sketch, list == TOP_SLOWEST ? SKETCH_BY_LONGEST : SKETCH_BY_COUNT);
    window = (panes - 1) * TOP_PANE_S + end_ns / NS_PER_S % TOP_PANE_S + 1;
    known = end_ns > top->since_ns ? (end_ns - top->since_ns) / NS_PER_S + 1 : 1;
    return (int)(window < known ? window : known);
}

unsigned top_one_in(const struct top_view *view)
{
    return view->seen > 0 ? (unsigned)lround((view->seen + view->missed) / view->seen) : 1;
}
