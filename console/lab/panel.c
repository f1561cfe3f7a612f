#include "console/lab/panel.h"

#include "console/ui/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    BESIDE_FROM = 118, /* width of the body */
    PANEL_WIDTH = 40,
    LEAST_HEIGHT = 4,
    MOST_HEIGHT = 11,
    LINES_MOST = 64,
    LINE_BYTES = 256,
    WIDTH_MOST = 100, /* columns, for readability */
    LABEL_WIDTH = 20,
    NUMBER_WIDTH = 8,
};

struct line {
    enum tone tone;
    char text[LINE_BYTES];
};

struct lines {
    struct line line[LINES_MOST];
    int count, width;
};

void lab_panel_layout(const struct canvas *body, bool whole, struct canvas *view,
                      struct canvas *panel)
{
    int height = body->height / 2 > MOST_HEIGHT ? MOST_HEIGHT : body->height / 2;

    height = height < LEAST_HEIGHT ? LEAST_HEIGHT : height;
    if (whole || body->height <= LEAST_HEIGHT) {
        *view = canvas_part(body, 0, 0, 0, body->width);
        *panel = *body;
    } else if (body->width >= BESIDE_FROM) {
        *view = canvas_part(body, 0, 0, body->height, body->width - PANEL_WIDTH - 1);
        *panel = canvas_part(body, 0, body->width - PANEL_WIDTH, body->height, PANEL_WIDTH);
    } else {
        *view = canvas_part(body, 0, 0, body->height - height, body->width);
        *panel = canvas_part(body, body->height - height, 0, height, body->width);
    }
}

/* Adds TEXT, wrapped at blanks. */
static void add(struct lines *lines, enum tone tone, const char *text)
{
    while (*text != '\0' && lines->count < LINES_MOST) {
        struct line *line = &lines->line[lines->count++];
        size_t length = text_piece(text, lines->width);

        line->tone = tone;
        snprintf(line->text, sizeof(line->text), "%.*s", (int)length, text);
        text += length;
        text += strspn(text, " ");
    }
}

/* Adds a measure: now, and after the first step also before. */
static void add_number(struct lines *lines, const struct lab_state *state, enum lab_measure measure)
{
    char before[TEXT_SHORT], now[TEXT_SHORT], text[LINE_BYTES];

    lab_measure_text(measure, state->before[measure], before);
    lab_measure_text(measure, state->now[measure], now);
    if (state->number == 1)
        snprintf(text, sizeof(text), "%-*s%*s", LABEL_WIDTH, lab_measure_label(measure),
                 NUMBER_WIDTH, now);
    else
        snprintf(text, sizeof(text), "%-*s%*s -> %s", LABEL_WIDTH, lab_measure_label(measure),
                 NUMBER_WIDTH, before, now);
    add(lines, state->phase == LAB_EXPLAINED ? TONE_VALUE : TONE_DIM, text);
}

static void add_numbers(struct lines *lines, const struct lab_state *state)
{
    for (size_t i = 0; i < LAB_SHOWN && state->step->shown[i] != LAB_MEASURE_NONE; i++)
        if (lines->count < LINES_MOST)
            add_number(lines, state, state->step->shown[i]);
}

static void add_step(struct lines *lines, const struct lab_state *state)
{
    char text[LINE_BYTES];

    switch (state->phase) {
    case LAB_PENDING:
        add(lines, TONE_VALUE, state->step->todo);
        add(lines, TONE_NORMAL, state->step->watch);
        add_numbers(lines, state);
        break;
    case LAB_MEASURING:
        snprintf(text, sizeof(text), "Done. Measuring, %.0f s left.", ceil(state->left_s));
        add(lines, TONE_NOTE, text);
        add_numbers(lines, state);
        add(lines, TONE_NORMAL, state->step->watch);
        break;
    case LAB_EXPLAINED:
        add_numbers(lines, state);
        add(lines, TONE_NORMAL, state->step->why);
        break;
    }
}

static void draw_title(const struct lab_state *state, const struct canvas *panel)
{
    static const char *const words[] = {
        [LAB_PENDING] = "to do", [LAB_MEASURING] = "measuring", [LAB_EXPLAINED] = "done, L: next"};
    bool over = state->phase == LAB_EXPLAINED && state->number == state->count;
    char right[40];
    int end;

    canvas_repeat(panel, 0, 0, panel->width, TONE_BAR, L' ');
    snprintf(right, sizeof(right), "%d of %d: %s", state->number, state->count,
             over ? "done, L: end" : words[state->phase]);
    end = canvas_right(panel, 0, panel->width - 1, TONE_BAR_KEY, right);
    canvas_print(panel, 0, 1, TONE_BAR, "%.*s", end > 3 ? end - 3 : 0,
                 (int)strlen(state->scenario->title) <= end - 3 ? state->scenario->title
                                                                : state->scenario->name);
}

/* A hint that not all lines fit, and the key that shows them. */
static void draw_more(const struct canvas *panel, bool scrolls, bool ascii)
{
    char text[32];

    snprintf(text, sizeof(text), "%s %s", ascii ? "..." : "…", scrolls ? "PgDn" : "l shows all");
    canvas_right(panel, panel->height - 1, panel->width, TONE_BAR_KEY, text);
}

void lab_panel_draw(const struct lab_state *state, const struct canvas *panel,
                    struct scroll *scroll, bool ascii)
{
    static struct lines lines; /* too large for the stack */
    int room = panel->height - 1, top = 0;

    lines.count = 0;
    lines.width = panel->width - 1 < WIDTH_MOST ? panel->width - 1 : WIDTH_MOST;
    if (state->error != NULL)
        add(&lines, TONE_BAD, state->error);
    if (state->ended)
        add(&lines, TONE_WARN, "The server has exited. L leaves.");
    else
        add_step(&lines, state);
    draw_title(state, panel);
    if (scroll != NULL) {
        scroll_fit(scroll, lines.count, room);
        top = scroll->top;
    }
    for (int i = 0; i < room && top + i < lines.count; i++)
        canvas_text(panel, 1 + i, 0, lines.line[top + i].tone, lines.line[top + i].text);
    if (lines.count - top > room && room > 0)
        draw_more(panel, scroll != NULL, ascii);
}
