#include "daemon/http/request.h"

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
