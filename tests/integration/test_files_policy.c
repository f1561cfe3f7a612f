/* What of a folder is served: names with a dot, symbolic links, paths that are not there. */
#include "http_client.h"
#include "server.h"

#include "common/macros.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void put_link(const struct server *server, const char *name, const char *target)
{
    char path[512];

    snprintf(path, sizeof(path), "%s/www/%s", server_folder(server), name);
    assert_int_equal(symlink(target, path), 0);
}

/* A folder beside the site, "shared", with a file; its path. */
static const char *make_shared(const struct server *server)
{
    static char path[512];
    char file[600];
    FILE *out;

    assert_int_equal(chmod(server_folder(server), 0755), 0); /* a worker may be another user */
    snprintf(path, sizeof(path), "%s/shared", server_folder(server));
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
    for (int twice = 0; twice < 2; twice++) /* once from the file system, once from the cache */
        for (size_t i = 0; i < count; i++)
            http_expect(server_port(server), list[i].target, list[i].status);
}

static void nothing_is_followed_at_first(void **state)
{
    static const struct expectation expected[] = {
        {"/file", 200},   {"/folder/", 200},   {"/.secret", 404}, {"/.well-known/x", 200},
        {"/inside", 403}, {"/home/", 403},     {"/outside", 403}, {"/absolute/file", 403},
        {"/passwd", 403}, {"/%2esecret", 404},
    };
    struct server *server = *state;

    put_site(server);
    server_start(server, NULL);
    expect_all(server, expected, ARRAY_LENGTH(expected));
    server_stop(server);
}

static void links_inside_are_followed(void **state)
{
    static const struct expectation expected[] = {
        {"/inside", 200},  {"/home", 301},          {"/home/", 200},  {"/home/index.html", 200},
        {"/outside", 403}, {"/absolute/file", 403}, {"/passwd", 403},
    };
    struct server *server = *state;

    put_site(server);
    server_start(server, "files.symlinks=inside", "files.dotfiles=allow", NULL);
    expect_all(server, expected, ARRAY_LENGTH(expected));
    http_expect(server_port(server), "/.secret", 200);
    server_stop(server);
}

static void links_are_followed_into_fences(void **state)
{
    static const struct expectation expected[] = {
        {"/inside", 200},        {"/home/", 200},  {"/outside", 200},
        {"/absolute/file", 200}, {"/passwd", 403}, {"/absolute/none", 404},
    };
    struct server *server = *state;
    char into[600];

    put_site(server);
    snprintf(into, sizeof(into), "files.follow_into=%s/shared", server_folder(server));
    server_start(server, "files.symlinks=follow", into, NULL);
    expect_all(server, expected, ARRAY_LENGTH(expected));
    server_stop(server);
}

/* The file may come, and go again. */
static void the_fallback_gives_way_to_a_file(void **state)
{
    struct server *server = *state;
    struct http_answer answer;

    server_put_text(server, "/app.html", "app");
    server_start(server, "files.fallback=/app.html", "cache.revalidate=0", NULL);
    for (int i = 0; i < 3; i++) {
        http_get(server_port(server), "/page", 200, &answer);
        assert_string_equal(answer.body, "app");
        http_answer_free(&answer);
    }
    server_put_text(server, "/page", "page");
    http_get(server_port(server), "/page", 200, &answer);
    assert_string_equal(answer.body, "page");
    http_answer_free(&answer);
    server_stop(server);
}

static void a_fallback_that_is_missing_is_a_404(void **state)
{
    struct server *server = *state;

    server_start(server, "files.fallback=/none.html", NULL);
    http_expect(server_port(server), "/page", 404);
    http_expect(server_port(server), "/folder/", 404);
    server_stop(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_is_followed_at_first, server_set_up,
                                        server_tear_down),
        cmocka_unit_test_setup_teardown(links_inside_are_followed, server_set_up, server_tear_down),
        cmocka_unit_test_setup_teardown(links_are_followed_into_fences, server_set_up,
                                        server_tear_down),
        cmocka_unit_test_setup_teardown(the_fallback_gives_way_to_a_file, server_set_up,
                                        server_tear_down),
        cmocka_unit_test_setup_teardown(a_fallback_that_is_missing_is_a_404, server_set_up,
                                        server_tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
