/* Printing a configuration. */
#ifndef DAEMON_CONFIG_PRINT_H
#define DAEMON_CONFIG_PRINT_H

#include "daemon/config/config.h"

#include <stdio.h>

/*
 * Prints CONFIG as a file that config_load() reads back to the same values, with the help of each
 * key. Exception: a value with more than about 190 bytes without a blank does not fit a line.
 */
void config_print(const struct config *config, FILE *out);

#endif
