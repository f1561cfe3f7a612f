/* The certificates in use: names, issuer, end, and the plan and last error of those of [acme]. */

#include "common/clock.h"
#include "common/units.h"
#include "console/scene/scene.h"
#include "console/ui/canvas.h"
#include "console/ui/table.h"

#include <inttypes.h>
#include <math.h>

enum { DAY_S = 86400, SOON_S = 14 * DAY_S, LATE_S = 2 * DAY_S };

enum column_number { NAMES, LEFT, ISSUER, NEXT, FAILURES, ERROR, END, COLUMNS };

static const struct column columns[COLUMNS] = {
    [NAMES] = {.title = "NAMES",
               .width = 24,
               .min_width = 16,
               .importance = 11,
               .stretch = 1,
               .key = true},
    [LEFT] =
        {.title = "TIME LEFT", .width = 9, .importance = 10, .right = true, .output = OUTPUT_NS},
    [ISSUER] = {.title = "ISSUER", .width = 20, .min_width = 12, .importance = 5, .stretch = 1},
    [NEXT] = {.title = "NEXT IN", .width = 8, .importance = 8, .right = true, .output = OUTPUT_NS},
    [FAILURES] = {.title = "FAILED", .width = 6, .importance = 7, .right = true},
    [ERROR] = {.title = "LAST ERROR", .width = 20, .importance = 6, .stretch = 1},
    [END] = {.title = "END", .width = 23, .importance = 4},
};

static const struct certificate_copy *certificate_at(const struct scene *scene, size_t row)
{
    return &scene->certificates->row[row];
}

static size_t certificates_count(void *state, const struct scene *scene)
{
    (void)state;
    return scene->moment == MOMENT_PAST ? 0 : scene->certificates->count;
}

/* Seconds from the time shown until TIME_S; negative: since then. */
static double seconds_until(const struct scene *scene, uint64_t time_s)
{
    return (double)time_s - (double)scene->wall_ns / (double)NS_PER_S;
}

/* A certificate of a few days is not late in its last third only because that is short. */
static enum tone end_tone(const struct scene *scene, const struct certificate_copy *certificate)
{
    double left_s = seconds_until(scene, certificate->not_after_s);
    double life_s = (double)certificate->not_after_s - (double)certificate->not_before_s;

    if (left_s <= 0 || (left_s < LATE_S && left_s < life_s / 3))
        return TONE_BAD;
    return left_s < SOON_S && left_s < life_s / 3 ? TONE_WARN : TONE_GOOD;
}

/* The time until TIME_S, or AFTER if it is over. */
static void cell_until(struct cell *cell, enum tone tone, const struct scene *scene,
                       uint64_t time_s, const char *after)
{
    double left_s = seconds_until(scene, time_s);
    char text[UNITS_TEXT];

    if (left_s > 0)
        units_format_age(text, sizeof(text), (uint64_t)left_s * NS_PER_S);
    cell_text(cell, tone, left_s > 0 ? text : after);
    cell->number = left_s * (double)NS_PER_S;
}

static void certificates_fill(void *state, const struct scene *scene, size_t row,
                              struct cell *cells)
{
    const struct certificate_copy *certificate = certificate_at(scene, row);
    enum tone tone = end_tone(scene, certificate);
    char end[UNITS_TEXT];

    (void)state;
    cell_text(&cells[NAMES], TONE_NORMAL,
              certificate->names[0] != '\0' ? certificate->names : "(no DNS name)");
    cell_until(&cells[LEFT], tone, scene, certificate->not_after_s, "ended");
    cell_text(&cells[ISSUER], TONE_NORMAL, certificate->issuer);
    cell_text(&cells[NEXT], TONE_DIM, "-");
    cells[NEXT].number = NAN;
    if (certificate->next_attempt_s > 0)
        cell_until(&cells[NEXT], TONE_NORMAL, scene, certificate->next_attempt_s, "now");
    cell_exact(&cells[FAILURES], certificate->failures > 0 ? TONE_WARN : TONE_DIM,
               certificate->failures);
    cell_text(&cells[ERROR], TONE_WARN, certificate->error);
    cell_text(&cells[END], TONE_DIM,
              units_format_utc(end, sizeof(end), (int64_t)certificate->not_after_s));
}

static void certificates_detail(void *state, const struct scene *scene, size_t row, FILE *out)
{
    const struct certificate_copy *certificate = certificate_at(scene, row);
    struct cell cells[COLUMNS] = {0};
    char text[UNITS_TEXT];

    certificates_fill(state, scene, row, cells);
    fprintf(out, "names\t%s\n", cells[NAMES].text);
    fprintf(out, "issuer\t%s\n", certificate->issuer);
    fprintf(out, "valid from\t%s\n",
            units_format_utc(text, sizeof(text), (int64_t)certificate->not_before_s));
    fprintf(out, "valid until\t%s (%s)\n", cells[END].text, cells[LEFT].text);
    if (certificate->next_attempt_s == 0) {
        fprintf(out, "The server does not obtain it itself: see [acme] in webserver.ini(5).\n");
        return;
    }
    fprintf(out, "next attempt\t%s (%s)\n",
            units_format_utc(text, sizeof(text), (int64_t)certificate->next_attempt_s),
            cells[NEXT].text);
    fprintf(out, "failures\t%" PRIu64 " since the last success\n", certificate->failures);
    if (certificate->error[0] != '\0')
        fprintf(out, "last error\t%s\n", certificate->error);
}

/* The one that ends first. */
static const struct list list = {
    .columns = columns,
    .column_count = COLUMNS,
    .count = certificates_count,
    .fill = certificates_fill,
    .detail = certificates_detail,
    .sorted_by = LEFT + 1,
};

static bool certificates_hidden(const struct scene *scene)
{
    return scene->certificates->count == 0;
}

static bool certificates_ready(const struct scene *scene)
{
    return scene->certificates->count > 0;
}

static void draw_certificates_summary(const struct scene *scene, const struct canvas *canvas)
{
    const struct certificate_list *certificates = scene->certificates;
    size_t late = 0, failing = 0;
    char line[160] = "";

    for (size_t i = 0; i < certificates->count; i++) {
        late += end_tone(scene, &certificates->row[i]) != TONE_GOOD;
        failing += certificates->row[i].failures > 0;
    }
    summary_add(line, sizeof(line), canvas->width, "%zu %s", certificates->count,
                certificates->count == 1 ? "certificate" : "certificates");
    summary_add(line, sizeof(line), canvas->width, "%zu %s soon", late, late == 1 ? "ends" : "end");
    summary_add(line, sizeof(line), canvas->width, "%zu not renewed", failing);
    canvas_text(canvas, 0, 0, late > 0 || failing > 0 ? TONE_WARN : TONE_NORMAL, line);
}

static void certificates_draw(void *state, const struct scene *scene, const struct canvas *canvas)
{
    struct canvas rows = canvas_part(canvas, 1, 0, canvas->height - 1, canvas->width);

    (void)state;
    if (scene->moment == MOMENT_PAST) {
        canvas_wrapped(canvas, 0, TONE_DIM,
                       "The history does not record certificates; Right returns to now.");
        return;
    }
    grid_draw(scene->grid, scene, &rows);
    draw_certificates_summary(scene, canvas);
}

static const char *const help[] = {
    "The certificates in use, the one that ends first above.",
    "TIME LEFT is yellow if it should have been renewed and ends within 14 days, red below 2.",
    "NEXT IN, FAILED and LAST ERROR are of those that the server obtains itself ([acme]).",
    ":acme renew NAME obtains a new one now. Enter shows all of a certificate.", NULL};

const struct view view_certificates = {
    .name = "certificates",
    .short_name = "cert",
    .action = ACTION_VIEW_CERTIFICATES,
    .section = SEGMENT_CERTIFICATES,
    .empty = "The server uses no certificate: no address of server.listen begins with https://.",
    .help = help,
    .list = &list,
    .hidden = certificates_hidden,
    .ready = certificates_ready,
    .draw = certificates_draw,
};
