/* The requests of scenarios: those without variables are made before the run, the others for each sending. */
#ifndef LOADGEN_SCENARIO_REQUEST_H
#define LOADGEN_SCENARIO_REQUEST_H

#include "loadgen/plan/request_plan.h"

/* Adds the requests of all steps without variables to the plan. Returns 0, or -1 with WHY. Main thread. */
int scenario_requests_add(struct request_plan *request_plan, char *why, size_t size);

/*
 * Makes the request of STEP, which has variables. *request is all zero; release it with request_plan_release() in
 * any case. Returns 0, or -1 with WHY. Any thread.
 */
int scenario_request_make(const struct request_plan *request_plan, const struct scenario_step *step,
                          const struct template_variables *variables, struct request *request,
                          char *why, size_t size);

#endif
