#include "daemon/http/request.h"

#include "common/macros.h"
#include "daemon/http/syntax.h"
#include "daemon/http/target.h"

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
static const char *end_of_field_line(const char *at, const char *end)
{
    return (const char *)memchr(at, '\r', (size_t)(end - at)) + 2;
}

bool request_next_value(const struct request *request, enum request_field field, const char **at,
                        struct span *value)
{
    struct span name, first = first_value(request, field, &name);
    bool others = (request->repeated & field) != 0;
    const char *end;

    if ((request->present & field) == 0)
        return false;
    if (request->fields.start != NULL) {
        end = request->fields.start + request->fields.length;
    } else { /* rejected before the end of its fields */
        end = first.start + first.length;
        others = false;
    }
    if (*at == NULL) {
        *value = first;
        *at = others ? end_of_field_line(first.start, end) : end;
        return true;
    }
    while (*at < end) {
        const char *line = *at;
        const char *colon = memchr(line, ':', (size_t)(end - line));

        *at = end_of_field_line(line, end);
        if (span_is_nocase((struct span){line, (size_t)(colon - line)}, name)) {
            *value = span_trim((struct span){colon + 1, (size_t)(*at - 2 - (colon + 1))});
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
        const char *next = end_of_field_line(line, end);
        bool found = (size_t)(next - line) > name.length && line[name.length] == ':' &&
                     strncasecmp(line, name.start, name.length) == 0;

        if (found) {
            *value = span_trim(span_between(line + name.length + 1, next - 2));
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
        if (span_is(name, span_of(registered_names[i])))
            return METHOD_REGISTERED;
    return METHOD_UNKNOWN;
}

/* Parsing fields */

/* Removes the first element of a comma-separated list. Returns false if the list is empty. */
static bool list_next(struct span *list, struct span *element)
{
    const char *end, *comma;

    if (list->start == NULL)
        return false;
    end = list->start + list->length;
    comma = memchr(list->start, ',', list->length);
    *element = span_trim(span_between(list->start, comma != NULL ? comma : end));
    *list = comma != NULL ? span_between(comma + 1, end) : (struct span){NULL, 0};
    return true;
}

/* Records that a field occurred. Returns false if it is repeated. */
static bool first_time(struct head *head, unsigned bit)
{
    bool first = (head->seen & bit) == 0;

    head->seen |= bit;
    return first;
}

int request_field_host(struct head *head, struct span value)
{
    const char *end = value.start + value.length;
    const char *word_end;

    if (!first_time(head, SEEN_HOST))
        return 400;
    head->request->host = value;
    word_end = scan_past_word(head->start, value.start, end);
    if (word_end == end)
        return GOOD;
    if (LIKELY(word_end != value.start && *word_end == ':'))
        return authority_port_valid(word_end + 1, end) ? GOOD : 400;
    return authority_valid(value, false) ? GOOD : 400;
}

int request_field_content_length(struct head *head, struct span value)
{
    uint64_t number = 0;

    if (!first_time(head, SEEN_CONTENT_LENGTH) || value.length == 0)
        return 400;
    for (size_t i = 0; i < value.length; i++) {
        if (!is_digit(value.start[i]) || number > (uint64_t)INT64_MAX / 10)
            return 400;
        number = number * 10 + (uint64_t)(value.start[i] - '0');
        if (number > (uint64_t)INT64_MAX)
            return 400;
    }
    head->request->content_length = number;
    return GOOD;
}

/* Adds one transfer coding: a token, optionally with parameters after a ';'. */
static int add_transfer_coding(struct head *head, struct span coding)
{
    const char *end = coding.start + coding.length;
    const char *name_end = skip_token(head->start, coding.start, end);
    struct span rest = span_trim(span_between(name_end, end));

    if (name_end == coding.start || head->request->chunked)
        return 400;
    if (rest.length != 0 && rest.start[0] != ';')
        return 400;
    if (!span_is_nocase(span_between(coding.start, name_end), SPAN("chunked"))) {
        head->unknown_coding = true;
        return GOOD;
    }
    head->request->chunked = true;
    return rest.length == 0 ? GOOD : 400;
}

int request_field_transfer_encoding(struct head *head, struct span value)
{
    struct span coding;
    int status = GOOD;

    head->seen |= SEEN_TRANSFER_ENCODING;
    if (head->request->minor_version == 0)
        return 400;
    while (status == GOOD && list_next(&value, &coding))
        status = add_transfer_coding(head, coding);
    return status;
}

static int parse_connection_options(struct head *head, struct span value)
{
    struct span option;

    while (list_next(&value, &option)) {
        if (span_is_nocase(option, SPAN("close")))
            head->close = true;
        else if (span_is_nocase(option, SPAN("keep-alive")))
            head->keep_alive = true;
    }
    return GOOD;
}

/* The value is nearly always "keep-alive". */
int request_field_connection(struct head *head, struct span value)
{
    if (value.length != 10 || !NAME_IS(value, "keep-alive"))
        return parse_connection_options(head, value);
    head->keep_alive = true;
    return GOOD;
}

int request_field_expect(struct head *head, struct span value)
{
    struct span expectation;

    while (list_next(&value, &expectation)) {
        if (span_is_nocase(expectation, SPAN("100-continue")))
            head->request->expect_continue = true;
        else if (expectation.length != 0)
            return 417;
    }
    return GOOD;
}

static int store_first(struct span *field, struct span value)
{
    if (field->start == NULL)
        *field = value;
    return GOOD;
}

int request_field_referer(struct head *head, struct span value)
{
    return store_first(&head->request->referer, value);
}

int request_field_user_agent(struct head *head, struct span value)
{
    return store_first(&head->request->user_agent, value);
}

/* Fields with an enum request_field bit */

static int store_field(struct request *request, enum request_field bit, struct span *field,
                       struct span value)
{
    if ((request->present & bit) != 0) {
        request->repeated |= (uint8_t)bit;
        return GOOD;
    }
    request->present |= (uint8_t)bit;
    *field = value;
    return GOOD;
}

int request_field_accept(struct head *head, struct span value)
{
    return store_field(head->request, REQUEST_ACCEPT, &head->request->accept, value);
}

int request_field_accept_encoding(struct head *head, struct span value)
{
    return store_field(head->request, REQUEST_ACCEPT_ENCODING, &head->request->accept_encoding,
                       value);
}

int request_field_if_match(struct head *head, struct span value)
{
    return store_field(head->request, REQUEST_IF_MATCH, &head->request->if_match, value);
}

int request_field_if_none_match(struct head *head, struct span value)
{
    return store_field(head->request, REQUEST_IF_NONE_MATCH, &head->request->if_none_match, value);
}

int request_field_if_modified_since(struct head *head, struct span value)
{
    return store_field(head->request, REQUEST_IF_MODIFIED_SINCE, &head->request->if_modified_since,
                       value);
}

int request_field_if_unmodified_since(struct head *head, struct span value)
{
    return store_field(head->request, REQUEST_IF_UNMODIFIED_SINCE,
                       &head->request->if_unmodified_since, value);
}

int request_field_if_range(struct head *head, struct span value)
{
    return store_field(head->request, REQUEST_IF_RANGE, &head->request->if_range, value);
}

int request_field_range(struct head *head, struct span value)
{
    return store_field(head->request, REQUEST_RANGE, &head->request->range, value);
}
