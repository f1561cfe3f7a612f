#include "loadgen/lab/session.h"

#include "common/escape.h"
#include "common/units.h"

#include "loadgen/base/format.h"
#include "loadgen/base/interrupts.h"
#include "loadgen/lab/command.h"
#include "loadgen/lab/points.h"
#include "loadgen/lab/store.h"
#include "loadgen/report/document.h"
#include "loadgen/stats/result.h"

#include <ctype.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PATH_BYTES = 4096,
    WHY = PATH_BYTES + 512,
    VERSION = 64,
    QUESTION = 96,
    SUMMARY = 96,
    REMARK = 512
};

/* A finished experiment. */
struct finished {
    struct document *findings; /* NULL: not finished */
    struct machine machine;
    size_t sections; /* of the findings, without the machine */
    bool kept;       /* of an earlier start */
};

struct session {
    const struct lab_options *options;
    struct lab lab;
    struct machine machine;
    json_t *conditions;
    struct finished finished[LAB_CHOSEN_MAX]; /* of options->chosen */
};

static int report_error(const char *why)
{
    escape_report("wsload", why);
    return RESULT_USAGE_ERROR;
}

/* ---- Pages ---- */

/* A page in memory. */
struct page {
    FILE *out;
    char *text;
    size_t length;
};

/* Writes PAGE to NAME.html and prints "LABEL: path". Returns an exit status. Frees the page. */
static int write_page(const struct lab_options *options, struct page *page, bool complete,
                      const char *name, const char *label)
{
    char path[PATH_BYTES], why[WHY];

    snprintf(path, sizeof(path), "%.4000s/%s.html", options->directory, name);
    snprintf(why, sizeof(why), "cannot write %s: out of memory", path);
    if (page->out != NULL && fclose(page->out) != 0)
        complete = false;
    if (complete)
        complete = store_replace(path, page->text, page->length, why, sizeof(why)) == 0;
    free(page->text);
    if (!complete)
        return report_error(why);
    printf("%s: %s\n", label, path);
    fflush(stdout);
    return RESULT_GOOD;
}

static bool open_page(struct page *page)
{
    *page = (struct page){NULL, NULL, 0};
    page->out = open_memstream(&page->text, &page->length);
    return page->out != NULL;
}

/* Prints the findings and writes their page, which also describes the machine. */
static int publish(struct session *session, size_t index)
{
    struct finished *finished = &session->finished[index];
    struct page page;
    bool complete;

    putchar('\n');
    if (document_write_text(stdout, finished->findings, false) != 0)
        return report_error("out of memory");
    fflush(stdout);
    finished->sections = finished->findings->section_count;
    document_section(finished->findings, "The machine", NULL);
    findings_add_machine(finished->findings, &finished->machine);
    complete = open_page(&page) && document_write_html(page.out, finished->findings) == 0;
    return write_page(session->options, &page, complete, session->options->chosen[index]->name,
                      "\nPage");
}

/* ---- The report of all experiments ---- */

/* The part of a chapter that the document does not have. */
struct chapter_text {
    char question[QUESTION], summary[SUMMARY], remark[REMARK];
};

/* "Took 3 s."; for an experiment of an earlier start also its time and the load then. */
static void write_remark(char *remark, const struct finished *finished)
{
    const struct machine *machine = &finished->machine;
    const char *legend = finished->findings->legend;
    int length = snprintf(remark, REMARK, "%.64s", legend != NULL ? legend : "");

    for (size_t i = 0; finished->kept && i < machine->count; i++)
        if (machine->fact[i].changes && length < REMARK)
            length += snprintf(remark + length, (size_t)(REMARK - length), " %s: %s.",
                               machine->fact[i].label, machine->fact[i].text);
}

static void add_settings(struct document *front, const struct lab *lab)
{
    char time[UNITS_TEXT], number[UNITS_TEXT];

    document_fact(front, DOCUMENT_NORMAL, "Trials", "%u of %s for each point%s", lab->rounds,
                  units_format_ns(time, sizeof(time), (double)lab->trial_ms * 1e6),
                  lab->quick ? ", with --quick" : "");
    if (lab->rate > 0)
        document_fact(front, DOCUMENT_NORMAL, "Rate", "%s requests/s for constant loads",
                      format_number(number, sizeof(number), lab->rate));
}

static int write_chapters(const struct session *session, const struct html_chapter *chapters,
                          size_t count)
{
    struct document *front = findings_create("Experiments with webserverd");
    struct page page;
    bool complete;

    if (front == NULL)
        return report_error("out of memory");
    findings_add_machine(front, &session->machine);
    add_settings(front, &session->lab);
    complete =
        open_page(&page) && document_write_html_chapters(page.out, front, chapters, count) == 0;
    document_free(front);
    return write_page(session->options, &page, complete, "index", "Report");
}

/* One page with everything, if at least two experiments have finished. */
static int write_report(const struct session *session)
{
    struct chapter_text *texts = calloc(LAB_CHOSEN_MAX, sizeof(*texts));
    struct html_chapter chapters[LAB_CHOSEN_MAX];
    size_t count = 0;
    int status = RESULT_GOOD;

    if (texts == NULL)
        return report_error("out of memory");
    for (size_t i = 0; i < session->options->count; i++) {
        const struct experiment *experiment = session->options->chosen[i];
        const struct finished *finished = &session->finished[i];
        struct chapter_text *text = &texts[count];

        if (finished->findings == NULL)
            continue;
        snprintf(text->question, sizeof(text->question), "%c%s",
                 toupper((unsigned char)experiment->question[0]), experiment->question + 1);
        findings_summarise(finished->findings, text->summary, sizeof(text->summary));
        write_remark(text->remark, finished);
        chapters[count++] =
            (struct html_chapter){experiment->name, text->question,     text->summary,
                                  text->remark,     finished->findings, finished->sections};
    }
    if (count > 1)
        status = write_chapters(session, chapters, count);
    free(texts);
    return status;
}

/* ---- Experiments ---- */

static uint32_t count_cores(void)
{
    cpu_set_t cores;

    return sched_getaffinity(0, sizeof(cores), &cores) == 0 && CPU_COUNT(&cores) > 0
               ? (uint32_t)CPU_COUNT(&cores)
               : 1;
}

static void set_up(struct lab *lab, const struct lab_options *options)
{
    *lab = (struct lab){
        .program = options->program,
        .quick = options->quick,
        .rounds = options->quick ? 3 : 5,
        .trial_ms = options->quick ? LAB_TRIAL_QUICK_MS : LAB_TRIAL_MS,
        .until_ms = options->until_ms,
        .rate = (double)options->rate,
        .cores = count_cores(),
        .shows_progress = !options->quiet && isatty(STDERR_FILENO),
    };
    if (options->rounds > 0)
        lab->rounds = options->rounds;
    if (options->duration_ms > 0)
        lab->trial_ms = options->duration_ms;
}

/* Stores the findings first, so that a lab that is killed now need not repeat the experiment. */
static int keep(struct session *session, size_t index)
{
    const struct experiment *experiment = session->options->chosen[index];
    const struct finished *finished = &session->finished[index];
    char why[WHY];

    findings_add_published(finished->findings, experiment->name, &session->lab.own);
    if (store_write(session->options->directory, experiment->name, session->conditions,
                    &finished->machine, finished->findings, why, sizeof(why)) != 0)
        return report_error(why);
    return publish(session, index);
}

/* Returns an exit status. */
static int conduct(struct session *session, size_t index)
{
    const struct experiment *experiment = session->options->chosen[index];
    struct finished *finished = &session->finished[index];
    struct lab *lab = &session->lab;
    char why[LAB_WHY + 64];

    finished->machine = session->machine;
    finished->findings = findings_create(experiment->title);
    if (finished->findings == NULL)
        return report_error("out of memory");
    if (lab_conduct(lab, experiment, finished->findings) == 0)
        return keep(session, index);
    document_free(finished->findings);
    finished->findings = NULL;
    if (lab->interrupted)
        return RESULT_INTERRUPTED;
    snprintf(why, sizeof(why), "%s: %s", experiment->name, lab->why);
    return report_error(why);
}

/* A failed experiment does not stop the others; a signal does. */
static int conduct_all(struct session *session)
{
    const struct lab_options *options = session->options;
    int worst = RESULT_GOOD, status;

    for (size_t i = 0; i < options->count && !lab_is_interrupted(&session->lab); i++) {
        if (session->finished[i].kept)
            printf("\n%s: finished earlier, not run again\n", options->chosen[i]->name);
        status = session->finished[i].kept ? publish(session, i) : conduct(session, i);
        worst = status > worst ? status : worst;
    }
    if (session->lab.interrupted) {
        worst = RESULT_INTERRUPTED;
        escape_report("wsload", "interrupted; the same command with --resume runs the rest");
    }
    status = write_report(session);
    return worst == RESULT_GOOD ? status : worst;
}

/* ---- The session ---- */

/*
 * Starts a server to read its version, and describes both programs for the conditions. Returns 0,
 * or -1 with the lab's WHY.
 */
static int read_version(struct lab *lab, char *version, char *server, char *client)
{
    struct private_server *private =
        private_server_create(lab->program, lab->why, sizeof(lab->why));
    json_t *status = NULL;
    bool known;

    if (private != NULL && private_server_start(private, NULL, lab->why, sizeof(lab->why)) == 0)
        status = private_server_command(private, "status", lab->why, sizeof(lab->why));
    known = status != NULL;
    if (known) {
        snprintf(version, VERSION, "%s", json_string_value(json_object_get(status, "version")));
        store_describe_program(server, version, private_server_pid(private));
        store_describe_program(client, WEBSERVERD_VERSION, getpid());
    }
    private_server_destroy(private);
    json_decref(status);
    return known ? 0 : -1;
}

static int print_machine(const struct machine *machine)
{
    struct document *about = document_create("wsload lab", (struct document_layout){0});
    int status = RESULT_GOOD;

    if (about != NULL)
        findings_add_machine(about, machine);
    if (about == NULL || document_write_text(stdout, about, false) != 0)
        status = report_error("out of memory");
    document_free(about);
    return status;
}

/*
 * Reads the findings of the experiments that finished earlier; without --resume, removes them.
 * Returns an exit status.
 */
static int take_over(struct session *session)
{
    const struct lab_options *options = session->options;
    char why[WHY];

    for (size_t i = 0; i < options->count; i++) {
        struct finished *finished = &session->finished[i];
        const char *name = options->chosen[i]->name;
        enum store_outcome outcome = STORE_MISSING;

        if (options->resume)
            outcome = store_read(options->directory, name, session->conditions, &finished->machine,
                                 &finished->findings, why, sizeof(why));
        else if (store_forget(options->directory, name, why, sizeof(why)) != 0)
            outcome = STORE_REFUSED;
        if (outcome == STORE_REFUSED) {
            finished->findings = NULL;
            return report_error(why);
        }
        finished->kept = outcome == STORE_FOUND;
    }
    return RESULT_GOOD;
}

static int run(struct session *session)
{
    char version[VERSION], server[STORE_PROGRAM], client[STORE_PROGRAM], why[WHY];
    const char *directory = session->options->directory;
    int status;

    if (mkdir(directory, 0777) != 0 && errno != EEXIST) {
        snprintf(why, sizeof(why), "cannot create the directory %.4000s: %s", directory,
                 strerror(errno));
        return report_error(why);
    }
    if (read_version(&session->lab, version, server, client) != 0)
        return report_error(session->lab.why);
    machine_describe(&session->machine, version);
    session->conditions = store_conditions(&session->lab, &session->machine, server, client);
    if (session->conditions == NULL)
        return report_error("out of memory");
    status = take_over(session);
    if (status == RESULT_GOOD)
        status = print_machine(&session->machine);
    return status == RESULT_GOOD ? conduct_all(session) : status;
}

static int run_session(const struct lab_options *options)
{
    struct session *session = calloc(1, sizeof(*session));
    int status;

    if (session == NULL)
        return report_error("out of memory");
    session->options = options;
    set_up(&session->lab, options);
    status = run(session);
    for (size_t i = 0; i < options->count; i++)
        document_free(session->finished[i].findings);
    json_decref(session->conditions);
    free(session);
    return status;
}

int lab_main(int argc, char **argv)
{
    struct lab_options options;
    char why[WHY];
    int status;

    if (lab_options_parse(&options, argc, argv, why, sizeof(why)) != 0)
        return report_error(why);
    if (options.help || options.count == 0) {
        lab_help(stdout);
        return RESULT_GOOD;
    }
    if (interrupts_begin() != 0)
        return report_error("too few file descriptors");
    status = run_session(&options);
    interrupts_end();
    return status;
}
