/* The few numbers of a run that are compared with those of others. Pure. */
#ifndef LOADGEN_MEASURES_H
#define LOADGEN_MEASURES_H

#include "loadgen/stats/result.h"

enum measure {
#define MEASURE(id, name, label, unit) MEASURE_##id,
#include "loadgen/report/measures.def"
#undef MEASURE
    MEASURE_COUNT
};

enum measure_unit {
    MEASURE_OF_COUNT,
    MEASURE_OF_TIME, /* microseconds */
    MEASURE_OF_PERCENT,
    MEASURE_OF_CORES, /* processor seconds a second */
};

extern const struct measure_info {
    const char *name, *label;
    enum measure_unit unit;
} measure_table[MEASURE_COUNT];

/* NAN: not known, such as the p99.9 of ten answers. */
struct measures {
    double value[MEASURE_COUNT];
};

void measures_take(struct measures *measures, const struct result *result);

/* "12,345", "1.20 ms", "3.1%", "1.52", or "-". Returns BUFFER, of MEASURE_TEXT bytes. */
enum { MEASURE_TEXT = 32 };
char *measure_format(char *buffer, enum measure measure, double value);

#endif
