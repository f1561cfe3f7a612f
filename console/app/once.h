/* One shot for scripts: two samples a short while apart, printed, and done. */
#ifndef CONSOLE_ONCE_H
#define CONSOLE_ONCE_H

#include "console/app/options.h"

/* Prints what OPTIONS asks for. Returns the exit status: 0 done, 1 failed, 3 no daemon. */
int once_run(const struct options *options);

#endif
