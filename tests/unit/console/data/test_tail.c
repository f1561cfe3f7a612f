/* The tail: merging by time, complete reading within its budget, missed records. */
#include "common/clock.h"
#include "common/log_record.h"
#include "common/macros.h"
#include "common/segment_reader.h"
#include "console/data/tail.h"
#include "tests/test.h"
#include "tests/unit/own_segment.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct segment segment;
static struct segment_reader reader;
static struct host_names *names;
static struct tail *tail;
static uint64_t now_ns, taken;

static int begin(void **state)
{
    (void)state;
    if (own_segment_create(
            &segment,
            (struct segment_plan){.max_threads = 3, .max_hosts = 4, .ring_bytes = 16 * 1024}) != 0)
        return -1;
    segment_reserve_thread(&segment, 0);
    segment_reserve_thread(&segment, 2);
    segment_publish(&segment);
    names = host_names_create();
    tail = tail_create(names);
    if (tail == NULL || segment_attach_copy(&reader, segment.base, segment.size) != NULL)
        return -1;
    now_ns = NS_PER_S;
    return tail_attach(tail, &reader, UINT64_MAX);
}

static int end(void **state)
{
    (void)state;
    tail_destroy(tail);
    host_names_destroy(names);
    segment_destroy(&segment);
    return 0;
}

const struct test_fixture test_fixture = {begin, end};

static void log_line(uint32_t ring, uint64_t number)
{
    const struct log_ring log = segment_ring(&segment, ring);
    uint64_t words[LOG_RECORD_WORDS_MAX];
    char line[64];
    struct log_record record = {.time_ns = number * 1000, .status = 200, .agent = SPAN("test")};

    snprintf(line, sizeof(line), "GET /%llu HTTP/1.1", (unsigned long long)number);
    record.request_line = span_of(line);
    log_ring_append(&log, words, log_record_pack(&record, words));
}

static void log_lines(uint32_t ring, uint64_t from, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        log_line(ring, from + i);
}

static void count_taken(void *context, const struct tail_record *record)
{
    (void)context;
    (void)record;
    taken++;
}

/* Reads PAUSE_NS after the last time. */
static uint64_t read_after(uint64_t pause_ns)
{
    uint64_t count;

    taken = 0;
    now_ns += pause_ns;
    count = tail_read(tail, &reader, now_ns, count_taken, NULL);
    assert_int_equal(taken, count);
    return count;
}

static void assert_newest(size_t back, uint64_t number)
{
    char line[64];

    snprintf(line, sizeof(line), "GET /%llu HTTP/1.1", (unsigned long long)number);
    assert_string_equal(tail_line(tail, back)->request, line);
    assert_string_equal(tail_line(tail, back)->agent, "test");
    assert_string_equal(tail_line(tail, back)->referer, "");
}

static void log_line_of_host(uint64_t time_ns, uint16_t host)
{
    const struct log_ring log = segment_ring(&segment, 0);
    uint64_t words[LOG_RECORD_WORDS_MAX];
    struct log_record record = {.time_ns = time_ns, .status = 200, .host = host};

    record.request_line = SPAN("GET / HTTP/1.1");
    log_ring_append(&log, words, log_record_pack(&record, words));
}

/* A line keeps the name that the host had, whatever its entry is used for later. */
TEST(lines_have_the_names_of_their_hosts)
{
    segment_store_host(&segment, 0, 1, "*");
    segment_store_host(&segment, 1, 2, "old.example");
    log_line_of_host(1, 0);
    log_line_of_host(2, 1);
    log_line_of_host(3, 2);      /* not in use */
    log_line_of_host(4, 0xffff); /* no such entry */
    assert_int_equal(read_after(20 * NS_PER_MS), 4);
    segment_store_host(&segment, 1, 0, "");
    segment_store_host(&segment, 1, 3, "new.example");
    log_line_of_host(5, 1);
    assert_int_equal(read_after(20 * NS_PER_MS), 1);
    assert_string_equal(tail_line(tail, 4)->host, "*");
    assert_string_equal(tail_line(tail, 3)->host, "old.example");
    assert_string_equal(tail_line(tail, 2)->host, "");
    assert_string_equal(tail_line(tail, 1)->host, "");
    assert_string_equal(tail_line(tail, 0)->host, "new.example");
}

TEST(texts_are_readable_where_safe)
{
    static const struct {
        const char *bytes, *text;
    } cases[] = {
        {"GET /a%20b%2Fc HTTP/1.1", "GET /a%20b%2Fc HTTP/1.1"}, /* ASCII stays encoded */
        {"GET /caf%C3%A9 HTTP/1.1", "GET /caf\xc3\xa9 HTTP/1.1"},
        {"GET /caf\xc3\xa9 HTTP/1.1", "GET /caf\xc3\xa9 HTTP/1.1"},
        {"/%e2%82%ac%E2%82%AC", "/\xe2\x82\xac\xe2\x82\xac"},
        {"/%C3x%FF%", "/%C3x%FF%"},     /* not UTF-8 */
        {"/%E2%80%AEx", "/%E2%80%AEx"}, /* right-to-left override */
        {"/\xff\x1b[m", "/\\xff\\x1b[m"},
        {"/%C2%9b31m", "/%C2%9b31m"}, /* CSI of C1 */
    };
    char buffer[64];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_true(tail_readable(buffer, sizeof(buffer), cases[i].bytes, strlen(cases[i].bytes)));
        assert_string_equal(buffer, cases[i].text);
    }
    assert_false(tail_readable(buffer, 4, "ab\xc3\xa9", 4)); /* cut between characters */
    assert_string_equal(buffer, "ab");
}

TEST(overrun_ring_shows_its_newest_records)
{
    for (uint64_t i = 1; i <= 5000; i++)
        log_line(0, i);
    assert_true(read_after(20 * NS_PER_MS) > 10); /* the records already in the rings */
    assert_newest(0, 5000);
    for (size_t back = 1; back < tail_count(tail); back++)
        assert_newest(back, 5000 - back);
    assert_int_equal(tail_missed(tail), 0); /* earlier records were not missed */
}

/* The rings of this test have 2048 words, and its records 10. */
enum { RING_WORDS = 2048, RECORD_WORDS = 10, NEARLY_FULL = RING_WORDS * 7 / 8 / RECORD_WORDS };

TEST(all_records_of_a_nearly_full_ring_are_read)
{
    uint64_t next = 1000;

    log_line(0, 999);
    assert_int_equal(read_after(20 * NS_PER_MS), 1);
    for (int i = 0; i < 50; i++, next += NEARLY_FULL) {
        log_lines(i % 2 == 0 ? 0 : 2, next, NEARLY_FULL);
        assert_int_equal(read_after(20 * NS_PER_MS), NEARLY_FULL);
    }
    assert_newest(0, next - 1);
    assert_int_equal(tail_missed(tail), 0);
}

TEST(missed_records_are_counted)
{
    uint64_t read;

    log_line(0, 1000);
    read = read_after(20 * NS_PER_MS);
    log_lines(0, 1001, 5000);
    read += read_after(20 * NS_PER_MS);
    assert_newest(0, 6000);
    assert_in_range(read, NEARLY_FULL * 9 / 10, NEARLY_FULL + 1);
    assert_in_range(tail_missed(tail), 5001 - read - 5, 5001 - read + 5);
}

/* The budget of a second is spent; then two rings are read in equal parts. */
TEST(more_than_the_budget_is_sampled)
{
    const uint64_t words = 2 * NEARLY_FULL * RECORD_WORDS, most = 2 * TAIL_WORDS_PER_S;
    uint64_t next = 1000, calls = 0, read, missed;

    read_after(0);
    do {
        log_lines(0, next, NEARLY_FULL);
        log_lines(2, next, NEARLY_FULL);
        next += NEARLY_FULL;
        read = read_after(0);
        calls++;
    } while (read == 2 * NEARLY_FULL);
    assert_int_equal(calls, most / words + 1);
    missed = tail_missed(tail);
    log_lines(0, next, NEARLY_FULL);
    log_lines(2, next, NEARLY_FULL);
    read = read_after(words / 2 * NS_PER_S / most);
    assert_in_range(read, NEARLY_FULL * 9 / 10, NEARLY_FULL);
    assert_int_equal(tail_line(tail, 0)->thread, 2);
    assert_newest(0, next + NEARLY_FULL - 1);
    assert_newest(1, next + NEARLY_FULL - 1); /* of the other ring */
    assert_in_range(tail_missed(tail) - missed, 2 * NEARLY_FULL - read - 2,
                    2 * NEARLY_FULL - read + 2);
}

TEST(next_read_is_due_before_a_ring_is_full)
{
    log_lines(0, 1, 10);
    read_after(0);
    assert_int_equal(tail_due_ns(tail) - now_ns, TAIL_PAUSE_MAX_NS);
    log_lines(0, 11, RING_WORDS / 8 / RECORD_WORDS);
    read_after(10 * NS_PER_MS);
    assert_in_range(tail_due_ns(tail) - now_ns, 20 * NS_PER_MS, 21 * NS_PER_MS);
    log_lines(0, 1000, NEARLY_FULL);
    read_after(20 * NS_PER_MS);
    assert_int_equal(tail_due_ns(tail) - now_ns, TAIL_PAUSE_MIN_NS);
}

TEST(only_the_readable_words_are_read)
{
    assert_int_equal(tail_attach(tail, &reader, 10 * RECORD_WORDS), 0);
    read_after(0);
    log_lines(0, 1000, NEARLY_FULL);
    assert_int_equal(read_after(20 * NS_PER_MS), 10);
    assert_newest(9, 1000 + NEARLY_FULL - 10);
    assert_in_range(tail_missed(tail), NEARLY_FULL - 12, NEARLY_FULL - 8);
}

struct seen {
    uint64_t count, oldest, newest; /* numbers of lines */
};

static void see(void *context, const struct tail_record *record)
{
    struct seen *seen = context;
    uint64_t number = record->log.time_ns / 1000;

    seen->oldest = seen->count == 0 || number < seen->oldest ? number : seen->oldest;
    seen->newest = number > seen->newest ? number : seen->newest;
    seen->count++;
}

TEST(backlog_of_a_complete_ring_has_no_gap)
{
    struct seen seen = {0};
    uint64_t read;

    for (uint64_t i = 1; i <= 100; i++)
        log_line(0, i);
    read = read_after(20 * NS_PER_MS);
    assert_true(read > 0);
    assert_int_equal(tail_read_backlog(tail, &reader, see, &seen), 0); /* all since the start */
    assert_int_equal(seen.count + read, 100);
    log_line(0, 101);
    assert_int_equal(read_after(20 * NS_PER_MS), 1); /* reading continues */
}

TEST(backlog_starts_where_the_busiest_ring_does)
{
    struct seen seen = {0};
    uint64_t read, since;

    log_line(2, 1); /* a quiet ring reaches further back than the others */
    for (uint64_t i = 2; i <= 5000; i++)
        log_line(0, i);
    read = read_after(20 * NS_PER_MS);
    since = tail_read_backlog(tail, &reader, see, &seen);
    assert_true(since > 0 && seen.count > 0);
    assert_int_equal(since, seen.oldest * 1000);
    assert_int_equal(seen.newest - seen.oldest + 1, seen.count);
    /* The line of the quiet ring was read. */
    assert_int_equal(seen.newest + read - 1, 5000);
}

TEST(slow_reader_ends_at_the_newest_record)
{
    for (uint64_t i = 1; i <= 20; i++) {
        for (uint64_t j = 0; j < 977; j++)
            log_line((uint32_t)(j % 2) * 2, i * 1000 + j);
        read_after(20 * NS_PER_MS);
        assert_newest(0, i * 1000 + 976);
    }
    assert_int_equal(tail_count(tail) < TAIL_LINES ? tail_total(tail) : TAIL_LINES,
                     tail_count(tail));
}

/* The writer has claimed the first unread word but not published it: nothing read is believed. */
TEST(claimed_records_are_missed)
{
    const struct log_ring ring = segment_ring(&segment, 0);
    uint64_t head;

    log_line(0, 1);
    assert_int_equal(read_after(20 * NS_PER_MS), 1);
    head = atomic_load(&ring.words->head);
    log_lines(0, 2, 20);
    atomic_store(&ring.words->claimed, head + RING_WORDS + 1);
    assert_int_equal(read_after(20 * NS_PER_MS), 0);
    assert_in_range(tail_missed(tail), 19, 21);
    assert_newest(0, 1);
    atomic_store(&ring.words->claimed, atomic_load(&ring.words->head));
    log_line(0, 30);
    assert_int_equal(read_after(20 * NS_PER_MS), 1);
    assert_newest(0, 30);
}

static void log_long_line(uint64_t number, size_t length)
{
    const struct log_ring log = segment_ring(&segment, 0);
    static uint64_t words[LOG_RECORD_WORDS_MAX];
    static char line[LOG_REQUEST_LINE_MAX];
    struct log_record record = {.time_ns = number * 1000, .status = 200, .agent = SPAN("test")};

    memset(line, 'x', sizeof(line));
    snprintf(line, 32, "GET /%llu", (unsigned long long)number);
    line[strlen(line)] = '-';
    record.request_line = (struct span){line, length};
    log_ring_append(&log, words, log_record_pack(&record, words));
}

/* Lines of all lengths survive while many more are read than are kept; so do those of a copy. */
TEST(last_lines_are_kept_whatever_their_length)
{
    enum { LINES = 3 * TAIL_LINES };
    struct tail *copy;
    uint64_t number;

    for (number = 1; number <= LINES; number++) {
        log_long_line(number, number * 37 % 3000 + 32);
        assert_int_equal(read_after(NS_PER_S), 1);
    }
    copy = tail_copy(NULL, tail);
    assert_non_null(copy);
    log_line(0, number);
    assert_int_equal(read_after(NS_PER_S), 1);
    assert_int_equal(tail_count(copy), TAIL_LINES);
    for (size_t back = 0; back < TAIL_LINES; back++) {
        const struct tail_line *line = tail_line(copy, back);
        uint64_t length = (LINES - back) * 37 % 3000 + 32;
        char start[32];

        snprintf(start, sizeof(start), "GET /%llu-x", (unsigned long long)(LINES - back));
        assert_int_equal(strncmp(line->request, start, strlen(start)), 0);
        assert_int_equal(line->request_bytes, length);
        assert_int_equal(strlen(line->request),
                         length < TAIL_REQUEST_BYTES ? length : TAIL_REQUEST_BYTES - 1);
        assert_int_equal(line->request_cut, length >= TAIL_REQUEST_BYTES);
        assert_string_equal(line->agent, "test");
    }
    tail_destroy(copy);
    assert_newest(0, number);
}

/* Lines are ordered when they are first shown: across rings and calls, also in part before. */
TEST(lines_are_ordered_across_calls)
{
    log_lines(0, 1, 50);
    log_lines(2, 51, 50);
    assert_int_equal(read_after(20 * NS_PER_MS), 100);
    assert_newest(0, 100);
    for (uint64_t i = 101; i < 500; i += 20) {
        log_lines(0, i + 10, 10);
        log_lines(2, i, 10);
        assert_int_equal(read_after(20 * NS_PER_MS), 20);
    }
    for (size_t back = 0; back < 500; back++)
        assert_newest(back, 500 - back);
}

TEST(protocol_is_named_as_negotiated)
{
    static const struct {
        uint8_t protocol;
        unsigned int cipher;
        bool resumed;
        const char *text;
    } cases[] = {
        {LOG_PROTOCOL_UNKNOWN, 0, false, ""},
        {LOG_PROTOCOL_HTTP_1_0, 0, false, "HTTP/1.0"},
        {LOG_PROTOCOL_HTTP_2, 0, false, "HTTP/2.0"},
        {LOG_PROTOCOL_HTTP_1_1, 0xc030, false,
         "HTTP/1.1 TLS 1.2 TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, X25519MLKEM768"},
        {LOG_PROTOCOL_UNKNOWN, 0x1301, true,
         "TLS 1.3 TLS_AES_128_GCM_SHA256, X25519MLKEM768, resumed"},
    };
    char text[TAIL_PROTOCOL_TEXT];

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct tail_line line = {.protocol = cases[i].protocol};

        if (cases[i].cipher != 0)
            line.tls = log_record_tls(cases[i].cipher, "X25519MLKEM768", cases[i].resumed);
        assert_string_equal(tail_protocol(&line, text), cases[i].text);
    }
}

TEST(corrupt_ring_is_read_safely)
{
    const struct log_ring ring = segment_ring(&segment, 0);
    uint64_t words[32];

    memset(words, 0xa5, sizeof(words));
    words[0] = 32;
    log_ring_append(&ring, words, 32);
    log_line(0, 7);
    assert_int_equal(read_after(20 * NS_PER_MS), 1);
    assert_newest(0, 7);
}
