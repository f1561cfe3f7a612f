#include "daemon/transaction/admission.h"

#include "common/client_address.h"
#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/transaction/rate_limit.h"
#include "daemon/worker/thread.h"

#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static bool is_exempt(const struct config *config, const uint8_t *address)
{
    for (size_t i = 0; i < config->ratelimit_exempt.count; i++)
        if (network_contains(&config->ratelimit_exempt.item[i], address))
            return true;
    return false;
}

bool admission_of_request(struct exchange *exchange)
{
    const struct site *site = exchange->thread->site;
    const uint8_t *address = exchange->connection->address;
    uint64_t key = client_key(address), wait_ns;

    if (exchange->connection->began_ns != 0 || key == 0 || is_exempt(site->config, address))
        return true; /* it was counted when it began; it has no address; it has no limit */
    wait_ns = rate_limit_take(site->segment, key, exchange->thread->turn_ns);
    if (wait_ns == 0)
        return true;
    metric_add(exchange->thread->metrics, METRIC_requests_limited, 1);
    exchange->retry_after_s = (uint32_t)((wait_ns + NS_PER_S - 1) / NS_PER_S);
    return false;
}

/* Connections */

enum peers_verdict admission_of_connection(const struct serving_thread *thread,
                                           const uint8_t address[CLIENT_ADDRESS_BYTES],
                                           bool admitted)
{
    uint32_t most = thread->site->config->connections_max_per_ip;
    uint64_t key = client_key(address);

    if (LIKELY(most == 0) || key == 0)
        return PEERS_UNCOUNTED;
    return peers_enter(thread->site->peers, key, admitted ? UINT32_MAX : most);
}

/* What the client has sent is read first: left behind, it would make the close a reset. */
static void say_unavailable(struct serving_thread *thread, int fd)
{
    char answer[RESPONSE_PREFIX_MAX + HEADER_RULES_MAX + 64], ignored[4096];
    size_t length = response_prefix(&thread->prefixes, 503, PERSIST_CLOSE, answer);

    length += header_rules_write(&thread->site->headers, NULL, HEADER_OF_ANSWER, answer + length);
    length += (size_t)snprintf(answer + length, sizeof(answer) - length,
                               "Retry-After: 1\r\nContent-Length: 0\r\n\r\n");
    recv(fd, ignored, sizeof(ignored), MSG_DONTWAIT);
    if (send(fd, answer, length, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)length)
        shutdown(fd, SHUT_WR);
}

void admission_refuse(struct serving_thread *thread, int fd,
                      const uint8_t address[CLIENT_ADDRESS_BYTES], enum peers_verdict verdict)
{
    if (verdict == PEERS_TOO_MANY) {
        say_unavailable(thread, fd);
        metric_add(thread->metrics, METRIC_connections_rejected, 1);
    } else if (verdict == PEERS_COUNTED) {
        peers_leave(thread->site->peers, client_key(address));
    }
    close(fd);
}

bool admission_has_room(const struct serving_thread *thread)
{
    uint32_t most = thread->site->config->connections_max;

    return LIKELY(most == 0) || segment_sum(thread->site->segment, METRIC_connections_open) < most;
}

static bool is_one_too_many(const struct connection *connection)
{
    const struct site *site = connection->thread->site;
    uint64_t most = site->config->connections_max;

    return (most != 0 && segment_sum(site->segment, METRIC_connections_open) > most) ||
           (connection->counted_peer &&
            peers_count(site->segment, client_key(connection->address)) >
                site->config->connections_max_per_ip);
}

bool admission_outgrown(struct connection *connection)
{
    connection->came_over = connection->came_over && is_one_too_many(connection);
    return connection->came_over;
}

bool admission_keeps_alive(struct serving_thread *thread)
{
    uint32_t below = thread->site->config->connections_keepalive_below;

    if (thread->crowd_ns != thread->turn_ns) {
        thread->crowd_ns = thread->turn_ns;
        thread->crowd = segment_sum(thread->site->segment, METRIC_connections_open);
    }
    return thread->crowd < below;
}
