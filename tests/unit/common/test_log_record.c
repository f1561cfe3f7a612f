/* Log records: packing, and unpacking untrusted words. */
#include "tests/unit/common/log_sample.h"

#include "common/clock.h"
#include "common/log_record.h"
#include "common/macros.h"
#include "common/tables.h"
#include "tests/test.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

static void assert_span(struct span span, struct span expected)
{
    assert_int_equal(span.length, expected.length);
    if (expected.length > 0)
        assert_memory_equal(span.start, expected.start, expected.length);
}

TEST(record_round_trips)
{
    uint64_t words[LOG_RECORD_WORDS_MAX];
    struct log_record record = log_sample(), copy;
    uint64_t count = log_record_pack(&record, words);

    assert_int_equal(count, LOG_RECORD_HEAD_WORDS + (24 + 17 + 8 + 7) / 8);
    assert_int_equal(log_ring_words(words[0]), count);
    assert_int_equal(log_record_unpack(words, &copy), 0);
    assert_int_equal(copy.time_ns, record.time_ns);
    assert_int_equal(copy.duration_ns, record.duration_ns);
    assert_int_equal(copy.body_bytes, record.body_bytes);
    assert_int_equal(copy.status, 200);
    assert_int_equal(copy.outcome, OUTCOME_OFFLOAD);
    assert_memory_equal(copy.address, record.address, CLIENT_ADDRESS_BYTES);
    assert_span(copy.request_line, record.request_line);
    assert_span(copy.referer, record.referer);
    assert_span(copy.agent, record.agent);
}

TEST(host_round_trips)
{
    uint64_t words[LOG_RECORD_WORDS_MAX];
    struct log_record record = log_sample(), copy;

    record.host = UINT16_MAX;
    record.requested_host = SPAN("a.example:8080");
    record.request_id = SPAN("5f0c1fd2-2c5b-4c0c-9f3e-2f4f1f1b7f11");
    record.coding = 3;
    record.user = SPAN("anna");
    record.duration_ns = (UINT64_C(1) << LOG_DURATION_BITS) - 1;
    log_record_pack(&record, words);
    assert_int_equal(log_record_unpack(words, &copy), 0);
    assert_int_equal(copy.host, UINT16_MAX);
    assert_int_equal(copy.status, record.status);
    assert_int_equal(copy.duration_ns, record.duration_ns);
    assert_span(copy.user, record.user);
    assert_span(copy.requested_host, record.requested_host);
    assert_span(copy.request_id, record.request_id);
    assert_int_equal(copy.coding, record.coding);
}

TEST(protocol_and_streams_round_trip)
{
    uint64_t words[LOG_RECORD_WORDS_MAX];
    struct log_record record = log_sample(), copy;

    record.protocol = LOG_PROTOCOL_HTTP_2;
    record.streams = UINT16_MAX;
    record.body_bytes = (UINT64_C(1) << LOG_BODY_BITS) - 1;
    record.tls = 0;
    record.user = SPAN("user");
    log_record_pack(&record, words);
    assert_int_equal(log_record_unpack(words, &copy), 0);
    assert_int_equal(copy.protocol, LOG_PROTOCOL_HTTP_2);
    assert_int_equal(copy.streams, UINT16_MAX);
    assert_int_equal(copy.body_bytes, record.body_bytes);
    assert_int_equal(copy.tls, 0);
    assert_span(copy.user, record.user);
}

static void expect_tls(unsigned int id, bool resumed, const char *version, const char *cipher)
{
    struct log_tls read = log_record_read_tls(log_record_tls(id, "secp384r1", resumed));

    assert_string_equal(read.version, version);
    assert_string_equal(read.cipher, cipher);
    assert_string_equal(read.group, "secp384r1");
    assert_int_equal(read.resumed, resumed);
}

static void expect_group(const char *group, const char *read)
{
    assert_string_equal(log_record_read_tls(log_record_tls(0x1301, group, true)).group, read);
}

TEST(each_group_round_trips)
{
#define TLS_GROUP(metric, name) expect_group(name, name);
#include "common/tls_groups.def"
#undef TLS_GROUP
    expect_group("x448", "?");
    expect_group(NULL, "?");
    assert_string_equal(log_record_read_tls(0x1ff).group, "?");
}

TEST(each_cipher_round_trips)
{
    struct log_tls none = log_record_read_tls(0);

#define TLS_CIPHER(id, version, name)                                                              \
    expect_tls(id, false, version, name);                                                          \
    expect_tls(id, true, version, name);
#include "common/tls_ciphers.def"
#undef TLS_CIPHER
    expect_tls(0xfefe, false, "?", "?");
    expect_tls(0xfefe, true, "?", "?");
    assert_true(log_record_tls(0xfefe, NULL, false) != 0); /* 0: no TLS */
    assert_string_equal(none.cipher, "?");
    assert_false(none.resumed);
}

/* A reader that begins anywhere finds the next record; the ring has wrapped. */
TEST(first_record_is_found_from_every_word)
{
    enum { CAPACITY = 1024, RECORDS = 400 };
    static struct log_ring_cursor cursor;
    const size_t bytes = (log_ring_bytes(CAPACITY) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    struct log_ring ring = {.cursor = &cursor, .capacity = CAPACITY};
    uint64_t words[LOG_RECORD_WORDS_MAX], start[RECORDS], head = 0;
    size_t next = 0;

    ring.words = aligned_alloc(CACHE_LINE, bytes);
    assert_non_null(ring.words);
    memset(ring.words, 0, bytes);
    for (size_t i = 0; i < RECORDS; i++) {
        struct log_record record = log_sample();
        uint64_t count;

        record.agent.length = i % (record.agent.length + 1);
        count = log_record_pack(&record, words);
        log_ring_append(&ring, words, count);
        start[i] = head;
        head += count;
    }
    for (uint64_t from = head - CAPACITY; from <= head; from++) {
        while (next < RECORDS && start[next] < from)
            next++;
        assert_int_equal(log_record_first(&ring, from, head), next < RECORDS ? start[next] : head);
    }
    free(ring.words);
}

/* Lengths around word boundaries and beyond the limits. */
TEST(texts_of_all_lengths_round_trip)
{
    static const size_t lengths[] = {0,
                                     1,
                                     7,
                                     8,
                                     9,
                                     15,
                                     16,
                                     LOG_AGENT_MAX,
                                     LOG_REFERER_MAX,
                                     LOG_REQUEST_LINE_MAX,
                                     LOG_REQUEST_LINE_MAX + 1,
                                     20000};
    static char text[20000];
    uint64_t words[LOG_RECORD_WORDS_MAX];
    struct log_record record = log_sample(), copy;

    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = (char)('a' + i % 26);
    for (size_t i = 0; i < ARRAY_LENGTH(lengths); i++) {
        for (size_t j = 0; j < ARRAY_LENGTH(lengths); j++) {
            size_t line = lengths[i], referer = lengths[j];
            size_t agent = lengths[(i + j) % ARRAY_LENGTH(lengths)];
            uint64_t count;

            /* An absent field has a null start. */
            record.request_line = (struct span){line > 0 ? text : NULL, line};
            record.referer =
                (struct span){referer > 0 ? text + 3 : NULL, referer < 19997 ? referer : 19997};
            record.agent =
                (struct span){agent > 0 ? text + 5 : NULL, agent < 19995 ? agent : 19995};
            memset(words, 0xff, sizeof(words));
            count = log_record_pack(&record, words);
            assert_true(count <= LOG_RECORD_WORDS_MAX);
            if (count < LOG_RECORD_WORDS_MAX)
                assert_true(words[count] == UINT64_MAX);
            assert_int_equal(log_record_unpack(words, &copy), 0);
            if (record.request_line.length > LOG_REQUEST_LINE_MAX)
                record.request_line.length = LOG_REQUEST_LINE_MAX;
            if (record.referer.length > LOG_REFERER_MAX)
                record.referer.length = LOG_REFERER_MAX;
            if (record.agent.length > LOG_AGENT_MAX)
                record.agent.length = LOG_AGENT_MAX;
            assert_span(copy.request_line, record.request_line);
            assert_span(copy.referer, record.referer);
            assert_span(copy.agent, record.agent);
        }
    }
}

TEST(padding_is_zero)
{
    uint64_t words[LOG_RECORD_WORDS_MAX];
    struct log_record record = log_sample();
    uint64_t count;

    record.request_line = SPAN("x");
    record.referer = record.agent = (struct span){NULL, 0};
    memset(words, 0xff, sizeof(words));
    count = log_record_pack(&record, words);
    assert_int_equal(words[count - 1], 'x');
}

TEST(invalid_record_is_rejected)
{
    static const struct {
        const char *what;
        int word;
        uint64_t clear, set; /* bits of that word */
    } cases[] = {
        {"version 0", 0, UINT64_C(0xff) << 32, 0},
        {"version 2", 0, UINT64_C(0xff) << 32, UINT64_C(2) << 32},
        {"version 4", 0, UINT64_C(0xff) << 32, UINT64_C(4) << 32},
        {"count 0", 0, UINT32_MAX, 0},
        {"count below the head", 0, UINT32_MAX, LOG_RECORD_HEAD_WORDS - 1},
        {"count below the texts", 0, UINT32_MAX, LOG_RECORD_HEAD_WORDS},
        {"count beyond the texts", 0, UINT32_MAX, 100},
        {"count of all ones", 0, 0, UINT32_MAX},
        {"a longer line than the count", 6, 0xffff, 0xffff},
        {"a longer referer", 6, UINT64_C(0xffff) << 16, UINT64_C(0x7fff) << 16},
        {"a longer host", 2, 0, UINT64_C(0xff) << LOG_DURATION_BITS},
        {"a longer agent", 6, UINT64_C(0xffff) << 32, UINT64_C(0xff) << 32},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        uint64_t words[LOG_RECORD_WORDS_MAX];
        struct log_record record = log_sample();

        log_record_pack(&record, words);
        words[cases[i].word] = (words[cases[i].word] & ~cases[i].clear) | cases[i].set;
        if (log_record_unpack(words, &record) != -1)
            fail_msg("%s was accepted", cases[i].what);
    }
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Random words that resemble a record more and more closely. */
static void make_hostile(uint64_t *words, uint64_t *random)
{
    uint64_t kind = next_random(random) % 4;
    uint64_t texts;

    for (size_t i = 0; i < LOG_RECORD_WORDS_MAX; i++)
        words[i] = next_random(random);
    if (kind == 0)
        return;
    words[0] = (words[0] & ~(UINT64_C(0xff) << 32)) | (uint64_t)LOG_RECORD_VERSION << 32;
    if (kind == 1)
        return;
    words[6] = next_random(random) % 5000 | next_random(random) % 2000 << 16 |
               next_random(random) % 2000 << 32;
    texts = (words[6] & 0xffff) + (words[6] >> 16 & 0xffff) + (words[6] >> 32 & 0xffff) +
            (words[2] >> LOG_DURATION_BITS);
    words[0] = (words[0] & ~(uint64_t)UINT32_MAX) | (LOG_RECORD_HEAD_WORDS + (texts + 7) / 8);
    if (kind == 2)
        words[next_random(random) % LOG_RECORD_HEAD_WORDS] ^= UINT64_C(1)
                                                              << next_random(random) % 64;
}

/* The buffer has the exact size, so a sanitizer detects any access outside. */
TEST(random_words_are_read_within_bounds)
{
    uint64_t *words = malloc(LOG_RECORD_WORDS_MAX * sizeof(*words));
    const char *end = (const char *)(words + LOG_RECORD_WORDS_MAX);
    char *line = malloc(LOG_LINE_MAX);
    uint64_t random = 362436069;
    int taken = 0;

    assert_non_null(words);
    assert_non_null(line);
    for (int i = 0; i < 20000; i++) {
        struct log_record record;
        size_t length;

        make_hostile(words, &random);
        if (log_record_unpack(words, &record) != 0)
            continue;
        taken++;
        assert_true(record.request_line.start >= (const char *)(words + LOG_RECORD_HEAD_WORDS));
        assert_true(record.agent.start + record.agent.length <= end);
        length = log_record_format((enum log_format)(i % LOG_FORMAT_COUNT), &record, line);
        assert_true(length > 0 && length <= LOG_LINE_MAX);
        assert_ptr_equal(memchr(line, '\n', length), line + length - 1);
    }
    assert_in_range(taken, 1000, 19000); /* both outcomes are frequent */
    free(line);
    free(words);
}

TEST(address_as_text)
{
    static const struct {
        uint8_t address[CLIENT_ADDRESS_BYTES];
        const char *expected;
    } cases[] = {
        {{0}, "unix:"},
        {IPV4(127, 0, 0, 1), "127.0.0.1"},
        {IPV4(255, 255, 255, 255), "255.255.255.255"},
        {IPV4(0, 0, 0, 0), "0.0.0.0"},
        {{[15] = 1}, "::1"},
        {{0x20, 0x01, 0x0d, 0xb8, [15] = 0x42}, "2001:db8::42"},
        {{0x20, 0x01, 0x0d, 0xb8, 0x11, 0x11, 0x22, 0x22, 0x33, 0x33, 0x44, 0x44, 0x55, 0x55, 0x66,
          0x66},
         "2001:db8:1111:2222:3333:4444:5555:6666"},
    };
    char text[CLIENT_ADDRESS_TEXT + 1];

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct log_record record = {0};

        memcpy(record.address, cases[i].address, CLIENT_ADDRESS_BYTES);
        *client_address_put(record.address, text) = '\0';
        assert_string_equal(text, cases[i].expected);
    }
}

/* Every value of every octet. */
TEST(every_octet_as_text)
{
    char text[CLIENT_ADDRESS_TEXT + 1], expected[CLIENT_ADDRESS_TEXT];

    for (int octet = 0; octet < 256; octet++)
        for (int place = 0; place < 4; place++) {
            struct log_record record = {.address = IPV4(1, 20, 255, 0)};

            record.address[12 + place] = (uint8_t)octet;
            inet_ntop(AF_INET, record.address + 12, expected, sizeof(expected));
            *client_address_put(record.address, text) = '\0';
            assert_string_equal(text, expected);
        }
}
