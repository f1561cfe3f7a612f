#include "loadgen/stats/zones.h"

#include <math.h>

const char *const zone_names[] = {[ZONE_UNKNOWN] = "-",
                                  [ZONE_LINEAR] = "linear",
                                  [ZONE_PLATEAU] = "plateau",
                                  [ZONE_OVERLOAD] = "overload"};

static size_t find_best(const struct zone_point *points, size_t count)
{
    size_t best = 0;

    for (size_t i = 1; i < count; i++)
        if (points[i].x > points[best].x)
            best = i;
    return best;
}

/* Answers to some while others fail are no plateau. */
static bool is_on_plateau(const struct zone_point *point, double most)
{
    return point->x >= ZONES_PLATEAU * most && point->errors <= ZONES_ERRORS;
}

/* Behind the best, less is overload only where that is no chance. */
static bool may_be_on_plateau(const struct zone_point *point, double most)
{
    return is_on_plateau(point, most) ||
           (point->high >= ZONES_PLATEAU * most && point->errors <= ZONES_ERRORS);
}

/* First and last point of the plateau; the best one belongs to it whatever happens there. */
static void find_plateau(const struct zone_point *points, size_t count, size_t best, size_t *first,
                         size_t *last)
{
    *first = *last = best;
    for (size_t i = 0; i < count; i++) {
        if (!(i < best ? is_on_plateau : may_be_on_plateau)(&points[i], points[best].x))
            continue;
        *first = i < *first ? i : *first;
        *last = i > *last ? i : *last;
    }
}

struct zones zones_find(const struct zone_point *points, size_t count, enum zone *of)
{
    struct zones zones = {.best = find_best(points, count), .knee = NAN};
    double most = points[zones.best].x;
    size_t first, last;

    find_plateau(points, count, zones.best, &first, &last);
    zones.reached = count > 1 && most > 0 && (last > first || last + 1 < count);
    for (size_t i = 0; i < count; i++)
        of[i] = !zones.reached || i < first ? ZONE_LINEAR
                : i <= last                 ? ZONE_PLATEAU
                                            : ZONE_OVERLOAD;
    if (zones.reached && points[0].x > 0)
        zones.knee = points[0].n * most / points[0].x;
    return zones;
}
