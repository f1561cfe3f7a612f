/*
 * A wire is what the engine for full speed has for a slot: a connection, or the place for one, that
 * carries one request at a time. libcurl makes the connection (names, TLS, proxies, UNIX sockets) with
 * CURLOPT_CONNECT_ONLY; over it the request goes out as it was made before the run, and the answer is
 * read by response.c. On a plain connection that costs one send() and one recv().
 *
 * A plain connection is taken away from libcurl by a second descriptor of the same socket. One with TLS
 * stays with its easy handle, in a multi handle of its own: whenever libcurl makes another connection
 * there, it looks through those that it has and closes what has something to read.
 *
 * A wire belongs to its engine's thread.
 */
#ifndef LOADGEN_WIRE_H
#define LOADGEN_WIRE_H

#include "loadgen/base/stream.h"
#include "loadgen/engine/curl_sockets.h"
#include "loadgen/engine/engine.h"
#include "loadgen/engine/response.h"
#include "loadgen/plan/body_check.h"

#include <event2/event.h>

struct wire;

/* What the wires of an engine have together; outlives them. */
struct wire_room {
    struct engine_place place;
    char *buffer;        /* for what is read next */
    struct wire *broken; /* a list of those that failed when the driver could not be told */
    struct event *tell;  /* of them, in a turn of the loop of its own */
    struct error_texts error_texts;
};

/* Returns false when there is no memory; wire_room_end() releases either way. */
bool wire_room_begin(struct wire_room *room, const struct engine_place *place);
void wire_room_end(struct wire_room *room);

enum wire_state {
    WIRE_DOWN,
    WIRE_CONNECTING,
    WIRE_FREE,      /* up, between two requests */
    WIRE_SENDING,   /* some of the request is still to be sent */
    WIRE_RECEIVING, /* all was sent */
    WIRE_BROKEN,    /* failed, and the driver is to hear of it in the loop */
};

struct wire {
    struct wire_room *room;
    struct curl_group *group; /* whose multi handle makes the connection */
    struct stream stream;
    struct event *readable, *writable;
    uint32_t slot;
    enum wire_state state;
    bool in_multi; /* libcurl has it: it is coming up, or it has TLS */
    bool fresh;    /* it came up for the request under way */
    uint32_t origin;
    uint32_t requests; /* on this connection */
    const struct request *request;
    size_t sent;
    uint64_t begun_ns, connect_ns, first_byte_ns;
    enum error_kind error; /* of BROKEN */
    struct response response;
    struct body_check check;
    struct wire *next_broken;
    char said[CURL_ERROR_SIZE];
};

/*
 * Sets up *wire, all zero before, for SLOT. Returns false when there is no memory; wire_release() takes
 * down and releases either way, also one that was never set up.
 */
bool wire_set_up(struct wire *wire, struct wire_room *room, struct curl_group *group,
                 struct curl_sockets *sockets, uint32_t slot);
void wire_release(struct wire *wire);

/* Begins REQUEST on a wire that carries none. The driver hears of its end in the loop. */
void wire_begin(struct wire *wire, const struct request *request, uint64_t now_ns);

/* Closes the connection, if there is one; the driver is not told. */
void wire_take_down(struct wire *wire);

/* What became of the connection that libcurl was asked for. From the loop. */
void wire_connected(struct wire *wire);
void wire_not_connected(struct wire *wire, CURLcode code);

/* Gives the request under way up, and tells the driver, if it takes longer than the plan allows. */
void wire_look_at_time(struct wire *wire, uint64_t now_ns);

#endif
