#include "daemon/http2/priority.h"

static const struct http2_priority default_priority = {URGENCY_DEFAULT, false};

static bool is_key_byte(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') || byte == '_' ||
           byte == '-' || byte == '.' || byte == '*';
}

static const char *skip_spaces(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    return at;
}

/* The end of a value with its parameters: the next comma outside of strings and inner lists. */
static const char *skip_value(const char *at, const char *end)
{
    bool quoted = false;
    int depth = 0;

    for (; at < end && (quoted || depth > 0 || *at != ','); at++) {
        if (quoted && *at == '\\' && at + 1 < end)
            at++;
        else if (*at == '"')
            quoted = !quoted;
        else if (!quoted && *at == '(')
            depth++;
        else if (!quoted && *at == ')')
            depth--;
    }
    return at;
}

/* VALUE without its parameters and the white space after it. */
static struct span bare_item(struct span value)
{
    const char *parameters = memchr(value.start, ';', value.length);

    if (parameters != NULL)
        value.length = (size_t)(parameters - value.start);
    while (value.length > 0 &&
           (value.start[value.length - 1] == ' ' || value.start[value.length - 1] == '\t'))
        value.length--;
    return value;
}

/* VALUE has start NULL if the member consists of its key, which means true. */
static void set_member(struct http2_priority *priority, struct span key, struct span value)
{
    struct span item = value.start != NULL ? bare_item(value) : SPAN("?1");

    if (span_is(key, SPAN("u")) && item.length == 1 && item.start[0] >= '0' && item.start[0] <= '7')
        priority->urgency = (uint8_t)(item.start[0] - '0');
    else if (span_is(key, SPAN("i")) && (span_is(item, SPAN("?0")) || span_is(item, SPAN("?1"))))
        priority->incremental = item.start[1] == '1';
}

struct http2_priority http2_priority_read(struct span field)
{
    struct http2_priority priority = default_priority;
    const char *end = field.start + field.length, *at = skip_spaces(field.start, end);

    while (at < end) {
        struct span key = {at, 0}, value = {NULL, 0};

        while (at < end && is_key_byte(*at))
            at++;
        key.length = (size_t)(at - key.start);
        if (key.length == 0 || (*key.start >= '0' && *key.start <= '9'))
            return default_priority;
        if (at < end && *at == '=') {
            value.start = ++at;
            at = skip_value(at, end);
            value.length = (size_t)(at - value.start);
        } else if (at < end && *at == ';') {
            at = skip_value(at, end);
        }
        set_member(&priority, key, value);
        at = skip_spaces(at, end);
        if (at == end)
            break;
        at = *at == ',' ? skip_spaces(at + 1, end) : end;
        if (at == end)
            return default_priority; /* no comma between two members, or one after the last */
    }
    return priority;
}
