#include "loadgen/engine/virtual_user.h"

#include "loadgen/engine/extraction.h"
#include "loadgen/plan/request_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BODY_BYTES_MIN = 4096 };

struct virtual_user *virtual_user_create(const struct request_plan *request_plan,
                                         struct scenario_tally *tally)
{
    struct virtual_user *user = calloc(1, sizeof(*user));

    if (user == NULL)
        return NULL;
    user->request_plan = request_plan;
    user->tally = tally;
    return user;
}

static void drop_values(struct virtual_user *user)
{
    for (size_t i = 0; i < SCENARIO_VARIABLES_MAX; i++) {
        free(user->values[i]);
        user->values[i] = NULL;
    }
}

static void drop_body(struct virtual_user *user)
{
    free(user->body);
    user->body = NULL;
    user->body_length = user->body_capacity = 0;
    user->body_is_long = false;
}

void virtual_user_free(struct virtual_user *user)
{
    if (user == NULL)
        return;
    drop_values(user);
    drop_body(user);
    request_plan_release(user->request_plan, &user->made[0]);
    request_plan_release(user->request_plan, &user->made[1]);
    free(user);
}

static const struct scenario_step *step_of(const struct virtual_user *user)
{
    return &user->scenario->steps[user->step];
}

static struct scenario_row *scenario_row_of(const struct virtual_user *user)
{
    return &user->tally->row[user->scenario->report_row];
}

static struct scenario_row *step_row_of(const struct virtual_user *user)
{
    return scenario_row_of(user) + 1 + user->step;
}

void virtual_user_start(struct virtual_user *user, const struct scenario_start *start,
                        uint64_t due_ns, bool counted)
{
    drop_values(user);
    user->scenario = &user->request_plan->scenarios.scenarios[start->scenario];
    user->table_row = start->table_row;
    user->step = 0;
    user->begun_ns = due_ns;
    user->counted = counted;
    scenario_row_of(user)->begun += counted ? 1 : 0;
}

void virtual_user_begin_step(struct virtual_user *user, bool counted)
{
    user->step_counted = counted;
    step_row_of(user)->begun += counted ? 1 : 0;
}

/* ---- Requests ---- */

static const char *find_user_value(void *context, const char *name, size_t length)
{
    struct virtual_user *user = context;
    const struct csv_file *table = &user->request_plan->scenarios.table;
    int number =
        scenario_find_variable(user->scenario, user->scenario->variable_count, name, length);
    const char *value = number >= 0       ? user->values[number]
                        : table->rows > 0 ? csv_file_find(table, user->table_row, name, length)
                                          : NULL;

    if (value == NULL)
        snprintf(user->why, sizeof(user->why), "no value for {{%.*s}}", (int)length, name);
    return value;
}

const struct request *virtual_user_request(struct virtual_user *user)
{
    const struct template_variables variables = {find_user_value, user};
    const struct scenario_step *step = step_of(user);
    struct request *made;

    drop_body(user);
    user->taken = 0;
    user->bad = false;
    user->why[0] = '\0';
    if (step->request_number >= 0)
        return &user->request_plan->requests[step->request_number];
    made = &user->made[1 - user->last];
    request_plan_release(user->request_plan, made);
    if (scenario_request_make(user->request_plan, step, &variables, made, user->why,
                              sizeof(user->why)) == 0) {
        user->last = 1 - user->last;
        return made;
    }
    request_plan_release(user->request_plan, made);
    return NULL;
}

/* ---- Responses ---- */

/* Sets the value of TAKE, or keeps WHY. Takes VALUE over. */
static void set_value(struct virtual_user *user, const struct scenario_take *take, char *value,
                      const char *why)
{
    user->taken |= UINT32_C(1) << take->variable;
    free(user->values[take->variable]);
    user->values[take->variable] = value;
    if (value != NULL || user->bad)
        return;
    user->bad = true;
    snprintf(user->why, sizeof(user->why), "no value for '%s': %s",
             user->scenario->variables[take->variable], why);
}

static bool is_taken(const struct virtual_user *user, const struct scenario_take *take)
{
    return (user->taken & UINT32_C(1) << take->variable) != 0;
}

void virtual_user_see_field(struct virtual_user *user, struct span name, struct span value)
{
    const struct scenario_step *step = step_of(user);
    char why[VIRTUAL_USER_WHY / 2] = "";

    for (size_t i = 0; i < step->take_count; i++) {
        const struct scenario_take *take = &step->takes[i];
        struct span found;

        if (!is_taken(user, take) && extraction_from_field(take, name, value, &found))
            set_value(user, take, extraction_value(take, found, why, sizeof(why)), why);
    }
}

static bool make_room(struct virtual_user *user, size_t length)
{
    size_t capacity = user->body_capacity > 0 ? user->body_capacity : BODY_BYTES_MIN;
    char *grown;

    if (user->body_length + length <= user->body_capacity)
        return true;
    while (capacity < user->body_length + length)
        capacity *= 2;
    grown = realloc(user->body, capacity);
    if (grown == NULL)
        return false;
    user->body = grown;
    user->body_capacity = capacity;
    return true;
}

void virtual_user_see_body(struct virtual_user *user, const char *bytes, size_t length)
{
    if (length == 0 || user->body_is_long || !scenario_step_takes_body(step_of(user)))
        return;
    if (length > SCENARIO_BODY_MAX - user->body_length || !make_room(user, length)) {
        drop_body(user);
        user->body_is_long = true;
        return;
    }
    memcpy(user->body + user->body_length, bytes, length);
    user->body_length += length;
}

static void take_from_body(struct virtual_user *user, const struct scenario_take *take)
{
    char why[VIRTUAL_USER_WHY / 2] = "";

    if (user->body_is_long)
        set_value(user, take, NULL, "the body is longer than 1 MiB");
    else
        set_value(user, take,
                  extraction_from_body(take, (struct span){user->body, user->body_length}, why,
                                       sizeof(why)),
                  why);
}

static bool take_values(struct virtual_user *user)
{
    const struct scenario_step *step = step_of(user);
    char why[VIRTUAL_USER_WHY / 2];

    for (size_t i = 0; i < step->take_count; i++) {
        const struct scenario_take *take = &step->takes[i];

        if (take->source == SCENARIO_JSON || take->source == SCENARIO_BODY) {
            take_from_body(user, take);
        } else if (!is_taken(user, take)) {
            snprintf(why, sizeof(why), "no %s '%.60s' in the response",
                     take->source == SCENARIO_FIELD ? "header field" : "cookie", take->key);
            set_value(user, take, NULL, why);
        }
    }
    drop_body(user);
    return !user->bad;
}

/* ---- The end of a step ---- */

void virtual_user_leave(struct virtual_user *user)
{
    scenario_row_of(user)->open += user->counted ? 1 : 0;
    user->scenario = NULL;
}

static void end_scenario(struct virtual_user *user, bool good, uint64_t now_ns)
{
    struct scenario_row *row = scenario_row_of(user);

    if (user->counted) {
        row->good += good ? 1 : 0;
        row->failed += good ? 0 : 1;
        if (good)
            histogram_record(&row->times, now_ns - user->begun_ns);
    }
    user->scenario = NULL;
}

const struct scenario_step *virtual_user_end_step(struct virtual_user *user,
                                                  struct transaction *transaction, uint64_t now_ns)
{
    const struct scenario_step *step = step_of(user);
    bool good;

    if (step->expect.status_count > 0)
        transaction->bad_status = !plan_accepts_status(&step->expect, transaction->status);
    good = transaction->error == ERROR_KIND_NONE && !transaction->bad_status;
    transaction->bad_extraction = good && !take_values(user);
    good = good && !transaction->bad_extraction;
    if (user->step_counted)
        scenario_tally_record_step(step_row_of(user), transaction, user->why);
    if (!good)
        end_scenario(user, false, now_ns);
    else if (++user->step == user->scenario->step_count)
        end_scenario(user, true, now_ns);
    return step;
}

void virtual_user_fail_step(struct virtual_user *user)
{
    const struct transaction transaction = {.error = ERROR_KIND_OTHER, .bad_extraction = true};

    if (user->step_counted)
        scenario_tally_record_step(step_row_of(user), &transaction, user->why);
    end_scenario(user, false, 0);
}

void virtual_user_abort_step(struct virtual_user *user)
{
    step_row_of(user)->open += user->step_counted ? 1 : 0;
}
