#include "daemon/master/host_table.h"

#include "common/segment_writer.h"
#include "daemon/base/events.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM_MIN = 64 };

static const char others[] = "*";

uint32_t host_table_room(const struct config *config)
{
    size_t room = 2 * (config->host_count + 1);

    return room < ROOM_MIN            ? ROOM_MIN
           : room > SEGMENT_HOSTS_MAX ? SEGMENT_HOSTS_MAX
                                      : (uint32_t)room;
}

/* Returns 0, or -1: out of memory. */
static int make_entries(struct host_table *table, uint32_t room)
{
    if (table->entry != NULL)
        return 0;
    table->entry = calloc(room, sizeof(*table->entry));
    table->room = table->entry != NULL ? room : 0;
    return table->entry != NULL ? 0 : -1;
}

/* Entries */

static void free_entry(struct host_table *table, const struct segment *segment, uint32_t entry)
{
    segment_store_host(segment, entry, 0, "");
    free(table->entry[entry].name);
    table->entry[entry] = (struct host_entry){.name = NULL};
}

/* Frees the entries of the COUNT places ONE that are not among OTHER. */
static void free_entries(struct host_table *table, const struct segment *segment,
                         const struct host_place *one, size_t count, const struct host_place *other,
                         size_t other_count)
{
    bool *keep = calloc(table->room + 1, sizeof(*keep));

    if (keep == NULL)
        return; /* they stay in use */
    for (size_t i = 0; i < other_count; i++)
        keep[other[i].entry] = true;
    for (size_t i = 0; i < count; i++)
        if (!keep[one[i].entry] && table->entry[one[i].entry].id != 0)
            free_entry(table, segment, one[i].entry);
    free(keep);
}

/* Finding */

/* The entries in use by name, to find that of a host; and where to look for one not in use. */
struct search {
    struct host_table *table;
    const struct host_entry **known;
    size_t count;
    uint32_t next;
};

static int by_entry_name(const void *one, const void *other)
{
    return strcmp((*(const struct host_entry *const *)one)->name,
                  (*(const struct host_entry *const *)other)->name);
}

/* Returns 0, or -1: out of memory. */
static int begin_search(struct search *search, struct host_table *table)
{
    *search =
        (struct search){.table = table, .known = malloc(table->room * sizeof(*search->known))};
    if (search->known == NULL)
        return -1;
    for (uint32_t i = 0; i < table->room; i++)
        if (table->entry[i].id != 0)
            search->known[search->count++] = &table->entry[i];
    qsort(search->known, search->count, sizeof(*search->known), by_entry_name);
    return 0;
}

/* The entry of NAME, or one that is not in use. NULL: there is none. */
static struct host_entry *find_entry(struct search *search, const char *name)
{
    const struct host_entry wanted = {.name = (char *)(uintptr_t)name}, *key = &wanted;
    const struct host_entry **found = bsearch((const void *)&key, search->known, search->count,
                                              sizeof(*search->known), by_entry_name);
    struct host_table *table = search->table;

    if (found != NULL)
        return &table->entry[*found - table->entry];
    while (search->next < table->room && table->entry[search->next].id != 0)
        search->next++;
    return search->next < table->room ? &table->entry[search->next] : NULL;
}

/* Returns false if the host shares the first entry, with all others. */
static bool place_host(struct search *search, const char *name, struct host_place *place)
{
    struct host_entry *entry = find_entry(search, name), *first = search->table->entry;

    assert(first != NULL); /* host_table_assign() has made them */
    if (entry != NULL && entry->id == 0) {
        entry->name = strdup(name);
        if (entry->name != NULL)
            entry->id = ++search->table->last_id;
    }
    if (entry == NULL || entry->id == 0)
        entry = first;
    *place = (struct host_place){(uint32_t)(entry - first), entry->id};
    return entry != first;
}

/* Returns the places of the hosts of CONFIG by site; NULL: out of memory. */
static struct host_place *place_hosts(struct host_table *table, const struct config *config)
{
    struct host_place *place = calloc(config->host_count + 1, sizeof(*place));
    size_t alone = 0;
    struct search search;

    if (begin_search(&search, table) == 0 && place != NULL) {
        place_host(&search, others, &place[0]);
        for (size_t i = 0; i < config->host_count; i++)
            alone += place_host(&search, config->hosts[i].names[0], &place[i + 1]);
        if (place[0].id != 0 && alone < config->host_count)
            event_log(LEVEL_WARN,
                      "%zu of %zu hosts are counted as '*': the table of hosts has %u entries, and "
                      "a restart or an upgrade makes another one (at most %d)",
                      config->host_count - alone, config->host_count, table->room,
                      SEGMENT_HOSTS_MAX);
    }
    free(search.known);
    if (place != NULL && place[0].id != 0)
        return place;
    free(place);
    return NULL;
}

/* Publishes the names of PLACE that readers do not know yet. */
static void publish(const struct host_table *table, const struct segment *segment,
                    const struct host_place *place, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (atomic_load(&segment_host(segment, place[i].entry)->id) != place[i].id)
            segment_store_host(segment, place[i].entry, place[i].id,
                               table->entry[place[i].entry].name);
}

/* Number of entries up to the last one of PLACE. */
static uint32_t highest_entry(const struct host_place *place, size_t count)
{
    uint32_t most = 0;

    for (size_t i = 0; i < count; i++)
        if (place[i].entry >= most)
            most = place[i].entry + 1;
    return most;
}

static void take_places(struct host_table *table, struct host_place *place, size_t count)
{
    table->previous = table->place;
    table->previous_count = table->count;
    table->place = place;
    table->count = count;
}

int host_table_assign(struct host_table *table, struct segment *segment,
                      const struct config *config, char *why, size_t size)
{
    size_t count = config->host_count > 0 ? config->host_count + 1 : 0;
    struct host_place *place = NULL;
    int failed;

    if (count == 0) {
        take_places(table, NULL, 0);
        return 0;
    }
    if (make_entries(table, segment_count(segment, SEGMENT_HOSTS)) == 0)
        place = place_hosts(table, config);
    if (place == NULL) {
        snprintf(why, size, "out of memory");
        return -1;
    }
    failed = segment_reserve_hosts(segment, highest_entry(place, count));
    if (failed != 0) {
        snprintf(why, size, "no shared memory to count %zu hosts: %s (enlarge /dev/shm)",
                 config->host_count, strerror(failed));
        free_entries(table, segment, place, count, table->place, table->count);
        free(place);
        return -1;
    }
    publish(table, segment, place, count);
    take_places(table, place, count);
    return 0;
}

int host_table_assign_logs(const struct host_table *table, const struct config *config,
                           struct log_targets *targets, char *why, size_t size)
{
    if (targets->count == 0)
        return 0;
    if (log_targets_reserve(targets, table->room) != 0) {
        snprintf(why, size, "out of memory");
        return -1;
    }
    for (size_t i = 0; i < config->host_count; i++) {
        uint32_t target = log_targets_of_config(targets, &config->hosts[i]);
        uint32_t entry = table->place[i + 1].entry;

        if (target == 0)
            continue;
        if (entry == table->place[0].entry) {
            snprintf(
                why, size,
                "[host %s] cannot have an access_log: the table of hosts has %u entries, and a "
                "restart or an upgrade makes another one (at most %d)",
                config->hosts[i].names[0], table->room, SEGMENT_HOSTS_MAX);
            return -1;
        }
        targets->of_entry[entry] = (uint16_t)target;
    }
    return 0;
}

void host_table_commit(struct host_table *table, const struct segment *segment)
{
    free_entries(table, segment, table->previous, table->previous_count, table->place,
                 table->count);
    free(table->previous);
    table->previous = NULL;
    table->previous_count = 0;
}

void host_table_abandon(struct host_table *table, const struct segment *segment)
{
    free_entries(table, segment, table->place, table->count, table->previous,
                 table->previous_count);
    free(table->place);
    table->place = table->previous;
    table->count = table->previous_count;
    table->previous = NULL;
    table->previous_count = 0;
}

void host_table_free(struct host_table *table)
{
    for (uint32_t i = 0; i < table->room; i++)
        free(table->entry[i].name);
    free(table->entry);
    free(table->place);
    free(table->previous);
    *table = (struct host_table){.entry = NULL};
}
