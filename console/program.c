#include "console/program.h"

#include "common/clock.h"
#include "console/knob.h"
#include "console/picture.h"
#include "console/target.h"
#include "console/watch.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { EXIT_DONE = 0, EXIT_FAILED = 1 };

#define MESSAGE_FOR_NS (5 * NS_PER_S)

static const int spans_s[] = {60, 300, 900};

struct program {
    const struct options *options;
    struct watch *watch;
    struct knob *knob;
    struct screen screen;
    int signals; /* signalfd */
    size_t view; /* which of view_table is shown */
    void *view_state[VIEW_COUNT];
    bool help;
    struct scroll help_scroll;
    size_t span;           /* which of spans_s */
    uint64_t frozen_at_ns; /* wall clock; 0: not frozen */
    char message[256];
    bool message_bad;
    uint64_t message_until_ns;
    uint64_t next_sample_ns;
    bool dirty, ending;
    const char *failure; /* what ends the program, said when the terminal is given back; or NULL */
};

/* Drawing */

static struct scene make_scene(const struct program *program)
{
    return (struct scene){.model = watch_model(program->watch),
                          .history = watch_history(program->watch),
                          .tail = watch_tail(program->watch),
                          .span_s = spans_s[program->span],
                          .style = program->screen.style,
                          .ascii = program->screen.ascii};
}

static void draw(struct program *program)
{
    uint64_t now_ns = clock_monotonic_ns();
    struct scene scene = make_scene(program);
    struct picture picture = {
        .source = watch_source(program->watch),
        .scene = &scene,
        .view = view_table[program->view],
        .view_state = program->view_state[program->view],
        .help = program->help ? &program->help_scroll : NULL,
        .readonly = program->options->readonly,
        .frozen_at_ns = program->frozen_at_ns,
        .threads_asked = knob_asked(program->knob),
        .message = now_ns < program->message_until_ns ? program->message : NULL,
        .message_bad = program->message_bad,
    };

    picture_draw(&picture, &program->screen);
    program->dirty = false;
}

static void say(struct program *program, const char *message, bool bad)
{
    snprintf(program->message, sizeof(program->message), "%s", message);
    program->message_bad = bad;
    program->message_until_ns = clock_monotonic_ns() + MESSAGE_FOR_NS;
    program->dirty = true;
}

/* Keys */

static void turn_threads(struct program *program, int steps)
{
    uint32_t in_force = watch_threads_wanted(program->watch);
    char path[INSTANCE_PATH_MAX], why[256];

    if (program->options->readonly)
        say(program, "this console was started with --readonly", true);
    else if (in_force == 0)
        say(program, "no webserverd runs", true);
    else if (target_socket(program->options->name, program->options->socket, path, sizeof(path),
                           why, sizeof(why)) != 0)
        say(program, why, true);
    else
        knob_turn(program->knob, path, in_force, steps, clock_monotonic_ns());
}

static void toggle_freeze(struct program *program)
{
    program->frozen_at_ns = program->frozen_at_ns == 0 ? clock_wall_ns() : 0;
}

static void show_view(struct program *program, size_t view)
{
    program->view = view;
    program->help = false;
}

/* What means the same everywhere. */
static void act(struct program *program, enum request request)
{
    switch (request) {
    case REQUEST_VIEW_NEXT:
        show_view(program, (program->view + 1) % VIEW_COUNT);
        break;
    case REQUEST_VIEW_PREVIOUS:
        show_view(program, (program->view + VIEW_COUNT - 1) % VIEW_COUNT);
        break;
    case REQUEST_THREADS_MORE:
        turn_threads(program, 1);
        break;
    case REQUEST_THREADS_FEWER:
        turn_threads(program, -1);
        break;
    case REQUEST_FREEZE:
        toggle_freeze(program);
        break;
    case REQUEST_SPAN:
        program->span = (program->span + 1) % (sizeof(spans_s) / sizeof(spans_s[0]));
        break;
    case REQUEST_HELP:
        program->help = !program->help;
        break;
    case REQUEST_CLOSE:
        program->help = false;
        break;
    case REQUEST_REDRAW:
        screen_spoilt();
        break;
    case REQUEST_QUIT:
        program->ending = !program->help;
        program->help = false;
        break;
    default:
        break;
    }
}

static bool act_in_view(struct program *program, enum request request)
{
    struct scene scene = make_scene(program);
    const struct view *view = view_table[program->view];

    if (program->help)
        return scroll_key(&program->help_scroll, request);
    if (view->key == NULL || model_now(scene.model) == NULL)
        return false;
    return view->key(program->view_state[program->view], &scene, request);
}

static void handle_key(struct program *program, int code)
{
    enum request request = key_request(code);

    if (request == REQUEST_NONE)
        return;
    program->dirty = true;
    for (size_t i = 0; i < VIEW_COUNT; i++)
        if (view_table[i]->request == request) {
            show_view(program, i);
            return;
        }
    if (!act_in_view(program, request))
        act(program, request);
}

/* Sampling and waiting */

static void sample_if_due(struct program *program)
{
    uint64_t now_ns = clock_monotonic_ns();
    uint64_t period_ns = NS_PER_S / program->options->rate_hz;

    if (now_ns < program->next_sample_ns)
        return;
    program->next_sample_ns += period_ns;
    if (program->next_sample_ns <= now_ns)
        program->next_sample_ns = now_ns + period_ns;
    program->dirty = true;
    knob_update(program->knob, now_ns);
    if (program->frozen_at_ns != 0)
        return;
    if (watch_sample(program->watch, now_ns, clock_wall_ns()) != 0) {
        program->failure = "out of memory";
        program->ending = true;
    }
}

static void handle_signals(struct program *program)
{
    struct signalfd_siginfo info;

    while (read(program->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGWINCH) {
            screen_resize(&program->screen);
            program->dirty = true;
        } else {
            program->ending = true;
        }
    }
}

static void handle_keys(struct program *program, short events)
{
    int code, keys = 0;

    while (!program->ending && (code = screen_key()) != -1) {
        handle_key(program, code);
        keys++;
    }
    if (keys == 0 && (events & (POLLHUP | POLLERR | POLLNVAL)) != 0)
        program->ending = true; /* the terminal is gone */
}

static void wait_for_something(struct program *program)
{
    struct pollfd waits[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                             {.fd = program->signals, .events = POLLIN},
                             {.fd = knob_descriptor(program->knob), .events = POLLIN}};
    uint64_t now_ns = clock_monotonic_ns();
    uint64_t left_ns = program->next_sample_ns > now_ns ? program->next_sample_ns - now_ns : 0;

    if (poll(waits, 3, (int)((left_ns + NS_PER_MS - 1) / NS_PER_MS)) <= 0)
        return;
    if (waits[1].revents != 0)
        handle_signals(program);
    if (waits[0].revents != 0)
        handle_keys(program, waits[0].revents);
    if (waits[2].revents != 0)
        knob_update(program->knob, clock_monotonic_ns());
}

static void take_answers(struct program *program)
{
    char text[sizeof(program->message)];
    bool bad;

    while (knob_message(program->knob, text, sizeof(text), &bad))
        say(program, text, bad);
}

static void loop(struct program *program)
{
    while (!program->ending) {
        sample_if_due(program);
        take_answers(program);
        if (program->dirty && !program->ending)
            draw(program);
        if (!program->ending)
            wait_for_something(program);
    }
}

/* Start and end */

/* The signals that end or resize us become readable on a descriptor instead of interrupting. */
static int open_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGQUIT);
    sigaddset(&set, SIGWINCH);
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
        return -1;
    return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

static int prepare(struct program *program, char *why, size_t size)
{
    bool states = true;

    for (size_t i = 0; i < VIEW_COUNT; i++) {
        program->view_state[i] = calloc(1, view_table[i]->state_size + 1);
        states = states && program->view_state[i] != NULL;
        if (view_table[i] == program->options->view)
            program->view = i;
    }
    program->watch = watch_open(program->options->name);
    program->knob = knob_create();
    if (program->watch == NULL || program->knob == NULL || !states) {
        snprintf(why, size, "out of memory");
        return -1;
    }
    program->signals = open_signals();
    if (program->signals >= 0)
        return 0;
    snprintf(why, size, "cannot receive signals: %s", strerror(errno));
    return -1;
}

static void release(struct program *program)
{
    knob_destroy(program->knob);
    watch_close(program->watch);
    for (size_t i = 0; i < VIEW_COUNT; i++)
        free(program->view_state[i]);
    if (program->signals >= 0)
        close(program->signals);
}

/* Returns NULL, or what went wrong, in WHY if need be. */
static const char *run(struct program *program, char *why, size_t size)
{
    const struct options *options = program->options;

    if (prepare(program, why, size) != 0 ||
        screen_start(&program->screen, options->theme, options->ascii, why, size) != 0)
        return why;
    loop(program);
    screen_stop();
    return program->failure;
}

int program_run(const struct options *options)
{
    struct program program = {.options = options, .signals = -1};
    char why[256];
    const char *failure = run(&program, why, sizeof(why));

    release(&program);
    if (failure == NULL)
        return EXIT_DONE;
    fprintf(stderr, "wsconsole: %s\n", failure);
    return EXIT_FAILED;
}
