/* A connection of HTTP/2 without a socket, whose SETTINGS have arrived; for the tests of http2/. */
#ifndef TESTS_UNIT_BARE_CONNECTION_H
#define TESTS_UNIT_BARE_CONNECTION_H

#include "common/segment_writer.h"
#include "daemon/http2/stream.h"

#include <stdlib.h>
#include <string.h>

enum { INITIAL_WINDOW = 1000 }; /* of the client's SETTINGS */

static struct segment_thread block; /* with the metrics */
static struct worker_context worker;
static struct event_loop loop;
static struct http2_connection http2;

static inline void bare_connection_open(void)
{
    static struct histogram latency[OUTCOME_COUNT];

    memset(&block, 0, sizeof(block));
    memset(&http2, 0, sizeof(http2));
    loop.context = (struct transaction_context){
        .worker = &worker, .metrics = block.metrics, .latency = latency, .loop_now_ns = 1};
    http2.connection.loop = &loop;
    http2.settings = http2_settings_initial;
    http2.settings.initial_window = INITIAL_WINDOW;
    http2.receive_window = WINDOW_INITIAL;
    http2.send_window = WINDOW_INITIAL;
    http2.started = true;
    TAILQ_INIT(&http2.streams);
    for (int i = 0; i < URGENCY_COUNT; i++)
        TAILQ_INIT(&http2.ready[i]);
}

static inline void bare_connection_close(void)
{
    while (!TAILQ_EMPTY(&http2.streams))
        stream_free(TAILQ_FIRST(&http2.streams), NULL);
    stream_free_spare(&http2);
    free(http2.block);
}

static inline uint64_t metric_of(enum metric metric)
{
    return metric_get(block.metrics, metric);
}

#endif
