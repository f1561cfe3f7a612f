#include "console/picture.h"

#include "common/instance.h"
#include "console/help.h"
#include "console/strip.h"
#include "console/summary.h"
#include "console/text.h"

#include <inttypes.h>
#include <string.h>

enum {
    NAME_FROM_WIDTH = 60, /* narrower bars have no room for the program's name */
    COUNTS_WIDTH = 34,    /* that the numbers of threads and workers may take at least */
};

static const struct snapshot *present(const struct picture *picture)
{
    return model_now(picture->scene->model);
}

/* The top line. */

static void draw_bar(const struct picture *picture, const struct canvas *bar)
{
    int x = 1;

    canvas_repeat(bar, 0, 0, bar->width, TONE_BAR, L' ');
    if (bar->width >= NAME_FROM_WIDTH)
        x = canvas_text(bar, 0, x, TONE_BAR, "wsconsole") + 2;
    for (size_t i = 0; i < VIEW_COUNT; i++) {
        const struct view *view = view_table[i];
        bool shown = view == picture->view && picture->help == NULL;

        x = canvas_print(bar, 0, x, shown ? TONE_TAB : TONE_BAR, shown ? "[%s %s]" : " %s %s ",
                         key_table[view->request].shown, view->name);
    }
    if (bar->width >= NAME_FROM_WIDTH)
        canvas_right(bar, 0, bar->width - 1, TONE_BAR, "? help  q quit");
}

/* The line about the server: who it is to the left, how many of everything to the right. */

static void draw_head(const struct picture *picture, const struct canvas *head)
{
    const struct snapshot *now = present(picture);
    char line[512];
    int right;

    if (source_state(picture->source) == SOURCE_ENDED) {
        canvas_print(head, 0, 0, TONE_BAD, "%s; this is its last moment",
                     source_why(picture->source));
        return;
    }
    if (source_state(picture->source) == SOURCE_SILENT) {
        canvas_text(head, 0, 0, TONE_WARN, source_why(picture->source));
        return;
    }
    summary_processes(now, line, sizeof(line),
                      head->width * 6 / 10 > COUNTS_WIDTH ? head->width * 6 / 10 : COUNTS_WIDTH);
    right = canvas_right(head, 0, head->width, now->stopping ? TONE_WARN : TONE_NORMAL, line);
    summary_identity(now, line, sizeof(line), right - 2);
    canvas_text(head, 0, 0, TONE_NOTE, line);
}

/* The bottom line: what has been said or asked, else the keys. */

static void draw_foot(const struct picture *picture, const struct canvas *foot)
{
    char clock[TEXT_SHORT];
    int end = foot->width - 1;

    canvas_repeat(foot, 0, 0, foot->width, TONE_BAR, L' ');
    if (picture->readonly)
        end = canvas_right(foot, 0, end, TONE_BAR, "read-only") - 2;
    if (picture->threads_asked != 0)
        end = canvas_right(foot, 0, end, TONE_BAR_KEY, "waiting for the daemon") - 2;
    if (picture->threads_asked != 0)
        canvas_print(foot, 0, 1, TONE_BAR_KEY, "threads %" PRIu32 " asked, %" PRIu32 " in force",
                     picture->threads_asked, present(picture)->threads_wanted);
    else if (picture->message != NULL)
        canvas_print(foot, 0, 1, picture->message_bad ? TONE_BAD : TONE_BAR_KEY, "%s%s",
                     picture->message_bad ? "not done: " : "", picture->message);
    else if (picture->frozen_at_ns != 0)
        canvas_print(foot, 0, 1, TONE_BAR_KEY, "FROZEN at %.8s; Space goes on",
                     text_clock(clock, picture->frozen_at_ns));
    else if (source_state(picture->source) == SOURCE_ENDED)
        canvas_text(foot, 0, 1, TONE_BAR_KEY, "attaches as soon as it runs again");
    else
        help_draw_brief(foot, 1, end);
}

/* Where no daemon is: why, and what to do. */

static void draw_absent(const struct picture *picture, const struct canvas *body)
{
    const char *name = source_name(picture->source);
    bool usual = strcmp(name, INSTANCE_DEFAULT_NAME) == 0;
    int y = body->height > 10 ? body->height / 3 : 0, x = body->width > 60 ? 4 : 0;

    canvas_text(body, y, x, TONE_WARN, source_why(picture->source));
    canvas_text(body, y + 2, x, TONE_NORMAL, "Start it in another terminal:");
    canvas_text(body, y + 3, x, TONE_VALUE, "  webserverd -f FILE");
    if (usual)
        canvas_text(body, y + 4, x, TONE_DIM, "Is it called otherwise? wsconsole -n NAME");
    else
        canvas_print(body, y + 4, x, TONE_DIM, "FILE has name = %s in its [server] section.", name);
    canvas_text(body, y + 6, x, TONE_NORMAL, "This console attaches as soon as it runs.");
}

static void draw_body(const struct picture *picture, const struct canvas *body)
{
    const struct view *view = picture->view;

    if (picture->help != NULL)
        help_draw(picture->help, body, present(picture));
    else if (present(picture) == NULL)
        draw_absent(picture, body);
    else if (view->ready != NULL && !view->ready(picture->scene))
        canvas_text(body, body->height / 3, 0, TONE_DIM, view->empty);
    else
        view->draw(picture->view_state, picture->scene, body);
}

/* All that fits on a very small terminal. */
static void draw_tiny(const struct picture *picture, const struct canvas *all)
{
    const struct snapshot *now = present(picture);
    char rate[TEXT_SHORT], p99[TEXT_SHORT], line[256] = "";

    if (now == NULL || source_state(picture->source) == SOURCE_ENDED) {
        canvas_text(all, 0, 0, TONE_WARN, source_why(picture->source));
        return;
    }
    summary_append(line, sizeof(line), all->width, "%s req/s",
                   text_count(rate, model_rate(picture->scene->model, METRIC_requests)));
    summary_append(line, sizeof(line), all->width, "threads %" PRIu32 "/%" PRIu32,
                   snapshot_threads_actual(now), now->workers_wanted * now->threads_wanted);
    summary_append(line, sizeof(line), all->width, "p99 %s",
                   text_latency(p99, model_percentile(picture->scene->model, 99)));
    canvas_text(all, 0, 0, TONE_NORMAL, line);
}

void picture_draw(const struct picture *picture, const struct screen *screen)
{
    screen_begin();
    if (screen->tiny) {
        draw_tiny(picture, &screen->all);
    } else {
        draw_bar(picture, &screen->bar);
        if (present(picture) != NULL)
            draw_head(picture, &screen->head);
        draw_body(picture, &screen->body);
        draw_foot(picture, &screen->foot);
    }
    screen_show();
}
