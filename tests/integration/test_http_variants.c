/*
 * Encoded variants of files: creation, lookup, change and removal. Also files that exceed memory.
 */
#include "http_client.h"
#include "patience.h"
#include "scratch.h"
#include "server.h"

#include "common/macros.h"
#include "tests/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

enum { PROSE = 40 * 1000 };

/* Returns text that gzip compresses well. The caller must free it. */
static char *make_prose(unsigned seed)
{
    char *text = malloc(PROSE + 1);

    assert_non_null(text);
    for (size_t used = 0; used < PROSE; seed++)
        used += (size_t)snprintf(text + used, PROSE + 1 - used, "line %u of many\n", seed);
    return text;
}

static void in_site(const struct server *server, const char *path, char *full)
{
    snprintf(full, SCRATCH_PATH_MAX, "%s/www%s", server_directory(server), path);
}

static void date_file(const struct server *server, const char *path, time_t seconds)
{
    const struct timespec times[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
    char full[SCRATCH_PATH_MAX];

    in_site(server, path, full);
    assert_int_equal(utimensat(AT_FDCWD, full, times, 0), 0);
}

static void ask(const struct server *server, const char *target, const char *fields,
                struct http_response *response)
{
    char request[1024];

    snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: h\r\n%s\r\n", target, fields);
    http_request(server_port(server), request, response);
}

#define GZIP "Accept-Encoding: gzip\r\n"

static void expect_gunzipped(const struct http_response *response, const char *text, size_t length)
{
    char *unpacked = malloc(length + 1);
    z_stream stream = {.next_in = (Bytef *)response->body,
                       .avail_in = (uInt)response->body_length,
                       .next_out = (Bytef *)unpacked,
                       .avail_out = (uInt)length + 1};

    assert_non_null(unpacked);
    assert_string_equal(http_field(response, "Content-Encoding"), "gzip");
    assert_int_equal(inflateInit2(&stream, 15 + 16), Z_OK);
    assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
    assert_int_equal(stream.total_out, length);
    assert_memory_equal(unpacked, text, length);
    inflateEnd(&stream);
    free(unpacked);
}

/* --- gzip made by the server --- */

SERVER_TEST(gzip_is_made_once_and_cached)
{
    char *text = make_prose(1);
    struct http_response response;
    size_t length = 0;
    uint64_t jobs = 0;

    server_put(server, "/prose.txt", text, PROSE);
    server_start(server, "workers.processes=1", "cache.revalidate=1h", NULL);
    for (int i = 0; i < 4; i++) {
        if (i == 1)
            jobs = server_metric(server, "offloaded");
        ask(server, "/prose.txt", GZIP, &response);
        assert_int_equal(response.status, 200);
        expect_gunzipped(&response, text, PROSE);
        assert_in_range(response.body_length, 20, PROSE / 4);
        assert_true(length == 0 || length == response.body_length);
        length = response.body_length;
        http_response_free(&response);
    }
    assert_in_range(jobs, 1, 2); /* the file itself may not have been in the page cache */
    server_expect_metric(server, "offloaded", jobs);
    server_expect_metric(server, "cache_inserted", 2); /* the file and its variant */
    server_expect_metric(server, "cache_hits", 3);
    server_stop(server);
    free(text);
}

SERVER_TEST(changed_file_is_compressed_again)
{
    struct http_response response;

    server_start(server, "workers.processes=2", "cache.revalidate=0", NULL);
    for (unsigned i = 0; i < 10; i++) {
        char *text = make_prose(100 * i);

        server_put(server, "/prose.txt", text, PROSE);
        for (int again = 0; again < 3; again++) {
            ask(server, "/prose.txt", GZIP, &response);
            expect_gunzipped(&response, text, PROSE);
            http_response_free(&response);
        }
        free(text);
    }
    server_stop(server);
}

SERVER_TEST(incompressible_file_is_sent_plain)
{
    struct http_response response;
    char noise[4000];
    unsigned long chance = 88172645463325252UL;
    uint64_t jobs = 0;

    for (size_t i = 0; i < sizeof(noise); i++) {
        chance ^= chance << 13, chance ^= chance >> 7, chance ^= chance << 17;
        noise[i] = (char)chance;
    }
    server_put(server, "/noise.txt", noise, sizeof(noise));
    server_start(server, "workers.processes=1", "cache.revalidate=1h", NULL);
    for (int i = 0; i < 5; i++) {
        if (i == 1)
            jobs = server_metric(server, "offloaded");
        ask(server, "/noise.txt", GZIP, &response);
        assert_null(http_field(&response, "Content-Encoding"));
        assert_string_equal(http_field(&response, "Vary"), "Accept-Encoding");
        assert_int_equal(response.body_length, sizeof(noise));
        assert_memory_equal(response.body, noise, sizeof(noise));
        http_response_free(&response);
    }
    assert_in_range(jobs, 1, 2);
    server_expect_metric(server, "offloaded", jobs); /* compressed once */
    server_stop(server);
}

SERVER_TEST(concurrent_requests_get_the_same_gzip)
{
    enum { CLIENTS = 20 };
    struct http_client client[CLIENTS];
    char *text = make_prose(7);

    server_put(server, "/prose.txt", text, PROSE);
    server_start(server, "workers.threads=2", NULL);
    for (int i = 0; i < CLIENTS; i++) {
        http_open(&client[i], server_port(server));
        http_send(&client[i], "GET /prose.txt HTTP/1.1\r\nHost: h\r\n" GZIP "\r\n"
                              "GET /prose.txt HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    for (int i = 0; i < CLIENTS; i++) {
        struct http_response response;

        http_receive(&client[i], HTTP_WITH_BODY, &response);
        expect_gunzipped(&response, text, PROSE);
        http_response_free(&response);
        http_receive(&client[i], HTTP_WITH_BODY, &response);
        assert_int_equal(response.body_length, PROSE);
        http_response_free(&response);
        http_close(&client[i]);
    }
    server_stop(server);
    free(text);
}

SERVER_TEST(compression_off_encodes_nothing)
{
    static const char *const options[] = {"cache.compress=off", "cache.enabled=off"};
    struct http_response response;
    char *text = make_prose(7);

    server_put(server, "/prose.txt", text, PROSE);
    server_put_text(server, "/a.txt", "a");
    server_put_text(server, "/a.txt.gz", "gz");
    for (size_t i = 0; i < ARRAY_LENGTH(options); i++) {
        server_start(server, "cache.precompressed=off", options[i], NULL);
        ask(server, "/prose.txt", GZIP, &response);
        assert_int_equal(response.body_length, PROSE);
        assert_null(http_field(&response, "Vary"));
        http_response_free(&response);
        ask(server, "/a.txt", GZIP, &response);
        assert_string_equal(response.body, "a");
        assert_null(http_field(&response, "Vary"));
        http_response_free(&response);
        server_stop(server);
    }
    free(text);
}

/* --- Variants beside a file --- */

static void expect_variant(const struct server *server, const char *body, const char *coding)
{
    struct http_response response;
    const char *printed;

    ask(server, "/a.txt", "Accept-Encoding: gzip, br\r\n", &response);
    printed = http_field(&response, "Content-Encoding");
    assert_string_equal(response.body, body);
    if (coding == NULL)
        assert_null(printed);
    else
        assert_string_equal(printed, coding);
    http_response_free(&response);
}

SERVER_TEST(variants_appear_and_disappear)
{
    char path[SCRATCH_PATH_MAX];

    server_put_text(server, "/a.txt", "plain");
    server_start(server, "cache.revalidate=0", NULL);
    expect_variant(server, "plain", NULL);
    server_put_text(server, "/a.txt.gz", "in gz");
    expect_variant(server, "in gz", "gzip");
    server_put_text(server, "/a.txt.br", "in br");
    expect_variant(server, "in br", "br");
    server_put_text(server, "/a.txt.br", "new in br");
    expect_variant(server, "new in br", "br");
    in_site(server, "/a.txt.br", path);
    assert_int_equal(unlink(path), 0);
    expect_variant(server, "in gz", "gzip");
    server_put_text(server, "/a.txt.br/file", "a directory is not a variant");
    expect_variant(server, "in gz", "gzip");
    in_site(server, "/a.txt", path);
    assert_int_equal(unlink(path), 0);
    http_expect(server_port(server), "/a.txt", 404); /* no variant without its file */
    http_expect(server_port(server), "/a.txt.gz", 200);
    server_stop(server);
}

/* Overwrites the existing file, which does not change its directory. */
static void write_in_place(const struct server *server, const char *path, const char *text)
{
    char full[SCRATCH_PATH_MAX];
    int fd;

    in_site(server, path, full);
    fd = open(full, O_WRONLY | O_TRUNC | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

enum { AT_REST_S = 5 };

/* The server does not look up names in an unchanged directory again. */
SERVER_TEST(changes_in_unchanged_directory_are_served)
{
    server_put_text(server, "/a.txt", "plain");
    server_start(server, "cache.revalidate=0", NULL);
    sleep(AT_REST_S);
    for (int i = 0; i < 3; i++)
        expect_variant(server, "plain", NULL);
    write_in_place(server, "/a.txt", "new plain");
    for (int i = 0; i < 3; i++)
        expect_variant(server, "new plain", NULL);
    server_put_text(server, "/a.txt.gz", "in gz");
    for (int i = 0; i < 3; i++)
        expect_variant(server, "in gz", "gzip");
    sleep(AT_REST_S);
    for (int i = 0; i < 3; i++)
        expect_variant(server, "in gz", "gzip");
    write_in_place(server, "/a.txt.gz", "new in gz");
    expect_variant(server, "new in gz", "gzip");
    server_stop(server);
}

/* The directory of the link does not change when the target appears. */
SERVER_TEST(variant_may_be_a_formerly_dangling_link)
{
    char link[SCRATCH_PATH_MAX];

    server_put_text(server, "/a.txt", "plain");
    server_put_text(server, "/forms/other", "");
    in_site(server, "/a.txt.br", link);
    assert_int_equal(symlink("forms/a", link), 0);
    server_start(server, "cache.revalidate=0", "files.symlinks=inside", NULL);
    sleep(AT_REST_S);
    for (int i = 0; i < 3; i++)
        expect_variant(server, "plain", NULL);
    server_put_text(server, "/forms/a", "in br");
    expect_variant(server, "in br", "br");
    server_stop(server);
}

SERVER_TEST(variant_older_than_file_is_ignored)
{
    server_put_text(server, "/a.txt", "plain");
    server_put_text(server, "/a.txt.gz", "in gz");
    date_file(server, "/a.txt", 2000);
    date_file(server, "/a.txt.gz", 1999);
    server_start(server, "cache.revalidate=0", NULL);
    expect_variant(server, "plain", NULL);
    date_file(server, "/a.txt.gz", 2000);
    expect_variant(server, "in gz", "gzip");
    date_file(server, "/a.txt", 2001);
    expect_variant(server, "plain", NULL);
    server_stop(server);
}

SERVER_TEST(variant_last_modified_is_later_of_both)
{
    struct http_response response;

    server_put_text(server, "/a.txt", "plain");
    server_put_text(server, "/a.txt.gz", "in gz");
    date_file(server, "/a.txt", 784111777);
    date_file(server, "/a.txt.gz", 784111779);
    server_start(server, NULL);
    ask(server, "/a.txt", GZIP, &response);
    assert_string_equal(http_field(&response, "Last-Modified"), "Sun, 06 Nov 1994 08:49:39 GMT");
    http_response_free(&response);
    ask(server, "/a.txt", "", &response);
    assert_string_equal(http_field(&response, "Last-Modified"), "Sun, 06 Nov 1994 08:49:37 GMT");
    http_response_free(&response);
    server_stop(server);
}

/* RFC 9110 section 8.8.2.1. */
SERVER_TEST(future_mtime_is_sent_as_now)
{
    struct http_response response;
    time_t before = time(NULL);
    struct tm told = {0};

    server_put_text(server, "/a.txt", "plain");
    date_file(server, "/a.txt", INT64_C(4102444800));
    server_start(server, NULL);
    ask(server, "/a.txt", "If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT\r\n", &response);
    assert_int_equal(response.status, 200);
    assert_non_null(http_field(&response, "Last-Modified"));
    assert_non_null(strptime(http_field(&response, "Last-Modified"), "%a, %d %b %Y %T GMT", &told));
    assert_in_range(timegm(&told), before, time(NULL));
    http_response_free(&response);
    server_stop(server);
}

/* As in reproducible archives. A cache that knows only dates then gets the new content. */
SERVER_TEST(mtime_of_the_first_day_is_not_sent)
{
    struct http_response response;

    server_put_text(server, "/a.txt", "plain");
    date_file(server, "/a.txt", 1);
    server_start(server, NULL);
    ask(server, "/a.txt", "If-Modified-Since: Thu, 01 Jan 1970 00:00:01 GMT\r\n", &response);
    assert_int_equal(response.status, 200);
    assert_null(http_field(&response, "Last-Modified"));
    assert_non_null(http_field(&response, "ETag"));
    http_response_free(&response);
    server_stop(server);
}

/* --- Files larger than memory --- */

#define GIB INT64_C(1073741824)

/* A sparse file with a word at some offsets. */
static void put_sparse(const struct server *server, const char *path, off_t size)
{
    static const off_t places[] = {0, GIB, 2 * GIB - 4, 2 * GIB, 4 * GIB - 4, 4 * GIB};
    char full[SCRATCH_PATH_MAX];
    int fd;

    in_site(server, path, full);
    fd = open(full, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, size), 0);
    for (size_t i = 0; i < ARRAY_LENGTH(places); i++)
        if (places[i] + 8 <= size)
            assert_int_equal(pwrite(fd, "at place", 8, places[i]), 8);
    close(fd);
}

SERVER_TEST(sizes_and_offsets_are_64_bit)
{
    static const struct {
        const char *range, *printed, *body;
    } cases[] = {
        {"bytes=4294967296-4294967303", "bytes 4294967296-4294967303/5368709120", "at place"},
        {"bytes=4294967292-4294967299", "bytes 4294967292-4294967299/5368709120", "at pat p"},
        {"bytes=2147483644-2147483647", "bytes 2147483644-2147483647/5368709120", "at p"},
        {"bytes=-1", "bytes 5368709119-5368709119/5368709120", ""},
    };
    struct http_response response;
    struct http_client client;

    put_sparse(server, "/sparse.bin", 5 * GIB);
    server_start(server, NULL);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char fields[128];

        snprintf(fields, sizeof(fields), "Range: %s\r\n", cases[i].range);
        ask(server, "/sparse.bin", fields, &response);
        assert_int_equal(response.status, 206);
        assert_string_equal(http_field(&response, "Content-Range"), cases[i].printed);
        assert_string_equal(response.body, cases[i].body);
        http_response_free(&response);
    }
    ask(server, "/sparse.bin", "Range: bytes=5368709120-\r\n", &response);
    assert_int_equal(response.status, 416);
    assert_string_equal(http_field(&response, "Content-Range"), "bytes */5368709120");
    http_response_free(&response);
    ask(server, "/sparse.bin", "Range: bytes=0-7,4294967296-4294967303\r\n", &response);
    assert_int_equal(response.status, 206);
    assert_non_null(strstr(response.body, "Content-Range: bytes 4294967296-4294967303/5368709120"
                                          "\r\n\r\nat place\r\n--"));
    http_response_free(&response);
    http_open(&client, server_port(server));
    http_send(&client, "HEAD /sparse.bin HTTP/1.1\r\nHost: h\r\n\r\n");
    http_receive(&client, HTTP_HEAD_ONLY, &response);
    assert_string_equal(http_field(&response, "Content-Length"), "5368709120");
    http_response_free(&response);
    http_close(&client);
    server_stop(server);
}

/* Parts of a large file, each larger than a window and the socket buffer. */
SERVER_TEST(large_parts_are_exact)
{
    enum { SIZE = 6 * 1024 * 1024 };
    static const char request[] = "GET /large.bin HTTP/1.1\r\nHost: h\r\n"
                                  "Range: bytes=100-2000000,3000000-5999999\r\n\r\n";
    static const char *const options[] = {"cache.max_object=1M", "cache.max_object=16M",
                                          "cache.enabled=off"};
    char *bytes = malloc(SIZE);

    assert_non_null(bytes);
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] = (char)(i * 131 + i / 4099);
    server_put(server, "/large.bin", bytes, SIZE);
    for (size_t i = 0; i < ARRAY_LENGTH(options); i++) {
        struct http_response response;
        const char *first, *second;

        server_start(server, options[i], NULL);
        http_request(server_port(server), request, &response);
        assert_int_equal(response.status, 206);
        first = strstr(response.body, "\r\n\r\n") + 4;
        assert_memory_equal(first, bytes + 100, 2000000 - 100 + 1);
        second = strstr(first + 2000000 - 100 + 1, "\r\n\r\n") + 4;
        assert_memory_equal(second, bytes + 3000000, 3000000);
        assert_memory_equal(second + 3000000, "\r\n--", 4);
        http_response_free(&response);
        http_expect(server_port(server), "/large.bin", 200);
        server_expect_metric(server, "responses_cut_short", 0);
        server_stop(server);
    }
    free(bytes);
}
