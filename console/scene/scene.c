#include "console/scene/scene.h"

struct scene scene_of(const struct watch *watch)
{
    const struct server_info *info = watch_info(watch);
    const struct model *model = watch_model(watch);

    return (struct scene){.moment = watch_replays(watch) ? MOMENT_REPLAY : MOMENT_LIVE,
                          .wall_ns = model_now(model) != NULL ? model_now(model)->wall_ns : 0,
                          .model = model,
                          .history = info->history,
                          .tail = info->tail,
                          .top = info->top,
                          .outcomes = info->outcomes,
                          .events = info->events,
                          .processes = &info->processes,
                          .cache = &info->cache,
                          .clients = &info->clients,
                          .config = info->config,
                          .origins = watch_origins(watch)};
}
