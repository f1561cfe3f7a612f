/*
 * wsctl: sends one command to a running webserverd over its control socket.
 */
#include "common/control_client.h"
#include "common/instance.h"
#include "common/macros.h"
#include "common/tables.h"
#include "common/units.h"
#include "console/data/answers.h"
#include "console/data/commands.h"
#include "console/data/instances.h"

#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum exit_status { EXIT_DONE = 0, EXIT_REJECTED = 1, EXIT_USAGE = 2, EXIT_NO_DAEMON = 3 };

struct options {
    const char *name;
    const char *socket; /* NULL: the instance's */
    int timeout_ms;
    bool json;
};

static const char usage[] =
    "usage: wsctl [-n NAME] [-s SOCKET] [-t TIMEOUT] [--json] COMMAND [ARG...]\n";

static const struct {
    char letter;
    const char *name, *argument, *help;
} options_listed[] = {
#define OPTION(letter, name, argument, help) {letter, name, argument, help},
#include "console/wsctl.def"
#undef OPTION
};

static void print_help(void)
{
    printf("%s\nSends one command to a running webserverd and prints the reply.\n\n", usage);
    for (size_t i = 0; i < ARRAY_LENGTH(options_listed); i++) {
        const char *argument = options_listed[i].argument;
        const char letter[] = {'-', options_listed[i].letter, ',', '\0'};
        char form[32];

        snprintf(form, sizeof(form), "%s%s%s", options_listed[i].name, argument != NULL ? " " : "",
                 argument != NULL ? argument : "");
        printf("  %3s --%-18s %s\n", options_listed[i].letter != 0 ? letter : "", form,
               options_listed[i].help);
    }
    printf("\nCommands:\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        char words[64];

        snprintf(words, sizeof(words), "%s %s", command_table[i].name, command_table[i].arguments);
        printf("  %-39s %s\n", words, command_table[i].help);
    }
    printf("\nExit status: 0 done, 1 rejected, 2 usage error, 3 no daemon answers.\n");
}

static int usage_error(const char *why)
{
    fprintf(stderr, "wsctl: %s\n%s", why, usage);
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

/* parse_options() returns this to continue, else the exit status. */
enum { GO_ON = -1 };

static int parse_options(int argc, char **argv, struct options *options)
{
    static const struct option names[] = {{"name", required_argument, NULL, 'n'},
                                          {"socket", required_argument, NULL, 's'},
                                          {"timeout", required_argument, NULL, 't'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"version", no_argument, NULL, 'V'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    int option;

    /* '+': options end at the command, whose arguments may begin with a dash. */
    while ((option = getopt_long(argc, argv, "+n:s:t:Vh", names, NULL)) != -1) {
        switch (option) {
        case 'n':
            options->name = optarg;
            break;
        case 's':
            options->socket = optarg;
            break;
        case 't':
            if (parse_timeout(optarg, &options->timeout_ms) != EXIT_DONE)
                return EXIT_USAGE;
            break;
        case 'j':
            options->json = true;
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

/* --json may also follow the command: no command takes it as an argument. */
static int remove_json_flag(int count, char **words, struct options *options)
{
    int kept = 0;

    for (int i = 0; i < count; i++)
        if (strcmp(words[i], "--json") == 0)
            options->json = true;
        else
            words[kept++] = words[i];
    return kept;
}

static int fail(const char *why, int status)
{
    fprintf(stderr, "wsctl: %s\n", why);
    return status;
}

static int show(const struct options *options, const char *command, const char *line)
{
    enum answer answer;
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);

    if (out == NULL)
        return fail("out of memory", EXIT_REJECTED);
    answer = answer_print(command, line, out);
    fclose(out);
    if (options->json)
        printf("%s\n", line);
    else if (answer == ANSWER_DONE)
        fputs(text, stdout);
    else
        fprintf(stderr, "wsctl: %s\n", text);
    free(text);
    return answer == ANSWER_DONE ? EXIT_DONE : EXIT_REJECTED;
}

static int send_command(const struct options *options, const char *path, const char *command,
                        const char *line)
{
    struct control_client client;
    char why[256];
    const char *answer = NULL;
    enum control_result result = control_connect(&client, path, why, sizeof(why));
    int status;

    if (result == CONTROL_PENDING)
        result = control_send(&client, line, why, sizeof(why));
    if (result == CONTROL_PENDING)
        result = control_receive(&client, options->timeout_ms, &answer, why, sizeof(why));
    if (result == CONTROL_REPLY) {
        status = show(options, command, answer);
    } else {
        if (result == CONTROL_PENDING)
            snprintf(why, sizeof(why), "no answer within %d ms; -t waits longer",
                     options->timeout_ms);
        status = fail(why, result == CONTROL_DENIED ? EXIT_REJECTED : EXIT_NO_DAEMON);
    }
    control_close(&client);
    return status;
}

int main(int argc, char **argv)
{
    struct options options = {.name = INSTANCE_DEFAULT_NAME, .timeout_ms = 60000};
    char path[INSTANCE_PATH_MAX], line[CONTROL_LINE_MAX - 1], why[256];
    int status = parse_options(argc, argv, &options);
    int command, count;

    if (status != GO_ON)
        return status;
    count = remove_json_flag(argc - optind, argv + optind, &options);
    command = command_check(count, (const char *const *)(argv + optind), line, sizeof(line), why,
                            sizeof(why));
    if (command < 0 || instance_control_socket(options.name, options.socket, path, sizeof(path),
                                               why, sizeof(why)) != 0)
        return usage_error(why);
    return send_command(&options, path, command_table[command].name, line);
}
