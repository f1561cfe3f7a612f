#include "console/scene/scene.h"

#include "console/scene/controller.h"

struct scene scene_of(const struct watch *watch)
{
    const struct server_info *info = watch_info(watch);
    const struct model *model = watch_model(watch);

    return (struct scene){.moment = watch_replays(watch) ? MOMENT_REPLAY : MOMENT_LIVE,
                          .wall_ns = model_now(model) != NULL ? model_now(model)->wall_ns : 0,
                          .model = model,
                          .history = info->history,
                          .tail = info->tail,
                          .top = info->host_top != NULL ? info->host_top : info->top,
                          .subject = info->subject,
                          .outcomes = info->outcomes,
                          .events = info->events,
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
    size_t found = 0, at = scene->marks->count;

    for (size_t i = count; i > 1 && found < GRAPH_MARKS_MAX; i--) {
        const struct mark *mark;

        if (times_ns[i - 1] == 0)
            continue;
        while (at > 0 && scene->marks->mark[at - 1].time_ns > times_ns[i - 1])
            at--;
        mark = marks_between(scene->marks, at, times_ns[i - 2], times_ns[i - 1]);
        if (mark != NULL)
            marks[found++] = (struct graph_mark){.index = i - 1,
                                                 .letter = mark_table[mark->kind].letter,
                                                 .severe = mark_table[mark->kind].severe};
    }
    return found;
}

bool scene_allows_changes(const struct scene *scene)
{
    return scene->moment != MOMENT_REPLAY && controller_restriction(scene->controller) == NULL;
}
