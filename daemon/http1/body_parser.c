/*
 * Accepted and rejected input. If two programs could disagree about where a body ends, nothing
 * after it can be trusted (RFC 9112 section 11.2), so every rejection closes the connection.
 *
 *   input                                             status   reason (RFC and section)
 *   ------------------------------------------------  -------  ------------------------------------
 *   Content-Length above limits.body_bytes                413  9110 15.5.14
 *   chunks that together pass limits.body_bytes           413  as soon as a chunk size exceeds it
 *   a chunk size of hexadecimal digits                     ok  9112 7.1
 *   one above 64 bits, an empty one, "0x", signs, spaces  400  9112 7.1
 *   leading zeros beyond 16 digits                         ok  9112 7.1; they count as extension
 *   white space before the CRLF of a size                 400  some programs add it to the size
 *   extensions: ;name, ;name=token, ;name="quoted"         ok  9112 7.1.1; ignored
 *   white space around ';' and '='                         ok  9112 7.1.1, BWS
 *   any other form of extensions                          400  9112 7.1.1
 *   extensions longer than limits.header_bytes            413  9112 7.1.1; of all chunks together
 *   LF or CR alone, in any line                           400  9112 2.2
 *   chunk data not followed by CRLF                       400  9112 7.1
 *   trailer fields                                         ok  9112 7.1.2; checked and ignored
 *   malformed or folded trailer fields                    400  9112 5.1, 5.2, 9110 5.5
 *   Content-Length, Transfer-Encoding or Host as trailer  400  9110 6.5.1
 *   a trailer section longer than limits.header_bytes     431  6585 5
 */
#include "daemon/http1/body_parser.h"

#include "common/macros.h"
#include "daemon/http/syntax.h"

enum { DIGITS_FREE = 16, /* more count as extension */ TOP_DIGIT_SHIFT = 60 };

/* The expected next byte. */
enum state {
    COUNTED, /* content of a body of known length */
    SIZE_FIRST,
    SIZE,
    BLANK,      /* white space after a size or value: an extension must follow */
    NAME_FIRST, /* the name of an extension, after ';' */
    NAME,
    NAME_BLANK,
    VALUE_FIRST, /* its value, after '=' */
    VALUE,
    QUOTED,
    ESCAPED,
    VALUE_END, /* the next extension or the end of the line, after a quoted value */
    LINE_LF,   /* the end of a line with a size and its extensions */
    DATA,
    DATA_CR,
    DATA_LF,
    FIELD_FIRST, /* a trailer field line, or the CR that ends the section */
    FIELD_NAME,
    FIELD_VALUE,
    FIELD_LF,
    LAST_LF,
    END,
    STATE_COUNT,
    /* Larger values: the status of a rejection. */
};

typedef int step(struct body_parser *body, unsigned char byte);

static int add_digit(struct body_parser *body, unsigned char byte)
{
    unsigned char letter = byte | 0x20;
    unsigned value;

    if (byte >= '0' && byte <= '9')
        value = byte - '0';
    else if (letter >= 'a' && letter <= 'f')
        value = letter - 'a' + 10u;
    else
        return 400;
    if (body->left >> TOP_DIGIT_SHIFT != 0)
        return 400;
    if (body->digits < DIGITS_FREE)
        body->digits++;
    else if (body->extension_left-- == 0)
        return 413;
    body->left = body->left << 4 | value;
    return SIZE;
}

/* Chunk size and extensions */

static int at_size_first(struct body_parser *body, unsigned char byte)
{
    body->left = 0;
    body->digits = 0;
    return add_digit(body, byte);
}

/* The next state after a complete part of the line. BLANK: the state after white space. */
static int after_part(unsigned char byte, int blank)
{
    switch (byte) {
    case ';':
        return NAME_FIRST;
    case '\r':
        return LINE_LF;
    case ' ':
    case '\t':
        return blank;
    default:
        return 400;
    }
}

static int at_size(struct body_parser *body, unsigned char byte)
{
    int next = after_part(byte, BLANK);

    return next != 400 ? next : add_digit(body, byte);
}

/* White space is allowed before ';' but not before the CRLF. */
static int at_blank(struct body_parser *body, unsigned char byte)
{
    (void)body;
    return byte == ';' ? NAME_FIRST : http_is_blank((char)byte) ? BLANK : 400;
}

static int at_name_first(struct body_parser *body, unsigned char byte)
{
    (void)body;
    return http_is_blank((char)byte) ? NAME_FIRST : request_token_bytes[byte] ? NAME : 400;
}

static int at_name_blank(struct body_parser *body, unsigned char byte)
{
    (void)body;
    return byte == '='                 ? VALUE_FIRST
           : byte == ';'               ? NAME_FIRST
           : http_is_blank((char)byte) ? NAME_BLANK
                                       : 400;
}

static int at_name(struct body_parser *body, unsigned char byte)
{
    (void)body;
    if (request_token_bytes[byte])
        return NAME;
    return byte == '=' ? VALUE_FIRST : after_part(byte, NAME_BLANK);
}

static int at_value_first(struct body_parser *body, unsigned char byte)
{
    (void)body;
    if (byte == '"')
        return QUOTED;
    return http_is_blank((char)byte) ? VALUE_FIRST : request_token_bytes[byte] ? VALUE : 400;
}

static int at_value(struct body_parser *body, unsigned char byte)
{
    (void)body;
    return request_token_bytes[byte] ? VALUE : after_part(byte, BLANK);
}

/* RFC 9110 section 5.6.4. */
static bool is_text(unsigned char byte)
{
    return byte == '\t' || (byte >= ' ' && byte != 0x7f);
}

static int at_quoted(struct body_parser *body, unsigned char byte)
{
    (void)body;
    if (byte == '\\')
        return ESCAPED;
    return byte == '"' ? VALUE_END : is_text(byte) ? QUOTED : 400;
}

static int at_escaped(struct body_parser *body, unsigned char byte)
{
    (void)body;
    return is_text(byte) ? QUOTED : 400;
}

static int at_value_end(struct body_parser *body, unsigned char byte)
{
    (void)body;
    return after_part(byte, BLANK);
}

/* The LF after a chunk size: checks the limit. */
static int at_line_lf(struct body_parser *body, unsigned char byte)
{
    if (byte != '\n')
        return 400;
    if (body->left == 0)
        return FIELD_FIRST;
    if (body->left > body->content_left)
        return 413;
    body->content_left -= body->left;
    return DATA;
}

/* Data */

static int at_data_cr(struct body_parser *body, unsigned char byte)
{
    (void)body;
    return byte == '\r' ? DATA_LF : 400;
}

static int at_data_lf(struct body_parser *body, unsigned char byte)
{
    (void)body;
    return byte == '\n' ? SIZE_FIRST : 400;
}

/* Trailer fields */

static int at_field_name(struct body_parser *body, unsigned char byte);

static int at_field_first(struct body_parser *body, unsigned char byte)
{
    body->name_length = 0;
    if (byte == '\r')
        return LAST_LF;
    return byte == ':' ? 400 : at_field_name(body, byte);
}

/* Fields about framing and routing must precede the body. */
static bool is_forbidden(const struct body_parser *body)
{
    static const struct span names[] = {
        {"content-length", 14}, {"transfer-encoding", 17}, {"host", 4}};

    for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
        if (span_is((struct span){body->name, body->name_length}, names[i]))
            return true;
    return false;
}

static int at_field_name(struct body_parser *body, unsigned char byte)
{
    if (byte == ':')
        return is_forbidden(body) ? 400 : FIELD_VALUE;
    if (!request_token_bytes[byte])
        return 400;
    if (body->name_length < BODY_NAME_MAX)
        body->name[body->name_length++] = (char)(byte >= 'A' && byte <= 'Z' ? byte | 0x20 : byte);
    return FIELD_NAME;
}

static int at_field_value(struct body_parser *body, unsigned char byte)
{
    (void)body;
    return byte == '\r' ? FIELD_LF : is_text(byte) ? FIELD_VALUE : 400;
}

static int at_field_lf(struct body_parser *body, unsigned char byte)
{
    (void)body;
    return byte == '\n' ? FIELD_FIRST : 400;
}

static int at_last_lf(struct body_parser *body, unsigned char byte)
{
    (void)body;
    return byte == '\n' ? END : 400;
}

/* The state machine */

static step *const steps[STATE_COUNT] = {
    [SIZE_FIRST] = at_size_first,
    [SIZE] = at_size,
    [BLANK] = at_blank,
    [NAME_FIRST] = at_name_first,
    [NAME] = at_name,
    [NAME_BLANK] = at_name_blank,
    [VALUE_FIRST] = at_value_first,
    [VALUE] = at_value,
    [QUOTED] = at_quoted,
    [ESCAPED] = at_escaped,
    [VALUE_END] = at_value_end,
    [LINE_LF] = at_line_lf,
    [DATA_CR] = at_data_cr,
    [DATA_LF] = at_data_lf,
    [FIELD_FIRST] = at_field_first,
    [FIELD_NAME] = at_field_name,
    [FIELD_VALUE] = at_field_value,
    [FIELD_LF] = at_field_lf,
    [LAST_LF] = at_last_lf,
};

/* Counts a byte of an extension or trailer. Returns 0, or the status if the limit is exceeded. */
static int count_byte(struct body_parser *body)
{
    if (body->state >= BLANK && body->state < LINE_LF && body->extension_left-- == 0)
        return 413;
    if (body->state >= FIELD_FIRST && body->state < LAST_LF && body->trailer_left-- == 0)
        return 431;
    return 0;
}

/* Skips content; changes the state after its last byte. */
static size_t skip_content(struct body_parser *body, size_t length)
{
    size_t bytes = body->left < length ? (size_t)body->left : length;

    body->left -= bytes;
    if (body->left == 0)
        body->state = body->state == COUNTED ? END : DATA_CR;
    return bytes;
}

int body_parser_begin(struct body_parser *body, const struct request *request,
                      const struct body_limits *limits)
{
    *body = (struct body_parser){
        .state = request->chunked ? SIZE_FIRST : COUNTED,
        .left = request->content_length,
        .content_left = limits->content_bytes,
        .extension_left = limits->trailer_bytes,
        .trailer_left = limits->trailer_bytes,
    };
    if (!request->chunked && request->content_length > limits->content_bytes)
        return -413;
    if (!request->chunked && request->content_length == 0)
        body->state = END;
    return body->state == END ? BODY_DONE : BODY_MORE;
}

int body_parser_feed(struct body_parser *body, const char *data, size_t length, size_t *used)
{
    size_t at = 0;

    while (at < length && body->state != END) {
        if (body->state == COUNTED || body->state == DATA) {
            at += skip_content(body, length - at);
        } else {
            unsigned char byte = (unsigned char)data[at++];
            int next = count_byte(body); /* the next state, or the status of a rejection */

            if (next == 0)
                next = steps[body->state](body, byte);
            if (next >= STATE_COUNT) {
                *used = at;
                return -next;
            }
            body->state = (uint8_t)next;
        }
    }
    *used = at;
    return body->state == END ? BODY_DONE : BODY_MORE;
}
