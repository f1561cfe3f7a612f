/* Request targets and the resulting paths, as a table. integration/rfc/target.def has those that are rejected. */
#include "common/macros.h"
#include "daemon/http/target.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct target_case {
    const char *rule;
    struct span text;
    const char *path; /* NULL: rejected with 400 */
    const char *query;
};

#define BECOMES(rule, text, path)                                                                  \
    {                                                                                              \
        rule, {text, sizeof(text) - 1}, path, NULL                                                 \
    }
#define WITH_QUERY(rule, text, path, query)                                                        \
    {                                                                                              \
        rule, {text, sizeof(text) - 1}, path, query                                                \
    }
#define REJECTED(rule, text)                                                                       \
    {                                                                                              \
        rule, {text, sizeof(text) - 1}, NULL, NULL                                                 \
    }

static const struct target_case cases[] = {
    BECOMES("root", "/", "/"),
    BECOMES("plain", "/a", "/a"),
    BECOMES("plain", "/a/b.html", "/a/b.html"),
    BECOMES("directory", "/a/b/", "/a/b/"),
    BECOMES("case is kept", "/A/bC", "/A/bC"),
    BECOMES("3986 3.3 marks", "/-._~!$&'()*+,;=:@", "/-._~!$&'()*+,;=:@"),
    BECOMES("others that browsers send raw", "/[]^|", "/[]^|"),
    WITH_QUERY("others in a query", "/a?\"<>[]^`{|}", "/a", "\"<>[]^`{|}"),
    WITH_QUERY("3986 3.4", "/a?b=c", "/a", "b=c"),
    WITH_QUERY("3986 3.4 empty", "/a?", "/a", ""),
    WITH_QUERY("3986 3.4 of the root", "/?b", "/", "b"),
    WITH_QUERY("3986 3.4 the first ?", "/a?b?c", "/a", "b?c"),
    WITH_QUERY("not decoded", "/%61?%61%00%zz%", "/a", "%61%00%zz%"),
    WITH_QUERY("not normalised", "/a/../b?/../../c//d", "/b", "/../../c//d"),
    WITH_QUERY("backslash in a query", "/a?b\\c", "/a", "b\\c"),
    WITH_QUERY("raw bytes in a query", "/a?\xff", "/a", "\xff"),
    BECOMES("3986 2.1", "/%61", "/a"),
    BECOMES("3986 2.1 letter case", "/%4a%4A", "/JJ"),
    BECOMES("3986 2.1 space", "/a%20b", "/a b"),
    BECOMES("decoded once", "/%2561", "/%61"),
    BECOMES("decoded once", "/%252e%252e/a", "/%2e%2e/a"),
    BECOMES("decoded once", "/a%25", "/a%"),
    BECOMES("encoded delimiters are ordinary", "/a%3Fb%23c", "/a?b#c"),
    BECOMES("+ is not a space", "/a+b", "/a+b"),
    BECOMES("UTF-8", "/%C3%A4", "/\xc3\xa4"),
    BECOMES("UTF-8 raw", "/\xc3\xa4", "/\xc3\xa4"),
    BECOMES("UTF-8 of three and four", "/%E2%82%AC%F0%9F%98%80", "/\xe2\x82\xac\xf0\x9f\x98\x80"),
    BECOMES("UTF-8 that begins with e0, f0", "/\xe0\xa0\x80\xf0\x90\x80\x80",
            "/\xe0\xa0\x80\xf0\x90\x80\x80"),
    BECOMES("Latin-1", "/%E4%FF", "/\xe4\xff"),
    BECOMES("Latin-1 that looks like a lead byte", "/%C0bc%C1",
            "/\xc0"
            "bc\xc1"),
    BECOMES("overlong, but not of ASCII", "/%E0%82%80", "/\xe0\x82\x80"),
    BECOMES("3986 5.2.4 .", "/./a", "/a"),
    BECOMES("3986 5.2.4 .", "/a/./b", "/a/b"),
    BECOMES("3986 5.2.4 . last", "/a/.", "/a/"),
    BECOMES("3986 5.2.4 . alone", "/.", "/"),
    BECOMES("3986 5.2.4 ..", "/a/../b", "/b"),
    BECOMES("3986 5.2.4 ..", "/a/b/../c", "/a/c"),
    BECOMES("3986 5.2.4 .. last", "/a/b/..", "/a/"),
    BECOMES("3986 5.2.4 .. last", "/a/..", "/"),
    BECOMES("3986 5.2.4 .. directory", "/a/b/../", "/a/"),
    BECOMES("3986 5.2.4 the example", "/a/b/c/./../../g", "/a/g"),
    BECOMES("3986 6.2.2.2 encoded dots", "/a/%2e%2E/b", "/b"),
    BECOMES("3986 6.2.2.2 encoded dots", "/a/.%2e/b/%2e/c", "/b/c"),
    BECOMES("empty segments", "//", "/"),
    BECOMES("empty segments", "//a", "/a"),
    BECOMES("empty segments", "/a//b///c", "/a/b/c"),
    BECOMES("empty segments", "/a//", "/a/"),
    BECOMES(".. after an empty segment", "/a//../b", "/b"),
    BECOMES(".. after a directory", "/a/b//../c", "/a/c"),
    BECOMES("names of dots", "/...", "/..."),
    BECOMES("names with dots", "/.a/b./..c/d..", "/.a/b./..c/d.."),
    BECOMES("names with dots", "/a/.../b", "/a/.../b"),
    BECOMES("dots at the end of a normalised path", "/x/../.a", "/.a"),
    BECOMES("9112 3.2.2", "http://host/a", "/a"),
    BECOMES("9112 3.2.2", "HTTP://host:80/a/../b", "/b"),
    BECOMES("9112 3.2.2 no path", "http://host", "/"),
    BECOMES("9112 3.2.2 IPv6", "http://[::1]:8/a/", "/a/"),
    WITH_QUERY("9112 3.2.2 no path", "http://host?q/r", "/", "q/r"),
    WITH_QUERY("9112 3.2.2", "http://host/?q", "/", "q"),
    BECOMES("9112 3.2.2 in a path", "/http://host/a", "/http:/host/a"),

    /* Bytes that the request parser does not let through */
    REJECTED("empty", ""),
    REJECTED("NUL", "/a\0b"),
    REJECTED("NUL in the query", "/a?\0"),
    REJECTED("control", "/a\x7f"),
    REJECTED("control in the query", "/a?\x1b"),
    REJECTED("control after a host", "http://host\x01/a"),
    REJECTED("space", "/a b"),
    REJECTED("space in the query", "/a?b c"),
};

/* A copy of exactly its size, so that a sanitizer detects reads past the end. */
static int canonical(struct span text, struct target *target)
{
    char *copy = malloc(text.length > 0 ? text.length : 1);
    int status;

    assert_non_null(copy);
    memcpy(copy, text.start, text.length);
    memset(target, 0xa5, sizeof(*target));
    status = target_canonical((struct span){copy, text.length}, target);
    if (status == 0 && target->query.start != NULL)
        target->query.start = text.start + (target->query.start - copy);
    free(copy);
    return status;
}

static void check_query(const struct target_case *c, struct span query)
{
    if (c->query == NULL) {
        assert_null(query.start);
        assert_int_equal(query.length, 0);
        return;
    }
    if (query.start == NULL || query.length != strlen(c->query) ||
        memcmp(query.start, c->query, query.length) != 0)
        fail_msg("%s: query '%.*s' instead of '%s'", c->rule, (int)query.length, query.start,
                 c->query);
    assert_ptr_equal(query.start + query.length, c->text.start + c->text.length);
}

TEST(targets_are_decoded_and_normalised)
{
    static struct target target;

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        const struct target_case *c = &cases[i];
        int status = canonical(c->text, &target);

        if (status != (c->path != NULL ? 0 : 400))
            fail_msg("%s: %d for %s", c->rule, status, c->text.start);
        if (c->path == NULL)
            continue;
        if (strcmp(target.path, c->path) != 0 || target.length != strlen(c->path))
            fail_msg("%s: '%s' instead of '%s' for %s", c->rule, target.path, c->path,
                     c->text.start);
        assert_int_equal(target.directory, c->path[strlen(c->path) - 1] == '/');
        check_query(c, target.query);
    }
}

/* LENGTH bytes: BEGINNING, then "/aaa…". */
static struct span long_text(char *bytes, const char *beginning, size_t length)
{
    size_t used = strlen(beginning);

    memcpy(bytes, beginning, used);
    bytes[used] = '/';
    memset(bytes + used + 1, 'a', length - 1);
    return (struct span){bytes, used + length};
}

TEST(path_over_limit_is_404)
{
    static const char *const beginnings[] = {"", "//", "/./b/..", "http://host"};
    static struct target target;
    static char bytes[2 * TARGET_PATH_MAX];

    for (size_t i = 0; i < ARRAY_LENGTH(beginnings); i++) {
        assert_int_equal(canonical(long_text(bytes, beginnings[i], TARGET_PATH_MAX - 1), &target),
                         0);
        assert_int_equal(target.length, TARGET_PATH_MAX - 1);
        assert_int_equal(strlen(target.path), TARGET_PATH_MAX - 1);
        assert_int_equal(canonical(long_text(bytes, beginnings[i], TARGET_PATH_MAX), &target), 404);
    }
}

TEST(limit_counts_decoded_bytes)
{
    static struct target target;
    static char bytes[3 * TARGET_PATH_MAX];
    size_t length = 1;

    bytes[0] = '/';
    for (; length < 3 * (TARGET_PATH_MAX - 2); length += 3)
        memcpy(bytes + length, "%61", 3);
    assert_int_equal(canonical((struct span){bytes, length}, &target), 0);
    assert_int_equal(target.length, TARGET_PATH_MAX - 1);
    memcpy(bytes + length, "%61", 3);
    assert_int_equal(canonical((struct span){bytes, length + 3}, &target), 404);
}

TEST(query_has_no_limit)
{
    static struct target target;
    static char bytes[4 * TARGET_PATH_MAX];

    memset(bytes, 'q', sizeof(bytes));
    memcpy(bytes, "/a?", 3);
    assert_int_equal(canonical((struct span){bytes, sizeof(bytes)}, &target), 0);
    assert_string_equal(target.path, "/a");
    assert_int_equal(target.query.length, sizeof(bytes) - 3);
}
