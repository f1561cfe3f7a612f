#include "loadgen/engine/response.h"

#include "common/span.h"

#include <string.h>

enum { INTERIM_SWITCHING = 101 };

static enum response_result fail_response(struct response *response, const char *why)
{
    response->why = why;
    return RESPONSE_BAD;
}

void response_begin(struct response *response, bool head_request)
{
    *response = (struct response){
        .line = response->line,
        .on_body = response->on_body,
        .on_cookie = response->on_cookie,
        .on_field = response->on_field,
        .context = response->context,
        .state = RESPONSE_AT_STATUS,
        .head_request = head_request,
    };
}

/* ---- Lines ---- */

/* The bytes not parsed yet. */
struct input {
    const char *at, *end;
};

enum line_result { LINE_WHOLE, LINE_MORE, LINE_TOO_LONG };

/*
 * Returns the next line without its end. Copies it to response->line only if it arrives in pieces.
 */
static enum line_result take_line(struct response *response, struct input *input, struct span *line)
{
    size_t there = (size_t)(input->end - input->at);
    const char *newline = there > 0 ? memchr(input->at, '\n', there) : NULL;
    size_t length = newline != NULL ? (size_t)(newline - input->at) : there;

    *line = (struct span){input->at, length};
    if (response->line_length > 0 || newline == NULL) {
        if (response->line_length + length > RESPONSE_LINE_MAX)
            return LINE_TOO_LONG;
        if (length > 0)
            memcpy(response->line + response->line_length, input->at, length);
        *line = (struct span){response->line, response->line_length + length};
        response->line_length += length;
    }
    input->at += length + (newline != NULL ? 1 : 0);
    if (newline == NULL)
        return LINE_MORE;
    response->line_length = 0;
    if (line->length > 0 && line->start[line->length - 1] == '\r')
        line->length--;
    return line->length <= RESPONSE_LINE_MAX ? LINE_WHOLE : LINE_TOO_LONG;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* tchar of RFC 9110 section 5.6.2. */
static const bool token_characters[256] = {
    ['!'] = true,         ['#' ... '\''] = true, ['*'] = true,         ['+'] = true,
    ['-'] = true,         ['.'] = true,          ['0' ... '9'] = true, ['A' ... 'Z'] = true,
    ['^' ... 'z'] = true, ['|'] = true,          ['~'] = true,
};

/* HTAB, visible characters, and bytes above ASCII (RFC 9110 section 5.5). */
static bool is_text(struct span text)
{
    for (size_t i = 0; i < text.length; i++) {
        unsigned char c = (unsigned char)text.start[i];

        if ((c < ' ' && c != '\t') || c == 0x7f)
            return false;
    }
    return true;
}

/* Cuts the next member off a comma-separated list. Returns false at its end. */
static bool take_member(struct span *list, struct span *member)
{
    const char *comma;

    if (list->start == NULL)
        return false;
    comma = list->length > 0 ? memchr(list->start, ',', list->length) : NULL;
    *member = *list;
    if (comma == NULL) {
        list->start = NULL;
    } else {
        member->length = (size_t)(comma - list->start);
        *list = (struct span){comma + 1, list->length - member->length - 1};
    }
    *member = span_trim(*member);
    return true;
}

/* ---- The head ---- */

/* HTTP-version SP status-code [SP reason] */
static enum response_result read_status_line(struct response *response, struct span line)
{
    const char *at = line.start;

    if (line.length < 12 || memcmp(at, "HTTP/1.", 7) != 0 || !is_digit(at[7]) || at[8] != ' ' ||
        !is_digit(at[9]) || !is_digit(at[10]) || !is_digit(at[11]) || at[9] == '0')
        return fail_response(response, "invalid HTTP/1 status line");
    if (line.length > 12 && (at[12] != ' ' || !is_text((struct span){at + 12, line.length - 12})))
        return fail_response(response, "invalid HTTP/1 status line");
    response->http10 = at[7] == '0';
    response->status = (uint16_t)((at[9] - '0') * 100 + (at[10] - '0') * 10 + at[11] - '0');
    response->state = RESPONSE_AT_FIELD;
    return RESPONSE_MORE;
}

/* Digits that fit 63 bits. */
static bool read_length(struct span text, uint64_t *out)
{
    uint64_t number = 0;

    for (size_t i = 0; i < text.length; i++) {
        if (!is_digit(text.start[i]) || number > (INT64_MAX - 9) / 10)
            return false;
        number = number * 10 + (uint64_t)(text.start[i] - '0');
    }
    *out = number;
    return text.length > 0;
}

/* Accepts a list of equal numbers (RFC 9110 section 8.6). */
static enum response_result read_content_length(struct response *response, struct span value)
{
    struct span member;

    while (take_member(&value, &member)) {
        uint64_t length;

        if (!read_length(member, &length))
            return fail_response(response, "Content-Length is not a number");
        if (response->has_length && length != response->left)
            return fail_response(response, "Content-Length values differ");
        response->has_length = true;
        response->left = length;
    }
    return RESPONSE_MORE;
}

/* chunked must be the last coding, and only once (RFC 9112 section 6.1). */
static enum response_result read_transfer_encoding(struct response *response, struct span value)
{
    struct span member;

    while (take_member(&value, &member)) {
        if (member.length == 0)
            continue;
        if (response->chunked)
            return fail_response(response, "transfer coding after chunked");
        response->coded = true;
        response->chunked = span_is_nocase(member, SPAN("chunked"));
    }
    return RESPONSE_MORE;
}

static enum response_result read_connection(struct response *response, struct span value)
{
    struct span member;

    while (take_member(&value, &member)) {
        response->has_close |= span_is_nocase(member, SPAN("close"));
        response->has_keep_alive |= span_is_nocase(member, SPAN("keep-alive"));
    }
    return RESPONSE_MORE;
}

/* Handles Content-Length, Transfer-Encoding, Connection and Set-Cookie; ignores all others. */
static enum response_result read_value(struct response *response, struct span name,
                                       struct span value)
{
    response->framing = false;
    if (response->on_field != NULL && response->status >= 200)
        response->on_field(response->context, name, value);
    if (span_is_nocase(name, SPAN("Connection")))
        return read_connection(response, value);
    if (span_is_nocase(name, SPAN("Content-Length"))) {
        response->framing = true;
        return read_content_length(response, value);
    }
    if (span_is_nocase(name, SPAN("Transfer-Encoding"))) {
        response->framing = true;
        return read_transfer_encoding(response, value);
    }
    if (response->on_cookie != NULL && span_is_nocase(name, SPAN("Set-Cookie")))
        response->on_cookie(response->context, value.start, value.length);
    return RESPONSE_MORE;
}

static enum response_result parse_field(struct response *response, struct span line)
{
    size_t name = 0;

    if (line.start[0] == ' ' || line.start[0] == '\t') /* obs-fold */
        return response->framing || !is_text(line) ? fail_response(response, "folded framing field")
                                                   : RESPONSE_MORE;
    while (name < line.length && token_characters[(unsigned char)line.start[name]])
        name++;
    if (name == 0 || name == line.length || line.start[name] != ':')
        return fail_response(response, "invalid header field");
    if (!is_text((struct span){line.start + name + 1, line.length - name - 1}))
        return fail_response(response, "control character in a header field");
    return read_value(response, (struct span){line.start, name},
                      span_trim((struct span){line.start + name + 1, line.length - name - 1}));
}

/* ---- From the head to the body ---- */

static enum response_result finish_response(struct response *response)
{
    response->state = RESPONSE_AT_END;
    return RESPONSE_DONE;
}

/* Resets the parser for the response that follows an interim one. */
static enum response_result end_interim(struct response *response)
{
    uint64_t head_bytes = response->head_bytes;

    if (response->status == INTERIM_SWITCHING)
        return fail_response(response, "unsolicited 101 Switching Protocols");
    response_begin(response, response->head_request);
    response->head_bytes = head_bytes;
    return RESPONSE_MORE;
}

/* Determines where the body ends (RFC 9112 section 6.3). */
static enum response_result end_head(struct response *response)
{
    if (response->status < 200)
        return end_interim(response);
    response->keep_alive = !response->has_close && (!response->http10 || response->has_keep_alive);
    if (response->coded && response->http10)
        response->keep_alive = false;
    if (response->head_request || response->status == 204 || response->status == 304)
        return finish_response(response);
    if (response->chunked) {
        response->state = RESPONSE_AT_CHUNK_SIZE;
    } else if (response->has_length && !response->coded) {
        response->state = RESPONSE_AT_BODY;
        return response->left == 0 ? finish_response(response) : RESPONSE_MORE;
    } else {
        response->keep_alive = false;
        response->state = RESPONSE_AT_REST;
    }
    return RESPONSE_MORE;
}

/* ---- The body ---- */

static void pass_body(struct response *response, const char *bytes, size_t length)
{
    response->body_bytes += length;
    if (response->on_body != NULL && length > 0)
        response->on_body(response->context, bytes, length);
}

static enum response_result parse_body(struct response *response, struct input *input)
{
    size_t there = (size_t)(input->end - input->at);
    size_t taken = there < response->left ? there : (size_t)response->left;

    pass_body(response, input->at, taken);
    input->at += taken;
    response->left -= taken;
    if (response->left > 0)
        return RESPONSE_MORE;
    if (response->state == RESPONSE_AT_BODY)
        return finish_response(response);
    response->state = RESPONSE_AT_CHUNK_END;
    return RESPONSE_MORE;
}

static int hex_value(char c)
{
    if (is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* 1*HEXDIG [ chunk-ext ] */
static enum response_result read_chunk_size(struct response *response, struct span line)
{
    uint64_t size = 0;
    size_t digits = 0;
    struct span rest;

    while (digits < line.length && hex_value(line.start[digits]) >= 0) {
        if (size >> 58 != 0)
            return fail_response(response, "chunk size too large");
        size = size << 4 | (uint64_t)hex_value(line.start[digits++]);
    }
    rest = span_trim((struct span){line.start + digits, line.length - digits});
    if (digits == 0 || !is_text(rest) || (rest.length > 0 && rest.start[0] != ';'))
        return fail_response(response, "invalid chunk size");
    response->left = size;
    response->state = size > 0 ? RESPONSE_AT_CHUNK : RESPONSE_AT_TRAILER;
    return RESPONSE_MORE;
}

/* ---- The state machine ---- */

static enum response_result parse_line(struct response *response, struct span line)
{
    bool in_head = response->state == RESPONSE_AT_STATUS || response->state == RESPONSE_AT_FIELD;

    if (in_head && (response->head_bytes += line.length + 2) > RESPONSE_HEAD_MAX)
        return fail_response(response, "head longer than 300 KiB, the limit of wsload");
    switch (response->state) {
    case RESPONSE_AT_STATUS:
        return read_status_line(response, line);
    case RESPONSE_AT_FIELD:
        return line.length == 0 ? end_head(response) : parse_field(response, line);
    case RESPONSE_AT_CHUNK_SIZE:
        return read_chunk_size(response, line);
    case RESPONSE_AT_CHUNK_END:
        if (line.length > 0)
            return fail_response(response, "chunk longer than its size");
        response->state = RESPONSE_AT_CHUNK_SIZE;
        return RESPONSE_MORE;
    case RESPONSE_AT_TRAILER:
        return line.length == 0 ? finish_response(response) : RESPONSE_MORE;
    case RESPONSE_AT_BODY:
    case RESPONSE_AT_REST:
    case RESPONSE_AT_CHUNK:
    case RESPONSE_AT_END:
        break;
    }
    return RESPONSE_DONE;
}

static enum response_result take_and_read_line(struct response *response, struct input *input)
{
    struct span line;

    switch (take_line(response, input, &line)) {
    case LINE_WHOLE:
        return parse_line(response, line);
    case LINE_TOO_LONG:
        return fail_response(response, "line longer than 100 KiB, the limit of wsload");
    case LINE_MORE:
        break;
    }
    return RESPONSE_MORE;
}

static enum response_result step(struct response *response, struct input *input)
{
    switch (response->state) {
    case RESPONSE_AT_BODY:
    case RESPONSE_AT_CHUNK:
        return parse_body(response, input);
    case RESPONSE_AT_REST:
        pass_body(response, input->at, (size_t)(input->end - input->at));
        input->at = input->end;
        return RESPONSE_MORE;
    default:
        return take_and_read_line(response, input);
    }
}

enum response_result response_feed(struct response *response, const char *bytes, size_t length,
                                   size_t *used)
{
    struct input input = {bytes, bytes + length};
    enum response_result result = RESPONSE_MORE;

    while (result == RESPONSE_MORE && input.at < input.end)
        result = step(response, &input);
    *used = (size_t)(input.at - bytes);
    return result;
}

enum response_result response_end(struct response *response)
{
    if (response->state == RESPONSE_AT_REST)
        return finish_response(response);
    return fail_response(response, "connection closed before the end of the response");
}
