/*
 * Listening sockets: for each configured address a growing row of SO_REUSEPORT sockets ("lanes").
 * The master opens them and never closes one while its address is listened on, so that a connection which
 * waits in one is never lost: lanes only change hands. The master's, one thread.
 */
#ifndef DAEMON_LISTENER_H
#define DAEMON_LISTENER_H

#include "daemon/config/config.h"
#include "daemon/master/inheritance.h"

struct listeners;

/*
 * Opens COUNT lanes for each address of CONFIG, beginning with those of INHERITANCE (NULL: none),
 * which are taken out of it. Where a service manager has handed in sockets, there are only those. A
 * port that somebody else listens on is an error:
 * WHY says which. NULL on failure.
 */
struct listeners *listeners_open(const struct config *config, uint32_t count,
                                 struct inheritance *inheritance, char *why, size_t size);
void listeners_close(struct listeners *listeners);

/*
 * Another set of addresses, in two steps: _prepare() opens what CONFIG has new, with at least COUNT
 * lanes each, and returns 0, or -1 with WHY and nothing changed. Then either _commit() makes the
 * change: it calls REST for every lane that goes, to take the connections that wait in it, and closes
 * them; or _abandon() closes what was new.
 */
int listeners_prepare(struct listeners *listeners, const struct config *config, uint32_t count,
                      char *why, size_t size);
void listeners_commit(struct listeners *listeners, void (*rest)(void *context, int fd),
                      void *context);
void listeners_abandon(struct listeners *listeners);

/* Makes it COUNT lanes for each address, if there are fewer. 0, or -1 with errno. */
int listeners_grow(struct listeners *listeners, uint32_t count);

/* All lanes of all addresses, numbered from 0; a number stays with its lane. listeners_lane() is -1
 * for a number without one, or one that is only being prepared. */
uint32_t listeners_lanes(const struct listeners *listeners);
int listeners_lane(const struct listeners *listeners, uint32_t id);

/* Removes the names of UNIX sockets that we made: at the end, when there is no successor. */
void listeners_remove_names(const struct listeners *listeners);

/* True for a socket that the master itself accepts from: it gets no lanes. */
bool listeners_is_shared(const struct listeners *listeners, uint32_t id);

/* All lanes, as a successor inherits them; SOCKET has room for listeners_lanes(). Returns how many. */
size_t listeners_list(const struct listeners *listeners, struct inherited_socket *socket);

/* Lanes of one row, one for each address, belong together: a thread gets the whole row. */
uint32_t listeners_row(const struct listeners *listeners, uint32_t id);

/* Addresses as they are bound (a port 0 shows the one the kernel picked), separated by spaces. */
void listeners_describe(const struct listeners *listeners, char *text, size_t size);

#endif
