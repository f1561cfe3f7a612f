/* The sizes of TLS records: small on a new connection and after a pause, then larger. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/clock.h"
#include "daemon/tls/record_size.h"

enum { LARGE = 1024 * 1024 };

/* Sends LENGTH bytes at NOW. Returns the size of the first record and counts all in *RECORDS. */
static size_t send_all(struct record_size *size, uint64_t now_ns, size_t length, int *records)
{
    size_t first = 0;

    for (*records = 0; length > 0; ++*records) {
        size_t next = record_size_next(size, now_ns, length);

        assert_in_range(next, 1, length < RECORD_MAX_BYTES ? length : RECORD_MAX_BYTES);
        record_size_sent(size, next);
        first = first == 0 ? next : first;
        length -= next;
    }
    return first;
}

static void records_grow_as_the_connection_warms_up(void **state)
{
    struct record_size size = {0};
    size_t sent = 0, before = 0;

    (void)state;
    while (sent < LARGE) {
        size_t next = record_size_next(&size, NS_PER_S, LARGE);

        assert_true(next >= before);
        assert_int_equal(next, sent < RECORD_COLD_BYTES   ? RECORD_SEGMENT_BYTES
                               : sent < RECORD_WARM_BYTES ? RECORD_SEGMENTS_BYTES
                                                          : RECORD_MAX_BYTES);
        record_size_sent(&size, next);
        sent += next;
        before = next;
    }
    assert_int_equal(before, RECORD_MAX_BYTES);
}

static void small_write_is_one_record(void **state)
{
    struct record_size size = {0};
    int records;

    (void)state;
    assert_int_equal(send_all(&size, NS_PER_S, RECORD_SEGMENTS_BYTES, &records),
                     RECORD_SEGMENTS_BYTES);
    assert_int_equal(records, 1);
    assert_int_equal(send_all(&size, NS_PER_S, RECORD_SEGMENTS_BYTES + 1, &records),
                     RECORD_SEGMENT_BYTES);
    assert_int_equal(send_all(&size, NS_PER_S, 1, &records), 1);
}

static void pause_makes_the_connection_cold(void **state)
{
    const uint64_t pause = RECORD_PAUSE_MS * NS_PER_MS;
    struct record_size size = {0};
    uint64_t now = 10 * NS_PER_S;
    int records;

    (void)state;
    send_all(&size, now, LARGE, &records);
    now += pause;
    assert_int_equal(send_all(&size, now, LARGE, &records), RECORD_MAX_BYTES);
    now += pause + 1;
    assert_int_equal(send_all(&size, now, LARGE, &records), RECORD_SEGMENT_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_grow_as_the_connection_warms_up),
        cmocka_unit_test(small_write_is_one_record),
        cmocka_unit_test(pause_makes_the_connection_cold),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
