/* How responses are composed, from outside: dates, types, and whether a connection persists. */
#include "tests/unit/own_site.h"

#include <fcntl.h>

static unsigned asked_covers;

/* Requests over TLS are covered for host "own" only. */
static bool covers_own(const struct client *client, struct span host)
{
    (void)client;
    asked_covers++;
    return span_is(host, SPAN("own"));
}

static int set_up(void **state)
{
    (void)state;
    own_site_make();
    own_site_put_text("a.txt", "body of a");
    own_site_open(
        "[cache]\nprecompressed = off\n[connections]\nkeepalive_requests = 4\n"
        "[host b]\nroot = www\n[headers]\nX-Own = yes\n[headers /undated.txt]\nLast-Modified "
        "=\n[headers /README]\nContent-Type = text/x-readme\n");
    own_site.worker.tls_covers = covers_own;
    asked_covers = 0;
    return 0;
}

const struct test_fixture test_fixture = {set_up, own_site_close};

static void expect_field(const char *name, const char *value)
{
    if (strcmp(own_site_field(name), value) != 0)
        fail_msg("%s: %s, not %s\n%s", name, own_site_field(name), value, answer.head);
}

static void date_file(const char *name, int64_t seconds)
{
    const struct timespec times[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
    char path[512];

    snprintf(path, sizeof(path), "%s/www/%s", own_directory, name);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* Reproducible archives date all files alike, so the date says nothing: the tag decides. */
TEST(date_of_the_first_day_is_not_sent_nor_compared)
{
    static const struct {
        const char *name, *lines;
        int64_t mtime_s;
        int status;
    } cases[] = {
        {"c0.txt", "If-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT\r\n", 0, 200},
        {"c1.txt", "If-Modified-Since: Fri, 27 Nov 2026 00:00:00 GMT\r\n", 1, 200},
        {"c2.txt", "If-Unmodified-Since: Thu, 01 Jan 1970 00:00:00 GMT\r\n", 1, 200},
        {"c3.txt", "Range: bytes=0-0\r\nIf-Range: Thu, 01 Jan 1970 00:00:01 GMT\r\n", 1, 200},
        {"c4.txt", "Range: bytes=0-0\r\n", 86399, 206},
        {"c5.txt", "If-None-Match: *\r\n", 86399, 304},
        {"c6.txt", "", -5, 200},
        {"undated.txt", "If-Modified-Since: Fri, 27 Nov 2026 00:00:00 GMT\r\n", 86400, 200},
        {"dated.txt", "If-Modified-Since: Fri, 02 Jan 1970 00:00:00 GMT\r\n", 86400, 304},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char target[32];

        own_site.client.requests = 0;
        own_site_put_text(cases[i].name, "text");
        date_file(cases[i].name, cases[i].mtime_s);
        snprintf(target, sizeof(target), "/%s", cases[i].name);
        assert_int_equal(own_site_get(target, cases[i].lines), cases[i].status);
        expect_field("Last-Modified", "");
        assert_string_not_equal(own_site_field("ETag"), "");
    }
    own_site_get("/dated.txt", "");
    expect_field("Last-Modified", "Fri, 02 Jan 1970 00:00:00 GMT");
}

TEST(type_may_depend_on_the_path)
{
    own_site_put_text("README", "text");
    own_site_put_text("other", "text");
    assert_int_equal(own_site_get("/README", ""), 200);
    expect_field("Content-Type", "text/x-readme");
    assert_int_equal(own_site_get("/README", "Range: bytes=0-0,2-2\r\n"), 206);
    assert_non_null(strstr(answer.body, "Content-Type: text/x-readme\r\n"));
    assert_int_equal(own_site_get("/other", ""), 200);
    expect_field("Content-Type", "application/octet-stream");
    assert_int_equal(own_site_get("/README/none", ""), 404);
    expect_field("Content-Type", "text/html; charset=utf-8");
}

TEST(connection_closes_after_its_last_request)
{
    struct transaction_context *context = &own_site.context;

    for (int i = 1; i <= 4; i++) {
        own_site_get("/a.txt", "");
        expect_field("Connection", i < 4 ? "" : "close");
        assert_int_equal(own_site.client.closing, i == 4);
        assert_int_equal(own_site.client.linger_wanted, i == 4);
    }
    for (int i = 0; i < 4; i++) {
        own_site.client = (struct client){.secure = i % 2 != 0};
        context->closing_connections = false;
        context->closing_secure = i >= 2;
        own_site_get("/a.txt", "");
        expect_field("Connection", i == 3 ? "close" : "");
    }
    own_site.client = (struct client){.secure = false};
    context->closing_connections = true;
    own_site_get("/a.txt", "");
    expect_field("Connection", "close");
}

TEST(request_for_a_host_that_tls_does_not_cover_is_421)
{
    own_site.client.secure = true;
    for (int i = 0; i < 2; i++)
        assert_int_equal(own_site_get("/a.txt", ""), 200);
    assert_int_equal(asked_covers, 1);
    assert_int_equal(own_site_request("GET /a.txt HTTP/1.1\r\nHost: b\r\n"), 421);
    assert_int_equal(asked_covers, 2);
    assert_int_equal(own_site_get("/a.txt", ""), 200);
}
