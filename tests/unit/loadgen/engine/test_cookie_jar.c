/* Which cookies are stored, and to which requests they are sent. */
#include "common/macros.h"
#include "loadgen/engine/cookie_jar.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NOW = 1795266000 }; /* 2026-11-21 13:00:00 UTC */

static struct cookie_jar jar;
static char url[64];

static struct request request_for(const char *path, bool tls, uint32_t origin)
{
    snprintf(url, sizeof(url), "%s://a.test:81%s", tls ? "https" : "http", path);
    return (struct request){.target = {.text = url, .tls = tls}, .origin = origin};
}

static void store(const char *path, const char *value)
{
    const struct request request = request_for(path, false, 0);

    cookie_jar_store(&jar, &request, value, strlen(value), NOW);
}

/* Checks the Cookie field for PATH at NOW + LATER; "" is none. */
static void expect(const char *path, bool tls, uint32_t origin, int later, const char *expected)
{
    const struct request request = request_for(path, tls, origin);
    char *value = cookie_jar_value(&jar, &request, NOW + later);

    assert_string_equal(value != NULL ? value : "", expected);
    free(value);
}

static const struct {
    const char *from, *value; /* path of the request, Set-Cookie field */
    const char *path;         /* of the next request */
    const char *cookie;       /* "" is none */
} cases[] = {
    {"/", "a=b", "/x/y", "a=b"},
    {"/", " a = b c ; HttpOnly; SameSite=Lax", "/", "a=b c"},
    {"/", "a=", "/", "a="},
    {"/", "a=b=c", "/", "a=b=c"},
    {"/", "a=\"b\"", "/", "a=\"b\""},
    {"/", "a", "/", ""},
    {"/", "=b", "/", ""},
    {"/", "", "/", ""},
    {"/", ";;", "/", ""},
    {"/x/y", "a=b", "/x/z", "a=b"},
    {"/x/y", "a=b", "/x", "a=b"},
    {"/x/y", "a=b", "/xy", ""},
    {"/x/y?p=/q/", "a=b", "/", ""},
    {"/x/y", "a=b; Path=/", "/", "a=b"},
    {"/x", "a=b; path = /deep/", "/deep/1?x", "a=b"},
    {"/x", "a=b; Path=/deep", "/deeper", ""},
    {"/x", "a=b; Path=relative", "/", "a=b"},
    {"/", "a=b; Secure", "/", ""},
    {"/", "a=b; Max-Age=0", "/", ""},
    {"/", "a=b; Max-Age=-5", "/", ""},
    {"/", "a=b; Max-Age=x", "/", "a=b"},
    {"/", "a=b; Max-Age=99999999999999999999", "/", "a=b"},
    {"/", "a=b; Max-Age=5; Expires=Thu, 01 Jan 1970 00:00:00 GMT", "/", "a=b"},
    {"/", "a=b; Expires=Thu, 01 Jan 1970 00:00:00 GMT; Max-Age=5", "/", "a=b"},
    {"/", "a=b; Expires=Thu, 01 Jan 1970 00:00:00 GMT", "/", ""},
    {"/", "a=b; Expires=Thu, 01-Jan-2099 00:00:00 GMT", "/", "a=b"},
    {"/", "a=b; Expires=soon", "/", "a=b"},
    {"/", "a=b; Domain=elsewhere.test", "/", "a=b"},
};

TEST(cookie_is_sent_by_its_attributes)
{
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        const struct request request = request_for(cases[i].path, false, 0);
        char *value;

        store(cases[i].from, cases[i].value);
        snprintf(url, sizeof(url), "http://a.test:81%s", cases[i].path);
        value = cookie_jar_value(&jar, &request, NOW);
        if (strcmp(value != NULL ? value : "", cases[i].cookie) != 0)
            fail_msg("'%s' gave '%s'", cases[i].value, value != NULL ? value : "");
        free(value);
        cookie_jar_free(&jar);
    }
}

TEST(cookies_are_replaced_deleted_and_expire)
{
    store("/", "a=1");
    store("/", "b=1; Max-Age=10");
    store("/", "a=2");
    store("/x/", "a=3");
    expect("/", false, 0, 0, "b=1; a=2");
    expect("/x/", false, 0, 9, "b=1; a=2; a=3");
    expect("/x/", false, 0, 10, "a=2; a=3");
    store("/", "a=; Max-Age=0");
    expect("/x/", false, 0, 0, "b=1; a=3");
    expect("/x/", false, 1, 0, "");
    store("/", "s=1; Secure");
    expect("/", true, 0, 0, "b=1; s=1");
    expect("/", false, 0, 0, "b=1");
    cookie_jar_free(&jar);
    expect("/", false, 0, 0, "");
}

TEST(cookies_beyond_the_limits_are_ignored)
{
    char long_value[COOKIE_JAR_COOKIE_BYTES_MAX + 8];

    memset(long_value, 'x', sizeof(long_value));
    memcpy(long_value, "a=", 2);
    long_value[sizeof(long_value) - 1] = '\0';
    store("/", long_value);
    assert_int_equal(jar.count, 0);
    for (int i = 0; i < 2 * COOKIE_JAR_COOKIES_MAX; i++) {
        char value[32];

        snprintf(value, sizeof(value), "n%d=%d", i, i);
        store("/", value);
    }
    assert_int_equal(jar.count, COOKIE_JAR_COOKIES_MAX);
    cookie_jar_free(&jar);
}
