#include "loadgen/plan/scenario_request.h"

#include "loadgen/plan/message.h"

#include <stdio.h>

/* Returns 0, or -1 with WHY. */
static int add_step(struct request_plan *request_plan, struct scenario_step *step, char *why,
                    size_t size)
{
    const struct request_template *template = &step->request;
    const struct request_parts parts = {
        .method = template->method,
        .url = template->is_path ? NULL : template->url,
        .path = template->is_path ? template->url : NULL,
        .fields = template->fields,
        .body = template->body,
        .body_length = template->body_length,
    };
    char reason[256];

    if (step->number < 0)
        return 0;
    step->number = request_plan_add_request(request_plan, &parts, reason, sizeof(reason));
    if (step->number >= 0)
        return 0;
    snprintf(why, size, "%s:%u: %s", request_plan->plan->scenario_file, step->line, reason);
    return -1;
}

int scenario_requests_add(struct request_plan *request_plan, char *why, size_t size)
{
    const struct scenario_set *set = &request_plan->scenarios;

    for (size_t i = 0; i < set->count; i++)
        for (size_t k = 0; k < set->scenarios[i].step_count; k++) {
            struct scenario_step *step = &set->scenarios[i].steps[k];

            if (add_step(request_plan, step, why, size) != 0)
                return -1;
            if (!request_plan->plan->gzip || !scenario_step_takes_body(step))
                continue;
            snprintf(why, size,
                     "%s:%u: --gzip conflicts with a value from the body: bodies are not "
                     "decompressed",
                     request_plan->plan->scenario_file, step->line);
            return -1;
        }
    return 0;
}

int scenario_request_make(const struct request_plan *request_plan, const struct scenario_step *step,
                          const struct template_variables *variables, struct request *request,
                          char *why, size_t size)
{
    struct template_request made;
    bool good = template_make_request(request_plan->plan, &step->request, variables, &made, why,
                                      size) == TEMPLATE_DONE;
    bool is_path = made.url != NULL && made.url[0] == '/';
    const struct request_parts parts = {
        .method = step->request.method,
        .url = is_path ? NULL : made.url,
        .path = is_path ? made.url : NULL,
        .fields = made.fields,
        .body = made.body,
        .body_length = made.body_length,
    };

    good = good && request_plan_build(request_plan, &parts, request, why, size) == 0;
    template_request_free(&made);
    if (good && !message_make(request_plan->plan, request)) {
        snprintf(why, size, "out of memory");
        good = false;
    }
    return good ? 0 : -1;
}
