/*
 * libcurl's sockets and timers on a libevent loop: what curl_multi_socket_action() asks of its
 * user.
 *
 * libcurl takes a socket back from its user whenever a request is over and asks for it again with
 * the next one. Obeying would cost two epoll_ctl() calls a request, so a connection that is taken
 * back is only marked as parked and stays registered; if the server then closes or speaks, it is
 * taken out for good. That needs word of every close, which libcurl gives for the sockets it opened
 * through us.
 *
 * All functions: the thread of the loop.
 */
#ifndef LOADGEN_CURL_SOCKETS_H
#define LOADGEN_CURL_SOCKETS_H

#include <stdbool.h>
#include <stdint.h>

#include <curl/curl.h>
#include <event2/event.h>

struct curl_sockets;

/* A multi handle on the loop. Its user embeds it. */
struct curl_group {
    struct curl_sockets *sockets;
    CURLM *multi;
    struct event *timer;
    uint64_t timer_due_ns;   /* what libcurl asked for, monotonic; UINT64_MAX: nothing */
    uint64_t timer_armed_ns; /* when the event fires: never later than due; UINT64_MAX: not armed */
    bool in_turn;            /* libcurl is being run: the timer is armed once, at the end */
    int running;             /* transfers not ended, as libcurl said last */
    void (*ended)(struct curl_group *group); /* called when there may be messages to read */
};

/* Returns NULL when there is no memory. */
struct curl_sockets *curl_sockets_create(struct event_base *base);

/* After all groups and easy handles are gone. */
void curl_sockets_destroy(struct curl_sockets *sockets);

/* Makes EASY open and close its sockets through SOCKETS. Returns false when libcurl refuses. */
bool curl_sockets_adopt(struct curl_sockets *sockets, CURL *easy);

/* Sets *group up; ENDED as above. Returns false when there is no memory. */
bool curl_group_begin(struct curl_group *group, struct curl_sockets *sockets,
                      void (*ended)(struct curl_group *group));

/*
 * Runs transfers that were just added: their requests go out now, not in the loop's next turn. Not
 * from within libcurl. It does not call ended().
 */
void curl_group_run_added(struct curl_group *group);

/* Makes the loop call ended() in its next turn. */
void curl_group_call_again(struct curl_group *group);

/* After all its easy handles were removed. */
void curl_group_end(struct curl_group *group);

#endif
