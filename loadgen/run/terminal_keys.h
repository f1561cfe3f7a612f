/*
 * Single keys from a terminal, without echo, while a run goes on. The terminal is given back as it
 * was, also when the program is ended by a signal that it does not handle. Main thread; one at a time.
 */
#ifndef LOADGEN_TERMINAL_KEYS_H
#define LOADGEN_TERMINAL_KEYS_H

#include <stdbool.h>

/* Returns whether standard input is a terminal of ours and gives keys now. */
bool terminal_keys_begin(void);

/* Gives the terminal back; may be called without a begin. */
void terminal_keys_end(void);

#endif
