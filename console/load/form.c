#include "console/load/form.h"

#include <string.h>

enum { LABEL = 14, VALUE = 24, HELP = 28, WITH_HELP = 90, BETWEEN = 2 };

struct deed {
    enum action action; /* ACTION_NONE: only said */
    const char *text;   /* NULL ends them */
};

enum { DEEDS_MOST = 5 };

static const struct deed deeds[LOAD_DEEDS][DEEDS_MOST] = {
    [LOAD_DEEDS_FORM] = {{ACTION_RUN, "r runs"},
                         {ACTION_OPEN, "Enter edits"},
                         {ACTION_NEXT, "n next preset"},
                         {ACTION_MODE, "m past runs"}},
    [LOAD_DEEDS_RUNNING] = {{ACTION_STOP, "x stops"},
                            {ACTION_EDIT, "e changes rate or connections"},
                            {ACTION_NONE, "+ - server threads"},
                            {ACTION_MODE, "m past runs"}},
    [LOAD_DEEDS_PAST] = {{ACTION_NONE, "past runs:"},
                         {ACTION_COMPARE, "c compares"},
                         {ACTION_REMOVE, "d forgets"},
                         {ACTION_MODE, "m back to the form"}},
};

static void draw_field(const struct canvas *canvas, int y, int i, const char *text, bool here,
                       const char *unset)
{
    enum tone tone = text[0] != '\0' ? TONE_VALUE : TONE_DIM;

    if (here)
        canvas_repeat(canvas, y, 0, LABEL + VALUE, TONE_SELECTED, L' ');
    canvas_text(canvas, y, 0, TONE_SELECTED, here ? ">" : "");
    canvas_text(canvas, y, 1, here ? TONE_SELECTED : TONE_TITLE, load_field_table[i].label);
    canvas_text(canvas, y, LABEL, here ? TONE_SELECTED : tone, text[0] != '\0' ? text : unset);
    if (canvas->width >= WITH_HELP)
        canvas_text(canvas, y, LABEL + HELP, TONE_DIM, load_field_table[i].help);
}

void load_form_draw(struct load_form *form, const struct load_settings *settings, int field,
                    const struct scene *scene, const struct canvas *canvas)
{
    char target[LOAD_TEXT_BYTES];

    form->fields = *canvas;
    form->first = field < canvas->height ? 0 : field - canvas->height + 1;
    load_target_of(model_now(scene->model)->server.listening, target, sizeof(target));
    for (int y = 0; y < canvas->height && form->first + y < LOAD_FIELDS; y++) {
        int i = form->first + y;

        draw_field(canvas, y, i, settings->text[i], i == field, i == LOAD_TARGET ? target : "-");
    }
}

void load_form_draw_deeds(struct load_form *form, enum load_deeds offered,
                          const struct canvas *canvas)
{
    int x = 0;

    form->deeds = *canvas;
    form->offered = offered;
    for (const struct deed *deed = deeds[offered]; deed->text != NULL; deed++) {
        if (x + (int)strlen(deed->text) > canvas->width)
            return; /* the help has all of them */
        x = canvas_text(canvas, 0, x, TONE_DIM, deed->text) + BETWEEN;
    }
}

int load_form_field_at(const struct load_form *form, int y, int x)
{
    int field = form->first + y - form->fields.y;

    return canvas_holds(&form->fields, y, x) && field < LOAD_FIELDS ? field : -1;
}

enum action load_form_deed_at(const struct load_form *form, int y, int x)
{
    int from = form->deeds.x;

    if (!canvas_holds(&form->deeds, y, x))
        return ACTION_NONE;
    for (const struct deed *deed = deeds[form->offered]; deed->text != NULL; deed++) {
        int end = from + (int)strlen(deed->text);

        if (end > form->deeds.x + form->deeds.width)
            break;
        if (x >= from && x < end)
            return deed->action;
        from = end + BETWEEN;
    }
    return ACTION_NONE;
}
