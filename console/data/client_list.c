#include "console/data/client_list.h"

#include "common/client_address.h"
#include "common/clock.h"

#include <stdlib.h>
#include <string.h>

/* Reading the tables */

static int add(struct client_list *list, const struct client_row *row)
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
        if (row.key != 0 && add(list, &row) != 0)
            return -1;
    }
    return 0;
}

static int take_all_connections(struct client_list *list, const struct segment_reader *reader)
{
    size_t entries =
        reader->map.section[SEGMENT_CLIENTS].entry_size / sizeof(struct segment_client);

    for (uint32_t i = 0; i < segment_count(&reader->map, SEGMENT_CLIENTS); i++)
        if (segment_slot_reserved(segment_worker_slot(&reader->map, i)) &&
            take_connections(list, segment_clients(&reader->map, i), entries) != 0)
            return -1;
    return 0;
}

static int take_entry(struct client_list *list, const struct segment_rate_entry *entry,
                      uint64_t now_ns)
{
    struct client_row row = {.key = atomic_load_explicit(&entry->key, memory_order_acquire)};
    uint64_t time_ns = atomic_load_explicit(&entry->time_ns, memory_order_acquire);

    row.limited = atomic_load_explicit(&entry->rejected, memory_order_relaxed);
    if (row.key == 0 || time_ns == SEGMENT_RATE_CHANGING ||
        atomic_load_explicit(&entry->key, memory_order_acquire) != row.key)
        return 0;
    if (time_ns > now_ns) /* see struct segment_rate_bucket */
        row.used = (double)(time_ns - now_ns) / (double)NS_PER_S * list->requests_per_second;
    return row.used > 0 || row.limited > 0 ? add(list, &row) : 0;
}

static int take_buckets(struct client_list *list, const struct segment_reader *reader,
                        uint64_t now_ns)
{
    for (uint32_t i = 0; i < segment_count(&reader->map, SEGMENT_RATE_BUCKETS); i++) {
        const struct segment_rate_bucket *bucket = segment_rate_bucket(&reader->map, i);

        for (int way = 0; way < SEGMENT_RATE_WAYS; way++)
            if (take_entry(list, &bucket->entry[way], now_ns) != 0)
                return -1;
    }
    return 0;
}

static void take_limit(struct client_list *list, const struct segment_reader *reader)
{
    const struct segment_rate *rate;

    list->limits = false;
    if (segment_count(&reader->map, SEGMENT_RATE) == 0)
        return; /* an older daemon */
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
    take_limit(list, reader);
    if (take_all_connections(list, reader) != 0 ||
        (list->limits && take_buckets(list, reader, now_ns) != 0)) {
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

static int make_room(struct clients *clients, size_t needed)
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
    if (make_room(clients, sketch->used + (list != NULL ? list->count : 0)) != 0)
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
