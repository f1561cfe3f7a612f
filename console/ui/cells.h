/* Filling cells of a list: the text for people and the number to sort and compare by. Pure. */
#ifndef CONSOLE_CELLS_H
#define CONSOLE_CELLS_H

#include "common/macros.h"
#include "console/ui/table.h"

#include <stdint.h>

void cell_text(struct cell *cell, enum tone tone, const char *text);
void cell_print(struct cell *cell, enum tone tone, const char *format, ...) PRINTF_LIKE(3, 4);

/* These set the number as well; NAN becomes "-". */
void cell_count(struct cell *cell, enum tone tone, double count);
void cell_rate(struct cell *cell, enum tone tone, double per_s);
void cell_exact(struct cell *cell, enum tone tone, uint64_t count); /* every digit */
void cell_bytes(struct cell *cell, enum tone tone, double bytes);
void cell_latency(struct cell *cell, enum tone tone, double ns);
void cell_percent(struct cell *cell, enum tone tone, double ratio);
void cell_age(struct cell *cell, enum tone tone, uint64_t ns);
void cell_clock(struct cell *cell, enum tone tone, uint64_t wall_ns);

/* How a status is coloured: good, noted, warned of, bad. */
enum tone status_tone(int status);

#endif
