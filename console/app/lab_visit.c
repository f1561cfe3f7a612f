#include "console/app/lab_visit.h"

#include "console/app/lab_menu.h"
#include "console/lab/player.h"
#include "console/ui/screen.h"

#include <stdio.h>
#include <unistd.h>

enum { EXIT_DONE = 0, EXIT_FAILED = 1, WHY_BYTES = 512 };

static int failed(const char *why)
{
    fprintf(stderr, "wsconsole: %s\n", why);
    return EXIT_FAILED;
}

/* Signals are held back from before the stage is set: whatever comes, it is put back. */
static int play(const struct options *options, const struct lab_scenario *scenario,
                struct program_next *next)
{
    struct options own = *options;
    int signals = screen_signals(), status;
    char why[WHY_BYTES];
    struct lab *lab;

    if (signals < 0)
        return failed("cannot receive signals");
    printf("Setting the stage: a server of its own for '%s'.\n", scenario->name);
    fflush(stdout);
    lab = lab_open(scenario, why, sizeof(why));
    if (lab == NULL) {
        close(signals);
        return failed(why);
    }
    snprintf(own.name, sizeof(own.name), "%s", lab_instance(lab));
    own.socket = lab_socket(lab);
    own.readonly = false;
    own.view = NULL;
    own.record = own.replay = NULL;
    status = program_run(&own, lab, next);
    lab_close(lab);
    close(signals);
    return status;
}

int lab_visit(const struct options *options, const struct lab_scenario *scenario,
              struct program_next *next)
{
    int status = EXIT_DONE;
    char why[WHY_BYTES];

    *next = (struct program_next){.lab = scenario, .lab_wanted = true};
    while (next->lab_wanted) {
        scenario = next->lab;
        *next = (struct program_next){.wanted = false};
        if (scenario == NULL) {
            scenario = lab_menu_run(options, &next->cut_off, why, sizeof(why));
            if (scenario == NULL)
                return why[0] != '\0' ? failed(why) : status;
        }
        status = play(options, scenario, next);
        if (status != EXIT_DONE)
            return status;
    }
    return status;
}
