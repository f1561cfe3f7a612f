/*
 * The messages between master and worker, on their two channels (daemon/base/channel.h). Both
 * processes run the same binary, so the structs need no version.
 *
 * On the command channel the master sends the wanted state, and the worker reports the actual
 * state. On the connection channel each message is one connection with its descriptor: from the
 * master to a worker, or back from a worker that exits. Messages of one channel keep their order;
 * there is no order between the channels.
 */
#ifndef DAEMON_MESSAGES_H
#define DAEMON_MESSAGES_H

#include "common/client_address.h"

#include <stdint.h>

enum message_kind {
    /* master to worker */
    MESSAGE_THREADS,            /* struct message_threads: the serving threads to run */
    MESSAGE_OFFLOAD,            /* struct message_offload: bounds of the offload threads */
    MESSAGE_LISTEN_SOCKET_ADD,  /* struct message_listen_socket and the socket: accept from it */
    MESSAGE_LISTEN_SOCKET_DROP, /* struct message_listen_socket: close it */
    MESSAGE_COMMAND,            /* struct message_command */
    /* master to worker, on the connection channel, after the last connection */
    MESSAGE_LEAVE,  /* hand all connections back, then exit */
    MESSAGE_STOP,   /* finish the current requests, then exit */
    MESSAGE_RETIRE, /* send one more response per connection, then exit */
    /* worker to master */
    MESSAGE_THREADS_RUNNING,    /* struct message_threads_running */
    MESSAGE_LISTEN_SOCKET_LOST, /* struct message_listen_socket: out of descriptors for it */
    MESSAGE_COMMAND_DONE,       /* struct message_command_done */
    /* both directions, on the connection channel */
    MESSAGE_CONNECTION, /* struct message_connection with its unread bytes, and the socket */
};

enum { THREADS_MAX = 1024 }; /* the largest [workers] max_threads */

struct message_threads {
    uint32_t count;
    uint32_t slot[]; /* of each thread in the segment */
};

struct message_threads_running {
    uint32_t count;
};

struct message_offload {
    uint32_t min, max;
};

struct message_listen_socket {
    uint32_t id;  /* unique while the master lives */
    uint32_t row; /* the sockets of a row, one per address, belong to one thread */
};

/* All commands change the worker's cache. */
enum worker_command {
    COMMAND_CACHE_FLUSH,
    COMMAND_CACHE_PURGE,  /* path: one entry, or, ending in '/' or '*', all with that prefix */
    COMMAND_CACHE_SIZE,   /* value: bytes */
    COMMAND_CACHE_POLICY, /* value: enum config_policy */
};

struct message_command {
    uint64_t number;
    uint64_t value;
    uint32_t what; /* enum worker_command */
    char path[];   /* ends with a NUL */
};

struct message_command_done {
    uint64_t number;
    uint64_t affected; /* cache entries removed */
};

/* A client connection between two requests. */
struct message_connection {
    uint8_t address[CLIENT_ADDRESS_BYTES];
    uint32_t requests; /* served so far */
    uint32_t length;   /* unread bytes that follow */
    uint32_t admitted; /* 1: already admitted by a worker */
    char bytes[];
};

/* A connection with more unread bytes than this is not handed over. */
enum { PASSED_BYTES_MAX = 48 * 1024 };

#endif
