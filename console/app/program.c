#include "console/app/program.h"

#include "console/app/loop.h"
#include "console/app/menu.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { WHY_BYTES = 512 };

static int report_failure(const char *why)
{
    fprintf(stderr, "wsconsole: %s\n", why);
    return EXIT_FAILED;
}

/* Signals are blocked before the test bed is started, so that it is always removed. */
static int play_scenario(const struct options *options, const struct lab_scenario *scenario,
                         struct session_next *next)
{
    struct options own = *options;
    int signals = screen_signals(), status;
    char why[WHY_BYTES];
    struct lab *lab;

    if (signals < 0)
        return report_failure("cannot receive signals");
    printf("Starting a private server for '%s'.\n", scenario->name);
    fflush(stdout);
    lab = lab_open(scenario, why, sizeof(why));
    if (lab == NULL) {
        close(signals);
        return report_failure(why);
    }
    snprintf(own.name, sizeof(own.name), "%s", lab_instance(lab));
    own.socket = lab_socket(lab);
    own.readonly = false;
    own.view = NULL;
    own.record = own.replay = NULL;
    status = loop_run(&own, lab, next);
    lab_close(lab);
    close(signals);
    return status;
}

/* Plays SCENARIO (NULL: from the menu) and those the user chooses after it. NEXT receives what
 * follows the last one. Returns the exit status. */
static int play_scenarios(const struct options *options, const struct lab_scenario *scenario,
                          struct session_next *next)
{
    int status = EXIT_DONE;
    char why[WHY_BYTES];

    *next = (struct session_next){.lab = scenario, .lab_wanted = true};
    while (next->lab_wanted && status == EXIT_DONE) {
        scenario = next->lab;
        *next = (struct session_next){.wanted = false};
        if (scenario == NULL) {
            enum menu_result result = menu_choose_scenario(options, &scenario, why, sizeof(why));

            next->interrupted = result == MENU_INTERRUPTED;
            if (result == MENU_FAILED)
                return report_failure(why);
            if (result != MENU_CHOSEN)
                return status;
        }
        status = play_scenario(options, scenario, next);
    }
    return status;
}

/* After a session: sets OPTIONS for the instance wanted next. */
static enum menu_result switch_instance(struct options *options, const struct session_next *next,
                                        char *why, size_t size)
{
    char before[sizeof(options->name)];
    enum menu_result result = MENU_CHOSEN;

    snprintf(before, sizeof(before), "%s", options->name);
    options->view = next->view;
    if (next->name[0] == '\0')
        result = menu_choose_other_instance(options, why, size);
    else
        snprintf(options->name, sizeof(options->name), "%s", next->name);
    if (strcmp(before, options->name) != 0)
        options->socket = NULL; /* it belongs to the instance before */
    return result;
}

static int show_servers(struct options *options)
{
    struct session_next next = {.wanted = false};
    char why[WHY_BYTES];
    enum menu_result result = menu_choose_instance(options, why, sizeof(why));

    while (result == MENU_CHOSEN) {
        int status = loop_run(options, NULL, &next);

        if (next.lab_wanted) {
            options->view = next.view;
            status = play_scenarios(options, next.lab, &next);
            if (!next.wanted && !next.interrupted && status == EXIT_DONE)
                continue; /* back to the same server */
        }
        if (!next.wanted)
            return status;
        result = switch_instance(options, &next, why, sizeof(why));
    }
    return result == MENU_FAILED ? report_failure(why) : EXIT_DONE;
}

int program_run(struct options *options)
{
    struct session_next next;
    int status;

    if (options->lab == NULL)
        return show_servers(options);
    status = play_scenarios(options, options->lab, &next);
    if (status != EXIT_DONE || !next.wanted)
        return status;
    snprintf(options->name, sizeof(options->name), "%s", next.name);
    options->name_given = next.name[0] != '\0';
    return show_servers(options);
}
