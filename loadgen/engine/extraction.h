/* Takes values from responses, for scenarios. Pure; any thread. */
#ifndef LOADGEN_EXTRACTION_H
#define LOADGEN_EXTRACTION_H

#include "common/span.h"

#include "loadgen/plan/scenario.h"

/*
 * Whether the header field NAME: VALUE has what TAKE, of a field or a cookie, takes; *found is then
 * in VALUE.
 */
bool extraction_from_field(const struct scenario_take *take, struct span name, struct span value,
                           struct span *found);

/* The value in FOUND or, of a body, in the whole BODY; to be freed. NULL with WHY. */
char *extraction_value(const struct scenario_take *take, struct span found, char *why, size_t size);
char *extraction_from_body(const struct scenario_take *take, struct span body, char *why,
                           size_t size);

#endif
