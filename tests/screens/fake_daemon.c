/* Runs the driven fixture until a signal, for manual tests of the console. */
#include "fixture.h"

#include <signal.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    struct fixture *fixture;
    sigset_t set;
    int number;

    if (argc != 2) {
        fprintf(stderr, "usage: fake_daemon NAME\n");
        return 2;
    }
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    fixture = fixture_start(argv[1], true);
    if (fixture == NULL)
        return 1;
    sigwait(&set, &number);
    fixture_stop(fixture);
    return 0;
}
