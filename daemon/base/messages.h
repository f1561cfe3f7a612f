/*
 * What master and worker say to each other over their two channels (daemon/base/channel.h). Both are the
 * same binary, forked: the structs need no version.
 *
 * Messages of one channel keep their order; the two channels have none between them.
 *
 * On the command channel the master tells what is wanted and the worker reports what is in force.
 * On the connection channel a message is one connection with its descriptor, either way: the master
 * dispatches, a leaving worker gives back.
 */
#ifndef DAEMON_MESSAGES_H
#define DAEMON_MESSAGES_H

#include "common/client_address.h"

#include <stdint.h>

enum message_kind {
    /* master to worker */
    MESSAGE_THREADS,   /* struct message_threads: serve with so many threads, in these slots */
    MESSAGE_OFFLOAD,   /* struct message_offload: bounds of the offload threads */
    MESSAGE_LANE_ADD,  /* struct message_lane and a listening socket: accept from it */
    MESSAGE_LANE_DROP, /* struct message_lane: let go of it */
    MESSAGE_ORDER,     /* struct message_order: see daemon/master/workers.h */
    /* the same, on the connection channel: so they arrive behind the last connection */
    MESSAGE_LEAVE,  /* hand all connections back, then exit */
    MESSAGE_STOP,   /* finish the requests under way, then exit */
    MESSAGE_RETIRE, /* let each connection have one more answer, then exit */
    /* worker to master */
    MESSAGE_THREADS_ARE, /* struct message_threads_are: as many threads serve now */
    MESSAGE_LANE_LOST,   /* struct message_lane: no descriptor was left for it */
    MESSAGE_ORDER_DONE,  /* struct message_order_done */
    /* either way, on the connection channel */
    MESSAGE_CONNECTION, /* struct message_connection, its unread bytes, and the socket */
};

enum { THREADS_MOST = 1024 }; /* [workers] max_threads goes so far */

struct message_threads {
    uint32_t count;
    uint32_t slot[]; /* thread slots in the segment, one for each */
};

struct message_threads_are {
    uint32_t count;
};

struct message_offload {
    uint32_t least, most;
};

struct message_lane {
    uint32_t id;  /* the same for as long as the master lives */
    uint32_t row; /* lanes of one row are for one thread: one of each address */
};

/* What an order is about: the worker's cache. */
enum order {
    ORDER_CACHE_FLUSH,
    ORDER_CACHE_PURGE,  /* path: one entry, or, ending in '/' or '*', all that begin so */
    ORDER_CACHE_SIZE,   /* value: bytes */
    ORDER_CACHE_POLICY, /* value: enum config_policy */
};

struct message_order {
    uint64_t number;
    uint64_t value;
    uint32_t what; /* enum order */
    char path[];   /* ended by NUL */
};

struct message_order_done {
    uint64_t number;
    uint64_t affected; /* cache entries that were taken out */
};

/* A client connection between two requests. */
struct message_connection {
    uint8_t address[CLIENT_ADDRESS_BYTES];
    uint32_t requests; /* answered so far */
    uint32_t length;   /* unread bytes that follow */
    uint32_t admitted; /* 1: a worker had it before */
    char bytes[];
};

/* A connection with more unread bytes than this finishes where it is. */
enum { PASSED_BYTES_MAX = 48 * 1024 };

#endif
