/*
 * What a master inherits besides its command line. In a binary upgrade: the listen sockets, the
 * lock and a link to the old master (daemon/master/upgrade.h). From a service manager: listen
 * sockets (LISTEN_FDS of sd_listen_fds(3), socket activation). The master, at its start.
 */
#ifndef DAEMON_INHERITANCE_H
#define DAEMON_INHERITANCE_H

#include <stdbool.h>
#include <stddef.h>

/* A listen socket. */
struct inherited_socket {
    int fd;
    bool shared;    /* has no SO_REUSEPORT siblings: the master accepts from it */
    bool activated; /* from a service manager, at this or an earlier start */
    char text[120]; /* the address as configured; may be empty for a shared socket */
};

struct inheritance {
    int link;    /* to the old master; -1: not an upgrade */
    int lock_fd; /* the old master's pid file, locked; -1: not an upgrade */
    struct inherited_socket *socket;
    size_t count;
};

/* True at the start of a binary upgrade, until inheritance_read(). */
bool inheritance_is_upgrade(void);

/* Reads and removes the environment variables. Returns 0, or -1 with WHY. */
int inheritance_read(struct inheritance *inheritance, char *why, size_t size);

/* Notifies the old master that this one serves; the old one then shuts down. */
void inheritance_report_ready(struct inheritance *inheritance);

/* Closes the descriptors that were not taken over (those are set to -1), and frees. */
void inheritance_free(struct inheritance *inheritance);

/*
 * The sending side, in the child that executes the new master: makes the descriptors inheritable
 * and sets the environment variable. Returns 0, or -1.
 */
int inheritance_export(int link, int lock_fd, const struct inherited_socket *socket, size_t count);

#endif
