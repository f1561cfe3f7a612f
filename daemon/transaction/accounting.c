#include "daemon/transaction/accounting.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/base/probes.h"
#include "daemon/transaction/shortage.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

static_assert((int)CODING_COUNT == LOG_CODINGS, "log_coding_names has all, in this order");

/* Counts by host */

static void store_count(_Atomic uint64_t *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_relaxed);
}

static void add_count(_Atomic uint64_t *word, uint64_t more)
{
    store_count(word, atomic_load_explicit(word, memory_order_relaxed) + more);
}

void host_counts_claim(struct segment_host_counts *counts, const struct host_place *place,
                       size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct segment_host_counts *own = &counts[place[i].entry];

        if (atomic_load_explicit(&own->id, memory_order_relaxed) == place[i].id)
            continue;
        store_count(&own->id, 0);
        store_count(&own->latency_max_ns, 0);
        for (int j = 0; j < HOST_METRIC_COUNT; j++)
            store_count(&own->values[j], 0);
        for (int j = 0; j < HISTOGRAM_COARSE_BUCKETS; j++)
            store_count(&own->latency[j], 0);
        atomic_store_explicit(&own->id, place[i].id, memory_order_release);
    }
}

void host_counts_add(struct segment_host_counts *counts, int status, uint64_t body_bytes,
                     uint64_t duration_ns)
{
    add_count(&counts->values[HOST_METRIC_responses_2xx + status / 100 - 2], 1);
    add_count(&counts->values[HOST_METRIC_body_bytes], body_bytes);
    add_count(&counts->values[HOST_METRIC_response_time], duration_ns);
    add_count(&counts->latency[histogram_index(duration_ns) >> HISTOGRAM_COARSE_SHIFT], 1);
    if (duration_ns > atomic_load_explicit(&counts->latency_max_ns, memory_order_relaxed))
        store_count(&counts->latency_max_ns, duration_ns);
}

/* Records */

struct waiting_record {
    struct waiting_record *next;
    uint64_t words[]; /* packed */
};

/*
 * Words of a packed record. Until the response has been sent, DURATION_WORD contains the start
 * time.
 */
enum { DURATION_WORD = 2, BODY_WORD = 3 };

/* The format version in word 0. A record of a host without a log has none, until it is counted. */
static const uint64_t version_mask = UINT64_C(0xff) << 32;

static const uint64_t duration_mask = (UINT64_C(1) << LOG_DURATION_BITS) - 1;
static const uint64_t body_word_mask = (UINT64_C(1) << LOG_BODY_BITS) - 1;

bool accounting_has_room(const struct transaction_context *context, uint64_t words)
{
    uint64_t reserved = context->ring_reserved, most;

    if (context->ring == NULL || context->log_dropping ||
        context->worker->config->log_when_full == WHEN_FULL_DROP)
        return true;
    if (context->first_waiting != NULL)
        return false;
    most = context->ring->capacity / 4 * 3; /* many slow clients must not reserve the whole ring */
    return log_ring_has_room(context->ring, (reserved < most ? reserved : most) + words);
}

bool accounting_may_begin(const struct transaction_context *context)
{
    return accounting_has_room(context, context->output.record_words + LOG_RECORD_WORDS_MAX);
}

static enum log_protocol protocol_of(const struct request *request)
{
    if (request->version == HTTP_2)
        return LOG_PROTOCOL_HTTP_2;
    if (request->target.length == 0)
        return LOG_PROTOCOL_UNKNOWN;
    return request->minor_version == 0 ? LOG_PROTOCOL_HTTP_1_0 : LOG_PROTOCOL_HTTP_1_1;
}

void accounting_pack(const struct transaction *transaction, int status, enum outcome outcome,
                     enum coding coding, uint64_t body_bytes)
{
    struct transaction_context *context = transaction->context;
    struct output_buffer *output = &context->output;
    struct log_record record = {
        .time_ns = transaction->began_ns + context->wall_offset_ns,
        .duration_ns = transaction->began_ns,
        .body_bytes = body_bytes,
        .status = (uint16_t)status,
        .outcome = (uint8_t)outcome,
        .tls = transaction->client->tls,
        .protocol = (uint8_t)protocol_of(transaction->request),
        .streams = transaction->client->streams,
        .host = transaction->site->host,
    };

    if (context->ring != NULL) {
        record.request_line = transaction->request->line;
        record.referer = transaction->request->referer;
        record.agent = transaction->request->user_agent;
        record.user = transaction->user;
        if (transaction->site->host_logged)
            record.requested_host = transaction->request->host;
        if (UNLIKELY(transaction->site->coding_logged))
            record.coding = (uint8_t)coding;
        if (UNLIKELY(transaction->site->id_logged))
            request_find_field(transaction->request, SPAN("x-request-id"), &record.request_id);
    }
    memcpy(record.address, transaction->address, sizeof(record.address));
    output->last_record = output->records + output->record_words;
    output->record_words += log_record_pack(&record, output->last_record);
    if (!transaction->site->logged)
        *output->last_record &= ~version_mask;
    PROBE_RESPONSE(transaction->state, status, outcome, body_bytes);
    if (transaction->client->requests++ > 0)
        metric_add(context->metrics, METRIC_requests_keepalive, 1);
}

static void wake_logger(const struct transaction_context *context)
{
    const struct segment_logger *logger = segment_logger(context->worker->segment);

    if (atomic_load_explicit(&logger->asleep, memory_order_acquire) != 0)
        eventfd_write(context->worker->doorbell, 1);
}

void accounting_begin_wait(struct transaction_context *context)
{
    if (context->log_wait_from_ns == 0)
        context->log_wait_from_ns = context->loop_now_ns;
    PROBE_LOG_WAIT(context->log_wait_from_ns);
    metric_add(context->metrics, METRIC_log_waits, 1);
    wake_logger(context);
}

void accounting_check_dropping(struct transaction_context *context)
{
    if (context->log_dropping && log_ring_has_room(context->ring, context->ring->capacity / 2))
        context->log_dropping = false;
}

static void drop_record(struct transaction_context *context, uint64_t words)
{
    PROBE_LOG_DROP(words);
    (void)words;
    metric_add(context->metrics, METRIC_log_dropped, 1);
    shortage_note(context->worker, SHORTAGE_LOG, context->loop_now_ns, 1);
}

/*
 * Many held responses may end at once, whose records do not fit into the ring together. Returns
 * false without memory.
 */
static bool keep_record(struct transaction_context *context, const uint64_t *record, uint64_t words)
{
    struct waiting_record *waiting = malloc(sizeof(*waiting) + words * sizeof(uint64_t));

    if (waiting == NULL)
        return false;
    waiting->next = NULL;
    memcpy(waiting->words, record, words * sizeof(uint64_t));
    if (context->first_waiting == NULL)
        context->first_waiting = waiting;
    else
        context->last_waiting->next = waiting;
    context->last_waiting = waiting;
    return true;
}

static void free_first_waiting(struct transaction_context *context)
{
    struct waiting_record *first = context->first_waiting;

    context->first_waiting = first->next;
    free(first);
}

/* Appends the records that wait, as far as there is space. Returns whether there was some. */
static bool append_waiting(struct transaction_context *context)
{
    bool progress = false;

    while (context->first_waiting != NULL) {
        const uint64_t *record = context->first_waiting->words;

        if (!log_ring_has_room(context->ring, accounting_words(record)))
            break;
        log_ring_append(context->ring, record, accounting_words(record));
        free_first_waiting(context);
        progress = true;
    }
    return progress;
}

void accounting_drop(struct transaction_context *context)
{
    context->log_dropping = true;
    append_waiting(context);
    while (context->first_waiting != NULL) {
        drop_record(context, accounting_words(context->first_waiting->words));
        free_first_waiting(context);
    }
}

void accounting_check_wait(struct transaction_context *context)
{
    uint64_t most_ns = context->worker->config->log_wait_timeout * NS_PER_MS;
    bool progress = append_waiting(context);

    if (accounting_may_begin(context)) {
        PROBE_LOG_RESUME(context->log_wait_from_ns);
        context->log_wait_from_ns = 0;
    } else if (progress) {
        context->log_wait_from_ns = context->loop_now_ns;
    } else if (context->loop_now_ns >= context->log_wait_from_ns + most_ns) {
        accounting_drop(context);
    }
}

/* Usually polling by the logger suffices. In case a burst fills the ring, wakes it at half full. */
static void append_to_ring(struct transaction_context *context, const uint64_t *record)
{
    bool may_wait =
        context->worker->config->log_when_full == WHEN_FULL_WAIT && !context->log_dropping;
    uint64_t words = accounting_words(record);
    bool half_full;

    if (LIKELY(context->first_waiting == NULL && log_ring_has_room(context->ring, words)))
        log_ring_append(context->ring, record, words);
    else if (!may_wait || !keep_record(context, record, words))
        drop_record(context, words);
    half_full = !log_ring_has_room(context->ring, context->ring->capacity / 2);
    if (half_full && !context->ring_half_full)
        wake_logger(context);
    context->ring_half_full = half_full;
}

/* The metric that counts a status. All statuses that the server sends are in the list. */
static const uint8_t metric_of_status[] = {
#define HTTP_STATUS(code, name, reason) [code] = METRIC_responses_##code,
#include "common/http_status.def"
#undef HTTP_STATUS
};
static_assert(METRIC_COUNT <= UINT8_MAX, "metric_of_status needs a wider type");

void accounting_finish(struct transaction_context *context, uint64_t *record, uint64_t now_ns)
{
    int status = (int)(record[0] >> 48);
    enum outcome outcome = (enum outcome)(record[0] >> 40 & 0xff);
    uint64_t duration = (now_ns - record[DURATION_WORD]) & duration_mask;
    uint64_t body_bytes = record[BODY_WORD] & body_word_mask;

    PROBE_RESPONSE_SENT(status, outcome, body_bytes, duration);
    record[DURATION_WORD] = (record[DURATION_WORD] & ~duration_mask) | duration;
    if (context->ring != NULL && (record[0] & version_mask) != 0)
        append_to_ring(context, record);
    assert((size_t)status < ARRAY_LENGTH(metric_of_status) && metric_of_status[status] != 0);
    metric_add(context->metrics, (enum metric)metric_of_status[status], 1);
    metric_add(context->metrics, METRIC_response_time, duration);
    if (context->host_counts != NULL)
        host_counts_add(&context->host_counts[record[0] >> 16 & UINT16_MAX], status, body_bytes,
                        duration);
    histogram_record(&context->latency[outcome], duration);
    metric_add(context->metrics, METRIC_requests,
               1); /* last, so that a counted request has been logged */
}

void accounting_finish_all(struct transaction_context *context, uint64_t *records, uint64_t words)
{
    const uint64_t *end = records + words;
    uint64_t now_ns = clock_monotonic_ns();

    for (; records < end; records += accounting_words(records))
        accounting_finish(context, records, now_ns);
}

void accounting_correct(uint64_t *record, uint64_t body_bytes)
{
    record[BODY_WORD] = (record[BODY_WORD] & ~body_word_mask) | body_bytes;
}
