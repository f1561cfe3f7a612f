/*
 * Readers of the members of a JSON report. Each checks its member: an error is kept with the member's full name,
 * "FILE: requests.begun is missing", and only the first. The value is then 0 or "". Main thread.
 */
#ifndef LOADGEN_REPORT_PART_H
#define LOADGEN_REPORT_PART_H

#include "common/histogram.h"
#include "common/macros.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { REPORT_PLACE = 128 };

struct report_reader {
    const char *file;
    char *why;
    size_t size;
    bool failed;
};

/* An object of the report; PLACE is what its members' names begin with: "", "requests.", "seconds[3].", ... */
struct report_part {
    struct report_reader *reader;
    const json_t *object;
    char place[REPORT_PLACE];
};

/* Keeps the first error. */
PRINTF_LIKE(3, 4)
void part_fail(const struct report_part *part, const char *name, const char *format, ...);

/* The object NAME; the array NAME, and the object I in it. */
struct report_part part_of(const struct report_part *part, const char *name);
const json_t *part_array(const struct report_part *part, const char *name);
struct report_part part_item(const struct report_part *part, const char *name, const json_t *array,
                             size_t i);

/* An integer from 0 to MAX; a count; a number of connections, threads and the like. */
uint64_t part_up_to(const struct report_part *part, const char *name, uint64_t max);
uint64_t part_count(const struct report_part *part, const char *name);
uint32_t part_small(const struct report_part *part, const char *name);

/* A number of 0 or more; a time of UNIT_NS, in ns. */
double part_number(const struct report_part *part, const char *name);
uint64_t part_time(const struct report_part *part, const char *name, double unit_ns);

bool part_is_null(const struct report_part *part, const char *name);
bool part_switch(const struct report_part *part, const char *name);

/* Valid as long as the report. */
const char *part_text(const struct report_part *part, const char *name);

/* The place of a text in NAMES. */
size_t part_choice(const struct report_part *part, const char *name, const char *const *names,
                   size_t count);

/* Adds the distribution NAME to TIMES, which is empty. */
void part_times(const struct report_part *part, const char *name, struct histogram *times);

#endif
