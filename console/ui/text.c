#include "console/ui/text.h"

#include "common/clock.h"
#include "common/units.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static bool is_plain(unsigned char c)
{
    return c >= ' ' && c < 0x7f && c != '\\';
}

/* How many bytes at the front need no escape: a loop that compilers turn into wide compares. */
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

char *text_escape(char *buffer, size_t size, const char *bytes, size_t count)
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

char *text_latency(char *buffer, double ns)
{
    return isfinite(ns) ? units_format_ns(buffer, TEXT_SHORT, ns) : none(buffer);
}

char *text_percent(char *buffer, double ratio)
{
    if (!isfinite(ratio))
        return none(buffer);
    snprintf(buffer, TEXT_SHORT, ratio >= 0.9995 ? "%.0f%%" : "%.1f%%", 100 * ratio);
    return buffer;
}

char *text_since(char *buffer, uint64_t ns)
{
    return ns < NS_PER_S ? units_format_ns(buffer, TEXT_SHORT, (double)ns)
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

size_t text_piece(const char *text, int width)
{
    size_t length = strlen(text), piece = width > 0 ? (size_t)width : 1;

    if (length <= piece)
        return length;
    for (size_t i = piece; i > 0; i--)
        if (text[i] == ' ')
            return i;
    return piece;
}
