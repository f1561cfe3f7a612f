#include "console/app/timeline.h"

#include "common/clock.h"
#include "console/data/server_info.h"

#include <math.h>
#include <stdlib.h>

static int play(struct timeline *timeline, struct watch *watch, double speed, uint64_t now_ns)
{
    double length_ns = (double)replay_length_ns(watch_replay(watch));

    if (!timeline->frozen && timeline->replay_ns != 0)
        timeline->replay_at_ns += (double)(now_ns - timeline->replay_ns) * speed;
    timeline->replay_ns = now_ns;
    if (timeline->replay_at_ns >= length_ns) {
        timeline->replay_at_ns = length_ns;
        timeline->frozen = true;
    }
    return watch_replay_to(watch, (uint64_t)timeline->replay_at_ns, WANT_ALL);
}

int timeline_sample(struct timeline *timeline, struct watch *watch, unsigned wants, double speed,
                    uint64_t now_ns)
{
    if (watch_replays(watch))
        return play(timeline, watch, speed, now_ns);
    return timeline->frozen ? 0 : watch_sample(watch, now_ns, clock_wall_ns(), wants);
}

/* Takes a last sample of all data, because another view may be shown while frozen. */
static int freeze(struct timeline *timeline, struct watch *watch)
{
    if (timeline->frozen)
        return 0;
    timeline->frozen = true;
    return watch_sample(watch, clock_monotonic_ns(), clock_wall_ns(), WANT_ALL);
}

int timeline_toggle_freeze(struct timeline *timeline, struct watch *watch)
{
    timeline->back = 0;
    timeline->mark_ns = 0;
    timeline->next_sample_ns = 0;
    if (!timeline->frozen && !watch_replays(watch))
        return freeze(timeline, watch);
    timeline->frozen = !timeline->frozen;
    return 0;
}

static void seek(struct timeline *timeline, const struct replay *replay, long seconds)
{
    double length_ns = (double)replay_length_ns(replay);
    double at_ns = timeline->replay_at_ns + (double)seconds * (double)NS_PER_S;

    timeline->replay_at_ns = at_ns < 0 ? 0 : at_ns > length_ns ? length_ns : at_ns;
    timeline->next_sample_ns = 0;
}

int timeline_move(struct timeline *timeline, struct watch *watch, long seconds)
{
    long step = (long)history_resolution(watch_info(watch)->history, timeline->back), back;
    int result;

    timeline->mark_ns = 0;
    if (watch_replays(watch)) {
        seek(timeline, watch_replay(watch), seconds);
        return 0;
    }
    if (!timeline->frozen && seconds > 0)
        return 0; /* live: cannot move forward */
    result = freeze(timeline, watch);
    back = (long)timeline->back - (labs(seconds) >= step ? seconds : seconds < 0 ? -step : step);
    timeline->back = watch_look_back(watch, back > 0 ? (size_t)back : 0);
    return result;
}

/* The recording is shown a second after the mark, so that the event has been read. */
static void show_replay(struct timeline *timeline, const struct replay *replay, uint64_t time_ns)
{
    double ahead_ns = (double)time_ns + (double)NS_PER_S - (double)replay_wall_ns(replay);

    timeline->replay_at_ns = (double)replay_at_ns(replay);
    seek(timeline, replay, (long)ceil(ahead_ns / (double)NS_PER_S));
}

int timeline_show_mark(struct timeline *timeline, struct watch *watch, uint64_t time_ns)
{
    int result = 0;

    if (watch_replays(watch)) {
        timeline->frozen = true;
        show_replay(timeline, watch_replay(watch), time_ns);
    } else {
        result = freeze(timeline, watch);
        timeline->back =
            watch_look_back(watch, history_back_of(watch_info(watch)->history, time_ns));
    }
    timeline->mark_ns = time_ns;
    return result;
}
