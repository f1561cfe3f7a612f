#include "daemon/transaction/admission.h"

#include "common/client_address.h"
#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/config/value.h"
#include "daemon/transaction/limits.h"

#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

bool admission_of_request(struct transaction *transaction)
{
    const struct transaction_context *context = transaction->context;
    const struct worker_context *worker = context->worker;
    const uint8_t *address = transaction->address;
    bool counted = transaction->state->began_ns != 0;
    uint64_t key = client_key(address), wait_ns;

    if (counted || key == 0 /* a UNIX socket */ ||
        network_set_contains(&worker->config->ratelimit_exempt.set, address))
        return true;
    wait_ns = rate_guard_charge(worker->rate_guard, key, context->loop_now_ns);
    if (wait_ns == 0)
        return true;
    metric_add(context->metrics, METRIC_requests_limited, 1);
    transaction->retry_after_s = (uint32_t)clock_ceil_s(wait_ns);
    return false;
}

int admission_by_address(struct transaction *transaction)
{
    const struct transaction_context *context = transaction->context;
    const struct segment *segment = context->worker->segment;
    uint64_t now_ns = context->loop_now_ns, key, wait_ns;
    struct address_limit limit;

    if (transaction->state->began_ns != 0 ||
        !address_limit_find(segment, transaction->address, now_ns, &limit))
        return 0;
    key = client_limit_key(limit.id);
    if (limit.requests_per_second == 0) {
        rate_limit_count(segment, key, now_ns);
        metric_add(context->metrics, METRIC_requests_blocked, 1);
        return 403;
    }
    wait_ns =
        rate_guard_charge_at(context->worker->rate_guard, key, limit.requests_per_second, now_ns);
    if (wait_ns == 0)
        return 0;
    metric_add(context->metrics, METRIC_requests_limited, 1);
    transaction->retry_after_s = (uint32_t)clock_ceil_s(wait_ns);
    return 429;
}

/* Connections */

enum client_limit_verdict admission_of_connection(const struct worker_context *worker,
                                                  const uint8_t address[CLIENT_ADDRESS_BYTES],
                                                  bool admitted)
{
    uint32_t max = worker->config->connections_max_per_ip;
    uint64_t key = client_key(address);

    if (LIKELY(max == 0) || key == 0 ||
        network_set_contains(&worker->config->proxy_trusted.set, address))
        return CLIENT_LIMIT_UNCOUNTED;
    return client_limit_enter(worker->client_limit, key, admitted ? UINT32_MAX : max);
}

static void send_unavailable(struct transaction_context *context, int fd)
{
    char response[RESPONSE_PREFIX_MAX + HEADER_RULES_MAX + 96], ignored[4096];
    size_t length = response_prefix(&context->prefixes, 503, PREFIX_CLOSE, response);

    length += header_rules_write(&context->worker->sites.site[0].headers, NULL,
                                 HEADER_OF_REQUEST_ERROR, response + length);
    length +=
        (size_t)snprintf(response + length, sizeof(response) - length,
                         "Cache-Control: no-store\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n");
    /* Closing with unread bytes would reset the connection. */
    recv(fd, ignored, sizeof(ignored), MSG_DONTWAIT);
    if (send(fd, response, length, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)length)
        shutdown(fd, SHUT_WR);
}

void admission_turn_away(struct transaction_context *context, int fd,
                         enum client_limit_verdict verdict, bool opening)
{
    bool exceeded = verdict == CLIENT_LIMIT_EXCEEDED;

    if (!opening)
        send_unavailable(context, fd);
    metric_add(context->metrics,
               exceeded ? METRIC_connections_rejected : METRIC_connections_refused, 1);
}

void admission_reject(struct transaction_context *context, int fd,
                      const uint8_t address[CLIENT_ADDRESS_BYTES],
                      enum client_limit_verdict verdict, bool opening)
{
    admission_turn_away(context, fd, verdict, opening);
    if (verdict == CLIENT_LIMIT_COUNTED)
        client_limit_leave(context->worker->client_limit, client_key(address));
    close(fd);
}

static uint64_t connections_in_worker(const struct worker_context *worker)
{
    return atomic_load_explicit(
        &segment_worker(worker->segment, worker->worker_slot)->connections_open,
        memory_order_relaxed);
}

/* What each worker may hold whatever the others say. */
static uint64_t fair_share(const struct worker_context *worker)
{
    uint32_t workers = atomic_load_explicit(&segment_master(worker->segment)->workers_wanted,
                                            memory_order_relaxed);

    return worker->config->connections_max / (workers > 0 ? workers : 1);
}

bool admission_has_room(const struct worker_context *worker)
{
    uint32_t max = worker->config->connections_max;

    return LIKELY(max == 0) || connections_in_worker(worker) < fair_share(worker) ||
           segment_connections_open(worker->segment) < max;
}

uint32_t admission_excess(const struct worker_context *worker)
{
    uint64_t max = worker->config->connections_max, fair = fair_share(worker);
    uint64_t own = connections_in_worker(worker), all = segment_connections_open(worker->segment);
    uint64_t excess = all > max ? all - max : 0;

    if (max == 0 || own <= fair)
        return 0;
    return (uint32_t)(excess < own - fair ? excess : own - fair);
}

bool admission_exceeds_limits(const struct worker_context *worker, struct client *client)
{
    const struct config *config = worker->config;
    const struct segment *segment = worker->segment;

    client->transferred =
        client->transferred &&
        ((config->connections_max != 0 &&
          segment_connections_open(segment) > config->connections_max) ||
         (client->counted && client_limit_exceeds(worker->client_limit, client_key(client->address),
                                                  config->connections_max_per_ip)));
    return client->transferred;
}

bool admission_allows_keepalive(struct transaction_context *context)
{
    uint32_t most = context->worker->config->connections_keepalive_max_open;

    if (context->counted_open_ns != context->loop_now_ns) {
        context->counted_open_ns = context->loop_now_ns;
        context->connections_open = segment_connections_open(context->worker->segment);
    }
    return context->connections_open <= most;
}
