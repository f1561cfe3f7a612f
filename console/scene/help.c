#include "console/scene/help.h"

#include "console/scene/scene.h"
#include "console/ui/text.h"

#include <stdio.h>
#include <string.h>

enum {
    GROUP_WIDTH = 9,
    KEY_WIDTH = 11,
    LINES_MAX = 400,
    NARROW = 50,
    ALIGNED = 100, /* from this width on the texts of all numbers begin in one column */
    LEAST_TEXT = 30
};

/* A line of the help: a key or a letter with its text. */
struct line {
    enum tone tone;
    const char *group; /* heading; NULL: same as the line before */
    char left[28];
    int at; /* column of `right` */
    char right[160];
};

static struct lines {
    struct line line[LINES_MAX];
    int count, width;
    int label_width; /* minimum */
} shown;             /* as last drawn; too large for the stack */

/*
 * Adds a line; a text wider than the screen is wrapped. After a label that leaves too little room
 * the text begins in the next line.
 */
static void add_help_line(struct lines *lines, const char *group, enum tone tone, const char *left,
                          const char *right)
{
    int width = (int)strlen(left), least = lines->label_width;
    int at = GROUP_WIDTH + (width == 0 ? 0 : width < least ? least : width + 1);
    bool apart = lines->width - at < LEAST_TEXT && at > GROUP_WIDTH + KEY_WIDTH;

    at = apart ? GROUP_WIDTH + KEY_WIDTH : at;
    do {
        struct line *line = &lines->line[lines->count];
        size_t piece = apart ? 0 : text_piece(right, lines->width - at);

        if (lines->count == LINES_MAX)
            return;
        *line = (struct line){.tone = tone, .group = group, .at = at};
        snprintf(line->left, sizeof(line->left), "%s", left);
        snprintf(line->right, sizeof(line->right), "%.*s", (int)piece, right);
        lines->count++;
        right += piece;
        right += strspn(right, " ");
        group = NULL;
        left = "";
        apart = false;
    } while (*right != '\0');
}

static const char *number_text(const struct view_number *number)
{
    switch (number->kind) {
    case NUMBER_METRIC:
        return metric_table[number->number].help;
    case NUMBER_FIGURE:
        return figure_table[number->number].help;
    case NUMBER_TEXT:
        break;
    }
    return number->text;
}

static void add_view_numbers(struct lines *lines, const struct view_number *number)
{
    for (const struct view_number *one = number;
         lines->width >= ALIGNED && one != NULL && one->label != NULL; one++)
        if ((int)strlen(one->label) >= lines->label_width)
            lines->label_width = (int)strlen(one->label) + 1;
    for (bool first = true; number != NULL && number->label != NULL; number++, first = false)
        add_help_line(lines, first ? "Numbers" : NULL, TONE_VALUE, number->label,
                      number_text(number));
}

static void add_letters(struct lines *lines, const struct snapshot *now)
{
    const char *group = "Letters";

    for (uint32_t state = THREAD_STATE_NONE + 1; state < THREAD_STATE_COUNT; state++) {
        char left[3] = {thread_state_table[state].letter, '\0'}, right[120];
        const char *name = thread_state_table[state].name, *text = thread_state_table[state].help;

        if (now != NULL && state < now->server.state_count) {
            name = now->server.states[state].name;
            text = now->server.states[state].help;
        }
        if (name[0] == '\0') /* the server does not use it */
            continue;
        snprintf(right, sizeof(right), "%s: %s", name, text);
        add_help_line(lines, group, strip_tone(state), left, right);
        group = NULL;
    }
}

static void add_all_lines(struct lines *lines, int width, const struct view *view,
                          const struct snapshot *now)
{
    lines->count = 0;
    lines->width = width;
    lines->label_width = KEY_WIDTH;
    for (size_t i = 0; view->help != NULL && view->help[i] != NULL; i++)
        add_help_line(lines, i == 0 ? view->name : NULL, TONE_VALUE, "", view->help[i]);
    add_view_numbers(lines, view->numbers);
    lines->label_width = KEY_WIDTH;
    for (int i = 0; i < ACTION_COUNT; i++) {
        const struct key_info *key = &key_table[i];
        bool first = i == 0 || strcmp(key->group, key_table[i - 1].group) != 0;

        add_help_line(lines, first ? key->group : NULL, TONE_VALUE, key->shown, key->help);
    }
    /* The commands of the console; `:help` lists those of the server. */
    add_help_line(lines, "Commands", TONE_VALUE, ":help",
                  "List the server's commands, or explain one");
    add_help_line(lines, NULL, TONE_VALUE, ":show",
                  "Show one path, client, status or thread: path=/x");
    add_help_line(lines, NULL, TONE_VALUE, ":set",
                  "Change a setting of this console: theme, fps, ascii ...");
    add_help_line(lines, NULL, TONE_VALUE, ":save", "Save the settings to console.ini");
    add_help_line(lines, "Mouse", TONE_VALUE, "click",
                  "Show a view, select or open a row, sort by a column");
    add_help_line(lines, NULL, TONE_VALUE, "",
                  "A click on a graph of the overview goes to that second");
    add_help_line(lines, NULL, TONE_VALUE, "wheel", "Scroll; hold Shift to select text");
    add_letters(lines, now);
}

/* Draws TEXT, and SOUGHT in it as a selection. */
static void draw_found(const struct canvas *canvas, int y, int x, enum tone tone, const char *text,
                       const char *sought)
{
    const char *found = sought[0] != '\0' ? strcasestr(text, sought) : NULL;

    canvas_text(canvas, y, x, tone, text);
    if (found != NULL)
        canvas_print(canvas, y, x + (int)(found - text), TONE_SELECTED, "%.*s", (int)strlen(sought),
                     found);
}

void help_draw(struct scroll *scroll, const struct canvas *canvas, const struct view *view,
               const struct snapshot *now, const char *sought)
{
    int page = canvas->height - 1;

    add_all_lines(&shown, canvas->width, view, now);
    scroll_fit(scroll, shown.count, page);
    for (int i = 0; i < page && scroll->top + i < shown.count; i++) {
        const struct line *line = &shown.line[scroll->top + i];

        draw_found(canvas, i, 0, TONE_TITLE, line->group != NULL ? line->group : "", sought);
        draw_found(canvas, i, GROUP_WIDTH, line->tone, line->left, sought);
        draw_found(canvas, i, line->at, TONE_NORMAL, line->right, sought);
    }
    canvas_print(canvas, page, 0, TONE_DIM, "Help, lines %d to %d of %d. %s? closes.",
                 scroll->top + 1,
                 scroll->top + page < shown.count ? scroll->top + page : shown.count, shown.count,
                 canvas->width < NARROW ? "" : "Up and Down move, / searches, ");
}

static bool has_sought(const struct line *line, const char *sought)
{
    return (line->group != NULL && strcasestr(line->group, sought) != NULL) ||
           strcasestr(line->left, sought) != NULL || strcasestr(line->right, sought) != NULL;
}

bool help_find(struct scroll *scroll, int width, const struct view *view,
               const struct snapshot *now, const char *sought, int direction)
{
    int step = direction < 0 ? -1 : 1, count;

    add_all_lines(&shown, width, view, now); /* it may not have been drawn yet */
    count = shown.count;
    scroll_fit(scroll, count, scroll->page);
    for (int i = direction == 0 ? 0 : 1; i <= count && sought[0] != '\0'; i++) {
        int at = (scroll->top + step * i + count) % count;

        if (has_sought(&shown.line[at], sought)) {
            scroll->top = at;
            return true;
        }
    }
    return false;
}

/* The columns of the keys on the last line. */
static struct {
    int from[ACTION_COUNT], to[ACTION_COUNT];
} drawn;

/* Draws a key and BRIEF at X if they fit before END; returns the column after them. */
static int draw_hint(const struct canvas *canvas, int x, int end, int action, const char *brief)
{
    int width = (int)(strlen(key_table[action].shown) + strlen(brief)) + 3;

    if (x + width > end)
        return x;
    drawn.from[action] = x;
    x = canvas_text(canvas, 0, x, TONE_BAR_KEY, key_table[action].shown);
    x = canvas_print(canvas, 0, x, TONE_BAR, " %s", brief);
    drawn.to[action] = x;
    return x + 2;
}

/* Of an empty view only the keys that change the server do something. */
static bool is_hinted(const struct view_hint *hint, const struct help_context *context)
{
    if (hint->changes ? !context->changes : context->empty)
        return false;
    return hint->works == HINT_ALWAYS || (context->rows && hint->works == HINT_ROWS) ||
           context->selecting;
}

/* Whether ACTION, of the keys that work in several views, does something at present. */
static bool is_possible(int action, const struct help_context *context)
{
    switch (action) {
    case ACTION_FILTER:
        return context->list;
    case ACTION_FILTER_ROW:
    case ACTION_COPY:
    case ACTION_SORT:
    case ACTION_SORT_REVERSE:
    case ACTION_COLUMNS_RIGHT:
    case ACTION_COLUMNS_LEFT:
    case ACTION_OPEN:
        return context->rows;
    case ACTION_FREEZE:
    case ACTION_EARLIER:
    case ACTION_MUCH_EARLIER:
        return context->moment;
    case ACTION_LATER:
    case ACTION_MUCH_LATER:
        return context->later;
    case ACTION_MARK_NEXT:
        return context->mark_later;
    case ACTION_MARK_PREVIOUS:
        return context->mark_earlier;
    case ACTION_SPAN:
    case ACTION_SCALE:
        return context->span;
    default:
        return true;
    }
}

static bool is_in_group(int action, const char *group)
{
    return strcmp(key_table[action].group, group) == 0;
}

/* Draws the keys of GROUP that have a brief word, or of all groups but two if GROUP is NULL. */
static int draw_hints_of(const struct canvas *canvas, int x, int end, const char *group,
                         const struct help_context *context)
{
    for (int i = 0; i < ACTION_COUNT; i++) {
        const struct key_info *key = &key_table[i];
        const char *brief = i == ACTION_FREEZE    ? context->freeze
                            : i == ACTION_EARLIER ? context->earlier
                                                  : key->brief;
        bool wanted = group != NULL ? is_in_group(i, group)
                                    : !is_in_group(i, "Server") && !is_in_group(i, "Lists");

        if (key->brief[0] != '\0' && wanted && drawn.to[i] == 0 && is_possible(i, context))
            x = draw_hint(canvas, x, end, i, brief);
    }
    return x;
}

void help_draw_brief(const struct canvas *canvas, int x, int end, const struct view_hint *hints,
                     const struct help_context *context)
{
    memset(&drawn, 0, sizeof(drawn));
    for (const struct view_hint *hint = hints; hint != NULL && hint->brief[0] != '\0'; hint++)
        if (is_hinted(hint, context))
            x = draw_hint(canvas, x, end, (int)hint->action, hint->brief);
    x = draw_hints_of(canvas, x, end, "Lists", context);
    x = draw_hint(canvas, x, end, ACTION_MENU, key_table[ACTION_MENU].brief);
    if (context->changes && context->server)
        x = draw_hints_of(canvas, x, end, "Server", context);
    draw_hints_of(canvas, x, end, NULL, context);
}

static size_t add_items_of(const char *group, const struct help_context *context, const bool *taken,
                           struct help_item *items, size_t count)
{
    for (int i = 0; i < ACTION_COUNT; i++)
        if (is_in_group(i, group) && !taken[i] && is_possible(i, context))
            items[count++] = (struct help_item){(enum action)i, key_table[i].help};
    return count;
}

size_t help_items(const struct view_hint *hints, const struct help_context *context,
                  struct help_item *items)
{
    bool taken[ACTION_COUNT] = {false};
    size_t count = 0;

    for (const struct view_hint *hint = hints; hint != NULL && hint->brief[0] != '\0'; hint++)
        if (is_hinted(hint, context)) {
            items[count++] = (struct help_item){hint->action, hint->brief};
            taken[hint->action] = true;
        }
    count = add_items_of("Lists", context, taken, items, count);
    if (context->changes && context->server)
        count = add_items_of("Server", context, taken, items, count);
    return add_items_of("Time", context, taken, items, count);
}

void help_draw_brief_text(const struct canvas *canvas, int x, int end, bool scrolls)
{
    memset(&drawn, 0, sizeof(drawn));
    x = draw_hint(canvas, x, end, ACTION_CLOSE, "close");
    if (scrolls)
        draw_hint(canvas, draw_hint(canvas, x, end, ACTION_DOWN, "scroll"), end, ACTION_PAGE_DOWN,
                  "page");
}

enum action help_brief_at(int x)
{
    int i = 0;

    while (i < ACTION_COUNT && (x < drawn.from[i] || x >= drawn.to[i]))
        i++;
    return (enum action)i;
}
