#include "daemon/transaction/accounting.h"

#include "daemon/worker/thread.h"

#include <sys/eventfd.h>

bool account_has_room(const struct serving_thread *thread, uint64_t words)
{
    if (thread->ring == NULL || thread->site->config->log_when_full == WHEN_FULL_DROP)
        return true;
    return log_ring_has_room(thread->ring, thread->ring_reserved + words);
}

bool account_may_begin(const struct serving_thread *thread)
{
    return account_has_room(thread, thread->output.record_words + LOG_RECORD_WORDS_MAX);
}

/* The duration's place holds the start until the answer has been sent. */
enum { DURATION_WORD = 2, BODY_WORD = 3 };

void account_pack(struct connection *connection, const struct request *request, int status,
                  enum outcome outcome, uint64_t body_bytes, uint64_t began_ns)
{
    struct serving_thread *thread = connection->thread;
    struct output *output = &thread->output;
    struct log_record record = {
        .time_ns = began_ns + thread->wall_offset_ns,
        .duration_ns = began_ns,
        .body_bytes = body_bytes,
        .status = (uint16_t)status,
        .outcome = (uint8_t)outcome,
    };

    if (thread->ring != NULL) {
        record.request_line = request->line;
        record.referer = request->referer;
        record.agent = request->user_agent;
    }
    memcpy(record.address, connection->address, sizeof(record.address));
    output->last_record = output->records + output->record_words;
    output->record_words += log_record_pack(&record, output->last_record);
    if (connection->requests++ > 0)
        metric_add(thread->metrics, METRIC_requests_keepalive, 1);
}

static enum metric status_class(int status)
{
    return status < 300   ? METRIC_responses_2xx
           : status < 400 ? METRIC_responses_3xx
           : status < 500 ? METRIC_responses_4xx
                          : METRIC_responses_5xx;
}

void account_wake_logger(const struct serving_thread *thread)
{
    const struct segment_logger *logger = segment_logger(thread->site->segment);

    if (atomic_load_explicit(&logger->asleep, memory_order_acquire) != 0)
        eventfd_write(thread->site->doorbell, 1);
}

/* The logger looks by itself often enough, unless a burst fills the ring faster: half full, it is
 * woken. */
static void ring_if_half_full(struct serving_thread *thread)
{
    bool half_full = !log_ring_has_room(thread->ring, thread->ring->capacity / 2);

    if (half_full && !thread->doorbell_rung)
        account_wake_logger(thread);
    thread->doorbell_rung = half_full;
}

static void append(struct serving_thread *thread, const uint64_t *record)
{
    uint64_t words = account_words(record);

    if (log_ring_has_room(thread->ring, words))
        log_ring_append(thread->ring, record, words);
    else
        metric_add(thread->metrics, METRIC_log_dropped, 1);
    ring_if_half_full(thread);
}

void account_finish(struct serving_thread *thread, uint64_t *record, uint64_t now_ns)
{
    int status = (int)(record[0] >> 48);
    enum outcome outcome = (enum outcome)(record[0] >> 40 & 0xff);
    uint64_t duration = now_ns - record[DURATION_WORD];

    record[DURATION_WORD] = duration;
    if (thread->ring != NULL)
        append(thread, record);
    metric_add(thread->metrics, status_class(status), 1);
    histogram_record(&thread->latency[outcome], duration);
    metric_add(thread->metrics, METRIC_requests, 1); /* last: what is counted has been logged */
}

void account_correct(uint64_t *record, uint64_t body_bytes)
{
    record[BODY_WORD] = body_bytes;
}
