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

/* --- Errors --- */

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
