/*
 * The log ring with a writer, a consumer and readers. Records are generated from their serial
 * number, so inconsistent copies are detected.
 */
#include "common/clock.h"
#include "common/log_ring.h"
#include "tests/test.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum {
    CAPACITY = 64, /* words; small, so that records cross the end and the ring is often full */
    LONGEST = 40,  /* words per record */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    RECORDS = 2000, /* a sanitizer reports a race without a bad schedule */
#else
    RECORDS = 200000,
#endif
};

#define RUN_NS (2 * NS_PER_S) /* of a writer that waits for the consumer */

static struct log_ring_cursor cursor;
static struct log_ring storage, *const ring = &storage;

static int make_ring(void **state)
{
    size_t bytes = log_ring_bytes(CAPACITY);

    (void)state;
    storage.words = aligned_alloc(CACHE_LINE, (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    if (storage.words == NULL)
        return -1;
    memset(storage.words, 0, bytes);
    memset(&cursor, 0, sizeof(cursor));
    storage.cursor = &cursor;
    storage.capacity = log_ring_capacity(bytes);
    return 0;
}

static int free_ring(void **state)
{
    (void)state;
    free(storage.words);
    storage.words = NULL;
    return 0;
}

const struct test_fixture test_fixture = {make_ring, free_ring};

static uint64_t length_of(uint64_t serial)
{
    return 1 + serial * 7919 % LONGEST;
}

static uint64_t word_of(uint64_t serial, uint64_t i)
{
    return (serial + 1) * UINT64_C(0x9e3779b97f4a7c15) + i;
}

static uint64_t make_record(uint64_t serial, uint64_t *record)
{
    uint64_t count = length_of(serial);

    record[0] = count | serial << 32;
    for (uint64_t i = 1; i < count; i++)
        record[i] = word_of(serial, i);
    return count;
}

static bool is_whole(const uint64_t *record)
{
    uint64_t serial = record[0] >> 32, count = record[0] & UINT32_MAX;

    if (count != length_of(serial))
        return false;
    for (uint64_t i = 1; i < count; i++)
        if (record[i] != word_of(serial, i))
            return false;
    return true;
}

static void append(uint64_t serial)
{
    uint64_t record[LONGEST];

    log_ring_append(ring, record, make_record(serial, record));
}

/* Words not consumed yet. */
static uint64_t waiting(void)
{
    return atomic_load(&ring->words->head) - atomic_load(&cursor.position);
}

static void drain_to(uint64_t position)
{
    atomic_store_explicit(&cursor.position, position, memory_order_release);
}

TEST(capacity_is_a_power_of_two)
{
    static const struct {
        size_t bytes;
        uint64_t capacity;
    } cases[] = {{0, 0},
                 {64, 0},
                 {71, 0},
                 {72, 1},
                 {64 + 24, 2},
                 {64 + 31 * 8, 16},
                 {64 + 32 * 8, 32},
                 {64 + 33 * 8, 32},
                 {64 + 64 * 8 - 1, 32}};

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
        assert_int_equal(log_ring_capacity(cases[i].bytes), cases[i].capacity);
}

TEST(empty_ring_has_no_record)
{
    uint64_t position = 0, record[LONGEST];

    assert_int_equal(waiting(), 0);
    assert_int_equal(log_ring_read(ring, &position, record, LONGEST), LOG_RING_EMPTY);
    assert_int_equal(position, 0);
}

TEST(records_are_read_in_order)
{
    uint64_t position = 0, record[LONGEST];

    for (uint64_t serial = 0; serial < 5000; serial++) {
        append(serial);
        assert_int_equal(waiting(), length_of(serial));
        assert_int_equal(log_ring_read(ring, &position, record, LONGEST), LOG_RING_RECORD);
        assert_int_equal(record[0] >> 32, serial);
        assert_true(is_whole(record));
        assert_int_equal(log_ring_read(ring, &position, record, LONGEST), LOG_RING_EMPTY);
        drain_to(position);
    }
    assert_true(position > CAPACITY);
}

/* A record that crosses the end of the array. */
TEST(record_across_the_end_is_read)
{
    uint64_t position, record[CAPACITY], copy[LONGEST];

    for (uint64_t before = 1; before < LONGEST; before++) {
        uint64_t start = CAPACITY - before;

        memset(record, 0, sizeof(record));
        record[0] = start;
        log_ring_append(ring, record, start);
        for (uint64_t i = 0; i < LONGEST; i++)
            record[i] = 1000 * before + i;
        record[0] = LONGEST;
        position = atomic_load(&ring->words->head);
        assert_int_equal(position % CAPACITY, start);
        log_ring_append(ring, record, LONGEST);
        assert_int_equal(log_ring_read(ring, &position, copy, LONGEST), LOG_RING_RECORD);
        assert_memory_equal(copy, record, sizeof(copy));
        /* Back to the start of the array. */
        record[0] = CAPACITY - (start + LONGEST) % CAPACITY;
        log_ring_append(ring, record, record[0]);
        drain_to(atomic_load(&ring->words->head));
    }
}

TEST(full_ring_has_no_room)
{
    uint64_t record[CAPACITY] = {CAPACITY}, copy[CAPACITY], position = 0;

    assert_true(log_ring_has_room(ring, CAPACITY));
    assert_false(log_ring_has_room(ring, CAPACITY + 1));
    record[CAPACITY - 1] = 4711;
    log_ring_append(ring, record, CAPACITY);
    assert_int_equal(waiting(), CAPACITY);
    assert_false(log_ring_has_room(ring, 1));
    assert_true(log_ring_has_room(ring, 0));
    assert_int_equal(log_ring_read(ring, &position, copy, CAPACITY), LOG_RING_RECORD);
    assert_memory_equal(copy, record, sizeof(record));
    assert_false(log_ring_has_room(ring, 1)); /* reading frees nothing */
    drain_to(1);
    assert_true(log_ring_has_room(ring, 1));
    assert_false(log_ring_has_room(ring, 2));
    drain_to(position);
    assert_true(log_ring_has_room(ring, CAPACITY));
}

TEST(impossible_cursor_leaves_room)
{
    uint64_t record[CAPACITY] = {CAPACITY};
    const uint64_t impossible[] = {CAPACITY + 1, 1000 * CAPACITY, UINT64_MAX, UINT64_MAX / 2};

    log_ring_append(ring, record, CAPACITY);
    for (size_t i = 0; i < ARRAY_LENGTH(impossible); i++) {
        drain_to(impossible[i]);
        assert_true(log_ring_has_room(ring, CAPACITY));
    }
    drain_to(0);
    assert_false(log_ring_has_room(ring, 1));
}

/* Consumed records stay readable until they are overwritten. */
TEST(consumed_records_stay_readable)
{
    uint64_t position = 0, record[LONGEST];

    append(30);
    append(31);
    drain_to(atomic_load(&ring->words->head));
    assert_int_equal(log_ring_read(ring, &position, record, LONGEST), LOG_RING_RECORD);
    assert_int_equal(record[0] >> 32, 30);
    assert_int_equal(log_ring_read(ring, &position, record, LONGEST), LOG_RING_RECORD);
    assert_int_equal(record[0] >> 32, 31);
}

TEST(reader_overrun_by_a_lap)
{
    uint64_t position = 0, words[LONGEST], record[CAPACITY] = {CAPACITY / 2};

    log_ring_append(ring, record, CAPACITY / 2);
    log_ring_append(ring, record, CAPACITY / 2);
    drain_to(CAPACITY);
    record[0] = 1;
    log_ring_append(ring, record, 1);
    assert_int_equal(log_ring_read(ring, &position, words, LONGEST), LOG_RING_OVERRUN);
    assert_int_equal(position, CAPACITY + 1);
    assert_int_equal(log_ring_read(ring, &position, words, LONGEST), LOG_RING_EMPTY);
    append(9);
    assert_int_equal(log_ring_read(ring, &position, words, LONGEST), LOG_RING_RECORD);
    assert_int_equal(words[0] >> 32, 9);
}

/* The writer has claimed the words but not published them: the copy is discarded. */
TEST(reader_overrun_by_a_claim)
{
    uint64_t position = 0, words[LONGEST], record[CAPACITY] = {LONGEST};

    log_ring_append(ring, record, LONGEST);
    record[0] = CAPACITY - LONGEST;
    log_ring_append(ring, record, CAPACITY - LONGEST);
    atomic_store(&ring->words->claimed, CAPACITY + 1);
    assert_int_equal(log_ring_read(ring, &position, words, LONGEST), LOG_RING_OVERRUN);
    assert_int_equal(position, CAPACITY);
}

TEST_WITH(invalid_record_is_an_overrun, NULL, NULL)
{
    static const struct {
        uint64_t length; /* as in the record */
        uint64_t room;
    } cases[] = {
        {0, LONGEST}, {11, LONGEST}, {10, 9}, {UINT32_MAX, LONGEST}, {LONGEST + 1, LONGEST},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        uint64_t position = 0, record[10] = {10}, *copy = malloc(cases[i].room * sizeof(*copy));

        assert_non_null(copy);
        make_ring(state);
        log_ring_append(ring, record, 10);
        atomic_store(&ring->words->word[0], cases[i].length);
        assert_int_equal(log_ring_read(ring, &position, copy, cases[i].room), LOG_RING_OVERRUN);
        assert_int_equal(position, 10);
        free(copy);
        free_ring(state);
    }
}

/* A position of another ring, or of an earlier use of this one, advances to head. */
TEST(position_ahead_of_head_is_an_overrun)
{
    uint64_t position = 1000, record[LONGEST];

    append(1);
    assert_int_equal(log_ring_read(ring, &position, record, LONGEST), LOG_RING_OVERRUN);
    assert_int_equal(position, length_of(1));
}

/*
 * Three threads at full speed; they count, the test checks. Where the threads share one CPU with
 * busy processes, a full ring costs a turn of all of them, so the writer also stops after a time.
 */

static atomic_bool writer_done;
static uint64_t written; /* records; read after writer_done */

static void *write_all(void *unused)
{
    uint64_t record[LONGEST], deadline = clock_monotonic_ns() + RUN_NS, serial;

    for (serial = 0; serial < RECORDS && (serial == 0 || clock_monotonic_ns() < deadline);
         serial++) {
        uint64_t count = make_record(serial, record);

        while (!log_ring_has_room(ring, count))
            sched_yield();
        log_ring_append(ring, record, count);
    }
    written = serial;
    atomic_store(&writer_done, true);
    return unused;
}

struct findings {
    uint64_t whole, torn, out_of_order, overtaken;
    uint64_t next; /* lowest valid serial number */
};

static enum log_ring_result take(struct findings *found, uint64_t *position)
{
    uint64_t record[LONGEST];
    enum log_ring_result result = log_ring_read(ring, position, record, LONGEST);

    if (result == LOG_RING_OVERRUN) {
        found->overtaken++;
    } else if (result == LOG_RING_RECORD && is_whole(record)) {
        found->whole++;
        if (record[0] >> 32 < found->next)
            found->out_of_order++;
        found->next = (record[0] >> 32) + 1;
    } else if (result == LOG_RING_RECORD) {
        found->torn++;
    }
    return result;
}

static void *look_on(void *argument)
{
    struct findings *found = argument;
    uint64_t position = 0;
    bool last_look;

    do {
        last_look = atomic_load(&writer_done);
        while (take(found, &position) != LOG_RING_EMPTY)
            ;
        sched_yield();
    } while (!last_look);
    return NULL;
}

static void *drain_all(void *argument)
{
    struct findings *found = argument;
    uint64_t position = 0;

    while (!(atomic_load(&writer_done) && found->next == written) &&
           found->overtaken + found->torn == 0) {
        if (take(found, &position) == LOG_RING_EMPTY)
            sched_yield();
        else
            drain_to(position);
    }
    drain_to(UINT64_MAX / 2); /* do not block the writer after a failure */
    return NULL;
}

TEST(concurrent_consumer_and_reader)
{
    struct findings drained = {0}, seen = {0};
    pthread_t writer, consumer, reader;

    atomic_store(&writer_done, false);
    assert_int_equal(pthread_create(&reader, NULL, look_on, &seen), 0);
    assert_int_equal(pthread_create(&consumer, NULL, drain_all, &drained), 0);
    assert_int_equal(pthread_create(&writer, NULL, write_all, NULL), 0);
    pthread_join(writer, NULL);
    pthread_join(consumer, NULL);
    pthread_join(reader, NULL);

    assert_int_equal(drained.whole, written);
    assert_int_equal(drained.torn + drained.out_of_order + drained.overtaken, 0);
    assert_int_equal(seen.torn + seen.out_of_order, 0);
    assert_true(seen.whole + seen.overtaken > 0);
    print_message("reader: %llu complete, overrun %llu times\n", (unsigned long long)seen.whole,
                  (unsigned long long)seen.overtaken);
}

/* Without a consumer the writer overruns readers; what they read is still complete and in order.
 */
static void *write_over(void *unused)
{
    for (uint64_t serial = 0; serial < RECORDS; serial++)
        append(serial);
    atomic_store(&writer_done, true);
    return unused;
}

TEST(concurrent_reader_of_unlimited_writer)
{
    struct findings seen[2] = {{0}, {0}};
    pthread_t writer, reader[2];

    atomic_store(&writer_done, false);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&reader[i], NULL, look_on, &seen[i]), 0);
    assert_int_equal(pthread_create(&writer, NULL, write_over, NULL), 0);
    pthread_join(writer, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(reader[i], NULL);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(seen[i].torn + seen[i].out_of_order, 0);
        assert_true(seen[i].whole + seen[i].overtaken > 0);
    }
}

/*
 * A reader of the oldest record, which the writer overwrites next. All records have the same
 * length, so the reader knows where the oldest one starts.
 */
enum { EDGE_WORDS = 8 };

static void *write_at_the_edge(void *unused)
{
    uint64_t record[EDGE_WORDS];

    for (uint64_t serial = 0; serial < RECORDS; serial++) {
        record[0] = EDGE_WORDS | serial << 32;
        for (uint64_t i = 1; i < EDGE_WORDS; i++)
            record[i] = word_of(serial, i);
        log_ring_append(ring, record, EDGE_WORDS);
    }
    atomic_store(&writer_done, true);
    return unused;
}

TEST(concurrent_reader_of_oldest_record)
{
    uint64_t torn = 0, record[EDGE_WORDS];
    pthread_t writer;

    atomic_store(&writer_done, false);
    assert_int_equal(pthread_create(&writer, NULL, write_at_the_edge, NULL), 0);
    while (!atomic_load(&writer_done)) {
        uint64_t head = atomic_load_explicit(&ring->words->head, memory_order_acquire);
        uint64_t position = head > CAPACITY ? head - CAPACITY : 0, serial = position / EDGE_WORDS;

        if (log_ring_read(ring, &position, record, EDGE_WORDS) != LOG_RING_RECORD)
            continue;
        torn += record[0] >> 32 != serial;
        for (uint64_t i = 1; i < EDGE_WORDS; i++)
            torn += record[i] != word_of(serial, i);
    }
    pthread_join(writer, NULL);
    assert_int_equal(torn, 0);
}

/* Expects records 0 to COUNT - 1 from position FROM on. */
static void expect_records(uint64_t from, uint64_t count)
{
    uint64_t position = from, record[LONGEST];

    for (uint64_t serial = 0; serial < count; serial++) {
        assert_int_equal(log_ring_read(ring, &position, record, LONGEST), LOG_RING_RECORD);
        assert_int_equal(record[0] >> 32, serial);
    }
    assert_int_equal(log_ring_read(ring, &position, record, LONGEST), LOG_RING_EMPTY);
}

TEST(next_writer_keeps_records)
{
    append(0);
    atomic_store(&ring->words->claimed, waiting() + 40); /* died before it stored head */
    log_ring_resume(ring, LONGEST);
    append(1);
    expect_records(0, 2);
}

TEST_WITH(next_writer_cuts_malformed_records, NULL, NULL)
{
    static const uint64_t lengths[] = {0, LONGEST + 1, UINT32_MAX};

    for (size_t i = 0; i < ARRAY_LENGTH(lengths); i++) {
        uint64_t end;

        make_ring(state);
        append(0);
        end = waiting();
        atomic_store(&ring->words->word[end], lengths[i]);
        atomic_store(&ring->words->head, end + 20);
        log_ring_resume(ring, LONGEST);
        append(1);
        expect_records(0, 2);
        free_ring(state);
    }
}

TEST_WITH(next_writer_continues_after_the_consumer, NULL, NULL)
{
    static const uint64_t wrong[] = {0, CAPACITY + 1 + 1000, UINT64_MAX, 999};

    for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++) {
        make_ring(state);
        drain_to(1000);
        atomic_store(&ring->words->head, wrong[i]);
        log_ring_resume(ring, LONGEST);
        assert_true(log_ring_has_room(ring, CAPACITY));
        append(0);
        expect_records(1000, 1);
        free_ring(state);
    }
}
