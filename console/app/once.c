#include "console/app/program.h"

#include "common/clock.h"
#include "common/escape.h"
#include "console/data/instances.h"
#include "console/data/watch.h"
#include "console/scene/controller.h"
#include "console/ui/text.h"
#include "console/views/subject.h"
#include "console/views/views.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SAMPLE_NS        (NS_PER_S * 6 / 10) /* long enough for the model to compute rates */
#define POLL_NS          (NS_PER_S / 5)
#define EVERY_NS         (2 * NS_PER_S)
#define REPLY_TIMEOUT_NS (5 * NS_PER_S)

static void pause_for(uint64_t ns)
{
    struct timespec left = {.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};

    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

/* Reads the log meanwhile, so that no request is missed. */
static void pause_reading(struct watch *watch, uint64_t ns)
{
    uint64_t now_ns = clock_monotonic_ns(), end_ns = now_ns + ns;

    while (now_ns < end_ns) {
        uint64_t due_ns = watch_log_due_ns(watch);

        if (due_ns > now_ns)
            pause_for((due_ns < end_ns ? due_ns : end_ns) - now_ns);
        now_ns = clock_monotonic_ns();
        watch_read_log(watch, now_ns, clock_wall_ns());
    }
}

static void take_origins_answer(void *context, bool ok, const char *answer)
{
    if (ok)
        watch_set_origins(context, answer);
    else
        escape_report("wsconsole: cannot read the origins of values", answer);
}

/*
 * Requests the origins, which are not in shared memory, and waits for the reply. Uses a controller
 * of its own, so that a late reply is dropped.
 */
static void request_origins(const struct options *options, struct watch *watch)
{
    const struct controller_options setting = {
        .instance = options->name, .socket = options->socket, .readonly = true, .watch = watch};
    uint64_t now_ns = clock_monotonic_ns(), until_ns = now_ns + REPLY_TIMEOUT_NS;
    struct controller *controller;

    if (!watch_needs_origins(watch, options->view != NULL ? options->view->wants : WANT_ALL))
        return;
    controller = controller_create(&setting);
    if (controller != NULL)
        controller_call(controller, "config", take_origins_answer, watch);
    for (; controller != NULL && controller_calls_waiting(controller) > 0 && now_ns < until_ns;
         now_ns = clock_monotonic_ns()) {
        struct pollfd wait = {.fd = controller_descriptor(controller), .events = POLLIN};

        poll(&wait, 1, (int)(POLL_NS / NS_PER_MS));
        controller_update(controller, clock_monotonic_ns());
    }
    if (controller != NULL && controller_calls_waiting(controller) > 0)
        fprintf(stderr,
                "wsconsole: cannot read the origins of values: the daemon does not answer\n");
    controller_destroy(controller);
}

/* Opens VIEW for one print; view_close() must follow. */
static int open_for_print(struct open_view *open, const struct view *view, struct scene *scene)
{
    if (view_open(open, view, scene->filter) != 0)
        return -1;
    scene->grid = &open->grid;
    if (view->list != NULL)
        grid_update(&open->grid, scene);
    return 0;
}

static json_t *json_of_view(const struct view *view, struct scene *scene)
{
    struct open_view open;
    json_t *json = NULL;

    if (open_for_print(&open, view, scene) == 0)
        json = view->json != NULL ? view->json(open.state, scene) : grid_json(&open.grid, scene);
    scene->grid = NULL;
    view_close(&open);
    return json;
}

static int print_text(const struct options *options, struct scene *scene)
{
    const struct view *view = options->view;
    struct open_view open;
    int failed = open_for_print(&open, view, scene);

    if (!failed && options->csv)
        grid_print_csv(&open.grid, scene, stdout);
    else if (!failed && view->once != NULL)
        view->once(open.state, scene, stdout);
    else if (!failed)
        grid_print(&open.grid, scene, stdout);
    scene->grid = NULL;
    view_close(&open);
    return failed ? EXIT_FAILED : EXIT_DONE;
}

static int print_views_json(const struct options *options, struct scene *scene)
{
    const struct snapshot *now = model_now(scene->model);
    char started[TEXT_SHORT], time[TEXT_SHORT], *text, *safe;
    json_t *all = json_object(),
           *server = json_pack("{s:s, s:i, s:s, s:s, s:s, s:s}", "name", now->server.name, "pid",
                               (int)now->server.pid, "version", now->server.version, "listening",
                               now->server.listening, "started",
                               text_rfc3339(started, now->server.started_ns), "time",
                               text_rfc3339(time, now->wall_ns));
    int failed = json_object_set_new(all, "server", server);

    for (size_t i = 0; i < VIEW_COUNT; i++) {
        const struct view *view = view_table[i];

        if (options->view != NULL ? options->view == view : view_has_data(view, scene))
            failed |= json_object_set_new(all, view->name, json_of_view(view, scene));
    }
    text = failed ? NULL : json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(15));
    safe = text != NULL ? escape_json_text(text) : NULL;
    if (safe != NULL)
        puts(safe);
    failed = safe == NULL;
    free(safe);
    free(text);
    json_decref(all);
    return failed ? EXIT_FAILED : EXIT_DONE;
}

/* Says why, and which servers do run: several, or one with another name than was given. */
static int report_no_daemon(const struct options *options, const struct source *source)
{
    char text[4096];

    if (!options->name_given && instances_ambiguous(options->name, text, sizeof(text))) {
        escape_report("wsconsole", text);
        return EXIT_NO_DAEMON;
    }
    escape_report("wsconsole", source_why(source));
    instances_advise(text, sizeof(text));
    escape_report("wsconsole", text);
    return EXIT_NO_DAEMON;
}

static int print_scene(const struct options *options, struct watch *watch)
{
    struct filter filter = {0};
    struct scene scene = scene_of(watch);
    char why[160];

    scene.span_s = options->span_s;
    scene.style = GRAPH_ASCII;
    scene.ascii = true;
    scene.filter = &filter;
    if (options->filter != NULL)
        filter = *options->filter;
    if (options->json && options->view == NULL)
        return print_views_json(options, &scene);
    if (!view_has_data(options->view, &scene)) {
        snprintf(why, sizeof(why), "%s does not publish this: %s",
                 model_now(scene.model)->server.name, options->view->name);
        escape_report("wsconsole", why);
        return EXIT_FAILED;
    }
    return options->json ? print_views_json(options, &scene) : print_text(options, &scene);
}

static int sample_live(struct watch *watch)
{
    uint64_t now_ns = clock_monotonic_ns(), wall_ns = clock_wall_ns();
    char why[512] = "out of memory";

    if (watch_sample(watch, now_ns, wall_ns, WANT_ALL) == 0 &&
        watch_record(watch, now_ns, wall_ns, why, sizeof(why)) == 0)
        return EXIT_DONE;
    escape_report("wsconsole", why);
    return EXIT_FAILED;
}

static bool daemon_is_there(const struct watch *watch)
{
    enum source_state state = source_state(watch_source(watch));

    return state != SOURCE_ABSENT && state != SOURCE_ENDED;
}

/* Takes the first sample; waits for a daemon as long as the options allow. */
static int wait_for_daemon(const struct options *options, struct watch *watch)
{
    uint64_t until_ns = clock_monotonic_ns() + options->wait_s * NS_PER_S;

    for (;;) {
        if (sample_live(watch) != EXIT_DONE)
            return EXIT_FAILED;
        if (daemon_is_there(watch))
            return EXIT_DONE;
        if (!options->wait_given || clock_monotonic_ns() >= until_ns)
            return report_no_daemon(options, watch_source(watch));
        pause_for(POLL_NS);
    }
}

/* Of another program, whose board stays when it dies. */
static bool has_last_sample(const struct watch *watch)
{
    const struct snapshot *now = model_now(watch_model(watch));

    return now != NULL && now->server.lacks_section[SEGMENT_CONFIG];
}

static int print_live(const struct options *options, struct watch *watch)
{
    uint64_t every_ns =
        options->every_s > 0 ? (uint64_t)(options->every_s * (double)NS_PER_S) : EVERY_NS;
    int status = wait_for_daemon(options, watch);

    for (uint64_t i = 0;
         status == EXIT_DONE && (options->print_count == 0 || i < options->print_count); i++) {
        uint64_t left_ns = i == 0 ? SAMPLE_NS : every_ns;

        request_origins(options, watch);
        for (; left_ns > 0 && status == EXIT_DONE;
             left_ns -= left_ns < SAMPLE_NS ? left_ns : SAMPLE_NS) {
            pause_reading(watch, left_ns < SAMPLE_NS ? left_ns : SAMPLE_NS);
            status = sample_live(watch);
        }
        if (status == EXIT_DONE && !daemon_is_there(watch)) {
            if (has_last_sample(watch))
                print_scene(options, watch);
            return report_no_daemon(options, watch_source(watch));
        }
        if (status == EXIT_DONE)
            status = print_scene(options, watch);
        if (fflush(stdout) != 0)
            break;
    }
    return status;
}

static int print_replayed(const struct options *options, struct watch *watch)
{
    uint64_t at_ns = options->at_given ? options->at_ns : replay_length_ns(watch_replay(watch));
    int failed = watch_replay_to(watch, at_ns, WANT_ALL);

    if (replay_error(watch_replay(watch)) != NULL)
        escape_report("wsconsole", replay_error(watch_replay(watch)));
    if (!failed && model_now(watch_model(watch)) != NULL)
        return print_scene(options, watch);
    escape_report("wsconsole", failed ? "out of memory" : "no data to show");
    return EXIT_FAILED;
}

int once_run(const struct options *options)
{
    struct subject_term terms[SUBJECT_TERMS];
    char why[512] = "out of memory";
    struct watch *watch = options->replay != NULL
                              ? watch_open_replay(options->replay, why, sizeof(why))
                              : watch_open(options->name);
    int status;

    if (watch == NULL) {
        escape_report("wsconsole", why);
        return EXIT_FAILED;
    }
    if (watch_choose_hosts(watch, terms, subject_host_terms(options->filter, terms)) != 0) {
        escape_report("wsconsole", "out of memory");
        watch_close(watch);
        return EXIT_FAILED;
    }
    if (options->record != NULL && watch_record_to(watch, options->record, why, sizeof(why)) != 0) {
        escape_report("wsconsole", why);
        watch_close(watch);
        return EXIT_FAILED;
    }
    status = options->replay != NULL ? print_replayed(options, watch) : print_live(options, watch);
    if (watch_record_end(watch, why, sizeof(why)) != 0) {
        escape_report("wsconsole", why);
        status = EXIT_FAILED;
    }
    watch_close(watch);
    if (fflush(stdout) != 0) {
        fprintf(stderr, "wsconsole: cannot write: %s\n", strerror(errno));
        return EXIT_FAILED;
    }
    return status;
}
