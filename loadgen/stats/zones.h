/*
 * What the throughput over a rising number of connections looks like: first it grows with them
 * (linear), from the knee on more of them only wait (plateau), and in the end there are so many that
 * less gets done (overload). Pure.
 */
#ifndef LOADGEN_ZONES_H
#define LOADGEN_ZONES_H

#include <stdbool.h>
#include <stddef.h>

enum zone { ZONE_UNKNOWN, ZONE_LINEAR, ZONE_PLATEAU, ZONE_OVERLOAD };
extern const char *const zone_names[];

struct zone_point {
    double n;      /* connections; rising */
    double x;      /* answers a second */
    double errors; /* percent */
    double high;   /* x is hardly more than that; NAN: not known */
};

struct zones {
    size_t best;  /* the point with the greatest throughput */
    bool reached; /* the plateau was: else all is linear, and more connections would do more */
    /*
     * Connections at which the line from 0 through the first point meets the greatest throughput: the
     * saturation point of operational analysis (Denning and Buzen 1978), where the shortest time of a
     * request times the greatest throughput are so many under way. NAN unless reached.
     */
    double knee;
};

/* From this part of the greatest throughput on, it is the plateau; errors beyond it are overload. */
#define ZONES_PLATEAU 0.9
#define ZONES_ERRORS  1.0 /* percent */

/* Finds the zones of COUNT points, at least one; OF gets each point's. */
struct zones zones_find(const struct zone_point *points, size_t count, enum zone *of);

#endif
