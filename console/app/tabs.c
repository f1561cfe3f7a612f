#include "console/app/tabs.h"

#include "console/views/views.h"

#include <string.h>

/*
 * A tab has two blanks, its key and its name; one blank, key and name; the same, but the last one only
 * its key; or all but the one shown only their keys.
 */
enum style { LOOSE, TIGHT, TIGHT_BUT_LAST, NUMBERS };

/* As last drawn. */
static struct {
    int from[VIEW_COUNT], to[VIEW_COUNT]; /* columns; the same: no tab */
    bool keys;
} drawn;

bool tabs_have(const struct scene *scene, size_t view, size_t shown)
{
    return view == shown || view_table[view]->hidden == NULL || !view_table[view]->hidden(scene);
}

static const char *key_of(size_t view)
{
    return key_table[view_table[view]->action].shown;
}

/* The last view with a tab, except the one shown. */
static size_t last_tab(const struct scene *scene, size_t shown)
{
    size_t view = VIEW_COUNT - 1;

    while (view > 0 && (view == shown || !tabs_have(scene, view, shown)))
        view--;
    return view;
}

static bool is_named(const struct scene *scene, enum style style, size_t view, size_t shown)
{
    return view == shown || style == LOOSE || style == TIGHT ||
           (style == TIGHT_BUT_LAST && view != last_tab(scene, shown));
}

static int tab_width(const struct scene *scene, enum style style, size_t view, size_t shown)
{
    int width = (int)strlen(key_of(view)) + (style == LOOSE || style == NUMBERS ? 2 : 1);

    if (!tabs_have(scene, view, shown))
        return 0;
    return width +
           (is_named(scene, style, view, shown) ? 1 + (int)strlen(view_table[view]->name) : 0);
}

static int all_width(const struct scene *scene, enum style style, size_t shown)
{
    int width = style == LOOSE ? 0 : 1;

    for (size_t i = 0; i < VIEW_COUNT; i++)
        width += tab_width(scene, style, i, shown);
    return width;
}

void tabs_draw(const struct canvas *bar, const struct scene *scene, size_t shown, bool covered)
{
    static const char program[] = "wsconsole";
    int after = 1 + (int)strlen(program) + 2, x;
    enum style style = LOOSE;

    while (style < NUMBERS && all_width(scene, style, shown) > bar->width)
        style++;
    x = after + all_width(scene, LOOSE, shown) <= bar->width ? after : 0;
    drawn.keys = x + all_width(scene, LOOSE, shown) + (int)strlen(TABS_KEYS) + 1 <= bar->width;
    canvas_repeat(bar, 0, 0, bar->width, TONE_BAR, L' ');
    if (x > 0)
        canvas_text(bar, 0, 1, TONE_BAR, program);
    for (size_t i = 0; i < VIEW_COUNT; i++) {
        bool current = i == shown && !covered, named = is_named(scene, style, i, shown);
        enum tone tone = current ? TONE_TAB : TONE_BAR;
        int end;

        drawn.from[i] = x;
        drawn.to[i] = x += tab_width(scene, style, i, shown);
        if (drawn.from[i] == x)
            continue;
        end = canvas_print(bar, 0, drawn.from[i] + 1, tone, "%s%s%s", key_of(i), named ? " " : "",
                           named ? view_table[i]->name : "");
        if (current) {
            canvas_text(bar, 0, drawn.from[i], tone, "[");
            canvas_text(bar, 0, end, tone, "]");
        }
    }
    if (drawn.keys)
        canvas_right(bar, 0, bar->width - 1, TONE_BAR, TABS_KEYS);
}

int tabs_view_at(int x)
{
    for (size_t i = 0; i < VIEW_COUNT; i++)
        if (x >= drawn.from[i] && x < drawn.to[i])
            return (int)i;
    return -1;
}

bool tabs_have_keys(void)
{
    return drawn.keys;
}
