/*
 * Accepted and rejected input. A rejection closes the connection, so that nothing after it is
 * interpreted in a way that its sender did not mean (RFC 9112 section 11.2, request smuggling).
 *
 *   input                                             status   reason (RFC and section)
 *   ------------------------------------------------  -------  ------------------------------------
 *   up to 4 empty lines before the request line            ok  9112 2.2
 *   more of them                                          400  bounds the work per request
 *   LF alone as a line end                                400  9112 2.2 permits it, but a proxy
 *                                                              that rejects it sees other lines
 *   CR alone, anywhere                                    400  9112 2.2
 *   a field or line end after white space (obs-fold)      400  9112 5.2
 *   white space before the colon, no colon, no name       400  9112 5.1
 *   a control byte other than HTAB in a value             400  9110 5.5
 *   bytes 0x80 to 0xff in a value                          ok  9110 5.5, obs-text
 *   bytes 0x80 to 0xff in a target                         ok  clients send unescaped UTF-8
 *   not exactly one SP between the three parts             400  9112 3
 *   a method that is not a token                           400  9110 9.1
 *   a method in no registry ("get" is one)                 ok  METHOD_UNKNOWN; the caller sends 501
 *   a method that fills the request line limit            501  9112 3
 *   a request line without a version (HTTP/0.9)           400  9112 2.3
 *   "HTTP/x.y" and "HTTP/x" with x other than 1           505  9110 15.6.6
 *   HTTP/1.2 to 1.9                                        ok  as 1.1, 9110 2.5
 *   any other version                                     400  9112 2.3
 *   "*" with a method other than OPTIONS                  400  9112 3.2.4
 *   CONNECT without host:port                             400  9112 3.2.3
 *   absolute form: "http://" and a host                    ok  9112 3.2.2; its host replaces Host
 *   absolute form with user@ or another scheme            400  9110 4.2.4
 *   absolute form: "https://"                             421  9110 7.4; not served without TLS
 *   no Host in HTTP/1.1                                   400  9112 3.2
 *   Host twice or malformed                               400  9112 3.2; the maximum port is 65535
 *   an empty Host in HTTP/1.1                             400  9110 4.2.1: a host is required
 *   the same beside an absolute form                       ok  9112 3.2.2: the target has one
 *   the same in HTTP/1.0                                   ok  as without Host
 *   Content-Length: a list, or twice, equal or not        400  9112 6.3
 *   Content-Length: not 1*DIGIT, or above 2^63 - 1         400  9110 8.6
 *   Content-Length and Transfer-Encoding                  400  9112 6.1, 6.3
 *   Transfer-Encoding in HTTP/1.0                         400  9112 6.1
 *   chunked twice, not last, with parameters              400  9112 6.1, 7.1
 *   Transfer-Encoding with an empty element               400  9110 5.6.1 permits it; hides errors
 *   another transfer coding before chunked                501  9112 6.1
 *   another transfer coding without chunked after it      400  9112 6.3: the length is unknown
 *   Expect other than 100-continue                        417  9110 10.1.1
 *   100-continue in HTTP/1.0, or without a body       ignored  9110 10.1.1
 *   a request line above its limit                        414  9112 3
 *   a head above its limit, too many fields               431  6585 5
 *   Connection: lists, several fields                      ok  9112 9.3; close takes precedence
 *   Referer, User-Agent twice                              ok  the first one counts
 *   fields of conditionals, ranges, negotiation            ok  all lines are kept
 *   any other field                                        ok  syntax is checked, value ignored
 */
#include "daemon/http1/request_parser.h"

#include "common/macros.h"
#include "daemon/http/request.h"
#include "daemon/http/syntax.h"
#include "daemon/http/target.h"

enum { LEADING_LINES_MAX = 4 };

BYTE_SCAN_INLINE bool is_line_end(const char *at, const char *end)
{
    return LIKELY(end - at >= 2) && load_2(at) == load_2("\r\n");
}

/* Checks for CRLF at AT. Returns RAN_OUT if END is reached first. */
static int check_line_end(const char *at, const char *end, int ran_out)
{
    if (is_line_end(at, end))
        return GOOD;
    return at == end || (at + 1 == end && *at == '\r') ? ran_out : 400;
}

/* The request line, RFC 9112 section 3 */

static int store_version(struct request *request, struct span text)
{
    const char *number = text.start + 5;

    if (text.length < 6 || memcmp(text.start, "HTTP/", 5) != 0 || !is_digit(number[0]))
        return 400;
    if (text.length == 6)
        return number[0] == '1' ? 400 : 505;
    if (text.length != 8 || number[1] != '.' || !is_digit(number[2]))
        return 400;
    if (number[0] != '1')
        return 505;
    request->minor_version = number[2] != '0';
    return GOOD;
}

/*
 * Returns the start of the authority of an absolute-form target, or NULL. *SECURE: its scheme is
 * https.
 */
static const char *find_authority(struct span target, bool *secure)
{
    static const struct span schemes[] = {{"http://", 7}, {"https://", 8}};

    for (size_t i = 0; i < ARRAY_LENGTH(schemes); i++) {
        *secure = i == 1;
        if (target.length > schemes[i].length &&
            span_is_nocase((struct span){target.start, schemes[i].length}, schemes[i]))
            return target.start + schemes[i].length;
    }
    return NULL;
}

static int parse_absolute_form(struct head *head, struct span target)
{
    const char *end = target.start + target.length;
    bool secure;
    const char *authority = find_authority(target, &secure);
    const char *authority_end = authority;

    if (authority == NULL)
        return 400;
    while (authority_end < end && *authority_end != '/' && *authority_end != '?' &&
           *authority_end != '#')
        authority_end++;
    head->authority = span_between(authority, authority_end);
    if (!authority_valid(head->authority, false))
        return 400;
    return secure ? 421 : GOOD;
}

/* The four forms of a target and their methods, RFC 9112 section 3.2. */
static int check_target_form(struct head *head, struct span target, enum http_method method)
{
    if (method == METHOD_CONNECT)
        return authority_valid(target, true) ? GOOD : 400;
    if (target.start[0] == '/')
        return GOOD;
    if (target.start[0] == '*' && target.length == 1)
        return method == METHOD_OPTIONS ? GOOD : 400;
    return parse_absolute_form(head, target);
}

/* Parses from LINE to the first space, and stores the position of that space. */
static inline int parse_method(struct head *head, const char *line, const char *end,
                               const char **method_end)
{
    if (LIKELY(end - line >= 4 && load_4(line) == load_4("GET "))) {
        head->request->method = METHOD_GET;
        *method_end = line + 3;
        return GOOD;
    }
    *method_end = skip_token(head->start, line, end);
    if (*method_end == end)
        return INCOMPLETE;
    head->request->method = http_method_find(span_between(line, *method_end));
    return *method_end != line && **method_end == ' ' ? GOOD : 400;
}

/* Parses from VERSION to the CRLF, and stores the position of the CRLF. */
static inline int parse_version(struct head *head, const char *version, const char *end,
                                int ran_out, const char **line_end)
{
    int status;

    if (LIKELY(end - version >= 10 && load_8(version) == load_8("HTTP/1.1") &&
               load_2(version + 8) == load_2("\r\n"))) {
        head->request->minor_version = 1;
        *line_end = version + 8;
        return GOOD;
    }
    *line_end = scan_to_control(head->start, version, end);
    status = check_line_end(*line_end, end, ran_out);
    if (status != GOOD)
        return status;
    return store_version(head->request, span_between(version, *line_end));
}

static int parse_line_until(struct head *head, const char *end, int ran_out)
{
    struct request *request = head->request;
    const char *method_end, *target_end, *line_end;
    int status;

    status = parse_method(head, head->at, end, &method_end);
    if (status == INCOMPLETE)
        return ran_out == INCOMPLETE ? INCOMPLETE : 501;
    if (status != GOOD)
        return status;
    target_end = scan_to_space(head->start, method_end + 1, end);
    if (target_end == end)
        return ran_out;
    if (target_end == method_end + 1 || *target_end != ' ')
        return 400;
    status = parse_version(head, target_end + 1, end, ran_out, &line_end);
    if (status != GOOD)
        return status;
    request->line = span_between(head->at, line_end);
    request->target = span_between(method_end + 1, target_end);
    head->at = line_end + 2;
    return check_target_form(head, request->target, request->method);
}

static int parse_request_line(struct head *head, size_t line_bytes)
{
    bool cut = (size_t)(head->end - head->at) >= line_bytes + 2;

    return parse_line_until(head, cut ? head->at + line_bytes + 2 : head->end,
                            cut || head->cut ? 414 : INCOMPLETE);
}

/* Field lines, RFC 9112 section 5 */

/* Moves *AT to the CRLF past HTABs, the only control byte allowed in a value. */
static int skip_tabs(const struct head *head, const char **at, int ran_out)
{
    while (*at < head->end && **at == '\t')
        *at = scan_to_control(head->start, *at + 1, head->end);
    return check_line_end(*at, head->end, ran_out);
}

/* Parses the field line at *AT and moves *AT to the next line. */
static inline int parse_field(struct head *head, const char **at, const char *end, int ran_out)
{
    const char *start = head->start;
    const char *name = *at;
    const char *name_end = skip_token(start, name, end);
    const char *value_end;
    field_handler *handle;

    if (name_end == end)
        return ran_out;
    if (name_end == name || *name_end != ':')
        return 400;
    value_end = scan_to_control(start, name_end + 1, end);
    if (UNLIKELY(!is_line_end(value_end, end))) {
        int status = skip_tabs(head, &value_end, ran_out);

        if (status != GOOD)
            return status;
    }
    *at = value_end + 2;
    handle = request_field_find(span_between(name, name_end));
    return handle == NULL ? GOOD : handle(head, span_trim(span_between(name_end + 1, value_end)));
}

static int parse_fields(struct head *head, size_t field_count)
{
    const char *at = head->at, *end = head->end;
    int ran_out = head->cut ? 431 : INCOMPLETE;
    int status;

    for (size_t count = 0; at < end && *at != '\r'; count++) {
        if (count == field_count)
            return 431;
        status = parse_field(head, &at, end, ran_out);
        if (status != GOOD)
            return status;
    }
    head->request->fields = span_between(head->at, at);
    head->at = at + 2;
    return check_line_end(at, end, ran_out);
}

/* The head as a whole */

static int skip_empty_lines(struct head *head)
{
    int status;

    for (int count = 0; head->at < head->end && *head->at == '\r'; count++) {
        status = check_line_end(head->at, head->end, head->cut ? 431 : INCOMPLETE);
        if (status != GOOD)
            return status;
        if (count == LEADING_LINES_MAX)
            return 400;
        head->at += 2;
    }
    return GOOD;
}

/* Checks that need all fields. */
static int check_head(struct head *head)
{
    struct request *request = head->request;
    bool has_coding = (head->seen & SEEN_TRANSFER_ENCODING) != 0;

    if (request->minor_version == 1 && (head->seen & SEEN_HOST) == 0)
        return 400;
    if (has_coding && (head->seen & SEEN_CONTENT_LENGTH) != 0)
        return 400;
    if (has_coding && !request->chunked)
        return 400;
    if (head->unknown_coding)
        return 501;
    if (head->authority.start != NULL)
        request->host = head->authority;
    else if (request->minor_version == 1 && request->host.length == 0)
        return 400;
    request->has_body = request->chunked || request->content_length > 0;
    request->expect_continue &= request->has_body && request->minor_version == 1;
    request->keep_alive = !head->close && (request->minor_version == 1 || head->keep_alive);
    return GOOD;
}

static int parse_head(struct head *head, const struct request_limits *limits)
{
    int status = skip_empty_lines(head);

    if (status == GOOD)
        status = parse_request_line(head, limits->line_bytes);
    if (status == GOOD)
        status = parse_fields(head, limits->field_count);
    return status == GOOD ? check_head(head) : status;
}

/*
 * Whether to parse an incomplete head again: only if its new bytes may complete it or cause a
 * rejection (an empty line, a bare LF, a limit). Each limit is reached once, and each of the others
 * ends the head, except for LEADING_LINES_MAX empty lines; so all calls together take linear time.
 */
static bool new_bytes_decide(const char *data, size_t length, size_t scanned,
                             const struct request_limits *limits)
{
    size_t line_end_latest = limits->line_bytes + 2 + 2 * LEADING_LINES_MAX;
    const char *end = data + length;
    const char *at = data + scanned;

    if (length >= limits->head_bytes || (scanned < line_end_latest && length >= line_end_latest))
        return true;
    for (; (at = memchr(at, '\n', (size_t)(end - at))) != NULL; at++) {
        if (at == data || at[-1] != '\r')
            return true;
        if (at - data >= 2 && (at[-2] == '\n' || at[-2] == '\r'))
            return true;
    }
    return false;
}

int request_parse(const char *data, size_t length, const struct request_limits *limits,
                  size_t *scanned, struct request *request)
{
    bool cut = length >= limits->head_bytes;
    struct head head = {.start = data, .at = data, .cut = cut, .request = request};
    int status;

    if (*scanned != 0 && !new_bytes_decide(data, length, *scanned, limits)) {
        *scanned = length;
        return 0;
    }
    request_clear(request);
    head.end = data + (cut ? limits->head_bytes : length);
    status = parse_head(&head, limits);
    *scanned = status == INCOMPLETE ? length : 0;
    if (status == GOOD)
        return (int)(head.at - data);
    if (status == INCOMPLETE)
        return 0;
    if (request->line.start == NULL)
        request->line = span_between(head.at, scan_to_control(data, head.at, head.end));
    return -status;
}
