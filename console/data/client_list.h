/*
 * Client addresses with their open connections and their share of the rate limit. Read from the tables
 * of the segment, twice a second at most and only while a view wants it. The console's only thread.
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
    uint64_t limited;     /* responses with status 429 since the address entered the table */
    double used;          /* of the burst, requests */
};

struct client_list {
    struct client_row *rows; /* by key */
    size_t count, room;
    bool limits; /* the rate limit is on */
    uint32_t requests_per_second, burst;
};

/* Reads all tables; NOW_NS is the monotonic clock. Returns 0, or -1: out of memory, the list is
 * empty. */
int client_list_take(struct client_list *list, const struct segment_reader *reader,
                     uint64_t now_ns);
void client_list_release(struct client_list *list);

/* The row of KEY, or NULL. */
const struct client_row *client_list_find(const struct client_list *list, uint64_t key);

/* One client: its requests in some period, its row in the list. One of them may be NULL. */
struct client {
    const struct sketch_entry *requests;
    const struct client_row *row;
};

struct clients {
    struct client *client;
    size_t count, room;
};

/*
 * Joins SKETCH, keyed by address, with LIST, which may be NULL: first the entries of the sketch in
 * their order, then the remaining rows of the list, most connections first. The result points into
 * both. Returns 0, or -1: out of memory.
 */
int clients_join(struct clients *clients, const struct sketch *sketch,
                 const struct client_list *list);
void clients_release(struct clients *clients);

#endif
