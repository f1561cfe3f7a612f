#include "common/escape.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

enum {
    REPLACEMENT_CODE = 0xfffd,
    UTF8_MAX = 4,       /* bytes of a character */
    HEX_ESCAPE = 4,     /* bytes of \xHH */
    UNICODE_ESCAPE = 6, /* bytes of \uHHHH */
};

/*
 * Reads the character at TEXT, which has LEFT bytes, at least 1. Returns its length; 0 if it is not
 * UTF-8 (RFC 3629 section 4). A NUL ends TEXT early.
 */
static size_t character(const char *text, size_t left, uint32_t *code)
{
    const unsigned char *at = (const unsigned char *)text;
    size_t length = at[0] < 0x80 ? 1 : at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;

    if (length == 0 || at[0] > 0xf4 || length > left)
        return 0;
    *code = length == 1 ? at[0] : at[0] & (0xffU >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        *code = *code << 6 | (at[i] & 0x3fU);
    }
    if ((length == 3 && *code < 0x800) || (length == 4 && *code < 0x10000)) /* overlong */
        return 0;
    return *code > 0x10ffff || (*code >= 0xd800 && *code <= 0xdfff) ? 0 : length;
}

/* The same for a TEXT that ends in NUL. */
static size_t decode_next(const char *text, uint32_t *code)
{
    return character(text, UTF8_MAX, code);
}

static bool is_control(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0);
}

bool escape_unsafe(uint32_t code)
{
    return is_control(code) || code == 0x061c || code == 0x200e || code == 0x200f ||
           (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

size_t escape_printable(const char *text, size_t left)
{
    uint32_t code;
    size_t length = character(text, left, &code);

    return length != 0 && !escape_unsafe(code) ? length : 0;
}

bool escape_utf8_valid(const char *text)
{
    uint32_t code;
    size_t length;

    for (; *text != '\0'; text += length)
        if ((length = decode_next(text, &code)) == 0)
            return false;
    return true;
}

static const char *html_of(char byte)
{
    switch (byte) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return is_control((unsigned char)byte) ? REPLACEMENT : NULL;
    }
}

void escape_html(FILE *out, const char *text)
{
    while (*text != '\0') {
        uint32_t code;
        size_t length = decode_next(text, &code);
        const char *instead = length == 0 ? REPLACEMENT : length == 1 ? html_of(*text) : NULL;

        if (instead != NULL)
            fputs(instead, out);
        else
            fwrite(text, 1, length, out);
        text += length == 0 ? 1 : length;
    }
}

void escape_json(FILE *out, const char *text)
{
    while (*text != '\0') {
        uint32_t code;
        size_t length = decode_next(text, &code);

        if (length == 0)
            fputs(REPLACEMENT, out);
        else if (*text == '"' || *text == '\\')
            fprintf(out, "\\%c", *text);
        else if (escape_unsafe(code))
            fprintf(out, "\\u%04x", code);
        else
            fwrite(text, 1, length, out);
        text += length == 0 ? 1 : length;
    }
}

char *escape_json_text(const char *json)
{
    char *safe = malloc(UNICODE_ESCAPE * strlen(json) + 1), *to = safe;

    while (safe != NULL && *json != '\0') {
        uint32_t code = REPLACEMENT_CODE;
        size_t length = decode_next(json, &code);

        if (length != 0 && (*json == '\n' || !escape_unsafe(code)))
            to = mempcpy(to, json, length);
        else
            to += sprintf(to, "\\u%04x", code);
        json += length == 0 ? 1 : length;
    }
    if (safe != NULL)
        *to = '\0';
    return safe;
}

static void put_bounded(char *to, size_t room, size_t at, char byte)
{
    if (at < room)
        to[at] = byte;
}

/* Letters, digits and the characters of UNRESERVED are not encoded. */
static size_t put_percent(char *to, size_t room, size_t at, char byte, const char *unreserved)
{
    static const char digits[] = "0123456789ABCDEF";
    unsigned char code = (unsigned char)byte;

    if (isalnum(code) || strchr(unreserved, byte) != NULL) {
        put_bounded(to, room, at, byte);
        return at + 1;
    }
    put_bounded(to, room, at, '%');
    put_bounded(to, room, at + 1, digits[code >> 4]);
    put_bounded(to, room, at + 2, digits[code & 15]);
    return at + 3;
}

size_t escape_path(char *to, size_t room, const char *text)
{
    size_t length = 0;

    for (; *text != '\0'; text++)
        length = put_percent(to, room, length, *text, "/-._~!$&'()*+,;=:@");
    return length;
}

/* True if the byte at I is the '%' of a percent-encoded byte (RFC 3986 section 2.1). */
static bool begins_triplet(struct span text, size_t i)
{
    return text.start[i] == '%' && text.length - i > 2 &&
           isxdigit((unsigned char)text.start[i + 1]) && isxdigit((unsigned char)text.start[i + 2]);
}

size_t escape_query(char *to, size_t room, struct span text)
{
    size_t length = 0;

    for (size_t i = 0; i < text.length; i++)
        length = put_percent(to, room, length, text.start[i],
                             begins_triplet(text, i) ? "%" : "?/-._~!$&'()*+,;=:@");
    return length;
}

static bool is_plain_text(unsigned char c)
{
    return c >= ' ' && c < 0x7f && c != '\\';
}

/* Number of leading bytes that need no escape. Compilers vectorize the loop. */
static size_t plain_run(const char *bytes, size_t count)
{
    size_t run = 0;

    for (; run + 8 <= count; run += 8) {
        bool plain = true;

        for (size_t i = 0; i < 8; i++)
            plain &= is_plain_text((unsigned char)bytes[run + i]);
        if (!plain)
            break;
    }
    return run;
}

/* Appends COUNT bytes as \xHH to BUFFER. Returns the new length, or USED if they do not fit. */
static size_t put_hex(char *buffer, size_t size, size_t used, const char *bytes, size_t count)
{
    static const char digits[] = "0123456789abcdef";

    if (size - used <= HEX_ESCAPE * count)
        return used;
    for (size_t i = 0; i < count; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        const char escape[HEX_ESCAPE] = {'\\', 'x', digits[byte >> 4], digits[byte & 15]};

        memcpy(buffer + used, escape, HEX_ESCAPE);
        used += HEX_ESCAPE;
    }
    return used;
}

char *escape_bytes(char *buffer, size_t size, const char *bytes, size_t count)
{
    size_t used = size > 0 ? plain_run(bytes, count < size - 1 ? count : size - 1) : 0;

    memcpy(buffer, bytes, used);
    for (size_t i = used; i < count && used + 1 < size; i++) {
        size_t before = used;

        if (is_plain_text((unsigned char)bytes[i]))
            buffer[used++] = bytes[i];
        else
            used = put_hex(buffer, size, used, bytes + i, 1);
        if (used == before)
            break;
    }
    if (size > 0)
        buffer[used] = '\0';
    return buffer;
}

/* Characters of KEPT are copied as they are. */
static char *escape_except(char *buffer, size_t size, const char *bytes, size_t count,
                           const char *kept)
{
    size_t used = 0, length;

    for (size_t i = 0; i < count; i += length) {
        size_t before = used, printable = escape_printable(bytes + i, count - i);
        bool keep = bytes[i] != '\0' && strchr(kept, bytes[i]) != NULL;

        length = printable != 0 ? printable : 1;
        if (printable == 0 && !keep)
            used = put_hex(buffer, size, used, bytes + i, length);
        else if (used + length < size)
            used = (size_t)((char *)mempcpy(buffer + used, bytes + i, length) - buffer);
        if (used == before)
            break;
    }
    if (size > 0)
        buffer[used] = '\0';
    return buffer;
}

char *escape_text(char *buffer, size_t size, const char *bytes, size_t count)
{
    return escape_except(buffer, size, bytes, count, "");
}

char *escape_lines(char *buffer, size_t size, const char *bytes, size_t count)
{
    return escape_except(buffer, size, bytes, count, "\n\t");
}

static void print_except(FILE *out, const char *text, const char *kept)
{
    char one[UTF8_MAX * HEX_ESCAPE + 1];

    while (*text != '\0') {
        size_t printable = escape_printable(text, UTF8_MAX),
               length = printable != 0 ? printable : 1;

        fputs(escape_except(one, sizeof(one), text, length, kept), out);
        text += length;
    }
}

void escape_print(FILE *out, const char *text)
{
    print_except(out, text, "");
}

void escape_print_lines(FILE *out, const char *text)
{
    print_except(out, text, "\n\t");
}

void escape_report(const char *program, const char *text)
{
    fprintf(stderr, "%s: ", program);
    escape_print(stderr, text);
    fputc('\n', stderr);
}

json_t *json_text(const char *text)
{
    size_t length = strlen(text), size = ESCAPE_TEXT_BYTES(length);
    json_malloc_t allocate; /* notes that memory was short, so that no incomplete reply is sent */
    json_free_t release;
    json_t *string = NULL;
    char *escaped;

    json_get_alloc_funcs(&allocate, &release);
    escaped = allocate(size);
    if (escaped != NULL)
        string = json_string(escape_lines(escaped, size, text, length));
    release(escaped);
    return string;
}
