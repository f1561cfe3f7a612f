#include "loadgen/lab/session.h"

#include "common/escape.h"
#include "common/tables.h"
#include "common/units.h"

#include "loadgen/base/format.h"
#include "loadgen/base/interrupts.h"
#include "loadgen/base/resources.h"
#include "loadgen/lab/points.h"
#include "loadgen/report/document.h"
#include "loadgen/stats/result.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- The command line ---- */

enum { UNTIL_DEFAULT_MS = 5 * 60 * 1000, DURATION_MAX_S = 24 * 3600, RATE_MAX = 10000000 };

const struct experiment lab_experiments[] = {
#define EXPERIMENT(name, title, question) {#name, title, question, experiment_##name},
#include "loadgen/lab/experiments.def"
#undef EXPERIMENT
};

const size_t lab_experiment_count = ARRAY_LENGTH(lab_experiments);

enum lab_option {
#define OPTION(name, letter, spelling, argument, help) LAB_OPTION_##name,
#include "loadgen/lab/options.def"
#undef OPTION
    LAB_OPTIONS
};

static const struct option_line {
    char letter;
    const char *spelling, *argument, *help;
} option_lines[LAB_OPTIONS] = {
#define OPTION(name, letter, spelling, argument, help) {letter, spelling, argument, help},
#include "loadgen/lab/options.def"
#undef OPTION
};

/* Results of getopt_long(), besides letters. */
enum { OPERAND = 1, LONG_NAME = 256 };

/* Where an error is described. */
struct rejection {
    char *why;
    size_t size;
};

PRINTF_LIKE(2, 3)
static int reject(const struct rejection *rejection, const char *format, ...)
{
    va_list values;

    va_start(values, format);
    vsnprintf(rejection->why, rejection->size, format, values);
    va_end(values);
    return -1;
}

static int set_time(uint64_t *ms, const struct rejection *rejection, const char *option,
                    const char *value)
{
    if (units_parse_time_ms(value, ms) != 0 || *ms == 0 || *ms > DURATION_MAX_S * UINT64_C(1000))
        return reject(rejection, "--%s: invalid time '%s' (examples: 500ms, 3s, 10m)", option,
                      value);
    return 0;
}

/* VALUE is NULL for a switch, and where it may be left out. */
static int set_option(struct lab_options *options, const struct rejection *rejection,
                      enum lab_option option, const char *value)
{
    const char *spelling = option_lines[option].spelling;
    uint64_t rounds;

    if (value != NULL && value[0] == '\0')
        return reject(rejection, "--%s: the value is empty", spelling);
    switch (option) {
    case LAB_OPTION_output:
        options->page_directory = value;
        break;
    case LAB_OPTION_server:
        options->program = value;
        break;
    case LAB_OPTION_quick:
        options->quick = true;
        break;
    case LAB_OPTION_quiet:
        options->quiet = true;
        break;
    case LAB_OPTION_resume:
        options->resume = true;
        break;
    case LAB_OPTION_help:
        options->help = true;
        break;
    case LAB_OPTION_until_decided:
        options->until_ms = UNTIL_DEFAULT_MS;
        return value != NULL ? set_time(&options->until_ms, rejection, spelling, value) : 0;
    case LAB_OPTION_duration:
        return set_time(&options->duration_ms, rejection, spelling, value);
    case LAB_OPTION_rounds:
        if (units_parse_number(value, &rounds) != 0 || rounds < 1 || rounds > POINT_ROUNDS)
            return reject(rejection, "--rounds: '%s' is out of range (1-%d)", value, POINT_ROUNDS);
        options->rounds = (uint32_t)rounds;
        break;
    case LAB_OPTION_rate:
        if (units_parse_count(value, &options->rate) != 0 || options->rate == 0 ||
            options->rate > RATE_MAX)
            return reject(rejection, "--rate: '%s' is out of range (1-%d)", value, RATE_MAX);
        break;
    case LAB_OPTIONS:
        break;
    }
    return 0;
}

/* getopt_long() returned CODE for WORD, which begins with a dash. */
static int take_lab_option(struct lab_options *options, const struct rejection *rejection,
                           const char *word, int code)
{
    char typed[64], near[DID_YOU_MEAN_SIZE];
    size_t i = 0;

    if (word[1] == '-')
        snprintf(typed, sizeof(typed), "%.*s", (int)strcspn(word, "="), word);
    else
        snprintf(typed, sizeof(typed), "-%c", code == '?' || code == ':' ? optopt : code);
    while (i < LAB_OPTIONS && (typed[1] == '-' ? strcmp(option_lines[i].spelling, typed + 2) != 0
                                               : option_lines[i].letter != typed[1]))
        i++;
    if (i == LAB_OPTIONS) /* also if it is the beginning of a name */
        return reject(rejection, "lab: unknown option %s%s", typed,
                      did_you_mean(near, typed, WORD_LIST_OF(option_lines, spelling),
                                   "; wsload lab -h lists the options"));
    if (code == '?')
        return reject(rejection, "--%s takes no value", option_lines[i].spelling);
    if (code == ':')
        return reject(rejection, "--%s needs a value: --%s %s", option_lines[i].spelling,
                      option_lines[i].spelling, option_lines[i].argument);
    return set_option(options, rejection, (enum lab_option)i, optarg);
}

/* Each experiment runs once, even if it is named twice. */
static void add_chosen(struct lab_options *options, const struct experiment *experiment)
{
    for (size_t i = 0; i < options->count; i++)
        if (options->chosen[i] == experiment)
            return;
    if (options->count < LAB_CHOSEN_MAX)
        options->chosen[options->count++] = experiment;
}

static int choose(struct lab_options *options, const struct rejection *rejection, const char *word)
{
    const struct word_list names = {&lab_experiments[0].name, lab_experiment_count,
                                    sizeof(lab_experiments[0])};
    char near[DID_YOU_MEAN_SIZE];
    bool found = false;

    options->all = options->all || strcmp(word, "all") == 0;
    for (size_t i = 0; i < lab_experiment_count; i++)
        if (strcmp(word, "all") == 0 || strcmp(word, lab_experiments[i].name) == 0) {
            add_chosen(options, &lab_experiments[i]);
            found = true;
        }
    return found ? 0
                 : reject(rejection, "unknown experiment '%s'%s", word,
                          did_you_mean(near, word, names, "; wsload lab lists them"));
}

int lab_options_parse(struct lab_options *options, int argc, char *const *argv, char *why,
                      size_t size)
{
    const struct rejection rejection = {why, size};
    struct option names[LAB_OPTIONS + 1] = {{NULL, 0, NULL, 0}};
    char letters[2 * LAB_OPTIONS + 3] = "-:"; /* operands in order; no messages */
    size_t length = strlen(letters);
    int result = 0;

    *options = (struct lab_options){.page_directory = "wsload-lab"};
    for (size_t i = 0; i < LAB_OPTIONS; i++) {
        const struct option_line *line = &option_lines[i];

        names[i] = (struct option){line->spelling,
                                   line->argument == NULL     ? no_argument
                                   : line->argument[0] == '[' ? optional_argument
                                                              : required_argument,
                                   NULL, LONG_NAME};
        if (line->letter != 0)
            length += (size_t)snprintf(letters + length, sizeof(letters) - length, "%c%s",
                                       line->letter, line->argument != NULL ? ":" : "");
    }
    optind = 0; /* begin again */
    while (result == 0) {
        const char *word = argv[optind > 0 ? optind : 1];
        int code = getopt_long(argc, argv, letters, names, NULL);

        if (code == -1)
            break;
        result = code == OPERAND ? choose(options, &rejection, optarg)
                                 : take_lab_option(options, &rejection, word, code);
    }
    while (result == 0 && optind < argc) /* after "--" */
        result = choose(options, &rejection, argv[optind++]);
    if (result == 0 && options->resume && options->count == 0 && !options->help)
        return reject(&rejection, "--resume needs the names of the experiments, or all");
    return result;
}

void lab_help(FILE *out)
{
    fputs("usage: wsload lab [option ...] NAME ... | all\n\n"
          "Experiments with webserverd: each starts its own servers, measures, and explains\n"
          "the results. Pages are written to DIRECTORY/NAME.html.\n\n",
          out);
    for (size_t i = 0; i < lab_experiment_count; i++)
        fprintf(out, "  %-13s%s\n", lab_experiments[i].name, lab_experiments[i].question);
    fputc('\n', out);
    for (size_t i = 0; i < ARRAY_LENGTH(option_lines); i++) {
        const struct option_line *line = &option_lines[i];
        bool has_letter = line->letter != 0;
        const char *argument = line->argument != NULL ? line->argument : "";
        char left[48];

        snprintf(left, sizeof(left), "%c%c%c --%s%s%s", has_letter ? '-' : ' ',
                 has_letter ? line->letter : ' ', has_letter ? ',' : ' ', line->spelling,
                 argument[0] == '[' ? "" : " ", argument);
        fprintf(out, "  %-28s%s\n", left, line->help);
    }
    fputs("\nExit status: 0 success, 1 usage error or a failed experiment, 130 interrupted.\n",
          out);
}

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
    size_t section_count; /* without the machine */
    bool from_earlier_start;
};

struct session {
    const struct lab_options *options;
    struct lab lab;
    struct machine machine;
    json_t *conditions;
    struct finished finished[LAB_CHOSEN_MAX]; /* as options->chosen */
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

    snprintf(path, sizeof(path), "%.4000s/%s.html", options->page_directory, name);
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
    finished->section_count = finished->findings->section_count;
    findings_add_terms(finished->findings);
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

    for (size_t i = 0; finished->from_earlier_start && i < machine->count; i++)
        if (machine->fact[i].changes && length < REMARK)
            length += snprintf(remark + length, (size_t)(REMARK - length), " %s: %s.",
                               machine->fact[i].label, machine->fact[i].text);
}

static void add_front_settings(struct document *front, const struct lab *lab)
{
    char time[UNITS_TEXT], number[UNITS_TEXT];

    document_fact(front, DOCUMENT_NORMAL, "Trials", "%u of %s for each point%s", lab->rounds,
                  units_format_ns(time, sizeof(time), (double)lab->trial_ms * 1e6),
                  lab->quick ? ", with --quick" : "");
    if (lab->constant_rate > 0)
        document_fact(front, DOCUMENT_NORMAL, "Rate", "%s requests/s for constant loads",
                      format_number(number, sizeof(number), lab->constant_rate));
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
    add_front_settings(front, &session->lab);
    findings_add_terms(front);
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
                                  text->remark,     finished->findings, finished->section_count};
    }
    if (count > 1)
        status = write_chapters(session, chapters, count);
    free(texts);
    return status;
}

/* ---- Experiments ---- */

static void set_up(struct lab *lab, const struct lab_options *options)
{
    *lab = (struct lab){
        .program = options->program,
        .quick = options->quick,
        .rounds = options->quick ? 3 : 5,
        .trial_ms = options->quick ? LAB_TRIAL_QUICK_MS : LAB_TRIAL_MS,
        .until_ms = options->until_ms,
        .constant_rate = (double)options->rate,
        .cores = resources_cores(),
        .shows_progress = !options->quiet && isatty(STDERR_FILENO),
        .asks = !options->quiet && !options->all && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO),
    };
    if (options->rounds > 0)
        lab->rounds = options->rounds;
    if (options->duration_ms > 0)
        lab->trial_ms = options->duration_ms;
}

/* Stores the findings first, so that a lab that is killed now need not repeat the experiment. */
static int keep_findings(struct session *session, size_t index)
{
    const struct experiment *experiment = session->options->chosen[index];
    const struct finished *finished = &session->finished[index];
    char why[WHY];

    findings_add_published(finished->findings, experiment->name, &session->lab.own);
    if (store_write(session->options->page_directory, experiment->name, session->conditions,
                    &finished->machine, finished->findings, why, sizeof(why)) != 0)
        return report_error(why);
    return publish(session, index);
}

/* Returns an exit status. */
static int conduct_chosen(struct session *session, size_t index)
{
    const struct experiment *experiment = session->options->chosen[index];
    struct finished *finished = &session->finished[index];
    struct lab *lab = &session->lab;
    char why[LAB_WHY + 64];

    finished->machine = session->machine;
    finished->findings = findings_create(experiment->title);
    if (finished->findings == NULL)
        return report_error("out of memory");
    document_subtitle(finished->findings, "%c%s", toupper((unsigned char)experiment->question[0]),
                      experiment->question + 1);
    if (lab_conduct(lab, experiment, finished->findings) == 0)
        return keep_findings(session, index);
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
        if (session->finished[i].from_earlier_start)
            printf("\n%s: finished earlier, not run again\n", options->chosen[i]->name);
        status = session->finished[i].from_earlier_start ? publish(session, i)
                                                         : conduct_chosen(session, i);
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
            outcome = store_read(options->page_directory, name, session->conditions,
                                 &finished->machine, &finished->findings, why, sizeof(why));
        else if (store_forget(options->page_directory, name, why, sizeof(why)) != 0)
            outcome = STORE_REFUSED;
        if (outcome == STORE_REFUSED) {
            finished->findings = NULL;
            return report_error(why);
        }
        finished->from_earlier_start = outcome == STORE_FOUND;
    }
    return RESULT_GOOD;
}

static int run(struct session *session)
{
    char version[VERSION], server[STORE_PROGRAM], client[STORE_PROGRAM], why[WHY];
    const char *directory = session->options->page_directory;
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
