/*
 * The response to one request: status, fields and body (RFC 9110).
 */
#include "http_client.h"
#include "scratch.h"
#include "server.h"

#include "common/macros.h"
#include "tests/test.h"

#include <fcntl.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DATE_PATTERN                                                                               \
    "^(Mon|Tue|Wed|Thu|Fri|Sat|Sun), [0-3][0-9] "                                                  \
    "(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [0-9]{4} "                                  \
    "[0-2][0-9]:[0-5][0-9]:[0-6][0-9] GMT$"

static void assert_matches(const char *text, const char *pattern)
{
    regex_t compiled;

    assert_non_null(text);
    assert_int_equal(regcomp(&compiled, pattern, REG_EXTENDED | REG_NOSUB), 0);
    if (regexec(&compiled, text, 0, NULL, 0) != 0)
        fail_msg("'%s' is not of the form %s", text, pattern);
    regfree(&compiled);
}

static void assert_field(const struct http_response *response, const char *name, const char *value)
{
    const char *got = http_field(response, name);

    if (got == NULL)
        fail_msg("no %s in: %s", name, response->head);
    assert_string_equal(got, value);
}

/* --- Files and directories --- */

SERVER_TEST(file_has_its_content_and_fields)
{
    struct http_response response;

    server_put_text(server, "/page.html", "<p>hello</p>\n");
    server_start(server, NULL);
    http_get(server_port(server), "/page.html", 200, &response);
    assert_string_equal(response.body, "<p>hello</p>\n");
    assert_field(&response, "Content-Length", "13");
    assert_field(&response, "Content-Type", "text/html; charset=utf-8");
    assert_matches(http_field(&response, "Date"), DATE_PATTERN);
    assert_matches(http_field(&response, "Last-Modified"), DATE_PATTERN);
    assert_matches(http_field(&response, "ETag"), "^\"[!#-~]+\"$");
    assert_matches(http_field(&response, "Server"), "^webserverd");
    assert_null(http_field(&response, "Connection"));
    http_response_free(&response);
    server_stop(server);
}

SERVER_TEST(date_is_current)
{
    struct http_response response;
    struct tm parts = {0};
    time_t before, after, printed;

    server_put_text(server, "/a", "a");
    server_start(server, NULL);
    before = time(NULL);
    http_get(server_port(server), "/a", 200, &response);
    after = time(NULL);
    assert_non_null(strptime(http_field(&response, "Date"), "%a, %d %b %Y %H:%M:%S GMT", &parts));
    printed = timegm(&parts);
    assert_in_range(printed, before - 1, after + 1);
    http_response_free(&response);
    server_stop(server);
}

SERVER_TEST(head_has_fields_of_get_without_body)
{
    static const struct {
        const char *target;
        int status;
    } cases[] = {{"/page.html", 200}, {"/empty.txt", 200}, {"/large.bin", 200},
                 {"/missing", 404},   {"/folder", 301},    {"/bare/", 403}};
    static char large[2 * 1024 * 1024];

    server_put_text(server, "/page.html", "<p>hello</p>\n");
    server_put_text(server, "/empty.txt", "");
    server_put_text(server, "/folder/index.html", "index");
    server_put_text(server, "/bare/file", "file");
    server_put(server, "/large.bin", large, sizeof(large));
    server_start(server, NULL);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct http_response get, head;
        struct http_client client;
        char request[128];

        http_get(server_port(server), cases[i].target, cases[i].status, &get);
        snprintf(request, sizeof(request), "HEAD %s HTTP/1.1\r\nHost: h\r\n\r\n", cases[i].target);
        http_open(&client, server_port(server));
        http_send(&client, request);
        http_receive(&client, HTTP_HEAD_ONLY, &head);
        assert_int_equal(head.status, get.status);
        assert_int_equal(head.field_count, get.field_count);
        for (size_t field = 0; field < get.field_count; field++)
            if (strcmp(get.name[field], "Date") != 0)
                assert_field(&head, get.name[field], get.value[field]);
        http_response_free(&head);
        /* No body: the next bytes are the head of the next response. */
        http_send(&client, "GET /page.html HTTP/1.1\r\nHost: h\r\n\r\n");
        http_receive(&client, HTTP_WITH_BODY, &head);
        assert_string_equal(head.body, "<p>hello</p>\n");
        http_response_free(&head);
        http_response_free(&get);
        http_close(&client);
    }
    server_stop(server);
}

SERVER_TEST(content_type_follows_name_suffix)
{
    static const struct {
        const char *path, *type;
    } cases[] = {
        {"/a.html", "text/html; charset=utf-8"},
        {"/a.css", "text/css; charset=utf-8"},
        {"/a.js", "text/javascript; charset=utf-8"},
        {"/a.png", "image/png"},
        {"/a.svg", "image/svg+xml"},
        {"/a.json", "application/json"},
        {"/a.tar.gz", "application/gzip"},
        {"/A.HTML", "text/html; charset=utf-8"},
        {"/a.extra", "application/x-extra"},
        {"/a.unheard-of", "application/octet-stream"},
        {"/noending", "application/octet-stream"},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
        server_put_text(server, cases[i].path, "x");
    server_start(server, "mime.extra=application/x-extra", NULL);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct http_response response;

        http_get(server_port(server), cases[i].path, 200, &response);
        assert_field(&response, "Content-Type", cases[i].type);
        http_response_free(&response);
    }
    server_stop(server);
}

SERVER_TEST(directory_returns_index_file)
{
    struct http_response response;

    server_put_text(server, "/start.htm", "root");
    server_put_text(server, "/sub/start.htm", "sub");
    server_put_text(server, "/bare/file", "file");
    server_start(server, "server.index=start.htm", NULL);
    http_get(server_port(server), "/", 200, &response);
    assert_string_equal(response.body, "root");
    assert_field(&response, "Content-Type", "text/html; charset=utf-8");
    http_response_free(&response);
    http_get(server_port(server), "/sub/?query", 200, &response);
    assert_string_equal(response.body, "sub");
    http_response_free(&response);
    http_expect(server_port(server), "/bare/", 403);
    http_expect(server_port(server), "/absent/", 404);
    http_expect(server_port(server), "/start.htm/", 404);
    server_stop(server);
}

/* A Location that begins with two slashes names another host (RFC 3986 section 4.2). */
SERVER_TEST(directory_without_slash_redirects_within_site)
{
    static const struct {
        const char *target, *location;
    } cases[] = {
        {"/folder", "/folder/"},
        {"/folder?a=b&c=%20d", "/folder/?a=b&c=%20d"},
        {"/folder?", "/folder/?"},
        {"/folder/sub", "/folder/sub/"},
        {"/with%20space", "/with%20space/"},
        {"/q%3Fm%23%25", "/q%3Fm%23%25/"},
        {"/%C3%A4", "/%C3%A4/"},
        {"/%0d%0aX:%20y", NULL},
        {"//folder", "/folder/"},
        {"///folder", "/folder/"},
        {"/./folder", "/folder/"},
        {"//folder/../folder", "/folder/"},
        {"http://elsewhere.example//folder", "/folder/"},
    };

    server_put_text(server, "/folder/sub/file", "x");
    server_put_text(server, "/with space/file", "x");
    server_put_text(server, "/q?m#%/file", "x");
    server_put_text(server, "/\xc3\xa4/file", "x");
    server_start(server, NULL);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct http_response response;

        http_get(server_port(server), cases[i].target, cases[i].location != NULL ? 301 : 400,
                 &response);
        if (cases[i].location != NULL)
            assert_field(&response, "Location", cases[i].location);
        http_response_free(&response);
    }
    server_stop(server);
}

/* --- Errors --- */

/* Fills TEXT with LENGTH letters 'a' and a NUL. */
static char *letters(size_t length)
{
    char *text = malloc(length + 1);

    assert_non_null(text);
    memset(text, 'a', length);
    text[length] = '\0';
    return text;
}

/* Replaces the %s in FORMAT by LENGTH letters. The caller must free the result. */
static char *with_letters(const char *before, size_t length, const char *after)
{
    char *text = letters(length), *request = NULL;

    assert_true(asprintf(&request, "%s%s%s", before, text, after) > 0);
    free(text);
    return request;
}

SERVER_TEST(bad_request_gets_right_status)
{
    static const struct {
        const char *request;
        int status;
    } cases[] = {
        {"GET / HTTP/1.1\r\n\r\n", 400}, /* no Host */
        {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\n folded: b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", 400},
        {"GET / HTTP/1.1\nHost: a\n\n", 400},
        {"GET /\r\nHost: a\r\n\r\n", 400},
        {"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET /a%zz HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET /../../etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
         400},
        {"GET / HTTP/1.1\r\nHost: a\r\nExpect: miracles\r\n\r\n", 417},
        {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501},
        {"BREW / HTTP/1.1\r\nHost: a\r\n\r\n", 501},
        {"get / HTTP/1.1\r\nHost: a\r\n\r\n", 501},
        {"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505},
        {"GET / HTTP/3\r\nHost: a\r\n\r\n", 505},
    };

    server_put_text(server, "/index.html", "index");
    server_start(server, NULL);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct http_response response;

        http_request(server_port(server), cases[i].request, &response);
        if (response.status != cases[i].status)
            fail_msg("'%s' got %d, not %d", cases[i].request, response.status, cases[i].status);
        http_response_free(&response);
    }
    server_stop(server);
}

SERVER_TEST(only_requests_over_a_limit_are_rejected)
{
    static const struct {
        const char *before, *after;
        size_t length;
        int status;
    } cases[] = {
        /* Request line: limits.request_line = 1000 bytes, 13 of which are not part of the name. */
        {"GET /", " HTTP/1.1\r\nHost: h\r\n\r\n", 1000 - 14, 404},
        {"GET /", " HTTP/1.1\r\nHost: h\r\n\r\n", 1000 - 13, 414},
        {"GET /", " HTTP/1.1\r\nHost: h\r\n\r\n", 1900, 414},
        /* Head: limits.header_bytes = 2000. */
        {"GET / HTTP/1.1\r\nHost: h\r\nX: ", "\r\n\r\n", 1900, 200},
        {"GET / HTTP/1.1\r\nHost: h\r\nX: ", "\r\n\r\n", 2000, 431},
        {"GET / HTTP/1.1\r\nHost: h\r\nX: ", "\r\n\r\n", 60000, 431},
        /* Number of fields: limits.header_count = 3. */
        {"GET / HTTP/1.1\r\nHost: h\r\nA: 1\r\nB: ", "\r\n\r\n", 1, 200},
        {"GET / HTTP/1.1\r\nHost: h\r\nA: 1\r\nB: 2\r\nC: ", "\r\n\r\n", 1, 431},
        {"GET / HTTP/1.1\r\nHost: h\r\nAccept-Encoding: br\r\nB: 2\r\nC: ", "\r\n\r\n", 1, 431},
        {"GET / HTTP/1.1\r\nHost: h\r\nAccept-Encoding: br\r\nAccept-Encoding: gzip\r\nC: ",
         "\r\n\r\n", 1, 431},
    };

    server_put_text(server, "/index.html", "index");
    server_start(server, "limits.request_line=1000", "limits.header_bytes=2000",
                 "limits.header_count=3", NULL);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char *request = with_letters(cases[i].before, cases[i].length, cases[i].after);
        struct http_response response;

        http_request(server_port(server), request, &response);
        if (response.status != cases[i].status)
            fail_msg("case %zu got %d, not %d", i, response.status, cases[i].status);
        http_response_free(&response);
        free(request);
    }
    server_stop(server);
}

SERVER_TEST(other_method_is_405_with_allow)
{
    static const char *const methods[] = {"POST", "PUT", "DELETE", "PATCH", "TRACE"};

    server_put_text(server, "/index.html", "index");
    server_start(server, NULL);
    for (size_t i = 0; i < ARRAY_LENGTH(methods); i++) {
        struct http_response response;
        char request[64];

        snprintf(request, sizeof(request), "%s / HTTP/1.1\r\nHost: h\r\n\r\n", methods[i]);
        http_request(server_port(server), request, &response);
        assert_int_equal(response.status, 405);
        assert_field(&response, "Allow", "GET, HEAD, OPTIONS");
        http_response_free(&response);
    }
    server_stop(server);
}

SERVER_TEST(error_has_page_of_the_site)
{
    static const struct {
        const char *request, *page;
    } cases[] = {
        {"GET /absent HTTP/1.1\r\nHost: h\r\n\r\n", "our 404"},
        {"GET /bare/ HTTP/1.1\r\nHost: h\r\n\r\n", "our 403"},
        {"POST / HTTP/1.1\r\nHost: h\r\n\r\n", "our 405"},
        {"GET / HTTP/1.1\r\n\r\n", "our 400"},
        {"BREW / HTTP/1.1\r\nHost: h\r\n\r\n", "our 501"},
    };

    server_put_text(server, "/bare/file", "x");
    server_put_text(server, "/pages/400.html", "our 400");
    server_put_text(server, "/pages/403.html", "our 403");
    server_put_text(server, "/pages/404.html", "our 404");
    server_put_text(server, "/pages/405.html", "our 405");
    server_put_text(server, "/pages/501.html", "our 501");
    server_start(server, "files.error_pages=/pages", NULL);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct http_response response;

        http_request(server_port(server), cases[i].request, &response);
        assert_int_equal(response.status, atoi(cases[i].page + 4));
        assert_string_equal(response.body, cases[i].page);
        assert_field(&response, "Content-Type", "text/html; charset=utf-8");
        /* The validators of the error page do not apply to the requested resource. */
        assert_null(http_field(&response, "ETag"));
        assert_null(http_field(&response, "Last-Modified"));
        http_response_free(&response);
    }
    server_stop(server);
}

SERVER_TEST(error_without_page_has_built_in_page)
{
    static const char *const options[] = {"files.error_pages=", "files.error_pages=/nowhere"};

    server_put_text(server, "/errors/404.html", "not this one");
    for (size_t i = 0; i < ARRAY_LENGTH(options); i++) {
        struct http_response response;

        server_start(server, options[i], NULL);
        http_get(server_port(server), "/absent", 404, &response);
        assert_non_null(strstr(response.body, "404 Not Found"));
        assert_field(&response, "Content-Type", "text/html; charset=utf-8");
        http_response_free(&response);
        server_stop(server);
    }
}

/* --- Conditional requests, RFC 9110 section 13 --- */

/* Requests /page.txt with an additional field, checks the response and returns its status. */
static int request_if(const struct server *server, const char *field, const char *value,
                      const struct http_response *first)
{
    struct http_response response;
    char request[512];
    int status;

    snprintf(request, sizeof(request), "GET /page.txt HTTP/1.1\r\nHost: h\r\n%s: %s\r\n\r\n", field,
             value);
    http_request(server_port(server), request, &response);
    status = response.status;
    assert_field(&response, "ETag", http_field(first, "ETag"));
    if (status == 304)
        assert_int_equal(response.body_length, 0);
    else
        assert_string_equal(response.body, first->body);
    http_response_free(&response);
    return status;
}

SERVER_TEST(unchanged_file_is_304)
{
    struct http_response first;
    char list[256], weak[160];
    const char *etag, *modified;

    server_put_text(server, "/page.txt", "text");
    server_start(server, NULL);
    http_get(server_port(server), "/page.txt", 200, &first);
    etag = http_field(&first, "ETag");
    modified = http_field(&first, "Last-Modified");
    snprintf(list, sizeof(list), "\"other\", %s", etag);
    snprintf(weak, sizeof(weak), "W/%s", etag);
    assert_int_equal(request_if(server, "If-None-Match", etag, &first), 304);
    assert_int_equal(request_if(server, "If-None-Match", list, &first), 304);
    assert_int_equal(request_if(server, "If-None-Match", weak, &first), 304);
    assert_int_equal(request_if(server, "If-None-Match", "*", &first), 304);
    assert_int_equal(request_if(server, "If-None-Match", "\"other\"", &first), 200);
    assert_int_equal(request_if(server, "If-Modified-Since", modified, &first), 304);
    assert_int_equal(
        request_if(server, "If-Modified-Since", "Sat, 01 Jan 2000 00:00:00 GMT", &first), 200);
    assert_int_equal(request_if(server, "If-Modified-Since", "yesterday", &first), 200);
    http_response_free(&first);
    server_stop(server);
}

SERVER_TEST(etag_has_precedence_over_date)
{
    struct http_response first, response;
    char request[512];

    server_put_text(server, "/page.txt", "text");
    server_start(server, NULL);
    http_get(server_port(server), "/page.txt", 200, &first);
    snprintf(request, sizeof(request),
             "GET /page.txt HTTP/1.1\r\nHost: h\r\nIf-None-Match: \"other\"\r\n"
             "If-Modified-Since: %s\r\n\r\n",
             http_field(&first, "Last-Modified"));
    http_request(server_port(server), request, &response);
    assert_int_equal(response.status, 200);
    http_response_free(&response);
    http_response_free(&first);
    server_stop(server);
}

static struct stat state_of(const char *path)
{
    struct stat status;

    assert_int_equal(stat(path, &status), 0);
    return status;
}

/*
 * Replaces the content of PATH, as `rsync --inplace --times` does: inode, length and mtime stay.
 * Repeats it until the clock of the file system has advanced.
 */
static void rewrite_in_place(const char *path, const char *text)
{
    struct stat before = state_of(path), after = before;
    struct timespec times[2] = {before.st_atim, before.st_mtim};

    while (after.st_ctim.tv_sec == before.st_ctim.tv_sec &&
           after.st_ctim.tv_nsec == before.st_ctim.tv_nsec) {
        int fd = open(path, O_WRONLY | O_CLOEXEC);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, strlen(text)), strlen(text));
        close(fd);
        assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
        after = state_of(path);
    }
    assert_int_equal(after.st_ino, before.st_ino);
    assert_int_equal(after.st_size, before.st_size);
    assert_memory_equal(&after.st_mtim, &before.st_mtim, sizeof(after.st_mtim));
}

static void request_page(const struct server *server, const char *fields,
                         struct http_response *response)
{
    char request[512];

    snprintf(request, sizeof(request), "GET /page.txt HTTP/1.1\r\nHost: h\r\n%s\r\n", fields);
    http_request(server_port(server), request, response);
}

/* Requests /page.txt on the condition that it still has the tag of FIRST: it must not. */
static void expect_changed(const struct server *server, const char *coding, const char *condition,
                           const struct http_response *first, const char *text)
{
    struct http_response response;
    char fields[256];

    snprintf(fields, sizeof(fields), "%s%s: %s\r\n", coding, condition, http_field(first, "ETag"));
    request_page(server, fields, &response);
    assert_int_equal(response.status, 200);
    assert_string_equal(response.body, text);
    assert_string_not_equal(http_field(&response, "ETag"), http_field(first, "ETag"));
    http_response_free(&response);
}

SERVER_TEST(rewrite_with_same_length_and_mtime_has_new_etag)
{
    static const char gzip[] = "Accept-Encoding: gzip\r\n";
    struct http_response plain, coded;
    char path[SCRATCH_PATH_MAX + 4];

    server_put_text(server, "/page.txt", "before");
    server_put_text(server, "/page.txt.gz", "BEFORE");
    server_start(server, "cache.revalidate=0", NULL);
    request_page(server, "", &plain);
    request_page(server, gzip, &coded);
    assert_string_equal(coded.body, "BEFORE");
    snprintf(path, sizeof(path), "%s/www/page.txt", server_directory(server));
    rewrite_in_place(path, "behind");
    strcat(path, ".gz");
    rewrite_in_place(path, "BEHIND");
    expect_changed(server, "", "If-None-Match", &plain, "behind");
    expect_changed(server, "Range: bytes=0-1\r\n", "If-Range", &plain, "behind");
    expect_changed(server, gzip, "If-None-Match", &coded, "BEHIND");
    http_response_free(&plain);
    http_response_free(&coded);
    server_stop(server);
}

SERVER_TEST(etag_is_same_in_all_workers_and_after_restart)
{
    static const char *const options[] = {"workers.processes=1", "workers.processes=3"};
    struct http_response response;
    char first[128] = "";

    server_put_text(server, "/page.txt", "text");
    for (size_t i = 0; i < 2 * ARRAY_LENGTH(options); i++) {
        server_start(server, options[i / 2], "workers.dispatch=master", NULL);
        for (int connection = 0; connection < 6; connection++) {
            request_page(server, "", &response);
            assert_int_equal(response.status, 200);
            if (first[0] == '\0')
                snprintf(first, sizeof(first), "%s", http_field(&response, "ETag"));
            assert_string_equal(http_field(&response, "ETag"), first);
            http_response_free(&response);
        }
        server_stop(server);
    }
}
