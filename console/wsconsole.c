/*
 * wsconsole: a running webserverd, live in the terminal. Three layers: the source (shared memory),
 * the model (what the numbers mean), the views (how they look); only the last knows of curses.
 */
#include "console/once.h"
#include "console/options.h"
#include "console/program.h"

#include <locale.h>
#include <stdio.h>

enum { EXIT_DONE = 0, EXIT_WRONG_USE = 2 };

int main(int argc, char **argv)
{
    struct options options;
    enum options_result result;

    setlocale(LC_ALL, "");
    setlocale(LC_NUMERIC, "C"); /* numbers look the same on every screen and in every script */
    result = options_read(argc, argv, &options);
    if (result != OPTIONS_RUN)
        return result == OPTIONS_DONE ? EXIT_DONE : EXIT_WRONG_USE;
    return options.once ? once_run(&options) : program_run(&options);
}
