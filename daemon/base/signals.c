#include "daemon/base/signals.h"

#include "common/macros.h"

#include <signal.h>

const int signals_handled[SIGNALS_HANDLED] = {SIGTERM, SIGINT,  SIGQUIT, SIGCHLD,
                                              SIGHUP,  SIGUSR1, SIGUSR2};

static void ignore(const int *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        signal(numbers[i], SIG_IGN);
}

void signals_ignore_in_master(void)
{
    static const int numbers[] = {SIGPIPE};

    ignore(numbers, ARRAY_LENGTH(numbers));
}

static void mask(int how)
{
    sigset_t signals;

    sigemptyset(&signals);
    for (size_t i = 0; i < ARRAY_LENGTH(signals_handled); i++)
        sigaddset(&signals, signals_handled[i]);
    sigprocmask(how, &signals, NULL);
}

void signals_block(void)
{
    mask(SIG_BLOCK);
}

void signals_unblock(void)
{
    mask(SIG_UNBLOCK);
}

void signals_ignore_in_child(void)
{
    static const int numbers[] = {SIGPIPE, SIGHUP, SIGUSR1, SIGUSR2, SIGINT, SIGTERM, SIGQUIT};

    ignore(numbers, ARRAY_LENGTH(numbers));
}
