#include "daemon/http1/request_body.h"

#include "common/segment_writer.h"
#include "daemon/connection/read_buffer.h"
#include "daemon/connection/timeouts.h"
#include "daemon/connection/transport.h"
#include "daemon/http1/body_parser.h"
#include "daemon/transaction/transaction.h"

#include <errno.h>
#include <stdlib.h>

/* Number of bytes that restarts body_timeout. */
enum { BYTES_TO_RESTART = 64 * 1024 };

struct request_body {
    struct body_parser parser;
    int result;         /* BODY_MORE, BODY_DONE, or minus a status */
    size_t head_length; /* of the request */
    size_t bytes;       /* since the deadline was restarted */
    bool continue_due;
};

/* Begins to receive a body that is incomplete. */
static int begin_receiving(struct http1_connection *http1, const struct request_body *initial)
{
    struct request_body *body = malloc(sizeof(*body));

    if (body == NULL)
        return -503;
    *body = *initial;
    http1->body = body;
    if (http1->state.began_ns == 0)
        http1->state.began_ns = http1->connection.loop->context.loop_now_ns;
    return 0;
}

static int check_first_bytes(struct http1_connection *http1, const struct request *request,
                             const char *data, size_t length, size_t head)
{
    bool expects_continue = length == head && request->expect_continue;
    const struct config *config = http1->connection.loop->context.worker->config;
    const struct body_limits limits = {config->limits_body_bytes, config->limits_header_bytes};
    struct request_body body = {.head_length = head, .continue_due = expects_continue};
    size_t used = 0;
    int result = body_parser_begin(&body.parser, request, &limits);

    if (result == BODY_MORE && expects_continue && !transaction_supports_method(request->method)) {
        /* The client may read the final status and send no body, or still send all of it. */
        http1->connection.client.closing = true;
        http1->connection.client.linger_wanted = true;
        return (int)head;
    }
    if (result == BODY_MORE)
        result = body_parser_feed(&body.parser, data + head, length - head, &used);
    if (result == BODY_MORE)
        return begin_receiving(http1, &body);
    return result < 0 ? result : (int)(head + used);
}

int request_body_check(struct http1_connection *http1, const struct request *request,
                       const char *data, size_t length, size_t head)
{
    const struct request_body *body = http1->body;

    if (body == NULL)
        return check_first_bytes(http1, request, data, length, head);
    if (body->result == BODY_MORE)
        return 0;
    return body->result < 0 ? body->result : (int)head;
}

bool request_body_receive(struct http1_connection *http1, const char *data, size_t length)
{
    struct request_body *body = http1->body;
    size_t used;

    body->continue_due = false;
    body->result = body_parser_feed(&body->parser, data, length, &used);
    if (body->result == BODY_DONE &&
        !read_buffer_append(&http1->connection.unserved, data + used, length - used))
        body->result = -503;
    if (body->result != BODY_MORE)
        return true;
    body->bytes += length;
    if (body->bytes >= BYTES_TO_RESTART) {
        body->bytes = 0;
        connection_restart_deadline(&http1->connection);
    }
    return false;
}

void request_body_time_out(struct http1_connection *http1)
{
    http1->body->result = -408;
}

bool request_body_is_incomplete(const struct http1_connection *http1)
{
    return http1->body != NULL && http1->body->result == BODY_MORE;
}

size_t request_body_head_length(const struct http1_connection *http1)
{
    return http1->body->head_length;
}

ssize_t request_body_send_continue(struct http1_connection *http1)
{
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct connection *connection = &http1->connection;
    struct iovec part = {(void *)(uintptr_t)text, sizeof(text) - 1};
    ssize_t sent;

    if (!http1->body->continue_due)
        return 1;
    sent = connection->transport->write(connection, &part, 1, false);
    if (sent < 0)
        return sent;
    http1->body->continue_due = false;
    metric_add(connection->loop->context.metrics, METRIC_bytes_sent, (uint64_t)sent);
    if ((size_t)sent == part.iov_len)
        return sent;
    errno = EPIPE; /* a partial interim response cannot be completed later */
    return -1;
}

void request_body_free(struct http1_connection *http1)
{
    free(http1->body);
    http1->body = NULL;
}
