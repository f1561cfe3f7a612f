#include "console/data/lists.h"

#include "common/client_address.h"
#include "common/clock.h"
#include "common/escape.h"
#include "common/event_ring.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct event_list {
    struct event_row kind[EVENT_LIST_KINDS]; /* unordered */
    size_t kinds;
    struct event_row single[EVENT_LIST_SINGLE]; /* a ring */
    uint64_t singles;
    uint64_t totals[LEVEL_COUNT];
    struct event_merge *merge;  /* NULL before event_list_attach() */
    struct event_merge *former; /* of the daemon before; NULL: none */
};

struct event_list *event_list_create(void)
{
    return calloc(1, sizeof(struct event_list));
}

void event_list_destroy(struct event_list *list)
{
    if (list != NULL) {
        event_merge_free(list->merge);
        event_merge_free(list->former);
    }
    free(list);
}

int event_list_attach(struct event_list *list, const struct segment_reader *reader)
{
    event_merge_free(list->former);
    list->former = list->merge;
    list->merge = event_merge_new(segment_event_rings(&reader->map), false);
    return list->merge != NULL ? 0 : -1;
}

/* True if the texts are equal except for the numbers. */
static bool alike(const char *a, const char *b)
{
    while (*a != '\0' && *b != '\0') {
        if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
            a += strspn(a, "0123456789");
            b += strspn(b, "0123456789");
        } else if (*a++ != *b++) {
            return false;
        }
    }
    return *a == *b;
}

static struct event_row *kind_of(struct event_list *list, const struct event_row *row)
{
    struct event_row *oldest = &list->kind[0];

    for (size_t i = 0; i < list->kinds; i++) {
        struct event_row *kind = &list->kind[i];

        if (kind->level == row->level && kind->role == row->role && alike(kind->text, row->text))
            return kind;
        if (kind->last_ns < oldest->last_ns)
            oldest = kind;
    }
    if (list->kinds < EVENT_LIST_KINDS)
        oldest = &list->kind[list->kinds++];
    *oldest = *row;
    oldest->count = 0;
    return oldest;
}

void event_list_add(struct event_list *list, const struct event_record *event)
{
    struct event_row row = {.first_ns = event->time_ns,
                            .last_ns = event->time_ns,
                            .count = 1,
                            .level = event->level < LEVEL_COUNT ? event->level : LEVEL_ERROR,
                            .role = event->role < ROLE_COUNT ? event->role : ROLE_MASTER,
                            .pid = event->pid};
    struct event_row *kind;

    escape_text(row.text, sizeof(row.text), event->text, strnlen(event->text, EVENT_TEXT_BYTES));
    kind = kind_of(list, &row);
    row.first_ns = kind->first_ns;
    row.count = kind->count + 1;
    *kind = row;
    row.first_ns = row.last_ns;
    row.count = 1;
    list->single[list->singles++ % EVENT_LIST_SINGLE] = row;
    list->totals[row.level]++;
}

static size_t take_events(struct event_list *list, struct event_merge *merge,
                          const struct segment_reader *reader, uint64_t wall_ns)
{
    struct event_record event;
    size_t taken = 0;

    if (merge == NULL)
        return 0;
    event_merge_begin(merge, &reader->map);
    for (; event_merge_take(merge, wall_ns, &event) >= 0; taken++)
        event_list_add(list, &event);
    return taken;
}

size_t event_list_read(struct event_list *list, const struct segment_reader *reader,
                       uint64_t wall_ns)
{
    return take_events(list, list->merge, reader, wall_ns);
}

size_t event_list_read_former(struct event_list *list, const struct segment_reader *former,
                              uint64_t wall_ns)
{
    return take_events(list, list->former, former, wall_ns);
}

static int newer_first(const void *a, const void *b)
{
    const struct event_row *left = *(const struct event_row *const *)a;
    const struct event_row *right = *(const struct event_row *const *)b;

    if (left->last_ns != right->last_ns)
        return left->last_ns > right->last_ns ? -1 : 1;
    return strcmp(left->text, right->text);
}

static bool wanted(const struct event_row *row, enum level min_level, uint64_t until_ns)
{
    return row->level >= (uint8_t)min_level && row->first_ns <= until_ns;
}

static size_t single_rows(const struct event_list *list, enum level min_level, uint64_t until_ns,
                          const struct event_row **rows, size_t room)
{
    uint64_t kept = list->singles < EVENT_LIST_SINGLE ? list->singles : EVENT_LIST_SINGLE;
    size_t count = 0;

    for (uint64_t back = 1; back <= kept && count < room; back++) {
        const struct event_row *row = &list->single[(list->singles - back) % EVENT_LIST_SINGLE];

        if (wanted(row, min_level, until_ns))
            rows[count++] = row;
    }
    return count;
}

size_t event_list_rows(const struct event_list *list, bool single, enum level min_level,
                       uint64_t until_ns, const struct event_row **rows, size_t room)
{
    const struct event_row *all[EVENT_LIST_KINDS];
    size_t count = 0;

    if (single)
        return single_rows(list, min_level, until_ns, rows, room);
    for (size_t i = 0; i < list->kinds; i++)
        if (wanted(&list->kind[i], min_level, until_ns))
            all[count++] = &list->kind[i];
    qsort(all, count, sizeof(*all), newer_first);
    count = count < room ? count : room;
    memcpy(rows, all, count * sizeof(*all));
    return count;
}

uint64_t event_list_total(const struct event_list *list, enum level level)
{
    return list->totals[level];
}

uint64_t event_list_missed(const struct event_list *list)
{
    return list->merge != NULL ? event_merge_lost(list->merge) : 0;
}

/* Cache list */

const char *const cache_order_names[CACHE_ORDERS] = {"hits", "size", "age", "path"};

int cache_list_add(struct cache_list *list, const struct cache_copy *entry, uint64_t hits)
{
    struct cache_row *row;

    if (list->count == list->room) {
        size_t room = list->room == 0 ? 256 : list->room * 2;
        struct cache_row *larger = realloc(list->rows, room * sizeof(*larger));

        if (larger == NULL)
            return -1;
        list->rows = larger;
        list->room = room;
    }
    row = &list->rows[list->count++];
    *row = (struct cache_row){.copies = 1,
                              .stale = entry->state == CACHE_SLOT_STALE,
                              .bytes = entry->bytes,
                              .hits = hits,
                              .stored_ns = entry->stored_ns};
    snprintf(row->path, sizeof(row->path), "%.*s", (int)strnlen(entry->path, sizeof(entry->path)),
             entry->path);
    escape_text(row->text, sizeof(row->text), row->path, strlen(row->path));
    list->bytes += entry->bytes;
    return 0;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct cache_row *)a)->path, ((const struct cache_row *)b)->path);
}

static void join_cache_rows(struct cache_row *into, const struct cache_row *from)
{
    into->copies += from->copies;
    into->stale += from->stale;
    into->bytes += from->bytes;
    into->hits += from->hits;
    if (from->stored_ns < into->stored_ns)
        into->stored_ns = from->stored_ns;
}

void cache_list_finish(struct cache_list *list)
{
    size_t kept = 0;

    if (list->count == 0)
        return;
    qsort(list->rows, list->count, sizeof(*list->rows), by_path);
    for (size_t i = 1; i < list->count; i++) {
        if (strcmp(list->rows[i].path, list->rows[kept].path) == 0)
            join_cache_rows(&list->rows[kept], &list->rows[i]);
        else if (++kept != i)
            list->rows[kept] = list->rows[i];
    }
    list->count = kept + 1;
}

static int take_cache_of(struct cache_list *list, const struct segment_reader *reader,
                         uint32_t worker)
{
    const struct segment_cache_entry *table = segment_cache(&reader->map, worker);
    struct cache_copy entry;

    for (uint32_t slot = 0; slot < reader->map.header.cache_entries; slot++) {
        /* the first check is cheaper than a copy */
        if (atomic_load_explicit(&table[slot].state, memory_order_relaxed) == CACHE_SLOT_FREE ||
            !segment_read_cache(&table[slot], &entry) || entry.state == CACHE_SLOT_FREE)
            continue;
        if (cache_list_add(list, &entry,
                           segment_cache_hits(&reader->map, worker, slot, entry.id)) != 0)
            return -1;
    }
    return 0;
}

int cache_list_take(struct cache_list *list, const struct segment_reader *reader, uint64_t wall_ns)
{
    int result = 0;

    list->count = 0;
    list->bytes = 0;
    for (uint32_t i = 0; i < segment_count(&reader->map, SEGMENT_CACHE) && result == 0; i++)
        if (segment_worker_reserved(&reader->map, i))
            result = take_cache_of(list, reader, i);
    if (result != 0)
        list->count = 0;
    cache_list_finish(list);
    list->taken_ns = wall_ns;
    return result;
}

void cache_list_release(struct cache_list *list)
{
    free(list->rows);
    *list = (struct cache_list){0};
}

struct sorting {
    enum cache_order order;
    bool reversed;
};

static int compare_descending(uint64_t left, uint64_t right)
{
    return left > right ? -1 : left < right;
}

static int compare_cache_rows(const void *a, const void *b, void *context)
{
    const struct cache_row *left = *(const struct cache_row *const *)a;
    const struct cache_row *right = *(const struct cache_row *const *)b;
    const struct sorting *sorting = context;
    int result = sorting->order == CACHE_BY_HITS   ? compare_descending(left->hits, right->hits)
                 : sorting->order == CACHE_BY_SIZE ? compare_descending(left->bytes, right->bytes)
                 : sorting->order == CACHE_BY_AGE
                     ? compare_descending(left->stored_ns, right->stored_ns)
                     : 0;

    if (result == 0)
        result = strcmp(left->path, right->path);
    return sorting->reversed ? -result : result;
}

void cache_list_sort(const struct cache_list *list, enum cache_order order, bool reversed,
                     const struct cache_row **rows)
{
    struct sorting sorting = {order, reversed};

    for (size_t i = 0; i < list->count; i++)
        rows[i] = &list->rows[i];
    if (list->count > 0)
        qsort_r(rows, list->count, sizeof(*rows), compare_cache_rows, &sorting);
}

/* Client list */

/* Reading the tables */

static int add_client_row(struct client_list *list, const struct client_row *row)
{
    if (list->count == list->room) {
        size_t room = list->room > 0 ? list->room * 2 : 256;
        struct client_row *larger = realloc(list->rows, room * sizeof(*larger));

        if (larger == NULL)
            return -1;
        list->rows = larger;
        list->room = room;
    }
    list->rows[list->count++] = *row;
    return 0;
}

/* Reads one worker's table. While a key changes, its count is 0. */
static int take_connections(struct client_list *list, const struct segment_client *table,
                            size_t entries)
{
    for (size_t i = 0; i < entries; i++) {
        struct client_row row = {.connections =
                                     atomic_load_explicit(&table[i].count, memory_order_acquire)};

        if (row.connections == 0)
            continue;
        row.key = atomic_load_explicit(&table[i].key, memory_order_acquire);
        if (row.key != 0 && add_client_row(list, &row) != 0)
            return -1;
    }
    return 0;
}

static int take_all_connections(struct client_list *list, const struct segment_reader *reader)
{
    size_t entries =
        reader->map.section[SEGMENT_CLIENTS].entry_size / sizeof(struct segment_client);

    for (uint32_t i = 0; i < segment_count(&reader->map, SEGMENT_CLIENTS); i++)
        if (segment_worker_reserved(&reader->map, i) &&
            take_connections(list, segment_clients(&reader->map, i), entries) != 0)
            return -1;
    return 0;
}

static int take_rate_entry(struct client_list *list, const struct segment_rate_entry *entry,
                           uint64_t now_ns)
{
    struct client_row row = {.key = atomic_load_explicit(&entry->key, memory_order_acquire)};
    uint64_t time_ns = atomic_load_explicit(&entry->time_ns, memory_order_acquire);

    row.limited = atomic_load_explicit(&entry->rejected, memory_order_relaxed);
    if (row.key == 0 || row.key >> 48 == CLIENT_LIMIT_MARK || time_ns == SEGMENT_RATE_CHANGING ||
        atomic_load_explicit(&entry->key, memory_order_acquire) != row.key)
        return 0;
    if (time_ns > now_ns) /* see struct segment_rate_bucket */
        row.used = (double)(time_ns - now_ns) / (double)NS_PER_S * list->requests_per_second;
    return row.used > 0 || row.limited > 0 ? add_client_row(list, &row) : 0;
}

static int take_rate_buckets(struct client_list *list, const struct segment_reader *reader,
                             uint64_t now_ns)
{
    for (uint32_t i = 0; i < segment_count(&reader->map, SEGMENT_RATE_BUCKETS); i++) {
        const struct segment_rate_bucket *bucket = segment_rate_bucket(&reader->map, i);

        for (int way = 0; way < SEGMENT_RATE_WAYS; way++)
            if (take_rate_entry(list, &bucket->entry[way], now_ns) != 0)
                return -1;
    }
    return 0;
}

static void take_rate_limit(struct client_list *list, const struct segment_reader *reader)
{
    const struct segment_rate *rate;

    list->limits = false;
    if (segment_count(&reader->map, SEGMENT_RATE) == 0)
        return;
    rate = segment_rate(&reader->map);
    list->limits = atomic_load_explicit(&rate->enabled, memory_order_acquire) != 0;
    list->requests_per_second =
        atomic_load_explicit(&rate->requests_per_second, memory_order_relaxed);
    list->burst = atomic_load_explicit(&rate->burst, memory_order_relaxed);
}

static int by_key(const void *a, const void *b)
{
    const struct client_row *left = a, *right = b;

    return left->key < right->key ? -1 : left->key > right->key;
}

/* Merges the rows of each key. */
static void join_keys(struct client_list *list)
{
    size_t count = 0;

    if (list->count > 0)
        qsort(list->rows, list->count, sizeof(*list->rows), by_key);
    for (size_t i = 0; i < list->count; i++) {
        const struct client_row *row = &list->rows[i];

        if (count == 0 || list->rows[count - 1].key != row->key) {
            list->rows[count++] = *row;
            continue;
        }
        list->rows[count - 1].connections += row->connections;
        list->rows[count - 1].limited += row->limited;
        list->rows[count - 1].used += row->used;
    }
    list->count = count;
}

int client_list_take(struct client_list *list, const struct segment_reader *reader, uint64_t now_ns)
{
    list->count = 0;
    take_rate_limit(list, reader);
    if (take_all_connections(list, reader) != 0 ||
        (list->limits && take_rate_buckets(list, reader, now_ns) != 0)) {
        list->count = 0;
        return -1;
    }
    join_keys(list);
    return 0;
}

void client_list_release(struct client_list *list)
{
    free(list->rows);
    *list = (struct client_list){0};
}

const struct client_row *client_list_find(const struct client_list *list, uint64_t key)
{
    struct client_row wanted = {.key = key};

    return list->count > 0 ? bsearch(&wanted, list->rows, list->count, sizeof(*list->rows), by_key)
                           : NULL;
}

/* Joining */

static int by_connections(const void *a, const void *b)
{
    const struct client *left = a, *right = b;

    if (left->row->connections != right->row->connections)
        return left->row->connections > right->row->connections ? -1 : 1;
    return by_key(left->row, right->row);
}

static int make_client_room(struct clients *clients, size_t needed)
{
    struct client *larger;

    if (needed <= clients->room)
        return 0;
    larger = realloc(clients->client, needed * sizeof(*larger));
    if (larger == NULL)
        return -1;
    clients->client = larger;
    clients->room = needed;
    return 0;
}

static int by_address(const void *a, const void *b)
{
    const struct client_row *const *left = a, *const *right = b;

    return *left < *right ? -1 : *left > *right;
}

/* Appends the rows of LIST that no client has yet. */
static void add_others(struct clients *clients, const struct client_list *list)
{
    const struct client_row *taken[SKETCH_KEYS];
    size_t asked = clients->count, next = 0, count = 0;

    for (size_t i = 0; i < asked; i++)
        if (clients->client[i].row != NULL)
            taken[count++] = clients->client[i].row;
    if (count > 0)
        qsort(taken, count, sizeof(*taken), by_address);
    for (size_t i = 0; i < list->count; i++) {
        while (next < count && taken[next] < &list->rows[i])
            next++;
        if (next == count || taken[next] != &list->rows[i])
            clients->client[clients->count++] = (struct client){NULL, &list->rows[i]};
    }
    if (clients->count > asked)
        qsort(clients->client + asked, clients->count - asked, sizeof(*clients->client),
              by_connections);
}

int clients_join(struct clients *clients, const struct sketch *sketch,
                 const struct client_list *list)
{
    clients->count = 0;
    if (make_client_room(clients, sketch->used + (list != NULL ? list->count : 0)) != 0)
        return -1;
    for (size_t i = 0; i < sketch->used; i++) {
        uint64_t key = client_key_parse(sketch->entry[i].key);

        clients->client[clients->count++] = (struct client){
            &sketch->entry[i], list != NULL && key != 0 ? client_list_find(list, key) : NULL};
    }
    if (list != NULL)
        add_others(clients, list);
    return 0;
}

void clients_release(struct clients *clients)
{
    free(clients->client);
    *clients = (struct clients){0};
}

/* Certificates */

/* What authorities and certificates say may be anything; the screen shows one line of it. */
static void replace_controls(char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = '?';
}

void certificate_list_take(struct certificate_list *list, const struct segment_reader *reader)
{
    for (list->count = 0; list->count < SEGMENT_CERTIFICATES_MAX; list->count++) {
        struct certificate_copy *row = &list->row[list->count];

        if (!segment_read_certificate(&reader->map, (uint32_t)list->count, row))
            return;
        replace_controls(row->names);
        replace_controls(row->issuer);
        replace_controls(row->error);
    }
}
