/* Labels of a plot's axis, for struct plot_axis: each writes VALUE into PLOT_LABEL bytes. Pure. */
#ifndef LOADGEN_PLOT_AXES_H
#define LOADGEN_PLOT_AXES_H

void axis_count(char *label, double value);
void axis_rate(char *label, double value);      /* a second */
void axis_seconds(char *label, double value);   /* VALUE in seconds */
void axis_time(char *label, double value);      /* VALUE in ns, with the unit that fits */
void axis_mebibytes(char *label, double value); /* VALUE in MiB */
void axis_percent(char *label, double value);

#endif
