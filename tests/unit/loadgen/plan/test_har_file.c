/* HAR recordings: what is kept of them, their think times, and errors. */
#include "plan_fixture.h"

#include "common/clock.h"
#include "common/macros.h"

static void plan_recording(void)
{
    reset_plan();
    plan.har_file = path;
}

/* Entry I: method, path, own fields and body, separated by '|'. */
static const char *entry(size_t i)
{
    static char text[512];
    const struct request *request = &request_plan.requests[request_plan.entries[i].request];
    size_t used = (size_t)snprintf(text, sizeof(text), "%s %s", request->method,
                                   strstr(request->target.text, ":81") + 3);

    for (const struct curl_slist *field = request->own_fields; field; field = field->next)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "|%s", field->data);
    if (request->body != NULL)
        snprintf(text + used, sizeof(text) - used, "|%.*s", (int)request->body_length,
                 request->body);
    return text;
}

TEST(requests_of_the_first_host_are_kept)
{
    write_file(
        path,
        "\xef\xbb\xbf{\"log\": {\"version\": \"1.2\", \"entries\": [\n"
        "{\"request\": {\"method\": \"GET\", \"url\": \"data:text/plain,x\"}},\n"
        "{\"request\": {\"method\": \"GET\", \"url\": \"https://www.test/a?b=c#d\", \"headers\": "
        "[\n"
        "  {\"name\": \":authority\", \"value\": \"www.test\"}, {\"name\": \"Host\", \"value\": "
        "\"w\"},\n"
        "  {\"name\": \"connection\", \"value\": \"close\"}, {\"name\": \"Cookie\", \"value\": "
        "\"k=v\"},\n"
        "  {\"name\": \"x-empty\", \"value\": \"\"}]}},\n"
        "{\"request\": {\"method\": \"GET\", \"url\": \"https://elsewhere.test/x\"}},\n"
        "{\"request\": {\"method\": \"POST\", \"url\": \"http://WWW.test:8080//p\", \"postData\":\n"
        "  {\"mimeType\": \"text/plain\", \"text\": \"\\u00e9\"}}},\n"
        "{\"request\": {\"method\": \"PUT\", \"url\": \"https://www.test/form\", \"headers\": [\n"
        "  {\"name\": \"content-type\", \"value\": \"a/b\"}],\n"
        "  \"postData\": {\"mimeType\": \"c/d\", \"text\": \"x\"}}},\n"
        "{\"request\": {\"method\": \"POST\", \"url\": \"https://www.test/parts\", \"postData\":\n"
        "  {\"mimeType\": \"multipart/form-data\", \"params\": [{\"name\": \"file\"}]}}},\n"
        "{\"request\": {\"method\": \"POST\", \"url\": \"https://www.test/b\", \"postData\":\n"
        "  {\"mimeType\": \"x/y\", \"text\": \"AAEC\", \"encoding\": \"base64\"}}},\n"
        "{\"request\": {\"method\": \"DELETE\", \"url\": \"https://www.test/z\"}}]}}\n");
    plan_recording();
    prepare();
    assert_int_equal(request_plan.entry_count, 4);
    assert_int_equal(request_plan.skipped, 4);
    assert_string_equal(entry(0), "GET /a?b=c|Cookie: k=v|x-empty: ");
    assert_string_equal(entry(1), "POST //p|Content-Type: text/plain|\xc3\xa9");
    assert_string_equal(entry(2), "PUT /form|content-type: a/b|x");
    assert_string_equal(entry(3), "DELETE /z");
    request_plan_free(&request_plan);
}

#define TIMED(begun, time, path)                                                                   \
    "{\"startedDateTime\": \"2026-11-21T06:18:" begun "\", \"time\": " time                        \
    ", \"request\": {\"method\": \"GET\", \"url\": \"http://w.test" path "\"}}"

TEST(think_time_lies_between_response_and_next_request)
{
    write_file(path, "{\"log\": {\"entries\": [" TIMED("33.5Z", "100", "/c") "," TIMED(
                         "30Z", "500", "/a") "," TIMED("32.5Z", "2000", "/b") "]}}");
    plan_recording();
    plan.think_recorded = true;
    for (int speed = 1; speed <= 2; speed++) {
        plan.replay_speed = speed;
        prepare();
        assert_int_equal(request_plan.entry_count, 3);
        assert_string_equal(entry(0), "GET /a");
        assert_string_equal(entry(1), "GET /b");
        assert_string_equal(entry(2), "GET /c");
        assert_in_range(request_plan.entries[0].think_ns / NS_PER_MS, 1999 / speed, 2001 / speed);
        assert_int_equal(request_plan.entries[1].think_ns, 0); /* /c began during /b */
        assert_int_equal(request_plan.entries[2].think_ns, 0);
        request_plan_free(&request_plan);
    }
}

/* An entry of a recording: MORE are its members beside page and request. */
struct recorded {
    const char *page, *path, *more;
};

static void write_pages(const struct recorded *entries, size_t count)
{
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    fputs("{\"log\": {\"pages\": [{\"id\": \"1\", \"title\": \"First\"}], \"entries\": [", file);
    for (size_t i = 0; i < count; i++)
        fprintf(file,
                "%s{\"pageref\": \"%s\", \"request\": {\"method\": \"GET\", \"url\": "
                "\"http://w.test%s\"}%s}",
                i > 0 ? "," : "", entries[i].page, entries[i].path, entries[i].more);
    fputs("]}}", file);
    assert_int_equal(fclose(file), 0);
}

/* Redirect, initiator by URL and by the stack of a script, the document otherwise; two pages. */
TEST(pages_have_causes)
{
    enum { NONE = -1 };
    static const struct recorded entries[] = {
        {"1", "/", ", \"response\": {\"redirectURL\": \"a.html\"}"},
        {"2", "/b.html", ""},
        {"1", "/a.html",
         ", \"_initiator\": {\"type\": \"other\"}, \"startedDateTime\": "
         "\"2026-11-21T06:18:30Z\", \"time\": 500"},
        {"1", "/s.css",
         ", \"_initiator\": {\"url\": \"http://w.test/a.html#x\"}, \"startedDateTime\": "
         "\"2026-11-21T06:18:30.499Z\", \"time\": 100"},
        {"1", "/t.js", ""},
        {"1", "/font",
         ", \"_initiator\": {\"url\": \"http://w.test/s.css\"}, \"startedDateTime\": "
         "\"2026-11-21T06:18:30.6Z\""},
        {"1", "/data",
         ", \"_initiator\": {\"stack\": {\"callFrames\": [{\"url\": \"\"}], \"parent\": "
         "{\"callFrames\": [{\"url\": \"http://w.test/t.js\"}]}}}"},
        {"1", "/data", ", \"_initiator\": {\"url\": \"http://w.test/t.js\"}"},
        {"2", "/s.css", ", \"_initiator\": {\"url\": \"http://w.test/t.js\"}"},
    };
    static const struct {
        const char *line;
        int cause;
        bool early;
    } expected[] = {
        {"GET /", NONE, false},  {"GET /a.html", 0, false},    {"GET /s.css", 1, true},
        {"GET /t.js", 0, false}, {"GET /font", 2, false},      {"GET /data", 3, false},
        {"GET /data", 3, false}, {"GET /b.html", NONE, false}, {"GET /s.css", 7, false}};

    write_pages(entries, ARRAY_LENGTH(entries));
    plan_recording();
    plan.page_loads = true;
    prepare();
    assert_int_equal(request_plan.entry_count, ARRAY_LENGTH(expected));
    for (size_t i = 0; i < ARRAY_LENGTH(expected); i++) {
        assert_string_equal(entry(i), expected[i].line);
        assert_int_equal((int)request_plan.causes[i].entry, expected[i].cause);
        assert_int_equal(request_plan.causes[i].early, expected[i].early);
    }
    assert_int_equal(request_plan.page_count, 2);
    assert_string_equal(request_plan.pages[0].name, "First");
    assert_int_equal(request_plan.pages[0].count, 7);
    assert_string_equal(request_plan.pages[1].name, "http://w.test/b.html");
    assert_int_equal(request_plan.pages[1].first, 7);
    assert_int_equal(request_plan.pages[1].count, 2);
    request_plan_free(&request_plan);
}

TEST(invalid_recording_is_rejected_with_its_place)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"{\"log\": {\n\"entries\": [}\n", ":2: not a HAR recording: "},
        {"[]", ": not a HAR recording: no array log.entries"},
        {"{\"log\": {\"entries\": {}}}", ": not a HAR recording: no array log.entries"},
        {"{\"log\": {\"version\": \"2.0\", \"entries\": []}}",
         ": unknown version of HAR (1.1, 1.2)"},
        {"{\"log\": {\"entries\": []}}", "' contains no valid request"},
        {"{\"log\": {\"entries\": [" TIMED("30Z", "1", "/") ", {}]}}",
         ": entry 2: no valid request.method (example: GET)"},
        {"{\"log\": {\"entries\": [{\"request\": {\"method\": \"G T\"}}]}}",
         ": entry 1: no valid request.method (example: GET)"},
        {"{\"log\": {\"entries\": [{\"request\": {\"method\": \"GET\", \"url\": "
         "\"http://a\\u0000\"}}]}}",
         ": entry 1: no request.url (example: https://example.org/)"},
        {"{\"log\": {\"entries\": [{\"request\": {\"method\": \"GET\", \"url\": \"http://a/\","
         "\"headers\": [{\"name\": \"A\", \"value\": \"b\\r\\nX: y\"}]}}]}}",
         ": entry 1: invalid header field 'A'"},
        {"{\"log\": {\"entries\": [{\"request\": {\"method\": \"GET\", \"url\": \"http://a/\","
         "\"headers\": [{\"name\": \"A B\", \"value\": \"b\"}]}}]}}",
         ": entry 1: invalid header field 'A B'"},
        {"{\"log\": {\"entries\": [{\"request\": {\"method\": \"GET\", \"url\": \"http://a/\","
         "\"headers\": [{\"name\": \"A\"}]}}]}}",
         ": entry 1: a header needs the strings name and value"},
        {"{\"log\": {\"entries\": [{\"request\": {\"method\": \"GET\", \"url\": \"http://a/\"}}]}}",
         ": entry 1: no valid startedDateTime, which --think recorded needs"},
    };

    plan_recording();
    plan.think_recorded = true;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        write_file(path, cases[i].text);
        check_rejected(cases[i].why);
    }
    plan.har_file = "/nowhere/at/all";
    check_rejected("cannot read '/nowhere/at/all': No such file or directory");
}
