/*
 * What is taken and what is refused. Behind a body that two programs could end at two places, nothing
 * can be read (RFC 9112 section 11.2): what is refused here closes the connection.
 *
 *   what came                                          answer  why (RFC and section)
 *   ------------------------------------------------  -------  ------------------------------------
 *   Content-Length above limits.body_bytes                413  9110 15.5.14
 *   chunks that together pass limits.body_bytes           413  when the size says so, not later
 *   a size of hexadecimal digits                        taken  9112 7.1
 *   one above 64 bits, an empty one, "0x", signs, blanks  400  9112 7.1
 *   zeros in front of it, behind the 16th digit         taken  9112 7.1, as long as extensions may be
 *   blanks before the CRLF of a size                      400  read as part of the size by some
 *   extensions: ;name, ;name=token, ;name="quoted"      taken  9112 7.1.1, and ignored
 *   blanks around ';' and '='                           taken  9112 7.1.1, BWS
 *   any other form of them                                400  9112 7.1.1
 *   extensions longer than limits.header_bytes            413  9112 7.1.1, in all chunks together
 *   LF or CR alone, in any line                           400  9112 2.2
 *   chunk data not followed by CRLF                       400  9112 7.1
 *   trailer fields                                      taken  9112 7.1.2, checked and ignored
 *   trailer fields of a bad form, folded                  400  9112 5.1, 5.2, 9110 5.5
 *   Content-Length, Transfer-Encoding, Host there         400  9110 6.5.1
 *   a trailer section longer than limits.header_bytes     431  6585 5
 */
#include "daemon/http1/body_parser.h"

#include "common/macros.h"
#include "daemon/http1/syntax.h"

enum { DIGITS_FREE = 16, TOP_DIGIT = 60 /* bits below it */ };

/* What the next byte is. */
enum state {
    COUNTED, /* of a body whose length is known */
    SIZE_FIRST,
    SIZE,
    BLANK,      /* behind a size or a value: an extension must follow */
    NAME_FIRST, /* of an extension, behind ';' */
    NAME,
    NAME_BLANK,
    VALUE_FIRST, /* behind '=' */
    VALUE,
    QUOTED,
    ESCAPED,
    VALUE_END, /* behind a quoted value: the next extension, or the end of the line */
    LINE_LF,   /* of a size and its extensions */
    DATA,
    DATA_CR,
    DATA_LF,
    FIELD_FIRST, /* of a trailer line, or its CR where there is none */
    FIELD_NAME,
    FIELD_VALUE,
    FIELD_LF,
    LAST_LF,
    END,
    STATE_COUNT,
    /* Above these: the status of a refusal. */
};

typedef int step(struct body_parser *body, unsigned char byte);

static int take_digit(struct body_parser *body, unsigned char byte)
{
    unsigned char letter = byte | 0x20;
    unsigned value;

    if (byte >= '0' && byte <= '9')
        value = byte - '0';
    else if (letter >= 'a' && letter <= 'f')
        value = letter - 'a' + 10u;
    else
        return 400;
    if (body->left >> TOP_DIGIT != 0)
        return 400;
    if (body->digits < DIGITS_FREE)
        body->digits++;
    else if (body->extension_left-- == 0)
        return 413;
    body->left = body->left << 4 | value;
    return SIZE;
}

/* The line of a chunk's size */

static int at_size_first(struct body_parser *body, unsigned char byte)
{
    body->left = 0;
    body->digits = 0;
    return take_digit(body, byte);
}

/* What may stand behind a whole part of the line; BLANK is the state behind white space. */
static int behind_part(unsigned char byte, int blank)
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
    int next = behind_part(byte, BLANK);

    return next != 400 ? next : take_digit(body, byte);
}

/* White space may stand before ';', but not before the line's end. */
static int at_blank(struct body_parser *body, unsigned char byte)
{
    (void)body;
    return byte == ';' ? NAME_FIRST : is_blank((char)byte) ? BLANK : 400;
}

static int at_name_first(struct body_parser *body, unsigned char byte)
{
    (void)body;
    return is_blank((char)byte) ? NAME_FIRST : request_token_bytes[byte] ? NAME : 400;
}

static int at_name_blank(struct body_parser *body, unsigned char byte)
{
    (void)body;
    return byte == '='            ? VALUE_FIRST
           : byte == ';'          ? NAME_FIRST
           : is_blank((char)byte) ? NAME_BLANK
                                  : 400;
}

static int at_name(struct body_parser *body, unsigned char byte)
{
    (void)body;
    if (request_token_bytes[byte])
        return NAME;
    return byte == '=' ? VALUE_FIRST : behind_part(byte, NAME_BLANK);
}

static int at_value_first(struct body_parser *body, unsigned char byte)
{
    (void)body;
    if (byte == '"')
        return QUOTED;
    return is_blank((char)byte) ? VALUE_FIRST : request_token_bytes[byte] ? VALUE : 400;
}

static int at_value(struct body_parser *body, unsigned char byte)
{
    (void)body;
    return request_token_bytes[byte] ? VALUE : behind_part(byte, BLANK);
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
    return behind_part(byte, BLANK);
}

/* The size is known: is there room for so much, and what follows? */
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

/* Fields that say where a message ends or whose it is have no meaning behind it. */
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

/* The whole */

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

/* Extensions and trailers have room of their own: 0, or the status when it is used up. */
static int spend(struct body_parser *body)
{
    if (body->state >= BLANK && body->state < LINE_LF && body->extension_left-- == 0)
        return 413;
    if (body->state >= FIELD_FIRST && body->state < LAST_LF && body->trailer_left-- == 0)
        return 431;
    return 0;
}

/* One byte. Returns the next state, or the status of a refusal. */
static int take_byte(struct body_parser *body, unsigned char byte)
{
    int status = spend(body);

    return status != 0 ? status : steps[body->state](body, byte);
}

/* As many bytes of content as there are; the state moves on behind the last. */
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
            int next = take_byte(body, (unsigned char)data[at++]);

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
