/*
 * The load's form as it is drawn: the fields with their values, the line of what can be done, and
 * which of them is at a place of the screen. The console's only thread.
 */
#ifndef CONSOLE_LOAD_FORM_H
#define CONSOLE_LOAD_FORM_H

#include "console/load/settings.h"
#include "console/scene/scene.h"
#include "console/ui/canvas.h"
#include "console/ui/keys.h"

/* What can be done before a run, during one, and with those of the past. */
enum load_deeds { LOAD_DEEDS_FORM, LOAD_DEEDS_RUNNING, LOAD_DEEDS_PAST, LOAD_DEEDS };

/* Where the form was drawn last; all zero when it was not. */
struct load_form {
    struct canvas fields, deeds;
    int first; /* the field in the first line */
    enum load_deeds offered;
};

/* Draws FIELD as the selected one. */
void load_form_draw(struct load_form *form, const struct load_settings *settings, int field,
                    const struct scene *scene, const struct canvas *canvas);

/* One line of what can be done now. */
void load_form_draw_deeds(struct load_form *form, enum load_deeds offered,
                          const struct canvas *canvas);

/* The field at Y, X of the screen, or -1. */
int load_form_field_at(const struct load_form *form, int y, int x);

/* What is offered at Y, X of the screen, or ACTION_NONE. */
enum action load_form_deed_at(const struct load_form *form, int y, int x);

#endif
