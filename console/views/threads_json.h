/* The view threads as JSON: all metrics of workers and threads. */
#ifndef CONSOLE_VIEWS_THREADS_JSON_H
#define CONSOLE_VIEWS_THREADS_JSON_H

#include "console/scene/scene.h"

#include <jansson.h>

json_t *threads_json(const struct scene *scene);

#endif
