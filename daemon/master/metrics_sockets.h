/*
 * The listen sockets of [metrics] listen, which the metrics process accepts from. The master opens
 * them, and keeps them open so that the process can be replaced and a new master can inherit them.
 */
#ifndef DAEMON_MASTER_METRICS_SOCKETS_H
#define DAEMON_MASTER_METRICS_SOCKETS_H

#include "daemon/config/config.h"
#include "daemon/master/inheritance.h"

struct metrics_sockets {
    struct config_address address[CONFIG_LIST_MAX]; /* with the bound port */
    int fd[CONFIG_LIST_MAX];
    size_t count;
};

/*
 * Opens the sockets that CONFIG lists: copies of those in CURRENT, those of INHERITANCE (NULL:
 * none), which it takes over, and new ones. Warns of an address that other machines can reach.
 * Returns 0, or -1 with WHY and SOCKETS empty.
 */
int metrics_sockets_open(struct metrics_sockets *sockets, const struct config *config,
                         const struct metrics_sockets *current, struct inheritance *inheritance,
                         char *why, size_t size);
void metrics_sockets_close(struct metrics_sockets *sockets);

/* Replaces SOCKETS by NEXT, which is then empty. Returns true if their addresses differ. */
bool metrics_sockets_replace(struct metrics_sockets *sockets, struct metrics_sockets *next);

/* Describes the sockets for a new master; returns their number. */
size_t metrics_sockets_export(const struct metrics_sockets *sockets,
                              struct inherited_socket *exported);

#endif
