/*
 * A virtual user runs one scenario at a time on its slot, with values of its own: at most
 * SCENARIO_VARIABLES_MAX of SCENARIO_VALUE_MAX bytes, and SCENARIO_BODY_MAX bytes of the response
 * in flight. The driver decides when. One thread at a time.
 */
#ifndef LOADGEN_VIRTUAL_USER_H
#define LOADGEN_VIRTUAL_USER_H

#include "common/span.h"

#include "loadgen/plan/request_plan.h"
#include "loadgen/stats/tally.h"

enum { VIRTUAL_USER_WHY = SCENARIO_TALLY_TEXT };

struct virtual_user {
    const struct request_plan *request_plan;
    const struct scenario *scenario; /* the one that it runs; NULL: none */
    char why[VIRTUAL_USER_WHY];      /* the last failure */

    /* Private. */
    struct scenario_tally *tally;
    size_t step; /* the current or next one of the scenario */
    size_t table_row;
    bool counted;      /* the scenario is not part of the warm-up */
    bool step_counted; /* nor is the step */
    uint64_t begun_ns; /* when the scenario was due */
    char *values[SCENARIO_VARIABLES_MAX];
    uint32_t taken; /* the takes of the step that have their value: a bit for each variable */
    bool bad;       /* one of them failed; see why */
    char *body;
    size_t body_length, body_capacity;
    bool body_is_long;
    struct request made[2]; /* the engine may look at the request before */
    unsigned last;          /* the last one of made that was sent */
};

/* REQUEST_PLAN and TALLY must outlive the user. Returns NULL if out of memory. */
struct virtual_user *virtual_user_create(const struct request_plan *request_plan,
                                         struct scenario_tally *tally);
void virtual_user_free(struct virtual_user *user);

/* Starts a scenario, due at DUE_NS, without any values. COUNTED: it is not part of the warm-up. */
void virtual_user_start(struct virtual_user *user, const struct scenario_start *start,
                        uint64_t due_ns, bool counted);

/*
 * The request of the step, valid until the one after the next; NULL with user->why: a value makes
 * it invalid. What the last response had is forgotten.
 */
const struct request *virtual_user_request(struct virtual_user *user);

/* The request of the step begins. COUNTED: it is not part of the warm-up. */
void virtual_user_begin_step(struct virtual_user *user, bool counted);

/* A header field and a part of the body of the response. */
void virtual_user_see_field(struct virtual_user *user, struct span name, struct span value);
void virtual_user_see_body(struct virtual_user *user, const char *bytes, size_t length);

/*
 * The request of the step ended: takes the values from a good response, and sets bad_status and
 * bad_extraction of *transaction. The scenario ends if the step failed or was its last one. Returns
 * the step.
 */
const struct scenario_step *virtual_user_end_step(struct virtual_user *user,
                                                  struct transaction *transaction, uint64_t now_ns);

/* The request of the step, which has begun, could not be made: the scenario fails. */
void virtual_user_fail_step(struct virtual_user *user);

/* The request of the step gets no response before the end of the run. */
void virtual_user_abort_step(struct virtual_user *user);

/* Ends the scenario before its last step: the run ends. */
void virtual_user_leave(struct virtual_user *user);

#endif
