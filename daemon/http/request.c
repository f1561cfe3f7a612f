#include "daemon/http/request.h"

#include "common/macros.h"
#include "daemon/http/syntax.h"

/* Returns the value of the first line and stores the name of FIELD, in lower case. */
static struct span first_value(const struct request *request, enum request_field field,
                               struct span *name)
{
    switch (field) {
    case REQUEST_ACCEPT:
        *name = SPAN("accept");
        return request->accept;
    case REQUEST_ACCEPT_ENCODING:
        *name = SPAN("accept-encoding");
        return request->accept_encoding;
    case REQUEST_IF_MATCH:
        *name = SPAN("if-match");
        return request->if_match;
    case REQUEST_IF_NONE_MATCH:
        *name = SPAN("if-none-match");
        return request->if_none_match;
    case REQUEST_IF_MODIFIED_SINCE:
        *name = SPAN("if-modified-since");
        return request->if_modified_since;
    case REQUEST_IF_UNMODIFIED_SINCE:
        *name = SPAN("if-unmodified-since");
        return request->if_unmodified_since;
    case REQUEST_IF_RANGE:
        *name = SPAN("if-range");
        return request->if_range;
    case REQUEST_RANGE:
        *name = SPAN("range");
        return request->range;
    }
    *name = SPAN("");
    return *name;
}

/*
 * Returns the position after the CRLF of the field line at AT; the parser has checked that it
 * exists.
 */
static const char *next_line(const char *at, const char *end)
{
    return (const char *)memchr(at, '\r', (size_t)(end - at)) + 2;
}

bool request_next_value(const struct request *request, enum request_field field, const char **at,
                        struct span *value)
{
    const char *end = request->fields.start + request->fields.length;
    struct span name, first = first_value(request, field, &name);

    if ((request->present & field) == 0)
        return false;
    if (*at == NULL) {
        *value = first;
        *at = (request->repeated & field) != 0 ? next_line(first.start, end) : end;
        return true;
    }
    while (*at < end) {
        const char *line = *at;
        const char *colon = memchr(line, ':', (size_t)(end - line));

        *at = next_line(line, end);
        if (span_is_nocase((struct span){line, (size_t)(colon - line)}, name)) {
            *value = http_trim((struct span){colon + 1, (size_t)(*at - 2 - (colon + 1))});
            return true;
        }
    }
    return false;
}

bool request_next_line(const struct request *request, struct span name, const char **at,
                       struct span *value)
{
    const char *line = *at != NULL ? *at : request->fields.start, *end;

    if (line == NULL)
        return false;
    end = request->fields.start + request->fields.length;
    while (line < end) {
        const char *next = next_line(line, end);
        bool found = (size_t)(next - line) > name.length && line[name.length] == ':' &&
                     strncasecmp(line, name.start, name.length) == 0;

        if (found) {
            *value = http_trim(span_between(line + name.length + 1, next - 2));
            *at = next;
            return true;
        }
        line = next;
    }
    return false;
}

unsigned request_find_field(const struct request *request, struct span name, struct span *value)
{
    struct span one;
    const char *at = NULL;
    unsigned count = 0;

    while (request_next_line(request, name, &at, &one))
        if (count++ == 0)
            *value = one;
    return count;
}

/* Methods */

static const struct span method_names[METHOD_REGISTERED] = {
    [METHOD_GET] = {"GET", 3},         [METHOD_HEAD] = {"HEAD", 4},
    [METHOD_OPTIONS] = {"OPTIONS", 7}, [METHOD_POST] = {"POST", 4},
    [METHOD_PUT] = {"PUT", 3},         [METHOD_DELETE] = {"DELETE", 6},
    [METHOD_CONNECT] = {"CONNECT", 7}, [METHOD_TRACE] = {"TRACE", 5},
    [METHOD_PATCH] = {"PATCH", 5},
};

/* The other methods of IANA's registry, except PRI, which is not a method of HTTP/1. */
static const char *const registered_names[] = {
    "ACL",
    "BASELINE-CONTROL",
    "BIND",
    "CHECKIN",
    "CHECKOUT",
    "COPY",
    "LABEL",
    "LINK",
    "LOCK",
    "MERGE",
    "MKACTIVITY",
    "MKCALENDAR",
    "MKCOL",
    "MKREDIRECTREF",
    "MKWORKSPACE",
    "MOVE",
    "ORDERPATCH",
    "PROPFIND",
    "PROPPATCH",
    "QUERY",
    "REBIND",
    "REPORT",
    "SEARCH",
    "UNBIND",
    "UNCHECKOUT",
    "UNLINK",
    "UNLOCK",
    "UPDATE",
    "UPDATEREDIRECTREF",
    "VERSION-CONTROL",
};

enum http_method http_method_find(struct span name)
{
    for (int method = METHOD_GET; method < METHOD_REGISTERED; method++)
        if (span_is(name, method_names[method]))
            return (enum http_method)method;
    for (size_t i = 0; i < ARRAY_LENGTH(registered_names); i++)
        if (span_is(name, (struct span){registered_names[i], strlen(registered_names[i])}))
            return METHOD_REGISTERED;
    return METHOD_UNKNOWN;
}
