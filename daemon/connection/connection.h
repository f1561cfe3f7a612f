/*
 * A client connection of any protocol version, and the event loop of the serving thread that owns
 * it. Only one thread at a time uses a connection; it moves to another thread as a mailbox item. An
 * idle connection has no buffer.
 *
 * A protocol fills struct connection_protocol and embeds struct connection in its own struct.
 */
#ifndef DAEMON_CONNECTION_CONNECTION_H
#define DAEMON_CONNECTION_CONNECTION_H

#include "daemon/tls/record_size.h"
#include "daemon/transaction/transaction.h"

#include <event2/event.h>
#include <event2/event_struct.h>
#include <sys/queue.h>

struct connection;
struct connection_queue;
struct listen_socket;
struct signer;
struct tls_session;
struct transport;
struct unsent_output;
TAILQ_HEAD(connection_list, connection);

enum thread_mode {
    THREAD_SERVING,
    THREAD_MOVING,   /* hands all connections over to sibling threads */
    THREAD_DRAINING, /* hands idle ones over to other workers, finishes the rest */
    THREAD_CLOSING,  /* serves, but closes each connection after its next response */
    THREAD_STOPPING, /* finishes requests that have arrived, closes the rest */
    THREAD_RETIRING, /* the same as CLOSING, but accepts no connections and exits without them */
    THREAD_MODES
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

enum {
    LOOP_READ_BYTES = 64 * 1024,
    LOOP_HEAD_BYTES = 257 * 1024,
    BATCH_BYTES = 64 * 1024, /* sent at once over TLS */
    /* A record, or all records of the smallest fragments that a client may require (RFC 6066). */
    SEALED_RECORD_MAX = RECORD_MAX_BYTES + 3 * 1024,
    SEALED_BYTES = BATCH_BYTES + 2 * SEALED_RECORD_MAX,
};

/*
 * Buffers for one iteration of an event loop. Mapped, so that pages that are never used take no
 * memory.
 */
struct loop_space {
    char read[2][LOOP_READ_BYTES];
    char tls_plain[BATCH_BYTES];    /* what a write over TLS encrypts... */
    char tls_records[SEALED_BYTES]; /* ...and the result */
    char head[LOOP_HEAD_BYTES];     /* where HTTP/2 decodes the head of a request */
};

/* Bytes read before they could be served. See read_buffer.h. */
struct read_buffer {
    size_t length, size;
    char bytes[];
};

/* Bytes read from a connection that have not been served yet. */
struct read_ahead {
    struct connection *connection; /* NULL: none */
    const char *data;              /* points into the read space of the loop */
    size_t length;
};

/* A request to close idle connections; goes from thread to thread. See listen_socket.h. */
struct shed_request {
    struct mailbox_item item;
    mailbox_deliver_fn *pass; /* passes it on; on the main thread */
    struct mailbox *asker;    /* NULL: the main thread */
    enum shortage reason;
    uint32_t wanted, closed; /* connections */
    uint32_t visited;        /* threads */
};

/* A thread that waits for a change of a connection queue. See connection_queue.h. */
struct queue_waiter {
    struct mailbox_item item;
    mailbox_deliver_fn *deliver;
    struct mailbox *mailbox;
    TAILQ_ENTRY(queue_waiter) link;
    struct waiter_list *list; /* of the queue, that it is in; NULL: does not wait */
    bool posted;              /* its item is in the mailbox */
};

/* The event loop of a serving thread. Only that thread uses it; others post to the mailbox. */
struct event_loop {
    struct event_base *base;
    struct mailbox mailbox;                /* the receiver of its items is this struct */
    mailbox_deliver_fn *pass_connection;   /* delivers a connection that was handed over */
    mailbox_deliver_fn *pass_shed_request; /* see struct shed_request; both: on the main thread */
    const struct connection_protocol *protocol; /* what a connection speaks after its opening */
    const struct connection_protocol
        *http2; /* what it speaks after the preface of HTTP/2; NULL: off */
    enum thread_mode mode;
    bool log_full; /* some connections wait with DEADLINE_NONE for space in the log ring */
    struct event *log_retry, *listen_retry;
    LIST_HEAD(, listen_socket) listen_sockets;
    struct connection_list connections[DEADLINE_COUNT]; /* every connection is in one list */
    struct read_ahead ahead;                            /* within a loop iteration */
    struct shed_request shed;                           /* the own request... */
    bool shed_pending;                                  /* ...is under way */
    uint64_t shed_after_ns;                             /* no other one before; monotonic */
    struct tls_context *tls;        /* of new connections, a reference; NULL: none uses TLS */
    struct connection_queue *queue; /* NULL: the model is events */
    struct queue_waiter waiter;     /* for a connection, or an acceptor's for room in queue */
    bool acceptor;         /* puts new connections into queue, and serves those that it drops */
    struct signer *signer; /* has the keys process sign; NULL: the keys are in this process */
    struct transaction_context context;
    struct loop_space *space;
};

struct connection {
    struct mailbox_item item;
    struct event event; /* readable, or writable while a response is unsent */
    TAILQ_ENTRY(connection) link;
    struct event_loop *loop; /* NULL while it is handed over */
    const struct connection_protocol *protocol;
    const struct transport *transport;
    struct tls_session *tls;      /* NULL: not encrypted */
    struct read_buffer *unserved; /* read but not served; NULL: nothing */
    struct unsent_output *unsent; /* NULL: everything is written */
    uint64_t deadline_from_ns;
    uint64_t linger_from_ns; /* when lingering began, or unacknowledged was last measured */
    /* The client's rate is measured since send_from_ns; 0: not yet. */
    uint64_t send_from_ns;
    uint64_t send_bytes; /* not acknowledged then, or sent since */
    int fd;
    int unacknowledged; /* bytes that the client had not acknowledged at the last check */
    uint8_t deadline;   /* enum deadline: the list that it is in */
    uint8_t opening;    /* enum opening: what comes before HTTP and is not done; TLS: not begun */
    uint8_t watching;   /* EV_READ, EV_WRITE, or 0: what event is added for */
    bool lingering;     /* the last response is sent; further bytes of the client are discarded */
    bool abandoned;     /* closes when the offload jobs that refer to it are done */
    bool counted_busy;  /* counted in the gauge connections_busy */
    bool log_blocked;   /* waits for space in the log ring */
    bool buffered;      /* the transport holds bytes of the client, so no event may report them */
    bool awaits_http2;  /* ALPN has selected it: the client must begin with its preface */
    bool idle; /* was not active when it moved to this thread, and has had no request since */
    uint32_t destination; /* while handed over: number of a thread, or enum destination */
    struct client client;
};

/* Where a connection goes that its thread hands over. */
enum destination {
    DESTINATION_ANY = UINT32_MAX - 1, /* a sibling thread, or without one the master */
    DESTINATION_MASTER = UINT32_MAX,  /* the master, which passes it to another worker */
};

/* Why it goes. */
enum move_reason {
    MOVE_LEAVING, /* its thread or worker exits */
    MOVE_RESIZE,  /* threads or workers were added */
    MOVE_UNEVEN,  /* some threads or workers have more to do than others */
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
    /* Serves bytes that were read ahead; NULL if the protocol reads nothing ahead. */
    void (*serve)(struct connection *connection, const char *data, size_t length);
    /*
     * Size of the file that the first request, which begins with DATA, is for, without waiting for
     * a disk; 0: unknown. NULL if the protocol has no such request. Any thread.
     */
    uint64_t (*file_bytes)(const struct worker_context *worker, const char *data, size_t length);
    /*
     * Continues with unsent responses and unserved bytes: after an adoption, or when the log ring
     * has space.
     */
    void (*resume)(struct connection *connection);
    /* A deadline has passed: sends an error response and closes, or closes. */
    void (*timed_out)(struct connection *connection);
    /*
     * True if no response is unsent, no request body incomplete, and there is no other state that
     * another worker would need.
     */
    bool (*is_between_requests)(const struct connection *connection);
    /*
     * Only of a protocol whose connections cannot go to another worker, else NULL. The thread's
     * mode requires the end of the connection: the same as resume(), but it ends when the
     * requests that have arrived are finished.
     */
    void (*drain)(struct connection *connection);
    /* The connection has been adopted by a thread (LEAVING false) or is about to leave it. */
    void (*moved)(struct connection *connection, bool leaving);
    /* The connection closes: counts and logs unsent responses. */
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
