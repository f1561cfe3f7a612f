/*
 * libcurl's sockets and timers on a libevent loop, for curl_multi_socket_action().
 *
 * libcurl unregisters a socket after each request and registers it again for the next one, which
 * would cost two epoll_ctl() calls per request. Instead, an unregistered socket is only marked as
 * parked and stays in epoll; if an event then arrives, it is removed. This requires notice of every
 * close, which libcurl gives for sockets that it opened through CURLOPT_OPENSOCKETFUNCTION.
 *
 * All functions: the thread of the loop.
 */
#ifndef LOADGEN_CURL_SOCKETS_H
#define LOADGEN_CURL_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <curl/curl.h>
#include <event2/event.h>

struct curl_sockets;

/* A multi handle on the loop; embedded in its owner. */
struct curl_group {
    struct curl_sockets *sockets;
    CURLM *multi;
    struct event *timer;
    uint64_t timer_due_ns;   /* timeout requested by libcurl, monotonic; UINT64_MAX: none */
    uint64_t timer_armed_ns; /* when the event fires, never later than due; UINT64_MAX: not armed */
    bool in_action;          /* inside run_action(), which arms the timer at its end */
    int running;             /* transfers in flight, as of the last libcurl call */
    bool closed;             /* libcurl closed a socket in this action */
    void (*ended)(struct curl_group *group); /* curl_multi_info_read() may have results */
    /* Bytes arrived on an idle socket; NULL: ignored, because TLS or HTTP/2 may send them. */
    void (*unsolicited)(struct curl_group *group);
};

/* Returns NULL if out of memory. */
struct curl_sockets *curl_sockets_create(struct event_base *base);

/* Call after all groups and easy handles have been destroyed. */
void curl_sockets_destroy(struct curl_sockets *sockets);

/* Whether FD, which does not block, has bytes to read; not if the peer has only closed it. */
bool curl_sockets_has_bytes(int fd);

/* Makes EASY open and close its sockets through SOCKETS. Returns false if libcurl rejects it. */
bool curl_sockets_adopt(struct curl_sockets *sockets, CURL *easy);

/*
 * Starts newly added transfers immediately instead of in the next loop iteration. Does not call
 * ended(). Must not be called from a libcurl callback.
 */
void curl_group_run_added(struct curl_group *group);

/*
 * Makes libcurl check the sockets and timeouts of EASY, an unfinished transfer that has its sockets
 * for itself. May call ended(). Must not be called from a libcurl callback.
 */
void curl_group_check(struct curl_group *group, const CURL *easy);

/* Makes the loop call ended() in its next iteration. */
void curl_group_call_again(struct curl_group *group);

/* The groups of an engine, which assigns its slots to them in order. Embedded in the engine. */
struct curl_groups {
    struct curl_sockets *sockets;
    void (*ended)(struct curl_group *group);       /* called when transfers of a group ended */
    void (*unsolicited)(struct curl_group *group); /* the same */
    size_t group_bytes; /* an engine's group begins with a struct curl_group */
    uint32_t slots_per_group;
    struct curl_group **group;
    uint32_t count;
};

/*
 * The group of SLOT. The first slot of a group creates it, all zero after the struct curl_group.
 * Returns NULL if out of memory. curl_groups_end() releases it.
 */
struct curl_group *curl_groups_get(struct curl_groups *groups, uint32_t slot);

/* Call after all easy handles of the groups have been removed. */
void curl_groups_end(struct curl_groups *groups);

#endif
