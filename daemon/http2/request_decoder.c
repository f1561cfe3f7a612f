/*
 *   input                                             result   reason (RFC and section)
 *   ------------------------------------------------  -------  ------------------------------------
 *   a name that is not a token, or with upper case        mal  9113 8.2.1
 *   a control byte other than HTAB in a value             mal  9113 8.2.1, 9110 5.5
 *   white space at the start or end of a value            mal  9113 8.2.1
 *   Connection, Keep-Alive, Proxy-Connection,             mal  9113 8.2.2
 *     Transfer-Encoding, Upgrade; TE but "trailers"
 *   a pseudo-header field twice, unknown, of a response,  mal  9113 8.3
 *     or after another field
 *   no :method, :scheme or :path; an empty one            mal  9113 8.3.1
 *   a :path without '/' at its start, but "*" of OPTIONS  mal  9113 8.3.1
 *   a :path with a space or control byte                  mal  9113 8.3.1
 *   CONNECT with :scheme or :path or without :authority   mal  9113 8.5
 *   neither :authority nor Host                           mal  9113 8.3.1
 *   :authority and Host differ                            mal  9113 8.3.1
 *   an :authority that is not host[:port]                 400  9110 4.2.4
 *   Content-Length above 0 without a body                 mal  9113 8.1.1
 *   pseudo-header fields in trailers                      mal  9113 8.1
 *   a method and :path above the limit of the line        414  9112 3
 *   fields above their limit or number; Cookie counts     431  6585 5, 9113 8.2.3
 *     once, in however many lines it comes
 *   anything else                                              as in HTTP/1, by the same handlers
 *
 * "mal" stands for malformed.
 */
#include "daemon/http2/request_decoder.h"

#include "common/macros.h"
#include "daemon/http/request.h"
#include "daemon/http/target.h"

enum { FIELD_OVERHEAD = 32 };

enum pseudo { PSEUDO_METHOD, PSEUDO_SCHEME, PSEUDO_AUTHORITY, PSEUDO_PATH, PSEUDO_COUNT };

struct decoder {
    struct head head; /* for the handlers of fields; head.at: end of what is decoded */
    const struct decoder_limits *limits;
    struct decoded_request *decoded;
    struct span pseudo[PSEUDO_COUNT]; /* start NULL: absent */
    const char *fields;               /* the first field line; NULL: none yet */
    size_t bytes, count;
    bool malformed, trailers, has_cookie;
};

static struct span span_of_bytes(const uint8_t *start, size_t length)
{
    return (struct span){(const char *)start, length};
}

/* Appends TEXT to what is decoded. */
static struct span put_decoded(struct decoder *decoder, struct span text)
{
    char *to = (char *)(uintptr_t)decoder->head.at;

    memcpy(to, text.start, text.length);
    decoder->head.at = to + text.length;
    return (struct span){to, text.length};
}

static void reject(struct decoder *decoder, int status)
{
    if (decoder->decoded->status == 0)
        decoder->decoded->status = status;
}

static enum pseudo pseudo_find(struct span name)
{
    if (span_is(name, SPAN(":method")))
        return PSEUDO_METHOD;
    if (span_is(name, SPAN(":scheme")))
        return PSEUDO_SCHEME;
    if (span_is(name, SPAN(":authority")))
        return PSEUDO_AUTHORITY;
    return span_is(name, SPAN(":path")) ? PSEUDO_PATH : PSEUDO_COUNT;
}

/* True if VALUE, which has been copied, is a valid field value. */
static bool is_valid_value(struct span value)
{
    const char *end = value.start + value.length, *at = value.start;

    if (value.length == 0)
        return true;
    if (http_is_blank(*at) || http_is_blank(end[-1]))
        return false;
    for (; (at = scan_to_control(value.start, at, end)) < end; at++)
        if (*at != '\t')
            return false;
    return true;
}

static bool is_valid_name(struct span name)
{
    const char *end = name.start + name.length;

    for (const char *at = name.start; at < end; at++)
        if (!request_token_bytes[(unsigned char)*at] || (*at >= 'A' && *at <= 'Z'))
            return false;
    return name.length > 0;
}

/* Fields of a connection (section 8.2.2), apart from those with a handler. */
static bool is_of_connection(struct span name, struct span value)
{
    switch (name.length) {
    case 2:
        return span_is(name, SPAN("te")) && !span_is_nocase(value, SPAN("trailers"));
    case 7:
        return span_is(name, SPAN("upgrade"));
    case 10:
        return span_is(name, SPAN("keep-alive"));
    case 16:
        return span_is(name, SPAN("proxy-connection"));
    default:
        return false;
    }
}

static void take_pseudo(struct decoder *decoder, struct span name, struct span value)
{
    enum pseudo pseudo = pseudo_find(name);

    if (pseudo == PSEUDO_COUNT || decoder->fields != NULL ||
        decoder->pseudo[pseudo].start != NULL) {
        decoder->malformed = true;
        return;
    }
    decoder->pseudo[pseudo] = put_decoded(decoder, value);
    if (!is_valid_value(decoder->pseudo[pseudo]))
        decoder->malformed = true;
}

static void take_field(struct decoder *decoder, struct span name, struct span value)
{
    field_handler *handle = request_field_find(name);
    int status;

    if (decoder->fields == NULL)
        decoder->fields = decoder->head.at;
    name = put_decoded(decoder, name);
    put_decoded(decoder, SPAN(": "));
    value = put_decoded(decoder, value);
    put_decoded(decoder, SPAN("\r\n"));
    if (!is_valid_name(name) || !is_valid_value(value) || is_of_connection(name, value) ||
        handle == request_field_connection || handle == request_field_transfer_encoding) {
        decoder->malformed = true;
        return;
    }
    if (span_is(name, SPAN("priority")))
        decoder->decoded->priority = value;
    if (handle == NULL)
        return;
    decoder->head.end = value.start + value.length;
    status = handle(&decoder->head, value);
    if (status != GOOD)
        reject(decoder, status);
}

/*
 * True if the field NAME counts against the limit of fields: not a pseudo-header field, nor a
 * further piece of Cookie, which clients split so that HPACK compresses it better (section 8.2.3).
 */
static bool counts_as_field(struct decoder *decoder, struct span name)
{
    bool follows = decoder->has_cookie;

    if (name.length > 0 && name.start[0] == ':')
        return false;
    if (!span_is(name, SPAN("cookie")))
        return true;
    decoder->has_cookie = true;
    return !follows;
}

/* What exceeds the limits is decoded, because later blocks depend on it, and dropped. */
static void decode_field(struct decoder *decoder, const nghttp2_nv *field)
{
    struct span name = span_of_bytes(field->name, field->namelen);
    struct span value = span_of_bytes(field->value, field->valuelen);

    if (decoder->trailers) {
        decoder->malformed |= !is_valid_name(name) || !is_valid_value(value);
        return;
    }
    decoder->bytes += name.length + value.length + FIELD_OVERHEAD;
    if (decoder->bytes > decoder->limits->header_bytes ||
        (counts_as_field(decoder, name) && ++decoder->count > decoder->limits->field_count)) {
        reject(decoder, 431);
        return;
    }
    if (name.length > 0 && name.start[0] == ':')
        take_pseudo(decoder, name, value);
    else
        take_field(decoder, name, value);
}

/* Returns false if the block is not valid HPACK. */
static bool inflate(struct decoder *decoder, nghttp2_hd_inflater *inflater, struct span block)
{
    const uint8_t *at = (const uint8_t *)block.start;
    size_t left = block.length;
    int flags = 0;

    while ((flags & NGHTTP2_HD_INFLATE_FINAL) == 0) {
        nghttp2_nv field;
        ssize_t used;

        flags = 0;
        used = nghttp2_hd_inflate_hd2(inflater, &field, &flags, at, left, 1);
        if (used < 0)
            return false;
        at += used;
        left -= (size_t)used;
        if (flags & NGHTTP2_HD_INFLATE_EMIT)
            decode_field(decoder, &field);
        else if (left == 0 && (flags & NGHTTP2_HD_INFLATE_FINAL) == 0)
            return false;
    }
    nghttp2_hd_inflate_end_headers(inflater);
    return true;
}

/* Checks of the whole request */

static bool is_valid_target(struct span path, enum http_method method)
{
    const char *end = path.start + path.length;

    if (path.length == 0 || scan_to_space(path.start, path.start, end) < end)
        return false;
    return path.start[0] == '/' ||
           (path.start[0] == '*' && path.length == 1 && method == METHOD_OPTIONS);
}

static bool is_valid_method(struct span method)
{
    const char *end = method.start + method.length;

    return method.length > 0 && skip_token(method.start, method.start, end) == end;
}

/* Writes the request line for the log and the target. */
static void put_line(struct decoder *decoder, struct span target)
{
    struct request *request = &decoder->decoded->request;
    struct span method = put_decoded(decoder, decoder->pseudo[PSEUDO_METHOD]);

    put_decoded(decoder, SPAN(" "));
    request->target = put_decoded(decoder, target);
    put_decoded(decoder, SPAN(" HTTP/2.0"));
    request->line = span_between(method.start, decoder->head.at);
    if (request->target.length + method.length + 1 > decoder->limits->line_bytes)
        reject(decoder, 414);
}

static void check_authority(struct decoder *decoder)
{
    struct span authority = decoder->pseudo[PSEUDO_AUTHORITY];
    struct request *request = &decoder->decoded->request;
    bool has_host = (decoder->head.seen & SEEN_HOST) != 0;

    if (authority.start == NULL && !has_host) {
        decoder->malformed = true;
    } else if (authority.start != NULL) {
        if (has_host && !span_is_nocase(authority, request->host))
            decoder->malformed = true;
        request->host = authority;
    }
    if (!authority_valid(request->host, false))
        reject(decoder, 400);
}

static void check_request(struct decoder *decoder, bool ends_stream)
{
    struct request *request = &decoder->decoded->request;
    const struct span *pseudo = decoder->pseudo;
    struct span target = pseudo[PSEUDO_PATH];
    bool is_connect;

    if (pseudo[PSEUDO_METHOD].start == NULL || !is_valid_method(pseudo[PSEUDO_METHOD])) {
        decoder->malformed = true;
        return;
    }
    request->method = http_method_find(pseudo[PSEUDO_METHOD]);
    is_connect = request->method == METHOD_CONNECT;
    if (is_connect) {
        target = pseudo[PSEUDO_AUTHORITY];
        decoder->malformed |= pseudo[PSEUDO_PATH].start != NULL ||
                              pseudo[PSEUDO_SCHEME].start != NULL || target.start == NULL;
    } else {
        decoder->malformed |= pseudo[PSEUDO_SCHEME].length == 0 || target.start == NULL ||
                              !is_valid_target(target, request->method);
    }
    if (decoder->malformed)
        return;
    put_line(decoder, target);
    check_authority(decoder);
    request->has_body = !ends_stream;
    request->expect_continue &= request->has_body;
    if (ends_stream && request->content_length > 0)
        decoder->malformed = true;
}

/* True if what the limits made it drop includes a pseudo-header field that every request has. */
static bool has_dropped_pseudo(const struct decoder *decoder)
{
    return decoder->decoded->status == 431 && (decoder->pseudo[PSEUDO_METHOD].start == NULL ||
                                               decoder->pseudo[PSEUDO_PATH].start == NULL);
}

static enum decoded result_of(const struct decoder *decoder)
{
    return decoder->malformed ? DECODED_MALFORMED : DECODED_REQUEST;
}

enum decoded request_decode(nghttp2_hd_inflater *inflater, struct span block, bool ends_stream,
                            const struct decoder_limits *limits, char *space,
                            struct decoded_request *decoded)
{
    struct request *request = &decoded->request;
    struct decoder decoder = {
        .head = {.start = space, .at = space, .request = request},
        .limits = limits,
        .decoded = decoded,
    };

    request_clear(request);
    request->version = HTTP_2;
    request->minor_version = 1;
    request->keep_alive = true;
    decoded->status = 0;
    decoded->priority = (struct span){NULL, 0};
    if (!inflate(&decoder, inflater, block))
        return DECODED_FAILED;
    if (decoder.fields != NULL)
        request->fields = span_between(decoder.fields, decoder.head.at);
    request->line = (struct span){decoder.head.at, 0};
    decoded->has_content_length = (decoder.head.seen & SEEN_CONTENT_LENGTH) != 0;
    if (!has_dropped_pseudo(&decoder))
        check_request(&decoder, ends_stream);
    return result_of(&decoder);
}

enum decoded request_decode_trailers(nghttp2_hd_inflater *inflater, struct span block)
{
    struct decoder decoder = {.trailers = true};

    return inflate(&decoder, inflater, block) ? result_of(&decoder) : DECODED_FAILED;
}
