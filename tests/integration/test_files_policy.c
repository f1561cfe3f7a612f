/* Which files are served: dot files, symbolic links, fallback for missing paths, index files. */
#include "http_client.h"
#include "server.h"

#include "common/macros.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void put_link(const struct server *server, const char *name, const char *target)
{
    char path[512];

    snprintf(path, sizeof(path), "%s/www/%s", server_directory(server), name);
    assert_int_equal(symlink(target, path), 0);
}

/* Creates directory "shared" with a file beside the site. Returns its path. */
static const char *make_shared(const struct server *server)
{
    static char path[512];
    char file[600];
    FILE *out;

    assert_int_equal(chmod(server_directory(server), 0755),
                     0); /* the worker may run as another user */
    snprintf(path, sizeof(path), "%s/shared", server_directory(server));
    assert_int_equal(mkdir(path, 0755), 0);
    snprintf(file, sizeof(file), "%s/file", path);
    out = fopen(file, "w");
    assert_non_null(out);
    assert_true(fputs("shared", out) >= 0);
    assert_int_equal(fclose(out), 0);
    return path;
}

static void put_site(const struct server *server)
{
    const char *shared = make_shared(server);

    server_put_text(server, "/file", "file");
    server_put_text(server, "/folder/index.html", "index");
    server_put_text(server, "/.secret", "secret");
    server_put_text(server, "/.well-known/x", "known");
    put_link(server, "inside", "file");
    put_link(server, "home", "folder");
    put_link(server, "outside", "../shared/file");
    put_link(server, "absolute", shared);
    put_link(server, "passwd", "/etc/passwd");
}

struct expectation {
    const char *target;
    int status;
};

static void expect_all(const struct server *server, const struct expectation *list, size_t count)
{
    for (int twice = 0; twice < 2; twice++) /* first from the file system, then from the cache */
        for (size_t i = 0; i < count; i++)
            http_expect(server_port(server), list[i].target, list[i].status);
}

SERVER_TEST(links_are_not_followed_by_default)
{
    static const struct expectation expected[] = {
        {"/file", 200},   {"/folder/", 200},   {"/.secret", 404}, {"/.well-known/x", 200},
        {"/inside", 403}, {"/home/", 403},     {"/outside", 403}, {"/absolute/file", 403},
        {"/passwd", 403}, {"/%2esecret", 404},
    };

    put_site(server);
    server_start(server, NULL);
    expect_all(server, expected, ARRAY_LENGTH(expected));
    server_stop(server);
}

SERVER_TEST(links_within_root_are_followed)
{
    static const struct expectation expected[] = {
        {"/inside", 200},  {"/home", 301},          {"/home/", 200},  {"/home/index.html", 200},
        {"/outside", 403}, {"/absolute/file", 403}, {"/passwd", 403},
    };

    put_site(server);
    server_start(server, "files.symlinks=inside", "files.dotfiles=allow", NULL);
    expect_all(server, expected, ARRAY_LENGTH(expected));
    http_expect(server_port(server), "/.secret", 200);
    server_stop(server);
}

SERVER_TEST(links_are_followed_into_allowed_directories)
{
    static const struct expectation expected[] = {
        {"/inside", 200},        {"/home/", 200},  {"/outside", 200},
        {"/absolute/file", 200}, {"/passwd", 403}, {"/absolute/none", 404},
    };
    char into[600];

    put_site(server);
    snprintf(into, sizeof(into), "files.follow_into=%s/shared", server_directory(server));
    server_start(server, "files.symlinks=follow", into, NULL);
    expect_all(server, expected, ARRAY_LENGTH(expected));
    server_stop(server);
}

/* The file may appear and disappear. */
SERVER_TEST(file_has_precedence_over_fallback)
{
    struct http_response response;

    server_put_text(server, "/app.html", "app");
    server_start(server, "files.fallback=/app.html", "cache.revalidate=0", NULL);
    for (int i = 0; i < 3; i++) {
        http_get(server_port(server), "/page", 200, &response);
        assert_string_equal(response.body, "app");
        http_response_free(&response);
    }
    server_put_text(server, "/page", "page");
    http_get(server_port(server), "/page", 200, &response);
    assert_string_equal(response.body, "page");
    http_response_free(&response);
    server_stop(server);
}

SERVER_TEST(missing_fallback_is_404)
{
    server_start(server, "files.fallback=/none.html", NULL);
    http_expect(server_port(server), "/page", 404);
    http_expect(server_port(server), "/folder/", 404);
    server_stop(server);
}

/*
 * The lookup of the index file happens before a directory that has one gets the path, and that of
 * the directory after it. The cache of missing paths holds the state in between.
 */
static void try_swap(struct server *server, const char *autoindex)
{
    char from[512], to[512];
    struct http_response response;

    server_put_text(server, "/new/index.html", "index");
    snprintf(from, sizeof(from), "%s/www/new", server_directory(server));
    snprintf(to, sizeof(to), "%s/www/swapped", server_directory(server));
    server_start(server, autoindex, "cache.revalidate=1h", "workers.processes=1",
                 "workers.threads=1", NULL);
    for (int i = 0; i < 3; i++) /* an offload thread may answer the first one */
        http_expect(server_port(server), "/swapped/index.html", 404);
    assert_int_equal(rename(from, to), 0);
    http_get(server_port(server), "/swapped/", 200, &response);
    assert_string_equal(response.body, "index");
    http_response_free(&response);
    assert_int_equal(rename(to, from), 0);
    server_stop(server);
}

SERVER_TEST(renamed_directory_with_index_is_not_listed)
{
    try_swap(server, "files.autoindex=on");
}

SERVER_TEST(renamed_directory_with_index_is_not_forbidden)
{
    try_swap(server, "files.autoindex=off");
}
