#include "common/escape.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

static bool is_tail(unsigned char byte)
{
    return (byte & 0xc0) == 0x80;
}

/*
 * Length of the character at TEXT, which is not empty; 0 if it is not UTF-8 (RFC 3629 section 4).
 */
static size_t character(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;

    if (at[0] < 0x80)
        return 1;
    if (at[0] >= 0xc2 && at[0] <= 0xdf)
        return is_tail(at[1]) ? 2 : 0;
    if (at[0] >= 0xe0 && at[0] <= 0xef) {
        bool overlong = at[0] == 0xe0 && at[1] < 0xa0, surrogate = at[0] == 0xed && at[1] > 0x9f;

        return is_tail(at[1]) && is_tail(at[2]) && !overlong && !surrogate ? 3 : 0;
    }
    if (at[0] >= 0xf0 && at[0] <= 0xf4) {
        bool overlong = at[0] == 0xf0 && at[1] < 0x90, beyond = at[0] == 0xf4 && at[1] > 0x8f;

        return is_tail(at[1]) && is_tail(at[2]) && is_tail(at[3]) && !overlong && !beyond ? 4 : 0;
    }
    return 0;
}

static bool is_control(char byte)
{
    return (unsigned char)byte < 0x20 || byte == 0x7f;
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
        return is_control(byte) ? REPLACEMENT : NULL;
    }
}

void escape_html(FILE *out, const char *text)
{
    while (*text != '\0') {
        size_t length = character(text);
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
        size_t length = character(text);

        if (length == 0)
            fputs(REPLACEMENT, out);
        else if (*text == '"' || *text == '\\')
            fprintf(out, "\\%c", *text);
        else if (is_control(*text))
            fprintf(out, "\\u%04x", (unsigned)*text);
        else
            fwrite(text, 1, length, out);
        text += length == 0 ? 1 : length;
    }
}

static void put(char *to, size_t room, size_t at, char byte)
{
    if (at < room)
        to[at] = byte;
}

/* Letters, digits and the characters of UNRESERVED are not encoded. */
static size_t put_encoded(char *to, size_t room, size_t at, char byte, const char *unreserved)
{
    static const char digits[] = "0123456789ABCDEF";
    unsigned char code = (unsigned char)byte;

    if (isalnum(code) || strchr(unreserved, byte) != NULL) {
        put(to, room, at, byte);
        return at + 1;
    }
    put(to, room, at, '%');
    put(to, room, at + 1, digits[code >> 4]);
    put(to, room, at + 2, digits[code & 15]);
    return at + 3;
}

size_t escape_path(char *to, size_t room, const char *text)
{
    size_t length = 0;

    for (; *text != '\0'; text++)
        length = put_encoded(to, room, length, *text, "/-._~!$&'()*+,;=:@");
    return length;
}

size_t escape_query(char *to, size_t room, struct span text)
{
    size_t length = 0;

    for (size_t i = 0; i < text.length; i++)
        length = put_encoded(to, room, length, text.start[i], "%?/-._~!$&'()*+,;=:@");
    return length;
}

static bool is_plain(unsigned char c)
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
            plain &= is_plain((unsigned char)bytes[run + i]);
        if (!plain)
            break;
    }
    return run;
}

char *escape_bytes(char *buffer, size_t size, const char *bytes, size_t count)
{
    static const char digits[] = "0123456789abcdef";
    size_t used = size > 0 ? plain_run(bytes, count < size - 1 ? count : size - 1) : 0;

    memcpy(buffer, bytes, used);
    for (size_t i = used; i < count; i++) {
        unsigned char c = (unsigned char)bytes[i];
        bool plain = is_plain(c);

        if (used + (plain ? 1 : 4) >= size)
            break;
        if (plain) {
            buffer[used++] = (char)c;
        } else {
            buffer[used++] = '\\';
            buffer[used++] = 'x';
            buffer[used++] = digits[c >> 4];
            buffer[used++] = digits[c & 15];
        }
    }
    if (size > 0)
        buffer[used] = '\0';
    return buffer;
}
