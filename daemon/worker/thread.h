/*
 * A serving thread: an event base, its lanes, its connections and its block of shared memory. It
 * does all of a request. Others reach it only through its mailbox.
 *
 * The struct is open to the rooms that a request passes through (connection, exchange, sending,
 * account), which all run on this thread; nobody else touches it while the thread lives, except
 * where a function says "any thread".
 */
#ifndef DAEMON_THREAD_H
#define DAEMON_THREAD_H

#include "common/segment.h"
#include "daemon/content/directory_check.h"
#include "daemon/content/thread_cache.h"
#include "daemon/http/coding.h"
#include "daemon/http/response.h"
#include "daemon/transaction/output_buffer.h"
#include "daemon/worker/context.h"

#include <event2/event.h>
#include <event2/event_struct.h>
#include <pthread.h>
#include <sys/queue.h>

struct connection;
TAILQ_HEAD(connection_list, connection);

/* Letters to a serving thread. */
enum thread_item {
    ITEM_CONNECTION, /* struct connection: adopt it */
    ITEM_ARRIVAL,    /* struct arrival: a connection that is not one yet */
    ITEM_LANE_ADD,   /* of a struct lane: accept from it */
    ITEM_LANE_DROP,  /* of a struct lane: let go of it */
    ITEM_LEAVE,      /* of struct serving_thread: go, in the mode that it names */
    ITEM_LOADED,     /* struct load_job: come back from an offload thread */
    ITEM_WARMED,     /* struct warm_job: come back from an offload thread */
    ITEM_SWEEP,      /* struct sweep_item: sweep the thread cache and send it back */
};

/* Letters to the worker's main thread. */
enum main_item {
    ITEM_HANDED_OVER = 100, /* struct connection: the sender serves it no more */
    ITEM_THREAD_ENDED,      /* struct serving_thread: join it */
    ITEM_SWEPT,             /* struct sweep_item */
};

/* A connection on its way in: a descriptor and what is known of it. */
struct arrival {
    struct mailbox_item item;
    int fd;
    uint8_t address[CLIENT_ADDRESS_BYTES];
    uint32_t requests;
    uint32_t length;
    bool admitted; /* it was open already, in another thread or worker */
    char bytes[];
};

/* Goes to a thread and back; see daemon/worker/broadcast.h. */
struct sweep_item {
    struct mailbox_item item;
    struct order_under_way *order;
};

enum thread_mode {
    THREAD_SERVING,
    THREAD_MOVING,   /* gives every connection to the main thread, for its siblings */
    THREAD_DRAINING, /* gives those between two requests, for another worker; finishes the others */
    THREAD_STOPPING, /* finishes the requests under way, closes the rest */
    THREAD_RETIRING, /* closes each connection behind its next answer */
};

enum deadline {
    DEADLINE_KEEPALIVE, /* between two requests */
    DEADLINE_HEADER,    /* a request head is coming in */
    DEADLINE_BODY,      /* a request body is coming in */
    DEADLINE_SEND,      /* the client takes an answer */
    DEADLINE_LINGER,    /* closing: waits for the client to see the last answer */
    DEADLINE_NONE,      /* a job is out, or the log is full */
    DEADLINE_COUNT
};

/* The last Accept-Encoding line, and what it means. */
struct accepted {
    size_t length;
    coding_preference preference;
    char line[108];
};

enum { THREAD_INPUT_BYTES = 64 * 1024 };

struct lane;

/* What has been read from a connection and is not served yet; connection NULL: nothing. */
struct held_input {
    struct connection *connection;
    const char *data; /* in one of the thread's inputs */
    size_t length;
};

struct serving_thread {
    struct mailbox_item leave; /* from the main thread, with... */
    enum thread_mode leaving;  /* ...how to go; not to be read before it came */
    struct mailbox_item ended; /* to the main thread, at the end */
    _Atomic uint64_t beat_ns;  /* when its loop last turned, to a second or so; monotonic clock */
    pthread_t id;
    const struct site *site;
    uint32_t index; /* among the worker's threads */
    uint32_t slot;  /* in the segment */
    enum thread_mode mode;
    uint64_t mode_since_ns;

    struct event_base *base;
    struct mailbox mailbox;
    struct event *mail, *tick, *log_retry, *lane_retry;
    LIST_HEAD(, lane) lanes;
    struct thread_cache *thread_cache; /* NULL: cache off */
    struct accepted accepted;
    uint64_t swept;                        /* see cache_wants_sweep() */
    struct directory_check directory;      /* that files were last checked in */
    struct negative_cache *negative_cache; /* NULL: cache off, or files are looked at each time */

    /* Published: its own block in the segment. */
    struct segment_activity *activity;
    _Atomic uint64_t *metrics;
    struct histogram *latency; /* by outcome */
    struct log_ring *ring;     /* NULL: access log off */
    bool doorbell_rung;        /* the ring was over half full, and the logger knows */
    uint64_t ring_reserved;    /* words promised to answers that are still being sent */

    /* The turn of the loop: one reading of the clock for all that one wake-up brings. */
    uint64_t turn_ns;        /* monotonic; 0: not read in this turn */
    uint64_t wall_offset_ns; /* wall clock minus monotonic clock, renewed every second */
    struct response_prefixes prefixes;

    struct connection_list connections[DEADLINE_COUNT]; /* each connection is in one */
    uint64_t crowd;    /* connections open in all workers, counted... */
    uint64_t crowd_ns; /* ...in the turn of that time; 0: one has come in since */
    bool log_full;     /* some connections wait in DEADLINE_NONE for room in the ring */
    uint32_t jobs_out;

    /* Of all workers; see crowding.h. */
    uint32_t threads_seen;
    bool crowded;

    struct output output;
    struct held_input held; /* within a turn; see serving.h */
    char input[2][THREAD_INPUT_BYTES];
};

/* Makes a thread for SLOT; it serves once thread_start() succeeded. NULL with errno. The main
 * thread. */
struct serving_thread *thread_new(const struct site *site, uint32_t index, uint32_t slot);
int thread_start(struct serving_thread *thread);

/* After ITEM_THREAD_ENDED (or when it was never started): joins and frees. The main thread. */
void thread_free(struct serving_thread *thread, bool started);

/* Tells the thread to go, in one of the modes other than THREAD_SERVING; once. The main thread. */
void thread_tell_leave(struct serving_thread *thread, enum thread_mode mode);

/* When its loop was last seen to turn, monotonic clock. Any thread. */
uint64_t thread_beat_ns(const struct serving_thread *thread);

/* Connections open and on their way in. Any thread. */
uint64_t thread_load(const struct serving_thread *thread);

#endif
