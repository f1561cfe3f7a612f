/*
 * Listen sockets: a growing number of SO_REUSEPORT sockets for each configured address. The master
 * opens them and keeps each open while its address is configured, so that connections in its accept
 * queue are never reset: a socket only moves between workers. The master.
 */
#ifndef DAEMON_LISTENERS_H
#define DAEMON_LISTENERS_H

#include "daemon/base/channel.h"
#include "daemon/config/config.h"
#include "daemon/master/inheritance.h"

#include <netinet/in.h>

/* One listen socket: listen_socket.c */

/* In host order; 0 for a UNIX socket. */
in_port_t listen_socket_port(const struct config_address *address);

/* Returns 0 if no other process listens on ADDRESS, a value of KEY; else -1 with WHY. */
int listen_socket_check(const struct config_address *address, const char *key, char *why,
                        size_t size);

/*
 * Opens a socket for ADDRESS and stores the bound port there. TCP sockets share it (SO_REUSEPORT);
 * a UNIX socket replaces a file that nobody listens on. DEFER: TCP_DEFER_ACCEPT, so that the kernel
 * reports a connection with its first bytes. Returns the socket, or -1 with errno.
 */
int listen_socket_open(struct config_address *address, uint32_t backlog, bool defer);

/* Applies changed options to the open socket FD. */
void listen_socket_update(int fd, uint32_t backlog, bool defer);

/* Number of connections in the accept queue of the open socket FD; 0 if unknown (UNIX). */
uint32_t listen_socket_waiting(int fd);

/* Sets the TEXT of the configuration, and the path of a UNIX socket, which can have another name. */
void listen_socket_set_configured(struct config_address *address, const char *text);

/* Sets the text of an address from getsockname() in the syntax of the configuration. */
void listen_socket_set_text(struct config_address *address);

/* Writes the configured text with the bound port, and https:// before it for TLS. */
void listen_socket_describe(const struct config_address *address, char *text, size_t size);

/*
 * Refuses new connections to the listen socket FD of ADDRESS, in all processes that have it.
 * Handshakes in progress continue, and the accept queue remains. If the kernel cannot do that,
 * nothing changes.
 */
void listen_socket_refuse(const struct config_address *address, int fd);

/* All listen sockets */

struct listeners;

/*
 * Opens COUNT sockets for each address of CONFIG, beginning with those of INHERITANCE (NULL: none),
 * which it takes over. Sockets from a service manager (socket activation) replace the configured
 * addresses. Returns NULL with WHY, also if another process listens on one of the ports.
 */
struct listeners *listeners_open(const struct config *config, uint32_t count,
                                 struct inheritance *inheritance, char *why, size_t size);
void listeners_close(struct listeners *listeners);

/*
 * Changes the addresses in two steps. listeners_prepare() opens at least COUNT sockets for each
 * address that CONFIG adds, and returns 0, or -1 with WHY and nothing changed. Then the caller
 * calls either listeners_commit() or listeners_abandon(). listeners_commit() closes the sockets of
 * addresses that are no longer configured; before, it calls DRAIN for each, to accept the queued
 * connections, which begin with OPENING. listeners_abandon() closes the new sockets.
 */
int listeners_prepare(struct listeners *listeners, const struct config *config, uint32_t count,
                      char *why, size_t size);
void listeners_commit(struct listeners *listeners,
                      void (*drain)(void *context, int fd, uint8_t opening), void *context);
void listeners_abandon(struct listeners *listeners);

/* Opens sockets until each address has COUNT. Returns 0, or -1 with errno and nothing changed. */
int listeners_grow(struct listeners *listeners, uint32_t count);

/*
 * Sockets are numbered from 0; a number stays with its socket. listeners_count() is the highest
 * number plus one. listeners_fd() is -1 for a free number and for a socket that is not committed.
 */
uint32_t listeners_count(const struct listeners *listeners);
int listeners_fd(const struct listeners *listeners, uint32_t id);

/* A row has one socket of each address; a thread gets a whole row. */
uint32_t listeners_row(const struct listeners *listeners, uint32_t id);

/* True for a socket without SO_REUSEPORT siblings, from which the master accepts. */
bool listeners_is_shared(const struct listeners *listeners, uint32_t id);

/* What the connections of a socket begin with: enum opening of daemon/base/messages.h. */
uint8_t listeners_opening(const struct listeners *listeners, uint32_t id);

/* True if a service manager has passed the sockets. False if LISTENERS is NULL (closed). */
bool listeners_are_activated(const struct listeners *listeners);

/* True if there is such an address, among those that are configured. */
bool listeners_need_tls(const struct listeners *listeners);

/* Number of connections in the accept queues of all sockets; 0 if LISTENERS is NULL (closed). */
uint64_t listeners_waiting(const struct listeners *listeners);

/*
 * Lists all sockets for a new master. SOCKET has room for listeners_count(). Returns their number.
 */
size_t listeners_export(const struct listeners *listeners, struct inherited_socket *socket);

/*
 * Writes the bound addresses, separated by spaces. For port 0 it writes the port that the kernel
 * chose.
 */
void listeners_describe(const struct listeners *listeners, char *text, size_t size);

/*
 * Removes the files of UNIX sockets that we created; not if a new master uses them. NULL is
 * allowed.
 */
void listeners_unlink(const struct listeners *listeners);

/*
 * From now on no new connection is accepted, but those in the accept queues and handshakes in
 * progress are. Also removes the files of UNIX sockets. Does not concern sockets of a service
 * manager, which keeps them open.
 */
void listeners_withdraw(const struct listeners *listeners);

/* True for a socket whose accept queue is lost when this server closes it. */
bool listeners_is_ours(const struct listeners *listeners, uint32_t id);

/*
 * Assignment of listen sockets to workers. Each worker owns an equal share of the rows, and keeps as
 * many of its rows as possible when others come and go. A socket that moves is sent to its new worker
 * before the old one drops it, so that some worker always accepts from it.
 */

/* A worker that listen sockets are assigned to. */
struct listener_target {
    uint32_t worker;          /* slot */
    struct channel *commands; /* borrowed during the call */
    uint32_t rows;            /* that it owns; listener_assign_update() sets it */
};

/* An owner is a worker's slot, or LISTENER_UNASSIGNED. */
struct listener_assign {
    uint32_t *row_owner; /* [row_count] */
    uint32_t *owner;     /* [count] by socket number */
    uint32_t row_count, count;
};

enum { LISTENER_UNASSIGNED = UINT32_MAX };

/* Assigns every row to one of TARGETS. Returns 0, or -1: out of memory. */
int listener_assign_update(struct listener_assign *assign, const struct listeners *listeners,
                           struct listener_target *targets, uint32_t count);

/*
 * Records that WORKER does not have the socket ID, or any socket. Returns false if no socket was
 * ever assigned with this ID.
 */
bool listener_assign_remove(struct listener_assign *assign, uint32_t worker, uint32_t id);
void listener_assign_remove_worker(struct listener_assign *assign, uint32_t worker);

void listener_assign_free(struct listener_assign *assign);

#endif
