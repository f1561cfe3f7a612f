/*
 * wsconsole: a running webserverd, live in the terminal. Three layers: the source (shared memory),
 * the model (what the numbers mean), the views (how they look); only the last knows of curses.
 */
#include "console/chooser.h"
#include "console/once.h"
#include "console/options.h"
#include "console/program.h"

#include <locale.h>
#include <stdio.h>

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_WRONG_USE = 2 };

int main(int argc, char **argv)
{
    struct options options;
    enum options_result result;
    char why[256];

    setlocale(LC_ALL, "");
    setlocale(LC_NUMERIC, "C"); /* numbers look the same on every screen and in every script */
    result = options_read(argc, argv, &options);
    if (result != OPTIONS_RUN)
        return result == OPTIONS_DONE ? EXIT_DONE : EXIT_WRONG_USE;
    if (options.once)
        return once_run(&options);
    switch (chooser_run(&options, why, sizeof(why))) {
    case CHOOSER_CHOSEN:
        return program_run(&options);
    case CHOOSER_LEFT:
        return EXIT_DONE;
    case CHOOSER_FAILED:
        break;
    }
    fprintf(stderr, "wsconsole: %s\n", why);
    return EXIT_FAILED;
}
