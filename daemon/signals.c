#include "daemon/signals.h"

#include "common/macros.h"

#include <signal.h>

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

void signals_ignore_in_child(void)
{
    static const int numbers[] = {SIGPIPE, SIGHUP, SIGUSR1, SIGUSR2, SIGINT, SIGTERM, SIGQUIT};

    ignore(numbers, ARRAY_LENGTH(numbers));
}
