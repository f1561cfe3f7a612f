/*
 * The measures of a scenario: a sliding window of samples over the last LAB_WINDOW_S seconds, taken
 * four times per second. Pure: the samples carry the time.
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
    uint64_t failed; /* at the clients */
};

struct lab_window {
    struct lab_sample sample[LAB_SAMPLES]; /* ring buffer */
    uint64_t taken;
    struct lab_sample base; /* when the step began */
};

/* Adds a sample from MODEL if the last one is old enough. */
void lab_window_take(struct lab_window *window, const struct model *model, uint64_t failed);

/* Drops all samples. */
void lab_window_restart(struct lab_window *window);

/* Measures of kind GROWTH and FAILED count from the last sample. */
void lab_window_rebase(struct lab_window *window);

/* True if the samples span LAB_WINDOW_S. */
bool lab_window_full(const struct lab_window *window);

/* NAN: unknown. */
void lab_window_values(const struct lab_window *window, double values[LAB_MEASURE_COUNT]);

const char *lab_measure_label(enum lab_measure measure);

/* Formats VALUE into BUFFER (TEXT_SHORT bytes). Returns BUFFER. */
char *lab_measure_text(enum lab_measure measure, double value, char *buffer);

#endif
