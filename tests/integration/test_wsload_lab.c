/* wsload lab: short experiments that leave nothing behind, however they end. */
#include "patience.h"
#include "scratch.h"
#include "tests/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { WORDS = 24 };

/* Files of a test: a directory for the pages, and one as $TMPDIR for the servers. */
struct place {
    char directory[SCRATCH_PATH_MAX], pages[SCRATCH_PATH_MAX], temporary[SCRATCH_PATH_MAX];
    char out[SCRATCH_PATH_MAX], err[SCRATCH_PATH_MAX];
};

static void make_path(char *path, const struct place *place, const char *name)
{
    assert_in_range(snprintf(path, SCRATCH_PATH_MAX, "%s/%s", place->directory, name), 1,
                    SCRATCH_PATH_MAX - 1);
}

static int set_up(void **state)
{
    struct place *place = calloc(1, sizeof(*place));

    assert_non_null(place);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    scratch_make(place->directory);
    chmod(place->directory, 0711); /* workers of root run as another user */
    make_path(place->pages, place, "pages");
    make_path(place->temporary, place, "t");
    make_path(place->out, place, "out");
    make_path(place->err, place, "err");
    assert_int_equal(mkdir(place->temporary, 0711), 0);
    *state = place;
    return 0;
}

static void become_wsload(const struct place *place, char *const *words)
{
    int out = open(place->out, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    int err = open(place->err, O_WRONLY | O_CREAT | O_TRUNC, 0644);

    setenv("TMPDIR", place->temporary, 1);
    umask(077); /* nevertheless the workers of the lab read its files */
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    execv(WSLOAD_PROGRAM, words);
    _exit(127);
}

/* Starts `wsload lab -o pages --server ... OPTIONS`. */
static pid_t start(const struct place *place, const char *options)
{
    char text[512], pages[SCRATCH_PATH_MAX], program[] = WEBSERVERD_BINARY, *rest = NULL;
    char *words[WORDS + 1] = {(char *)"wsload", (char *)"lab", (char *)"--server", program,
                              (char *)"-o"};
    size_t count = 5;
    pid_t pid;

    snprintf(text, sizeof(text), "%s", options);
    words[count++] = strcpy(pages, place->pages);
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        assert_true(count < WORDS);
        words[count++] = word;
    }
    pid = fork();
    if (pid == 0)
        become_wsload(place, words);
    assert_true(pid > 0);
    return pid;
}

/* An experiment takes longer than the events that other tests wait for. */
static int wait_for(pid_t pid)
{
    enum { EXPERIMENT_S = 240 };
    uint64_t until_ns = clock_monotonic_ns() + EXPERIMENT_S * NS_PER_S;
    int status = 0;

    while (waitpid(pid, &status, WNOHANG) != pid) {
        if (clock_monotonic_ns() > until_ns)
            fail_msg("the experiment did not end within %d s", EXPERIMENT_S);
        usleep(ASK_AGAIN_MS * 1000);
    }
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static char *read_text(const char *path)
{
    size_t length;

    return scratch_read(path, &length);
}

static int run(const struct place *place, const char *options)
{
    int status;

    print_message("wsload lab %s\n", options);
    status = wait_for(start(place, options));
    if (status != 0 && status != 130) {
        char *err = read_text(place->err);

        print_message("it printed: %s\n", err);
        free(err);
    }
    return status;
}

#ifdef __SANITIZE_ADDRESS__
/*
 * The search for leaks at exit is a process of its own. If the exiting process is killed, it ends a
 * little later.
 */
static void check_no_process_left(void)
{
    WAIT_UNTIL(waitpid(-1, NULL, WNOHANG) == -1);
}
#else
static void check_no_process_left(void)
{
    siginfo_t left = {0};
    char path[64], *name;

    if (waitid(P_ALL, 0, &left, WEXITED | WNOHANG | WNOWAIT) != 0)
        return;
    snprintf(path, sizeof(path), "/proc/%d/stat", left.si_pid);
    name = left.si_pid != 0 ? read_text(path) : NULL;
    fail_msg("a process is left: status %d, %s", left.si_status, name != NULL ? name : "running");
}
#endif

static void check_nothing_left(const struct place *place)
{
    assert_int_equal(scratch_count(place->temporary, ""), 0);
    check_no_process_left();
}

/* No test leaves anything. */
static int tear_down(void **state)
{
    struct place *place = *state;

    check_nothing_left(place);
    scratch_remove(place->directory);
    free(place);
    return 0;
}

const struct test_fixture test_fixture = {set_up, tear_down};

static void check_has(const char *text, const char *words)
{
    if (strstr(text, words) != NULL)
        return;
    fprintf(stderr, "%s\n", text);
    fail_msg("there is no '%s' in the text above", words);
}

static size_t count_of(const char *text, const char *words)
{
    size_t count = 0;

    for (const char *at = strstr(text, words); at != NULL; at = strstr(at + 1, words))
        count++;
    return count;
}

/* Every element that HTML requires to be closed is closed, and the page loads nothing external. */
static void check_page(const char *page)
{
    static const char *const pairs[][2] = {
        {"<ul>", "</ul>"},       {"<dl>", "</dl>"},    {"<table", "</table>"},
        {"<div", "</div>"},      {"<svg", "</svg>"},   {"<figure>", "</figure>"},
        {"<style>", "</style>"}, {"<h1>", "</h1>"},    {"<h2>", "</h2>"},
        {"<text", "</text>"},    {"<html", "</html>"}, {"<section", "</section>"},
        {"<h3>", "</h3>"},       {"<ol>", "</ol>"}};

    assert_memory_equal(page, "<!DOCTYPE html>", 15);
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        if (count_of(page, pairs[i][0]) != count_of(page, pairs[i][1]))
            fail_msg("unbalanced %s and %s", pairs[i][0], pairs[i][1]);
    assert_null(strstr(page, "://"));
    assert_null(strstr(page, "nan"));
    assert_null(strstr(page, "inf\""));
    assert_null(strstr(page, "inf%"));
    assert_null(strstr(page, ">inf"));
}

static char *read_page(const struct place *place, const char *name)
{
    char path[SCRATCH_PATH_MAX];

    assert_in_range(snprintf(path, sizeof(path), "%s/%s.html", place->pages, name), 1,
                    sizeof(path) - 1);
    return read_text(path);
}

/* The page of an experiment has all WORDS, a list ended by NULL. */
static void check_page_has(const struct place *place, const char *name, const char *const *words)
{
    char *page = read_page(place, name);

    check_page(page);
    for (; *words != NULL; words++)
        check_has(page, *words);
    free(page);
}

#define PAGE_HAS(name, ...) check_page_has(place, name, (const char *const[]){__VA_ARGS__, NULL})

TEST(short_experiments_report_and_leave_nothing)
{
    const struct place *place = *state;
    char *text, *page;

    assert_int_equal(run(place, "--duration 10ms --rounds 1 baseline concurrency"), 0);
    text = read_text(place->out);
    check_has(text, "Processor ");
    check_has(text, "Kernel ");
    check_has(text, "Baseline: one worker, one thread, one connection");
    check_has(text, "\none connection  requests/s      5,200 ");
    check_has(text, "Connection per request\nconnections ");
    check_has(text, "\n1000 ");
    assert_true(count_of(text, "Met: ") + count_of(text, "Not met: ") +
                    count_of(text, "Not decided: ") >=
                5);
    free(text);
    PAGE_HAS("concurrency", "<svg class=\"plot\"", "CPU time with 100 connections and ",
             "<tr><td>bare, Connection per request<td>",
             ": a server that only reads and writes, measured in alternation, takes ",
             "<td>Connection per request, 1000<td>requests/s<td>21,531<td>", "<dt>Processor");
    page = read_page(place, "index");
    check_page(page);
    check_has(page,
              "<li><a href=\"#baseline\">Baseline: one worker, one thread, one connection</a>");
    check_has(page, "<section id=\"concurrency\">");
    check_has(page, "<p class=\"soft\">What do more connections gain, and what do they cost?</p>");
    check_has(page, "<td>Connection per request, 1000<td>requests/s<td>21,531<td>");
    check_has(page, "aria-label=\"Mean latency by connections\"");
    assert_int_equal(count_of(page, "<dt>Processor"), 1);
    free(page);
}

/* The lab inspects and changes its server during these runs. */
TEST(long_experiments_report_each_step)
{
    const struct place *place = *state;
    char *page;

    assert_int_equal(run(place, "--quick --duration 100ms --rounds 1 --rate 500 endurance noise"),
                     0);
    page = read_page(place, "endurance");
    check_page(page);
    check_has(page, "<b>Met: </b>0 errors in ");
    check_has(page, "500 requests/s for 2.00 s");
    check_has(page, "<tr><td>last<td>");
    check_has(page, "These are medians over ");
    check_has(page, "aria-label=\"Resident memory\"");
    check_has(page, "<tr><td>2.00 s, log off<td>");
    check_has(page, "<b>Not decided: </b>Anonymous memory averages ");
    check_has(page, " 2.00 s are too short to tell; the criterion needs 10 minutes.");
    check_has(page, "Not compared: </b>the longest run here took 2.00 s, theirs 10 minutes.");
    assert_null(strstr(page, "10,000,000"));
    free(page);
    PAGE_HAS("noise", "<tr><td>Killed worker<td>",
             "Confidence intervals need at least 3 rounds (--rounds).",
             "<b>Met: </b>0 requests failed in all reloads and log rotations");
}

/* Runs experiments, separated by blanks, that have no expectations of their own. */
static void check_report(const struct place *place, const char *duration, const char *names)
{
    char options[256], list[128], *rest = NULL;

    snprintf(options, sizeof(options), "--quick --duration %s --rounds 1 %s", duration, names);
    assert_int_equal(run(place, options), 0);
    snprintf(list, sizeof(list), "%s", names);
    for (char *name = strtok_r(list, " ", &rest); name; name = strtok_r(NULL, " ", &rest)) {
        char *page = read_page(place, name);

        check_page(page);
        check_has(page, "<svg class=\"plot\"");
        check_has(page, "<tr><td>");
        assert_null(strstr(page, "the most connections has 0 of 100"));
        free(page);
    }
}

TEST(load_experiments_report)
{
    check_report(*state, "20ms", "percentiles");
}

/* Each model, size of a pool and policy has a row, and each source its own table. */
TEST(models_experiment_reports)
{
    const struct place *place = *state;

    check_report(place, "40ms", "models");
    PAGE_HAS("models", "<tr><td>events, 10<td>", "<tr><td>pool, 100<td>",
             "<tr><td>thread, 1000<td>", "<tr><td>preforked, 10<td>", "<tr><td>of 6, 80<td>",
             "<tr><td>drop-head<td>", "<h2>Author unknown, year unknown</h2>",
             "<tr><td>pool of 12, Fibonacci, 80<td>", " of memory; allowed: 400 MiB.");
}

TEST(server_experiments_report)
{
    check_report(*state, "10ms", "cache logging dispatch");
}

/*
 * Trials too short for a response are repeated; those too short for samples of the threads are
 * noted.
 */
TEST(threads_experiment_reports)
{
    check_report(*state, "1ms", "threads");
}

/* The prediction comes first, the result is folded, and each has an answer and a next step. */
TEST(lessons_report)
{
    static const char *const names[] = {"omission", "load", "blocking",
                                        "overload", "slow", "nagle"};
    const struct place *place = *state;

    check_report(place, "10ms", "omission load blocking overload slow nagle");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char *page = read_page(place, names[i]);

        check_has(page, "<dt>Predict</dt>");
        check_has(page, "<dt>c</dt>");
        check_has(page, "</dl>\n<details class=\"result\"><summary>I have predicted");
        check_has(page, "<b>Answer: </b>");
        assert_null(strstr(page, "<b>Answer: </b>none"));
        assert_null(strstr(page, "unknown"));
        check_has(page, "<b>Try next: </b>");
        free(page);
    }
}

/*
 * Each thread of the pool waits for half a request, whatever the speed of the machine. Trials of
 * 1 ms are too short for a response; they are repeated where the clients are served.
 */
TEST(slow_clients_starve_a_pool)
{
    const struct place *place = *state;

    assert_int_equal(run(place, "--quick --duration 1ms --rounds 1 slow"), 0);
    PAGE_HAS("slow", "<tr><td>pool of 8, 8 slow<td>0<td>-<td>-",
             "honest ones get 0% of their rate from the pool of 8",
             "<b>Answer: </b>c, none, until a timeout ends the slow ones.");
}

/* Hits depend only on the order of requests, so that server and simulation agree on any machine. */
TEST(server_evicts_like_the_simulation)
{
    const struct place *place = *state;
    char *page, *tables;

    assert_int_equal(run(place, "--quick --duration 50ms --rounds 1 policy"), 0);
    page = read_page(place, "policy");
    check_page(page);
    tables = strstr(page, "LRU simulated");
    assert_non_null(tables);
    if (strstr(page, "differ by at most 0.0 percentage points") == NULL)
        fail_msg("the server differs: %.1500s", tables);
    free(page);
}

/* ---- Interruptions ---- */

static const char server_prefix[] = "webserverd-";

/* The name of a server's directory in $TMPDIR. */
static bool find_server(const struct place *place, char *name, size_t size)
{
    DIR *directory = opendir(place->temporary);
    const struct dirent *entry;
    bool found = false;

    while (directory != NULL && !found && (entry = readdir(directory)) != NULL) {
        found = strncmp(entry->d_name, server_prefix, strlen(server_prefix)) == 0;
        if (found)
            snprintf(name, size, "%.48s", entry->d_name);
    }
    if (directory != NULL)
        closedir(directory);
    return found;
}

/* The segment of a server, which has the name of its directory. */
static bool find_segment(const struct place *place, char *segment, size_t size)
{
    char name[64];

    if (!find_server(place, name, sizeof(name)))
        return false;
    snprintf(segment, size, "webserverd.private-%.32s", name + strlen(server_prefix));
    return scratch_count("/dev/shm", segment) == 1;
}

static bool has_logged_requests(const struct place *place)
{
    char name[64], path[SCRATCH_PATH_MAX + 80];
    struct stat log;

    if (!find_server(place, name, sizeof(name)))
        return false;
    snprintf(path, sizeof(path), "%s/%s/access.log", place->temporary, name);
    return stat(path, &log) == 0 && log.st_size > 0;
}

static bool has_ended(pid_t pid)
{
    siginfo_t end = {.si_pid = 0};

    return waitid(P_PID, (id_t)pid, &end, WEXITED | WNOHANG | WNOWAIT) == 0 && end.si_pid == pid;
}

/* Starts a lab and returns during its first requests. On a slow machine it may end unseen. */
static pid_t start_until_requests(const struct place *place, const char *words)
{
    for (;;) {
        pid_t pid = start(place, words);

        WAIT_UNTIL(has_logged_requests(place) || has_ended(pid));
        if (!has_ended(pid))
            return pid;
        assert_int_equal(wait_for(pid), 0);
    }
}

/* The pause begins before the event of the first trial, and lasts longer than the trial. */
TEST(paused_trial_is_repeated)
{
    const struct place *place = *state;
    pid_t pid = start_until_requests(place, "--quick --duration 10ms --rounds 1 --rate 500 noise");

    kill(pid, SIGSTOP);
    sleep(3);
    kill(pid, SIGCONT);
    assert_int_equal(wait_for(pid), 0);
    PAGE_HAS("noise", "<tr><td>No event<td>");
}

/* During an experiment that would take minutes. */
TEST(signal_ends_lab_and_leaves_nothing)
{
    static const int signals[] = {SIGINT, SIGTERM};
    const struct place *place = *state;

    for (size_t i = 0; i < 2; i++) {
        pid_t pid = start(place, "--duration 60s --rounds 5 baseline concurrency");
        char segment[64] = "";

        WAIT_UNTIL(find_segment(place, segment, sizeof(segment)));
        kill(pid, signals[i]);
        assert_int_equal(wait_for(pid), 130);
        assert_int_equal(scratch_count("/dev/shm", segment), 0);
        check_nothing_left(place);
    }
}

/* ---- Resuming ---- */

static size_t lines_of(const char *path)
{
    char *text = read_text(path);
    size_t lines = count_of(text, "\n");

    free(text);
    return lines;
}

/*
 * A program that starts webserverd and records each start in STARTS. Start NUMBER first runs HOLD,
 * a shell command.
 */
static void write_server(const struct place *place, const char *starts, int number,
                         const char *hold)
{
    char path[SCRATCH_PATH_MAX];
    FILE *file;

    make_path(path, place, "server");
    file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file,
            "#!/bin/sh\necho start >> %s\n[ $(wc -l < %s) -ne %d ] || %s\n"
            "exec '%s' \"$@\"\n",
            starts, starts, number, hold, WEBSERVERD_BINARY);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0755), 0);
    file = fopen(starts, "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
}

static void check_ended_by(const struct place *place, pid_t pid, int signal, const char *segment)
{
    kill(pid, signal);
    if (signal == SIGKILL) {
        WAIT_UNTIL(waitpid(-1, NULL, WNOHANG) == -1);
    } else {
        kill(pid, SIGCONT);
        assert_int_equal(wait_for(pid), 130);
    }
    assert_int_equal(scratch_count("/dev/shm", segment), 0);
    check_nothing_left(place);
}

/* Start 1 reads the version, 2 is the server of baseline, 3 that of cache. */
TEST(stopped_lab_resumes)
{
    static const int signals[] = {SIGINT, SIGKILL};
    const struct place *place = *state;
    char starts[SCRATCH_PATH_MAX], stored[SCRATCH_PATH_MAX], options[512];

    make_path(starts, place, "starts");
    make_path(stored, place, "pages/baseline.json");
    snprintf(options, sizeof(options),
             "--server %.300s/server --quick --duration 20ms --rounds 1 baseline cache",
             place->directory);
    for (size_t i = 0; i < 2; i++) {
        char segment[64] = "", again[SCRATCH_PATH_MAX + 512];
        struct stat before, after;
        pid_t pid;

        write_server(place, starts, 3, "kill -STOP $PPID");
        pid = start(place, options);
        WAIT_UNTIL(lines_of(starts) == 3 && find_segment(place, segment, sizeof(segment)));
        check_ended_by(place, pid, signals[i], segment);
        assert_int_equal(stat(stored, &before), 0);
        make_path(again, place, "pages/cache.json");
        assert_int_not_equal(access(again, F_OK), 0);

        snprintf(again, sizeof(again), "%s --resume", options);
        assert_int_equal(run(place, again), 0);
        assert_int_equal(lines_of(starts), 3 + 2);
        assert_int_equal(stat(stored, &after), 0);
        assert_int_equal(before.st_ino, after.st_ino);
        assert_int_equal(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
        PAGE_HAS("index", "<section id=\"baseline\">", "<section id=\"cache\">");
        PAGE_HAS("cache", "<svg class=\"plot\"");
        check_nothing_left(place);
    }
}

/* One round gives no interval, so that nothing is decided. */
TEST(undecided_comparison_gets_more_rounds)
{
    static const struct {
        const char *options;
        size_t least, most;
    } cases[] = {{"--quick --duration 10ms --rounds 1 logging", 1, 1},
                 {"--quick --duration 10ms --rounds 1 --until-decided=1ms logging", 3, 101}};
    const struct place *place = *state;

    for (size_t i = 0; i < 2; i++) {
        char *page;

        assert_int_equal(run(place, cases[i].options), 0);
        page = read_page(place, "logging");
        check_page(page);
        assert_in_range(count_of(page, "<circle class=\"line0\""), cases[i].least, cases[i].most);
        free(page);
    }
}

/* Computes until it is killed, or its parent exits. It is runnable, but lets others run first. */
static pid_t start_hog(void)
{
    volatile unsigned counter = 0;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpriority(PRIO_PROCESS, 0, 19);
    for (;;)
        counter++;
}

/* The machine is busy from the start of the last server on, which is before the first trial. */
TEST(busy_machine_is_said_beside_the_verdict)
{
    enum { HOGS_MAX = 64, VERSION_AND_LEVELS = 1 + 3 };
    const struct place *place = *state;
    long hogs = 2 * sysconf(_SC_NPROCESSORS_ONLN);
    char starts[SCRATCH_PATH_MAX], go[SCRATCH_PATH_MAX], hold[512], options[512];
    pid_t pids[HOGS_MAX], lab;

    make_path(starts, place, "starts");
    make_path(go, place, "go");
    snprintf(hold, sizeof(hold), "until [ -e %s ]; do sleep 0.1; done", go);
    write_server(place, starts, VERSION_AND_LEVELS, hold);
    snprintf(options, sizeof(options),
             "--server %.300s/server --quick --duration 10ms --rounds 3 logging", place->directory);
    lab = start(place, options);
    WAIT_UNTIL(lines_of(starts) == VERSION_AND_LEVELS);
    hogs = hogs < HOGS_MAX ? hogs : HOGS_MAX;
    for (long i = 0; i < hogs; i++)
        pids[i] = start_hog();
    scratch_write(go, "", 0);
    assert_int_equal(wait_for(lab), 0);
    assert_int_equal(lines_of(starts), VERSION_AND_LEVELS);
    for (long i = 0; i < hogs; i++) {
        kill(pids[i], SIGKILL);
        assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
    }
    PAGE_HAS("logging", "The machine was busy (other programs used ", "(The machine was busy.)");
}

TEST(lab_with_other_settings_is_not_resumed)
{
    const struct place *place = *state;
    char *err;

    assert_int_equal(run(place, "--quick --duration 20ms --rounds 1 baseline"), 0);
    assert_int_equal(wait_for(start(place, "--resume --quick --duration 20ms --rounds 2 baseline")),
                     1);
    err = read_text(place->err);
    check_has(err, "baseline.json has other conditions: --rounds: '1', now '2'");
    free(err);
}

TEST(protocols_experiment_reports)
{
    const struct place *place = *state;
    char *page;

    assert_int_equal(run(place, "--duration 20ms --rounds 1 protocols"), 0);
    page = read_page(place, "protocols");
    check_page(page);
    check_has(page, "<h2>A file of 1 KiB</h2>");
    check_has(page, "<tr><td>HTTP/1.1, TLS<td>");
    assert_int_equal(count_of(page, "<tr><td>HTTP/2, TLS, 100 streams<td>"), 2);
    check_has(page, "<tr><td>TLS 1.2, resumed<td>");
    assert_null(strstr(page, "There were errors"));
    free(page);
}

TEST(invalid_arguments_get_an_error)
{
    static const struct {
        const char *options, *words;
    } cases[] = {{"concurency", "did you mean 'concurrency'?"},
                 {"--server /nowhere/webserverd baseline", "/nowhere/webserverd"},
                 {"-o /proc/nowhere baseline", "cannot create the directory /proc/nowhere"}};
    const struct place *place = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *err;

        assert_int_equal(wait_for(start(place, cases[i].options)), 1);
        err = read_text(place->err);
        check_has(err, cases[i].words);
        free(err);
        check_nothing_left(place);
    }
}

TEST(list_names_all_experiments)
{
    const struct place *place = *state;
    char *text;

    assert_int_equal(run(place, ""), 0);
    text = read_text(place->out);
    check_has(text, "  concurrency ");
    check_has(text, "  baseline ");
    check_has(text, "--quick");
    free(text);
}
