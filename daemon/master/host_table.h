/*
 * Which entry of section HOSTS each [host] section has, so that threads count its requests there. A
 * host keeps its entry while a configuration has it, wherever its section stands. The master.
 */
#ifndef DAEMON_MASTER_HOST_TABLE_H
#define DAEMON_MASTER_HOST_TABLE_H

#include "common/segment.h"
#include "daemon/config/config.h"
#include "daemon/logger/log_files.h"
#include "daemon/transaction/accounting.h"

struct host_entry {
    char *name;
    uint64_t id; /* 0: not in use */
};

struct host_table {
    struct host_entry *entry; /* [room]; NULL: no configuration had a [host] yet */
    uint32_t room;
    uint64_t last_id;         /* ids are not used again */
    struct host_place *place; /* [count] by site; NULL: the configuration has no [host] */
    size_t count;
    struct host_place *previous; /* during a reload: the places before it */
    size_t previous_count;
};

/* Entries for a server that starts with CONFIG: a reload may double the number of its hosts. */
uint32_t host_table_room(const struct config *config);

/*
 * Gives the hosts of CONFIG their entries, and reserves their memory. The first entry is that of
 * all other hosts, and of those without one, if the table is full. The previous hosts keep theirs
 * until host_table_commit() or host_table_abandon(). Returns 0, or -1 with WHY and nothing changed.
 */
int host_table_assign(struct host_table *table, struct segment *segment,
                      const struct config *config, char *why, size_t size);

/*
 * Assigns TARGETS, those of CONFIG, to the entries of its hosts, which host_table_assign() has made
 * last. Returns 0, or -1 with WHY if a host has its own log but no entry.
 */
int host_table_assign_logs(const struct host_table *table, const struct config *config,
                           struct log_targets *targets, char *why, size_t size);

/* Frees the entries of hosts that are no longer configured. */
void host_table_commit(struct host_table *table, const struct segment *segment);

/* Returns to the previous hosts. */
void host_table_abandon(struct host_table *table, const struct segment *segment);

void host_table_free(struct host_table *table);

#endif
