/*
 * wsconsole: the live view of a running webserverd in the terminal. This file reads the command
 * line and starts the full-screen program, a single print, or the writing of a page.
 */
#include "common/clock.h"
#include "common/escape.h"
#include "console/app/options.h"
#include "console/app/program.h"
#include "console/data/instances.h"

#include <locale.h>
#include <stdio.h>
#include <time.h>

/*
 * Without a name, the instance is the one that owns the socket given; without a socket, one-shot
 * output is of the only running instance (in full screen the user chooses). Waits as long as the
 * options allow. Returns false after an error message.
 */
static bool find_instance(struct options *options)
{
    uint64_t until_ns = clock_monotonic_ns() + options->wait_s * NS_PER_S;
    const struct timespec pause = {.tv_nsec = 200 * 1000 * 1000};
    char why[256];

    if (options->name_given || options->replay != NULL || options->lab != NULL)
        return true;
    if (options->socket == NULL) {
        if (options->once)
            instance_with_socket(NULL, options->name);
        return true;
    }
    while (!instance_with_socket(options->socket, options->name)) {
        if (!options->wait_given || clock_monotonic_ns() >= until_ns) {
            snprintf(why, sizeof(why), "no running webserverd has the control socket '%.200s'",
                     options->socket);
            escape_report("wsconsole", why);
            return false;
        }
        nanosleep(&pause, NULL);
    }
    return true;
}

int main(int argc, char **argv)
{
    struct options options;
    enum options_result result;

    setlocale(LC_ALL, "");
    setlocale(LC_NUMERIC, "C"); /* numbers look the same in every locale and script */
    result = options_read(argc, argv, &options);
    if (result != OPTIONS_RUN)
        return result == OPTIONS_DONE ? EXIT_DONE : EXIT_USAGE;
    if (!find_instance(&options))
        return EXIT_NO_DAEMON;
    return options.html != NULL ? page_run(&options)
           : options.once       ? once_run(&options)
                                : program_run(&options);
}
