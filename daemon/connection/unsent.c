#include "daemon/connection/unsent.h"

#include "common/segment_writer.h"
#include "daemon/transaction/accounting.h"
#include "daemon/transaction/shortage.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void set_unsent_reserved(struct connection *connection, bool reserved)
{
    struct transaction_context *context = &connection->loop->context;
    struct unsent_output *unsent = connection->unsent;

    if (reserved != unsent->reserved)
        context->ring_reserved += reserved ? unsent->record_words : -unsent->record_words;
    unsent->reserved = reserved;
}

bool unsent_keep(struct connection *connection, const struct iovec *pieces, int count, size_t sent,
                 const uint64_t *records, uint64_t words)
{
    struct unsent_output *unsent;
    size_t all = 0, records_at;
    char *to;

    for (int i = 0; i < count; i++)
        all += pieces[i].iov_len;
    records_at = (sizeof(*unsent) + all - sent + 7) / 8 * 8;
    unsent = malloc(records_at + words * 8);
    if (unsent == NULL && memory_make_room(&connection->loop->context))
        unsent = malloc(records_at + words * 8);
    if (unsent == NULL)
        return false;
    *unsent = (struct unsent_output){.text = {unsent->rest, all - sent},
                                     .records = (uint64_t *)(void *)((char *)unsent + records_at),
                                     .record_words = words};
    memcpy(unsent->records, records, words * 8);
    to = unsent->rest;
    for (int i = 0; i < count; i++) {
        size_t skip = sent < pieces[i].iov_len ? sent : pieces[i].iov_len;

        memcpy(to, (const char *)pieces[i].iov_base + skip, pieces[i].iov_len - skip);
        to += pieces[i].iov_len - skip;
        sent -= skip;
    }
    connection->unsent = unsent;
    set_unsent_reserved(connection, true);
    return true;
}

bool unsent_reserve_log(struct connection *connection)
{
    const struct unsent_output *unsent = connection->unsent;

    if (unsent == NULL || unsent->reserved)
        return true;
    if (!accounting_has_room(&connection->loop->context, unsent->record_words))
        return false;
    set_unsent_reserved(connection, true);
    return true;
}

void unsent_end_reservation(struct connection *connection)
{
    if (connection->unsent != NULL)
        set_unsent_reserved(connection, false);
}

void unsent_finish(struct connection *connection)
{
    struct transaction_context *context = &connection->loop->context;
    struct unsent_output *unsent = connection->unsent;

    set_unsent_reserved(connection, false);
    accounting_finish_all(context, unsent->records, unsent->record_words);
    unsent_free(connection, context->worker->cache);
}

void unsent_abort(struct connection *connection)
{
    if (connection->unsent == NULL)
        return;
    if (connection->unsent->record_words > 0)
        metric_add(connection->loop->context.metrics, METRIC_responses_cut_short, 1);
    unsent_finish(connection);
}

void unsent_free(struct connection *connection, struct cache *cache)
{
    if (connection->unsent == NULL)
        return;
    body_source_release(&connection->unsent->body, cache);
    free(connection->unsent);
    connection->unsent = NULL;
}

void connection_set_busy(struct connection *connection, bool busy)
{
    _Atomic uint64_t *metrics = connection->loop->context.metrics;

    if (busy == connection->counted_busy)
        return;
    connection->counted_busy = busy;
    if (busy)
        metric_add(metrics, METRIC_connections_busy, 1);
    else
        metric_sub(metrics, METRIC_connections_busy, 1);
}

void connection_count_reset(const struct connection *connection)
{
    if (errno == EPIPE || errno == ECONNRESET)
        metric_add(connection->loop->context.metrics, METRIC_connections_reset, 1);
}
