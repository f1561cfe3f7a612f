#include "console/once.h"

#include "common/clock.h"
#include "console/rows.h"
#include "console/view.h"
#include "console/watch.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_NO_DAEMON = 3, ONCE_SPAN_S = 60 };

#define APART_NS (NS_PER_S * 6 / 10) /* long enough for the model to have an interval */

static void pause_for(uint64_t ns)
{
    struct timespec left = {.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};

    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

static json_t *json_server(const struct snapshot *now)
{
    return json_pack("{s:s, s:i, s:s, s:s, s:I, s:I}", "name", now->server.name, "pid",
                     (int)now->server.pid, "version", now->server.version, "listening",
                     now->server.listening, "started_ns", (json_int_t)now->server.started_ns,
                     "time_ns", (json_int_t)now->wall_ns);
}

/* A view with what belongs to it, for one print. */
struct stand {
    const struct view *view;
    void *state;
    struct grid grid;
};

static int set_up(struct stand *stand, const struct view *view, struct scene *scene)
{
    stand->view = view;
    stand->state = calloc(1, view->state_size + 1);
    grid_start(&stand->grid, view->list, stand->state);
    scene->grid = &stand->grid;
    if (stand->state == NULL)
        return -1;
    if (view->list != NULL)
        grid_update(&stand->grid, scene);
    return 0;
}

static void take_down(struct stand *stand)
{
    if (stand->view->release != NULL && stand->state != NULL)
        stand->view->release(stand->state);
    grid_release(&stand->grid);
    free(stand->state);
}

static json_t *json_of_view(const struct view *view, struct scene *scene)
{
    struct stand stand;
    json_t *json = NULL;

    if (set_up(&stand, view, scene) == 0)
        json = view->json != NULL ? view->json(stand.state, scene) : rows_json(&stand.grid, scene);
    take_down(&stand);
    return json;
}

static int print_text(const struct view *view, struct scene *scene, bool csv)
{
    struct stand stand;
    int failed = set_up(&stand, view, scene);

    if (!failed && csv)
        rows_print_csv(&stand.grid, scene, stdout);
    else if (!failed && view->once != NULL)
        view->once(stand.state, scene, stdout);
    else if (!failed)
        rows_print(&stand.grid, scene, stdout);
    take_down(&stand);
    return failed ? EXIT_FAILED : EXIT_DONE;
}

static int print_json(const struct options *options, struct scene *scene)
{
    json_t *all = json_object();
    int failed = json_object_set_new(all, "server", json_server(model_now(scene->model)));

    for (size_t i = 0; i < VIEW_COUNT; i++)
        if (options->view == NULL || options->view == view_table[i])
            failed |=
                json_object_set_new(all, view_table[i]->name, json_of_view(view_table[i], scene));
    if (!failed && json_dumpf(all, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9)) == 0)
        putchar('\n');
    else
        failed = 1;
    json_decref(all);
    return failed ? EXIT_FAILED : EXIT_DONE;
}

static int say_no_daemon(const struct source *source)
{
    fprintf(stderr, "wsconsole: %s\n", source_why(source));
    return EXIT_NO_DAEMON;
}

static int print_watched(const struct options *options, struct watch *watch)
{
    struct scene scene = {.model = watch_model(watch),
                          .history = watch_history(watch),
                          .tail = watch_tail(watch),
                          .top = watch_top(watch),
                          .outcomes = watch_outcomes(watch),
                          .events = watch_events(watch),
                          .processes = watch_processes(watch),
                          .cache = watch_cache(watch),
                          .config = watch_config(watch),
                          .span_s = ONCE_SPAN_S};
    enum source_state state;

    for (int i = 0; i < 2; i++) {
        if (watch_sample(watch, clock_monotonic_ns(), clock_wall_ns(), WANT_ALL) != 0) {
            fprintf(stderr, "wsconsole: out of memory\n");
            return EXIT_FAILED;
        }
        state = source_state(watch_source(watch));
        if (state == SOURCE_ABSENT || state == SOURCE_ENDED)
            return say_no_daemon(watch_source(watch));
        if (i == 0)
            pause_for(APART_NS);
    }
    if (options->json)
        return print_json(options, &scene);
    return print_text(options->view, &scene, options->csv);
}

int once_run(const struct options *options)
{
    struct watch *watch = watch_open(options->name);
    int status;

    if (watch == NULL) {
        fprintf(stderr, "wsconsole: out of memory\n");
        return EXIT_FAILED;
    }
    status = print_watched(options, watch);
    watch_close(watch);
    if (fflush(stdout) != 0) {
        fprintf(stderr, "wsconsole: cannot write: %s\n", strerror(errno));
        return EXIT_FAILED;
    }
    return status;
}
