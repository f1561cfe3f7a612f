/* Where redirects lead, by a rule and to a path with a slash, and what the response says. */
#include "daemon/transaction/handler.h"

#include "daemon/transaction/loading.h"
#include "daemon/transaction/memory.h"
#include "daemon/transaction/reply.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { NOTE_LOCATION_MAX = 1024 }; /* longer locations are no link */

static struct transaction_context context;
static bool no_stream, no_page; /* out of memory: for the text, for the page */
static int made_room;
static struct resource note;

/* The response. */
static int status;
static bool redirects;
static char location[REPLY_LOCATION_MAX + 1], body[8192], note_path[16];

/* Replaced by the linker: see wrap() in tests/unit/CMakeLists.txt. */
/* NOLINTBEGIN(clang-diagnostic-reserved-identifier): names of the linker */
FILE *__real_open_memstream(char **text, size_t *length);
FILE *__wrap_open_memstream(char **text, size_t *length);
int __wrap_page_new(struct span path, const char *fields, const char *text, size_t length,
                    struct resource **page);
bool __wrap_memory_make_room(struct transaction_context *of);
enum transaction_result __wrap_reply_redirect(struct transaction *transaction, int with,
                                              struct span to, struct resource *with_note);
enum transaction_result __wrap_reply_error(struct transaction *transaction, int with);

FILE *__wrap_open_memstream(char **text, size_t *length)
{
    return no_stream ? NULL : __real_open_memstream(text, length);
}

int __wrap_page_new(struct span path, const char *fields, const char *text, size_t length,
                    struct resource **page)
{
    assert_string_equal(fields, "Content-Type: text/html; charset=utf-8\r\n");
    assert_int_equal(length, strlen(text));
    snprintf(note_path, sizeof(note_path), "%.*s", (int)path.length, path.start);
    snprintf(body, sizeof(body), "%s", text);
    *page = &note;
    return no_page ? ENOMEM : 0;
}

bool __wrap_memory_make_room(struct transaction_context *of)
{
    assert_ptr_equal(of, &context);
    made_room++;
    return true;
}

enum transaction_result __wrap_reply_redirect(struct transaction *transaction, int with,
                                              struct span to, struct resource *with_note)
{
    (void)transaction;
    assert_ptr_equal(with_note, &note);
    assert_true(to.length <= REPLY_LOCATION_MAX);
    status = with;
    redirects = true;
    memcpy(location, to.start, to.length);
    location[to.length] = '\0';
    return TRANSACTION_DONE;
}

enum transaction_result __wrap_reply_error(struct transaction *transaction, int with)
{
    (void)transaction;
    status = with;
    return TRANSACTION_DONE;
}
/* NOLINTEND(clang-diagnostic-reserved-identifier) */

static int begin(void **state)
{
    (void)state;
    no_stream = no_page = false;
    made_room = 0;
    return 0;
}

static void expect_answer(enum transaction_result result, int expected)
{
    assert_int_equal(result, TRANSACTION_DONE);
    assert_int_equal(status, expected);
    assert_int_equal(redirects, expected / 100 == 3);
}

/* Requests the canonical PATH of HOST; QUERY may be NULL. Without RULE it is a directory. */
static void request(const struct config_redirect *rule, const char *host, const char *path,
                    const char *query, int expected)
{
    static struct target target;
    const struct request message = {.host = {host, strlen(host)}};
    struct transaction transaction = {.context = &context, .request = &message, .rule = rule};

    target.length = strlen(path);
    target.query = (struct span){query, query != NULL ? strlen(query) : 0};
    snprintf(target.path, sizeof(target.path), "%s", path);
    status = 0;
    redirects = false;
    location[0] = body[0] = '\0';
    expect_answer(rule != NULL ? handler_redirect(&transaction, &target)
                               : handler_redirect_directory(&transaction, &target),
                  expected);
}

/* A rule for all paths below PREFIX; a star at the end of TARGET stands for the rest of the path. */
static struct config_redirect rule_to(const char *prefix, const char *target)
{
    static char path[64], text[REPLY_LOCATION_MAX + 16];
    size_t length = strlen(target);
    bool rest = length > 0 && target[length - 1] == '*';

    snprintf(path, sizeof(path), "%s", prefix);
    snprintf(text, sizeof(text), "%.*s", (int)(length - rest), target);
    return (struct config_redirect){.action = REDIRECT_TO,
                                    .status = 308,
                                    .path = path,
                                    .below = true,
                                    .target = text,
                                    .rest = rest};
}

static void directory_leads_to_its_path_with_a_slash(void **state)
{
    (void)state;
    request(NULL, "", "/a b/ü", NULL, 301);
    assert_string_equal(location, "/a%20b/%C3%BC/");
    assert_string_equal(note_path, "/a b/ü");
    request(NULL, "", "/a", "x=%41&y=\"", 301);
    assert_string_equal(location, "/a/?x=%41&y=%22");
    request(NULL, "", "/a", "", 301);
    assert_string_equal(location, "/a/?");
}

static void note_has_a_link(void **state)
{
    const struct config_redirect rule = rule_to("/old/", "/new?a&b");

    (void)state;
    request(&rule, "", "/old/x", NULL, 308);
    assert_string_equal(
        body, "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">"
              "<title>308 Permanent Redirect</title></head>\n<body><h1>308 Permanent Redirect</h1>"
              "<p><a href=\"/new?a&amp;b\">The new URL</a></p></body>\n</html>\n");
    request(NULL, "", "/a", NULL, 301);
    assert_non_null(strstr(body, "<h1>301 Moved Permanently</h1>"
                                 "<p><a href=\"/a/\">The directory</a></p>"));
}

/* The query is the client's. */
static void note_of_a_long_location_has_no_link(void **state)
{
    static char query[NOTE_LOCATION_MAX];

    (void)state;
    memset(query, 'q', sizeof(query) - 1);
    query[NOTE_LOCATION_MAX - strlen("/a/?")] = '\0';
    request(NULL, "", "/a", query, 301);
    assert_int_equal(strlen(location), NOTE_LOCATION_MAX);
    assert_non_null(strstr(body, "<a href="));
    request(NULL, "", "/ab", query, 301);
    assert_int_equal(strlen(location), NOTE_LOCATION_MAX + 1);
    assert_null(strstr(body, "href"));
    assert_non_null(strstr(body, "<h1>301 Moved Permanently</h1></body>"));
}

static void rule_may_keep_the_rest_of_the_path(void **state)
{
    struct config_redirect rule = rule_to("/blog/", "https://blog.example/*");

    (void)state;
    request(&rule, "x", "/blog/a b/c", NULL, 308);
    assert_string_equal(location, "https://blog.example/a%20b/c");
    rule = rule_to("/blog/", "https://blog.example/");
    request(&rule, "x", "/blog/a", NULL, 308);
    assert_string_equal(location, "https://blog.example/");
}

static void query_is_kept_unless_the_target_has_one(void **state)
{
    struct config_redirect rule = rule_to("/old/", "/new");

    (void)state;
    request(&rule, "", "/old/", "q=1", 308);
    assert_string_equal(location, "/new?q=1");
    rule = rule_to("/old/", "/new?mine");
    request(&rule, "", "/old/", "q=1", 308);
    assert_string_equal(location, "/new?mine");
}

static void https_keeps_host_and_path_without_the_port(void **state)
{
    const struct config_redirect rule = rule_to("/", "https:");

    (void)state;
    request(&rule, "a.example:8080", "/x y", "q", 308);
    assert_string_equal(location, "https://a.example/x%20y?q");
    request(&rule, "[::1]", "/", NULL, 308);
    assert_string_equal(location, "https://[::1]/");
    request(&rule, "[::1]:8080", "/", NULL, 308);
    assert_string_equal(location, "https://[::1]/");
    request(&rule, "a", "/", NULL, 308);
    assert_string_equal(location, "https://a/");
    request(&rule, "", "/", NULL, 400); /* there is no URL */
}

static void rule_may_be_a_status(void **state)
{
    static char path[] = "/gone/";
    const struct config_redirect rule = {.action = REDIRECT_STATUS, .status = 410, .path = path};

    (void)state;
    request(&rule, "a", "/gone/x", NULL, 410);
}

static void location_that_is_too_long_is_414(void **state)
{
    static char target[REPLY_LOCATION_MAX + 3], query[REPLY_LOCATION_MAX + 3];
    struct config_redirect rule;

    (void)state;
    memset(target, 't', sizeof(target) - 1);
    target[0] = '/';
    target[REPLY_LOCATION_MAX] = '*';
    target[REPLY_LOCATION_MAX + 1] = '\0';
    rule = rule_to("/a/", target);
    request(&rule, "", "/a/", NULL, 308);
    assert_int_equal(strlen(location), REPLY_LOCATION_MAX);
    request(&rule, "", "/a/x", NULL, 414);
    request(&rule, "", "/a/", "", 414);
    target[REPLY_LOCATION_MAX] = 't';
    rule = rule_to("/a/", target);
    request(&rule, "", "/a/", NULL, 414);
    request(&rule, "", "/a/x", NULL, 414);

    memset(query, 'q', sizeof(query) - 1);
    query[REPLY_LOCATION_MAX - strlen("/a/?")] = '\0';
    request(NULL, "", "/a", query, 301);
    assert_int_equal(strlen(location), REPLY_LOCATION_MAX);
    request(NULL, "", "/ab", query, 414);

    /* The question mark is the last byte that fits. */
    target[REPLY_LOCATION_MAX - 1] = '\0';
    rule = rule_to("/a/", target);
    request(&rule, "", "/a/", "", 308);
    assert_int_equal(strlen(location), REPLY_LOCATION_MAX);
    request(&rule, "", "/a/", "q", 414);
}

static void response_without_memory_is_503_and_makes_room(void **state)
{
    const struct config_redirect rule = rule_to("/old/", "/new");

    (void)state;
    request(&rule, "", "/old/", NULL, 308);
    assert_int_equal(made_room, 0);
    no_page = true;
    request(&rule, "", "/old/", NULL, 503);
    assert_int_equal(made_room, 1);
    no_stream = true;
    no_page = false;
    request(NULL, "", "/a", NULL, 503);
    assert_int_equal(made_room, 2);
}

#define TEST(name) cmocka_unit_test_setup(name, begin)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(directory_leads_to_its_path_with_a_slash),
        TEST(note_has_a_link),
        TEST(note_of_a_long_location_has_no_link),
        TEST(rule_may_keep_the_rest_of_the_path),
        TEST(query_is_kept_unless_the_target_has_one),
        TEST(https_keeps_host_and_path_without_the_port),
        TEST(rule_may_be_a_status),
        TEST(location_that_is_too_long_is_414),
        TEST(response_without_memory_is_503_and_makes_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
