/* The requests of one subject: which lines match, the ring of lines. */
#include "common/clock.h"
#include "common/tables.h"
#include "console/data/subject.h"
#include "tests/test.h"

#include <stdio.h>
#include <string.h>

static struct subject *subject;

static int end(void **state)
{
    (void)state;
    subject_destroy(subject);
    return 0;
}

const struct test_fixture test_group_fixture = {NULL, end};

static void choose(enum subject_column column, bool whole, const char *text)
{
    struct subject_term term = {.column = column, .whole = whole};

    snprintf(term.text, sizeof(term.text), "%s", text);
    subject_destroy(subject);
    subject = subject_create(&term, 1);
    assert_non_null(subject);
}

static void add(uint64_t second, const char *request, uint16_t status)
{
    static struct tail_line line;

    memset(&line, 0, sizeof(line));
    line.time_ns = second * NS_PER_S;
    line.duration_ns = 1000 * 1000;
    line.body_bytes = 10;
    line.worker = 1;
    line.number = 2;
    line.status = status;
    line.host = "www.example";
    line.outcome = OUTCOME_HIT;
    line.protocol = LOG_PROTOCOL_HTTP_2;
    line.tls = log_record_tls(0x1301, "x25519", true);
    memcpy(line.address, "\0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\0\2\7", 16);
    snprintf(line.request, sizeof(line.request), "%s", request);
    snprintf(line.agent, sizeof(line.agent), "Some Agent/1.0");
    subject_add(subject, &line);
}

/* True if a GET of /Dir/x?q=1 with status 404 by thread 1.2 is one of its requests. */
static bool matches(enum subject_column column, bool whole, const char *text)
{
    choose(column, whole, text);
    add(100, "GET /Dir/x?q=1 HTTP/1.1", 404);
    return subject_requests(subject) == 1;
}

TEST(values_are_compared_by_column)
{
    assert_true(matches(SUBJECT_PATH, true, "/dir/x"));
    assert_false(matches(SUBJECT_PATH, true, "/dir"));
    assert_false(matches(SUBJECT_PATH, true, "/dir/x?q=1")); /* ? is any character, not a query */
    assert_true(matches(SUBJECT_PATH, false, "/dir"));
    assert_true(matches(SUBJECT_PATH, false, "x"));
    assert_false(matches(SUBJECT_PATH, false, "q=1"));
    assert_true(matches(SUBJECT_STATUS, true, "404"));
    assert_true(matches(SUBJECT_STATUS, false, "4xx"));
    assert_false(matches(SUBJECT_STATUS, false, "5xx"));
    assert_true(matches(SUBJECT_CLIENT, true, "192.0.2.7"));
    assert_false(matches(SUBJECT_CLIENT, true, "192.0.2.77"));
    assert_true(matches(SUBJECT_THREAD, true, "1.2"));
    assert_false(matches(SUBJECT_THREAD, true, "1.20"));
    assert_true(matches(SUBJECT_WORKER, true, "1"));
    assert_true(matches(SUBJECT_OUTCOME, true, "hit"));
    assert_true(matches(SUBJECT_AGENT, true, "some?agent/1.0"));
    assert_false(matches(SUBJECT_REFERER, true, "x"));
    assert_true(matches(SUBJECT_PROTOCOL, false, "http/2"));
    assert_true(matches(SUBJECT_PROTOCOL, false, "tls 1.3"));
    assert_true(matches(SUBJECT_PROTOCOL, true,
                        "HTTP/2.0 TLS 1.3 TLS_AES_128_GCM_SHA256, x25519, resumed"));
    assert_false(matches(SUBJECT_PROTOCOL, false, "http/1"));
    assert_true(matches(SUBJECT_HOST, true, "Www.example"));
    assert_false(matches(SUBJECT_HOST, true, "example"));
    assert_true(matches(SUBJECT_HOST, false, "example"));
}

TEST(alternatives_and_negated_terms_match)
{
    static struct tail_line line = {.host = "a.example", .status = 404};
    struct subject_term terms[2] = {
        {.column = SUBJECT_STATUS, .whole = true, .text = "404|5xx"},
        {.column = SUBJECT_HOST, .whole = true, .negated = true, .text = "b.example|c.example"}};

    assert_true(subject_matches(terms, 2, &line));
    line.status = 503;
    assert_true(subject_matches(terms, 2, &line));
    line.host = "C.example";
    assert_false(subject_matches(terms, 2, &line));
    line.host = "a.example";
    line.status = 403;
    assert_false(subject_matches(terms, 2, &line));
    assert_true(subject_matches(terms, 0, &line));
}

/* As another server of the same name starts. */
TEST(cleared_subject_has_no_requests)
{
    choose(SUBJECT_PATH, false, "/a");
    add(101, "GET /a HTTP/1.1", 200);
    subject_clear(subject);
    assert_int_equal(subject_requests(subject), 0);
    assert_int_equal(subject_bytes(subject), 0);
    assert_int_equal(subject_line_count(subject), 0);
    assert_int_equal(histogram_count(subject_latency(subject)), 0);
}

TEST(last_lines_are_kept)
{
    char request[64];

    choose(SUBJECT_PATH, false, "/");
    for (unsigned i = 0; i < SUBJECT_LINES + 10; i++) {
        snprintf(request, sizeof(request), "GET /%u HTTP/1.1", i);
        add(100, request, 200);
    }
    assert_int_equal(subject_line_count(subject), SUBJECT_LINES);
    assert_string_equal(subject_line(subject, 0)->request, "GET /265 HTTP/1.1");
    assert_string_equal(subject_line(subject, SUBJECT_LINES - 1)->request, "GET /10 HTTP/1.1");
}
