/*
 * Writes a recording as one HTML page. The screens of all views are drawn off-screen, as for the
 * terminal. The data in the page is base64 of zlib's format; inflated it is text:
 *
 *     data    = description ("\f" view)*
 *     view    = (row* "\n")*         for each moment the rows that changed
 *     row     = line (text | number) "\n"
 *     line    = the character '!' + number of the line
 *     text    = (tone cells)+        a row not seen before
 *     tone    = U+0080 + enum tone
 *     number  = decimal              a row seen before, in any view
 *
 * Description: an object of JSON. Rows are numbered as they first appear, moment by moment and in
 * each by view; 0 is the empty one. The second column of a wide character is U+009F.
 */
#include "console/app/program.h"

#include "common/clock.h"
#include "common/escape.h"
#include "console/app/page_files.h"
#include "console/app/session.h"
#include "console/ui/text.h"

#include <errno.h>
#include <inttypes.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

enum {
    WIDTH = 120,
    HEIGHT = 40,
    FIRST_LINE = '!',
    TONE_CODE = 0x80,
    WIDE_CODE = 0x9f,
    ROW_BYTES = PAGE_MAX_WIDTH * 6 + 1, /* each cell with its tone */
    SLOTS_FIRST = 4096
};

struct page {
    struct options *options;
    struct session session;
    struct sheet sheet;
    uint64_t step_ns;
    size_t moments;
    char **rows;     /* by number; [0]: the empty one */
    uint32_t *slots; /* hash table of row numbers; 0: free */
    size_t row_count, slot_count;
    struct page_view {
        FILE *out; /* writes to text */
        char *text;
        size_t length;
        uint32_t *rows; /* those of the moment before; NULL: it has no tab yet */
    } view[VIEW_COUNT];
    json_t *clocks;
};

/* Rows */

static char *put_code(char *to, uint32_t code)
{
    if (code < 0x80) {
        *to++ = (char)code;
    } else if (code < 0x800) {
        *to++ = (char)(0xc0 | code >> 6);
        *to++ = (char)(0x80 | (code & 0x3f));
    } else {
        if (code < 0x10000)
            *to++ = (char)(0xe0 | code >> 12);
        else {
            *to++ = (char)(0xf0 | code >> 18);
            *to++ = (char)(0x80 | (code >> 12 & 0x3f));
        }
        *to++ = (char)(0x80 | (code >> 6 & 0x3f));
        *to++ = (char)(0x80 | (code & 0x3f));
    }
    return to;
}

/* Writes the row as text, without blanks at its end. */
static void write_row_text(const struct sheet_cell *cells, int width, char *text)
{
    while (width > 0 && cells[width - 1].glyph == L' ' && cells[width - 1].tone == TONE_NORMAL)
        width--;
    for (int i = 0; i < width; i++) {
        if (i == 0 || cells[i].tone != cells[i - 1].tone)
            text = put_code(text, TONE_CODE + cells[i].tone);
        text = put_code(text, cells[i].glyph == 0 ? WIDE_CODE : (uint32_t)cells[i].glyph);
    }
    *text = '\0';
}

static size_t hash_row(const char *text)
{
    uint64_t hash = 14695981039346656037U; /* FNV-1a */

    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211U;
    return (size_t)(hash ^ hash >> 32);
}

/* The slot that has the row TEXT, or a free one. */
static uint32_t *slot_of(const struct page *page, const char *text)
{
    size_t slot = hash_row(text) & (page->slot_count - 1);

    while (page->slots[slot] != 0 && strcmp(page->rows[page->slots[slot]], text) != 0)
        slot = (slot + 1) & (page->slot_count - 1);
    return &page->slots[slot];
}

/* Makes room for another row: at least half of the slots stay free. */
static int grow_rows(struct page *page)
{
    size_t count = page->slot_count == 0 ? SLOTS_FIRST : 2 * page->slot_count;
    uint32_t *slots;
    char **rows;

    if (2 * (page->row_count + 1) <= page->slot_count)
        return 0;
    slots = calloc(count, sizeof(*slots));
    rows = realloc(page->rows, count / 2 * sizeof(*rows));
    page->rows = rows != NULL ? rows : page->rows;
    if (slots == NULL || rows == NULL) {
        free(slots);
        return -1;
    }
    free(page->slots);
    page->slots = slots;
    page->slot_count = count;
    for (size_t i = 1; i < page->row_count; i++)
        *slot_of(page, page->rows[i]) = (uint32_t)i;
    return 0;
}

/* The number of the row TEXT; *IS_NEW if it was not seen before. 0: the empty one. -1: no memory. */
static int64_t number_row(struct page *page, const char *text, bool *is_new)
{
    uint32_t *slot;

    *is_new = false;
    if (text[0] == '\0')
        return 0;
    if (grow_rows(page) != 0)
        return -1;
    slot = slot_of(page, text);
    *is_new = *slot == 0;
    if (*is_new) {
        page->rows[page->row_count] = strdup(text);
        if (page->rows[page->row_count] == NULL)
            return -1;
        *slot = (uint32_t)page->row_count++;
    }
    return *slot;
}

/* Screens */

static int write_page_row(struct page *page, struct page_view *view, int y)
{
    char text[ROW_BYTES];
    bool is_new;
    int64_t row;

    write_row_text(page->sheet.cells + (size_t)y * (size_t)page->sheet.width, page->sheet.width,
                   text);
    row = number_row(page, text, &is_new);
    if (row < 0)
        return -1;
    if (is_new)
        fprintf(view->out, "%c%s\n", FIRST_LINE + y, text);
    else if (row != view->rows[y])
        fprintf(view->out, "%c%" PRId64 "\n", FIRST_LINE + y, row);
    view->rows[y] = (uint32_t)row;
    return 0;
}

/* A view that has no tab keeps its screen. */
static int write_screen(struct page *page, size_t number)
{
    struct page_view *view = &page->view[number];
    struct scene scene = session_scene(&page->session);

    if (frame_has_tab(&scene, number, VIEW_COUNT)) {
        if (view->rows == NULL)
            view->rows = calloc((size_t)page->sheet.height, sizeof(*view->rows));
        if (view->rows == NULL)
            return -1;
        page->session.view = number;
        frame_draw(&page->session);
        for (int y = 0; y < page->sheet.height; y++)
            if (write_page_row(page, view, y) != 0)
                return -1;
    }
    return fputc('\n', view->out) == EOF ? -1 : 0;
}

static int write_moment(struct page *page, uint64_t at_ns)
{
    struct session *session = &page->session;
    char clock[TEXT_SHORT];

    session->timeline.frozen = true;
    session->timeline.replay_at_ns = (double)at_ns;
    while (!timeline_sample(session, 0) && session->failure == NULL)
        continue;
    if (session->failure != NULL)
        return -1;
    session_update_views(session);
    for (size_t i = 0; i < VIEW_COUNT; i++)
        if (write_screen(page, i) != 0)
            return -1;
    text_clock(clock, replay_wall_ns(watch_replay(session->watch)));
    return json_array_append_new(page->clocks, json_stringn(clock, strlen("hh:mm:ss")));
}

static int write_moments(struct page *page)
{
    uint64_t length_ns = replay_length_ns(watch_replay(page->session.watch));

    for (uint64_t at_ns = 0; at_ns <= length_ns; at_ns += page->step_ns) {
        if (write_moment(page, at_ns) != 0)
            return -1;
        page->moments++;
    }
    return 0;
}

/* The description */

static size_t moment_of(const struct page *page, double at_ns)
{
    double moment = at_ns > 0 ? (at_ns + (double)page->step_ns - 1) / (double)page->step_ns : 0;

    return moment < (double)page->moments ? (size_t)moment : page->moments - 1;
}

/* The marks since FROM_NS (wall clock). */
static json_t *describe_marks(const struct page *page, uint64_t from_ns)
{
    const struct marks *marks = watch_info(page->session.watch)->marks;
    json_t *all = json_array();
    char clock[TEXT_SHORT];

    for (size_t i = 0; i < marks->count; i++) {
        const struct mark *mark = &marks->mark[i];
        const struct mark_info *info = &mark_table[mark->kind];

        if (mark->time_ns < from_ns)
            continue;
        text_clock(clock, mark->time_ns);
        json_array_append_new(all,
                              json_pack("{s:i, s:s%, s:s#, s:b, s:o}", "moment",
                                        (int)moment_of(page, (double)(mark->time_ns - from_ns)),
                                        "clock", clock, strlen("hh:mm:ss"), "letter", &info->letter,
                                        1, "severe", info->severe, "text", json_text(mark->text)));
    }
    return all;
}

/* FIRST: its number among those with a tab. */
static json_t *describe_views(const struct page *page, int *first)
{
    json_t *all = json_array();

    *first = 0;
    for (size_t i = 0; i < VIEW_COUNT; i++) {
        if (page->view[i].rows == NULL)
            continue;
        if (view_table[i] == page->options->view)
            *first = (int)json_array_size(all);
        json_array_append_new(all, json_pack("{s:s, s:s}", "name", view_table[i]->name, "key",
                                             key_table[view_table[i]->action].shown));
    }
    return all;
}

static json_t *describe_page(const struct page *page)
{
    const struct server_info *info = watch_info(page->session.watch);
    const struct replay *replay = watch_replay(page->session.watch);
    uint64_t length_ns = replay_length_ns(replay),
             from_ns = replay_wall_ns(replay) - replay_at_ns(replay);
    time_t second = (time_t)(from_ns / NS_PER_S);
    struct tm parts;
    char date[TEXT_SHORT];
    json_t *views;
    int first;

    localtime_r(&second, &parts);
    strftime(date, sizeof(date), "%Y-%m-%d %H:%M", &parts);
    views = describe_views(page, &first);
    return json_pack("{s:o, s:s, s:s, s:i, s:i, s:f, s:f, s:f, s:i, s:i, s:i, s:o, s:o, s:O}",
                     "name", json_text(info->snapshot.server.name), "date", date, "version",
                     WEBSERVERD_VERSION, "rows", page->sheet.height, "columns", page->sheet.width,
                     "step", (double)page->step_ns / (double)NS_PER_S, "length",
                     (double)length_ns / (double)NS_PER_S, "speed", page->options->replay_speed,
                     "moments", (int)page->moments, "at",
                     (int)moment_of(page, (double)page->options->at_ns), "view", first, "views",
                     views, "marks", describe_marks(page, from_ns), "clocks", page->clocks);
}

/* The file */

/* Returns 0, or -1: out of memory. */
static int write_data(struct page *page, FILE *out)
{
    json_t *description = describe_page(page);
    char *text = description != NULL ? json_dumps(description, JSON_COMPACT) : NULL, *all = NULL;
    unsigned char *packed = NULL;
    size_t length = 0;
    uLongf packed_length;
    FILE *join = open_memstream(&all, &length);
    int failed = text == NULL || join == NULL;

    if (!failed)
        fputs(text, join);
    for (size_t i = 0; i < VIEW_COUNT && !failed; i++)
        if (page->view[i].rows != NULL) {
            fputc('\f', join);
            fwrite(page->view[i].text, 1, page->view[i].length, join);
        }
    failed |= join != NULL && fclose(join) != 0;
    packed_length = compressBound(length);
    packed = failed ? NULL : malloc(packed_length);
    failed = packed == NULL || compress2(packed, &packed_length, (const unsigned char *)all, length,
                                         Z_BEST_COMPRESSION) != Z_OK;
    if (!failed)
        text_base64(out, packed, packed_length);
    free(packed);
    free(all);
    free(text);
    json_decref(description);
    return failed ? -1 : 0;
}

/* A colour of the palette of xterm; -1: FALLBACK. */
static const char *css_colour(int colour, const char *fallback, char *text, size_t size)
{
    static const char *const basic[] = {"#000000", "#cd3131", "#2aa148", "#b58900",
                                        "#3465d4", "#a347ba", "#11a8cd", "#d8d8d8"};
    static const int levels[] = {0, 95, 135, 175, 215, 255};
    int cube = colour - 16, gray = 8 + 10 * (colour - 232);

    if (colour < 0)
        return fallback;
    if (colour < 8)
        return basic[colour];
    if (colour >= 232)
        snprintf(text, size, "#%02x%02x%02x", gray, gray, gray);
    else
        snprintf(text, size, "#%02x%02x%02x", levels[cube / 36], levels[cube / 6 % 6],
                 levels[cube % 6]);
    return text;
}

static void write_theme(FILE *out, enum theme theme)
{
    const char *front = theme == THEME_LIGHT ? "#1b1f24" : "#d8dee6";
    const char *back = theme == THEME_LIGHT ? "#ffffff" : "#101418";

    fprintf(out, ":root{color-scheme:%s;--front:%s;--back:%s}\n",
            theme == THEME_LIGHT ? "light" : "dark", front, back);
    for (int tone = 0; tone < TONE_COUNT; tone++) {
        struct tone_look look = theme_look(theme, (enum tone)tone);
        char colours[2][32];
        const char *over = css_colour(look.front, front, colours[0], sizeof(colours[0]));
        const char *under = css_colour(look.back, look.reverse ? back : "transparent", colours[1],
                                       sizeof(colours[1]));

        fprintf(out, ".t%d{color:%s;background:%s;font-weight:%s;text-decoration:%s;opacity:%s}\n",
                tone, look.reverse ? under : over, look.reverse ? over : under,
                look.bold ? "bold" : "normal", look.underlined ? "underline" : "none",
                look.dim ? ".65" : "1");
    }
}

/* Without --theme: as the reader's system prefers. */
static void write_style(const struct page *page, FILE *out)
{
    enum theme theme = page->options->theme_setting;

    write_theme(out, theme != THEME_COUNT ? theme : THEME_DARK);
    if (theme == THEME_COUNT) {
        fprintf(out, "@media (prefers-color-scheme:light){\n");
        write_theme(out, THEME_LIGHT);
        fprintf(out, "}\n");
    }
}

/* Writes the template with MARK replaced by what WRITE writes. Returns what follows the mark. */
static const char *write_until(FILE *out, const char *template, const char *mark)
{
    const char *at =
        memmem(template, (size_t)((const char *)page_html + sizeof(page_html) - template), mark,
               strlen(mark));

    fwrite(template, 1, (size_t)(at - template), out);
    return at + strlen(mark);
}

static int write_page(struct page *page, FILE *out)
{
    const char *rest = write_until(out, (const char *)page_html, "@STYLE@\n");
    int failed;

    write_style(page, out);
    rest = write_until(out, rest, "@DATA@");
    failed = write_data(page, out);
    fwrite(rest, 1, (size_t)((const char *)page_html + sizeof(page_html) - rest), out);
    return failed;
}

/* Start and end */

/* Returns 0, or -1 with a message in WHY. */
static int make_page(struct page *page, char *why, size_t size)
{
    struct options *options = page->options;
    struct session_next next = {.wanted = false};
    FILE *out;
    int failed;

    snprintf(why, size, "out of memory");
    if (session_open(&page->session, options, NULL, &next, why, size) != 0)
        return -1;
    page->sheet.cells =
        calloc((size_t)page->sheet.height * (size_t)page->sheet.width, sizeof(*page->sheet.cells));
    page->clocks = json_array();
    if (page->sheet.cells == NULL || page->clocks == NULL)
        return -1;
    for (size_t i = 0; i < VIEW_COUNT; i++)
        if ((page->view[i].out = open_memstream(&page->view[i].text, &page->view[i].length)) ==
            NULL)
            return -1;
    screen_start_on(&page->session.screen, &page->sheet, options->ascii);
    if (write_moments(page) != 0)
        return -1;
    for (size_t i = 0; i < VIEW_COUNT; i++)
        if (fflush(page->view[i].out) != 0)
            return -1;
    out = fopen(options->html, "we");
    failed = out == NULL || write_page(page, out) != 0;
    if (!failed && fclose(out) == 0)
        return 0;
    if (out == NULL || !failed)
        snprintf(why, size, "cannot write %.200s: %s", options->html, strerror(errno));
    return -1;
}

static void release_page(struct page *page)
{
    for (size_t i = 0; i < VIEW_COUNT; i++) {
        if (page->view[i].out != NULL)
            fclose(page->view[i].out);
        free(page->view[i].text);
        free(page->view[i].rows);
    }
    for (size_t i = 1; i < page->row_count; i++)
        free(page->rows[i]);
    free(page->rows);
    free(page->slots);
    free(page->sheet.cells);
    json_decref(page->clocks);
    session_close(&page->session);
}

int page_run(struct options *options)
{
    double every_s = options->every_s > 0 ? options->every_s : 1;
    struct page page = {.options = options,
                        .row_count = 1,
                        .step_ns = (uint64_t)(every_s * (double)NS_PER_S),
                        .sheet = {.height = options->rows > 0 ? options->rows : HEIGHT,
                                  .width = options->rows > 0 ? options->columns : WIDTH}};
    const char *problem;
    char why[512];
    int failed;

    if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
        setlocale(LC_CTYPE, "C.UTF-8"); /* the page is UTF-8 in any locale */
    failed = make_page(&page, why, sizeof(why));
    problem = !failed ? replay_error(watch_replay(page.session.watch)) : why;
    if (problem != NULL)
        escape_report("wsconsole", problem);
    release_page(&page);
    return failed ? EXIT_FAILED : EXIT_DONE;
}
