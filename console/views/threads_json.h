/* Workers and threads with all that is known of them, for scripts. The console's only thread. */
#ifndef CONSOLE_THREADS_JSON_H
#define CONSOLE_THREADS_JSON_H

#include "console/scene/scene.h"

#include <jansson.h>

/* {"workers": [...]}; the caller owns the reference. STATE is not looked at. */
json_t *threads_json(void *state, const struct scene *scene);

/* What a worker does: enum segment_worker_state in a word. */
const char *worker_state_name(uint32_t state);

#endif
