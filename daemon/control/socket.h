/*
 * The control socket: a client sends lines of words and receives a line of JSON for each, in order.
 * The reply to a change is sent when the change is in force; only that client waits. The master
 * never waits for a client: unread replies stay in a bounded buffer. The master's loop.
 */
#ifndef DAEMON_SOCKET_H
#define DAEMON_SOCKET_H

#include "daemon/master/master.h"

enum {
    CONTROL_CLIENTS_MAX = 64,     /* more are refused with an error reply */
    CONTROL_CLIENTS_RESERVED = 2, /* of these, for root and the server's user */
};

/* For master_run(). */
extern const struct control_operations control_socket;

#endif
