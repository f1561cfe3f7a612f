/* The mouse: tabs, column titles, rows, answers, the wheel. Hold Shift to select text as without it. */

#include "console/app/session.h"

#include "console/app/frame.h"

static void click(struct program *program, int y, int x)
{
    struct scene scene = program_scene(program);
    const struct view *shown = view_table[program->view];
    int view = picture_view_at(&program->screen, shown, y, x);
    bool again;

    if (view >= 0)
        program_show_view(program, (size_t)view);
    else if (program->help || model_now(scene.model) == NULL)
        program->help = false;
    else if (controller_page(program->controller) != NULL)
        controller_close_page(program->controller);
    else if (program->detail)
        program->detail = false;
    else if (shown->click != NULL && shown->click(program->view_state[program->view], &scene, y, x))
        return;
    else if (grid_click(scene.grid, &scene, y, x, &again) && again)
        program->detail = true;
}

/* A turn of the wheel is three lines, of whatever is open. */
static void wheel(struct program *program, enum action action)
{
    struct scene scene = program_scene(program);
    const struct view *view = view_table[program->view];
    struct scroll *open = program->help                                  ? &program->help_scroll
                          : controller_page(program->controller) != NULL ? &program->page_scroll
                          : program->detail                              ? &program->detail_scroll
                                                                         : NULL;

    for (int i = 0; i < 3; i++) {
        if (open != NULL)
            scroll_key(open, action);
        else if (model_now(scene.model) != NULL &&
                 (view->key == NULL ||
                  !view->key(program->view_state[program->view], &scene, action)))
            grid_key(scene.grid, &scene, action);
    }
}

static void act(struct program *program, const struct pointer_event *event)
{
    struct dialog *dialog = controller_dialog(program->controller);

    if (dialog_open(dialog)) {
        if (event->what == POINTER_CLICK)
            dialog_click(dialog, &program->screen.foot, event->y, event->x);
    } else if (event->what == POINTER_CLICK) {
        click(program, event->y, event->x);
    } else {
        wheel(program, event->what == POINTER_WHEEL_UP ? ACTION_UP : ACTION_DOWN);
    }
}

void pointer_act(struct program *program)
{
    struct pointer_event events[SCREEN_POINTER_MOST];
    size_t count = screen_pointer(events);

    for (size_t i = 0; i < count && !program->ending; i++)
        act(program, &events[i]);
}
