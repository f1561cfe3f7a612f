#include "console/scene/scene.h"

#include "console/data/watch.h"

struct scene scene_of(const struct watch *watch)
{
    const struct model *model = watch_model(watch);

    return (struct scene){.moment = watch_replays(watch) ? MOMENT_REPLAY : MOMENT_LIVE,
                          .wall_ns = model_now(model) != NULL ? model_now(model)->wall_ns : 0,
                          .model = model,
                          .history = watch_history(watch),
                          .tail = watch_tail(watch),
                          .top = watch_top(watch),
                          .outcomes = watch_outcomes(watch),
                          .events = watch_events(watch),
                          .processes = watch_processes(watch),
                          .cache = watch_cache(watch),
                          .clients = watch_clients(watch),
                          .config = watch_config(watch),
                          .origins = watch_origins(watch)};
}
