/*
 * UNIX sockets to listen on have names in the file system, which outlive them: what a dead server
 * left is replaced, what a living one has is an error. The master.
 */
#ifndef DAEMON_UNIX_NAME_H
#define DAEMON_UNIX_NAME_H

#include <stddef.h>
#include <sys/un.h>

/* Whether the name may be taken: nobody listens there, and no other kind of file is in the way.
 * Returns 0, or -1 with WHY. */
int unix_name_check(const struct sockaddr_un *address, char *why, size_t size);

/*
 * Makes a stream socket of that name, open to everybody (the folder decides who gets there). A dead
 * one of that name is replaced. Returns it, or -1 with errno.
 */
int unix_name_bind(const struct sockaddr_un *address);

#endif
