/*
 * wsctl: sends one command to a running webserverd over its control socket, or watches it.
 */
#include "common/clock.h"
#include "common/control_client.h"
#include "common/escape.h"
#include "common/instance.h"
#include "common/macros.h"
#include "common/server_status.h"
#include "common/tables.h"
#include "common/units.h"
#include "console/data/alerts.h"
#include "console/data/answers.h"
#include "console/data/check.h"
#include "console/data/commands.h"
#include "console/data/instances.h"
#include "console/data/watch.h"

#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum exit_status { EXIT_DONE = 0, EXIT_REJECTED = 1, EXIT_USAGE = 2, EXIT_NO_DAEMON = 3 };

struct options {
    const char *name;
    bool name_given;
    const char *socket; /* NULL: the instance's */
    int timeout_ms;
    bool timeout_given;
    bool json;
    bool no_wait; /* stop: not for the end of the server */
};

static const char usage[] =
    "usage: wsctl [-n NAME] [-s SOCKET] [-t TIMEOUT] [--json] COMMAND [ARG...]\n"
    "       wsctl [-n NAME] [-s SOCKET] watch [--fail-if RULE]... [--for TIME]\n";

static const struct option_listed {
    char letter;
    const char *name, *argument, *help;
} options_listed[] =
    {
#define OPTION(letter, name, argument, help) {letter, name, argument, help},
#include "console/wsctl.def"
#undef OPTION
},
  watch_options[] = {
#define OPTION(letter, name, argument, help) {letter, name, argument, help},
#include "console/wsctl_watch.def"
#undef OPTION
};

static void print_options(const struct option_listed *options, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *argument = options[i].argument;
        const char letter[] = {'-', options[i].letter, ',', '\0'};
        char form[32];

        snprintf(form, sizeof(form), "%s%s%s", options[i].name, argument != NULL ? " " : "",
                 argument != NULL ? argument : "");
        printf("  %3s --%-18s %s\n", options[i].letter != 0 ? letter : "", form, options[i].help);
    }
}

/* Prints the command ONLY, or all of them. Returns how many. */
static int print_commands(const char *only)
{
    int count = 0;

    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        char words[128];

        if (only != NULL && strcmp(command_table[i].name, only) != 0)
            continue;
        snprintf(words, sizeof(words), "%s %s", command_table[i].name, command_table[i].arguments);
        printf("  %-39s %s\n", words, command_table[i].help);
        count++;
    }
    return count;
}

static void print_help(void)
{
    printf("%s\nSends one command to a running webserverd and prints the reply.\n\n", usage);
    print_options(options_listed, ARRAY_LENGTH(options_listed));
    printf("\nCommands:\n");
    print_commands(NULL);
    printf("  %-39s %s\n", "list", "List the servers that run, of any program");
    printf("  %-39s %s\n", "check", "Send a request to the server's own address");
    printf("  %-39s %s\n", "watch [--fail-if RULE] [--for TIME]",
           "Print the load every second; see watch --help");
    printf("\nExit status: 0 done, 1 rejected or a rule of watch holds, 2 usage error, "
           "3 no daemon answers.\n");
}

static int usage_error(const char *why)
{
    escape_report("wsctl", why);
    fputs(usage, stderr);
    return EXIT_USAGE;
}

static int parse_timeout(const char *text, int *timeout_ms)
{
    uint64_t ms;
    char why[160];

    if (units_parse_time_ms(text, &ms) == 0 && ms > 0 && ms <= INT_MAX) {
        *timeout_ms = (int)ms;
        return EXIT_DONE;
    }
    snprintf(why, sizeof(why), "invalid timeout '%.60s' (examples: 500ms, 30s, 2m)", text);
    return usage_error(why);
}

/* parse_options() and parse_watch() return this to continue, else the exit status. */
enum { GO_ON = -1, OPTIONS_MAX = 8 };

/* Converts LISTED for getopt_long(), which returns 0 for an option without a letter. */
static void fill_option_table(const struct option_listed *listed, size_t count,
                              struct option table[OPTIONS_MAX])
{
    memset(table, 0, OPTIONS_MAX * sizeof(*table));
    for (size_t i = 0; i < count && i < OPTIONS_MAX - 1; i++)
        table[i] = (struct option){listed[i].name,
                                   listed[i].argument != NULL ? required_argument : no_argument,
                                   NULL, listed[i].letter};
}

static bool take_flag(const char *name, struct options *options)
{
    bool json = strcmp(name, "json") == 0, no_wait = strcmp(name, "no-wait") == 0;

    options->json |= json;
    options->no_wait |= no_wait;
    return json || no_wait;
}

static int parse_options(int argc, char **argv, struct options *options)
{
    struct option table[OPTIONS_MAX];
    int option, which = 0;

    fill_option_table(options_listed, ARRAY_LENGTH(options_listed), table);
    /* '+': options end at the command, whose arguments may begin with a dash. */
    while ((option = getopt_long(argc, argv, "+n:s:t:Vh", table, &which)) != -1) {
        switch (option) {
        case 'n':
            options->name = optarg;
            options->name_given = true;
            break;
        case 's':
            options->socket = optarg;
            break;
        case 't':
            if (parse_timeout(optarg, &options->timeout_ms) != EXIT_DONE)
                return EXIT_USAGE;
            options->timeout_given = true;
            break;
        case 0: /* those without a letter */
            take_flag(table[which].name, options);
            break;
        case 'V':
            printf("wsctl " WEBSERVERD_VERSION "\n");
            return EXIT_DONE;
        case 'h':
            print_help();
            return EXIT_DONE;
        default:
            fputs(usage, stderr);
            return EXIT_USAGE;
        }
    }
    return GO_ON;
}

/* --json and --no-wait may also follow the command: no command takes them as arguments. */
static int remove_flags(int count, char **words, struct options *options)
{
    int kept = 0;

    for (int i = 0; i < count; i++)
        if (strncmp(words[i], "--", 2) != 0 || !take_flag(words[i] + 2, options))
            words[kept++] = words[i];
    return kept;
}

static int fail_with(const char *why, int status)
{
    escape_report("wsctl", why);
    return status;
}

/* No server answers: which others do. */
static int fail_to_find(const char *why, int status)
{
    char advice[4096];

    escape_report("wsctl", why);
    instances_advise(advice, sizeof(advice));
    return fail_with(advice, status);
}

static int print_answer(const struct options *options, const char *command, const char *line)
{
    enum answer answer;
    char *text = NULL, *json = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);

    if (out == NULL)
        return fail_with("out of memory", EXIT_REJECTED);
    answer = answer_print(command, line, out);
    fclose(out);
    if (options->json && (json = escape_json_text(line)) != NULL)
        printf("%s\n", json);
    else if (options->json)
        answer = ANSWER_BROKEN;
    else if (answer == ANSWER_DONE)
        fputs(text, stdout);
    else
        fprintf(stderr, "wsctl: %s\n", text); /* a configuration error has several lines */
    free(json);
    free(text);
    return answer == ANSWER_DONE ? EXIT_DONE : EXIT_REJECTED;
}

/* --- stop --- */

/* A descriptor that is readable once PID has ended; -1: no such process is seen from here. */
static int watch_process(pid_t pid)
{
    return pid > 0 ? pidfd_open(pid, 0) : -1;
}

/* False: DEADLINE_NS (0: none) is over. Closes the descriptor. */
static bool await_end(int pidfd, uint64_t deadline_ns)
{
    struct pollfd ended = {.fd = pidfd, .events = POLLIN};
    uint64_t now_ns = clock_monotonic_ns();
    int left_ms = deadline_ns == 0       ? -1
                  : now_ns < deadline_ns ? (int)clock_ceil_ms(deadline_ns - now_ns)
                                         : 0;
    bool done = pidfd < 0 || poll(&ended, 1, left_ms) > 0;

    if (pidfd >= 0)
        close(pidfd);
    return done;
}

/* The master and, after an upgrade that it has ended, the new one close the connection and exit. */
static int await_stop(const struct options *options, struct control_client *client,
                      const char *reply)
{
    struct ucred master = {.pid = 0};
    socklen_t length = sizeof(master);
    json_t *json = json_loads(reply, 0, NULL);
    uint64_t deadline_ns = options->timeout_given
                               ? clock_monotonic_ns() + (uint64_t)options->timeout_ms * NS_PER_MS
                               : 0;
    int new_master = watch_process((pid_t)json_integer_value(json_object_get(json, "new_master"))),
        old_master;
    enum control_result result = CONTROL_PENDING;
    const char *line;
    char why[256], time[UNITS_TEXT];

    json_decref(json);
    getsockopt(client->fd, SOL_SOCKET, SO_PEERCRED, &master, &length);
    old_master = watch_process(master.pid);
    while (result == CONTROL_PENDING) {
        uint64_t now_ns = clock_monotonic_ns();
        uint64_t left_ms = deadline_ns == 0       ? 60000
                           : now_ns < deadline_ns ? clock_ceil_ms(deadline_ns - now_ns)
                                                  : 0;

        result = control_receive(client, (int)left_ms, &line, why, sizeof(why));
        if (result == CONTROL_PENDING && deadline_ns != 0 && left_ms == 0)
            break;
    }
    if (await_end(old_master, deadline_ns) && await_end(new_master, deadline_ns) &&
        result != CONTROL_PENDING)
        return EXIT_DONE;
    snprintf(why, sizeof(why), "the server stops, but has not ended within %s; -t waits longer",
             units_format_time_ms(time, sizeof(time), (uint64_t)options->timeout_ms));
    return fail_with(why, EXIT_REJECTED);
}

/* Prints the answer to COMMAND. The answer to a stop is that the server has ended. */
static int finish_command(const struct options *options, struct control_client *client,
                          const char *command, const char *answer)
{
    bool waits =
        strcmp(command, "stop") == 0 && !options->no_wait && strstr(answer, "\"stopping\"") != NULL;
    char *kept = strdup(answer); /* reading on moves it */
    int status;

    if (kept == NULL)
        return fail_with("out of memory", EXIT_REJECTED);
    status = waits ? await_stop(options, client, kept) : EXIT_DONE;
    if (status == EXIT_DONE && waits && !options->json)
        puts("stopped");
    else if (status == EXIT_DONE)
        status = print_answer(options, command, kept);
    free(kept);
    return status;
}

static int send_command(const struct options *options, const char *path, const char *command,
                        const char *line)
{
    struct control_client client;
    char why[256], time[UNITS_TEXT];
    const char *answer = NULL;
    enum control_result result = control_connect(&client, path, why, sizeof(why));
    int status;

    if (result == CONTROL_PENDING)
        result = control_send(&client, line, why, sizeof(why));
    if (result == CONTROL_PENDING)
        result = control_receive(&client, options->timeout_ms, &answer, why, sizeof(why));
    if (result == CONTROL_REPLY && answer != NULL) {
        status = finish_command(options, &client, command, answer);
    } else {
        if (result == CONTROL_PENDING)
            snprintf(why, sizeof(why), "no answer within %s; -t waits longer",
                     units_format_time_ms(time, sizeof(time), (uint64_t)options->timeout_ms));
        if (result == CONTROL_NO_DAEMON && options->socket == NULL)
            snprintf(why, sizeof(why), "no webserverd named '%s' is running", options->name);
        status = result == CONTROL_DENIED      ? fail_with(why, EXIT_REJECTED)
                 : result == CONTROL_NO_DAEMON ? fail_to_find(why, EXIT_NO_DAEMON)
                                               : fail_with(why, EXIT_NO_DAEMON);
    }
    control_close(&client);
    return status;
}

/* The server has no history, so its rates are those between two looks. */
static int print_status_of(const struct options *options, const struct segment_reader *reader)
{
    struct instance_load load;
    json_t *json;
    char *line;
    int status;

    instance_load(reader);
    usleep(INSTANCES_LOOK_MS * 1000);
    load = instance_load(reader);
    json = server_status_read(reader);
    json_object_set_new(json, "requests_per_s", json_real(load.requests));
    json_object_set_new(json, "cores", json_real(load.cores));
    line = json_dumps(json, JSON_COMPACT);
    status = line != NULL ? print_answer(options, "status", line)
                          : fail_with("out of memory", EXIT_REJECTED);
    json_decref(json);
    free(line);
    return status;
}

/*
 * Commands to a server of another program, which alone knows them; its status is in its segment.
 * Returns GO_ON if it is webserverd, or none.
 */
static int run_on_other_program(const struct options *options, int count, const char *const *words)
{
    struct segment_reader reader;
    char why[256], line[CONTROL_LINE_MAX - 1], path[INSTANCE_PATH_MAX];
    int status = GO_ON;

    if (count == 0 || options->socket != NULL ||
        segment_attach(&reader, options->name, why, sizeof(why)) != SEGMENT_ATTACHED)
        return GO_ON;
    snprintf(path, sizeof(path), "%.*s", (int)sizeof(path) - 1, reader.map.header.socket_path);
    if (segment_count(&reader.map, SEGMENT_CONFIG) == 0) {
        if (segment_health(&reader, clock_monotonic_ns()) == SEGMENT_DEAD) {
            snprintf(why, sizeof(why), "'%s' has died; wsconsole -n %s shows its last sample",
                     options->name, options->name);
            status = fail_with(why, EXIT_NO_DAEMON);
        } else if (count == 1 && strcmp(words[0], "status") == 0) {
            status = print_status_of(options, &reader);
        } else if (path[0] == '\0') {
            snprintf(why, sizeof(why),
                     "%s offers no commands (status, list and watch read its memory)",
                     options->name);
            status = fail_with(why, EXIT_REJECTED);
        } else if (command_join(count, words, line, sizeof(line), why, sizeof(why)) != 0) {
            status = usage_error(why);
        } else {
            status = send_command(options, path, words[0], line);
        }
    }
    segment_detach(&reader);
    return status;
}

/* check */

enum { CHECK_MS = 5000 };

static int run_check(const struct options *options)
{
    struct segment_reader reader;
    struct check check;
    char why[512], took[UNITS_TEXT];
    int status;

    if (segment_attach(&reader, options->name, why, sizeof(why)) != SEGMENT_ATTACHED)
        return fail_to_find(why, EXIT_NO_DAEMON);
    status = check_request(&check, &reader, options->timeout_given ? options->timeout_ms : CHECK_MS,
                           why, sizeof(why));
    segment_detach(&reader);
    if (status != 0)
        return fail_with(why, EXIT_NO_DAEMON);
    if (options->json)
        printf("{\"ok\":true,\"address\":\"%s\",\"status\":%d,\"ns\":%" PRIu64 "}\n", check.address,
               check.status, check.ns);
    else
        printf("%s answers with status %d after %s\n", check.address, check.status,
               units_format_ns(took, sizeof(took), (double)check.ns));
    return EXIT_DONE;
}

/* watch */

static void print_watch_help(void)
{
    printf("%s\nPrints the load of a running webserverd every second, at least once.\n\n", usage);
    print_options(watch_options, ARRAY_LENGTH(watch_options));
    printf("\nExit status: 0 the time is over, 1 a rule holds, 2 usage error, 3 no server runs.\n");
}

enum { WATCH_SAMPLE_MS = 100, WATCH_PRINT_MS = 1000 };

struct watching {
    struct alerts rules;
    uint64_t for_ms; /* 0: until it is interrupted */
};

/* WORDS[0] is "watch". */
static int parse_watch(int count, char **words, struct watching *watching)
{
    enum { FAIL_IF, FOR, HELP }; /* as in wsctl_watch.def */
    struct option table[OPTIONS_MAX];
    char why[256];
    int option, which = 0;

    fill_option_table(watch_options, ARRAY_LENGTH(watch_options), table);
    optind = 0; /* getopt_long() begins again */
    opterr = 0;
    while ((option = getopt_long(count, words, "+:", table, &which)) == 0) {
        if (which == HELP) {
            print_watch_help();
            return EXIT_DONE;
        }
        if (which == FAIL_IF && alerts_add(&watching->rules, optarg, why, sizeof(why)) != 0)
            return usage_error(why);
        if (which == FOR &&
            (units_parse_time_ms(optarg, &watching->for_ms) != 0 || watching->for_ms == 0)) {
            snprintf(why, sizeof(why), "invalid time '%.60s' (examples: 30s, 2m)", optarg);
            return usage_error(why);
        }
    }
    if (option == -1 && optind == count)
        return GO_ON;
    if (option == ':')
        snprintf(why, sizeof(why), "missing value after '%.60s'", words[optind - 1]);
    else
        snprintf(why, sizeof(why), "unknown argument '%.60s' of watch (--fail-if, --for)",
                 words[option == -1 ? optind : optind - 1]);
    return usage_error(why);
}

static void print_load(const struct options *options, const struct model *model)
{
    char rate[UNITS_TEXT], p99[UNITS_TEXT], errors[UNITS_TEXT];

    if (options->json) {
        printf("{\"requests_per_s\":%.0f,\"p99_ns\":%.0f,\"responses_5xx_per_s\":%.0f,"
               "\"connections_open\":%" PRIu64 "}\n",
               fmax(0, model_rate(model, METRIC_requests)), fmax(0, model_percentile(model, 99)),
               fmax(0, model_figure(model, FIGURE_responses_5xx)),
               model_now(model)->sums[METRIC_connections_open]);
    } else {
        double p99_ns = model_percentile(model, 99);

        printf("%8s requests/s  p99 %8s  5xx/s %6s  connections %" PRIu64 "\n",
               units_format_count(rate, sizeof(rate), fmax(0, model_rate(model, METRIC_requests))),
               isnan(p99_ns) ? "-" : units_format_ns(p99, sizeof(p99), p99_ns),
               units_format_count(errors, sizeof(errors),
                                  fmax(0, model_figure(model, FIGURE_responses_5xx))),
               model_now(model)->sums[METRIC_connections_open]);
    }
    fflush(stdout);
}

/* Reports the first rule that holds; returns false if there is none. */
static bool rule_holds(struct watching *watching, const struct watch *watch, uint64_t now_ns)
{
    const struct alert_facts facts = server_info_facts(watch_info(watch));
    char value[ALERT_VALUE_BYTES];

    alerts_update(&watching->rules, &facts, now_ns, clock_wall_ns());
    for (size_t i = 0; i < watching->rules.count; i++) {
        const struct alert *alert = &watching->rules.alert[i];

        if (alert->active) {
            fprintf(stderr, "wsctl: %s: %s\n", alert->rule.text,
                    alert_rule_format(&alert->rule, alert->value, value, sizeof(value)));
            return true;
        }
    }
    return false;
}

/* Returns GO_ON, or the exit status if a rule is about a metric that the server does not have. */
static int check_rules(const struct watching *watching, const struct watch *watch)
{
    const struct segment_reader *reader = source_reader(watch_source(watch));
    char why[256];

    for (size_t i = 0; i < watching->rules.count; i++) {
        const struct alert_rule *rule = &watching->rules.alert[i].rule;

        if (rule->kind != ALERT_METRIC || reader->metric[rule->of].line >= 0 ||
            rule->of == METRIC_connections_open) /* also in the blocks of workers */
            continue;
        snprintf(why, sizeof(why), "--fail-if '%s' cannot hold: %s does not publish %s", rule->text,
                 reader->map.header.name, metric_table[rule->of].name);
        return fail_with(why, EXIT_USAGE);
    }
    return GO_ON;
}

/*
 * Samples the server until a rule holds, the time is over or the server has ended. If no second has
 * passed by then, it prints the load at the end.
 */
static int watch_server(const struct options *options, struct watch *watch,
                        struct watching *watching)
{
    const struct model *model = watch_model(watch);
    uint64_t started_ns = clock_monotonic_ns(), printed_ns = started_ns;

    for (uint64_t now_ns = started_ns;; now_ns = clock_monotonic_ns()) {
        bool over = watching->for_ms != 0 && now_ns - started_ns >= watching->for_ms * NS_PER_MS;

        if (watch_sample(watch, now_ns, clock_wall_ns(), WANT_NOTHING) != 0)
            return fail_with("out of memory", EXIT_REJECTED);
        if (source_state(watch_source(watch)) != SOURCE_LIVE)
            return fail_to_find(source_why(watch_source(watch)), EXIT_NO_DAEMON);
        if (now_ns == started_ns && check_rules(watching, watch) != GO_ON)
            return EXIT_USAGE;
        if (rule_holds(watching, watch, now_ns))
            return EXIT_REJECTED;
        if (now_ns - printed_ns >= WATCH_PRINT_MS * NS_PER_MS ||
            (over && printed_ns == started_ns)) {
            print_load(options, model);
            printed_ns = now_ns;
        }
        if (over)
            return EXIT_DONE;
        usleep(WATCH_SAMPLE_MS * 1000);
    }
}

/* True, with their names in WHY, if several servers run and none was chosen. */
static bool is_ambiguous(const struct options *options, char *why, size_t size)
{
    return !options->name_given && options->socket == NULL &&
           instances_ambiguous(options->name, why, size);
}

static bool finds_server(const struct options *options)
{
    struct segment_reader reader;
    char why[256];

    if (options->json || options->socket != NULL)
        return true;
    if (is_ambiguous(options, why, sizeof(why)) ||
        segment_attach(&reader, options->name, why, sizeof(why)) != SEGMENT_ATTACHED)
        return false;
    segment_detach(&reader);
    return true;
}

static int run_watch(const struct options *options, int count, char **words)
{
    static struct watching watching; /* too large for the stack */
    int status = parse_watch(count, words, &watching);
    struct watch *watch;
    char why[256];

    if (status != GO_ON)
        return status;
    if (is_ambiguous(options, why, sizeof(why)))
        return fail_with(why, EXIT_NO_DAEMON);
    watch = watch_open(options->name);
    if (watch == NULL)
        return fail_with("out of memory", EXIT_REJECTED);
    status = watch_server(options, watch, &watching);
    watch_close(watch);
    return status;
}

int main(int argc, char **argv)
{
    struct options options = {.name = INSTANCE_DEFAULT_NAME, .timeout_ms = 60000};
    char found[INSTANCE_NAME_MAX + 1], path[INSTANCE_PATH_MAX], line[CONTROL_LINE_MAX - 1],
        why[256];
    int status = parse_options(argc, argv, &options);
    char **words;
    int command, count;

    if (status != GO_ON)
        return status;
    count = remove_flags(argc - optind, argv + optind, &options);
    /* Without a name, the only running instance is meant, or the one that the socket belongs to. */
    if (!options.name_given && instance_with_socket(options.socket, found))
        options.name = found;
    words = argv + optind;
    if (count == 1 && strcmp(words[0], "check") == 0)
        return run_check(&options);
    if (count == 1 && strcmp(words[0], "list") == 0) {
        if (options.json && instances_print_json(stdout) != 0)
            return fail_with("out of memory", EXIT_REJECTED);
        if (!options.json)
            instances_print(stdout);
        return EXIT_DONE;
    }
    if (count > 0 && strcmp(words[0], "watch") == 0)
        return run_watch(&options, count, words);
    status = run_on_other_program(&options, count, (const char *const *)words);
    if (status != GO_ON)
        return status;
    command =
        command_check(count, (const char *const *)words, line, sizeof(line), why, sizeof(why));
    if (command < 0)
        return usage_error(why);
    if (strcmp(command_table[command].name, "help") == 0 && !finds_server(&options) &&
        print_commands(count > 1 ? words[1] : NULL) > 0)
        return EXIT_DONE;
    if (is_ambiguous(&options, why, sizeof(why)))
        return fail_with(why, EXIT_NO_DAEMON);
    if (instance_control_socket(options.name, options.socket, path, sizeof(path), why,
                                sizeof(why)) != 0)
        return usage_error(why);
    return send_command(&options, path, command_table[command].name, line);
}
