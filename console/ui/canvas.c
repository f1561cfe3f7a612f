#include "console/ui/canvas.h"

#include "console/ui/text.h"

#include <curses.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LINE_MAX_COLUMNS = 1024 };

/* Theme */

struct look {
    short front, back; /* -1: the terminal's default */
    attr_t attributes;
    short front_256, back_256; /* on terminals with 256 colours; 0: as above */
};

const char *const theme_names[THEME_COUNT] = {"dark", "light", "mono"};

static const struct look looks[THEME_COUNT][TONE_COUNT] =
    {
        [THEME_DARK] =
            {
                [TONE_NORMAL] = {-1, -1, A_NORMAL, 0, 0},
                [TONE_DIM] = {-1, -1, A_DIM, 0, 0},
                [TONE_TITLE] = {COLOR_CYAN, -1, A_NORMAL, 109, -1},
                [TONE_VALUE] = {-1, -1, A_BOLD, 0, 0},
                [TONE_GOOD] = {COLOR_GREEN, -1, A_NORMAL, 0, 0},
                [TONE_NOTE] = {COLOR_CYAN, -1, A_NORMAL, 0, 0},
                [TONE_WARN] = {COLOR_YELLOW, -1, A_NORMAL, 0, 0},
                [TONE_BAD] = {COLOR_RED, -1, A_BOLD, 0, 0},
                [TONE_GRAPH] = {COLOR_GREEN, -1, A_NORMAL, 108, -1},
                [TONE_GRAPH_LOW] = {COLOR_GREEN, -1, A_NORMAL, 65, -1},
                [TONE_GRAPH_HIGH] = {COLOR_GREEN, -1, A_NORMAL, 150, -1},
                [TONE_PEAK] = {COLOR_YELLOW, -1, A_BOLD, 0, 0},
                [TONE_BAR] = {COLOR_WHITE, COLOR_BLUE, A_NORMAL, 250, 236},
                [TONE_BAR_KEY] = {COLOR_YELLOW, COLOR_BLUE, A_BOLD, 222, 236},
                [TONE_TAB] = {COLOR_BLACK, COLOR_CYAN, A_NORMAL, 234, 109},
                [TONE_SELECTED] = {COLOR_BLACK, COLOR_WHITE, A_NORMAL, 234, 152},
                [TONE_GRAPH_BAD] = {COLOR_RED, -1, A_NORMAL, 0, 0},
            },
        [THEME_LIGHT] =
            {
                [TONE_NORMAL] = {-1, -1, A_NORMAL, 0, 0},
                [TONE_DIM] = {-1, -1, A_DIM, 0, 0},
                [TONE_TITLE] = {COLOR_BLUE, -1, A_NORMAL, 0, 0},
                [TONE_VALUE] = {-1, -1, A_BOLD, 0, 0},
                [TONE_GOOD] = {COLOR_GREEN, -1, A_NORMAL, 0, 0},
                [TONE_NOTE] = {COLOR_BLUE, -1, A_NORMAL, 0, 0},
                [TONE_WARN] = {COLOR_MAGENTA, -1, A_NORMAL, 0, 0},
                [TONE_BAD] = {COLOR_RED, -1, A_BOLD, 0, 0},
                [TONE_GRAPH] = {COLOR_BLUE, -1, A_NORMAL, 0, 0},
                [TONE_GRAPH_LOW] = {COLOR_BLUE, -1, A_NORMAL, 67, -1},
                [TONE_GRAPH_HIGH] = {COLOR_BLUE, -1, A_NORMAL, 18, -1},
                [TONE_PEAK] = {COLOR_MAGENTA, -1, A_BOLD, 0, 0},
                [TONE_BAR] = {COLOR_WHITE, COLOR_BLUE, A_NORMAL, 236, 253},
                [TONE_BAR_KEY] = {COLOR_WHITE, COLOR_BLUE, A_BOLD, 25, 253},
                [TONE_TAB] = {COLOR_BLACK, COLOR_WHITE, A_NORMAL, 255, 25},
                [TONE_SELECTED] = {COLOR_WHITE, COLOR_BLACK, A_NORMAL, 255, 31},
                [TONE_GRAPH_BAD] = {COLOR_RED, -1, A_NORMAL, 0, 0},
            },
        [THEME_MONO] =
            {
                [TONE_NORMAL] = {-1, -1, A_NORMAL, 0, 0},
                [TONE_DIM] = {-1, -1, A_NORMAL, 0, 0},
                [TONE_TITLE] = {-1, -1, A_UNDERLINE, 0, 0},
                [TONE_VALUE] = {-1, -1, A_BOLD, 0, 0},
                [TONE_GOOD] = {-1, -1, A_NORMAL, 0, 0},
                [TONE_NOTE] = {-1, -1, A_NORMAL, 0, 0},
                [TONE_WARN] = {-1, -1, A_BOLD, 0, 0},
                [TONE_BAD] = {-1, -1, A_BOLD | A_REVERSE, 0, 0},
                [TONE_GRAPH] = {-1, -1, A_NORMAL, 0, 0},
                [TONE_GRAPH_LOW] = {-1, -1, A_NORMAL, 0, 0},
                [TONE_GRAPH_HIGH] = {-1, -1, A_NORMAL, 0, 0},
                [TONE_PEAK] = {-1, -1, A_BOLD, 0, 0},
                [TONE_BAR] = {-1, -1, A_REVERSE, 0, 0},
                [TONE_BAR_KEY] = {-1, -1, A_REVERSE | A_BOLD, 0, 0},
                [TONE_TAB] = {-1, -1, A_BOLD, 0, 0},
                [TONE_SELECTED] = {-1, -1, A_REVERSE, 0, 0},
                [TONE_GRAPH_BAD] = {-1, -1, A_NORMAL, 0, 0},
            },
};

static enum theme in_force = THEME_MONO;

enum theme theme_named(const char *name)
{
    int theme = 0;

    while (theme < THEME_COUNT && strcmp(name, theme_names[theme]) != 0)
        theme++;
    return (enum theme)theme;
}

void theme_start(enum theme theme)
{
    in_force = THEME_MONO;
    if (theme == THEME_MONO || !has_colors() || start_color() == ERR)
        return;
    if (use_default_colors() == ERR)
        return; /* the themes need the terminal's default background */
    for (int tone = 0; tone < TONE_COUNT; tone++) {
        const struct look *look = &looks[theme][tone];
        bool many = COLORS >= 256 && (look->front_256 != 0 || look->back_256 != 0);

        if (init_pair((short)(tone + 1), many ? look->front_256 : look->front,
                      many ? look->back_256 : look->back) == ERR)
            return;
    }
    in_force = theme;
}

struct tone_look theme_look(enum theme theme, enum tone tone)
{
    const struct look *look = &looks[theme][tone];
    bool many = look->front_256 != 0 || look->back_256 != 0;

    return (struct tone_look){.front = many ? look->front_256 : look->front,
                              .back = many ? look->back_256 : look->back,
                              .bold = (look->attributes & A_BOLD) != 0,
                              .dim = (look->attributes & A_DIM) != 0,
                              .underlined = (look->attributes & A_UNDERLINE) != 0,
                              .reverse = (look->attributes & A_REVERSE) != 0};
}

/* Off the terminal */

static struct sheet *drawn_on; /* NULL: the terminal */

void sheet_use(struct sheet *sheet)
{
    drawn_on = sheet;
}

void sheet_clear(struct sheet *sheet)
{
    for (int i = 0; i < sheet->height * sheet->width; i++)
        sheet->cells[i] = (struct sheet_cell){L' ', TONE_NORMAL};
}

static void draw_on_sheet(int y, int x, int count, enum tone tone, const wchar_t *cells)
{
    if (y >= 0 && y < drawn_on->height)
        for (int i = 0; i < count; i++)
            if (x + i >= 0 && x + i < drawn_on->width)
                drawn_on->cells[y * drawn_on->width + x + i] = (struct sheet_cell){cells[i], tone};
}

/* Drawing */

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

/* The second cell of a wide character is 0. A character with room for only one cell is left out. */
void canvas_cells(const struct canvas *canvas, int y, int x, int count, enum tone tone,
                  const wchar_t *cells)
{
    attr_t attributes = looks[in_force][tone].attributes;
    int shown = min_int(count, canvas->width - x);

    if (count <= 0 || y < 0 || y >= canvas->height || x < 0 || x >= canvas->width)
        return;
    if (shown > 0 && shown < count && cells[shown] == L'\0')
        shown--;
    if (drawn_on != NULL) {
        draw_on_sheet(canvas->y + y, canvas->x + x, shown, tone, cells);
        return;
    }
    if (in_force != THEME_MONO)
        attributes |= (attr_t)COLOR_PAIR(tone + 1);
    attrset((int)attributes);
    move(canvas->y + y, canvas->x + x);
    for (int i = 0, run = 0; i <= shown; i++)
        if (i == shown || cells[i] == L'\0') {
            addnwstr(cells + run, i - run);
            run = i + 1;
        }
}

int canvas_text(const struct canvas *canvas, int y, int x, enum tone tone, const char *text)
{
    wchar_t cells[LINE_MAX_COLUMNS];
    int count = (int)text_cells(text, cells, LINE_MAX_COLUMNS), room = canvas->width - x;
    wchar_t cut[4];
    int dots = (int)text_cells(text_cut(), cut, ARRAY_LENGTH(cut));

    if (count > room && room > dots && x >= 0) {
        canvas_cells(canvas, y, x, room, tone, cells);
        canvas_cells(canvas, y, x + room - dots, dots, tone, cut);
    } else {
        canvas_cells(canvas, y, x, count, tone, cells);
    }
    return x + count;
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

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (x + text_columns(text) > canvas->width)
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
    int x = end - text_columns(text);

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

/* Layout */

/* Total height of the shown parts, including gaps. */
static int total_height(const struct layout_part *parts, const int *sizes, size_t count)
{
    int lines = 0;

    for (size_t i = 0; i < count; i++)
        if (sizes[i] > 0)
            lines += sizes[i] + (lines > 0 ? parts[i].gap : 0);
    return lines;
}

static int shown_parts(const int *sizes, size_t count)
{
    int parts = 0;

    for (size_t i = 0; i < count; i++)
        parts += sizes[i] > 0;
    return parts;
}

static void drop_part(const struct layout_part *parts, int *sizes, size_t count)
{
    size_t least = count;

    for (size_t i = 0; i < count; i++)
        if (sizes[i] > 0 && (least == count || parts[i].importance <= parts[least].importance))
            least = i;
    if (least < count)
        sizes[least] = 0;
}

/* Gives one line to the part that is smallest relative to its weight; false if none can grow. */
static bool grow_one(const struct layout_part *parts, int *sizes, size_t count)
{
    size_t next = count;

    for (size_t i = 0; i < count; i++) {
        bool grows =
            sizes[i] > 0 && parts[i].weight > 0 && (parts[i].max == 0 || sizes[i] < parts[i].max);

        if (grows &&
            (next == count || sizes[i] * parts[next].weight < sizes[next] * parts[i].weight))
            next = i;
    }
    if (next == count)
        return false;
    sizes[next]++;
    return true;
}

int layout_stack(const struct canvas *canvas, const struct layout_part *parts, size_t count,
                 struct canvas *places)
{
    int sizes[LAYOUT_PARTS_MAX], at = 0;

    count = count < LAYOUT_PARTS_MAX ? count : LAYOUT_PARTS_MAX;
    for (size_t i = 0; i < count; i++)
        sizes[i] = parts[i].min;
    while (total_height(parts, sizes, count) > canvas->height && shown_parts(sizes, count) > 1)
        drop_part(parts, sizes, count);
    for (int left = canvas->height - total_height(parts, sizes, count); left > 0; left--)
        if (!grow_one(parts, sizes, count))
            break;
    for (size_t i = 0; i < count; i++) {
        at += sizes[i] > 0 && at > 0 ? parts[i].gap : 0;
        places[i] = canvas_part(canvas, at, 0, sizes[i], canvas->width);
        at += sizes[i];
    }
    return shown_parts(sizes, count);
}
