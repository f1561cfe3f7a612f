#include "loadgen/lab/command.h"

#include "common/escape.h"
#include "common/tables.h"
#include "common/units.h"

#include "loadgen/base/interrupts.h"
#include "loadgen/lab/points.h"
#include "loadgen/report/html.h"
#include "loadgen/report/text.h"
#include "loadgen/stats/result.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PATH_MAX_BYTES = 4096,
    WHY = 512,
    DURATION_MAX_S = 24 * 3600,
    NAMES_MAX = 32,
    RATE_MAX = 10000000
};

const struct experiment lab_experiments[] = {
#define EXPERIMENT(name, title, question) {#name, title, question, experiment_##name},
#include "loadgen/lab/experiments.def"
#undef EXPERIMENT
};

const size_t lab_experiment_count = ARRAY_LENGTH(lab_experiments);

const struct experiment *lab_find(const char *name)
{
    for (size_t i = 0; i < lab_experiment_count; i++)
        if (strcmp(lab_experiments[i].name, name) == 0)
            return &lab_experiments[i];
    return NULL;
}

/* ---- The command line ---- */

static const struct option_line {
    char letter;
    const char *spelling, *argument, *help;
} option_lines[] = {
#define OPTION(letter, spelling, argument, help) {letter, spelling, argument, help},
#include "loadgen/lab/options.def"
#undef OPTION
};

struct arguments {
    int argc, next;
    char *const *argv;
    char *why;
    size_t size;
};

PRINTF_LIKE(2, 3)
static int reject(const struct arguments *arguments, const char *format, ...)
{
    va_list values;

    va_start(values, format);
    vsnprintf(arguments->why, arguments->size, format, values);
    va_end(values);
    return -1;
}

static int set_option(struct lab_options *options, const struct arguments *arguments,
                      const char *option, const char *value)
{
    uint64_t rounds;

    if (value != NULL && value[0] == '\0')
        return reject(arguments, "--%s: the value is empty", option);
    if (strcmp(option, "output") == 0) {
        options->directory = value;
    } else if (strcmp(option, "server") == 0) {
        options->program = value;
    } else if (strcmp(option, "quick") == 0) {
        options->quick = true;
    } else if (strcmp(option, "quiet") == 0) {
        options->quiet = true;
    } else if (strcmp(option, "help") == 0) {
        options->help = true;
    } else if (strcmp(option, "duration") == 0) {
        if (units_parse_time_ms(value, &options->duration_ms) != 0 || options->duration_ms == 0 ||
            options->duration_ms > DURATION_MAX_S * UINT64_C(1000))
            return reject(arguments, "--duration: invalid time '%s' (examples: 500ms, 3s, 10m)",
                          value);
    } else if (strcmp(option, "rounds") == 0) {
        if (units_parse_number(value, &rounds) != 0 || rounds < 1 || rounds > POINT_ROUNDS)
            return reject(arguments, "--rounds: '%s' is out of range (1-%d)", value, POINT_ROUNDS);
        options->rounds = (uint32_t)rounds;
    } else if (strcmp(option, "rate") == 0) {
        if (units_parse_count(value, &options->rate) != 0 || options->rate == 0 ||
            options->rate > RATE_MAX)
            return reject(arguments, "--rate: '%s' is out of range (1-%d)", value, RATE_MAX);
    }
    return 0;
}

/* WORD begins with "-"; its option takes LENGTH bytes. */
static const struct option_line *find_option(const char *word, size_t length)
{
    for (size_t i = 0; i < ARRAY_LENGTH(option_lines); i++) {
        const struct option_line *line = &option_lines[i];

        if (word[1] == '-' ? strlen(line->spelling) == length - 2 &&
                                 strncmp(line->spelling, word + 2, length - 2) == 0
                           : line->letter == word[1])
            return line;
    }
    return NULL;
}

static int reject_option(const struct arguments *arguments, const char *word, size_t length)
{
    const char *known[ARRAY_LENGTH(option_lines)], *nearest;
    char typed[64];

    for (size_t i = 0; i < ARRAY_LENGTH(option_lines); i++)
        known[i] = option_lines[i].spelling;
    snprintf(typed, sizeof(typed), "%.*s", (int)length, word);
    nearest = word[1] == '-' ? nearest_word(typed + 2, known, ARRAY_LENGTH(known)) : NULL;
    if (nearest != NULL)
        return reject(arguments, "lab: unknown option %s; did you mean --%s?", typed, nearest);
    return reject(arguments, "lab: unknown option %s; wsload lab -h lists the options", typed);
}

/* "--name", "--name VALUE", "--name=VALUE", "-x VALUE" or "-xVALUE". */
static int read_option(struct lab_options *options, struct arguments *arguments, const char *word)
{
    size_t length = word[1] == '-' ? strcspn(word, "=") : 2;
    const struct option_line *option = find_option(word, length);
    const char *value = word[length] != '\0' ? word + length + (word[1] == '-') : NULL;

    if (option == NULL)
        return reject_option(arguments, word, length);
    if (option->argument == NULL)
        return value == NULL ? set_option(options, arguments, option->spelling, NULL)
                             : reject(arguments, "--%s takes no value", option->spelling);
    if (value == NULL && arguments->next == arguments->argc)
        return reject(arguments, "--%s needs a value: --%s %s", option->spelling, option->spelling,
                      option->argument);
    return set_option(options, arguments, option->spelling,
                      value != NULL ? value : arguments->argv[arguments->next++]);
}

static int choose(struct lab_options *options, const struct arguments *arguments, const char *word)
{
    bool all = strcmp(word, "all") == 0;
    const char *known[NAMES_MAX], *nearest;
    size_t count = 0;

    if (!all && lab_find(word) == NULL) {
        for (size_t i = 0; i < lab_experiment_count && count < NAMES_MAX; i++)
            known[count++] = lab_experiments[i].name;
        nearest = nearest_word(word, known, count);
        if (nearest != NULL)
            return reject(arguments, "unknown experiment '%s'; did you mean %s?", word, nearest);
        return reject(arguments, "unknown experiment '%s'; wsload lab lists them", word);
    }
    for (size_t i = 0; i < lab_experiment_count; i++)
        if ((all || strcmp(lab_experiments[i].name, word) == 0) && options->count < LAB_CHOSEN_MAX)
            options->chosen[options->count++] = &lab_experiments[i];
    return 0;
}

int lab_options_parse(struct lab_options *options, int argc, char *const *argv, char *why,
                      size_t size)
{
    struct arguments arguments = {argc, 1, argv, why, size};
    int result = 0;

    *options = (struct lab_options){.directory = "wsload-lab"};
    while (result == 0 && arguments.next < argc) {
        const char *word = argv[arguments.next++];

        if (word[0] == '-' && word[1] != '\0')
            result = read_option(options, &arguments, word);
        else
            result = choose(options, &arguments, word);
    }
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
        char left[48];

        snprintf(left, sizeof(left), "%c%c%c --%s %s", has_letter ? '-' : ' ',
                 has_letter ? line->letter : ' ', has_letter ? ',' : ' ', line->spelling,
                 line->argument != NULL ? line->argument : "");
        fprintf(out, "  %-24s%s\n", left, line->help);
    }
    fputs("\nExit status: 0 success, 1 usage error or a failed experiment, 130 interrupted.\n",
          out);
}

/* ---- Pages ---- */

static int report_error(const char *why)
{
    escape_report("wsload", why);
    return RESULT_USAGE_ERROR;
}

/* Writes DOCUMENT to NAME.html and prints "LABEL: path". Returns an exit status. */
static int write_page(const struct lab_options *options, const char *name, const char *label,
                      const struct document *document)
{
    char path[PATH_MAX_BYTES], why[PATH_MAX_BYTES + WHY];
    FILE *page;
    bool failed;

    snprintf(path, sizeof(path), "%s/%s.html", options->directory, name);
    page = fopen(path, "we");
    failed = page == NULL || document_write_html(page, document) != 0 || ferror(page) != 0;
    if (page != NULL && fclose(page) != 0)
        failed = true;
    if (failed) {
        snprintf(why, sizeof(why), "cannot write %s: %s", path, strerror(errno != 0 ? errno : EIO));
        return report_error(why);
    }
    printf("%s: %s\n", label, path);
    fflush(stdout);
    return RESULT_GOOD;
}

static int write_findings(const struct lab *lab, const struct lab_options *options,
                          const struct experiment *experiment, struct document *findings,
                          const struct machine *machine)
{
    findings_add_published(findings, experiment->name, &lab->own);
    putchar('\n');
    if (document_write_text(stdout, findings, false) != 0)
        return report_error("out of memory");
    fflush(stdout);
    document_section(findings, "The machine", NULL);
    findings_add_machine(findings, machine);
    return write_page(options, experiment->name, "\nPage", findings);
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
        .trial_ms = options->quick ? 400 : 3000,
        .rate = (double)options->rate,
        .cores = count_cores(),
        .shows_progress = !options->quiet && isatty(STDERR_FILENO),
    };
    if (options->rounds > 0)
        lab->rounds = options->rounds;
    if (options->duration_ms > 0)
        lab->trial_ms = options->duration_ms;
}

/* Starts a server to read its version. Returns 0, or -1 with WHY. */
static int read_version(struct lab *lab, char *version, size_t size)
{
    struct private_server *server = private_server_create(lab->program, lab->why, sizeof(lab->why));
    json_t *status = NULL;

    if (server != NULL && private_server_start(server, NULL, lab->why, sizeof(lab->why)) == 0)
        status = private_server_command(server, "status", lab->why, sizeof(lab->why));
    private_server_destroy(server);
    if (status == NULL)
        return -1;
    snprintf(version, size, "%s", json_string_value(json_object_get(status, "version")));
    json_decref(status);
    return 0;
}

/* Returns an exit status; if it is RESULT_GOOD, *findings is set and the caller frees it. */
static int conduct(struct lab *lab, const struct lab_options *options,
                   const struct experiment *experiment, const struct machine *machine,
                   struct document **findings)
{
    char why[LAB_WHY + 64];
    int status;

    *findings = findings_create(experiment->title);
    if (*findings == NULL)
        return report_error("out of memory");
    if (lab_conduct(lab, experiment, *findings) == 0) {
        status = write_findings(lab, options, experiment, *findings, machine);
    } else if (lab->interrupted) {
        status = RESULT_INTERRUPTED;
    } else {
        snprintf(why, sizeof(why), "%s: %s", experiment->name, lab->why);
        status = report_error(why);
    }
    if (status != RESULT_GOOD)
        document_free(*findings);
    return status;
}

/* A failed experiment does not stop the others; a signal does. */
static int conduct_all(struct lab *lab, const struct lab_options *options,
                       const struct machine *machine)
{
    struct document *index = findings_create("Experiments"), *findings;
    size_t done = 0;
    int worst = RESULT_GOOD;

    if (index == NULL)
        return report_error("out of memory");
    for (size_t i = 0; i < options->count && !lab_is_interrupted(lab); i++) {
        int status = conduct(lab, options, options->chosen[i], machine, &findings);

        worst = status > worst ? status : worst;
        if (status != RESULT_GOOD)
            continue;
        findings_add_link(index, options->chosen[i]->name, findings);
        document_free(findings);
        done++;
    }
    if (lab->interrupted)
        worst = RESULT_INTERRUPTED;
    document_section(index, "The machine", NULL);
    findings_add_machine(index, machine);
    if (done > 1 && write_page(options, "index", "Index", index) != RESULT_GOOD &&
        worst == RESULT_GOOD)
        worst = RESULT_USAGE_ERROR;
    document_free(index);
    return worst;
}

static int run(const struct lab_options *options)
{
    char version[64], why[PATH_MAX_BYTES + WHY];
    struct document *about;
    struct machine machine;
    struct lab lab;

    set_up(&lab, options);
    if (mkdir(options->directory, 0777) != 0 && errno != EEXIST) {
        snprintf(why, sizeof(why), "cannot create the directory %s: %s", options->directory,
                 strerror(errno));
        return report_error(why);
    }
    if (read_version(&lab, version, sizeof(version)) != 0)
        return report_error(lab.why);
    machine_describe(&machine, version);
    about = document_create("wsload lab", (struct document_layout){0});
    if (about != NULL)
        findings_add_machine(about, &machine);
    if (about == NULL || document_write_text(stdout, about, false) != 0)
        report_error("out of memory");
    document_free(about);
    return conduct_all(&lab, options, &machine);
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
    status = run(&options);
    interrupts_end();
    return status;
}
