/* Figures that others have published: published.def as a table. Pure. */
#ifndef LOADGEN_LAB_PUBLISHED_H
#define LOADGEN_LAB_PUBLISHED_H

#include <stddef.h>

struct published {
    const char *experiment, *setting, *figure;
};

/* The figure behind AFTER (NULL: the first) of that experiment, or NULL when there are no more. */
const struct published *published_next(const char *experiment, const struct published *after);

#endif
