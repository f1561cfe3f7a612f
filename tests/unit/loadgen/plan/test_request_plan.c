/* The request plan: lists with weights, access logs with times, and HTTP/1 messages. */
#include "plan_fixture.h"

#include "common/clock.h"
#include "common/macros.h"

/* The method and path of entry I. */
static const char *entry(size_t i)
{
    static char text[256];
    const struct request *request = &request_plan.requests[request_plan.entries[i].request];

    snprintf(text, sizeof(text), "%s %s", request->method,
             strstr(request->target.text, "test") + 4);
    return text;
}

TEST(list_repeats_requests_by_weight)
{
    reset_plan();
    plan.urls_file = path;
    write_file(path, "# a comment\n\n/one 3\r\nHEAD /two\nhttp://b.test/three?x=1\t2\n/one\n");
    prepare();
    assert_int_equal(request_plan.entry_count, 7);
    assert_int_equal(request_plan.count,
                     4); /* the distinct requests and the URL of the command line */
    assert_string_equal(entry(0), "GET :81/one");
    assert_string_equal(entry(3), "HEAD :81/two");
    assert_string_equal(entry(5), "GET /three?x=1");
    assert_string_equal(entry(6), "GET :81/one");
    assert_int_equal(request_plan.requests[1].origin, 0);
    assert_int_equal(request_plan.requests[3].origin, 3);
    request_plan_free(&request_plan);
}

TEST(invalid_list_is_rejected_with_line_number)
{
    static const struct {
        const char *text, *why;
    } lists[] = {
        {"/one 0\n", ":1: invalid weight '0' (1-10000)"},
        {"/one\n/two x\n", ":2: invalid weight 'x' (1-10000)"},
        {"GET\n", ":1: method without a URL"},
        {"GET /one 1 more\n", ":1: unexpected word after the weight"},
        {"ftp://x/\n", ":1: invalid URL 'ftp://x/': only http:// and https:// are "
                       "supported"},
        {"# nothing\n", "' contains no valid request"},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(lists); i++) {
        reset_plan();
        plan.urls_file = path;
        write_file(path, lists[i].text);
        check_rejected(lists[i].why);
    }
}

/* A crash of its machine leaves NUL bytes in a log, whose other lines remain valid; a list is wrong. */
TEST(nul_byte_is_an_error_in_a_list_and_skips_a_line_of_a_log)
{
    static const char list[] = "/one\n/two\0three\n";
    static const char scenarios[] = "scenario a\nGET /a\0/{{b}}\n";
    static const char log[] =
        "1.2.3.4 - - [01/Jan/2026:00:00:00 +0000] \"GET /one HTTP/1.1\" 200 5\n"
        "\0\0\0\n"
        "1.2.3.4 - - [01/Jan/2026:00:00:01 +0000] \"GET /two HTTP/1.1\" 200 5\n";

    reset_plan();
    plan.urls_file = path;
    write_bytes(path, list, sizeof(list) - 1);
    check_rejected(":2: not text: it contains a NUL byte");
    write_bytes(path, log, sizeof(log) - 1);
    prepare();
    assert_int_equal(request_plan.entry_count, 2);
    assert_int_equal(request_plan.skipped, 1);
    request_plan_free(&request_plan);
    plan.urls_file = NULL;
    plan.scenario_file = path;
    write_bytes(path, scenarios, sizeof(scenarios) - 1);
    check_rejected(":2: not text: it contains a NUL byte");
}

/* Three entries have the parts 6/11, 3/11 and 2/11. */
TEST(order_by_rank_follows_zipf)
{
    static const size_t expected[] = {6000, 3000, 2000};
    uint64_t random_state = 1;
    size_t counts[3] = {0}, position = 0;

    reset_plan();
    plan.urls_file = path;
    plan.order = PLAN_ORDER_RANDOM;
    plan.zipf = 1;
    write_file(path, "/one\n/two\n/three\n");
    prepare();
    for (int i = 0; i < 11000; i++)
        counts[request_plan_next(&request_plan, &position, &random_state) - request_plan.entries]++;
    for (size_t i = 0; i < 3; i++)
        assert_in_range(counts[i], expected[i] - 200, expected[i] + 200);
    request_plan_free(&request_plan);
}

static const char log_text[] =
    "127.0.0.1 - - [21/Nov/2026:13:00:02 +0000] \"GET /b HTTP/1.1\" 200 5 \"-\" \"agent\"\n"
    "127.0.0.1 - - [21/Nov/2026:14:00:00 +0100] \"GET /a?q=\\x22\\\\ HTTP/1.1\" 200 5\n"
    "::1 - - [21/Nov/2026:13:00:02 +0000] \"HEAD /c HTTP/1.1\" 200 5 \"-\" \"a \\\" b\"\n"
    "::1 - - [21/Nov/2026:13:00:03 +0000] \"POST /d HTTP/1.1\" 200 5\n"
    "::1 - - [21/Nov/2026:13:00:03 +0000] \"-\" 400 5\n"
    "{\"time\": \"2026-11-21T13:00:04.250Z\", \"request\": \"GET /e HTTP/1.1\"}\n"
    "{\"time\": 1795266005.5, \"method\": \"GET\", \"target\": \"/f\"}\n";

TEST(replay_sorts_and_spreads_the_times_of_a_log)
{
    static const struct {
        const char *entry;
        uint64_t due_ms;
    } expected[] = {{"GET :81/a?q=\"\\", 0},
                    {"GET :81/b", 2000},
                    {"HEAD :81/c", 2500},
                    {"GET :81/e", 4250},
                    {"GET :81/f", 5500}};

    write_file(path, log_text);
    for (int speed = 1; speed <= 2; speed++) {
        reset_plan();
        plan.replay_file = path;
        plan.replay_speed = speed;
        prepare();
        assert_int_equal(request_plan.entry_count, ARRAY_LENGTH(expected));
        assert_int_equal(request_plan.skipped, 2);
        for (size_t i = 1; i < ARRAY_LENGTH(expected); i++) {
            assert_string_equal(entry(i), expected[i].entry);
            assert_in_range(request_plan.entries[i].due_ns / NS_PER_US,
                            expected[i].due_ms * 1000 / (unsigned)speed - 1,
                            expected[i].due_ms * 1000 / (unsigned)speed + 1);
        }
        assert_int_equal(request_plan.entries[0].due_ns, 0);
        for (size_t i = 0; i < request_plan.entry_count; i++)
            assert_ptr_equal(request_plan_take_entry(&request_plan), &request_plan.entries[i]);
        assert_null(request_plan_take_entry(&request_plan));
        request_plan_free(&request_plan);
    }
}

TEST(invalid_lines_of_a_log_are_skipped)
{
    static const char text[] =
        "::1 - - [28/Feb/2026:13:00:00 +0000] \"GET /a HTTP/1.1\" 200 5\n"
        "half a li\n"
        "::1 - - [31/Feb/2026:13:00:00 +0000] \"GET /no-such-day HTTP/1.1\" 200 5\n"
        "::1 - - [28/Feb/2026:13:00:01 +0000] \"GET /b HTTP/1.1\" 200 5\n"
        "{\"time\": \"2026-02-30T00:00:00Z\", \"request\": \"GET /no-such-day HTTP/1.1\"}\n"
        "::1 - - [28/Feb/2026:13:00:02 +0000] \"GET /hal\n"
        "::1 - - [28/F";

    reset_plan();
    plan.replay_file = path;
    write_file(path, text);
    prepare();
    assert_int_equal(request_plan.skipped, 5);
    assert_int_equal(request_plan.entry_count, 2);
    assert_string_equal(entry(1), "GET :81/b");
    assert_int_equal(request_plan.entries[1].due_ns, NS_PER_S);
    assert_int_equal(request_plan_count_origins(&request_plan), 1);
    request_plan_free(&request_plan);
}

TEST(path_of_a_log_stays_on_the_server)
{
    reset_plan();
    plan.urls_file = path;
    write_file(path, "\"GET //b.test/c?d HTTP/1.1\"\n");
    prepare();
    assert_string_equal(request_plan.requests[1].target.text, "http://a.test:81//b.test/c?d");
    assert_memory_equal(request_plan.requests[1].message, "GET //b.test/c?d HTTP/1.1\r\n", 27);
    request_plan_free(&request_plan);
}

TEST(log_without_replay_is_a_list)
{
    reset_plan();
    plan.urls_file = path;
    write_file(path, "\"GET /without-time HTTP/1.1\"\n");
    prepare();
    assert_string_equal(entry(0), "GET :81/without-time");
    request_plan_free(&request_plan);
    plan.urls_file = NULL;
    plan.replay_file = path;
    check_rejected(":1: no time in this line, which --replay needs");
    write_file(path, "/one\n");
    check_rejected(":1: not a line of an access log");
}

static void check_message(const char *message)
{
    prepare();
    assert_int_equal(request_plan.requests[0].message_length, strlen(message));
    assert_memory_equal(request_plan.requests[0].message, message, strlen(message));
    request_plan_free(&request_plan);
}

TEST(message_has_fields_of_plan)
{
    reset_plan();
    check_message("GET /base HTTP/1.1\r\nHost: a.test:81\r\nUser-Agent: wsload/" WEBSERVERD_VERSION
                  "\r\nAccept: */*\r\n\r\n");
    plan.http = PLAN_HTTP_1_0;
    plan.headers[0] = "host: other";
    plan.headers[1] = "User-Agent: me";
    plan.headers[2] = "Accept:";
    plan.header_count = 3;
    plan.user = "Aladdin:open sesame";
    plan.range = "0-99";
    plan.gzip = true;
    check_message("GET /base HTTP/1.0\r\nhost: other\r\nUser-Agent: me\r\nAccept:\r\n"
                  "Connection: keep-alive\r\nAccept-Encoding: gzip\r\nRange: bytes=0-99\r\n"
                  "Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n\r\n");
    reset_plan();
    plan.urls[0] = "http://[::1]/?x";
    plan.method = "PUT";
    plan.body = "x=1";
    plan.keepalive = false;
    check_message("PUT /?x HTTP/1.1\r\nHost: [::1]\r\nUser-Agent: wsload/" WEBSERVERD_VERSION
                  "\r\nAccept: */*\r\nConnection: close\r\n"
                  "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 3\r\n\r\n"
                  "x=1");
}

/* Adds a request with FIELD and BODY, which may be NULL. Returns its number. */
static uint32_t add(const char *method, const char *url, const char *field, const char *body)
{
    struct curl_slist *fields = field != NULL ? curl_slist_append(NULL, field) : NULL;
    const struct request_parts parts = {
        .method = method,
        .url = url,
        .fields = fields,
        .body = body,
        .body_length = body != NULL ? strlen(body) : 0,
    };

    assert_int_equal(
        request_plan_add(&request_plan, &parts, (struct request_entry){0}, why, sizeof(why)), 0);
    curl_slist_free_all(fields);
    return request_plan.entries[request_plan.entry_count - 1].request;
}

TEST(requests_differ_by_method_url_fields_and_body)
{
    uint32_t first;

    reset_plan();
    request_plan = (struct request_plan){.plan = &plan};
    first = add(NULL, "http://a.test/", NULL, NULL);
    assert_int_equal(add("GET", "/", NULL, NULL), first);
    assert_int_equal(add("HEAD", "/", NULL, NULL), 1);
    assert_int_equal(add("GET", "/2", NULL, NULL), 2);
    assert_int_equal(add("GET", "/", "X: 1", NULL), 3);
    assert_int_equal(add("GET", "/", "X: 2", NULL), 4);
    assert_int_equal(add("GET", "/", NULL, ""), 5);
    assert_int_equal(add("GET", "/", NULL, "a"), 6);
    assert_int_equal(add("GET", "/", "X: 1", "a"), 7);
    for (int i = 0; i < 100; i++)
        add("GET", "/", "X: 3", i % 2 == 0 ? "b" : "c");
    assert_int_equal(request_plan.count, 10);
    assert_int_equal(add("GET", "/", "X: 1", NULL), 3);
    assert_int_equal(add("GET", "/", "X: 1", "a"), 7);
    request_plan_free(&request_plan);
}
