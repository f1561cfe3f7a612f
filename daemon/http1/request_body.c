#include "daemon/http1/request_body.h"

#include "common/segment_writer.h"
#include "daemon/connection/read_buffer.h"
#include "daemon/connection/timeouts.h"
#include "daemon/http1/body_parser.h"
#include "daemon/transaction/route.h"

#include <errno.h>
#include <stdlib.h>

/* So much of a body gives its client its time again: a client that drips must do better than that. */
enum { BYTES_RENEWING = 64 * 1024 };

struct receiving {
    struct body body;
    int result; /* of the body: BODY_MORE, BODY_DONE, or minus a status */
    size_t head;
    size_t bytes; /* since the deadline was renewed */
    bool continue_due;
};

static struct body_limits limits_of(const struct connection *connection)
{
    const struct config *config = connection->thread->site->config;

    return (struct body_limits){config->limits_body_bytes, config->limits_header_bytes};
}

/* The body goes on behind what was read: from now on it is passed over as it comes. */
static int start(struct connection *connection, const struct request *request,
                 const struct body *body, size_t head, bool nothing_came)
{
    struct receiving *receiving = malloc(sizeof(*receiving));

    if (receiving == NULL)
        return -503;
    *receiving = (struct receiving){
        .body = *body, .head = head, .continue_due = request->expect_continue && nothing_came};
    connection->receiving = receiving;
    if (connection->began_ns == 0)
        connection->began_ns = connection->thread->turn_ns;
    return 0;
}

static int look_first(struct connection *connection, const struct request *request,
                      const char *data, size_t length, size_t head)
{
    struct body_limits limits = limits_of(connection);
    struct body body;
    size_t used = 0;
    int result = body_begin(&body, request, &limits);

    if (result == BODY_MORE && length == head && request->expect_continue &&
        !route_has_method(request->method)) {
        /* The final status says that the body is not wanted; none may come, or all of it. */
        connection->closing = true;
        connection->linger_wanted = true;
        return (int)head;
    }
    if (result == BODY_MORE)
        result = body_pass(&body, data + head, length - head, &used);
    if (result == BODY_MORE)
        return start(connection, request, &body, head, length == head);
    return result < 0 ? result : (int)(head + used);
}

int receiving_look(struct connection *connection, const struct request *request, const char *data,
                   size_t length, size_t head)
{
    const struct receiving *receiving = connection->receiving;

    if (receiving == NULL)
        return look_first(connection, request, data, length, head);
    if (receiving->result == BODY_MORE)
        return 0;
    return receiving->result < 0 ? receiving->result : (int)head;
}

static void renew(struct connection *connection, size_t bytes)
{
    struct receiving *receiving = connection->receiving;

    receiving->bytes += bytes;
    if (receiving->bytes < BYTES_RENEWING)
        return;
    receiving->bytes = 0;
    waiting_renew(connection);
}

bool receiving_take(struct connection *connection, const char *data, size_t length)
{
    struct receiving *receiving = connection->receiving;
    size_t used;

    receiving->continue_due = false;
    receiving->result = body_pass(&receiving->body, data, length, &used);
    if (receiving->result == BODY_MORE)
        renew(connection, length);
    else if (receiving->result == BODY_DONE &&
             !input_append(connection, data + used, length - used))
        receiving->result = -503;
    return receiving->result != BODY_MORE;
}

void receiving_give_up(struct connection *connection)
{
    connection->receiving->result = -408;
}

bool receiving_waits(const struct connection *connection)
{
    return connection->receiving != NULL && connection->receiving->result == BODY_MORE;
}

size_t receiving_head(const struct connection *connection)
{
    return connection->receiving->head;
}

ssize_t receiving_continue(struct connection *connection)
{
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct iovec part = {(void *)(uintptr_t)text, sizeof(text) - 1};
    ssize_t sent;

    if (!connection->receiving->continue_due)
        return 1;
    sent = connection->transport->write(connection->fd, &part, 1, false);
    if (sent < 0)
        return sent;
    connection->receiving->continue_due = false;
    metric_add(connection->thread->metrics, METRIC_bytes_sent, (uint64_t)sent);
    if ((size_t)sent == part.iov_len)
        return sent;
    errno = EPIPE; /* a part of it is of no use to anybody */
    return -1;
}

void receiving_end(struct connection *connection)
{
    free(connection->receiving);
    connection->receiving = NULL;
}
