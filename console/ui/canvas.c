#include "console/ui/canvas.h"

#include "console/ui/text.h"

#include <curses.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_MAX_COLUMNS = 1024 };

static int min_int(int a, int b)
{
    return a < b ? a : b;
}

struct canvas canvas_part(const struct canvas *canvas, int y, int x, int height, int width)
{
    struct canvas part = {.y = canvas->y + y, .x = canvas->x + x};

    part.height = min_int(height, canvas->height - y);
    part.width = min_int(width, canvas->width - x);
    part.height = part.height < 0 ? 0 : part.height;
    part.width = part.width < 0 ? 0 : part.width;
    return part;
}

bool canvas_holds(const struct canvas *canvas, int y, int x)
{
    return y >= canvas->y && y < canvas->y + canvas->height && x >= canvas->x &&
           x < canvas->x + canvas->width;
}

void canvas_cells(const struct canvas *canvas, int y, int x, int count, enum tone tone,
                  const wchar_t *cells)
{
    if (y < 0 || y >= canvas->height || x < 0 || x >= canvas->width)
        return;
    attrset(theme_attributes(tone));
    mvaddnwstr(canvas->y + y, canvas->x + x, cells, min_int(count, canvas->width - x));
}

int canvas_text(const struct canvas *canvas, int y, int x, enum tone tone, const char *text)
{
    wchar_t cells[LINE_MAX_COLUMNS];
    size_t count = mbstowcs(cells, text, LINE_MAX_COLUMNS);

    if (count == (size_t)-1)
        return x;
    canvas_cells(canvas, y, x, (int)count, tone, cells);
    return x + (int)count;
}

int canvas_print(const struct canvas *canvas, int y, int x, enum tone tone, const char *format, ...)
{
    char text[LINE_MAX_COLUMNS];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    return canvas_text(canvas, y, x, tone, text);
}

int canvas_item(const struct canvas *canvas, int y, int x, enum tone tone, const char *format, ...)
{
    char text[LINE_MAX_COLUMNS];
    va_list arguments;
    size_t count;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    count = mbstowcs(NULL, text, 0);
    if (count == (size_t)-1 || x + (int)count > canvas->width)
        return x;
    return canvas_text(canvas, y, x, tone, text);
}

int canvas_wrapped(const struct canvas *canvas, int y, enum tone tone, const char *text)
{
    char piece[LINE_MAX_COLUMNS];

    while (*text != '\0' && canvas->width > 0) {
        snprintf(piece, sizeof(piece), "%.*s", (int)text_piece(text, canvas->width), text);
        canvas_text(canvas, y++, 0, tone, piece);
        text += strlen(piece);
        text += strspn(text, " ");
    }
    return y;
}

int canvas_right(const struct canvas *canvas, int y, int end, enum tone tone, const char *text)
{
    size_t count = mbstowcs(NULL, text, 0);
    int x = count == (size_t)-1 ? end : end - (int)count;

    canvas_text(canvas, y, x < 0 ? 0 : x, tone, text);
    return x;
}

void canvas_repeat(const struct canvas *canvas, int y, int x, int count, enum tone tone,
                   wchar_t glyph)
{
    wchar_t cells[LINE_MAX_COLUMNS];

    count = min_int(count, LINE_MAX_COLUMNS);
    for (int i = 0; i < count; i++)
        cells[i] = glyph;
    canvas_cells(canvas, y, x, count, tone, cells);
}
