/* A list of the instances that run, to choose one from, before the console begins or in place of
 * the one that it shows. The console's only thread. */
#ifndef CONSOLE_CHOOSER_H
#define CONSOLE_CHOOSER_H

#include "console/app/options.h"

enum chooser_result { CHOOSER_CHOSEN, CHOOSER_LEFT, CHOOSER_FAILED };

/*
 * Sets the name in OPTIONS, unless one was given: to the only instance that runs, or to the one
 * that the user chooses. Where none runs, the name stays. CHOOSER_FAILED after a sentence in WHY.
 */
enum chooser_result chooser_run(struct options *options, char *why, size_t size);

/* The same when a name is set already: it is replaced, or stays when the user wants no other. Only a
 * signal or the loss of the terminal is CHOOSER_LEFT then. */
enum chooser_result chooser_run_again(struct options *options, char *why, size_t size);

#endif
