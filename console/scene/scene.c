#include "console/scene/scene.h"

#include "common/units.h"
#include "console/scene/controller.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct scene scene_of(const struct watch *watch)
{
    const struct server_info *info = watch_info(watch);
    const struct model *model = watch_model(watch);

    return (struct scene){.moment = watch_replays(watch) ? MOMENT_REPLAY : MOMENT_LIVE,
                          .ended = source_state(watch_source(watch)) == SOURCE_ENDED,
                          .wall_ns = model_now(model) != NULL ? model_now(model)->wall_ns : 0,
                          .model = model,
                          .history = info->history,
                          .tail = info->tail,
                          .top = info->host_top != NULL ? info->host_top : info->top,
                          .subject = info->subject,
                          .outcomes = info->outcomes,
                          .events = info->events,
                          .alerts = &info->alerts,
                          .marks = info->marks,
                          .processes = watch_processes(watch),
                          .cache = &info->cache,
                          .clients = &info->clients,
                          .has_hosts = info->has_hosts,
                          .hosts = &info->hosts,
                          .certificates = &info->certificates,
                          .config = info->config,
                          .origins = watch_origins(watch)};
}

size_t scene_marks(const struct scene *scene, int span_s, struct graph_mark *marks)
{
    static uint64_t times_ns[HISTORY_VALUES]; /* too large for the stack */
    size_t count = history_span_times(scene->history, span_s, times_ns);
    size_t found = 0, at = scene->marks->count, from;

    for (size_t i = count; i > 1 && found < GRAPH_MARKS_MAX; i--) {
        const struct mark *mark;

        if (times_ns[i - 1] == 0)
            continue;
        while (at > 0 && scene->marks->mark[at - 1].time_ns > times_ns[i - 1])
            at--;
        for (from = i - 1; from > 0 && times_ns[from - 1] == 0;)
            from--; /* a gap has the marks of its end */
        mark =
            from > 0 ? marks_between(scene->marks, at, times_ns[from - 1], times_ns[i - 1]) : NULL;
        if (mark != NULL)
            marks[found++] = (struct graph_mark){.index = i - 1,
                                                 .letter = mark_table[mark->kind].letter,
                                                 .severe = mark_table[mark->kind].severe};
    }
    return found;
}

json_t *scene_json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *scene_json_wanted(const struct scene *scene, uint32_t wanted)
{
    return scene_is_webserverd(scene) ? json_integer(wanted) : json_null();
}

bool scene_allows_changes(const struct scene *scene)
{
    return scene->moment != MOMENT_REPLAY && controller_restriction(scene->controller) == NULL;
}

/* Summary */

#define GAP "  "

void summary_append(char *line, size_t size, int width, const char *format, ...)
{
    char item[512];
    size_t length = strlen(line), gap = length > 0 ? strlen(GAP) : 0, more;
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(item, sizeof(item), format, arguments);
    va_end(arguments);
    more = strlen(item);
    if (length + gap + more > (size_t)(width > 0 ? width : 0) || length + gap + more >= size)
        return;
    snprintf(line + length, size - length, "%s%s", gap > 0 ? GAP : "", item);
}

/* The count of a "+N" at the end of LINE, which becomes *LENGTH shorter; 0: there is none. */
static unsigned long take_count(const char *line, size_t *length)
{
    const char *plus = strrchr(line, '+');
    char *end;
    unsigned long count;

    if (plus == NULL || (plus > line && plus[-1] != ' '))
        return 0;
    count = strtoul(plus + 1, &end, 10);
    if (count == 0 || *end != '\0')
        return 0;
    *length = (size_t)(plus - line) - (plus > line ? strlen(GAP) : 0);
    return count;
}

void summary_add(char *line, size_t size, int width, const char *format, ...)
{
    size_t length = strlen(line), most = width > 0 ? (size_t)width : 0;
    unsigned long left_out = take_count(line, &length);
    char item[512], count[24];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(item, sizeof(item), format, arguments);
    va_end(arguments);
    if (left_out == 0 && length + strlen(GAP) * (length > 0) + strlen(item) <= most) {
        summary_append(line, size, width, "%s", item);
        return;
    }
    snprintf(count, sizeof(count), "+%lu", ++left_out);
    while (length > 0 && length + strlen(GAP) + strlen(count) > most) {
        do
            length--; /* removes the last item */
        while (length > 0 && strncmp(line + length, GAP, strlen(GAP)) != 0);
        snprintf(count, sizeof(count), "+%lu", ++left_out);
    }
    line[length] = '\0';
    summary_append(line, size, width, "%s", count);
}

void summary_append_threads(char *line, size_t size, int width, uint32_t actual, uint32_t wanted)
{
    if (wanted > 0)
        summary_append(line, size, width, "threads %" PRIu32 "/%" PRIu32, actual, wanted);
    else
        summary_append(line, size, width, "threads %" PRIu32, actual);
}

void summary_processes(const struct snapshot *now, char *line, size_t size, int width)
{
    uint32_t offload = 0;

    line[0] = '\0';
    if (now->workers_wanted == 0 && now->thread_count == 0) {
        summary_append(line, size, width, "threads not recorded");
        return;
    }
    if (now->workers_wanted == 0) { /* a past moment */
        summary_append(line, size, width, "threads %" PRIu32, snapshot_threads_actual(now));
        summary_append(line, size, width, "workers %" PRIu32, snapshot_workers_actual(now));
        return;
    }
    if (now->model > MODEL_EVENTS && now->model < MODEL_COUNT)
        summary_append(line, size, width, "model %s", worker_model_names[now->model]);
    summary_append(line, size, width, "threads %" PRIu32 " of %" PRIu32 " (%" PRIu32 " in each)",
                   snapshot_threads_actual(now), now->workers_wanted * now->threads_wanted,
                   now->threads_wanted);
    if (line[0] == '\0')
        summary_append(line, size, width, "threads %" PRIu32 " of %" PRIu32,
                       snapshot_threads_actual(now), now->workers_wanted * now->threads_wanted);
    summary_append(line, size, width, "workers %" PRIu32 " of %" PRIu32,
                   snapshot_workers_actual(now), now->workers_wanted);
    for (uint32_t i = 0; i < now->worker_count; i++)
        offload += now->workers[i].offload_actual;
    if (now->offload_min == now->offload_max)
        summary_append(line, size, width, "offload %" PRIu32 " (%" PRIu32 " in each)", offload,
                       now->offload_max);
    else
        summary_append(line, size, width, "offload %" PRIu32 " (%" PRIu32 "-%" PRIu32 " in each)",
                       offload, now->offload_min, now->offload_max);
    summary_append(line, size, width, "dispatch %s", now->dispatch_master ? "master" : "kernel");
}

void summary_identity(const struct snapshot *now, char *line, size_t size, int width)
{
    char age[UNITS_TEXT];
    const struct server *server = &now->server;
    uint64_t up_ns = now->wall_ns > server->started_ns ? now->wall_ns - server->started_ns : 0;

    if (server->start_ns != 0 && now->time_ns > server->start_ns &&
        now->time_ns - server->start_ns > up_ns) /* the wall clock was set back */
        up_ns = now->time_ns - server->start_ns;
    line[0] = '\0';
    if (up_ns > 0)
        summary_append(line, size, width, "up %s", units_format_age(age, sizeof(age), up_ns));
    summary_append(line, size, width, "pid %" PRId32, now->server.pid);
    summary_append(line, size, width, "on %s", now->server.listening);
    summary_append(line, size, width, "version %s", now->server.version);
}

/* ---- The strip of thread states ---- */

static int by_place(const void *a, const void *b)
{
    const struct thread_sample *left = *(const struct thread_sample *const *)a;
    const struct thread_sample *right = *(const struct thread_sample *const *)b;

    if (left->worker != right->worker)
        return left->worker < right->worker ? -1 : 1;
    if (left->thread != right->thread)
        return left->thread < right->thread ? -1 : 1;
    return left->slot < right->slot ? -1 : left->slot > right->slot;
}

/* At least the number of thread slots. */
enum { THREADS_MAX = 1024 };

uint32_t strip_sorted(const struct snapshot *now, const struct thread_sample *const **sorted)
{
    static const struct thread_sample *order[THREADS_MAX];
    uint32_t count = 0;

    *sorted = order;
    if (now->thread_count > THREADS_MAX)
        return 0;
    for (uint32_t i = 0; i < now->thread_count; i++)
        if (now->threads[i].activity.state != THREAD_STATE_NONE)
            order[count++] = &now->threads[i];
    qsort(order, count, sizeof(*order), by_place);
    return count;
}

enum tone strip_tone(uint32_t state)
{
    switch (state) {
    case THREAD_STATE_ACCEPT:
    case THREAD_STATE_READ:
    case THREAD_STATE_WRITE:
        return TONE_GOOD;
    case THREAD_STATE_STARTING:
    case THREAD_STATE_FILE:
    case THREAD_STATE_COMPRESS:
    case THREAD_STATE_COMPUTE:
        return TONE_NOTE;
    case THREAD_STATE_LEAVING:
    case THREAD_STATE_LOCK:
    case THREAD_STATE_BLOCKED:
        return TONE_WARN;
    case THREAD_STATE_LOG:
        return TONE_BAD;
    case THREAD_STATE_IDLE:
    case THREAD_STATE_QUEUE:
        return TONE_DIM;
    default:
        return TONE_NORMAL;
    }
}

/* The position of the next word; words wrap to the next line. */
struct pen {
    int y, x, last_y, indent;
    int reserved; /* columns at the end of the last line */
};

static bool pen_make_room(struct pen *pen, const struct canvas *canvas, int width)
{
    int end = canvas->width - (pen->y == pen->last_y ? pen->reserved : 0);

    if (pen->x > pen->indent && pen->x + width > end) {
        pen->y++;
        pen->x = pen->indent;
    }
    return pen->y <= pen->last_y;
}

/* Draws the letter of THREAD, after the worker's number if it is the first of its worker. Returns
 * false if there is no room. */
static bool draw_thread(struct pen *pen, const struct canvas *canvas, const struct snapshot *now,
                        const struct thread_sample *thread, bool first_of_worker)
{
    char name[16] = "?";
    char letter[2] = {server_state_letter(&now->server, thread->activity.state), '\0'};

    if (first_of_worker) {
        if (thread->worker != SEGMENT_NO_WORKER)
            snprintf(name, sizeof(name), "%" PRIu32, thread->worker);
        pen->x += pen->x > pen->indent ? 2 : 0;
        if (!pen_make_room(pen, canvas, (int)strlen(name) + 3))
            return false;
        pen->x = canvas_text(canvas, pen->y, pen->x, TONE_DIM, name) + 1;
    }
    if (!pen_make_room(pen, canvas, 1))
        return false;
    pen->x = canvas_text(canvas, pen->y, pen->x, strip_tone(thread->activity.state), letter);
    return true;
}

/* Draws as many of the COUNT threads as fit; returns their number. */
static uint32_t draw_threads(struct pen *pen, const struct canvas *canvas,
                             const struct snapshot *now, const struct thread_sample *const *order,
                             uint32_t count)
{
    uint32_t i = 0;

    while (i < count && draw_thread(pen, canvas, now, order[i],
                                    i == 0 || order[i - 1]->worker != order[i]->worker))
        i++;
    return i;
}

int strip_draw(const struct canvas *canvas, int y, int lines, const struct snapshot *now)
{
    struct pen pen = {.y = y, .x = 9, .last_y = y + lines - 1, .indent = 9}, trial = pen;
    const struct canvas nowhere = {.width = canvas->width};
    const struct thread_sample *const *order;
    uint32_t count = strip_sorted(now, &order), drawn;
    char more[32];

    canvas_text(canvas, y, 0, TONE_TITLE, "threads");
    if (draw_threads(&trial, &nowhere, now, order, count) < count)
        pen.reserved = (int)strlen(" +1024 threads");
    drawn = draw_threads(&pen, canvas, now, order, count);
    if (drawn < count) {
        snprintf(more, sizeof(more), " +%" PRIu32 " thread%s", count - drawn,
                 count - drawn == 1 ? "" : "s");
        canvas_right(canvas, pen.last_y, canvas->width, TONE_NOTE, more);
    }
    if (count == 0)
        canvas_text(canvas, y, pen.x, TONE_DIM, "none");
    return (pen.y > pen.last_y ? pen.last_y : pen.y) - y + 1;
}

static bool state_in_use(const struct snapshot *now, uint32_t state)
{
    for (uint32_t i = 0; i < now->thread_count; i++)
        if (now->threads[i].activity.state == state)
            return true;
    return false;
}

/* States in use come first, because a single line may not fit all states. */
int strip_draw_legend(const struct canvas *canvas, int y, int lines, const struct snapshot *now)
{
    struct pen pen = {.y = y, .x = 9, .last_y = y + lines - 1, .indent = 9};

    canvas_text(canvas, y, 0, TONE_TITLE, "letters");
    for (int pass = lines == 1 ? 0 : 1; pass < 2; pass++)
        for (uint32_t state = THREAD_STATE_NONE + 1; state < now->server.state_count; state++) {
            const struct segment_state *info = &now->server.states[state];
            char letter[2] = {info->letter, '\0'};

            if (info->name[0] == '\0' || (lines == 1 && state_in_use(now, state) != (pass == 0)) ||
                !pen_make_room(&pen, canvas, (int)strlen(info->name) + 2))
                continue;
            pen.x = canvas_text(canvas, pen.y, pen.x, strip_tone(state), letter) + 1;
            pen.x = canvas_text(canvas, pen.y, pen.x, TONE_DIM, info->name) + 2;
        }
    return (pen.y > pen.last_y ? pen.last_y : pen.y) - y + 1;
}

void strip_print(FILE *out, const struct snapshot *now)
{
    const struct thread_sample *const *order;
    uint32_t count = strip_sorted(now, &order);

    fprintf(out, "threads  ");
    for (uint32_t i = 0; i < count; i++) {
        if (i == 0 || order[i - 1]->worker != order[i]->worker)
            fprintf(out, "%s%" PRIu32 " ", i == 0 ? "" : "  ", order[i]->worker);
        fputc(server_state_letter(&now->server, order[i]->activity.state), out);
    }
    fprintf(out, "\nletters");
    for (uint32_t state = THREAD_STATE_NONE + 1; state < now->server.state_count; state++)
        if (now->server.states[state].name[0] != '\0')
            fprintf(out, "  %c %s", now->server.states[state].letter,
                    now->server.states[state].name);
    fputc('\n', out);
}
