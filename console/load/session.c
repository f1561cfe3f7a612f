#include "console/load/session.h"

#include "common/clock.h"
#include "common/macros.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SETTLE_MS = 300, SETTLE_MOST_MS = 3000 };

static struct load_server_sample server_now(const struct scene *scene)
{
    if (scene->moment != MOMENT_LIVE)
        return (struct load_server_sample){NAN, NAN, NAN};
    return (struct load_server_sample){model_rate(scene->model, METRIC_requests),
                                       model_percentile(scene->model, 50),
                                       model_percentile(scene->model, 99)};
}

void load_session_start(struct load_session *session, const struct load_settings *settings,
                        const struct scene *scene)
{
    const struct snapshot *now = model_now(scene->model);
    const char *argv[LOAD_ARGUMENTS_MAX], *url = settings->text[LOAD_TARGET];
    char target[LOAD_TEXT_BYTES], control[8], why[CONTROLLER_TEXT];

    if (!controller_allows_change(scene->controller))
        return;
    load_target_default(now->server.listening, target, sizeof(target));
    url = url[0] != '\0' ? url : target;
    if (url[0] == '\0') {
        controller_report(scene->controller, true,
                          "the server listens on no TCP address: enter a target");
        return;
    }
    snprintf(control, sizeof(control), "%d", CHILD_CONTROL_FD);
    load_settings_arguments(settings, target, control, argv);
    if (child_start(&session->child, argv, why, sizeof(why)) != 0) {
        controller_report(scene->controller, true, "%s", why);
        return;
    }
    load_run_begin(session->run, settings, url, clock_wall_ns());
    session->run->own_server = load_target_matches(url, now->server.listening);
    session->run->server_before = now->sums[METRIC_requests];
    snprintf(session->run->server, sizeof(session->run->server), "%.30s %.20s", now->server.name,
             now->server.version);
    session->event_ns = session->run->started_ns;
    marks_add(scene->marks, MARK_load, session->run->started_ns, "load run begins");
    session->phase = LOAD_RUNNING;
}

/* Length of the part of an event that describes a change or its effect; 0: it is about neither. */
static size_t change_length(const char *text)
{
    const char *by = strstr(text, ", by uid");

    if (by != NULL)
        return (size_t)(by - text);
    return strstr(text, "connections moved") != NULL ? strlen(text) : 0;
}

/* Changes of the server become marks, and so do the moments when its connections have followed. */
static void mark_changes(struct load_session *session, const struct scene *scene)
{
    const struct event_row *rows[16];
    size_t count =
        event_list_rows(scene->events, true, LEVEL_INFO, UINT64_MAX, rows, ARRAY_LENGTH(rows));

    while (count > 0) {
        const struct event_row *event = rows[--count];
        size_t length = change_length(event->text);
        char text[LOAD_MARK_BYTES];

        if (event->last_ns <= session->event_ns || length == 0)
            continue;
        session->event_ns = event->last_ns;
        snprintf(text, sizeof(text), "%.*s", (int)length, event->text);
        load_run_mark(session->run, (double)(event->last_ns - session->run->started_ns) / 1e9,
                      text);
    }
}

static void take_line(void *context, const char *line)
{
    struct load_session *session = context;
    struct load_server_sample server = server_now(session->scene);
    json_t *object;

    if (load_run_progress(session->run, line, &server))
        return;
    object = json_loads(line, 0, NULL);
    if (json_object_get(object, "why") != NULL)
        controller_report(session->controller, true, "%s",
                          json_string_value(json_object_get(object, "why")));
    json_decref(object);
}

static void finish(struct load_session *session)
{
    char why[CONTROLLER_TEXT], words[CONTROLLER_TEXT];

    session->phase = LOAD_DONE;
    if (session->run->totals.begun == 0) {
        controller_report(session->controller, true, "%s",
                          session->run->failure[0] != '\0' ? session->run->failure
                                                           : "wsload did not start a request");
        return;
    }
    load_run_check_text(session->run, words, sizeof(words));
    controller_report(session->controller, false, "run ended%s%s", words[0] != '\0' ? ": " : "",
                      words);
    if (load_store_add(session->store, session->run, why, sizeof(why)) != 0)
        controller_report(session->controller, true, "%s", why);
}

/*
 * The server counts a response shortly after the client received it, and is sampled about ten times
 * a second: its count is final when it has stopped changing.
 */
static void settle(struct load_session *session, const struct scene *scene)
{
    const struct snapshot *now = model_now(scene->model);

    if (session->phase != LOAD_SETTLING || scene->moment != MOMENT_LIVE)
        return;
    if (now->sums[METRIC_requests] != session->counted || session->counted_ns == 0) {
        session->counted = now->sums[METRIC_requests];
        session->counted_ns = now->time_ns;
    }
    session->run->server_after = session->counted;
    if (now->time_ns >= session->counted_ns + SETTLE_MS * NS_PER_MS ||
        now->time_ns >= session->ended_ns + SETTLE_MOST_MS * NS_PER_MS)
        finish(session);
}

void load_session_update(struct load_session *session, const struct scene *scene)
{
    int status;

    session->scene = scene;
    session->controller = scene->controller;
    if (load_session_active(session))
        mark_changes(session, scene);
    if (child_update(&session->child, take_line, session, &status)) {
        session->run->exit_status = status;
        load_run_report(session->run, session->child.text, session->child.output_length);
        session->phase = LOAD_SETTLING;
        marks_add(scene->marks, MARK_load, clock_wall_ns(), "load run ends");
        session->ended_ns = model_now(scene->model)->time_ns;
        session->counted_ns = 0;
    }
    settle(session, scene);
}

int load_session_init(struct load_session *session, struct load_store *store)
{
    child_init(&session->child);
    session->store = store;
    session->run = calloc(1, sizeof(*session->run));
    return session->run != NULL ? 0 : -1;
}

void load_session_release(struct load_session *session)
{
    child_release(&session->child);
    free(session->run);
}

bool load_session_active(const struct load_session *session)
{
    return session->phase == LOAD_RUNNING || session->phase == LOAD_SETTLING;
}
