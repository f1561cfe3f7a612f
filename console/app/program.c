#include "console/app/program.h"

#include "common/clock.h"
#include "console/app/frame.h"
#include "console/app/session.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_NO_DAEMON = 3 };

/* Drawing */

struct scene program_scene(struct program *program)
{
    struct scene scene = scene_of(program->watch);

    if (scene.moment == MOMENT_LIVE && program->frozen)
        scene.moment = program->back > 0 ? MOMENT_PAST : MOMENT_FROZEN;
    scene.filter = &program->filter;
    scene.grid = program_grid(program);
    scene.controller = program->controller;
    scene.span_s = program->options->span_s;
    scene.style = program->screen.style;
    scene.ascii = scene.grid->ascii = program->screen.ascii;
    return scene;
}

struct grid *program_grid(struct program *program)
{
    return &program->grid[program->view];
}

static void draw(struct program *program)
{
    struct lab_state lab;
    struct scene scene = program_scene(program);
    char asked[CONTROLLER_TEXT];
    bool bad;
    struct picture picture = {
        .source = watch_source(program->watch),
        .scene = &scene,
        .view = view_table[program->view],
        .view_state = program->view_state[program->view],
        .help = program->help ? &program->help_scroll : NULL,
        .detail = program->detail ? &program->detail_scroll : NULL,
        .page = controller_page(program->controller),
        .page_scroll = &program->page_scroll,
        .dialog = controller_dialog(program->controller),
        .readonly = program->options->readonly,
        .back = program->back,
        .frozen = program->frozen,
        .replay = watch_replay(program->watch),
        .speed = program->options->speed,
        .recorded = watch_recorded(program->watch),
        .asked = controller_pending(program->controller, asked, sizeof(asked)) ? asked : NULL,
        .waiting = controller_calls_waiting(program->controller),
        .message = controller_message(program->controller, &bad),
    };

    picture.message_bad = bad;
    if (program->lab != NULL) {
        lab = lab_state(program->lab);
        picture.lab = &lab;
        picture.lab_whole = program->lab_whole ? &program->lab_scroll : NULL;
    }
    picture_draw(&picture, &program->screen);
    program->dirty = false;
}

/* Sampling and waiting */

/* Views that have something of their own going on look after it, shown or not. */
static void update_views(struct program *program)
{
    struct scene scene = program_scene(program);

    for (size_t i = 0; i < VIEW_COUNT; i++) {
        scene.grid = &program->grid[i];
        if (view_table[i]->update != NULL)
            view_table[i]->update(program->view_state[i], &scene);
    }
}

static void update_lab(struct program *program)
{
    struct scene scene = program_scene(program);

    if (program->lab != NULL)
        lab_update(program->lab, &scene, view_table[program->view],
                   source_state(watch_source(program->watch)) == SOURCE_ENDED);
}

static int sample(struct program *program, uint64_t now_ns)
{
    return watch_sample(program->watch, now_ns, clock_wall_ns(), view_table[program->view]->wants);
}

/* The moment of the recording goes on with the clock, unless it stands still. */
static int play(struct program *program, uint64_t now_ns)
{
    const struct replay *replay = watch_replay(program->watch);
    double length_ns = (double)replay_length_ns(replay);

    if (!program->frozen && program->replay_ns != 0)
        program->replay_at_ns += (double)(now_ns - program->replay_ns) * program->options->speed;
    program->replay_ns = now_ns;
    if (program->replay_at_ns >= length_ns) {
        program->replay_at_ns = length_ns;
        program->frozen = true;
    }
    return watch_replay_to(program->watch, (uint64_t)program->replay_at_ns, WANT_ALL);
}

static void record(struct program *program, uint64_t now_ns)
{
    char why[CONTROLLER_TEXT];

    if (watch_record(program->watch, now_ns, clock_wall_ns(), why, sizeof(why)) != 0)
        controller_report(program->controller, true, "%s", why);
}

static void take_origins(void *context, bool ok, const char *answer)
{
    if (ok)
        watch_tell_origins(context, answer);
}

/* No daemon came in the time that was given. */
static void give_up_waiting(struct program *program, uint64_t now_ns)
{
    const struct options *options = program->options;

    if (!options->wait_given || source_state(watch_source(program->watch)) != SOURCE_ABSENT ||
        now_ns < program->started_ns + options->wait_s * NS_PER_S)
        return;
    program->failure = source_why(watch_source(program->watch));
    program->status = EXIT_NO_DAEMON;
}

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
    controller_update(program->controller, now_ns);
    if (watch_replays(program->watch) ? play(program, now_ns) != 0
                                      : !program->frozen && sample(program, now_ns) != 0)
        program->failure = "out of memory";
    if (watch_wants_origins(program->watch, view_table[program->view]->wants))
        controller_call(program->controller, "config", take_origins, program->watch);
    record(program, now_ns);
    give_up_waiting(program, now_ns);
    update_views(program);
    update_lab(program);
}

/* Between two samples a view that wants it shows what threads do at this very moment. */
static void glance_if_due(struct program *program)
{
    unsigned rate_hz = view_table[program->view]->rate_hz;
    uint64_t now_ns = clock_monotonic_ns();

    if (rate_hz <= program->options->rate_hz || program->options->rate_given || program->frozen ||
        watch_replays(program->watch)) {
        program->next_glance_ns = UINT64_MAX;
        return;
    }
    if (program->next_glance_ns != UINT64_MAX && now_ns < program->next_glance_ns)
        return;
    program->next_glance_ns = now_ns + NS_PER_S / rate_hz;
    if (watch_glance(program->watch))
        program->dirty = true;
}

static void handle_signals(struct program *program)
{
    struct signalfd_siginfo info;

    while (read(program->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGWINCH) {
            screen_resize(&program->screen);
            program->dirty = true;
        } else {
            program->ending = program->next->cut_off = true;
        }
    }
}

static void handle_keys(struct program *program, short events)
{
    int code, keys = 0;

    while (!program->ending && (code = screen_key()) != -1) {
        act_on_key(program, code);
        keys++;
    }
    if (keys == 0 && (events & (POLLHUP | POLLERR | POLLNVAL)) != 0)
        program->ending = program->next->cut_off = true; /* the terminal is gone */
}

enum { WAITS = 3 + VIEW_COUNT };

static void wait_for_something(struct program *program)
{
    struct pollfd waits[WAITS] = {
        {.fd = STDIN_FILENO, .events = POLLIN},
        {.fd = program->signals, .events = POLLIN},
        {.fd = controller_descriptor(program->controller), .events = POLLIN}};
    uint64_t now_ns = clock_monotonic_ns();
    uint64_t next_ns = program->next_glance_ns < program->next_sample_ns ? program->next_glance_ns
                                                                         : program->next_sample_ns;
    uint64_t left_ns = next_ns > now_ns ? next_ns - now_ns : 0;

    for (size_t i = 0; i < VIEW_COUNT; i++)
        waits[3 + i] = (struct pollfd){.fd = view_table[i]->descriptor != NULL
                                                 ? view_table[i]->descriptor(program->view_state[i])
                                                 : -1,
                                       .events = POLLIN};
    if (poll(waits, WAITS, (int)((left_ns + NS_PER_MS - 1) / NS_PER_MS)) <= 0)
        return;
    if (waits[1].revents != 0)
        handle_signals(program);
    if (waits[0].revents != 0)
        handle_keys(program, waits[0].revents);
    if (waits[2].revents != 0)
        controller_update(program->controller, clock_monotonic_ns());
    for (size_t i = 0; i < VIEW_COUNT; i++)
        if (waits[3 + i].revents != 0) {
            update_views(program);
            break;
        }
    program->dirty = true;
}

static void loop(struct program *program)
{
    while (!program->ending) {
        sample_if_due(program);
        glance_if_due(program);
        program->ending |= program->failure != NULL;
        if (program->dirty && !program->ending)
            draw(program);
        if (!program->ending)
            wait_for_something(program);
    }
}

/* Start and end */

static int open_watch(struct program *program, char *why, size_t size)
{
    const struct options *options = program->options;

    if (options->replay != NULL) {
        program->watch = watch_open_replay(options->replay, why, size);
        program->frozen = options->at_given;
        program->replay_at_ns = (double)options->at_ns;
        return program->watch != NULL ? 0 : -1;
    }
    program->watch = watch_open(options->name);
    if (program->watch == NULL) {
        snprintf(why, size, "out of memory");
        return -1;
    }
    return options->record != NULL ? watch_record_to(program->watch, options->record, why, size)
                                   : 0;
}

static int prepare(struct program *program, char *why, size_t size)
{
    struct controller_options setting = {.name = program->options->name,
                                         .socket = program->options->socket,
                                         .readonly = program->options->readonly};
    bool states = true;

    for (size_t i = 0; i < VIEW_COUNT; i++) {
        program->view_state[i] = calloc(1, view_table[i]->state_size + 1);
        states = states && program->view_state[i] != NULL;
        grid_start(&program->grid[i], view_table[i]->list, program->view_state[i],
                   &program->filter);
        if (view_table[i] == program->options->view)
            program->view = i;
    }
    if (open_watch(program, why, size) != 0)
        return -1;
    if (program->options->filter != NULL)
        program->filter = *program->options->filter;
    setting.watch = program->watch;
    program->controller = controller_create(&setting);
    if (program->watch == NULL || program->controller == NULL || !states) {
        snprintf(why, size, "out of memory");
        return -1;
    }
    program->signals = screen_signals();
    if (program->signals >= 0)
        return 0;
    snprintf(why, size, "cannot receive signals: %s", strerror(errno));
    return -1;
}

static void release(struct program *program)
{
    for (size_t i = 0; i < VIEW_COUNT; i++) {
        if (view_table[i]->release != NULL && program->view_state[i] != NULL)
            view_table[i]->release(program->view_state[i]);
        grid_release(&program->grid[i]);
        free(program->view_state[i]);
    }
    controller_destroy(program->controller);
    watch_close(program->watch);
    if (program->signals >= 0)
        close(program->signals);
}

/* Returns NULL, or what went wrong, in WHY if need be. */
static const char *run(struct program *program, char *why, size_t size)
{
    const struct options *options = program->options;

    if (prepare(program, why, size) != 0 ||
        screen_start(&program->screen, options->theme, options->ascii, !options->no_mouse, why,
                     size) != 0)
        return why;
    loop(program);
    screen_stop();
    if (program->failure == NULL && watch_record_end(program->watch, why, size) != 0)
        return why;
    return program->failure;
}

int program_run(struct options *options, struct lab *lab, struct program_next *next)
{
    struct program program = {.options = options,
                              .next = next,
                              .lab = lab,
                              .signals = -1,
                              .status = EXIT_FAILED,
                              .started_ns = clock_monotonic_ns()};
    char why[256];
    const char *failure;

    *next = (struct program_next){.wanted = false};
    failure = run(&program, why, sizeof(why));
    next->view = view_table[program.view];

    if (failure != NULL)
        fprintf(stderr, "wsconsole: %s\n", failure);
    release(&program);
    if (failure == NULL)
        return EXIT_DONE;
    return program.status;
}
