#include "console/data/top.h"

#include "common/clock.h"
#include "common/span.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sketch */

/* FNV-1a */
static uint32_t hash_of(const char *key, size_t length)
{
    uint32_t hash = 2166136261u;

    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)key[i]) * 16777619u;
    return hash;
}

static size_t kept_length(size_t length)
{
    return length < SKETCH_KEY_BYTES ? length : SKETCH_KEY_BYTES - 1;
}

static uint32_t find(const struct sketch *sketch, uint32_t hash, const struct sketch_item *item)
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

static void put(struct sketch *sketch, uint32_t at, uint16_t place)
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
        put(sketch, at, sketch->node[(at - 1) / 2].heap);
    for (;;) {
        uint32_t below = 2 * at + 1;

        if (below + 1 < sketch->used && rank_at(sketch, below + 1) < rank_at(sketch, below))
            below++;
        if (below >= sketch->used || rank_at(sketch, below) >= rank)
            break;
        put(sketch, at, sketch->node[below].heap);
        at = below;
    }
    put(sketch, at, place);
}

/* The index for a new key; SKETCH_KEYS if all others rank higher. */
static uint32_t place_for(struct sketch *sketch, enum sketch_order order,
                          const struct sketch_item *item)
{
    uint32_t place;

    if (sketch->used < SKETCH_KEYS) {
        sketch->entry[sketch->used] = (struct sketch_entry){0};
        put(sketch, sketch->used, (uint16_t)sketch->used);
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

void sketch_clear(struct sketch *sketch)
{
    sketch->used = 0;
    memset(sketch->bucket, 0, sizeof(sketch->bucket));
}

void sketch_add(struct sketch *sketch, enum sketch_order order, const struct sketch_item *item)
{
    uint32_t hash = hash_of(item->key, kept_length(item->length)), place = find(sketch, hash, item);
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

/* Tally */

/*
 * Sums by key, kept for a while so that a frequent key is formatted and looked up once for many
 * requests. A table with one place for each hash: a key that needs the place of another passes that
 * one on. Nothing is lost, and memory is bounded. Pure.
 */
enum { TALLY_PLACES = 1024, TALLY_KEY_BYTES = 204 };

struct tally_sum {
    uint64_t count, bytes, duration_ns, longest_ns;
};

struct tally_place {
    struct tally_sum sum; /* count 0: free */
    uint64_t hash;
    uint32_t length;
    char key[TALLY_KEY_BYTES];
};

/* A zeroed one is empty. */
struct tally {
    uint32_t used;
    uint16_t filled[TALLY_PLACES]; /* the used places, in any order */
    struct tally_place place[TALLY_PLACES];
};

/* Receives a key and its sum. */
typedef void tally_pass(void *context, struct span key, const struct tally_sum *sum);

#define ODD_A 0x9e3779b97f4a7c15u
#define ODD_B 0xc2b2ae3d27d4eb4fu

static uint64_t key_word(const char *from, size_t length)
{
    uint64_t word = 0;

    memcpy(&word, from, length < sizeof(word) ? length : sizeof(word));
    return word;
}

/* Two words a step, so that their products do not wait for each other. Only the speed depends on it. */
static uint64_t hash_words_of(const char *key, size_t length)
{
    uint64_t hash = length;

    for (; length >= 16; key += 16, length -= 16)
        hash = (hash << 7 | hash >> 57) ^ (key_word(key, 8) * ODD_A + key_word(key + 8, 8) * ODD_B);
    if (length > 8)
        hash ^= key_word(key + 8, length - 8) * ODD_B;
    if (length > 0)
        hash = (hash << 7 | hash >> 57) ^ key_word(key, length) * ODD_A;
    hash *= ODD_B;
    return hash ^ hash >> 32;
}

static struct span key_of(const struct tally_place *place)
{
    return (struct span){place->key, place->length};
}

/* Starts the sum of KEY. */
static void take_place(struct tally *tally, struct tally_place *place, struct span key,
                       uint64_t hash)
{
    if (place->sum.count == 0)
        tally->filled[tally->used++] = (uint16_t)(place - tally->place);
    place->sum = (struct tally_sum){.count = 0};
    place->hash = hash;
    place->length = (uint32_t)key.length;
    memcpy(place->key, key.start, key.length);
}

/* Adds SUM to that of KEY. Passes on what has no place: another key, or KEY if it is too long. */
static void tally_add(struct tally *tally, struct span key, const struct tally_sum *sum,
                      tally_pass *pass, void *context)
{
    uint64_t hash = hash_words_of(key.start, key.length);
    struct tally_place *place = &tally->place[hash % TALLY_PLACES];

    if (key.length > TALLY_KEY_BYTES) {
        pass(context, key, sum);
        return;
    }
    if (place->sum.count == 0 || place->hash != hash || !span_is(key_of(place), key)) {
        if (place->sum.count > 0)
            pass(context, key_of(place), &place->sum);
        take_place(tally, place, key, hash);
    }
    place->sum.count += sum->count;
    place->sum.bytes += sum->bytes;
    place->sum.duration_ns += sum->duration_ns;
    if (sum->longest_ns > place->sum.longest_ns)
        place->sum.longest_ns = sum->longest_ns;
}

/* Passes all keys on; the tally is then empty. */
static void tally_flush(struct tally *tally, tally_pass *pass, void *context)
{
    for (uint32_t i = 0; i < tally->used; i++) {
        struct tally_place *place = &tally->place[tally->filled[i]];

        pass(context, key_of(place), &place->sum);
        place->sum.count = 0;
    }
    tally->used = 0;
}

/* Top lists */

const char *const top_list_names[TOP_LISTS] = {"paths",  "clients", "agents",   "referers",
                                               "errors", "slowest", "protocols"};

struct pane {
    uint64_t number; /* time / TOP_PANE_S, plus 1; 0: never used */
    double seen, missed;
    struct sketch list[TOP_LISTS];
};

/*
 * The requests of one pane that its lists do not have yet: by the words of their records that have the
 * keys, from there by the keys of each list as received.
 */
struct tallies {
    struct pane *pane; /* NULL: none */
    struct tally whole;
    struct tally list[TOP_LISTS];
};

struct top {
    struct pane *pane[TOP_PANES]; /* allocated on first use; only what is used is touched */
    struct tallies *tallies;
    uint64_t since_ns; /* start of the known requests; 0: the first pane */
};

struct top *top_create(void)
{
    struct top *top = calloc(1, sizeof(*top));

    if (top == NULL)
        return NULL;
    top->tallies = calloc(1, sizeof(*top->tallies));
    if (top->tallies == NULL) {
        free(top);
        return NULL;
    }
    return top;
}

void top_destroy(struct top *top)
{
    if (top == NULL)
        return;
    for (size_t i = 0; i < TOP_PANES; i++)
        free(top->pane[i]);
    free(top->tallies);
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

/* The key of an error is the status and the path; that of a protocol, the version and TLS. */
enum { STATUS_BYTES = sizeof(uint16_t) };

/* Writes KEY of LIST, as received, to BUFFER as it is shown. */
static void format_key(enum top_list list, struct span key, char buffer[TAIL_REQUEST_BYTES])
{
    uint16_t status;
    int used;

    switch (list) {
    case TOP_CLIENTS:
        *client_address_put((const uint8_t *)key.start, buffer) = '\0';
        return;
    case TOP_PROTOCOLS:
        tail_protocol_text((uint8_t)key.start[0], (uint8_t)key.start[1], buffer);
        return;
    case TOP_ERRORS:
        memcpy(&status, key.start, STATUS_BYTES);
        used = snprintf(buffer, TAIL_REQUEST_BYTES, "%d ", (int)status);
        tail_readable(buffer + used, TAIL_REQUEST_BYTES - (size_t)used, key.start + STATUS_BYTES,
                      key.length - STATUS_BYTES);
        return;
    default:
        tail_readable(buffer, TAIL_REQUEST_BYTES, key.start, key.length);
    }
}

struct destination {
    struct pane *pane;
    enum top_list list;
};

/* Adds a sum to the lists that have such keys. */
static void count_sum(void *context, struct span key, const struct tally_sum *sum)
{
    const struct destination *to = context;
    char text[TAIL_REQUEST_BYTES];
    struct sketch_item item = {.key = text,
                               .count = (double)sum->count,
                               .bytes = (double)sum->bytes,
                               .duration_ns = (double)sum->duration_ns,
                               .longest_ns = (double)sum->longest_ns};

    format_key(to->list, key, text);
    item.length = strlen(text);
    if (item.length == 0 && to->list != TOP_PATHS)
        return;
    sketch_add(&to->pane->list[to->list], SKETCH_BY_COUNT, &item);
    if (to->list == TOP_PATHS)
        sketch_add(&to->pane->list[TOP_SLOWEST], SKETCH_BY_LONGEST, &item);
}

static void count_key(struct tallies *tallies, enum top_list list, struct span key,
                      const struct tally_sum *sum)
{
    struct destination to = {tallies->pane, list};

    tally_add(&tallies->list[list], key, sum, count_sum, &to);
}

static void count_error(struct tallies *tallies, uint16_t status, struct span path,
                        const struct tally_sum *sum)
{
    char key[STATUS_BYTES + TAIL_REQUEST_BYTES];

    path.length = path.length < TAIL_REQUEST_BYTES ? path.length : TAIL_REQUEST_BYTES;
    memcpy(key, &status, STATUS_BYTES);
    memcpy(key + STATUS_BYTES, path.start, path.length);
    count_key(tallies, TOP_ERRORS, (struct span){key, STATUS_BYTES + path.length}, sum);
}

/* Adds the requests of RECORD, of which there are SUM, to the tallies of the lists. */
static void count_record(struct tallies *tallies, const struct log_record *record,
                         const struct tally_sum *sum)
{
    const char protocol[] = {(char)record->protocol, (char)record->tls};
    struct span path = path_of(record->request_line);

    count_key(tallies, TOP_PATHS, path, sum);
    count_key(tallies, TOP_CLIENTS,
              (struct span){(const char *)record->address, sizeof(record->address)}, sum);
    if (record->agent.length > 0)
        count_key(tallies, TOP_AGENTS, record->agent, sum);
    if (record->referer.length > 0)
        count_key(tallies, TOP_REFERERS, record->referer, sum);
    count_key(tallies, TOP_PROTOCOLS, (struct span){protocol, sizeof(protocol)}, sum);
    if (record->status >= 400)
        count_error(tallies, record->status, path, sum);
}

/* The client, what was negotiated and the texts are in the words from here on. */
enum { KEY_WORD = 4, KEYS_BYTES = TALLY_KEY_BYTES / 8 * 8 };

/* Passes on requests that were added up because of the same words, all below status 400. */
static void count_whole(void *context, struct span key, const struct tally_sum *sum)
{
    uint64_t words[KEY_WORD + KEYS_BYTES / 8] = {[0] = (KEY_WORD * 8 + key.length) / 8 |
                                                       (uint64_t)LOG_RECORD_VERSION << 32};
    struct log_record record;

    memcpy(&words[KEY_WORD], key.start, key.length);
    if (log_record_unpack(words, &record) == 0)
        count_record(context, &record, sum);
}

static void flush(struct tallies *tallies)
{
    tally_flush(&tallies->whole, count_whole, tallies);
    for (size_t i = 0; i < TOP_LISTS && tallies->pane != NULL; i++) {
        struct destination to = {tallies->pane, (enum top_list)i};

        tally_flush(&tallies->list[i], count_sum, &to);
    }
}

/* Makes PANE that of the tallies; false if TIME_NS is too old, or out of memory. */
static bool choose_pane(struct top *top, uint64_t time_ns)
{
    struct tallies *tallies = top->tallies;

    if (tallies->pane != NULL && tallies->pane->number == pane_number(time_ns))
        return true;
    flush(tallies); /* before its pane is used for another time */
    tallies->pane = pane_at(top, time_ns);
    return tallies->pane != NULL;
}

void top_add(struct top *top, const struct tail_record *record)
{
    const struct log_record *log = &record->log;
    const struct tally_sum sum = {1, log->body_bytes, log->duration_ns, log->duration_ns};
    struct span keys = {(const char *)&record->words[KEY_WORD],
                        (size_t)(log_ring_words(record->words[0]) - KEY_WORD) * 8};
    struct tallies *tallies = top->tallies;

    if (!choose_pane(top, log->time_ns))
        return;
    tallies->pane->seen++;
    if (log->status < 400 && keys.length <= KEYS_BYTES)
        tally_add(&tallies->whole, keys, &sum, count_whole, tallies);
    else
        count_record(tallies, log, &sum);
}

void top_miss(struct top *top, uint64_t time_ns, uint64_t count)
{
    struct pane *pane = count > 0 ? pane_at(top, time_ns) : NULL;

    if (pane != NULL)
        pane->missed += (double)count;
}

/* What a key that is absent from SKETCH may have counted there at most. */
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

/* Length of the window of PANES panes that ends at END_NS, s. */
static uint64_t window_of(const struct top *top, uint64_t end_ns, uint64_t panes)
{
    uint64_t window = (panes - 1) * TOP_PANE_S + end_ns / NS_PER_S % TOP_PANE_S + 1;
    uint64_t known = end_ns > top->since_ns ? (end_ns - top->since_ns) / NS_PER_S + 1 : 1;

    return window < known ? window : known;
}

int top_collect(const struct top *top, enum top_list list, uint64_t end_ns, int seconds,
                struct top_view *into)
{
    uint64_t last = pane_number(end_ns), first = pane_number(top->since_ns);
    uint64_t panes = (uint64_t)(seconds + TOP_PANE_S - 1) / TOP_PANE_S;
    double floors = 0;

    flush(top->tallies);
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
    return (int)window_of(top, end_ns, panes);
}

unsigned top_one_in(const struct top_view *view)
{
    return view->seen > 0 ? (unsigned)lround((view->seen + view->missed) / view->seen) : 1;
}
