/*
 * A client connection of any protocol version, and the event loop of the serving thread that owns
 * it. Only one thread at a time uses a connection; it moves to another thread as a mailbox item. An
 * idle connection has no buffer.
 *
 * A protocol fills struct connection_protocol and embeds struct connection in its own struct.
 */
#ifndef DAEMON_CONNECTION_CONNECTION_H
#define DAEMON_CONNECTION_CONNECTION_H

#include "daemon/connection/read_buffer.h"
#include "daemon/connection/transport.h"
#include "daemon/transaction/transaction.h"

#include <event2/event.h>
#include <event2/event_struct.h>
#include <sys/queue.h>

struct connection;
struct listen_socket;
TAILQ_HEAD(connection_list, connection);

/* Mailbox items to a serving thread. */
enum loop_item {
    ITEM_CONNECTION,         /* struct connection: adopt it */
    ITEM_ARRIVAL,            /* struct arrival: make it a connection */
    ITEM_LISTEN_SOCKET_ADD,  /* struct listen_socket: accept from it */
    ITEM_LISTEN_SOCKET_DROP, /* struct listen_socket: close it */
    ITEM_LEAVE,              /* struct serving_thread: exit in the mode that it names */
    ITEM_SWEEP,              /* struct sweep_item: sweep the thread's caches and post it back */
    ITEM_OFFLOADED = OFFLOAD_ITEM,
};

/* Mailbox items to the worker's main thread. */
enum main_item {
    ITEM_HANDED_OVER = 100, /* struct connection: its thread has handed it over */
    ITEM_THREAD_ENDED,      /* struct serving_thread: join it */
    ITEM_SWEPT,             /* struct sweep_item */
};

enum thread_mode {
    THREAD_SERVING,
    THREAD_MOVING,   /* hands all connections over to sibling threads */
    THREAD_DRAINING, /* hands idle ones over to other workers, finishes the rest */
    THREAD_STOPPING, /* finishes current requests, closes the rest */
    THREAD_RETIRING, /* closes each connection after its next response */
};

/* What a connection waits for. */
enum deadline {
    DEADLINE_KEEPALIVE, /* the next request */
    DEADLINE_HEADER,    /* the rest of a request head */
    DEADLINE_BODY,      /* the rest of a request body */
    DEADLINE_SEND,      /* the client to receive a response */
    DEADLINE_LINGER,    /* the client to close after its last response */
    DEADLINE_NONE,      /* an offload job, or space in the log ring */
    DEADLINE_COUNT
};

enum { LOOP_READ_BYTES = 64 * 1024 };

/* Bytes read from a connection that have not been served yet. */
struct read_ahead {
    struct connection *connection; /* NULL: none */
    const char *data;              /* in the loop's read_space */
    size_t length;
};

/* The event loop of a serving thread. Only that thread uses it; others post to the mailbox. */
struct event_loop {
    struct event_base *base;
    struct mailbox mailbox;
    const struct connection_protocol *protocol; /* of accepted connections */
    enum thread_mode mode;
    bool log_full; /* some connections wait with DEADLINE_NONE for space in the log ring */
    struct event *log_retry, *listen_retry;
    LIST_HEAD(, listen_socket) listen_sockets;
    struct connection_list connections[DEADLINE_COUNT]; /* every connection is in one list */
    struct read_ahead ahead;                            /* within a loop iteration */
    struct transaction_context context;
    char read_space[2][LOOP_READ_BYTES];
};

struct connection {
    struct mailbox_item item;
    struct event event; /* readable, or writable while a response is unsent */
    TAILQ_ENTRY(connection) link;
    struct event_loop *loop; /* NULL while it is handed over */
    const struct connection_protocol *protocol;
    const struct transport *transport;
    struct read_buffer *unserved; /* read but not served; NULL: nothing */
    uint64_t deadline_from_ns;
    int fd;
    int unsent;       /* bytes that the client had not acknowledged at the last check */
    uint8_t deadline; /* enum deadline: the list that it is in */
    uint8_t watching; /* EV_READ, EV_WRITE, or 0: what event is added for */
    bool lingering;   /* the last response is sent; further bytes of the client are discarded */
    bool log_blocked; /* waits for space in the log ring */
    struct client client;
};

/* The operations of a protocol. On the owning thread unless noted. */
struct connection_protocol {
    size_t
        connection_bytes; /* size of the protocol's struct, which begins with struct connection */

    /* Initialises the protocol's members, which are all zero. */
    void (*init)(struct connection *connection);
    /* Starts a new connection, whose first request has often arrived with it. */
    void (*accepted)(struct connection *connection);
    /* The event callback: CONNECTION is readable or writable. */
    event_callback_fn ready;
    /* Serves bytes that were read ahead. */
    void (*serve)(struct connection *connection, const char *data, size_t length);
    /*
     * Continues with unsent responses and unserved bytes: after an adoption, or when the log ring
     * has space.
     */
    void (*resume)(struct connection *connection);
    /* A deadline has passed: sends an error response and closes, or closes. */
    void (*timed_out)(struct connection *connection);
    /* True if no response is unsent and no request body incomplete. */
    bool (*is_between_requests)(const struct connection *connection);
    /* The connection has been adopted by a thread (LEAVING false) or is about to leave it. */
    void (*moved)(struct connection *connection, bool leaving);
    /* The connection closes: counts and logs an unsent response. */
    void (*abort)(struct connection *connection);
    /* Frees the protocol's members. No thread owns the connection; any thread. */
    void (*free)(struct connection *connection, struct cache *cache);
};

/* Reads the clock if this loop iteration has not read it yet. */
void loop_begin_iteration(struct event_loop *loop);

/*
 * Every event callback must call this first, except those of connections, which call
 * loop_begin_iteration(). Also serves what was read ahead, so that no connection has unserved bytes
 * outside its own buffer.
 */
void loop_enter(struct event_loop *loop);

/* Serves what was read ahead. */
void loop_serve_ahead(struct event_loop *loop);

#endif
