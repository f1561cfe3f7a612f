/*
 * What this master was given at its start, other than its command line: the listening sockets, lock
 * and a line to the master before it (a binary upgrade, see daemon/master/upgrade.h), or listening sockets
 * from a service manager (LISTEN_FDS, as sd_listen_fds(3) has it). The master, at the start.
 */
#ifndef DAEMON_INHERITANCE_H
#define DAEMON_INHERITANCE_H

#include <stdbool.h>
#include <stddef.h>

/* One listening socket. */
struct inherited_socket {
    int fd;
    bool shared;    /* it can't have lanes beside it: the master accepts from it */
    bool handed;    /* by a service manager, in this or an earlier start */
    char text[120]; /* as the configuration writes it; may be empty where shared */
};

struct inheritance {
    int link;    /* to the master before; -1: this is no upgrade */
    int lock_fd; /* its pid file, locked; -1 likewise */
    struct inherited_socket *socket;
    size_t count;
};

/* True before inheritance_take() in the start of a binary upgrade. */
bool inheritance_is_due(void);

/* Takes it all from the environment, which then has it no more. Returns 0, or -1 with WHY. */
int inheritance_take(struct inheritance *inheritance, char *why, size_t size);

/* Tells the master before that we serve. It leaves then. */
void inheritance_tell_ready(struct inheritance *inheritance);

/* Closes what has not been taken out (set to -1), and frees. */
void inheritance_free(struct inheritance *inheritance);

/* The other side, in the child that becomes the new master: FDs as they will be taken. */
int inheritance_leave(int link, int lock_fd, const struct inherited_socket *socket, size_t count);

#endif
