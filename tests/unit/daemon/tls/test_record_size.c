/* The sizes of TLS records: small on a new connection and after a pause, then larger. */
#include "common/clock.h"
#include "daemon/tls/record_size.h"
#include "tests/test.h"

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

TEST(records_grow_as_the_connection_warms_up)
{
    struct record_size size = {0};
    size_t sent = 0, before = 0;

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

TEST(small_write_is_one_record)
{
    struct record_size size = {0};
    int records;

    assert_int_equal(send_all(&size, NS_PER_S, RECORD_SEGMENTS_BYTES, &records),
                     RECORD_SEGMENTS_BYTES);
    assert_int_equal(records, 1);
    assert_int_equal(send_all(&size, NS_PER_S, RECORD_SEGMENTS_BYTES + 1, &records),
                     RECORD_SEGMENT_BYTES);
    assert_int_equal(send_all(&size, NS_PER_S, 1, &records), 1);
}

TEST(pause_makes_the_connection_cold)
{
    const uint64_t pause = RECORD_PAUSE_MS * NS_PER_MS;
    struct record_size size = {0};
    uint64_t now = 10 * NS_PER_S;
    int records;

    send_all(&size, now, LARGE, &records);
    now += pause;
    assert_int_equal(send_all(&size, now, LARGE, &records), RECORD_MAX_BYTES);
    now += pause + 1;
    assert_int_equal(send_all(&size, now, LARGE, &records), RECORD_SEGMENT_BYTES);
}
