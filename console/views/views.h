/* The registry of views, from views.def, in the order of their tabs. */
#ifndef CONSOLE_VIEWS_H
#define CONSOLE_VIEWS_H

#include "console/scene/scene.h"

enum {
#define VIEW(name) VIEW_NUMBER_##name,
#include "console/views/views.def"
#undef VIEW
    VIEW_COUNT
};

extern const struct view *const view_table[VIEW_COUNT];
extern const char *const view_names[VIEW_COUNT];

/*
 * Checks that each column in FILTER is in a list of some view. Returns 0, or -1 with a message in
 * WHY that has the most similar name.
 */
int views_check_filter(const struct filter *filter, char *why, size_t size);

/*
 * Checks a text such as "log client took; top max": a view and names of columns of its lists,
 * which are hidden. Returns 0, or -1 with a message in WHY.
 */
int views_check_columns(const char *text, char *why, size_t size);

/* The names that the valid TEXT has for VIEW, separated by blanks. */
void views_hidden_columns(const char *text, const struct view *view, char *names, size_t size);

/* The view called NAME, or NULL. */
const struct view *view_named(const char *name);

/* A view with its state and its list. */
struct open_view {
    const struct view *view;
    void *state;
    struct grid grid;
};

/* FILTER is borrowed. Returns 0, or -1: out of memory; call view_close() after both. */
int view_open(struct open_view *open, const struct view *view, const struct filter *filter);

/* Frees what the view owns and ends the processes it started. Does nothing if OPEN is zeroed. */
/* False if the server does not publish what VIEW shows. */
bool view_has_data(const struct view *view, const struct scene *scene);

void view_close(struct open_view *open);

#endif
