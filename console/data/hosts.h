/*
 * The hosts of a server ([host] sections): rates, statuses and latency by host of the last 5 to 10
 * s, and their names in the lines of the log. The console's only thread.
 */
#ifndef CONSOLE_HOSTS_H
#define CONSOLE_HOSTS_H

#include "common/segment_reader.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HOST_CLASSES = 4 };

/* Rates, latency and share are those of the interval; NAN until there is one. */
struct host_row {
    uint64_t id;                /* see struct segment_host */
    char name[HOST_NAME_BYTES]; /* the first of its section; "*": no section has the name */
    double requests_per_s, sent_per_s;
    double class_per_s[HOST_CLASSES]; /* responses 2xx to 5xx */
    double share;                     /* 1: all requests are for this host */
    double p50_ns, p99_ns;            /* at most 25 % too high; NAN without a request */
    uint64_t requests, sent;          /* counted since the host exists */
};

/* What was counted at one time. */
struct host_base {
    struct host_totals *all;
    size_t count;
    uint64_t time_ns; /* monotonic clock; 0: none */
};

struct host_list {
    struct host_row *rows; /* most requests first */
    size_t count, room;
    uint64_t interval_ns; /* 0: none yet */
    struct host_base older, newer;
};

/* True if the server has [host] sections. */
bool hosts_counted(const struct segment_reader *reader);

/*
 * Reads what the threads counted; NOW_NS is the monotonic clock. Call it about twice a second:
 * after a pause of more than 10 s, another interval begins. Returns 0, or -1: out of memory, the
 * list is empty.
 */
int host_list_take(struct host_list *list, const struct segment_reader *reader, uint64_t now_ns);

/* Empties the list: another server, or another time. */
void host_list_release(struct host_list *list);

/*
 * Names of hosts, each kept once for as long as the table exists, because lines of the log outlive
 * the entries of their hosts.
 */
struct host_names;

struct host_names *host_names_create(void);
void host_names_destroy(struct host_names *names);

/* The kept copy of NAME; "" if memory or the table (65536 names) is exhausted. */
const char *host_names_keep(struct host_names *names, const char *name);

#endif
