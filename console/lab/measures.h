/*
 * The last seconds of a server as a few numbers. A window takes samples some times a second and keeps
 * those of the last LAB_WINDOW_S seconds. Pure: time comes in with the samples.
 */
#ifndef CONSOLE_LAB_MEASURES_H
#define CONSOLE_LAB_MEASURES_H

#include "console/data/model.h"

#include <stdbool.h>
#include <stdint.h>

enum { LAB_WINDOW_S = 2, LAB_SAMPLES = 4 * LAB_WINDOW_S + 1 };

enum lab_measure {
    LAB_MEASURE_NONE,
#define MEASURE(name, label, kind, unit, metric, other) LAB_MEASURE_##name,
#include "console/lab/measures.def"
#undef MEASURE
    LAB_MEASURE_COUNT
};

struct lab_sample {
    uint64_t time_ns; /* monotonic clock */
    uint64_t sums[METRIC_COUNT];
    double p50_ns, p99_ns;
    uint64_t failed; /* by the clients */
};

struct lab_window {
    struct lab_sample sample[LAB_SAMPLES]; /* a ring */
    uint64_t taken;
    struct lab_sample base; /* when the step began */
};

/* Takes what MODEL has, if the last sample is old enough. */
void lab_window_take(struct lab_window *window, const struct model *model, uint64_t failed);

/* Forgets the samples: what is measured from now on is not what was before. */
void lab_window_restart(struct lab_window *window);

/* What has grown is counted from the last sample on. */
void lab_window_rebase(struct lab_window *window);

/* True when the samples reach back LAB_WINDOW_S. */
bool lab_window_full(const struct lab_window *window);

/* All measures of the window; NAN: not known. */
void lab_window_values(const struct lab_window *window, double values[LAB_MEASURE_COUNT]);

const char *lab_measure_label(enum lab_measure measure);

/* VALUE as text into BUFFER (TEXT_SHORT bytes), which is returned. */
char *lab_measure_text(enum lab_measure measure, double value, char *buffer);

#endif
