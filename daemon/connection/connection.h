/*
 * A client connection. It belongs to one serving thread at a time and is touched by no other; it
 * travels between threads as an item. An idle one keeps no buffer.
 *
 *   adopt ─▶ readable ─▶ serve: parse, exchange, … ─▶ flush ─▶ (rest left: writable …) ─▶ at rest
 *                            └─▶ job out ─▶ loaded ─▶ the same request again, now with the answer
 */
#ifndef DAEMON_CONNECTION_H
#define DAEMON_CONNECTION_H

#include "daemon/connection/transport.h"
#include "daemon/worker/thread.h"

struct input;
struct load_job;
struct pending;
struct receiving;

struct connection {
    struct mailbox_item item;
    struct event event; /* readable, or writable while an answer waits for its client */
    TAILQ_ENTRY(connection) link;
    struct serving_thread *thread;
    const struct transport *transport;
    struct input *input;         /* NULL: nothing kept */
    struct receiving *receiving; /* NULL: no body comes in */
    struct pending *pending;     /* NULL: no answer is half sent */
    struct load_job *loaded;     /* what offload threads brought for the request under way */
    size_t scanned;              /* of input, by the parser */
    uint64_t began_ns;           /* when the request under way was first looked at; 0: none waits */
    uint64_t deadline_from_ns;
    int fd;
    int unsent;         /* bytes the client had not acknowledged when it was last looked at */
    uint32_t requests;  /* answered, or being so */
    uint8_t deadline;   /* enum deadline: the list it is in */
    uint8_t watching;   /* EV_READ, EV_WRITE or 0: what event is added for */
    bool closing;       /* no request follows the answer under way */
    bool linger_wanted; /* the client may still be sending: close only after a while */
    bool lingering;     /* the answer is sent, the client's last bytes are thrown away */
    bool job_out;       /* an offload thread works for it */
    bool log_blocked;   /* waits for room in the log ring */
    bool counted_busy;  /* in the connections_busy gauge */
    bool counted_peer;  /* among the connections of its address */
    bool came_over; /* from another worker, with other limits perhaps; see admission_outgrown() */
    uint8_t address[CLIENT_ADDRESS_BYTES];
};

/* Makes ARRIVAL (freed here, its descriptor taken over) a connection of THREAD, and serves it. */
void connection_adopt_arrival(struct serving_thread *thread, struct arrival *arrival);

/* The same for a descriptor fresh from a lane. */
void connection_accept(struct serving_thread *thread, int fd,
                       const uint8_t address[CLIENT_ADDRESS_BYTES]);

/* Takes over a connection that another thread has handed over. */
void connection_adopt(struct serving_thread *thread, struct connection *connection);

/* Ends it. Not while a job is out. */
void connection_close(struct connection *connection);

/* Gives it away or closes it when its thread's mode demands that; true when it did. */
bool connection_obey_mode(struct connection *connection);

/* The same for all connections of a thread. */
void connections_obey_mode(struct serving_thread *thread);

/* Makes an arrival of a connection that is between two requests: the descriptor moves to the
 * arrival, the connection is freed. NULL: out of memory, and the connection is discarded. Any
 * thread. */
struct arrival *connection_to_arrival(struct connection *connection, const struct site *site);

#endif
