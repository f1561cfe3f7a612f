#include "daemon/base/latency_window.h"

static void copy(struct histogram *to, const struct histogram *from)
{
    histogram_reset(to);
    histogram_add(to, from);
}

void latency_window_move(struct latency_window *window, const struct segment *segment)
{
    histogram_reset(&window->now);
    segment_add_all_latency(segment, &window->now);
    copy(&window->since, &window->now);
    histogram_subtract(&window->since, &window->before);
    copy(&window->before, &window->now);
}
