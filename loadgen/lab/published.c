#include "loadgen/lab/published.h"

#include "common/macros.h"

#include <string.h>

static const struct published all[] = {
#define PUBLISHED(experiment, setting, figure) {#experiment, setting, figure},
#include "loadgen/lab/published.def"
#undef PUBLISHED
};

const struct published *published_next(const char *experiment, const struct published *after)
{
    for (const struct published *at = after != NULL ? after + 1 : all; at < all + ARRAY_LENGTH(all);
         at++)
        if (strcmp(at->experiment, experiment) == 0)
            return at;
    return NULL;
}
