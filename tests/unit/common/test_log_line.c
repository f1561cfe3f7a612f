/* Access log lines: the formats, and fast escaping compared with a simple implementation. */
#include "tests/unit/common/log_sample.h"

#include "common/clock.h"
#include "common/log_record.h"
#include "common/tables.h"
#include "tests/test.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static const char *line_of(enum log_format format, const struct log_record *record)
{
    static char line[LOG_LINE_MAX + 1];

    line[log_record_format(format, record, line)] = '\0';
    return line;
}

static int prepare_program(void **state)
{
    (void)state;
    setenv("TZ", "UTC0", 1);
    tzset();
    return 0;
}

const struct test_fixture test_group_fixture = {prepare_program, NULL};

TEST(combined_format)
{
    struct log_record record = log_sample();

    assert_string_equal(
        line_of(LOG_FORMAT_COMBINED, &record),
        "192.0.2.7 - - [21/Nov/2026:06:18:30 +0000] \"GET /index.html HTTP/1.1\" 200 2326 "
        "\"http://localhost/\" \"curl/8.0\"\n");
    record = (struct log_record){.time_ns = 0, .status = 400};
    assert_string_equal(line_of(LOG_FORMAT_COMBINED, &record),
                        "unix: - - [01/Jan/1970:00:00:00 +0000] \"-\" 400 0 \"-\" \"-\"\n");
    record.body_bytes = UINT64_MAX;
    record.time_ns = NS_PER_S; /* the next second is formatted again */
    assert_string_equal(line_of(LOG_FORMAT_COMBINED, &record),
                        "unix: - - [01/Jan/1970:00:00:01 +0000] \"-\" 400 "
                        "18446744073709551615 \"-\" \"-\"\n");
}

/* A blank in it would look like the end of the field. */
TEST(user_has_the_third_place)
{
    struct log_record record = log_sample();

    record.user = SPAN("a b\"\001c");
    assert_string_equal(
        line_of(LOG_FORMAT_COMMON, &record),
        "192.0.2.7 - a\\x20b\\x22\\x01c [21/Nov/2026:06:18:30 +0000] \"GET /index.html "
        "HTTP/1.1\" 200 2326\n");
    assert_non_null(strstr(line_of(LOG_FORMAT_COMBINED, &record), " - a\\x20b\\x22\\x01c [21/"));
    assert_non_null(
        strstr(line_of(LOG_FORMAT_JSON, &record),
               "\"address\":\"192.0.2.7\",\"user\":\"a b\\u0022\\u0001c\",\"request\":"));
    record.user.length = 0;
    assert_non_null(strstr(line_of(LOG_FORMAT_COMMON, &record), "192.0.2.7 - - [21/"));
}

TEST(common_format)
{
    struct log_record record = log_sample();

    assert_string_equal(
        line_of(LOG_FORMAT_COMMON, &record),
        "192.0.2.7 - - [21/Nov/2026:06:18:30 +0000] \"GET /index.html HTTP/1.1\" 200 2326\n");
}

TEST(json_format)
{
    struct log_record record = log_sample();

    assert_string_equal(line_of(LOG_FORMAT_JSON, &record),
                        "{\"time\":\"2026-11-21T06:18:30.123Z\",\"address\":\"192.0.2.7\","
                        "\"request\":\"GET /index.html HTTP/1.1\",\"status\":200,\"bytes\":2326,"
                        "\"duration_us\":84,\"outcome\":\"offload\",\"referer\":\"http://localhost/"
                        "\",\"agent\":\"curl/8.0\"}\n");
    record.outcome = UINT8_MAX;
    assert_non_null(strstr(line_of(LOG_FORMAT_JSON, &record), "\"outcome\":\"unknown\""));
}

TEST(json_names_host)
{
    struct log_record record = log_sample();

    record.host_name = SPAN("www.example.org");
    assert_non_null(strstr(line_of(LOG_FORMAT_JSON, &record),
                           "\"address\":\"192.0.2.7\",\"host\":\"www.example.org\",\"request\":"));
    record.user = SPAN("anna");
    assert_non_null(strstr(line_of(LOG_FORMAT_JSON, &record),
                           "\"user\":\"anna\",\"host\":\"www.example.org\",\"request\":"));
    record.requested_host = SPAN("a\"b");
    assert_non_null(
        strstr(line_of(LOG_FORMAT_JSON, &record),
               "\"host\":\"www.example.org\",\"requested_host\":\"a\\u0022b\",\"request\":"));
    assert_null(strstr(line_of(LOG_FORMAT_COMBINED, &record), "www.example.org"));
}

TEST(json_names_coding_and_request_id)
{
    struct log_record record = log_sample();

    record.request_id = SPAN("a\"b");
    record.coding = 3;
    assert_non_null(
        strstr(line_of(LOG_FORMAT_JSON, &record),
               "\"agent\":\"curl/8.0\",\"coding\":\"br\",\"request_id\":\"a\\u0022b\"}\n"));
}

TEST(json_names_version_and_cipher_of_tls)
{
    static const struct {
        unsigned int id;
        bool resumed;
        const char *members;
    } examples[] = {
        {0x1301, false,
         ",\"tls\":\"1.3\",\"cipher\":\"TLS_AES_128_GCM_SHA256\",\"tls_group\":\"x25519\","
         "\"resumed\":false}\n"},
        {0xcca8, true,
         ",\"tls\":\"1.2\",\"cipher\":\"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256\",\"tls_"
         "group\":\"x25519\",\"resumed\":"
         "true}\n"},
        {0x0005, false,
         ",\"tls\":\"?\",\"cipher\":\"?\",\"tls_group\":\"x25519\",\"resumed\":false}\n"},
    };
    uint64_t words[LOG_RECORD_WORDS_MAX];

    for (size_t i = 0; i < ARRAY_LENGTH(examples); i++) {
        struct log_record record = log_sample(), copy = {0};
        const char *line;

        record.tls = log_record_tls(examples[i].id, "x25519", examples[i].resumed);
        assert_int_not_equal(record.tls, 0);
        log_record_pack(&record, words);
        assert_int_equal(log_record_unpack(words, &copy), 0);
        assert_int_equal(copy.tls, record.tls);
        line = line_of(LOG_FORMAT_JSON, &copy);
        assert_string_equal(line + strlen(line) - strlen(examples[i].members), examples[i].members);
        assert_null(strstr(line_of(LOG_FORMAT_COMBINED, &copy), "TLS"));
    }
}

TEST(json_names_protocol_and_streams)
{
    static const struct {
        uint8_t protocol;
        uint16_t streams;
        const char *members;
    } examples[] = {
        {LOG_PROTOCOL_UNKNOWN, 0, "\"agent\":\"curl/8.0\"}\n"},
        {LOG_PROTOCOL_HTTP_1_0, 0, "\"agent\":\"curl/8.0\",\"protocol\":\"HTTP/1.0\"}\n"},
        {LOG_PROTOCOL_HTTP_1_1, 0, "\"agent\":\"curl/8.0\",\"protocol\":\"HTTP/1.1\"}\n"},
        {LOG_PROTOCOL_HTTP_2, 1,
         "\"agent\":\"curl/8.0\",\"protocol\":\"HTTP/2.0\",\"streams\":1}\n"},
        {LOG_PROTOCOL_HTTP_2, 1000,
         "\"agent\":\"curl/8.0\",\"protocol\":\"HTTP/2.0\",\"streams\":1000}\n"},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(examples); i++) {
        struct log_record record = log_sample();
        const char *line;

        record.protocol = examples[i].protocol;
        record.streams = examples[i].streams;
        line = line_of(LOG_FORMAT_JSON, &record);
        assert_string_equal(line + strlen(line) - strlen(examples[i].members), examples[i].members);
    }
}

/* Reference implementation: escapes byte by byte. */
static size_t escaped_plainly(const char *text, size_t length, const char *form, char *to)
{
    size_t used = 0;

    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)text[i];
        bool plain = byte >= 0x20 && byte <= 0x7e && byte != '"' && byte != '\\';

        used += (size_t)(plain ? sprintf(to + used, "%c", byte)
                               : sprintf(to + used, "%s%02x", form, byte));
    }
    return used;
}

static void assert_escaped(enum log_format format, const char *form, const char *text,
                           size_t length)
{
    struct log_record record = {.status = 200, .agent = {text, length}};
    char *expected = malloc(6 * length + 8);
    const char *line, *found;
    size_t used;

    assert_non_null(expected);
    expected[0] = '"';
    used = 1 + escaped_plainly(text, length, form, expected + 1);
    strcpy(expected + used, format == LOG_FORMAT_JSON ? "\"}\n" : "\"\n");
    line = line_of(format, &record);
    found = line + strlen(line) - strlen(expected);
    assert_true(found > line);
    assert_string_equal(found, expected);
    free(expected);
}

static void assert_escaped_everywhere(const char *text, size_t length)
{
    assert_escaped(LOG_FORMAT_COMBINED, "\\x", text, length);
    assert_escaped(LOG_FORMAT_JSON, "\\u00", text, length);
}

/* Every byte value at every offset of texts around the block sizes. */
TEST(every_byte_is_escaped_at_every_offset)
{
    char text[40];

    for (size_t length = 1; length <= sizeof(text); length += length < 20 ? 1 : 10)
        for (size_t place = 0; place < length; place++)
            for (int byte = 0; byte < 256; byte++) {
                memset(text, 'a', sizeof(text));
                text[place] = (char)byte;
                assert_escaped_everywhere(text, length);
            }
}

/* Random texts that end at the end of a page before an unreadable one. */
TEST(texts_are_not_read_past_their_end)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned seed = 7;

    assert_ptr_not_equal(pages, MAP_FAILED);
    assert_int_equal(mprotect(pages + page, page, PROT_NONE), 0);
    for (int i = 0; i < 20000; i++) {
        size_t length = 1 + (size_t)rand_r(&seed) % 200;
        char *text = pages + page - length;

        for (size_t at = 0; at < length; at++)
            text[at] = (char)(i % 3 == 0 || rand_r(&seed) % 16 == 0 ? rand_r(&seed) : 'x');
        assert_escaped_everywhere(text, length);
    }
    munmap(pages, 2 * page);
}

/* A JSON parser returns the original bytes. */
TEST(json_is_valid_for_every_byte)
{
    char text[256], back[512];
    struct log_record record = log_sample();
    const char *line, *agent;
    json_t *object;
    size_t used = 0;

    for (int byte = 0; byte < 256; byte++) {
        text[byte] = (char)byte;
        if (byte >= 0x80)
            back[used++] = (char)(0xc0 | byte >> 6);
        back[used++] = (char)(byte >= 0x80 ? 0x80 | (byte & 0x3f) : byte);
    }
    record.request_line = record.referer = record.agent = (struct span){text, sizeof(text)};
    line = line_of(LOG_FORMAT_JSON, &record);
    object = json_loads(line, JSON_ALLOW_NUL, NULL);
    assert_non_null(object);
    agent = json_string_value(json_object_get(object, "agent"));
    assert_int_equal(json_string_length(json_object_get(object, "agent")), used);
    assert_memory_equal(agent, back, used);
    assert_int_equal(json_integer_value(json_object_get(object, "status")), 200);
    json_decref(object);
}

TEST(longest_line_fits)
{
    static char text[LOG_REQUEST_LINE_MAX];
    uint64_t words[LOG_RECORD_WORDS_MAX];
    char *line = malloc(LOG_LINE_MAX);
    struct log_record record = {.time_ns = UINT64_MAX,
                                .duration_ns = UINT64_MAX,
                                .body_bytes = UINT64_MAX,
                                .status = UINT16_MAX,
                                .outcome = UINT8_MAX};

    assert_non_null(line);
    memset(text, '\n', sizeof(text));
    memset(record.address, 0xab, sizeof(record.address));
    record.request_line = record.referer = record.agent = record.user = record.requested_host =
        record.request_id = (struct span){text, sizeof(text)};
    assert_int_equal(log_record_pack(&record, words), LOG_RECORD_WORDS_MAX);
    assert_int_equal(log_record_unpack(words, &record), 0);
    for (int format = 0; format < LOG_FORMAT_COUNT; format++)
        assert_true(log_record_format((enum log_format)format, &record, line) <= LOG_LINE_MAX);
    free(line);
}
