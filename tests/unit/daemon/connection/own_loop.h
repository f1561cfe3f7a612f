/*
 * An event loop that only the test runs, of a worker with its segment, and a protocol whose
 * connections only count what is called.
 */
#ifndef TESTS_UNIT_DAEMON_CONNECTION_OWN_LOOP_H
#define TESTS_UNIT_DAEMON_CONNECTION_OWN_LOOP_H

#include "common/clock.h"
#include "common/macros.h"
#include "daemon/connection/lifecycle.h"
#include "daemon/connection/timeouts.h"
#include "tests/test.h"
#include "tests/unit/mailbox_items.h"
#include "tests/unit/own_segment.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LOOP_NOW_NS (1000 * NS_PER_S)

static struct segment segment;
static struct config config;
static struct site site;
static struct worker_shortages shortages;
static struct mailbox main_thread;
static struct worker_context worker;
static struct event_loop loop; /* too large for the stack */
static struct loop_space space;
static struct connection *last; /* the last one that began */
static int begun;               /* connections, with the loop's protocol */
static unsigned shed_requests;  /* to other threads */

static inline void loop_ignore(struct connection *connection)
{
    (void)connection;
}

static inline void loop_begun(struct connection *connection)
{
    begun++;
    last = connection;
    connection_wait(connection, EV_READ, DEADLINE_KEEPALIVE);
}

static inline void loop_moved(struct connection *connection, bool leaving)
{
    (void)connection, (void)leaving;
}

static inline void loop_free_members(struct connection *connection, struct cache *cache)
{
    (void)connection, (void)cache;
}

static inline void loop_ready(evutil_socket_t fd, short what, void *argument)
{
    (void)fd, (void)what, (void)argument;
}

static const struct connection_protocol loop_protocol = {
    .connection_bytes = sizeof(struct connection),
    .init = loop_ignore,
    .accepted = loop_begun,
    .ready = loop_ready,
    .moved = loop_moved,
    .abort = loop_ignore,
    .free = loop_free_members,
};

static inline void loop_count_request(struct mailbox_item *item, void *receiver)
{
    (void)receiver;
    assert_ptr_equal(item, &loop.shed.item);
    shed_requests++;
}

static inline uint64_t loop_metric(enum metric metric)
{
    return metric_get(loop.context.metrics, metric);
}

static inline void loop_on_timer(evutil_socket_t fd, short what, void *argument)
{
    (void)fd, (void)what, (void)argument;
}

static inline void loop_open(void)
{
    memset(&loop, 0, sizeof(loop));
    config = (struct config){.connections_max = 0};
    shortages = (struct worker_shortages){.deliver_sweep = NULL};
    assert_int_equal(own_segment_create(&segment, (struct segment_plan){0}), 0);
    assert_int_equal(segment_reserve_worker(&segment, 0), 0);
    assert_int_equal(segment_reserve_thread(&segment, 0), 0);
    assert_int_equal(mailbox_open(&main_thread, 0, NULL), 0);
    assert_int_equal(mailbox_open(&loop.mailbox, 0, NULL), 0);
    worker = (struct worker_context){.config = &config,
                                     .segment = &segment,
                                     .shortages = &shortages,
                                     .sites = {.site = &site, .count = 1},
                                     .main = &main_thread,
                                     .doorbell = -1};
    loop.base = event_base_new();
    assert_non_null(loop.base);
    loop.space = &space;
    loop.protocol = &loop_protocol;
    loop.pass_shed_request = loop_count_request;
    loop.log_retry = event_new(loop.base, -1, 0, loop_on_timer, NULL);
    loop.listen_retry = event_new(loop.base, -1, 0, loop_on_timer, NULL);
    assert_true(loop.log_retry != NULL && loop.listen_retry != NULL);
    loop.context = (struct transaction_context){.worker = &worker,
                                                .mailbox = &loop.mailbox,
                                                .metrics = segment_thread(&segment, 0)->metrics,
                                                .activity = &segment_thread(&segment, 0)->activity,
                                                .loop_now_ns = LOOP_NOW_NS};
    loop.context.prefixes.server = header_rules_value(&site.headers, NULL, "Server");
    response_prefixes_update(&loop.context.prefixes, 1);
    for (int i = 0; i < DEADLINE_COUNT; i++)
        TAILQ_INIT(&loop.connections[i]);
    last = NULL;
    begun = 0;
    shed_requests = 0;
}

static inline void loop_close(void)
{
    connections_close(&loop, false);
    event_free(loop.log_retry);
    event_free(loop.listen_retry);
    event_base_free(loop.base);
    mailbox_close(&loop.mailbox);
    mailbox_close(&main_thread);
    segment_destroy(&segment);
}

/* Runs what is due, without waiting. */
static inline void loop_run(void)
{
    event_base_loop(loop.base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
}

#endif
