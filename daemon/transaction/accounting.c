#include "daemon/transaction/accounting.h"

#include "common/segment_writer.h"

#include <sys/eventfd.h>

/*
 * Words of a packed record. Until the response has been sent, DURATION_WORD contains the start
 * time.
 */
enum { DURATION_WORD = 2, BODY_WORD = 3 };

bool accounting_has_room(const struct transaction_context *context, uint64_t words)
{
    if (context->ring == NULL || context->worker->config->log_when_full == WHEN_FULL_DROP)
        return true;
    return log_ring_has_room(context->ring, context->ring_reserved + words);
}

bool accounting_may_begin(const struct transaction_context *context)
{
    return accounting_has_room(context, context->output.record_words + LOG_RECORD_WORDS_MAX);
}

void accounting_pack(const struct transaction *transaction, int status, enum outcome outcome,
                     uint64_t body_bytes)
{
    struct transaction_context *context = transaction->context;
    struct output_buffer *output = &context->output;
    struct log_record record = {
        .time_ns = transaction->began_ns + context->wall_offset_ns,
        .duration_ns = transaction->began_ns,
        .body_bytes = body_bytes,
        .status = (uint16_t)status,
        .outcome = (uint8_t)outcome,
    };

    if (context->ring != NULL) {
        record.request_line = transaction->request->line;
        record.referer = transaction->request->referer;
        record.agent = transaction->request->user_agent;
    }
    memcpy(record.address, transaction->client->address, sizeof(record.address));
    output->last_record = output->records + output->record_words;
    output->record_words += log_record_pack(&record, output->last_record);
    if (transaction->client->requests++ > 0)
        metric_add(context->metrics, METRIC_requests_keepalive, 1);
}

void accounting_wake_logger(const struct transaction_context *context)
{
    const struct segment_logger *logger = segment_logger(context->worker->segment);

    if (atomic_load_explicit(&logger->asleep, memory_order_acquire) != 0)
        eventfd_write(context->worker->doorbell, 1);
}

/* Usually polling by the logger suffices. In case a burst fills the ring, wakes it at half full. */
static void append_to_ring(struct transaction_context *context, const uint64_t *record)
{
    uint64_t words = accounting_words(record);
    bool half_full;

    if (log_ring_has_room(context->ring, words))
        log_ring_append(context->ring, record, words);
    else
        metric_add(context->metrics, METRIC_log_dropped, 1);
    half_full = !log_ring_has_room(context->ring, context->ring->capacity / 2);
    if (half_full && !context->ring_half_full)
        accounting_wake_logger(context);
    context->ring_half_full = half_full;
}

static enum metric status_class(int status)
{
    return status < 300   ? METRIC_responses_2xx
           : status < 400 ? METRIC_responses_3xx
           : status < 500 ? METRIC_responses_4xx
                          : METRIC_responses_5xx;
}

void accounting_finish(struct transaction_context *context, uint64_t *record, uint64_t now_ns)
{
    int status = (int)(record[0] >> 48);
    enum outcome outcome = (enum outcome)(record[0] >> 40 & 0xff);
    uint64_t duration = now_ns - record[DURATION_WORD];

    record[DURATION_WORD] = duration;
    if (context->ring != NULL)
        append_to_ring(context, record);
    metric_add(context->metrics, status_class(status), 1);
    histogram_record(&context->latency[outcome], duration);
    metric_add(context->metrics, METRIC_requests,
               1); /* last, so that a counted request has been logged */
}

void accounting_correct(uint64_t *record, uint64_t body_bytes)
{
    record[BODY_WORD] = body_bytes;
}
