#include "console/ui/text.h"

#include "common/clock.h"
#include "common/escape.h"
#include "common/units.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <wchar.h>

static bool ascii_only = true;

void text_set_ascii(bool ascii)
{
    ascii_only = ascii;
}

const char *text_cut(void)
{
    return ascii_only ? ".." : "…";
}

static char *none(char *buffer)
{
    return strcpy(buffer, "-");
}

char *text_count(char *buffer, double count)
{
    return isfinite(count) ? units_format_count(buffer, TEXT_SHORT, count) : none(buffer);
}

char *text_bytes(char *buffer, double bytes)
{
    return isfinite(bytes) ? units_format_bytes(buffer, TEXT_SHORT, bytes) : none(buffer);
}

char *text_micro(char *text, size_t size)
{
    for (char *at = text; !ascii_only && (at = strstr(at, " us")) != NULL; at += 3) {
        size_t length = strlen(text);

        if (isalnum((unsigned char)at[3]) || length + 2 > size)
            continue;
        memmove(at + 4, at + 3, length - (size_t)(at + 3 - text) + 1);
        memcpy(at + 1, "µs", 3);
    }
    return text;
}

char *text_latency(char *buffer, double ns)
{
    return isfinite(ns) ? text_micro(units_format_ns(buffer, TEXT_SHORT, ns), TEXT_SHORT)
                        : none(buffer);
}

char *text_percent(char *buffer, double ratio)
{
    return isfinite(ratio) ? units_format_percent(buffer, TEXT_SHORT, ratio) : none(buffer);
}

char *text_since(char *buffer, uint64_t ns)
{
    return ns < NS_PER_S ? text_latency(buffer, (double)ns)
                         : units_format_age(buffer, TEXT_SHORT, ns);
}

char *text_clock(char *buffer, uint64_t wall_ns)
{
    time_t second = (time_t)(wall_ns / NS_PER_S);
    struct tm parts;
    size_t length;

    localtime_r(&second, &parts);
    length = strftime(buffer, TEXT_SHORT, "%H:%M:%S", &parts);
    snprintf(buffer + length, TEXT_SHORT - length, ".%03u",
             (unsigned)(wall_ns % NS_PER_S / NS_PER_MS));
    return buffer;
}

char *text_rfc3339(char *buffer, uint64_t wall_ns)
{
    time_t second = (time_t)(wall_ns / NS_PER_S);
    struct tm parts;
    size_t length;

    gmtime_r(&second, &parts);
    length = strftime(buffer, TEXT_SHORT, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(buffer + length, TEXT_SHORT - length, ".%09uZ", (unsigned)(wall_ns % NS_PER_S));
    return buffer;
}

void text_base64(FILE *out, const void *bytes, size_t count)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *from = bytes;

    for (size_t i = 0; i < count; i += 3) {
        size_t left = count - i;
        uint32_t group = (uint32_t)from[i] << 16 | (left > 1 ? (uint32_t)from[i + 1] << 8 : 0) |
                         (left > 2 ? from[i + 2] : 0);

        fputc(digits[group >> 18], out);
        fputc(digits[group >> 12 & 63], out);
        fputc(left > 1 ? digits[group >> 6 & 63] : '=', out);
        fputc(left > 2 ? digits[group & 63] : '=', out);
    }
}

enum { ESCAPE_COLUMNS = 4 /* \xNN */ };

/* Most characters are: they need none of the calls below. */
static bool is_printable_ascii(wchar_t character)
{
    return character >= L' ' && character <= L'~';
}

/* Controls, combining and zero-width characters: their bytes are shown as \xNN. */
static bool is_escaped(wchar_t character)
{
    return !is_printable_ascii(character) &&
           (escape_unsafe((uint32_t)character) || wcwidth(character) <= 0);
}

/* The columns of CHARACTER, which has LENGTH bytes. */
static int character_width(wchar_t character, size_t length)
{
    return is_printable_ascii(character) ? 1
           : is_escaped(character)       ? ESCAPE_COLUMNS * (int)length
                                         : wcwidth(character);
}

/* Converts the character at TEXT. Returns its length; 0: the end, or not a character. */
static size_t character_at(const char *text, wchar_t *character)
{
    mbstate_t state = {0};
    size_t length;

    *character = (unsigned char)*text;
    if (is_printable_ascii(*character))
        return 1;
    length = mbrtowc(character, text, MB_CUR_MAX, &state);
    return length == (size_t)-1 || length == (size_t)-2 ? 0 : length;
}

static void write_escape(wchar_t *cells, unsigned byte)
{
    static const char digits[] = "0123456789abcdef";

    cells[0] = L'\\';
    cells[1] = L'x';
    cells[2] = (wchar_t)digits[byte >> 4];
    cells[3] = (wchar_t)digits[byte & 15];
}

size_t text_cells(const char *text, wchar_t *cells, size_t room)
{
    size_t count = 0, length;
    wchar_t character;

    for (; (length = character_at(text, &character)) > 0 && count < room; text += length) {
        int width = character_width(character, length);

        if (count + (size_t)width > room)
            break;
        if (is_escaped(character)) {
            for (size_t i = 0; i < length; i++, count += ESCAPE_COLUMNS)
                write_escape(cells + count, (unsigned char)text[i]);
            continue;
        }
        cells[count++] = character;
        if (width == 2)
            cells[count++] = L'\0';
    }
    return count;
}

int text_columns(const char *text)
{
    wchar_t character;
    int columns = 0;
    size_t length;

    for (; (length = character_at(text, &character)) > 0; text += length)
        columns += character_width(character, length);
    return columns;
}

size_t text_fitting(const char *text, int width)
{
    wchar_t character;
    size_t used = 0, length;

    for (; (length = character_at(text + used, &character)) > 0; used += length) {
        width -= character_width(character, length);
        if (width < 0)
            break;
    }
    return used;
}

size_t text_piece(const char *text, int width)
{
    size_t piece = text_fitting(text, width);
    wchar_t character;

    if (text[piece] == '\0')
        return piece;
    for (size_t i = piece; i > 0; i--)
        if (text[i] == ' ')
            return i;
    return piece > 0                            ? piece
           : character_at(text, &character) > 0 ? character_at(text, &character)
                                                : 1;
}
