#include "console/ui/text.h"

#include "common/clock.h"
#include "common/units.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

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
