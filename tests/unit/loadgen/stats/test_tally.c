/* Counting requests, and sums of tallies. */
#include "common/macros.h"
#include "loadgen/stats/tally.h"
#include "tests/test.h"

static struct tally tally, sum;

static const struct transaction good = {
    .error = ERROR_KIND_NONE,
    .status = 200,
    .connected = true,
    .connect_ns = 100,
    .first_byte_ns = 110,
    .service_ns = 115,
    .latency_ns = 120,
    .head_bytes = 50,
    .body_bytes = 1000,
};

TEST(response_is_counted_with_times)
{
    struct transaction again = good;

    again.connected = false;
    tally_reset(&tally);
    tally_record(&tally, &good);
    tally_record_connection(&tally, &good);
    tally_record(&tally, &again);
    tally_record_connection(&tally, &again);
    assert_int_equal(tally_get(&tally, TALLY_answered), 2);
    assert_int_equal(tally_get(&tally, TALLY_head_bytes), 100);
    assert_int_equal(tally_get(&tally, TALLY_body_bytes), 2000);
    assert_int_equal(tally_get(&tally, TALLY_connections_opened), 1);
    assert_int_equal(tally_status(&tally, 200), 2);
    assert_int_equal(tally_errors(&tally), 0);
    assert_int_equal(histogram_count(&tally.latency), 2);
    assert_int_equal(histogram_max(&tally.latency), 120);
    assert_int_equal(histogram_max(&tally.service), 115);
    assert_int_equal(histogram_max(&tally.first_byte), 110);
    assert_int_equal(histogram_count(&tally.connect), 1);
    assert_int_equal(histogram_max(&tally.connect), 100);
}

/* It has bytes and a connection, but no status and no latency. */
TEST(error_is_counted_without_times)
{
    struct transaction lost = good;

    tally_reset(&tally);
    for (size_t kind = 0; kind < ERROR_KIND_COUNT; kind++) {
        lost.error = (enum error_kind)kind;
        tally_record(&tally, &lost);
        tally_record_connection(&tally, &lost);
        assert_int_equal(tally_error(&tally, lost.error), 1);
        assert_int_equal(tally_errors(&tally), kind + 1);
    }
    assert_int_equal(tally_get(&tally, TALLY_answered), 0);
    assert_int_equal(tally_status(&tally, 200), 0);
    assert_int_equal(histogram_count(&tally.latency), 0);
    assert_int_equal(histogram_count(&tally.first_byte), 0);
    assert_int_equal(tally_get(&tally, TALLY_connections_opened), ERROR_KIND_COUNT);
    assert_int_equal(tally_get(&tally, TALLY_body_bytes), 1000 * ERROR_KIND_COUNT);
}

TEST(request_is_at_most_one_error)
{
    struct transaction transaction = good;

    tally_reset(&tally);
    transaction.status = 404;
    transaction.bad_status = transaction.bad_content = true;
    tally_record(&tally, &transaction);
    assert_int_equal(tally_get(&tally, TALLY_bad_statuses), 1);
    assert_int_equal(tally_get(&tally, TALLY_bad_contents), 0);
    transaction.bad_status = false;
    tally_record(&tally, &transaction);
    assert_int_equal(tally_get(&tally, TALLY_bad_contents), 1);
    tally_count(&tally, TALLY_unanswered, 3);
    assert_int_equal(tally_bad(&tally), 5);
    assert_int_equal(tally_get(&tally, TALLY_answered), 2);
    transaction.status = 5000;
    tally_record(&tally, &transaction);
    assert_int_equal(tally_status(&tally, 404), 2);
    assert_int_equal(tally_status(&tally, 0), 1); /* an invalid status */
    assert_int_equal(tally_status(&tally, 1000), 0);
}

TEST(sum_is_complete)
{
    struct transaction refused = {.error = ERROR_KIND_REFUSED};

    tally_reset(&tally);
    tally_reset(&sum);
    tally_record(&tally, &good);
    tally_record_connection(&tally, &good);
    tally_record(&tally, &refused);
    tally_count(&tally, TALLY_begun, 3);
    tally_count(&tally, TALLY_unanswered, 1);
    tally_add(&sum, &tally);
    tally_add(&sum, &tally);
    assert_int_equal(tally_get(&sum, TALLY_begun), 6);
    assert_int_equal(tally_get(&sum, TALLY_answered), 2);
    assert_int_equal(tally_get(&sum, TALLY_unanswered), 2);
    assert_int_equal(tally_error(&sum, ERROR_KIND_REFUSED), 2);
    assert_int_equal(tally_status(&sum, 200), 2);
    assert_int_equal(histogram_count(&sum.latency), 2);
    assert_int_equal(histogram_count(&sum.first_byte), 2);
    assert_int_equal(histogram_count(&sum.connect), 2);
    assert_int_equal(tally_get(&tally, TALLY_begun), 3);
    tally_reset(&sum);
    assert_int_equal(tally_get(&sum, TALLY_begun) + tally_errors(&sum) + tally_status(&sum, 200),
                     0);
    assert_int_equal(histogram_count(&sum.latency), 0);
}
