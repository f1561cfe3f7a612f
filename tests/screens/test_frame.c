/* What all views share: time, filter, commands, dialogs, the mouse; random input. */
#include "common/macros.h"
#include "patience.h"
#include "scratch.h"
#include "stage.h"
#include "tests/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char settings[SCRATCH_PATH_MAX]; /* XDG_CONFIG_HOME of use_settings(); "": none */

static int tear_down(void **state)
{
    stage_teardown(state);
    if (settings[0] != '\0')
        scratch_remove(settings);
    settings[0] = '\0';
    return 0;
}

const struct test_fixture test_fixture = {NULL, tear_down};

enum { SETTING_BYTES = SCRATCH_PATH_MAX + 32 };

/*
 * Stores an environment whose settings are in an empty directory in VARIABLE, and the path of the file
 * NAME there in FILE (SETTING_BYTES each).
 */
static void use_settings(char *variable, char *file, const char *name)
{
    scratch_make(settings);
    snprintf(variable, SETTING_BYTES, "XDG_CONFIG_HOME=%s", settings);
    snprintf(file, SETTING_BYTES, "%s/webserverd/%s", settings, name);
}

static const char *const log_view[] = {"log", NULL};
static const char *const readonly[] = {"--readonly", NULL};

/* Sends COUNT left clicks at once, in SGR coordinates. */
static void clicks(int count, int row, int column)
{
    char text[256];
    size_t used = 0;

    for (int i = 0; i < count; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "\x1b[<0;%d;%dM\x1b[<0;%d;%dm",
                                 column + 1, row + 1, column + 1, row + 1);
    terminal_type(terminal, text);
}

/* The column of TEXT in a line of single-width characters. */
static int text_column(const char *line, const char *text)
{
    const char *end = strstr(line, text);
    int column = 0;

    for (; line < end; line++)
        column += ((unsigned char)*line & 0xc0) != 0x80;
    return column;
}

static void click(int row, int column)
{
    clicks(1, row, column);
}

TEST(history_is_shown_by_second)
{
    stage_open(24, 80, NULL, NULL);
    ASSERT_SHOWS("10.0k total");
    TYPE_SHOWS("\x1bOD", " 1 s ago", "requests/s  100");
    assert_null(strstr(terminal_text(terminal),
                       "of 0")); /* no "of N": the history does not record wanted numbers */
    /* To the second with the peak: 5000 requests, in sum (120 - 30) * 100 + 4900. */
    for (int i = 1; i < FIXTURE_PEAK_BACK; i++)
        terminal_type(terminal, "\x1bOD");
    ASSERT_SHOWS(" 30 s ago", "requests/s  5.00k", "13.9k total");
    TYPE_SHOWS("\x1bOC", " 29 s ago", "requests/s  100");
    TYPE_SHOWS("[[[", "1m 59s ago"); /* the oldest second */
    TYPE_HIDES(" ", "Space resume");
    ASSERT_SHOWS("10.0k total");
}

/* Changes stand below the graphs at their second, and the keys go from one to the next. */
TEST(marks_stand_on_graphs)
{
    static const struct {
        unsigned seconds;
        const char *text;
    } events[] = {
        {50, "configuration reloaded, generation 2; changed: cache.size"},
        {40, "a note that is no mark"},
        {30, "serving threads per worker changed from 2 to 4, by uid 0 pid 77"},
        {10, "worker 1 (pid 9) was killed by signal 11: starting another"},
    };
    const char *axis;

    stage_fixture();
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
        fixture_log_event(fixture, events[i].seconds, events[i].text);
    stage_console(24, 80, NULL, NULL);
    ASSERT_SHOWS("10.0k total", "!");
    axis = terminal_line(terminal, 7);
    assert_non_null(strstr(axis, "1m └"));
    assert_true(strchr(axis, 'R') != NULL && strchr(axis, 'R') < strchr(axis, 'T'));
    assert_true(strchr(axis, 'T') != NULL && strchr(axis, 'T') < strchr(axis, '!'));
    assert_null(strpbrk(axis, "CAULW"));
    TYPE_SHOWS("N", " ago  ! worker 1 (pid 9) was killed");
    TYPE_SHOWS("N", " ago  T serving threads per worker");
    TYPE_SHOWS("N", " ago  R configuration reloaded");
    TYPE_SHOWS("N", " no earlier mark");
    TYPE_SHOWS("n", " ago  T serving threads per worker");
    TYPE_SHOWS("}}", " no later mark");
    assert_null(strstr(terminal_text(terminal), "not done"));
    TYPE_HIDES(" ", "Space resume");
    terminal_resize(terminal, 10, 40); /* a graph of one line has them, too */
    ASSERT_SHOWS("!", "T", "R");
}

/* Beside the server's name, at every size: "healthy", or the worst thing now and where to look. */
TEST(health_line_names_a_dead_worker)
{
    static const struct {
        int rows, columns;
        const char *health;
    } sizes[] = {{10, 40, "worker 1 died"},
                 {15, 80, "s ago, replaced: 9 events  a acknowledges"},
                 {24, 80, "s ago, replaced: 9 events  a acknowledges"},
                 {40, 120, "s ago, replaced: 9 events  a acknowledges"},
                 {50, 200, "a acknowledges  up 1h 02m"}};

    stage_open(24, 80, NULL, NULL);
    ASSERT_SHOWS("10.0k total", "healthy", "[1 overview]");
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        terminal_resize(terminal, sizes[i].rows, sizes[i].columns);
        ASSERT_SHOWS("  healthy", "threads 4 of 4");
    }
    fixture_log_event(fixture, 0, "worker 1 (pid 9) was killed by signal 9: starting another");
    fixture_add(fixture, METRIC_workers_died, 1);
    ASSERT_SHOWS("worker 1 died", "9 events(1)");
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        terminal_resize(terminal, sizes[i].rows, sizes[i].columns);
        ASSERT_SHOWS("  worker 1 died ", "(1)");
        stage_shows(&sizes[i].health, 1);
        assert_non_null(strstr(terminal_line(terminal, 1), stage_name()));
    }
    TYPE_SHOWS("9", "[9 events(1)]", "alert began: worker died (");
    TYPE_SHOWS("a", "  healthy", "[9 events]");
}

/* The row of the screen that begins with TEXT. */
static int row_of(const char *text)
{
    int row = 0;

    while (strncmp(terminal_line(terminal, row), text, strlen(text)) != 0)
        row++;
    return row;
}

/* What failed comes first and in colour, also on a screen that has few lines below the panels. */
TEST(failures_come_first)
{
    static const struct {
        int rows, columns;
    } sizes[] = {{10, 40}, {15, 80}, {18, 80}, {24, 80}, {40, 120}, {50, 200}};
    static const char *const dark[] = {"--theme", "dark", NULL};

    stage_open(24, 80, dark, NULL);
    ASSERT_SHOWS("10.0k total", "failures workers died 0  others died 0");
    fixture_add(fixture, METRIC_workers_died, 3);
    fixture_add(fixture, METRIC_connections_timed_out, 2);
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        terminal_resize(terminal, sizes[i].rows, sizes[i].columns);
        ASSERT_SHOWS("failures workers died 3  ");
        assert_true(sizes[i].columns < 80 || terminal_shows(terminal, "died 3  timed out 2"));
        assert_true(terminal_is_bold(terminal, row_of("failures workers"), 9));
        assert_true(sizes[i].columns < 80 || terminal_shows(terminal, "1m └"));
    }
}

/* Key y: decades instead of a scale from 0. */
TEST(graphs_have_a_logarithmic_scale)
{
    stage_open(24, 80, NULL, NULL);
    ASSERT_SHOWS("peak 5.00k", "   5.00k │", "       0 │");
    TYPE_SHOWS("y", "requests/s  0  log", "   10.0k │", "     100 │");
    assert_null(strstr(terminal_line(terminal, 4), "5.00k"));
    TYPE_SHOWS("y", "   5.00k │");
}

/*
 * The last line has the keys of the view; those that change the server only if it may be changed.
 */
TEST(key_hints_follow_the_view)
{
    stage_open(24, 120, NULL, NULL);
    ASSERT_SHOWS("+ more threads");
    assert_null(strstr(terminal_line(terminal, 23), "d drain"));
    TYPE_SHOWS("2", " d drain  r restart");
    TYPE_SHOWS("8", " c check  r reload  m menu"); /* the fixture has no configuration to edit */
    TYPE_SHOWS("5", " Enter details  / filter  s sort  m menu  Space freeze");
    assert_null(strstr(terminal_line(terminal, 23), "G follow")); /* it follows */
    TYPE_SHOWS("k", " Enter details  G follow  / filter");
    TYPE_SHOWS(" ", " Space resume  Left 1 s back");
    TYPE_SHOWS(" 7", " r run  n preset  e edit  v past runs  m menu  Space freeze");
    assert_null(strstr(terminal_line(terminal, 23), "/ filter")); /* the form is no list */
    TYPE_SHOWS("v", " v form  / filter");                         /* there are no runs */
    terminal_type(terminal, "v");
    TYPE_SHOWS("?", " Esc close  Down scroll  PgDn page");
    stage_end_console();
    stage_console(24, 120, readonly, NULL);
    TYPE_SHOWS("2", "[2 threads]", " v layout");
    assert_null(strstr(terminal_line(terminal, 23), "d drain"));
}

/*
 * Enter shows a panel alone, on which a click goes to its second; lines that do not fit are on a page
 * of their own.
 */
TEST(overview_shows_a_panel_alone_and_all_lines)
{
    static const char *const others[] = {"3", "4"}; /* views with graphs */
    const char *peak;

    stage_open(20, 120, NULL, NULL);
    ASSERT_SHOWS("10.0k total", "cache hit ratio", "Enter panel  PgDn more");
    TYPE_HIDES("\r", "cache hit ratio");
    ASSERT_SHOWS("requests/s  0", "▲", "Esc back");
    peak = terminal_line(terminal, 18);
    assert_non_null(strstr(peak, "▲"));
    click(17, text_column(peak, "▲"));
    ASSERT_SHOWS(" 30 s ago", "requests/s  5.00k");
    TYPE_HIDES(" ", "Space resume");
    TYPE_SHOWS("\x1bOB", "latency p99  -");
    assert_null(strstr(terminal_text(terminal), "requests/s  0"));
    TYPE_SHOWS("\x1b", "cache hit ratio");
    assert_null(strstr(terminal_text(terminal), "HTTP/2"));
    TYPE_SHOWS("\x1b[6~", "HTTP/2", "offload  queued");
    assert_null(strstr(terminal_text(terminal), "cache hit ratio"));
    TYPE_SHOWS("\x1b[5~", "cache hit ratio");
    for (size_t i = 0; i < ARRAY_LENGTH(others); i++) {
        terminal_type(terminal, others[i]);
        ASSERT_SHOWS("1m └");
        click(row_of("      1m └") - 1, 60);
        ASSERT_SHOWS(" s ago", "Space resume");
        TYPE_HIDES(" ", "Space resume");
    }
}

/* The columns that have no room are reached by > and <. */
TEST(columns_are_scrolled)
{
    stage_open(24, 80, log_view, NULL);
    ASSERT_SHOWS("TIME  STATUS", "REQUEST", "GET /page-39 HTTP/1.1");
    assert_null(strstr(terminal_text(terminal), "THREAD"));
    TYPE_HIDES(">", "TIME  ");
    TYPE_SHOWS(">>>>", "THREAD", "REQUEST");
    TYPE_SHOWS(">>>>>>>>>>>>", "STREAMS  REQUEST"); /* all that are left have room */
    TYPE_SHOWS("<<<<<<<<<<<<<<<<", "TIME  STATUS", "REQUEST");
}

/* The tabs lose their names one by one, from the last one on. */
TEST(tabs_have_short_names_where_needed)
{
    static const struct {
        int columns;
        const char *tabs;
    } cases[] = {
        {80, "[1 overview]2 threads 3 latency 4 cache 5 log 6 top 7 load 8 config 9 events"},
        {72, "[1 overview]2 threads 3 latency 4 cache 5 log 6 top 7 load 8 conf 9 ev"},
        {56, "[1 overview]2 thr 3 lat 4 cache 5 log 6 top 7 load 8 9"}};

    stage_open(24, 80, NULL, NULL);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        terminal_resize(terminal, 24, cases[i].columns);
        stage_shows(&cases[i].tabs, 1);
    }
}

/* The menu has what can be done here, each with its key; Enter, a click and the key do it. */
TEST(menu_offers_what_can_be_done_here)
{
    static const char *const threads[] = {"threads", NULL};

    stage_open(30, 100, threads, NULL);
    ASSERT_SHOWS("worker 1");
    TYPE_SHOWS("jm", "d  ", "Drain", "Restart", "One more serving thread per worker",
               "Filter all lists", "Esc close");
    TYPE_SHOWS("jj\r", "Drain worker 0?"); /* the third item */
    TYPE_HIDES("n", "Drain worker 0?");
    TYPE_SHOWS("mw", "workers from 2 to 3?");
    TYPE_HIDES("n", "from 2 to 3");
    TYPE_SHOWS("5m", "[5 log]", "Filter all lists");
    assert_null(strstr(terminal_text(terminal), "serving thread"));
    TYPE_HIDES("q", "Filter all lists");
    TYPE_SHOWS("C\r", "[C certificates]", "Freeze the display"); /* Enter, where there is no row */
    stage_end_console();
    stage_console(30, 100, readonly, NULL);
    TYPE_SHOWS("m", "Span of the graphs");
    assert_null(strstr(terminal_text(terminal), "serving thread"));
}

/* Without a row, no key is offered that needs one: neither in the last line nor in the menu. */
TEST(keys_of_rows_are_offered_with_rows)
{
    static const struct {
        const char *key, *tab, *keys;
    } views[] = {{"4", "[4 cache]", " n policy  e size  x flush  / filter  m menu"},
                 {"5", "[5 log]", " / filter  m menu"},
                 {"6", "[6 top]", " v list  / filter  m menu"},
                 {"7v", "[7 load]", " v form  / filter  m menu"}};

    stage_open(30, 120, NULL, NULL);
    ASSERT_SHOWS("10.0k total");
    TYPE_SHOWS("/nothing\r", "filter: nothing");
    for (size_t i = 0; i < ARRAY_LENGTH(views); i++) {
        terminal_type(terminal, views[i].key);
        stage_shows(&views[i].tab, 1);
        stage_shows(&views[i].keys, 1);
        TYPE_SHOWS("m", "Filter all lists", "One second back");
        assert_null(strstr(terminal_text(terminal), "Sort by"));
        assert_null(strstr(terminal_text(terminal), "One second forward"));
        TYPE_HIDES("\x1b", "One second back");
    }
    TYPE_HIDES("5\x1b", "filter: nothing");
    TYPE_SHOWS("m", "Details", "Sort by the next column");
    assert_null(strstr(terminal_text(terminal), "Span of the graphs")); /* it has none */
    TYPE_HIDES("\x1b", "Sort by");
    TYPE_SHOWS("\x1bOD", " 1 s ago");
    TYPE_SHOWS("m", "One second forward");
    TYPE_HIDES("\x1b", "One second forward");
    TYPE_HIDES(" ", "Space resume");
    TYPE_SHOWS(":show path=/page-1\rm", "Back");
    assert_null(strstr(terminal_text(terminal), "Details")); /* no row is selected */
}

/* As in less: / searches, n goes on. F1 opens and closes, F10 quits. */
TEST(help_is_searched)
{
    stage_open(24, 80, NULL, NULL);
    TYPE_SHOWS("\x1bOP", "Help, lines 1 to");
    TYPE_SHOWS("/PURGE\r", "purge the entry");
    TYPE_SHOWS("/mutex\r", "mutex");
    TYPE_SHOWS("/nonsense\r", "the help does not have 'nonsense'");
    TYPE_SHOWS("g", "Help, lines 1 to");
    terminal_type(terminal, "\x06\x02\x04\x15"); /* Ctrl-F, B, D, U: there and back */
    ASSERT_SHOWS("Help, lines 1 to");
    TYPE_HIDES("G", "Help, lines 1 to");
    TYPE_HIDES("\x1b[11~", "Help, lines");
    terminal_type(terminal, "\x1b[21~");
    stage_ended_well();
}

/* The help explains the numbers of the view, with the texts of the metrics. */
TEST(help_explains_the_numbers)
{
    stage_open(110, 120, NULL, NULL);
    TYPE_SHOWS("?", "Numbers", "waiting", "Connections in accept queues, in the master and",
               "Share of cache lookups that found an entry");
    TYPE_SHOWS("?2?", "TAKEN", "Connections taken over from another thread or worker");
    TYPE_SHOWS("?3?", "REQ/S", "Requests served, any status", "MEAN",
               "Mean time from the start of a request");
    TYPE_SHOWS("?5?", "requests/s", "4xx", "Responses with status 400-499", "5xx");
    TYPE_SHOWS("?6?", "LIMITED", "Requests answered 429: the client exceeded the rate limit");
    TYPE_SHOWS("?7?", "bad statuses", "Responses with an unexpected status", "max p99");
    TYPE_SHOWS("?8?", "DEFAULT", "The value without a configuration");
    TYPE_SHOWS("?9?", "missed", "Events that were overwritten before this console read them");
    TYPE_SHOWS("?:show path=/page-7\r", " Esc back  m menu");
    TYPE_SHOWS("?", "subject", "The requests of one path", "statuses",
               "Its responses by status: share and number since then");
}

/* Beyond 15 minutes a graph has steps of 10 s; the two minutes of the fixture are at its end. */
TEST(graphs_span_up_to_a_day)
{
    static const char *const spans[] = {"5m └", "15m └", "1h └", "6h └", "24h └", "1m └"};

    stage_open(40, 120, NULL, NULL);
    ASSERT_SHOWS("10.0k total", "1m └");
    for (size_t i = 0; i < ARRAY_LENGTH(spans); i++) {
        terminal_type(terminal, "t");
        stage_shows(&spans[i], 1);
    }
    TYPE_SHOWS("ttt", "1h └", "peak 590"); /* 5000 requests in a second, 100 in the nine others */
    TYPE_SHOWS("3", "over time", "1h └");
}

TEST(filter_applies_to_all_views)
{
    stage_open(24, 80, log_view, NULL);
    ASSERT_SHOWS("/page-39", "of 40");
    TYPE_SHOWS("/status:4xx", "filter: status:4xx", "/page-27",
               "/page-7 "); /* applied while typed */
    assert_true(terminal_shows_no_more(terminal, "/page-39"));
    TYPE_SHOWS("\r", "2 of 40 shown");
    TYPE_SHOWS("2\t\x1b[Z5", "[5 log]", "2 of 40 shown", "filter: status:4xx");
    fixture_log_requests(fixture, 30); /* all 200 */
    ASSERT_SHOWS("2 of 70 shown");
    TYPE_SHOWS("/\x15status:200\r", "65 of 70 shown");
    TYPE_SHOWS(":sort took\r", "65 of 70 shown", "/page-38"); /* the slowest first */
    assert_true(terminal_shows_no_more(terminal, "/page-0 "));
    fixture_log_requests(fixture, 60);
    ASSERT_SHOWS("125 of 130 shown", "/page-59");
    TYPE_SHOWS("/\x15took>fast\r", "not done: 'fast' in the filter is not a number");
    TYPE_SHOWS("\x1b", " of 130");
    assert_true(terminal_shows_no_more(terminal, "filter:"));
}

TEST(selected_row_shows_details_and_sets_filter)
{
    stage_open(24, 80, log_view, NULL);
    ASSERT_SHOWS("/page-39");
    TYPE_SHOWS("k\r", "GET /page-39 HTTP/1.1", "fixture", "Esc closes");
    TYPE_HIDES("\x1b", "Esc closes");
    TYPE_SHOWS("Y", "copied, if the terminal allows it: /page-39");
    assert_string_equal(terminal_copied(terminal), "L3BhZ2UtMzk=");
    TYPE_SHOWS("f", "filter: ", "of 40 shown");
}

TEST(idle_workers_of_many_threads_are_folded)
{
    stage_open(40, 120, NULL, NULL);
    TYPE_SHOWS("2", "  0.1 ", "  1.1 ");
    TYPE_SHOWS(":threads 16\r" AGREE, "16 idle", "worker 1");
    assert_true(terminal_shows_no_more(terminal, "  0.1 "));
    TYPE_SHOWS("v", "  0.15 ");
}

/* A column is hidden on request, and while all rows have the same text in it. */
TEST(columns_are_chosen)
{
    static const char *const one_protocol[] = {"log", "--filter", "protocol:HTTP/1.1", NULL};

    stage_open(24, 120, log_view, NULL);
    ASSERT_SHOWS("REQUEST", "CLIENT", "TOOK");
    TYPE_HIDES(":columns -client\r", "CLIENT");
    ASSERT_SHOWS("REQUEST", "TOOK");
    TYPE_HIDES(":columns request status\r", "TOOK");
    TYPE_SHOWS(":columns all\r", "CLIENT", "TOOK");
    TYPE_SHOWS(":columns colour\r", "unknown column 'colour'");
    ASSERT_SHOWS("PROTOCOL");
    stage_end_console();
    stage_console(24, 120, one_protocol, NULL);
    ASSERT_SHOWS("protocol HTTP/1.1", "GET /page-39");
    assert_null(strstr(terminal_text(terminal), "PROTOCOL"));
}

/* The names of a row's columns are those of the log, whatever view the row is in. */
TEST(filter_by_row_fits_other_views)
{
    stage_open(24, 80, NULL, NULL);
    TYPE_SHOWS("2", "[2 threads]", "  0.0 ");
    TYPE_SHOWS("jjf", "filter: thread=0.0", "1 of "); /* the first thread of worker 0 */
    TYPE_SHOWS("5", "[5 log]", "20 of 40 shown", "/page-38");
    TYPE_HIDES("\x1b", "filter:");
    terminal_type(terminal, "2");
    TYPE_SHOWS("\x1b[Hf", "filter: worker=0"); /* the worker */
    TYPE_SHOWS("5", "[5 log]", "20 of 40 shown");
    TYPE_HIDES("\x1b", "filter:");
    TYPE_SHOWS("6\x1b[Hf", "[6 top]", "filter: path=/page-");
    TYPE_SHOWS("5", "[5 log]", "1 of 40 shown");
    TYPE_HIDES("\x1b", "filter:");
    TYPE_SHOWS("6vvvv", "[errors]");
    TYPE_SHOWS("\x1b[Hf", "filter: status=", "path=/page-");
    TYPE_SHOWS("5", "[5 log]", "1 of 40 shown");
}

/* A filter is saved in one session and applied in another. */
TEST(filters_are_saved_by_name)
{
    char variable[SETTING_BYTES], file[SETTING_BYTES];
    const char *const environment[] = {variable, NULL};

    use_settings(variable, file, "filters");
    stage_open(24, 80, log_view, environment);
    ASSERT_SHOWS("/page-39");
    TYPE_SHOWS(":filter status:4xx\r:save-filter broken\r", "saved; :filter @broken applies it",
               "2 of 40 shown");
    stage_end_console();
    stage_console(24, 80, log_view, environment);
    ASSERT_SHOWS("/page-39");
    TYPE_SHOWS("/@broken\r", "filter: status:4xx", "2 of 40 shown");
    TYPE_HIDES("\x1b", "filter:");
    TYPE_SHOWS(":save-filter broken\r", "removed @broken");
    TYPE_SHOWS(":filter @broken\r", "no filter is saved as 'broken'");
    TYPE_SHOWS(":save-filter ../x\r", "invalid name '../x'");
}

/* All of it arrives before the list of clients is drawn. */
TEST(keys_act_on_the_next_list_at_once)
{
    stage_open(30, 100, NULL, NULL);
    ASSERT_SHOWS("[1 overview]");
    TYPE_SHOWS("6v\x1b[6~\r", "client=192.0.2.7");
}

/* Enter on a row shows its requests: rate, statuses, latency, the last ones. */
TEST(row_shows_its_requests)
{
    stage_open(30, 100, NULL, NULL);
    TYPE_SHOWS("6v", "[clients]", "192.0.2.7");
    TYPE_SHOWS("\x1b[H\r", "client=192.0.2.7", "requests/s", "40 requests since ", "statuses",
               "200 ", "87.5%", "TIME", "404 ", "503 ", "latency", "up to 200 µs", "p99 159 µs",
               "GET /page-39", "Esc");
    assert_null(strstr(terminal_text(terminal), "[clients]"));
    TYPE_SHOWS("\x1b[F", "GET /page-0 ");         /* End: the oldest */
    TYPE_SHOWS("\r", "rate limit", "Esc closes"); /* and its details */
    TYPE_HIDES("\x1b", "Esc closes");
    ASSERT_SHOWS("client=192.0.2.7");
    TYPE_SHOWS("\x1b", "[clients]");
    TYPE_SHOWS("2", "[2 threads]", "  0.0 ");
    TYPE_SHOWS("jj\r", "thread=0.0", "20 requests since ",
               "GET /page-38"); /* the first thread of worker 0 */
    TYPE_SHOWS("5k\r\r", "path=/page-39", "1 request since ",
               "503 "); /* a request, its details, its path */
    TYPE_SHOWS(":show status:4xx client=192.0.2.7\r", "status:4xx client=192.0.2.7",
               "2 requests since ", "GET /page-27", "GET /page-7 ");
    TYPE_SHOWS(":show path=/none\r", "The log has no such request yet.");
    TYPE_SHOWS(":show clint=192.0.2.7\r",
               "requests have no column 'clint'; did you mean 'client'?");
    TYPE_SHOWS(":show 404\r", "at most 4 words such as path=/x");
}

TEST(unknown_filter_column_is_an_error)
{
    stage_open(24, 80, log_view, NULL);
    ASSERT_SHOWS("/page-39");
    TYPE_SHOWS("/statsu:404\r", "unknown column 'statsu' in the filter; did you mean 'status'?");
    assert_true(terminal_shows_no_more(terminal, "filter:"));
    TYPE_SHOWS(":filter foo:bar\r", "unknown column 'foo' in the filter");
    TYPE_SHOWS(":filter took_ns>1ms outcome=hit\r",
               "filter: took_ns>1ms outcome=hit"); /* a name of the CSV output */
}

TEST(keys_faster_than_frames_all_act)
{
    stage_open(24, 80, NULL, NULL);
    ASSERT_SHOWS("10.0k total");
    TYPE_SHOWS("5k\r", "GET /page-39 HTTP/1.1", "fixture", "Esc closes");
    TYPE_HIDES("\x1b", "Esc closes");
    TYPE_SHOWS("?g\x02/PURGE\r", "purge the entry"); /* Ctrl-B: before the first line */
}

TEST(command_line_completes_and_sends)
{
    stage_open(24, 80, NULL, NULL);
    ASSERT_SHOWS("10.0k total");
    TYPE_SHOWS(":thr", ":thr", "threads");
    TYPE_SHOWS("\t3", "threads [N]: Show or set");
    TYPE_SHOWS("\r", "Raise the serving threads per worker from 2 to 3?");
    TYPE_SHOWS(AGREE, "threads: 3 in force");
    terminal_type(terminal, ":");
    TYPE_SHOWS("\x1bOA", ":threads 3"); /* previous line of the history */
    TYPE_SHOWS("\x15nonsense\r", "not done: unknown command 'nonsense'");
    TYPE_SHOWS(":view log\t\r", "[5 log]");
    terminal_type(terminal, ":quit\r");
    stage_ended_well();
}

TEST(keys_edit_the_command_line)
{
    stage_open(24, 80, NULL, NULL);
    ASSERT_SHOWS("10.0k total");
    TYPE_SHOWS(":threads 48\x1bOD\x7f", ":threads 8"); /* Left, Backspace */
    TYPE_SHOWS("\x1bOH\x1b[3~", ":hreads 8");          /* Home, Delete */
    TYPE_SHOWS("t\x1bOF\x17"
               "9",
               ":threads 9"); /* End, Ctrl-W */
    TYPE_SHOWS("\x15"
               "ca\tpu\t/x",
               ":cache-purge /x"); /* the common beginning of two words, then one of them */
    TYPE_SHOWS("\x15x\xc3\xbc\xe2\x82\xac\x7f", ":x\xc3\xbc"); /* a character of three bytes */
    TYPE_HIDES("\x1bOD\x1b[3~", "\xc3\xbc");
    TYPE_HIDES("\x1b", ":x");
}

TEST(destructive_command_asks_for_confirmation)
{
    stage_open(24, 80, NULL, NULL);
    ASSERT_SHOWS("10.0k total");
    TYPE_SHOWS(":stop\r", "Stop the server?", "y yes  n no");
    TYPE_HIDES("n", "Stop the server?");
    assert_int_equal(fixture_commands(fixture), 0);
    TYPE_SHOWS(":stop\r", "Stop the server?");
    terminal_resize(terminal, 30, 100); /* the dialog stays open */
    ASSERT_SHOWS("Stop the server?");
    TYPE_SHOWS(AGREE, "the fixture knows only threads N");
    assert_int_equal(fixture_commands(fixture), 1);
}

/* What was typed before the question was on the screen does not agree to it. */
TEST(answer_before_the_question_is_ignored)
{
    stage_open(24, 80, NULL, NULL);
    ASSERT_SHOWS("10.0k total");
    TYPE_SHOWS("c++\r", "Raise the serving threads per worker from 2 to 4?", "Enter yes  n no");
    TYPE_HIDES("n", "Raise");
    TYPE_SHOWS("Wy", "Reduce the workers from 2 to 1?", "Enter yes  n no");
    assert_int_equal(fixture_commands(fixture), 0);
    TYPE_SHOWS(AGREE, "the fixture knows only threads N");
    assert_int_equal(fixture_commands(fixture), 1);
}

/* A question that the screen cannot show is not agreed to. */
TEST(question_needs_room)
{
    stage_open(24, 80, NULL, NULL);
    ASSERT_SHOWS("10.0k total");
    terminal_resize(terminal, 5, 30);
    ASSERT_SHOWS("threads 4/4");
    TYPE_SHOWS(":stop\r", "a question: enlarge, or Esc");
    terminal_type(terminal, "y");
    assert_true(terminal_settle(terminal));
    terminal_resize(terminal, 24, 80);
    ASSERT_SHOWS("Stop the server?");
    terminal_resize(terminal, 5, 30);
    ASSERT_SHOWS("a question: enlarge, or Esc");
    TYPE_HIDES("\x1b", "a question");
    assert_int_equal(fixture_commands(fixture), 0);
}

/* Ctrl-S does not stop the output. */
TEST(flow_control_is_off)
{
    stage_open(24, 80, NULL, NULL);
    ASSERT_SHOWS("10.0k total");
    terminal_type(terminal, "\x13"
                            "5");
    ASSERT_SHOWS("[5 log]");
    terminal_type(terminal, "q");
    stage_ended_well();
}

TEST(load_form_accepts_clicks)
{
    static const char *const load_view[] = {"load", NULL};

    stage_open(24, 80, load_view, NULL);
    ASSERT_SHOWS("connections  50", "r runs");
    click(5, 20);
    ASSERT_SHOWS(">requests");
    click(5, 20);
    ASSERT_SHOWS("requests:");
    TYPE_SHOWS("70\r", "requests     70");
    click(2, 40); /* on a hint */
    ASSERT_SHOWS("past runs:");
    click(2, 36);
    ASSERT_SHOWS("r runs");
}

TEST(readonly_rejects_typed_changes)
{
    static const char *const lines[] = {":threads 3\r",      ":stop\r", ":cache-flush\r", "+", "w",
                                        ":log-level debug\r"};
    stage_open(24, 80, readonly, NULL);
    ASSERT_SHOWS("10.0k total", "read-only");
    for (size_t i = 0; i < ARRAY_LENGTH(lines); i++) {
        TYPE_SHOWS(lines[i], "not done: this console is read-only (--readonly)");
    }
    TYPE_SHOWS(":threads\r", "the fixture knows only threads N"); /* a query is allowed */
    assert_int_equal(fixture_commands(fixture), 1);
}

/*
 * On a row of the list of clients, and on the requests of a client; nothing is sent without
 * agreement.
 */
TEST(clients_are_limited_after_a_question)
{
    static const char *const view[] = {"top", NULL};
    static const char *const looking[] = {"top", "--readonly", NULL};

    stage_open(24, 160, view, NULL);
    TYPE_SHOWS("v", "[clients]", "192.0.2.7");
    TYPE_SHOWS("x", "Block 192.0.2.7 for 10m? Its requests are answered 403.", "y yes  n no");
    TYPE_SHOWS("nj", "e limit  x block  d release");
    TYPE_SHOWS("d", "Remove the limit of 192.0.2.7?");
    TYPE_SHOWS("n\r", "client=192.0.2.7", "e limit  x block  d release");
    TYPE_SHOWS("e", "requests per second of 192.0.2.7, and for how long: 10 10m");
    TYPE_SHOWS("\r", "Limit 192.0.2.7 to 10 requests per second for 10m?");
    assert_int_equal(fixture_commands(fixture), 0);
    TYPE_SHOWS(AGREE, "not done: the fixture knows only threads N");
    assert_int_equal(fixture_commands(fixture), 1);
    stage_end_console();
    stage_console(24, 160, looking, NULL);
    TYPE_SHOWS("v", "[clients]", "192.0.2.7");
    TYPE_SHOWS("je", "not done: this console is read-only");
    TYPE_SHOWS("x", "not done: this console is read-only");
    assert_null(strstr(terminal_text(terminal), "x block"));
    assert_int_equal(fixture_commands(fixture), 1);
}

/* The view of certificates has a tab only if the server uses some. */
TEST(certificates_are_listed_with_their_last_error)
{
    const int64_t day = 86400, slack = 1800;

    stage_open(24, 160, NULL, NULL);
    ASSERT_SHOWS("[1 overview]");
    assert_null(strstr(terminal_text(terminal), "C certificates"));
    TYPE_SHOWS("C", "[C certificates]", "The server uses no certificate");
    fixture_add_certificate(fixture, "good.test-site.org", 60 * day + slack, 0, "");
    fixture_add_certificate(fixture, "late.test-site.org", 5 * day + slack, 3,
                            "no answer\x1b[2J (timeout)");
    ASSERT_SHOWS("2 certificates", "1 ends soon", "1 not renewed", "60d 00h", "5d 00h",
                 "/CN=Test authority", "3d 00h", "no answer?[2J (timeout)");
    assert_true(strstr(terminal_text(terminal), "late.test-site.org") <
                strstr(terminal_text(terminal), "good.test-site.org"));
    TYPE_SHOWS("j\r", "valid until", "next attempt", "failures", "3 since the last success");
    TYPE_HIDES("\x1b", "valid until");
    TYPE_SHOWS("1", "[1 overview]", "C certificates");
}

/* The view of hosts has a tab only if the server has hosts, or while it is shown. */
TEST(hosts_have_a_tab_only_where_there_are_some)
{
    stage_open(24, 120, NULL, NULL);
    ASSERT_SHOWS("[1 overview]", "9 events");
    assert_null(strstr(terminal_text(terminal), "0 hosts"));
    TYPE_SHOWS("\x1b[Z", "[9 events]"); /* Shift-Tab */
    TYPE_SHOWS("0", "[0 hosts]", "The server has no [host] sections");
    TYPE_SHOWS("\t", "[1 overview]");
    assert_true(terminal_shows_no_more(terminal, "0 hosts"));
    TYPE_SHOWS(":filter host=a.example\r5", "No row matches the filter");
    TYPE_SHOWS(":filter hsot=a.example\r",
               "unknown column 'hsot' in the filter; did you mean 'host'?");
}

TEST(mouse_acts_like_keys)
{
    static const char *const without[] = {"--no-mouse", NULL};
    stage_open(24, 120, NULL, NULL);
    ASSERT_SHOWS("[1 overview]");
    click(0, 28); /* the second tab: the bar begins with the program's name */
    ASSERT_SHOWS("[2 threads]");
    TYPE_SHOWS("5", "[5 log]", "/page-39", "/page-38");
    click(10, 5);
    ASSERT_SHOWS("paused");
    click(10, 5);
    ASSERT_SHOWS("Esc closes");
    click(15, 5);
    assert_true(terminal_shows_no_more(terminal, "Esc closes"));
    clicks(2, 12, 5); /* the first click selects, the second opens */
    ASSERT_SHOWS("Esc closes");
    clicks(3, 15, 5); /* first click closes, second selects, third opens */
    ASSERT_SHOWS("Esc closes");
    TYPE_HIDES("\x1b", "Esc closes");
    for (int i = 0; i < 30; i++)
        terminal_type(terminal, "\x1b[<64;20;10M"); /* the wheel, up */
    ASSERT_SHOWS("/page-0 ");
    stage_end_console();
    stage_console(24, 120, without, NULL);
    ASSERT_SHOWS("[1 overview]");
    click(0, 28);
    TYPE_SHOWS("5", "[5 log]");
}

/* The hints at the edges of the screen are keys to click, and only those that work are shown. */
TEST(key_hints_are_clickable_and_fit)
{
    stage_open(24, 80, log_view, NULL);
    ASSERT_SHOWS("m menu", "? help", "/page-39");
    click(23, 75);
    ASSERT_SHOWS("Help, lines 1 to");
    click(23, 75);
    assert_true(terminal_shows_no_more(terminal, "Help, lines"));
    click(23, 3); /* Enter details */
    ASSERT_SHOWS("Esc closes", "user agent");
    TYPE_HIDES("\x1b", "Esc closes");
    TYPE_SHOWS("1", "+ more threads");
    click(23, 33); /* more threads */
    ASSERT_SHOWS("from 2 to 3?", "Enter yes");
    click(23, 67); /* Enter */
    ASSERT_SHOWS("threads 6 of 6 (3 in each)");
    stage_end_console();
    stage_console(24, 80, readonly, NULL);
    ASSERT_SHOWS("read-only", "Space freeze");
    assert_null(strstr(terminal_text(terminal), "+ more threads"));
}

TEST(dialog_accepts_clicks)
{
    stage_open(24, 80, NULL, NULL);
    ASSERT_SHOWS("10.0k total");
    TYPE_SHOWS(":stop\r", "Stop the server?");
    click(10, 20); /* elsewhere: it stays open */
    click(23, 77); /* no */
    assert_true(terminal_shows_no_more(terminal, "Stop the server?"));
    assert_int_equal(fixture_commands(fixture), 0);
    TYPE_SHOWS(":stop\r", "Stop the server?", "y yes");
    click(23, 70); /* yes */
    ASSERT_SHOWS("the fixture knows only threads N");
    assert_int_equal(fixture_commands(fixture), 1);
}

TEST(recorded_session_is_replayed)
{
    char path[64];
    const char *record[] = {"--record", path, NULL}, *replay[] = {"--replay", path, NULL};

    snprintf(path, sizeof(path), "/tmp/%s.rec", stage_name());
    unlink(path);
    stage_open(24, 80, record, NULL);
    ASSERT_SHOWS("REC ", "10.0k total");
    TYPE_SHOWS("+" AGREE, "threads 6 of 6");
    TYPE_SHOWS(":note\r", "missing text");
    TYPE_SHOWS(":note six threads\r", "noted and recorded");
    terminal_type(terminal, "q");
    stage_ended_well();
    stage_end_console();
    stage_console(24, 80, record, NULL); /* an existing file is not overwritten */
    assert_int_equal(WEXITSTATUS(terminal_wait_end(terminal)), 1);
    stage_end_console();
    stage_end_fixture(); /* the replay needs no daemon */
    stage_console(24, 80, replay, NULL);
    ASSERT_SHOWS("REPLAY paused", "threads 6 of 6", "10.0k total"); /* paused at the end */
    TYPE_SHOWS("[[[[[[[[[[[[[[[[[[[[", "threads 4 of 4");           /* to the start */
    TYPE_SHOWS("+", "a recording cannot be changed");
    TYPE_SHOWS(":note late\r", "this is a recording");
    TYPE_SHOWS("}", "N six threads");
    TYPE_SHOWS("9", "six threads");
    terminal_type(terminal, "q");
    stage_ended_well();
    unlink(path);
}

/* Every view at every fifth second, as text. */
enum { RECORDED_S = 105, MOMENTS = RECORDED_S / 5, RECORDED_VIEWS = 7 };

static void check_moment(char *screens[RECORDED_VIEWS], const char *how)
{
    for (size_t i = 0; i < RECORDED_VIEWS; i++) {
        const char key[] = {"1234569"[i], '\0'};

        terminal_type(terminal, key);
        assert_true(terminal_settle(terminal));
        if (screens[i] == NULL)
            screens[i] = strdup(terminal_text(terminal));
        else if (strcmp(screens[i], terminal_text(terminal)) != 0)
            fail_msg("--- played\n%s+++ %s\n%s", screens[i], how, terminal_text(terminal));
    }
}

/* However a moment of a recording is reached: forward, back, or by --at. */
TEST(moment_of_a_recording_has_one_screen)
{
    static char *screens[MOMENTS][RECORDED_VIEWS];
    char path[64], at[16];
    const char *replay[] = {"--replay", path, "--at", at, NULL};

    snprintf(path, sizeof(path), "/tmp/%s.rec", stage_name());
    unlink(path);
    stage_fixture();
    fixture_record(fixture, path, RECORDED_S);
    for (size_t start = 0; start < MOMENTS; start += MOMENTS / 2) {
        snprintf(at, sizeof(at), "%zus", 5 * start);
        stage_console(30, 120, replay, NULL);
        ASSERT_SHOWS("REPLAY paused");
        check_moment(screens[start], "--at");
        for (size_t i = 1; start == 0 && i < MOMENTS; i++) {
            terminal_type(terminal, "\x1bOC");
            check_moment(screens[i], "forward");
        }
        for (size_t i = start; start == MOMENTS - 1 && i-- > 0;) {
            terminal_type(terminal, "\x1bOD");
            check_moment(screens[i], "back");
        }
        terminal_type(terminal, "q");
        stage_ended_well();
        stage_end_console();
    }
    for (size_t i = 0; i < MOMENTS; i++)
        for (size_t j = 0; j < RECORDED_VIEWS; j++)
            free(screens[i][j]);
    unlink(path);
}

static bool has_grown(const char *path, off_t *size)
{
    struct stat now;
    bool grown = stat(path, &now) == 0 && now.st_size > *size;

    *size = grown ? now.st_size : *size;
    return grown;
}

/* Lets the console draw more than a terminal buffers of which nobody reads, while it records. */
static void stall(const char *path)
{
    off_t size = 0;

    for (int i = 0; i < 8; i++) {
        terminal_resize(terminal, 49 - i, 200);
        WAIT_UNTIL(has_grown(path, &size));
    }
}

/*
 * A terminal that takes no bytes, as after Ctrl-S or behind a hung ssh, stops neither the recording
 * nor a signal. When it takes them again it shows the present.
 */
TEST(stalled_terminal_stops_nothing)
{
    char path[64];
    const char *record[] = {"-r", "30", "--record", path, NULL};

    snprintf(path, sizeof(path), "/tmp/%s.rec", stage_name());
    unlink(path);
    stage_open(50, 200, record, NULL);
    ASSERT_SHOWS("REC ", "10.0k total");
    stall(path);
    fixture_add(fixture, METRIC_requests, 100000);
    terminal_resize(terminal, 50, 200);
    ASSERT_SHOWS("REC ", "110k total", "? help  q quit");
    stall(path);
    kill(terminal_pid(terminal), SIGTERM);
    assert_true(terminal_ends_unread(terminal));
    unlink(path);
}

/* Moves the selection to NAME. */
static void go_to(const char *name)
{
    char wanted[64], before[64];

    snprintf(wanted, sizeof(wanted), " %s ", name);
    for (int i = 0; i < 64; i++) {
        const char *mark, *there;

        assert_true(terminal_shows(terminal, "> ")); /* the menu is redrawn when a server starts */
        mark = strstr(terminal_text(terminal), "> ");
        assert_non_null(mark);
        if (strncmp(mark + 1, wanted, strlen(wanted)) == 0)
            return;
        there = strstr(terminal_text(terminal), wanted);
        snprintf(before, sizeof(before), "%.*s ", (int)strcspn(mark + 2, " ") + 2, mark);
        terminal_type(terminal, there != NULL && there < mark ? "\x1bOA" : "\x1bOB");
        assert_true(terminal_shows_no_more(terminal, before));
    }
    fail_msg("%s is not selected", name);
}

/* The number of the line that contains NAME as a word. */
static int line_of(const char *name)
{
    char word[64];
    int row = 0;

    snprintf(word, sizeof(word), " %s ", name);
    while (row < 23 && strstr(terminal_line(terminal, row), word) == NULL)
        row++;
    return row;
}

TEST(menu_selects_one_of_several_servers)
{
    char other[48];
    struct fixture *second;

    stage_fixture();
    snprintf(other, sizeof(other), "%.40s-b", stage_name());
    second = fixture_start(other, false);
    assert_non_null(second);
    stage_console_without_name(24, 100, NULL);
    ASSERT_SHOWS("running servers. Select one:");
    assert_true(terminal_shows(terminal, stage_name()));
    assert_true(terminal_shows(terminal, other));
    go_to(other);
    clicks(2, line_of(other), 5);
    ASSERT_SHOWS("10.0k total");
    assert_true(terminal_shows(terminal, other));
    TYPE_SHOWS("2I", "Select one:", "q returns");
    TYPE_SHOWS("q", "[2 threads]");
    assert_true(terminal_shows(terminal, other));
    terminal_type(terminal, ":instance ");
    terminal_type(terminal, stage_name());
    terminal_type(terminal, "\r");
    assert_true(terminal_shows_no_more(terminal, other));
    assert_true(terminal_shows(terminal, stage_name()));
    ASSERT_SHOWS("[2 threads]");
    TYPE_SHOWS(":instance scr-nobody\r", "no webserverd named 'scr-nobody' is running");
    TYPE_SHOWS("I", "Select one:");
    fixture_stop(second);
    kill(terminal_pid(terminal), SIGTERM);
    stage_ended_well();
}

/* One row per server; Enter opens it, I returns. */
TEST(all_servers_are_in_one_list)
{
    static const char *const all[] = {"--all", NULL};

    fixture = fixture_start(stage_name(), true);
    assert_non_null(fixture);
    stage_console_without_name(24, 130, all);
    ASSERT_SHOWS("Select one:", "STATE", "REQ/S", "P99", "ERR/S", "CONN", "CPU", "WORKERS",
                 "LISTENING", " requests/s", "I returns here");
    assert_true(terminal_shows(terminal, stage_name()));
    go_to(stage_name());
    ASSERT_SHOWS("serving  ", "2 of 2", "1h 02m", "127.0.0.1:8080");
    assert_true(terminal_shows(terminal, " µs  ")); /* a latency of the last second */
    ASSERT_SHOWS("LAST MINUTE", "VERSION");
    TYPE_SHOWS("?", "how many there should be", "the last minute");
    TYPE_HIDES("?", "how many there should be");
    TYPE_SHOWS("/state:nosuch\r", "filter: state:nosuch", "No row matches");
    TYPE_HIDES("\x1b", "No row matches");
    TYPE_SHOWS("/speed:1\r", "unknown column 'speed'");
    TYPE_SHOWS("s", "STATE   \u25b2");
    go_to(stage_name());
    TYPE_SHOWS("\r", "[1 overview]", "k total");
    TYPE_SHOWS(":alert p99 > 1us\r", " p99 > 1us: ");
    assert_non_null(strstr(terminal_line(terminal, 1), " µs"));
    TYPE_SHOWS("I", "Select one:", "q returns");
    kill(terminal_pid(terminal), SIGTERM);
    stage_ended_well();
    stage_end_console();
    stage_console(24, 80, all, NULL); /* with -n */
    ASSERT_SHOWS("--all cannot be combined");
}

static void write_text(const char *file, const char *text)
{
    scratch_write(file, text, strlen(text));
}

TEST(settings_are_read_from_console_ini)
{
    char variable[SETTING_BYTES], file[SETTING_BYTES];
    const char *const environment[] = {variable, NULL};

    use_settings(variable, file, "console.ini");
    write_text(file, "# mine\n[console]\nview = log\nascii = on\ntheme = mono\n");
    stage_open(24, 80, NULL, environment);
    ASSERT_SHOWS("[5 log]", "/page-39");
    assert_false(terminal_has_colour(terminal));
    assert_false(terminal_has_non_ascii(terminal));
    stage_end_console();
    write_text(file, "view = log\nthme = light\nfps = many\n");
    stage_console(24, 160, NULL, environment);
    ASSERT_SHOWS("console.ini:2: unknown setting 'thme'; did you mean 'theme'?",
                 "console.ini:3: invalid rate 'many'");
    assert_int_equal(WEXITSTATUS(terminal_wait_end(terminal)), 2);
}

/* The text of FILE; "" if it cannot be read. */
static const char *content_of(const char *file)
{
    static char text[1024];
    FILE *in = fopen(file, "r");
    size_t length = in != NULL ? fread(text, 1, sizeof(text) - 1, in) : 0;

    text[length] = '\0';
    if (in != NULL)
        fclose(in);
    return text;
}

/* FILE has the theme mono. */
static void readonly_console_saves_nothing(const char *const *environment, const char *file)
{
    stage_console(24, 100, readonly, environment);
    ASSERT_SHOWS("10.0k total");
    TYPE_SHOWS(":set theme dark\r:save\r", "not done: this console is read-only (--readonly)");
    TYPE_SHOWS(":set readonly off\r", "not done: restart the console without --readonly");
    assert_non_null(strstr(content_of(file), "theme = mono\n"));
    stage_end_console();
    stage_console(24, 100, NULL, environment);
    ASSERT_SHOWS("10.0k total");
    TYPE_SHOWS(":set readonly on\r+", "not done: this console is read-only (--readonly)");
    stage_end_console();
}

/* Settings in FILE hold; :save changes one of them only. */
static void written_settings_are_kept(const char *const *environment, const char *file)
{
    write_text(file, "# mine\nfps=5\nhide-columns = top max; log client took\n\n; no colours\n"
                     "theme   = light\nascii = off");
    stage_console(24, 100, NULL, environment);
    ASSERT_SHOWS("10.0k total");
    TYPE_SHOWS(":set theme mono\r:save\r", "saved in ");
    assert_non_null(strstr(content_of(file), "# mine\nfps = 5\nhide-columns = top max; log client "
                                             "took\n\n; no colours\ntheme = mono\n"));
    assert_null(strstr(content_of(file), "ascii"));
    TYPE_SHOWS("5", "BYTES");
    assert_null(strstr(terminal_text(terminal), "CLIENT"));
    TYPE_SHOWS(":columns all\r", "CLIENT", "TOOK");
    TYPE_SHOWS(":set hide-columns log colour\r", "view log has no column 'colour'");
    stage_end_console();
}

TEST(settings_are_saved_on_request)
{
    char variable[SETTING_BYTES], file[SETTING_BYTES];
    const char *const environment[] = {variable, NULL};

    use_settings(variable, file, "console.ini");
    stage_open(24, 120, NULL, environment);
    ASSERT_SHOWS("10.0k total");
    TYPE_SHOWS(":set theme mo\t\r", "theme = mono; :save stores it");
    assert_false(terminal_has_colour(terminal));
    TYPE_SHOWS(":set ascii on\r", "ascii = on");
    assert_false(terminal_has_non_ascii(terminal));
    TYPE_SHOWS(":set them\r", "unknown setting 'them'; did you mean 'theme'?");
    TYPE_SHOWS(":set fps many\r", "invalid rate 'many' (1-60");
    TYPE_SHOWS(":set fps\r", "fps = (default)");
    TYPE_SHOWS("5", "CLIENT");
    TYPE_HIDES(":columns -client\r", "CLIENT");
    TYPE_SHOWS("t:save\r", "saved in ", "theme, ascii, span, hide-columns");
    /* The fixture's name is saved, because it is not the default. */
    assert_non_null(strstr(content_of(file), "theme = mono\nascii = on\nspan = 5m\n"
                                             "hide-columns = log client\n"));
    stage_end_console();
    written_settings_are_kept(environment, file);
    readonly_console_saves_nothing(environment, file);
    snprintf(variable, sizeof(variable), "XDG_CONFIG_HOME=/proc/nowhere");
    stage_console(24, 100, NULL, environment);
    ASSERT_SHOWS("10.0k total");
    TYPE_SHOWS(":save\r", "cannot write /proc/nowhere/webserverd/console.ini: No such file");
}

TEST(all_terminal_types_work)
{
    static const char *const types[] = {"TERM=xterm-256color", "TERM=screen", "TERM=vt100",
                                        "TERM=linux"};
    stage_fixture();
    for (size_t i = 0; i < ARRAY_LENGTH(types); i++) {
        /* For some terminal types curses keeps a few bytes until exit. */
        const char *const environment[] = {types[i], "ASAN_OPTIONS=detect_leaks=0", NULL};

        stage_console(24, 80, NULL, environment);
        ASSERT_SHOWS("10.0k total");
        for (const char *key = "123456789"; *key != '\0'; key++) {
            const char text[] = {*key, '\0'};
            char tab[4];

            snprintf(tab, sizeof(tab), "[%c ", *key);
            terminal_type(terminal, text);
            assert_true(terminal_shows(terminal, tab));
        }
        terminal_type(terminal, "q");
        stage_ended_well();
        stage_end_console();
    }
}

/* A fixed seed makes a failure reproducible. */
static uint32_t dice(uint32_t *random)
{
    *random = *random * 1664525 + 1013904223;
    return *random >> 8;
}

TEST(question_is_cancelled_on_a_screen_without_room_for_it)
{
    stage_open(24, 80, NULL, NULL);
    ASSERT_SHOWS("10.0k total");
    TYPE_SHOWS(":stop\r", "Stop the server?");
    terminal_resize(terminal, 2, 40);
    ASSERT_SHOWS("a question: enlarge, or Esc");
    TYPE_SHOWS("\x07", "requests/s"); /* Ctrl-G */
    terminal_resize(terminal, 24, 80);
    ASSERT_SHOWS("[1 overview]");
}

TEST(overlays_survive_resizes)
{
    static const char *const openings[] = {"1", "2", "3",  "4",   "5",       "6",    "8",
                                           "9", "?", "/x", ":th", ":stop\r", "5k\r", " "};
    uint32_t random = 7;

    stage_open(24, 80, NULL, NULL);
    ASSERT_SHOWS("10.0k total");
    for (int i = 0; i < 100; i++) {
        terminal_type(terminal, openings[dice(&random) % ARRAY_LENGTH(openings)]);
        terminal_resize(terminal, 1 + (int)(dice(&random) % 70), 1 + (int)(dice(&random) % 250));
        terminal_take(terminal);
        terminal_type(terminal, "\x07"); /* Ctrl-G cancels a dialog */
    }
    terminal_resize(terminal, 24, 80);
    terminal_type(terminal, "\x07"
                            "1");
    ASSERT_SHOWS("[1 overview]", "requests/s");
}

static const char *random_event(uint32_t *random)
{
    static const char single[] =
        "12345689\t+- g?\f\x1b[]sSf\r/:ynmvtdexcwWoO\x15\x17\x7f\x80\xff~\x07";
    static const char *const sequences[] = {
        "\x1b[Z", "\x1bOA", "\x1bOB",       "\x1bOC",      "\x1bOD",     "\x1b[5~", "\x1b[6~",
        "\x1bOH", "\x1bOF", "status:4xx\r", "threads 3\r", "view log\r", "\x1b[M",  "\x1b[99~",
    };
    static char event[64];
    uint32_t choice;

    if (dice(random) % 4 == 0) {
        snprintf(event, sizeof(event), "\x1b[<%u;%u;%u%c",
                 dice(random) % 3 == 0 ? 0 : 64 + dice(random) % 2, 1 + dice(random) % 130,
                 1 + dice(random) % 45, dice(random) % 5 ? 'M' : 'm');
        return event;
    }
    choice = dice(random) % (ARRAY_LENGTH(sequences) + sizeof(single) - 1);
    if (choice < ARRAY_LENGTH(sequences))
        return sequences[choice];
    snprintf(event, sizeof(event), "%c", single[choice - ARRAY_LENGTH(sequences)]);
    return event;
}

/* A click on "q quit" has ended the console. */
static void start_again(const char *const *options)
{
    stage_ended_well();
    stage_end_console();
    stage_console_of_one_server(options);
    ASSERT_SHOWS("10.0k total");
}

static void shake(const char *const *options, uint32_t seed, int events)
{
    uint32_t random = seed;
    const char *event;

    stage_console_of_one_server(options);
    ASSERT_SHOWS("10.0k total");
    for (int i = 0; i < events; i++) {
        if (dice(&random) % 200 == 0)
            terminal_resize(terminal, 1 + (int)(dice(&random) % 60),
                            1 + (int)(dice(&random) % 210));
        event = random_event(&random);
        if (!terminal_type_bytes(terminal, event, strlen(event)))
            start_again(options);
        terminal_take(terminal);
    }
    if (!terminal_settle(terminal))
        start_again(options);
    terminal_resize(terminal, 24, 80);
    for (int i = 0; i < 3; i++)
        terminal_type(terminal, "\x07");
    terminal_type(terminal, "1");
    if (!terminal_shows(terminal, "[1 overview]"))
        fail_msg("after %d events of seed %u the overview can't be reached", events, seed);
    kill(terminal_pid(terminal), SIGTERM);
    stage_ended_well();
    stage_end_console();
}

/* Prints the seed; WSCONSOLE_SEED sets it. */
TEST(random_keys_and_clicks_do_no_harm)
{
    const char *given = getenv("WSCONSOLE_SEED");
    uint32_t seed = given != NULL ? (uint32_t)strtoul(given, NULL, 10) : 20261121;

    print_message("seed %u\n", seed);
    stage_fixture();
    shake(NULL, seed, 10000);
    stage_end_fixture();
    /* As above, with --readonly: no command arrives. */
    stage_fixture();
    shake(readonly, seed + 1, 3000);
    assert_int_equal(fixture_commands(fixture), 0);
}
