/*
 * Client addresses that the server keeps count of: the connections that each has open, and what each
 * has used of the rate limit. Read from the tables of the segment as an onlooker, about twice a second
 * and only while somebody looks. The console's only thread.
 */
#ifndef CONSOLE_CLIENT_LIST_H
#define CONSOLE_CLIENT_LIST_H

#include "common/segment_reader.h"
#include "console/data/top.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct client_row {
    uint64_t key;         /* see client_key() */
    uint64_t connections; /* open in all workers */
    uint64_t limited;     /* requests answered 429 since the address is in the table */
    double used;          /* requests of its burst */
};

struct client_list {
    struct client_row *rows; /* by key */
    size_t count, room;
    bool limits; /* the rate limit is on */
    uint32_t requests_per_second, burst;
};

/* Reads all tables anew; NOW_NS is the server's monotonic clock. Returns 0, or -1 when memory is
 * out: the list is then empty. */
int client_list_take(struct client_list *list, const struct segment_reader *reader,
                     uint64_t now_ns);
void client_list_release(struct client_list *list);

/* The row of KEY, or NULL. */
const struct client_row *client_list_find(const struct client_list *list, uint64_t key);

/* One client: what it asked for in some time, what the tables have on it; one of both may be NULL. */
struct client {
    const struct sketch_entry *asked;
    const struct client_row *row;
};

struct clients {
    struct client *client;
    size_t count, room;
};

/*
 * Joins a sketch by addresses with a list, which may be NULL: first all of the sketch in its order,
 * then who is in the list only, the most connections first. Points into both. -1: memory is out.
 */
int clients_join(struct clients *clients, const struct sketch *sketch,
                 const struct client_list *list);
void clients_release(struct clients *clients);

#endif
