/* The history: rates from sums, gaps, a full ring, steps, past seconds. */
#include "common/clock.h"
#include "console/data/history.h"
#include "tests/test.h"

#include <math.h>
#include <string.h>

static struct history *history;

static int begin(void **state)
{
    (void)state;
    history = history_create();
    return history == NULL;
}

static int end(void **state)
{
    (void)state;
    history_destroy(history);
    return 0;
}

const struct test_fixture test_fixture = {begin, end};

static struct sample_copy sample_at(uint64_t second, uint64_t requests)
{
    struct sample_copy sample = {.time_ns = (1000 + second) * NS_PER_S};

    sample.values[METRIC_requests] = requests;
    sample.values[METRIC_connections_open] = 7;
    return sample;
}

static void push(uint64_t second, uint64_t requests)
{
    struct sample_copy sample = sample_at(second, requests);

    history_push(history, &sample, NULL);
}

TEST(rates_are_differences_over_time)
{
    double values[5];

    push(0, 100);
    push(1, 150);
    push(3, 350); /* late sample: 200 in two seconds */
    history_series(history, SERIES_REQUESTS, values, 5);
    assert_true(isnan(values[0]) && isnan(values[1]));
    assert_true(isnan(values[2])); /* the first second has no previous one */
    assert_float_equal(values[3], 50, 1e-9);
    assert_float_equal(values[4], 100, 1e-9);
    history_series(history, SERIES_CONNECTIONS, values, 3);
    assert_float_equal(values[0], 7, 1e-9);
}

TEST(restart_makes_a_gap_without_a_rate)
{
    double values[6];

    push(0, 1000);
    push(1, 1100);
    history_break(history);
    push(4, 5); /* another daemon, two seconds late */
    push(5, 15);
    assert_int_equal(history_length(history), 6);
    history_series(history, SERIES_REQUESTS, values, 6);
    assert_float_equal(values[1], 100, 1e-9);
    assert_true(isinf(values[2]) && values[2] < 0);
    assert_true(isinf(values[3]) && values[3] < 0);
    assert_true(isnan(values[4]));
    assert_float_equal(values[5], 10, 1e-9);
}

TEST(break_of_empty_history_does_nothing)
{
    history_break(history);
    push(0, 1);
    assert_int_equal(history_length(history), 1);
}

TEST(wall_clock_jump_keeps_rates_finite)
{
    double values[3];

    push(100, 10);
    push(50, 30);    /* set back */
    push(90000, 70); /* set far forward */
    history_series(history, SERIES_REQUESTS, values, 3);
    assert_float_equal(values[1], 20, 1e-9);
    assert_float_equal(values[2], 40, 1e-9);
}

TEST(full_ring_keeps_the_newest_seconds)
{
    static double values[SEGMENT_HISTORY_SAMPLES + 10];

    for (uint64_t i = 0; i < 2 * SEGMENT_HISTORY_SAMPLES + 5; i++)
        push(i, i * i);
    assert_int_equal(history_length(history), SEGMENT_HISTORY_SAMPLES);
    history_series(history, SERIES_REQUESTS, values, SEGMENT_HISTORY_SAMPLES + 10);
    assert_true(isfinite(values[9])); /* of its step */
    assert_true(isnan(values[10]));   /* the previous second is overwritten */
    assert_float_equal(values[11], (double)(2 * (SEGMENT_HISTORY_SAMPLES + 6) - 1), 1e-6);
    assert_float_equal(values[SEGMENT_HISTORY_SAMPLES + 9],
                       (double)(2 * (2 * SEGMENT_HISTORY_SAMPLES + 4) - 1), 1e-6);
}

/* A server with THREADS serving threads in worker slot 3, at second SECOND. */
static struct snapshot snapshot_of(struct thread_sample *thread, uint32_t threads,
                                   struct worker_sample *worker, struct histogram *latency,
                                   uint64_t second)
{
    static struct histogram outcomes[OUTCOME_COUNT], queue_waits[4];

    *worker = (struct worker_sample){.slot = 3, .pid = 77, .state = WORKER_SERVING};
    for (uint32_t i = 0; i < threads; i++) {
        thread[i] = (struct thread_sample){.slot = i, .worker = 3, .thread = i};
        thread[i].activity.state = THREAD_STATE_NONE + 1;
        thread[i].activity.tid = 100 + (int32_t)i;
        thread[i].values[METRIC_requests] = 1000 * second * (i + 1);
        thread[i].values[METRIC_connections_open] = i;
    }
    return (struct snapshot){.time_ns = second * NS_PER_S,
                             .wall_ns = (1000 + second) * NS_PER_S,
                             .threads = thread,
                             .thread_count = threads,
                             .thread_room = threads,
                             .workers = worker,
                             .worker_count = 1,
                             .worker_room = 4,
                             .latency = latency,
                             .outcome_latency = outcomes,
                             .queue_waits = queue_waits};
}

static void push_with_letters(uint64_t second, uint32_t threads)
{
    static char letters[HISTORY_LETTERS];
    struct sample_copy sample = sample_at(second, 0);

    memset(letters, 0, sizeof(letters));
    memset(letters, thread_state_table[THREAD_STATE_NONE + 1].letter, threads);
    history_push(history, &sample, letters);
}

TEST(past_second_has_its_threads_and_processes)
{
    static struct thread_sample thread[2], later_thread[2];
    static struct histogram latency[2];
    static struct process_table processes = {
        .count = 2,
        .process = {{.role = ROLE_MASTER, .pid = 7, .cores = 0.1F},
                    {.role = ROLE_WORKER, .slot = 3, .pid = 77, .cores = 1.5F}},
        .thread_count = 1,
        .thread = {{.tid = 101, .cores = 0.75F}}};
    struct history_cursor *cursor = history_cursor_create();
    struct model *model = model_create();
    struct worker_sample worker, later_worker;
    struct snapshot first = snapshot_of(thread, 2, &worker, latency, 1), second, later;
    const struct snapshot *then;
    const struct model *past;

    assert_non_null(cursor);
    assert_non_null(model);
    assert_int_equal(model_take(model, &first, true), 0);
    second = snapshot_of(thread, 2, &worker, latency, 2);
    assert_int_equal(model_take(model, &second, true), 0);
    push_with_letters(1, 2);
    push_with_letters(2, 2);
    history_add_threads(history, model, &processes);
    push_with_letters(3, 1);
    later = snapshot_of(later_thread, 1, &later_worker, latency, 3);
    later.thread_room = 2;
    later_worker.pid = 78; /* the worker of then has been replaced */
    assert_int_equal(history_cursor_set(cursor, history, &later, 1), 1);
    past = history_cursor_model(cursor);
    then = model_now(past);
    assert_int_equal(then->thread_count, 2);
    assert_int_equal(then->threads[1].worker, 3);
    assert_float_equal(model_thread_rate(past, &then->threads[1], METRIC_requests), 2000, 1e-3);
    assert_float_equal(model_thread_value(past, &then->threads[1], METRIC_requests), 4000, 1e-9);
    assert_float_equal(model_thread_value(past, &then->threads[1], METRIC_connections_open), 1,
                       1e-9);
    assert_true(isnan(model_thread_value(past, &then->threads[1], METRIC_bytes_received)));
    assert_float_equal(processes_thread_cores(history_cursor_processes(cursor), 101), 0.75, 1e-6);
    assert_int_equal(then->worker_count, 1);
    assert_int_equal(then->workers[0].pid, 77);
    assert_int_equal(history_cursor_processes(cursor)->count, 2);
    assert_int_equal(history_cursor_set(cursor, history, &later, 2), 2);
    assert_true(isnan(model_thread_rate(past, &then->threads[1], METRIC_requests)));
    assert_int_equal(history_cursor_processes(cursor)->count, 0);
    history_cursor_destroy(cursor);
    model_destroy(model);
}

/* A second before a restart has the pid and the start of the server that ran then. */
TEST(past_second_has_its_server)
{
    struct worker_sample worker = {.pid = 77, .state = WORKER_SERVING};
    static struct thread_sample thread[1];
    static struct histogram latency[1];
    struct history_cursor *cursor = history_cursor_create();
    struct snapshot now = snapshot_of(thread, 1, &worker, latency, 7);
    struct sample_copy first = sample_at(1, 0), second = sample_at(6, 0);

    now.server.pid = 66;
    history_begin(history, 55, first.time_ns - NS_PER_S, first.time_ns - NS_PER_S);
    push_with_letters(1, 1);
    push_with_letters(2, 1);
    history_begin(history, 66, second.time_ns - NS_PER_MS, first.time_ns - NS_PER_S);
    push_with_letters(6, 1);
    push_with_letters(7, 1);
    assert_int_equal(history_cursor_set(cursor, history, &now, 1), 1);
    assert_int_equal(model_now(history_cursor_model(cursor))->server.pid, 66);
    assert_int_equal(history_cursor_set(cursor, history, &now, 5), 5);
    assert_int_equal(model_now(history_cursor_model(cursor))->server.pid, 55);
    assert_int_equal(model_now(history_cursor_model(cursor))->server.started_ns,
                     first.time_ns - NS_PER_S);
    history_cursor_destroy(cursor);
}

/* The memory of the threads is fixed: with more threads they are kept for a shorter time. */
TEST(many_threads_are_kept_for_a_shorter_time)
{
    enum { THREADS = 1000, SECONDS = 100 };
    static struct thread_sample thread[THREADS];
    static struct histogram latency[1];
    static const struct process_table processes;
    struct history_cursor *cursor = history_cursor_create();
    struct model *model = model_create();
    struct worker_sample worker;
    struct snapshot now = snapshot_of(thread, THREADS, &worker, latency, 1);
    const struct model *past;
    size_t kept = 0;

    assert_non_null(cursor);
    assert_non_null(model);
    assert_int_equal(model_take(model, &now, false), 0);
    for (uint64_t i = 0; i < SECONDS; i++) {
        push_with_letters(i, THREADS);
        history_add_threads(history, model, &processes);
    }
    for (size_t back = 1; back < SECONDS; back++) {
        assert_int_equal(history_cursor_set(cursor, history, &now, back), back);
        past = history_cursor_model(cursor);
        assert_int_equal(model_now(past)->thread_count, THREADS);
        if (!isnan(
                model_thread_value(past, &model_now(past)->threads[THREADS - 1], METRIC_requests)))
            kept++;
    }
    assert_int_equal(kept, HISTORY_THREADS * SEGMENT_HISTORY_SAMPLES / THREADS - 1);
    history_cursor_destroy(cursor);
    model_destroy(model);
}

enum { HOUR_S = 3600, DAY_S = 24 * HOUR_S, LONG_S = DAY_S + 2 * HOUR_S };

/* LONG_S seconds: 5 requests per second, in the last hour 9. */
static void push_more_than_a_day(void)
{
    for (uint64_t i = 0; i < LONG_S; i++)
        push(i, i < LONG_S - HOUR_S ? 5 * i : 5 * (LONG_S - HOUR_S) + 9 * (i - (LONG_S - HOUR_S)));
}

TEST(steps_of_ten_seconds_cover_a_day)
{
    static double values[HISTORY_VALUES];
    static uint64_t times_ns[HISTORY_VALUES];
    size_t count;

    push_more_than_a_day();
    assert_in_range(history_reach(history), DAY_S - 2 * HISTORY_STEP_S, DAY_S);
    count = history_span(history, SERIES_REQUESTS, DAY_S, values);
    assert_int_equal(count, DAY_S / HISTORY_STEP_S);
    assert_float_equal(values[count - 1], 9, 1e-3);
    assert_float_equal(values[count - HOUR_S / HISTORY_STEP_S - 2], 5, 1e-3);
    assert_float_equal(values[1], 5, 1e-3);
    assert_int_equal(history_span_times(history, HOUR_S, times_ns), HOUR_S / HISTORY_STEP_S);
    assert_int_equal(times_ns[10] - times_ns[9], HISTORY_STEP_S * NS_PER_S);
    count = history_span(history, SERIES_REQUESTS, 60, values);
    assert_int_equal(count, 60);
    history_look_back(history,
                      2 * HOUR_S); /* a short graph of long ago has the value of each step */
    assert_int_equal(history_span(history, SERIES_REQUESTS, 60, values), 60);
    assert_float_equal(values[0], 5, 1e-3);
    assert_float_equal(values[59], 5, 1e-3);
}

/* From the newest second back to the oldest step, and forward again. */
TEST(cursor_reaches_each_step)
{
    static struct thread_sample thread[1];
    static struct histogram latency[1];
    struct history_cursor *cursor = history_cursor_create();
    struct worker_sample worker;
    struct snapshot now = snapshot_of(thread, 1, &worker, latency, LONG_S);
    size_t back = 0, moved, moves = 0;

    assert_non_null(cursor);
    push_more_than_a_day();
    while ((moved = history_cursor_set(cursor, history, &now,
                                       back + history_resolution(history, back))) > back) {
        back = moved;
        moves++;
    }
    assert_int_equal(back, history_reach(history));
    assert_in_range(moves, SEGMENT_HISTORY_SAMPLES + (DAY_S - SEGMENT_HISTORY_SAMPLES) / 10 - 3,
                    SEGMENT_HISTORY_SAMPLES + (DAY_S - SEGMENT_HISTORY_SAMPLES) / 10);
    while (back > 1) {
        moved = history_cursor_set(cursor, history, &now, back - history_resolution(history, back));
        assert_true(moved < back);
        back = moved;
        moves--;
    }
    assert_in_range(moves, 0, 2);
    assert_in_range(history_cursor_set(cursor, history, &now, 3 * HOUR_S), 3 * HOUR_S - 10,
                    3 * HOUR_S + 10);
    assert_float_equal(model_rate(history_cursor_model(cursor), METRIC_requests), 5, 1e-3);
    history_cursor_destroy(cursor);
}

TEST(mark_of_long_ago_is_found)
{
    uint64_t newest_s = 1000 + LONG_S - 1;

    push_more_than_a_day();
    assert_int_equal(history_back_of(history, (newest_s - 30) * NS_PER_S), 30);
    assert_in_range(history_back_of(history, (newest_s - 5 * HOUR_S) * NS_PER_S), 5 * HOUR_S - 10,
                    5 * HOUR_S);
}

TEST(latency_of_steps_adds_up)
{
    uint64_t buckets[HISTOGRAM_COARSE_BUCKETS] = {0};
    struct sample_copy sample;

    for (uint64_t i = 0; i < 2000; i++) {
        sample = sample_at(i, i);
        sample.latency[7] = 3;
        history_push(history, &sample, NULL);
    }
    assert_true(history_latency(history, 1000, 1100, buckets));
    assert_int_equal(buckets[7], 300);
    assert_false(history_latency(history, 100, 200, buckets));
}
