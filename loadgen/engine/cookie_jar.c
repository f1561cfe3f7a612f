#include "loadgen/engine/cookie_jar.h"

#include "common/span.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cookie {
    char *pair; /* "name=value" */
    size_t name_length;
    char *path;
    uint32_t origin;
    bool secure;
    time_t expires; /* 0: never */
};

/* ---- Parts of texts ---- */

/*
 * Cuts TEXT at the first C. Returns the part before it, trimmed; *text is then the part behind it,
 * or empty.
 */
static struct span cut_blanks(struct span *text, char c)
{
    const char *at = text->length > 0 ? memchr(text->start, c, text->length) : NULL;
    struct span before = *text;

    *text = (struct span){text->start + text->length, 0};
    if (at != NULL) {
        before.length = (size_t)(at - before.start);
        *text = (struct span){at + 1, (size_t)(text->start - at) - 1};
    }
    return span_trim(before);
}

/* The path of the request's URL, without the query. */
static struct span path_of(const struct request *request)
{
    const char *path = request->target.text + strcspn(request->target.text, ":") + strlen("://");

    path += strcspn(path, "/?");
    return (struct span){path, strcspn(path, "?")};
}

/* The directory of the request's path (RFC 6265 section 5.1.4). */
static struct span default_path(const struct request *request)
{
    struct span path = path_of(request);

    while (path.length > 0 && path.start[path.length - 1] != '/')
        path.length--;
    return path.length > 1 ? (struct span){path.start, path.length - 1} : SPAN("/");
}

static bool path_matches(struct span path, const char *prefix)
{
    size_t length = strlen(prefix);

    return path.length >= length && memcmp(path.start, prefix, length) == 0 &&
           (path.length == length || prefix[length - 1] == '/' || path.start[length] == '/');
}

/* ---- Set-Cookie ---- */

/* Seconds as in Max-Age; at most 400 days, less than any overflow. */
static time_t read_age(struct span value, time_t now)
{
    enum { AGE_MAX_S = 400 * 24 * 3600 };
    time_t age = 0;

    if (value.length == 0 || value.start[0] == '-')
        return 1; /* long past */
    for (size_t i = 0; i < value.length; i++) {
        if (value.start[i] < '0' || value.start[i] > '9')
            return 0;
        age = age * 10 + (value.start[i] - '0');
        age = age < AGE_MAX_S ? age : AGE_MAX_S;
    }
    return age > 0 ? now + age : 1;
}

static time_t read_date(struct span value)
{
    char text[64];
    time_t seconds;

    if (value.length >= sizeof(text))
        return 0;
    memcpy(text, value.start, value.length);
    text[value.length] = '\0';
    seconds = curl_getdate(text, NULL);
    return seconds < 0 ? 0 : seconds > 0 ? seconds : 1;
}

/* The attributes of a cookie. */
struct attributes {
    struct span path;
    bool secure, has_age;
    time_t expires;
};

static void read_attribute(struct attributes *attributes, struct span text, time_t now)
{
    struct span name = cut_blanks(&text, '='), value = span_trim(text);

    if (span_is_nocase(name, SPAN("Path")) && value.length > 0 && value.start[0] == '/')
        attributes->path = value;
    else if (span_is_nocase(name, SPAN("Secure")))
        attributes->secure = true;
    else if (span_is_nocase(name, SPAN("Max-Age"))) {
        time_t expires = read_age(value, now);

        attributes->has_age = expires != 0;
        attributes->expires = expires != 0 ? expires : attributes->expires;
    } else if (span_is_nocase(name, SPAN("Expires")) && !attributes->has_age)
        attributes->expires = read_date(value);
}

/* ---- The jar ---- */

static void remove_cookie(struct cookie_jar *jar, size_t i)
{
    free(jar->cookies[i].pair);
    free(jar->cookies[i].path);
    memmove(&jar->cookies[i], &jar->cookies[i + 1], (--jar->count - i) * sizeof(*jar->cookies));
}

/* Removes the cookie with this name, path and origin, and those that have expired. */
static void remove_old(struct cookie_jar *jar, struct span name, struct span path, uint32_t origin,
                       time_t now)
{
    for (size_t i = jar->count; i-- > 0;) {
        const struct cookie *cookie = &jar->cookies[i];
        bool same = cookie->origin == origin && cookie->name_length == name.length &&
                    memcmp(cookie->pair, name.start, name.length) == 0 &&
                    strlen(cookie->path) == path.length &&
                    memcmp(cookie->path, path.start, path.length) == 0;

        if (same || (cookie->expires != 0 && cookie->expires <= now))
            remove_cookie(jar, i);
    }
}

static void add_cookie(struct cookie_jar *jar, struct span name, struct span value,
                       const struct attributes *attributes, uint32_t origin)
{
    struct cookie *cookie;

    if (jar->cookies == NULL)
        jar->cookies = calloc(COOKIE_JAR_COOKIES_MAX, sizeof(*jar->cookies));
    if (jar->cookies == NULL || jar->count == COOKIE_JAR_COOKIES_MAX ||
        name.length + value.length + attributes->path.length > COOKIE_JAR_COOKIE_BYTES_MAX)
        return;
    cookie = &jar->cookies[jar->count++];
    *cookie = (struct cookie){
        .pair = malloc(name.length + value.length + 2),
        .name_length = name.length,
        .path = strndup(attributes->path.start, attributes->path.length),
        .origin = origin,
        .secure = attributes->secure,
        .expires = attributes->expires,
    };
    if (cookie->pair == NULL || cookie->path == NULL) {
        remove_cookie(jar, jar->count - 1);
        return;
    }
    snprintf(cookie->pair, name.length + value.length + 2, "%.*s=%.*s", (int)name.length,
             name.start, (int)value.length, value.start);
}

void cookie_jar_store(struct cookie_jar *jar, const struct request *request, const char *value,
                      size_t length, time_t now)
{
    struct span rest = {value, length}, pair = cut_blanks(&rest, ';');
    struct attributes attributes = {.path = default_path(request)};
    bool has_name = pair.length > 0 && memchr(pair.start, '=', pair.length) != NULL;
    struct span name = cut_blanks(&pair, '=');

    pair = span_trim(pair);
    if (!has_name || name.length == 0)
        return;
    while (rest.length > 0)
        read_attribute(&attributes, cut_blanks(&rest, ';'), now);
    remove_old(jar, name, attributes.path, request->origin, now);
    if (attributes.expires == 0 || attributes.expires > now)
        add_cookie(jar, name, pair, &attributes, request->origin);
}

static bool is_for(const struct cookie *cookie, const struct request *request, time_t now)
{
    return cookie->origin == request->origin && (!cookie->secure || request->target.tls) &&
           (cookie->expires == 0 || cookie->expires > now) &&
           path_matches(path_of(request), cookie->path);
}

char *cookie_jar_value(struct cookie_jar *jar, const struct request *request, time_t now)
{
    size_t size = 1;
    char *value, *at;

    for (size_t i = 0; i < jar->count; i++)
        if (is_for(&jar->cookies[i], request, now))
            size += strlen(jar->cookies[i].pair) + strlen("; ");
    value = size > 1 ? malloc(size) : NULL;
    if (value == NULL)
        return NULL;
    at = value;
    for (size_t i = 0; i < jar->count; i++)
        if (is_for(&jar->cookies[i], request, now))
            at += sprintf(at, "%s%s", at > value ? "; " : "", jar->cookies[i].pair);
    return value;
}

void cookie_jar_free(struct cookie_jar *jar)
{
    while (jar->count > 0)
        remove_cookie(jar, jar->count - 1);
    free(jar->cookies);
    *jar = (struct cookie_jar){0};
}
