/* The requests and connections of wsload, and how it judges responses, with both engines. */
#include "common/macros.h"
#include "loadgen/plan/plan.h"
#include "patience.h"
#include "tests/test.h"
#include "wsload_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Heads ---- */

static const struct {
    const char *options, *path;
    const char *line;      /* start of the request */
    const char *fields[4]; /* fields of the request, each ended by CR LF */
    const char *ending;    /* bytes after the head; NULL: none */
} sent[] = {
    {"", "/ok?a=b", "GET /ok?a=b HTTP/1.1\r\n", {"Accept: */*\r\n"}, NULL},
    {"-m OPTIONS -H X-One:1 -H Empty:",
     "/ok",
     "OPTIONS /ok HTTP/1.1\r\n",
     {"X-One:1\r\n", "Empty:"},
     NULL},
    {"-u me:pw --range 5-9 --gzip",
     "/ok",
     "GET /ok HTTP/1.1\r\n",
     {"Authorization: Basic bWU6cHc=\r\n", "Range: bytes=5-9\r\n", "Accept-Encoding: gzip\r\n"},
     NULL},
    {"-b x=1",
     "/ok",
     "POST /ok HTTP/1.1\r\n",
     {"Content-Length: 3\r\n", "Content-Type: application/x-www-form-urlencoded\r\n"},
     "x=1"},
    {"-m PUT -b abc -H Content-Type:text/plain",
     "/ok",
     "PUT /ok HTTP/1.1\r\n",
     {"Content-Length: 3\r\n", "Content-Type:text/plain\r\n"},
     "abc"},
    {"-m POST", "/ok", "POST /ok HTTP/1.1\r\n", {"Content-Length: 0\r\n"}, NULL},
    {"--http1.0", "/ok", "GET /ok HTTP/1.0\r\n", {"Connection: keep-alive\r\n"}, NULL},
    {"--no-keepalive", "/ok", "GET /ok HTTP/1.1\r\n", {"Connection: close\r\n"}, NULL},
    {"-H Host:elsewhere", "/ok", "GET /ok HTTP/1.1\r\n", {"elsewhere\r\n"}, NULL},
};

TEST(request_heads_match_options)
{
    for (size_t i = 0; i < ARRAY_LENGTH(sent); i++) {
        char options[256];
        const char *head;

        wsload_server_clear();
        snprintf(options, sizeof(options), "-c 1 -n 1 %s", sent[i].options);
        json_decref(wsload_run(options, sent[i].path, 0));
        head = wsload_server_head(0);
        if (strncmp(head, sent[i].line, strlen(sent[i].line)) != 0)
            fail_msg("%s", head);
        for (size_t k = 0; k < ARRAY_LENGTH(sent[i].fields) && sent[i].fields[k] != NULL; k++)
            if (strstr(head, sent[i].fields[k]) == NULL)
                fail_msg("no '%s' in %s", sent[i].fields[k], head);
        if (sent[i].ending != NULL)
            assert_string_equal(strstr(head, "\r\n\r\n") + 4, sent[i].ending);
    }
}

/* ---- Several URLs ---- */

static char file_path[] = "/tmp/test_wsload_requests.XXXXXX";

static int set_up(void **state)
{
    int file = mkstemp(file_path);

    if (file < 0)
        return -1;
    close(file);
    return wsload_server_start(state);
}

static int tear_down(void **state)
{
    unlink(file_path);
    return wsload_server_stop(state);
}

const struct test_fixture test_group_fixture = {set_up, tear_down};

static void write_file(const char *text)
{
    FILE *file = fopen(file_path, "we");

    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

/* Runs wsload with OPTIONS, the last of which takes the file. Only what arrives now is kept. */
static json_t *run_with_file(const char *options)
{
    char with_file[256];

    wsload_server_clear();
    snprintf(with_file, sizeof(with_file), "%s %s", options, file_path);
    return wsload_run(with_file, "/", 0);
}

/* Number of kept requests that begin with LINE. */
static unsigned count_heads(const char *line)
{
    unsigned count = 0;

    for (uint64_t i = 0; i < wsload_server_heads(); i++)
        count += strncmp(wsload_server_head(i), line, strlen(line)) == 0;
    return count;
}

TEST(url_list_is_requested_in_order_and_weight)
{
    write_file("/a 3\nHEAD /b\n/missing\n");
    json_decref(run_with_file("-c 3 -n 1000 -t 2 --max-errors 20% -f"));
    assert_int_equal(count_heads("GET /a "), 600);
    assert_int_equal(count_heads("HEAD /b "), 200);
    assert_int_equal(count_heads("GET /missing "), 200);
    json_decref(run_with_file("-c 1 -n 10 --max-errors 100% -f"));
    for (uint64_t i = 0; i < 10; i++)
        assert_memory_equal(wsload_server_head(i),
                            i % 5 < 3    ? "GET /a "
                            : i % 5 == 3 ? "HEAD /b"
                                         : "GET /mi",
                            7);
}

/* A recording of two pages: each request and what caused it. */
static const struct {
    const char *page, *path, *initiator, *began; /* "": no time is recorded */
    int took_ms;
} page_requests[] = {
    {"1", "/page", "", "", 0},
    {"1", "/gated", "/page", "", 0},
    {"1", "/font", "/gated", "", 0},
    {"1", "/gated-body", "/page", "2026-11-21T06:18:30Z", 500},
    {"1", "/early", "/gated-body", "2026-11-21T06:18:30.2Z", 0},
    {"1", "/late", "/gated-body", "2026-11-21T06:18:31Z", 0},
    {"1", "/i1", "/page", "", 0},
    {"1", "/i2", "/page", "", 0},
    {"1", "/i3", "/page", "", 0},
    {"1", "/i4", "/page", "", 0},
    {"1", "/i5", "/page", "", 0},
    {"1", "/i6", "/page", "", 0},
    {"2", "/next", "", "", 0},
    {"2", "/missing", "/next", "", 0},
};

static void write_pages(void)
{
    json_t *list = json_array();
    char url[64], initiator[64], *text;

    for (size_t i = 0; i < ARRAY_LENGTH(page_requests); i++) {
        snprintf(url, sizeof(url), "http://w.test%s", page_requests[i].path);
        snprintf(initiator, sizeof(initiator), "http://w.test%s", page_requests[i].initiator);
        json_array_append_new(list,
                              json_pack("{s:s, s:{s:s, s:s}, s:{s:s}, s:s, s:i}", "pageref",
                                        page_requests[i].page, "request", "method", "GET", "url",
                                        url, "_initiator", "url", initiator, "startedDateTime",
                                        page_requests[i].began, "time", page_requests[i].took_ms));
    }
    list = json_pack("{s:{s:o}}", "log", "entries", list);
    text = json_dumps(list, 0);
    write_file(text);
    free(text);
    json_decref(list);
}

/*
 * Each visit loads two pages. The font of the first one waits for the style sheet, which waits at
 * the gate, while the images are loaded. The script waits in the middle of its body; one request
 * began before its end in the recording, one after it. The second page fails: a script is missing.
 */
TEST(browser_loads_pages_by_six_connections)
{
    enum { BEFORE_GATE = 10, VISITS = 3 };
    static const char *const loops[] = {"-c 1 -n 3", "-c 4 -n 3 -t 2", "-c 9 -n 3 -r 500"};
    char options[128];

    if (strcmp(wsload_engine, "raw") != 0)
        skip();
    write_pages();
    for (size_t i = 0; i < ARRAY_LENGTH(loops); i++) {
        uint64_t accepted = wsload_server_accepted();
        const json_t *pages, *first, *second;
        struct program program;
        json_t *report;

        wsload_server_clear();
        snprintf(options, sizeof(options), "%s --page-loads --har %s", loops[i], file_path);
        program = wsload_start(options, wsload_server_port(), "/");
        WAIT_UNTIL(wsload_server_heads() >= BEFORE_GATE && count_heads("GET /early ") > 0);
        assert_int_equal(count_heads("GET /font ") + count_heads("GET /late "), 0);
        wsload_server_allow(2 * VISITS);
        report = wsload_finish(program, 3);
        assert_int_equal(number_at(report, "requests", "answered"),
                         VISITS * ARRAY_LENGTH(page_requests));
        assert_int_equal(wsload_server_heads(), VISITS * ARRAY_LENGTH(page_requests));
        assert_int_equal(count_heads("GET /font "), VISITS);
        assert_int_equal(wsload_server_accepted() - accepted, VISITS * PLAN_PAGE_CONNECTIONS);
        pages = json_object_get(report, "scenarios");
        assert_int_equal(json_array_size(pages), 2);
        first = json_array_get(pages, 0);
        second = json_array_get(pages, 1);
        assert_string_equal(json_string_value(json_object_get(first, "name")),
                            "http://w.test/page");
        assert_int_equal(json_integer_value(json_object_get(first, "completed")), VISITS);
        assert_int_equal(json_integer_value(json_object_get(second, "begun")), VISITS);
        assert_int_equal(json_integer_value(json_object_get(second, "failed")), VISITS);
        json_decref(report);
    }
}

/* In a closed and in an open loop; connections beyond the list have nothing to do. */
TEST(order_once_ends_the_run_with_the_list)
{
    static const char *const loops[] = {"-c 2 -t 1 --order once -f", "-c 8 -t 2 --order once -f",
                                        "-c 2 -t 2 -r 1000 --order once -f"};
    write_file("/a 3\n/b 2\n");
    for (size_t i = 0; i < ARRAY_LENGTH(loops); i++) {
        json_t *report;

        report = run_with_file(loops[i]);
        assert_int_equal(number_at(report, "requests", "answered"), 5);
        assert_int_equal(count_heads("GET /a "), 3);
        assert_int_equal(count_heads("GET /b "), 2);
        json_decref(report);
    }
}

TEST(order_each_repeats_the_list_on_each_connection)
{
    write_file("/a\n/b\n/c\n");
    json_decref(run_with_file("-c 4 -n 4 -t 2 --order each -f"));
    assert_int_equal(count_heads("GET /a "), 4);
    json_decref(run_with_file("-c 1 -n 7 --order each -f"));
    for (uint64_t i = 0; i < 7; i++)
        assert_int_equal(wsload_server_head(i)[5], "abc"[i % 3]);
}

/* The value of FIELD ("Name: ") in kept request I, up to its end; or NULL. */
static const char *field_of(uint64_t i, const char *field)
{
    const char *at = strstr(wsload_server_head(i), field);

    return at != NULL ? at + strlen(field) : NULL;
}

TEST(length_of_an_empty_body_depends_on_the_method_of_the_request)
{
    write_file("POST /a\n/b\nPUT /c\nHEAD /d\n");
    json_decref(run_with_file("-c 1 -n 8 -f"));
    for (uint64_t i = 0; i < 8; i++) {
        const char *length = field_of(i, "Content-Length: ");

        if (i % 2 == 0)
            assert_memory_equal(length, "0\r\n", 3);
        else
            assert_null(length);
    }
}

/* Five requests of one second, replayed five times as fast; two lines cannot be sent. */
TEST(replay_keeps_log_times)
{
    json_t *report;

    write_file("x - - [21/Nov/2026:13:00:00 +0000] \"GET /0 HTTP/1.1\" 200 5\n"
               "x - - [21/Nov/2026:13:00:00 +0000] \"HEAD /1 HTTP/1.1\" 200 5\n"
               "x - - [21/Nov/2026:13:00:00 +0000] \"DELETE /x HTTP/1.1\" 200 5\n"
               "x - - [21/Nov/2026:13:00:00 +0000] \"\\x16\\x03\" 400 5\n"
               "x - - [21/Nov/2026:13:00:01 +0000] \"GET /2 HTTP/1.1\" 200 5\n");
    report = run_with_file("--speed 5 -c 1 -t 1 --replay");
    assert_int_equal(number_at(report, "requests", "answered"), 3);
    /* The lines span a fifth of a second. */
    assert_true(json_real_value(json_object_get(report, "elapsed_s")) >= 0.2);
    assert_true(has_note(report, "skipped_lines"));
    assert_int_equal(wsload_server_heads(), 3);
    assert_int_equal(count_heads("GET /0 ") + count_heads("HEAD /1 ") + count_heads("GET /2 "), 3);
    assert_memory_equal(wsload_server_head(2), "GET /2 ", 7);
    json_decref(report);
}

/* ---- Connections ---- */

TEST(requests_per_connection_are_limited)
{
    uint64_t before = wsload_server_accepted();
    json_t *report;

    report = wsload_run("-c 3 -n 300 -t 1 --max-reqs-per-conn 10", "/ok", 0);
    assert_in_range(number_at(report, "connections", "opened"), 30, 32);
    assert_int_equal(wsload_server_accepted() - before, number_at(report, "connections", "opened"));
    json_decref(report);
}

TEST(unix_socket_is_used)
{
    uint64_t before = wsload_server_read();
    char options[256];
    json_t *report;
    struct program program;

    snprintf(options, sizeof(options), "-c 3 -n 100 --unix-socket %s", wsload_server_socket());
    program = wsload_start_url(options, "http://some.where/ok");
    report = wsload_finish(program, 0);
    assert_int_equal(wsload_server_read() - before, 100);
    json_decref(report);
    snprintf(options, sizeof(options), "-c 3 -n 100 --connect-to some.where:80:127.0.0.1:%u",
             wsload_server_port());
    report = wsload_finish(wsload_start_url(options, "http://some.where/ok"), 0);
    assert_int_equal(wsload_server_read() - before, 200);
    json_decref(report);
}

/* ---- Checks ---- */

#define SHA256_OF_HELLO "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
#define SHA256_OF_OTHER "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9825"

static const struct {
    const char *options, *path;
    int status;
    json_int_t bad_statuses, bad_contents; /* of 20 */
} checks[] = {
    {"--expect-status 200", "/ok", 0, 0, 0},
    {"--expect-status 404", "/missing", 0, 0, 0},
    {"--expect-status 201,204", "/ok", 3, 20, 0},
    {"--expect-status 201 --expect-size 6", "/ok", 3, 20, 0}, /* one error each */
    {"--expect-size 5", "/ok", 0, 0, 0},
    {"--expect-size 5", "/chunked", 0, 0, 0},
    {"--expect-size 6", "/ok", 3, 0, 20},
    {"--expect-sha256 " SHA256_OF_HELLO, "/ok", 0, 0, 0},
    {"--expect-sha256 " SHA256_OF_HELLO, "/chunked", 0, 0, 0},
    {"--expect-sha256 " SHA256_OF_OTHER, "/ok", 3, 0, 20},
    {"--fail-if max<1us", "/ok", 0, 0, 0},
    {"--fail-if p50>1us --fail-if max<1us", "/ok", 99, 0, 0},
    {"--fail-if 404>0 --max-errors 100%", "/missing", 99, 20, 0},
    {"--fail-if 404>0", "/missing", 3, 20, 0},
};

TEST(checks_set_exit_status)
{
    for (size_t i = 0; i < ARRAY_LENGTH(checks); i++) {
        char options[256];
        json_t *report;

        snprintf(options, sizeof(options), "-c 2 -n 20 %s", checks[i].options);
        report = wsload_run(options, checks[i].path, checks[i].status);
        assert_int_equal(number_at(report, "requests", "answered"), 20);
        assert_int_equal(number_at(report, "requests", "bad_statuses"), checks[i].bad_statuses);
        assert_int_equal(number_at(report, "requests", "bad_contents"), checks[i].bad_contents);
        json_decref(report);
    }
}
