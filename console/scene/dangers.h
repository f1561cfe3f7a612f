/* Which commands hurt, from console/scene/dangers.def. The console's only thread. */
#ifndef CONSOLE_DANGERS_H
#define CONSOLE_DANGERS_H

#include "console/data/watch.h"

#include <stdbool.h>
#include <stddef.h>

/* Writes what is to be asked back before WORDS are sent; false when nothing is. */
bool danger_question(const char *const *words, int count, const struct watch *watch, char *buffer,
                     size_t size);

#endif
