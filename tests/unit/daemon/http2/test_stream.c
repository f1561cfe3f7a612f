/* Streams: those of the past, those that are open, and those that have something to send. */
#include "daemon/http2/stream.h"

#include "daemon/transaction/accounting.h"
#include "tests/test.h"
#include "tests/unit/daemon/http2/bare_connection.h"

#include <stdlib.h>
#include <string.h>

static int set_up(void **state)
{
    (void)state;
    bare_connection_open();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    bare_connection_close();
    return 0;
}

const struct test_fixture test_fixture = {set_up, tear_down};

static struct http2_stream *new_stream(uint32_t id)
{
    struct http2_stream *stream = stream_open(&http2, id);

    assert_non_null(stream);
    return stream;
}

/* The past */

TEST(stream_is_idle_until_opened)
{
    assert_int_equal(stream_past(&http2, 1), STREAM_IDLE);
    stream_note_opened(&http2, 1);
    assert_int_equal(stream_past(&http2, 1), STREAM_CLOSED);
    assert_int_equal(stream_past(&http2, 2), STREAM_IDLE);
    assert_int_equal(stream_past(&http2, 3), STREAM_IDLE);
    stream_note_opened(&http2, 7);
    assert_int_equal(http2.last_stream, 7);
    assert_int_equal(stream_past(&http2, 1), STREAM_CLOSED);
    assert_int_equal(stream_past(&http2, 2), STREAM_IDLE);
    assert_int_equal(stream_past(&http2, 3), STREAM_SKIPPED);
    assert_int_equal(stream_past(&http2, 5), STREAM_SKIPPED);
    assert_int_equal(stream_past(&http2, 7), STREAM_CLOSED);
}

TEST(stream_after_the_last_goaway_is_reset)
{
    stream_note_opened(&http2, 1);
    http2.goaway = GOAWAY_ANNOUNCED;
    assert_int_equal(stream_past(&http2, 3), STREAM_IDLE);
    http2.goaway = GOAWAY_FINAL;
    assert_int_equal(stream_past(&http2, 1), STREAM_CLOSED);
    assert_int_equal(stream_past(&http2, 2), STREAM_IDLE);
    assert_int_equal(stream_past(&http2, 3), STREAM_RESET);
}

TEST(reset_is_of_one_stream)
{
    for (uint32_t id = 1; id <= 9; id += 2)
        stream_note_opened(&http2, id);
    stream_note_reset(&http2, 5);
    stream_note_opened(&http2, 13);
    stream_note_reset(&http2, 13);
    for (uint32_t id = 1; id <= 9; id += 2)
        assert_int_equal(stream_past(&http2, id), id == 5 ? STREAM_RESET : STREAM_CLOSED);
    assert_int_equal(stream_past(&http2, 11), STREAM_SKIPPED);
    assert_int_equal(stream_past(&http2, 13), STREAM_RESET);
}

/* The last 64 streams have a bit. */
TEST(older_streams_are_closed)
{
    stream_note_opened(&http2, 3);
    stream_note_opened(&http2, 127);
    stream_note_reset(&http2, 127);
    assert_int_equal(stream_past(&http2, 1), STREAM_SKIPPED);
    assert_int_equal(stream_past(&http2, 3), STREAM_CLOSED);
    stream_note_opened(&http2, 129); /* 3 has the last bit, 1 has none */
    assert_int_equal(stream_past(&http2, 3), STREAM_CLOSED);
    assert_int_equal(stream_past(&http2, 1), STREAM_CLOSED);
    stream_note_reset(&http2, 1);
    assert_int_equal(stream_past(&http2, 129), STREAM_CLOSED);
    stream_note_reset(&http2, 129);
    assert_int_equal(stream_past(&http2, 1), STREAM_CLOSED);
    stream_note_reset(&http2, 3);
    assert_int_equal(stream_past(&http2, 3), STREAM_RESET);
}

TEST(distant_stream_clears_the_past)
{
    enum { FAR = 3 + 2 * 63, TOO_FAR = 3 + 2 * 64 };

    stream_note_opened(&http2, 1);
    stream_note_opened(&http2, 3);
    stream_note_reset(&http2, 1);
    stream_note_reset(&http2, 3);
    stream_note_opened(&http2, FAR);
    assert_int_equal(stream_past(&http2, 3), STREAM_RESET);
    assert_int_equal(stream_past(&http2, FAR - 2), STREAM_SKIPPED);
    http2.last_stream = 3;
    http2.opened = http2.reset_by_us = 3;
    stream_note_opened(&http2, TOO_FAR);
    for (uint32_t id = 5; id < TOO_FAR; id += 2)
        assert_int_equal(stream_past(&http2, id), STREAM_SKIPPED);
    assert_int_equal(stream_past(&http2, TOO_FAR), STREAM_CLOSED);
}

/* Open streams */

TEST(open_stream_is_found_until_closed)
{
    struct http2_stream *one = new_stream(1), *three = new_stream(3);

    assert_ptr_equal(stream_find(&http2, 1), one);
    assert_ptr_equal(stream_find(&http2, 3), three);
    assert_null(stream_find(&http2, 5));
    assert_ptr_equal(TAILQ_FIRST(&http2.streams), one);
    assert_int_equal(three->send_window, INITIAL_WINDOW);
    assert_int_equal(three->receive_window, WINDOW_INITIAL);
    assert_int_equal(three->priority.urgency, URGENCY_DEFAULT);
    assert_int_equal(http2.stream_count, 2);
    assert_int_equal(metric_of(METRIC_http2_streams), 2);
    stream_close(one);
    assert_null(stream_find(&http2, 1));
    assert_int_equal(http2.stream_count, 1);
    assert_int_equal(http2.dead_count, 0);
    assert_int_equal(metric_of(METRIC_http2_streams), 1);
}

TEST(memory_of_one_stream_is_reused)
{
    struct http2_stream *one = new_stream(1), *three = new_stream(3);

    one->received = 7;
    stream_close(one);
    assert_ptr_equal(http2.spare, one);
    stream_close(three);
    assert_ptr_equal(http2.spare, one);
    assert_ptr_equal(new_stream(5), one);
    assert_null(http2.spare);
    assert_int_equal(one->id, 5);
    assert_int_equal(one->received, 0);
    assert_ptr_not_equal(new_stream(7), one);
    stream_close(one);
    stream_free_spare(&http2);
    assert_null(http2.spare);
}

/* Its offload job uses it. */
TEST(closed_stream_that_reads_is_dead)
{
    struct http2_stream *stream = new_stream(1);

    stream->reading = true;
    stream_close(stream);
    assert_true(stream->dead);
    assert_int_equal(http2.dead_count, 1);
    assert_int_equal(http2.stream_count, 1);
    assert_null(stream_find(&http2, 1));
    stream_free(stream, NULL);
    assert_int_equal(http2.dead_count, 0);
    assert_int_equal(http2.stream_count, 0);
    assert_int_equal(metric_of(METRIC_http2_streams), 0);
}

/* The gauge of the thread no longer has it. */
TEST(stream_of_a_connection_without_thread_is_not_subtracted)
{
    struct http2_stream *stream = new_stream(1);

    http2.connection.loop = NULL;
    stream_free(stream, NULL);
    assert_int_equal(http2.stream_count, 0);
    assert_int_equal(metric_of(METRIC_http2_streams), 1);
}

/* Ready streams */

TEST(ready_streams_are_ordered_by_urgency_and_turn)
{
    struct http2_stream *low = new_stream(1), *first = new_stream(3), *second = new_stream(5);

    assert_null(stream_first_ready(&http2));
    stream_set_priority(low, (struct http2_priority){.urgency = URGENCY_COUNT - 1});
    assert_false(low->is_ready);
    stream_make_ready(low);
    assert_ptr_equal(stream_first_ready(&http2), low);
    stream_make_ready(first);
    stream_make_ready(second);
    stream_make_ready(first); /* again: it keeps its place */
    assert_int_equal(http2.ready_count, 3);
    assert_ptr_equal(stream_first_ready(&http2), first);
    stream_pass_turn(first);
    assert_ptr_equal(stream_first_ready(&http2), second);
    stream_set_priority(low, (struct http2_priority){.urgency = 0, .incremental = true});
    assert_true(low->priority.incremental);
    assert_ptr_equal(stream_first_ready(&http2), low);
    assert_int_equal(http2.ready_count, 3);
    stream_make_unready(low);
    stream_make_unready(low);
    assert_int_equal(http2.ready_count, 2);
    assert_ptr_equal(stream_first_ready(&http2), second);
    stream_free(second, NULL);
    assert_int_equal(http2.ready_count, 1);
    assert_ptr_equal(stream_first_ready(&http2), first);
}

TEST(stream_is_ready_if_it_can_send)
{
    static const struct {
        bool sending, reading;
        int32_t window;
        bool ready;
    } cases[] = {
        {true, false, 1, true}, {true, false, 0, false},  {true, false, -1, false},
        {true, true, 1, false}, {false, false, 1, false}, {false, true, 1, false},
    };
    struct http2_stream *stream = new_stream(1);

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int before = 0; before <= 1; before++) {
            stream_make_unready(stream);
            if (before != 0)
                stream_make_ready(stream);
            stream->sending = cases[i].sending;
            stream->reading = cases[i].reading;
            stream->send_window = cases[i].window;
            stream_update_ready(stream);
            assert_int_equal(stream->is_ready, cases[i].ready);
            assert_int_equal(http2.ready_count, cases[i].ready);
        }
    stream->sending = stream->reading = false;
}

/* The end */

enum { OTHERS_WORDS = 100 };

/* The record of a response of 5000 bytes, as the log ring has it. */
static uint64_t *new_record(void)
{
    const struct log_record record = {
        .status = 200, .body_bytes = 5000, .request_line = SPAN("GET / HTTP/2.0")};
    uint64_t *words = calloc(LOG_RECORD_WORDS_MAX, sizeof(*words));

    assert_non_null(words);
    log_record_pack(&record, words);
    return words;
}

TEST(reservation_counts_once)
{
    struct http2_stream *stream = new_stream(1);
    uint64_t words;

    stream->record = new_record();
    words = accounting_words(stream->record);
    loop.context.ring_reserved = OTHERS_WORDS;
    stream_set_reserved(stream, false);
    assert_int_equal(loop.context.ring_reserved, OTHERS_WORDS);
    for (int i = 0; i < 2; i++) {
        stream_set_reserved(stream, true);
        assert_int_equal(loop.context.ring_reserved, OTHERS_WORDS + words);
    }
    for (int i = 0; i < 2; i++) {
        stream_set_reserved(stream, false);
        assert_int_equal(loop.context.ring_reserved, OTHERS_WORDS);
    }
}

TEST(unsent_response_is_cut_short)
{
    struct http2_stream *stream = new_stream(1);
    uint64_t requests = metric_of(METRIC_responses_200);
    struct log_record record;

    stream->record = new_record();
    stream->sending = stream->reading = true; /* so that the record stays */
    stream->body_sent = 123;
    loop.context.ring_reserved = OTHERS_WORDS;
    stream_set_reserved(stream, true);
    stream_make_ready(stream);
    stream_close(stream);
    assert_false(stream->sending);
    assert_false(stream->is_ready);
    assert_int_equal(loop.context.ring_reserved, OTHERS_WORDS);
    assert_int_equal(metric_of(METRIC_responses_cut_short), 1);
    assert_int_equal(metric_of(METRIC_responses_200), requests + 1);
    assert_int_equal(log_record_unpack(stream->record, &record), 0);
    assert_int_equal(record.body_bytes, 123);
}

TEST(sent_response_is_not_cut_short)
{
    stream_close(new_stream(1));
    assert_int_equal(metric_of(METRIC_responses_cut_short), 0);
}
