/* A plot as characters, for a terminal of 80 columns. Pure, but for the FILE. */
#ifndef LOADGEN_PLOT_TEXT_H
#define LOADGEN_PLOT_TEXT_H

#include "loadgen/report/plot.h"

/* Title, picture and legend. Nothing where no line has a point. */
void plot_write_text(FILE *out, const struct plot *plot);

#endif
