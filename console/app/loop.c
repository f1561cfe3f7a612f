/*
 * Takes a sample when one is due, draws when something changed, and waits for keys, signals, the
 * daemon's answers or a view's child process until the next sample.
 */
#include "console/app/session.h"

#include "common/clock.h"
#include "common/escape.h"
#include "console/data/instances.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    WAIT_KEYS,
    WAIT_SIGNALS,
    WAIT_OUTPUT,
    WAIT_CONTROLLER,
    WAIT_VIEWS,
    WAITS = WAIT_VIEWS + VIEW_COUNT
};

struct loop {
    struct session session;
    int signals; /* signalfd */
    uint64_t started_ns;
    uint64_t next_refresh_ns; /* UINT64_MAX: none */
};

/* Sampling */

static void set_origins(void *context, bool ok, const char *answer)
{
    if (ok)
        watch_set_origins(context, answer);
}

/* Ends the session if no daemon appeared within the limit of --wait. */
static void check_wait(struct loop *loop, uint64_t now_ns)
{
    struct session *session = &loop->session;
    const struct options *options = session->options;

    if (!options->wait_given || source_state(watch_source(session->watch)) != SOURCE_ABSENT ||
        now_ns < loop->started_ns + options->wait_s * NS_PER_S)
        return;
    session->failure = source_why(watch_source(session->watch));
    session->status = EXIT_NO_DAEMON;
}

static void sample_if_due(struct loop *loop)
{
    struct session *session = &loop->session;
    struct timeline *timeline = &session->timeline;
    uint64_t now_ns = clock_monotonic_ns();
    uint64_t period_ns = NS_PER_S / session->options->rate_hz;
    char why[CONTROLLER_TEXT];

    if (now_ns < timeline->next_sample_ns)
        return;
    timeline->next_sample_ns += period_ns;
    if (timeline->next_sample_ns <= now_ns)
        timeline->next_sample_ns = now_ns + period_ns;
    session->dirty = true;
    controller_update(session->controller, now_ns);
    if (!timeline_sample(session, now_ns))
        timeline->next_sample_ns = 0;
    if (watch_needs_origins(session->watch, session_view(session)->wants))
        controller_call(session->controller, "config", set_origins, session->watch);
    session_report_alerts(session);
    if (watch_record(session->watch, now_ns, clock_wall_ns(), why, sizeof(why)) != 0)
        controller_report(session->controller, true, "%s", why);
    check_wait(loop, now_ns);
    session_update_views(session);
    if (session->lab != NULL) {
        struct scene scene = session_scene(session);

        lab_update(session->lab, &scene, session_view(session),
                   source_state(watch_source(session->watch)) == SOURCE_ENDED);
    }
}

/* Updates the thread states between two samples for a view with a higher frame rate. */
static void refresh_states_if_due(struct loop *loop)
{
    struct session *session = &loop->session;
    const struct options *options = session->options;
    unsigned rate_hz = session_view(session)->rate_hz;
    uint64_t now_ns = clock_monotonic_ns();

    if (rate_hz <= options->rate_hz || options->rate_given || options->remote ||
        session->timeline.frozen || watch_replays(session->watch)) {
        loop->next_refresh_ns = UINT64_MAX;
        return;
    }
    if (loop->next_refresh_ns != UINT64_MAX && now_ns < loop->next_refresh_ns)
        return;
    loop->next_refresh_ns = now_ns + NS_PER_S / rate_hz;
    if (watch_refresh_states(session->watch, now_ns))
        session->dirty = true;
}

/* The log is not read while the screen is frozen: what is shown then stays. */
static uint64_t log_due_ns(const struct session *session)
{
    return session->timeline.frozen ? UINT64_MAX : watch_log_due_ns(session->watch);
}

/* When to draw the answers of a question; a tiny screen and a stalled one show none. */
static uint64_t dialog_due(const struct session *session)
{
    return session->screen.tiny || screen_output() >= 0
               ? UINT64_MAX
               : dialog_due_ns(controller_dialog(session->controller));
}

/* Waiting */

static void interrupt_session(struct session *session)
{
    session->ending = session->next->interrupted = true;
}

static void handle_keys(struct session *session, short events)
{
    int code, keys = 0;

    while (!session->ending && (code = screen_key()) != -1) {
        input_handle_key(session, code);
        keys++;
    }
    if (keys == 0 && (events & (POLLHUP | POLLERR | POLLNVAL)) != 0)
        interrupt_session(session); /* the terminal is gone */
}

static int timeout_ms(const struct loop *loop)
{
    uint64_t now_ns = clock_monotonic_ns(), next_ns = loop->session.timeline.next_sample_ns;

    if (loop->next_refresh_ns < next_ns)
        next_ns = loop->next_refresh_ns;
    if (dialog_due(&loop->session) < next_ns)
        next_ns = dialog_due(&loop->session);
    if (log_due_ns(&loop->session) < next_ns)
        next_ns = log_due_ns(&loop->session);
    return next_ns > now_ns ? (int)clock_ceil_ms(next_ns - now_ns) : 0;
}

static void wait_for_events(struct loop *loop)
{
    struct session *session = &loop->session;
    struct pollfd waits[WAITS] = {
        [WAIT_KEYS] = {.fd = STDIN_FILENO, .events = POLLIN},
        [WAIT_SIGNALS] = {.fd = loop->signals, .events = POLLIN},
        [WAIT_OUTPUT] = {.fd = screen_output(), .events = POLLOUT},
        [WAIT_CONTROLLER] = {.fd = controller_descriptor(session->controller), .events = POLLIN}};
    bool views = false;

    for (size_t i = 0; i < VIEW_COUNT; i++)
        waits[WAIT_VIEWS + i] =
            (struct pollfd){.fd = view_table[i]->descriptor != NULL
                                      ? view_table[i]->descriptor(session->views[i].state)
                                      : -1,
                            .events = POLLIN};
    if (poll(waits, WAITS, timeout_ms(loop)) <= 0)
        return;
    if (waits[WAIT_SIGNALS].revents != 0 && screen_signalled(&session->screen, loop->signals))
        interrupt_session(session);
    if (waits[WAIT_KEYS].revents != 0)
        handle_keys(session, waits[WAIT_KEYS].revents);
    if (waits[WAIT_CONTROLLER].revents != 0)
        controller_update(session->controller, clock_monotonic_ns());
    for (size_t i = WAIT_VIEWS; i < WAITS; i++)
        views = views || waits[i].revents != 0;
    if (views)
        session_update_views(session);
    session->dirty = true;
}

static void run_until_end(struct loop *loop)
{
    struct session *session = &loop->session;

    while (!session->ending) {
        sample_if_due(loop);
        if (clock_monotonic_ns() >= log_due_ns(session))
            watch_read_log(session->watch, clock_monotonic_ns(), clock_wall_ns());
        refresh_states_if_due(loop);
        session->dirty |= clock_monotonic_ns() >= dialog_due(session);
        session->ending |= session->failure != NULL;
        if (session->dirty && !session->ending && screen_ready()) {
            frame_draw(session);
            session->dirty = false;
        }
        if (!session->ending)
            wait_for_events(loop);
    }
}

/* Start and end */

/* Returns NULL, or the error; it may be in WHY. */
static const char *run_session(struct loop *loop, struct options *options, struct lab *lab,
                               struct session_next *next, char *why, size_t size)
{
    struct session *session = &loop->session;

    if (session_open(session, options, lab, next, why, size) != 0)
        return why;
    loop->signals = screen_signals();
    if (loop->signals < 0) {
        snprintf(why, size, "cannot receive signals: %s", strerror(errno));
        return why;
    }
    if (screen_start(&session->screen, options->theme, options->ascii, !options->no_mouse, why,
                     size) != 0)
        return why;
    run_until_end(loop);
    screen_stop();
    if (session->failure == NULL && watch_record_end(session->watch, why, size) != 0)
        return why;
    return session->failure;
}

int session_run(struct options *options, struct lab *lab, struct session_next *next)
{
    struct loop loop = {.signals = -1, .started_ns = clock_monotonic_ns()};
    char why[256], advice[4096];
    const char *failure;

    *next = (struct session_next){.wanted = false};
    failure = run_session(&loop, options, lab, next, why, sizeof(why));
    next->view = session_view(&loop.session);
    if (failure != NULL)
        escape_report("wsconsole", failure);
    if (failure != NULL && loop.session.status == EXIT_NO_DAEMON) {
        instances_advise(advice, sizeof(advice));
        escape_report("wsconsole", advice);
    }
    session_close(&loop.session);
    if (loop.signals >= 0)
        close(loop.signals);
    return failure == NULL ? EXIT_DONE : loop.session.status;
}
