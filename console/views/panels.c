#include "console/views/panels.h"

#include "console/ui/graph.h"
#include "console/ui/text.h"

#include <math.h>
#include <string.h>

/* Adds BEFORE, TEXT and AFTER, unless the server does not publish VALUE, whose text this is. */
static void add_detail(char *buffer, size_t size, double value, const char *before,
                       const char *text, const char *after)
{
    size_t used = strlen(buffer);

    if (!isnan(value))
        snprintf(buffer + used, size - used, "%s%s%s%s", used > 0 ? ", " : "", before, text, after);
}

/* All numbers of a panel change at the same time. */
static double steady_sum(const struct scene *scene, enum metric metric)
{
    return model_steady_value(scene->model, metric);
}

static double requests_value(const struct scene *scene)
{
    return scene_rate(scene, METRIC_requests);
}

static void requests_detail(const struct scene *scene, char *buffer, size_t size)
{
    char text[TEXT_SHORT];

    snprintf(buffer, size, "%s total", text_count(text, steady_sum(scene, METRIC_requests)));
    add_detail(buffer, size, steady_sum(scene, METRIC_requests_keepalive), "",
               text_percent(text, scene_figure(scene, FIGURE_keepalive_ratio)), " keep-alive");
}

static double sent_value(const struct scene *scene)
{
    return scene_rate(scene, METRIC_bytes_sent);
}

static void sent_detail(const struct scene *scene, char *buffer, size_t size)
{
    char text[TEXT_SHORT];

    snprintf(buffer, size, "%s total", text_bytes(text, steady_sum(scene, METRIC_bytes_sent)));
    add_detail(buffer, size, steady_sum(scene, METRIC_bytes_received), "received ",
               text_bytes(text, scene_rate(scene, METRIC_bytes_received)), "/s");
    add_detail(buffer, size, steady_sum(scene, METRIC_bytes_saved), "saved ",
               text_bytes(text, steady_sum(scene, METRIC_bytes_saved)), "");
}

static double latency_value(const struct scene *scene)
{
    return model_percentile(scene->model, 99);
}

static void latency_detail(const struct scene *scene, char *buffer, size_t size)
{
    char mean[TEXT_SHORT], half[TEXT_SHORT], most[TEXT_SHORT], max[TEXT_SHORT];

    snprintf(buffer, size, "mean %s  p50 %s  p90 %s  max %s",
             text_latency(mean, scene_figure(scene, FIGURE_response_time_mean)),
             text_latency(half, model_percentile(scene->model, 50)),
             text_latency(most, model_percentile(scene->model, 90)),
             text_latency(max, model_percentile(scene->model, 100)));
}

static double connections_value(const struct scene *scene)
{
    return steady_sum(scene, METRIC_connections_open);
}

static void connections_detail(const struct scene *scene, char *buffer, size_t size)
{
    double open = steady_sum(scene, METRIC_connections_open);
    double busy = steady_sum(scene, METRIC_connections_busy);
    double waiting = scene_figure(scene, FIGURE_connections_waiting);
    char text[TEXT_SHORT];

    buffer[0] = '\0';
    add_detail(buffer, size, busy, "busy ", text_count(text, busy), "");
    add_detail(buffer, size, busy, "idle ", text_count(text, open > busy ? open - busy : 0), "");
    add_detail(buffer, size, waiting, "waiting ", text_count(text, waiting), "");
    add_detail(buffer, size, open, "new ",
               text_count(text, scene_rate(scene, METRIC_connections_accepted)), "/s");
}

static double queue_value(const struct scene *scene)
{
    return steady_sum(scene, METRIC_queue_length);
}

static void queue_detail(const struct scene *scene, char *buffer, size_t size)
{
    double dropped = steady_sum(scene, METRIC_queue_dropped);
    double open = steady_sum(scene, METRIC_connections_open);
    char text[TEXT_SHORT];

    snprintf(buffer, size, "of %s", text_count(text, steady_sum(scene, METRIC_queue_capacity)));
    add_detail(buffer, size, steady_sum(scene, METRIC_queue_taken), "mean wait ",
               text_latency(text, scene_figure(scene, FIGURE_queue_wait_mean)), "");
    add_detail(buffer, size, dropped, "dropped ", text_count(text, dropped), "");
    add_detail(buffer, size, open, "connections ", text_count(text, open), "");
}

static double queue_wait_value(const struct scene *scene)
{
    double p99 = steady_sum(scene, METRIC_queue_wait_p99);

    return p99 > 0 ? p99 : steady_sum(scene, METRIC_queue_oldest);
}

static void queue_wait_detail(const struct scene *scene, char *buffer, size_t size)
{
    double mean = scene_figure(scene, FIGURE_queue_wait_mean);
    char text[TEXT_SHORT];

    snprintf(buffer, size, "oldest %s", text_latency(text, steady_sum(scene, METRIC_queue_oldest)));
    add_detail(buffer, size, mean, "mean ", text_latency(text, mean), "");
    add_detail(buffer, size, 0, "taken/s ", text_count(text, scene_rate(scene, METRIC_queue_taken)),
               "");
    add_detail(buffer, size, 0, "dropped/s ",
               text_count(text, scene_rate(scene, METRIC_queue_dropped)), "");
}

static double errors_value(const struct scene *scene)
{
    return scene_figure(scene, FIGURE_errors);
}

static void errors_detail(const struct scene *scene, char *buffer, size_t size)
{
    char success[TEXT_SHORT], moved[TEXT_SHORT], client[TEXT_SHORT], server[TEXT_SHORT];

    snprintf(buffer, size, "2xx %s/s  3xx %s/s  4xx %s/s  5xx %s/s",
             text_count(success, scene_figure(scene, FIGURE_responses_2xx)),
             text_count(moved, scene_figure(scene, FIGURE_responses_3xx)),
             text_count(client, scene_figure(scene, FIGURE_responses_4xx)),
             text_count(server, scene_figure(scene, FIGURE_responses_5xx)));
}

static double hit_ratio_value(const struct scene *scene)
{
    return scene_figure(scene, FIGURE_cache_hit_ratio);
}

static void hit_ratio_detail(const struct scene *scene, char *buffer, size_t size)
{
    double count = steady_sum(scene, METRIC_cache_entries);
    char entries[TEXT_SHORT], bytes[TEXT_SHORT], evicted[TEXT_SHORT];

    if (isnan(count)) { /* only the lookups are published */
        snprintf(buffer, size, "hits %s/s, misses %s/s",
                 text_count(entries, scene_rate(scene, METRIC_cache_hits)),
                 text_count(bytes, scene_rate(scene, METRIC_cache_misses)));
        return;
    }
    snprintf(buffer, size, "%s %s, %s, evicted %s/s", text_count(entries, count),
             count == 1 ? "entry" : "entries",
             text_bytes(bytes, steady_sum(scene, METRIC_cache_bytes)),
             text_count(evicted, scene_rate(scene, METRIC_cache_evicted)));
}

const struct metric_panel panel_requests = {"requests/s", SERIES_REQUESTS, GRAPH_COUNT,
                                            false,        requests_value,  requests_detail};
const struct metric_panel panel_latency = {"latency p99", SERIES_LATENCY_P99, GRAPH_TIME,
                                           false,         latency_value,      latency_detail};
const struct metric_panel panel_sent = {"sent/s", SERIES_BYTES_SENT, GRAPH_BYTES,
                                        false,    sent_value,        sent_detail};
const struct metric_panel panel_connections = {
    "connections", SERIES_CONNECTIONS, GRAPH_COUNT, false, connections_value, connections_detail};
const struct metric_panel panel_queue = {"queue", SERIES_QUEUE, GRAPH_COUNT,
                                         false,   queue_value,  queue_detail};
const struct metric_panel panel_queue_wait = {
    "queue wait p99", SERIES_QUEUE_WAIT, GRAPH_TIME, false, queue_wait_value, queue_wait_detail};
const struct metric_panel panel_errors = {"errors/s (4xx, 5xx)", SERIES_ERRORS, GRAPH_COUNT, true,
                                          errors_value,          errors_detail};
const struct metric_panel panel_cache = {"cache hit ratio", SERIES_HIT_RATIO, GRAPH_RATIO, false,
                                         hit_ratio_value,   hit_ratio_detail};

void metric_panel_draw(const struct metric_panel *panel, const struct scene *scene,
                       const struct canvas *canvas, bool selected)
{
    static double values[HISTORY_VALUES];
    size_t count = history_span(scene->history, panel->series, scene->span_s, values);
    size_t peak = graph_peak(values, count);
    char detail[PANEL_TEXT];
    double now = panel->value(scene);
    struct graph_mark marks[GRAPH_MARKS_MAX];

    if (count > 0 && now > 0 && (peak >= count || now > values[peak]))
        values[count - 1] = now; /* the current second may be the peak */
    panel->detail(scene, detail, sizeof(detail));
    panel_draw(&(struct panel){.title = panel->title,
                               .unit = panel->unit,
                               .selected = selected,
                               .bad = panel->bad,
                               .logarithmic = scene->logarithmic,
                               .style = scene->style,
                               .now = now,
                               .values = values,
                               .count = count,
                               .span_s = scene->span_s,
                               .marks = marks,
                               .mark_count = scene_marks(scene, scene->span_s, marks),
                               .detail = detail},
               canvas);
}
