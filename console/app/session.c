#include "console/app/session.h"

#include "console/views/subject.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int open_watch(struct session *session, char *why, size_t size)
{
    const struct options *options = session->options;

    if (options->replay != NULL) {
        session->watch = watch_open_replay(options->replay, why, size);
        session->timeline.frozen = options->at_given;
        session->timeline.replay_at_ns = (double)options->at_ns;
        return session->watch != NULL ? 0 : -1;
    }
    session->watch = watch_open(options->name);
    if (session->watch == NULL) {
        snprintf(why, size, "out of memory");
        return -1;
    }
    return options->record != NULL ? watch_record_to(session->watch, options->record, why, size)
                                   : 0;
}

static int open_views(struct session *session)
{
    session->views = calloc(VIEW_COUNT, sizeof(*session->views));
    for (size_t i = 0; i < VIEW_COUNT; i++) {
        if (session->views == NULL ||
            view_open(&session->views[i], view_table[i], &session->filter) != 0)
            return -1;
        session->views[i].grid.ascii = &session->screen.ascii;
        if (view_table[i] == session->options->view)
            session->view = i;
    }
    return 0;
}

int session_open(struct session *session, struct options *options, struct lab *lab,
                 struct session_next *next, char *why, size_t size)
{
    struct controller_options control = {
        .name = options->name, .socket = options->socket, .readonly = options->readonly};

    *session =
        (struct session){.options = options, .next = next, .lab = lab, .status = EXIT_FAILED};
    if (open_views(session) != 0) {
        snprintf(why, size, "out of memory");
        return -1;
    }
    if (open_watch(session, why, size) != 0)
        return -1;
    if (options->filter != NULL)
        session_set_filter(session, options->filter);
    session_set_alerts(session);
    control.watch = session->watch;
    session->controller = controller_create(&control);
    if (session->controller != NULL)
        return 0;
    snprintf(why, size, "out of memory");
    return -1;
}

void session_close(struct session *session)
{
    for (size_t i = 0; session->views != NULL && i < VIEW_COUNT; i++)
        view_close(&session->views[i]);
    free(session->views);
    controller_destroy(session->controller);
    watch_close(session->watch);
}

struct scene session_scene(const struct session *session)
{
    struct scene scene = scene_of(session->watch);

    if (scene.moment == MOMENT_LIVE && session->timeline.frozen)
        scene.moment = session->timeline.back > 0 ? MOMENT_PAST : MOMENT_FROZEN;
    scene.filter = &session->filter;
    scene.grid = session_grid(session);
    scene.controller = session->controller;
    scene.span_s = session->options->span_s;
    scene.logarithmic = session->options->log_scale;
    scene.style = session->screen.style;
    scene.ascii = session->screen.ascii;
    return scene;
}

void session_set_filter(struct session *session, const struct filter *filter)
{
    struct subject_term terms[SUBJECT_TERMS];

    session->filter = *filter;
    if (watch_choose_hosts(session->watch, terms, subject_host_terms(filter, terms)) != 0)
        session->failure = "out of memory";
}

static void hide_subject(struct session *session)
{
    session->overlays.subject = false;
    watch_hide_subject(session->watch);
}

int session_show_subject(struct session *session, const struct filter *filter, char *why,
                         size_t size)
{
    struct subject_term terms[SUBJECT_TERMS];
    int count = subject_terms(filter, terms, why, size);

    if (count < 0)
        return -1;
    if (watch_show_subject(session->watch, terms, (size_t)count) != 0) {
        snprintf(why, size, "out of memory");
        return -1;
    }
    session->subject = *filter;
    session->overlays.subject = true;
    session->overlays.subject_scroll = (struct scroll){0};
    return 0;
}

void session_show_view(struct session *session, size_t view)
{
    struct scene scene;

    session->view = view;
    session->overlays.help = false;
    session->overlays.detail = false;
    hide_subject(session);
    controller_close_page(session->controller);
    scene = session_scene(session);
    if (scene.grid->list != NULL && model_now(scene.model) != NULL)
        grid_update(scene.grid, &scene); /* the next key may arrive before the list is drawn */
}

void session_set_alerts(struct session *session)
{
    struct alerts *alerts = &session->alarm.alerts, wanted = {.count = 0};
    char why[OPTIONS_WHY];

    alerts_add_list(&wanted, session->options->alerts, why, sizeof(why)); /* it was checked */
    for (size_t i = 0; i < wanted.count; i++)
        for (size_t j = 0; j < alerts->count; j++)
            if (strcmp(wanted.alert[i].rule.text, alerts->alert[j].rule.text) == 0)
                wanted.alert[i] = alerts->alert[j];
    memcpy(alerts->alert, wanted.alert, sizeof(alerts->alert));
    alerts->count = wanted.count;
}

static void end_now(void *context)
{
    ((struct session *)context)->ending = true;
}

/* The user stays: forget which session was to follow. */
static void stay(void *context)
{
    *((struct session *)context)->next = (struct session_next){.wanted = false};
}

void session_end(struct session *session)
{
    for (size_t i = 0; i < VIEW_COUNT; i++) {
        const char *question = view_table[i]->unfinished != NULL
                                   ? view_table[i]->unfinished(session->views[i].state)
                                   : NULL;

        if (question != NULL) {
            controller_confirm(session->controller, question, end_now, session);
            controller_dialog(session->controller)->gone = stay;
            return;
        }
    }
    end_now(session);
}

void session_switch_instance(struct session *session, const char *name)
{
    if (watch_replays(session->watch)) {
        controller_report(session->controller, true,
                          "this is a recording: restart without --replay");
        return;
    }
    if (session->options->record != NULL) {
        controller_report(session->controller, true,
                          "this server is being recorded: a recording has only one server");
        return;
    }
    snprintf(session->next->name, sizeof(session->next->name), "%s", name);
    session->next->wanted = true;
    session_end(session);
}

void session_switch_scenario(struct session *session, const struct lab_scenario *scenario)
{
    if (session->options->record != NULL) {
        controller_report(session->controller, true,
                          "this server is being recorded: a scenario uses another one");
        return;
    }
    session->next->lab = scenario;
    session->next->lab_wanted = true;
    session_end(session);
}

bool session_close_overlay(struct session *session)
{
    if (session->overlays.help)
        session->overlays.help = false;
    else if (controller_page(session->controller) != NULL)
        controller_close_page(session->controller);
    else if (session->overlays.detail)
        session->overlays.detail = false;
    else if (session->overlays.subject)
        hide_subject(session);
    else
        return false;
    return true;
}

struct scroll *session_overlay_scroll(struct session *session)
{
    struct overlays *overlays = &session->overlays;

    if (overlays->help)
        return &overlays->help_scroll;
    if (controller_page(session->controller) != NULL)
        return &overlays->page_scroll;
    if (overlays->detail)
        return &overlays->detail_scroll;
    return overlays->subject ? &overlays->subject_scroll : NULL;
}
