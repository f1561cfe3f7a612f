#include "console/app/session.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/process.h"
#include "console/data/server_info.h"
#include "console/ui/text.h"
#include "console/views/subject.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

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
        session->views[i].grid.folds_at_once = session->options->replay != NULL;
        if (view_table[i] == session->options->view)
            session->view = i;
    }
    return 0;
}

int session_open(struct session *session, struct options *options, struct lab *lab,
                 struct session_next *next, char *why, size_t size)
{
    struct controller_options control = {
        .instance = options->name, .socket = options->socket, .readonly = options->readonly};

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
    session_hide_columns(session);
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

void session_hide_columns(struct session *session)
{
    for (size_t i = 0; i < VIEW_COUNT; i++) {
        struct grid *grid = &session->views[i].grid;

        views_hidden_columns(session->options->hide_columns, view_table[i], grid->unwanted,
                             sizeof(grid->unwanted));
    }
}

void session_keep_columns(struct session *session)
{
    char *text = session->options->hide_columns;
    size_t used = 0, size = sizeof(session->options->hide_columns);

    text[0] = '\0';
    for (size_t i = 0; i < VIEW_COUNT && used < size; i++)
        if (session->views[i].grid.unwanted[0] != '\0')
            used += (size_t)snprintf(text + used, size - used, "%s%s %s", used > 0 ? "; " : "",
                                     view_table[i]->name, session->views[i].grid.unwanted);
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

void session_update_views(struct session *session)
{
    struct scene scene = session_scene(session);

    for (size_t i = 0; i < VIEW_COUNT; i++) {
        scene.grid = &session->views[i].grid;
        if (view_table[i]->update != NULL)
            view_table[i]->update(session->views[i].state, &scene);
    }
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
    session->overlays.actions = false;
    session->overlays.detail = false;
    hide_subject(session);
    controller_close_page(session->controller);
    scene = session_scene(session);
    if (scene.grid->list != NULL && model_now(scene.model) != NULL)
        grid_update(scene.grid, &scene); /* the next key may arrive before the list is drawn */
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
    if (session->overlays.actions)
        session->overlays.actions = false;
    else if (session->overlays.help)
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

/* The time shown */

static void check_memory(struct session *session, int result)
{
    if (result != 0)
        session->failure = "out of memory";
}

#define PLAYED_AT_ONCE_NS (10 * NS_PER_S)   /* of the recording */
#define PLAY_FOR_NS       (200 * NS_PER_MS) /* of CPU time */

/* Plays to AT_NS of the recording, but not for long. Returns whether it is there. */
static bool play_to(struct session *session, uint64_t at_ns)
{
    const struct replay *replay = watch_replay(session->watch);
    uint64_t until_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID) + PLAY_FOR_NS, to_ns = 0;

    if (at_ns >= replay_at_ns(replay))
        to_ns = replay_at_ns(replay);
    do {
        to_ns = at_ns - to_ns > PLAYED_AT_ONCE_NS ? to_ns + PLAYED_AT_ONCE_NS : at_ns;
        check_memory(session, watch_replay_to(session->watch, to_ns, WANT_ALL));
    } while (to_ns < at_ns && session->failure == NULL &&
             clock_read_ns(CLOCK_THREAD_CPUTIME_ID) < until_ns);
    return to_ns == at_ns;
}

bool timeline_sample(struct session *session, uint64_t now_ns)
{
    struct timeline *timeline = &session->timeline;
    double length_ns;

    if (!watch_replays(session->watch)) {
        if (!timeline->frozen)
            check_memory(session, watch_sample(session->watch, now_ns, clock_wall_ns(),
                                               session_view(session)->wants));
        return true;
    }
    length_ns = (double)replay_length_ns(watch_replay(session->watch));
    if (!timeline->frozen && timeline->replay_ns != 0)
        timeline->replay_at_ns +=
            (double)(now_ns - timeline->replay_ns) * session->options->replay_speed;
    timeline->replay_ns = now_ns;
    if (timeline->replay_at_ns >= length_ns) {
        timeline->replay_at_ns = length_ns;
        timeline->frozen = true;
    }
    return play_to(session, (uint64_t)timeline->replay_at_ns);
}

/* Takes a last sample of all data, because another view may be shown while frozen. */
static void freeze_timeline(struct session *session)
{
    if (session->timeline.frozen)
        return;
    session->timeline.frozen = true;
    check_memory(session,
                 watch_sample(session->watch, clock_monotonic_ns(), clock_wall_ns(), WANT_ALL));
}

void timeline_toggle_freeze(struct session *session)
{
    struct timeline *timeline = &session->timeline;

    timeline->back = 0;
    timeline->mark_ns = 0;
    timeline->next_sample_ns = 0;
    if (!timeline->frozen && !watch_replays(session->watch))
        freeze_timeline(session);
    else
        timeline->frozen = !timeline->frozen;
}

/* Moves to SECONDS after AT_NS of the recording. */
static void seek_replay(struct session *session, double at_ns, long seconds)
{
    double length_ns = (double)replay_length_ns(watch_replay(session->watch));

    at_ns += (double)seconds * (double)NS_PER_S;
    session->timeline.replay_at_ns = at_ns < 0 ? 0 : at_ns > length_ns ? length_ns : at_ns;
    session->timeline.next_sample_ns = 0;
}

void timeline_move(struct session *session, long seconds)
{
    struct timeline *timeline = &session->timeline;
    struct watch *watch = session->watch;
    long step = (long)history_resolution(watch_info(watch)->history, timeline->back), back;

    timeline->mark_ns = 0;
    if (watch_replays(watch)) {
        seek_replay(session, timeline->replay_at_ns, seconds);
        return;
    }
    if (!timeline->frozen && seconds > 0)
        return; /* live: cannot move forward */
    freeze_timeline(session);
    back = (long)timeline->back - (labs(seconds) >= step ? seconds : seconds < 0 ? -step : step);
    timeline->back = watch_look_back(watch, back > 0 ? (size_t)back : 0);
}

/* A recording is shown a second after the mark, so that the event has been read. */
void timeline_show_mark(struct session *session, uint64_t time_ns)
{
    const struct replay *replay = watch_replay(session->watch);
    double ahead_ns;

    if (replay != NULL) {
        ahead_ns = (double)time_ns + (double)NS_PER_S - (double)replay_wall_ns(replay);
        session->timeline.frozen = true;
        seek_replay(session, (double)replay_at_ns(replay), (long)ceil(ahead_ns / (double)NS_PER_S));
    } else {
        freeze_timeline(session);
        session->timeline.back = watch_look_back(
            session->watch, history_back_of(watch_info(session->watch)->history, time_ns));
    }
    session->timeline.mark_ns = time_ns;
}

/* Alerts */

void session_set_alerts(struct session *session)
{
    alerts_set_list(watch_alerts(session->watch), session->options->alerts);
}

enum { ALERTS_PAGE_BYTES = 8192 };

/*
 * Starts the program of the options without a shell or a terminal, unless too many of its kind
 * still run. It may outlive the console.
 */
static void run_alert_command(struct session *session, const struct alert_record *record)
{
    const char *const argv[] = {session->options->alert_command, NULL};
    const int fds[] = {-1, -1, -1};
    size_t i = 0;

    while (i < ALERT_PROGRAMS && session->alert_programs[i] != 0)
        i++;
    if (argv[0][0] == '\0' || i == ALERT_PROGRAMS)
        return;
    session->alert_programs[i] = process_fork();
    if (session->alert_programs[i] < 0)
        session->alert_programs[i] = 0;
    else if (session->alert_programs[i] == 0) {
        prctl(PR_SET_PDEATHSIG, 0);
        setsid();
        setenv("WSCONSOLE_ALERT", record->rule, 1);
        setenv("WSCONSOLE_STATE", alert_change_names[record->change], 1);
        setenv("WSCONSOLE_VALUE", record->value, 1);
        setenv("WSCONSOLE_INSTANCE", watch_info(session->watch)->snapshot.server.name, 1);
        process_exec(argv[0], argv, fds, ARRAY_LENGTH(fds));
    }
}

/* The program, the bell and the events are about the server now, not about a recording. */
void session_report_alerts(struct session *session)
{
    const struct alerts *alerts = watch_alerts(session->watch);
    bool bell = false;

    for (size_t i = 0; i < ALERT_PROGRAMS; i++)
        if (session->alert_programs[i] != 0 &&
            waitpid(session->alert_programs[i], NULL, WNOHANG) != 0)
            session->alert_programs[i] = 0;
    if (watch_replays(session->watch))
        return;
    for (; session->alerts_reported < alerts->recorded; session->alerts_reported++) {
        const struct alert_record *record =
            alerts_record(alerts, alerts->recorded - 1 - session->alerts_reported);

        watch_add_alert(session->watch, record);
        run_alert_command(session, record);
        bell |= record->change == ALERT_BEGAN && record->severity == SEVERITY_BAD;
    }
    if (bell)
        screen_bell();
}

/* Writes the rules of the user, or the default rules, with their values. */
static void write_rules(const struct session *session, bool defaults, FILE *out)
{
    const struct alerts *alerts = watch_alerts(session->watch);
    const struct alert_facts facts = server_info_facts(watch_info(session->watch));
    char value[ALERT_VALUE_BYTES];

    for (size_t i = 0; i < alerts->count; i++) {
        const struct alert *alert = &alerts->alert[i];
        double now = alert_rule_value(&alert->rule, &facts);

        if ((alert->health != NULL) == defaults)
            fprintf(out, "%s: now %s%s\n", alert->rule.text,
                    alert_rule_format(&alert->rule, now, value, sizeof(value)),
                    alert->active ? ", active" : "");
    }
}

void session_show_alerts(struct session *session)
{
    char text[ALERTS_PAGE_BYTES] = "";
    const struct alerts *alerts = watch_alerts(session->watch);
    uint64_t records = alerts->recorded < ALERT_RECORDS ? alerts->recorded : ALERT_RECORDS;
    char clock[TEXT_SHORT];
    FILE *out = fmemopen(text, sizeof(text) - 1, "w");

    if (out == NULL)
        return;
    write_rules(session, false, out);
    if (records > 0)
        fprintf(out, "History:\n");
    for (uint64_t back = 0; back < records; back++) {
        const struct alert_record *record = alerts_record(alerts, back);

        fprintf(out, "%.8s %s: %s (%s)\n", text_clock(clock, record->wall_ns),
                alert_change_names[record->change], record->rule, record->value);
    }
    fprintf(out, "Default rules:\n");
    write_rules(session, true, out);
    fclose(out);
    controller_show_page(session->controller, text);
}
