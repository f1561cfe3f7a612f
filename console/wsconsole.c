/*
 * wsconsole: a running webserverd, live in the terminal. Three layers: the source (shared memory),
 * the model (what the numbers mean), the views (how they look); only the last knows of curses.
 */
#include "console/app/chooser.h"
#include "console/app/lab_visit.h"
#include "console/app/once.h"
#include "console/app/options.h"
#include "console/app/program.h"

#include <locale.h>
#include <stdio.h>
#include <string.h>

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_WRONG_USE = 2 };

/* The scenario of the command line; true when the user wants to see a server after it. */
static bool play_first(struct options *options, int *status)
{
    struct program_next next;

    *status = lab_visit(options, options->lab, &next);
    if (*status != EXIT_DONE || !next.wanted)
        return false;
    snprintf(options->name, sizeof(options->name), "%s", next.name);
    options->name_given = next.name[0] != '\0';
    return true;
}

/* Shows one server after another, as the user goes from one to the next. */
static int watch_servers(struct options *options)
{
    struct program_next next = {.wanted = false};
    char why[256], before[sizeof(options->name)];
    enum chooser_result chosen = chooser_run(options, why, sizeof(why));
    int status = EXIT_DONE;

    while (chosen == CHOOSER_CHOSEN) {
        status = program_run(options, NULL, &next);
        if (next.lab_wanted) {
            options->view = next.view;
            status = lab_visit(options, next.lab, &next);
            if (!next.wanted && !next.cut_off && status == EXIT_DONE)
                continue; /* back to the server from before */
        }
        if (!next.wanted)
            return status;
        snprintf(before, sizeof(before), "%s", options->name);
        options->view = next.view;
        if (next.name[0] == '\0')
            chosen = chooser_run_again(options, why, sizeof(why));
        else
            snprintf(options->name, sizeof(options->name), "%s", next.name);
        if (strcmp(before, options->name) != 0)
            options->socket = NULL; /* it was the other one's */
    }
    if (chosen == CHOOSER_LEFT)
        return EXIT_DONE;
    fprintf(stderr, "wsconsole: %s\n", why);
    return EXIT_FAILED;
}

int main(int argc, char **argv)
{
    struct options options;
    enum options_result result;
    int status;

    setlocale(LC_ALL, "");
    setlocale(LC_NUMERIC, "C"); /* numbers look the same on every screen and in every script */
    result = options_read(argc, argv, &options);
    if (result != OPTIONS_RUN)
        return result == OPTIONS_DONE ? EXIT_DONE : EXIT_WRONG_USE;
    if (options.once)
        return once_run(&options);
    if (options.lab != NULL && !play_first(&options, &status))
        return status;
    return watch_servers(&options);
}
