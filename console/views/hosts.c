/*
 * The hosts: requests, statuses, bytes and latency by [host] section, of the last 5 to 10 seconds.
 */

#include "common/macros.h"
#include "console/data/server_info.h"
#include "console/scene/scene.h"
#include "console/ui/canvas.h"
#include "console/ui/table.h"
#include "console/ui/text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum column_number {
    REQUESTS,
    SHARE,
    HOST,
    CLASS_2XX,
    CLASS_3XX,
    CLASS_4XX,
    CLASS_5XX,
    SENT,
    P50,
    P99,
    ALL_REQUESTS,
    BYTES,
    COLUMNS
};

static const struct column columns[COLUMNS] = {
    [REQUESTS] =
        {.title = "REQ/S", .width = 6, .importance = 10, .right = true, .name = "requests_per_s"},
    [SHARE] =
        {.title = "SHARE", .width = 6, .importance = 6, .right = true, .name = "share_percent"},
    [HOST] = {.title = "HOST", .width = 16, .importance = 11, .stretch = 1, .key = true},
    [CLASS_2XX] = {.title = "2XX/S",
                   .width = 6,
                   .importance = 5,
                   .right = true,
                   .name = "responses_2xx_per_s"},
    [CLASS_3XX] = {.title = "3XX/S",
                   .width = 6,
                   .importance = 4,
                   .right = true,
                   .name = "responses_3xx_per_s"},
    [CLASS_4XX] = {.title = "4XX/S",
                   .width = 6,
                   .importance = 7,
                   .right = true,
                   .name = "responses_4xx_per_s"},
    [CLASS_5XX] = {.title = "5XX/S",
                   .width = 6,
                   .importance = 8,
                   .right = true,
                   .name = "responses_5xx_per_s"},
    [SENT] =
        {.title = "SENT/S", .width = 8, .importance = 3, .right = true, .name = "bytes_sent_per_s"},
    [P50] = {.title = "P50", .width = 7, .importance = 2, .right = true, .output = OUTPUT_NS},
    [P99] = {.title = "P99", .width = 7, .importance = 9, .right = true, .output = OUTPUT_NS},
    [ALL_REQUESTS] = {.title = "REQUESTS", .width = 8, .importance = 1, .right = true},
    [BYTES] =
        {.title = "BYTES", .width = 8, .importance = 1, .right = true, .output = OUTPUT_BYTES},
};

static size_t hosts_count(void *state, const struct scene *scene)
{
    (void)state;
    return scene->moment == MOMENT_PAST ? 0 : scene->hosts->count;
}

static void hosts_fill(void *state, const struct scene *scene, size_t row, struct cell *cells)
{
    const struct host_row *host = &scene->hosts->rows[row];

    (void)state;
    cell_rate(&cells[REQUESTS], TONE_VALUE, host->requests_per_s);
    cell_percent(&cells[SHARE], TONE_NORMAL, host->share);
    cell_text(&cells[HOST], TONE_NORMAL, host->name);
    for (int i = 0; i < HOST_CLASSES; i++)
        cell_rate(&cells[CLASS_2XX + i],
                  host->class_per_s[i] > 0 ? status_tone(100 * (i + 2)) : TONE_DIM,
                  host->class_per_s[i]);
    cell_bytes(&cells[SENT], TONE_NORMAL, host->sent_per_s);
    cell_latency(&cells[P50], TONE_NORMAL, host->p50_ns);
    cell_latency(&cells[P99], TONE_NORMAL, host->p99_ns);
    cell_count(&cells[ALL_REQUESTS], TONE_NORMAL, (double)host->requests);
    cell_bytes(&cells[BYTES], TONE_NORMAL, (double)host->sent);
}

static uint64_t hosts_id(void *state, const struct scene *scene, size_t row)
{
    (void)state;
    return scene->hosts->rows[row].id;
}

static void hosts_detail(void *state, const struct scene *scene, size_t row, FILE *out)
{
    const struct host_row *host = &scene->hosts->rows[row];
    struct cell cells[COLUMNS] = {0};

    hosts_fill(state, scene, row, cells);
    fprintf(out, "host\t%s\n", host->name);
    if (strcmp(host->name, "*") == 0)
        fprintf(out, "Requests whose Host field matches no [host] section.\n");
    fprintf(out, "requests\t%s/s, %s of all\n", cells[REQUESTS].text, cells[SHARE].text);
    fprintf(out, "responses\t2xx %s/s  3xx %s/s  4xx %s/s  5xx %s/s\n", cells[CLASS_2XX].text,
            cells[CLASS_3XX].text, cells[CLASS_4XX].text, cells[CLASS_5XX].text);
    fprintf(out, "latency\tp50 %s, p99 %s\n", cells[P50].text, cells[P99].text);
    fprintf(out, "sent\t%s/s\n", cells[SENT].text);
    fprintf(out, "since the start\t%" PRIu64 " requests, %s\n", host->requests, cells[BYTES].text);
}

/* The busiest first. */
static const struct list list = {
    .columns = columns,
    .column_count = COLUMNS,
    .count = hosts_count,
    .fill = hosts_fill,
    .id = hosts_id,
    .detail = hosts_detail,
    .sorted_by = -(REQUESTS + 1),
    .opens = true,
};

static bool hosts_hidden(const struct scene *scene)
{
    return !scene->has_hosts;
}

static bool hosts_ready(const struct scene *scene)
{
    return scene->has_hosts;
}

static void draw_hosts_summary(const struct scene *scene, const struct canvas *canvas)
{
    const struct host_list *hosts = scene->hosts;
    double requests = 0, sent = 0;
    char text[TEXT_SHORT], line[160] = "";

    if (hosts->count == 0)
        return; /* not read yet */
    for (size_t i = 0; i < hosts->count; i++) {
        requests += hosts->rows[i].requests_per_s;
        sent += hosts->rows[i].sent_per_s;
    }
    summary_add(line, sizeof(line), canvas->width, "%zu %s and *", hosts->count - 1,
                hosts->count == 2 ? "host" : "hosts");
    if (hosts->interval_ns > 0) {
        summary_add(line, sizeof(line), canvas->width, "last %s",
                    text_since(text, hosts->interval_ns));
        summary_add(line, sizeof(line), canvas->width, "requests/s %s", text_count(text, requests));
        summary_add(line, sizeof(line), canvas->width, "sent/s %s", text_bytes(text, sent));
    }
    canvas_text(canvas, 0, 0, TONE_NORMAL, line);
}

static void hosts_draw(void *state, const struct scene *scene, const struct canvas *canvas)
{
    struct canvas rows = canvas_part(canvas, 1, 0, canvas->height - 1, canvas->width);

    (void)state;
    if (scene->moment == MOMENT_PAST) {
        canvas_wrapped(canvas, 0, TONE_DIM,
                       "The history does not record hosts; Right returns to now.");
        return;
    }
    grid_draw(scene->grid, scene, &rows);
    draw_hosts_summary(scene, canvas);
}

static const char empty[] =
    "The server has no [host] sections, so nothing is counted by host. A section such as "
    "[host www.example.org] makes a site of its own: see webserver.ini(5).";

static void hosts_once(void *state, const struct scene *scene, FILE *out)
{
    (void)state;
    if (scene->has_hosts)
        grid_print(scene->grid, scene, out);
    else
        fprintf(out, "%s\n", empty);
}

static json_t *hosts_json(void *state, const struct scene *scene)
{
    (void)state;
    return json_pack("{s:o, s:I}", "hosts", grid_json(scene->grid, scene), "interval_ns",
                     (json_int_t)scene->hosts->interval_ns);
}

static const char *const help[] = {
    "The sites of the server: one row for each [host] section, with its first name.",
    "The row * has the requests that match no section.",
    "Rates, shares and latency are those of the last 5 to 10 seconds, REQUESTS and",
    "BYTES those since the start, or since a reload added the host.",
    "Enter shows the requests of a host; again, the details.",
    "f filters by it: the log and the top lists then show only its requests.",
    NULL};

static const struct view_hint hints[] = {{ACTION_OPEN, "requests", false, HINT_ROWS},
                                         {ACTION_FILTER_ROW, "by host", false, HINT_SELECTED},
                                         {ACTION_NONE, "", false, HINT_ALWAYS}};

/* In the order of the screen. */
static const struct view_number numbers[] = {
    TEXT_NUMBER("REQ/S", "Responses to requests for the host, per second"),
    TEXT_NUMBER("SHARE", "Part of the responses of all hosts"),
    TEXT_NUMBER("2XX/S", "Responses with a status from 200 to 299, per second; the others alike"),
    TEXT_NUMBER("SENT/S", "Body bytes sent, per second"),
    TEXT_NUMBER("P50, P99",
                "Half of the responses, or 99 of 100, took at most this time; up to 25 % too high"),
    NUMBERS_END,
};

const struct view view_hosts = {
    .name = "hosts",
    .action = ACTION_VIEW_HOSTS,
    .empty = empty,
    .hints = hints,
    .numbers = numbers,
    .help = help,
    .section = SEGMENT_HOSTS,
    .wants = WANT_HOSTS,
    .list = &list,
    .hidden = hosts_hidden,
    .ready = hosts_ready,
    .draw = hosts_draw,
    .once = hosts_once,
    .json = hosts_json,
};
