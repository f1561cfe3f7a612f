/*
 * What a master inherits besides its command line. In a binary upgrade: the listen sockets, the
 * lock, the keys of session tickets, the limits of clients and a link to the old master
 * (daemon/master/upgrade.c). From a service manager: listen sockets (LISTEN_FDS of
 * sd_listen_fds(3), socket activation). The master, at its start.
 */
#ifndef DAEMON_INHERITANCE_H
#define DAEMON_INHERITANCE_H

#include <stdbool.h>
#include <stddef.h>

/* What the two masters of an upgrade tell each other over the link, one byte each. */
enum {
    INHERITANCE_READY = 'r',   /* the new one serves and has taken over all names */
    INHERITANCE_STOP = 's',    /* the sender has begun to stop */
    INHERITANCE_FORCE = 'f',   /* the old one stops now */
    INHERITANCE_RELOAD = 'c',  /* the old one retires with a reload that it did not begin */
    INHERITANCE_REOPEN = 'l',  /* the new one has opened its logs again */
    INHERITANCE_METRICS = 'm', /* the metrics process of the old one has sent its last response */
};

/* A listen socket. */
struct inherited_socket {
    int fd;
    bool shared;    /* has no SO_REUSEPORT siblings: the master accepts from it */
    bool tls;       /* its connections are over TLS... */
    bool proxy;     /* ...and begin with a PROXY header */
    bool metrics;   /* [metrics] listen names it, not [server] listen */
    bool activated; /* a service manager has passed it, at this or an earlier start */
    char text[120]; /* the address as configured; may be empty for a shared socket */
};

struct inheritance {
    int link;     /* leads to the old master; -1: not an upgrade, or it has ended */
    bool pending; /* an upgrade, in which this master does not serve yet */
    int lock_fd;  /* the old master's pid file, locked; -1: not an upgrade */
    int tickets;  /* a file for tls_tickets_restore(); -1: none */
    int limits;   /* a file for address_limits_restore(); -1: none */
    struct inherited_socket *socket;
    size_t count;
};

#define INHERITANCE_NONE                                                                           \
    ((struct inheritance){.link = -1, .lock_fd = -1, .tickets = -1, .limits = -1})

/* True at the start of a binary upgrade, until inheritance_read(). */
bool inheritance_is_upgrade(void);

/* Reads and removes the environment variables. Returns 0, or -1 with WHY. */
int inheritance_read(struct inheritance *inheritance, char *why, size_t size);

/* Tells the old master that this one serves; the old one then shuts down. */
void inheritance_report_ready(struct inheritance *inheritance);

/* Tell the old master, if it still runs, that this one stops; that it has opened its logs again. */
void inheritance_report_stop(const struct inheritance *inheritance);
void inheritance_report_reopened(const struct inheritance *inheritance);

/* Closes the descriptors that were not taken over (those are set to -1), and frees. */
void inheritance_free(struct inheritance *inheritance);

/*
 * The sending side, in the child that executes the new master: makes the descriptors inheritable
 * and sets the environment variable. Only link, lock_fd, tickets, limits and the sockets count.
 * Returns 0, or -1.
 */
int inheritance_export(const struct inheritance *inheritance);

#endif
