#include "loadgen/plan/scenario.h"

#include "common/macros.h"
#include "common/units.h"

#include "loadgen/plan/input.h"
#include "loadgen/plan/internal.h"
#include "loadgen/plan/message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

int scenario_find_variable(const struct scenario *scenario, size_t count, const char *name,
                           size_t length)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(scenario->variables[i]) == length &&
            memcmp(scenario->variables[i], name, length) == 0)
            return (int)i;
    return -1;
}

bool scenario_step_takes_body(const struct scenario_step *step)
{
    for (size_t i = 0; i < step->take_count; i++)
        if (step->takes[i].source == SCENARIO_JSON || step->takes[i].source == SCENARIO_BODY)
            return true;
    return false;
}

/*
 * Each scenario gains its weight; the one with the most is next and loses the sum of the weights.
 */
static uint16_t take_next(const struct scenario_set *set, int64_t *credit, int64_t total)
{
    size_t best = 0;

    for (size_t i = 0; i < set->count; i++) {
        credit[i] += set->scenarios[i].weight;
        if (credit[i] > credit[best])
            best = i;
    }
    credit[best] -= total;
    return (uint16_t)best;
}

/*
 * Sets the order: smooth weighted round robin, as in nginx. Each pass over the order has each
 * scenario as often as its weight says, evenly spread. Also numbers the rows. Returns false if out
 * of memory.
 */
static bool scenario_set_make_order(struct scenario_set *set)
{
    int64_t credit[SCENARIO_SCENARIOS_MAX] = {0};
    size_t total = 0;

    set->row_count = 0;
    for (size_t i = 0; i < set->count; i++) {
        total += set->scenarios[i].weight;
        set->scenarios[i].report_row = set->row_count;
        set->row_count += 1 + set->scenarios[i].step_count;
    }
    set->order = calloc(total + 1, sizeof(*set->order));
    set->order_length = total;
    for (size_t i = 0; set->order != NULL && i < total; i++)
        set->order[i] = take_next(set, credit, (int64_t)total);
    return set->order != NULL;
}

static void free_step(struct scenario_step *step)
{
    for (size_t i = 0; i < step->take_count; i++) {
        free(step->takes[i].key);
        free(step->takes[i].before);
        free(step->takes[i].after);
        if (step->takes[i].expression != NULL)
            regfree(&step->takes[i].matcher);
        free(step->takes[i].expression);
    }
    free(step->takes);
    free(step->name);
    request_template_free(&step->request);
}

void scenario_set_free(struct scenario_set *set)
{
    for (size_t i = 0; i < set->count; i++) {
        struct scenario *scenario = &set->scenarios[i];

        for (size_t k = 0; k < scenario->step_count; k++)
            free_step(&scenario->steps[k]);
        for (size_t k = 0; k < scenario->variable_count; k++)
            free(scenario->variables[k]);
        free(scenario->steps);
        free(scenario->name);
    }
    free(set->scenarios);
    free(set->order);
    csv_file_free(&set->table);
    *set = (struct scenario_set){0};
}

/* ---- The file ---- */

/* The reader of a file. Functions that return int return 0, or -1 with WHY. */
struct scenario_reader {
    struct scenario_set *set;
    const struct plan *plan;
    struct scenario *scenario;  /* the last one; NULL: none yet */
    struct scenario_step *step; /* its last step; NULL: none yet */
    size_t known;               /* variables that the step may use: those of the steps before */
    size_t all_steps;
    const char *file;
    uint32_t line;
    char *why;
    size_t size;
};

static struct input_place scenario_place(const struct scenario_reader *reader)
{
    return (struct input_place){reader->file, reader->line, reader->why, reader->size};
}

static int fail_memory(const struct scenario_reader *reader)
{
    return input_fail(scenario_place(reader), "out of memory");
}

/* ---- Words ---- */

/* Cuts the next word off *text, which is then behind it and the blanks; "" at the end. */
static char *take_word(char **text)
{
    char *word = *text, *end = word + strcspn(word, " \t");

    *text = end + strspn(end, " \t");
    *end = '\0';
    return word;
}

/* Cuts a string in quotes off *text, and replaces \" \\ \n \t in place; NULL: it is not one. */
static char *take_quoted(char **text)
{
    char *at = *text, *to = at, *begun = at;

    if (*at++ != '"')
        return NULL;
    for (; *at != '"'; at++) {
        if (*at == '\\' && at[1] != '\0')
            at++, *to++ = *at == 'n' ? '\n' : *at == 't' ? '\t' : *at;
        else if (*at != '\0')
            *to++ = *at;
        else
            return NULL;
    }
    *text = at + 1 + strspn(at + 1, " \t");
    *to = '\0';
    return begun;
}

/* The same for a regular expression: only \\" is replaced. */
static char *take_expression(char **text)
{
    char *at = *text, *to = at, *begun = at;

    if (*at++ != '"')
        return NULL;
    for (; *at != '"'; at++) {
        if (*at == '\\' && at[1] == '"')
            at++;
        else if (*at == '\\' && at[1] != '\0')
            *to++ = *at++;
        if (*at == '\0')
            return NULL;
        *to++ = *at;
    }
    *text = at + 1 + strspn(at + 1, " \t");
    *to = '\0';
    return begun;
}

/* A name of a scenario or variable. */
static bool is_name(const char *word)
{
    static const char characters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.";

    return word[0] != '\0' && word[strspn(word, characters)] == '\0' &&
           strlen(word) <= SCENARIO_NAME_MAX;
}

static bool is_upper_case(const char *word)
{
    return word[0] != '\0' && word[strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-")] == '\0';
}

static bool is_url(const char *word)
{
    return word[0] == '/' || strncmp(word, "{{", 2) == 0 || strncmp(word, "http://", 7) == 0 ||
           strncmp(word, "https://", 8) == 0;
}

/*
 * Returns ARRAY with room for one element more of SIZE bytes, which is zero; NULL if out of memory.
 */
static void *grow_by_one(void *array, size_t count, size_t size)
{
    char *grown = realloc(array, (count + 1) * size);

    if (grown != NULL)
        memset(grown + count * size, 0, size);
    return grown;
}

/* ---- The variables of a step ---- */

static const char *check_variable(void *context, const char *name, size_t length)
{
    const struct scenario_reader *reader = context;
    const struct csv_file *table = &reader->set->table;

    if (scenario_find_variable(reader->scenario, reader->known, name, length) >= 0 ||
        (table->rows > 0 && csv_file_find(table, 0, name, length) != NULL))
        return "";
    input_fail(scenario_place(reader), "no step before takes a value for {{%.*s}}%s", (int)length,
               name,
               table->rows > 0 ? ", and the table has no such column"
                               : " (write: take NAME json PATH; or use --csv FILE)");
    return NULL;
}

/* Checks the step that ends with the current line. */
static int end_step(struct scenario_reader *reader, const struct plan *plan)
{
    const struct template_variables variables = {check_variable, reader};
    struct scenario_step *step = reader->step;
    struct template_request made;
    enum template_result result;
    char why[256];
    uint32_t line = reader->line;

    if (step == NULL)
        return 0;
    reader->line = step->file_line;
    if (step->request.method == NULL)
        step->request.method = strdup(step->request.body != NULL ? "POST" : "GET");
    if (step->request.method == NULL ||
        asprintf(&step->name, "%s %.*s", step->request.method, (int)strcspn(step->request.url, "?"),
                 step->request.url) < 0) {
        step->name = NULL;
        return fail_memory(reader);
    }
    result = template_make_request(plan, &step->request, &variables, &made, why, sizeof(why));
    step->request_number = made.replaced > 0 ? -1 : 0;
    template_request_free(&made);
    if (result == TEMPLATE_INVALID)
        return input_fail(scenario_place(reader), "%s", why);
    reader->line = line;
    reader->known = reader->scenario->variable_count;
    reader->step = NULL;
    return result == TEMPLATE_DONE ? 0 : -1;
}

/* ---- Scenarios and steps ---- */

static int complete_scenario(struct scenario_reader *reader, const struct plan *plan)
{
    if (reader->scenario == NULL)
        return 0;
    if (reader->scenario->step_count == 0)
        return input_fail(scenario_place(reader), "scenario '%s' has no step (example: GET /)",
                          reader->scenario->name);
    return end_step(reader, plan);
}

static int begin_scenario(struct scenario_reader *reader, char *text)
{
    struct scenario_set *set = reader->set;
    const char *name = take_word(&text), *weight_word = take_word(&text);
    uint64_t weight = 1;
    struct scenario *grown;

    if (!is_name(name))
        return input_fail(scenario_place(reader),
                          "invalid name '%s' of a scenario (up to %d letters, digits, _ - .)", name,
                          SCENARIO_NAME_MAX);
    if (weight_word[0] != '\0' && (units_parse_number(weight_word, &weight) != 0 || weight < 1 ||
                                   weight > SCENARIO_WEIGHT_MAX))
        return input_fail(scenario_place(reader), "invalid weight '%s' (1-%d)", weight_word,
                          SCENARIO_WEIGHT_MAX);
    if (text[0] != '\0')
        return input_fail(scenario_place(reader), "unexpected word after the weight");
    for (size_t i = 0; i < set->count; i++)
        if (strcmp(set->scenarios[i].name, name) == 0)
            return input_fail(scenario_place(reader), "two scenarios have the name '%s'", name);
    if (set->count == SCENARIO_SCENARIOS_MAX)
        return input_fail(scenario_place(reader), "more than %d scenarios", SCENARIO_SCENARIOS_MAX);
    grown = grow_by_one(set->scenarios, set->count, sizeof(*grown));
    if (grown == NULL)
        return fail_memory(reader);
    set->scenarios = grown;
    reader->scenario = &grown[set->count++];
    reader->scenario->weight = (uint32_t)weight;
    reader->scenario->name = strdup(name);
    reader->known = 0;
    return reader->scenario->name != NULL ? 0 : fail_memory(reader);
}

static int begin_step(struct scenario_reader *reader, const char *first, char *text)
{
    struct scenario *scenario = reader->scenario;
    const char *method = is_upper_case(first) ? first : NULL;
    const char *url = method != NULL ? take_word(&text) : first;
    struct scenario_step *grown;

    if (method != NULL && url[0] == '\0')
        return input_fail(scenario_place(reader), "method without a URL");
    if (!is_url(url))
        return input_fail(
            scenario_place(reader),
            "'%s' is not the URL of a step, which begins with / or http://, and not one of "
            "scenario, field, body, expect, take, think",
            url);
    if (text[0] != '\0')
        return input_fail(scenario_place(reader), "unexpected word after the URL");
    if (scenario == NULL)
        return input_fail(scenario_place(reader),
                          "step before the first scenario (example: scenario browse 3)");
    if (method != NULL && strcmp(method, "CONNECT") == 0)
        return input_fail(scenario_place(reader), "CONNECT is not supported; use another method");
    if (reader->all_steps++ == SCENARIO_STEPS_MAX)
        return input_fail(scenario_place(reader), "more than %d steps in all scenarios",
                          SCENARIO_STEPS_MAX);
    grown = grow_by_one(scenario->steps, scenario->step_count, sizeof(*grown));
    if (grown == NULL)
        return fail_memory(reader);
    scenario->steps = grown;
    reader->step = &grown[scenario->step_count++];
    reader->step->file_line = reader->line;
    reader->step->request.is_path = url[0] == '/';
    reader->step->request.url = strdup(url);
    if (method != NULL)
        reader->step->request.method = strdup(method);
    return reader->step->request.url != NULL &&
                   (method == NULL || reader->step->request.method != NULL)
               ? 0
               : fail_memory(reader);
}

/* ---- Lines below a step ---- */

static int read_step_field(const struct scenario_reader *reader, char *text)
{
    static const char *const own[] = {"Content-Length", "Transfer-Encoding", "Cookie"};
    size_t length = strspn(text, MESSAGE_TOKEN_CHARACTERS);

    if (length == 0 || text[length] != ':' || !message_is_value(text + length))
        return input_fail(scenario_place(reader),
                          "invalid header field '%s' (example: field Accept: text/html)", text);
    for (size_t i = 0; i < ARRAY_LENGTH(own); i++)
        if (strlen(own[i]) == length && strncasecmp(own[i], text, length) == 0)
            return input_fail(scenario_place(reader), "field %s: set by wsload itself", own[i]);
    return string_list_append(&reader->step->request.fields, text) ? 0 : fail_memory(reader);
}

/* Appends TEXT, after a line break if it is not the first. */
static int read_step_body(const struct scenario_reader *reader, char *text)
{
    struct request_template *request = &reader->step->request;
    size_t before = request->body_length, length = strlen(text);
    char *grown = realloc(request->body, before + length + 2);

    if (grown == NULL)
        return fail_memory(reader);
    if (request->body != NULL)
        grown[before++] = '\n';
    memcpy(grown + before, text, length + 1);
    request->body = grown;
    request->body_length = before + length;
    return 0;
}

static int read_expect(const struct scenario_reader *reader, char *text)
{
    struct plan_checks *expect = &reader->step->expect;

    if (expect->status_count > 0)
        return input_fail(scenario_place(reader),
                          "second line 'expect' of a step (write: expect 200,302)");
    if (!plan_parse_statuses(expect, text))
        return input_fail(scenario_place(reader),
                          "invalid statuses '%s' (up to %d; example: expect 200,302)", text,
                          PLAN_STATUSES_MAX);
    return 0;
}

static int read_think(const struct scenario_reader *reader, char *text)
{
    struct scenario_step *step = reader->step;

    if (!plan_parse_think(text, &step->think_min_ms, &step->think_max_ms))
        return input_fail(scenario_place(reader),
                          "invalid think time '%s' (examples: 1s, 500ms-2s)", text);
    step->thinks = true;
    return 0;
}

/* Sets the number of the variable NAME, which it adds to the scenario. */
static int add_variable(const struct scenario_reader *reader, const char *name, uint32_t *number)
{
    struct scenario *scenario = reader->scenario;
    const struct csv_file *table = &reader->set->table;
    int found = scenario_find_variable(scenario, scenario->variable_count, name, strlen(name));

    *number = (uint32_t)found;
    if (found >= 0)
        return 0;
    if (table->rows > 0 && csv_file_find(table, 0, name, strlen(name)) != NULL)
        return input_fail(scenario_place(reader), "take %s: the table has a column of that name",
                          name);
    if (scenario->variable_count == SCENARIO_VARIABLES_MAX)
        return input_fail(scenario_place(reader), "scenario '%s' takes more than %d values",
                          scenario->name, SCENARIO_VARIABLES_MAX);
    *number = (uint32_t)scenario->variable_count;
    scenario->variables[*number] = strdup(name);
    if (scenario->variables[*number] == NULL)
        return fail_memory(reader);
    scenario->variable_count++;
    return 0;
}

static int read_source(const struct scenario_reader *reader, struct scenario_take *take,
                       char **text)
{
    static const char *const names[] = {[SCENARIO_FIELD] = "field",
                                        [SCENARIO_COOKIE] = "cookie",
                                        [SCENARIO_JSON] = "json",
                                        [SCENARIO_BODY] = "body"};
    const char *word = take_word(text), *key;
    size_t i = 0;

    while (i < ARRAY_LENGTH(names) && strcmp(names[i], word) != 0)
        i++;
    if (i == ARRAY_LENGTH(names))
        return input_fail(
            scenario_place(reader),
            "unknown source '%s' of a value (field NAME, cookie NAME, json PATH, body)", word);
    take->source = (enum scenario_source)i;
    if (take->source == SCENARIO_BODY)
        return 0;
    key = take_word(text);
    if (take->source == SCENARIO_JSON) {
        if (key[0] == '\0' || key[0] == '.' || key[strlen(key) - 1] == '.' || strstr(key, ".."))
            return input_fail(scenario_place(reader),
                              "invalid path '%s' of a JSON member (example: items.0.id)", key);
    } else if (!message_is_token(key)) {
        return input_fail(scenario_place(reader), "invalid name '%s' of a %s", key, names[i]);
    }
    take->key = strdup(key);
    return take->key != NULL ? 0 : fail_memory(reader);
}

static bool has_back_reference(const char *expression)
{
    for (const char *at = expression; *at != '\0'; at++)
        if (*at == '\\' && *++at >= '1' && *at <= '9')
            return true;
    return false;
}

static int compile(const struct scenario_reader *reader, struct scenario_take *take,
                   const char *expression)
{
    char reason[128];
    int result;

    if (has_back_reference(expression))
        return input_fail(scenario_place(reader),
                          "expression \"%s\": back-references are not supported", expression);
    result = regcomp(&take->matcher, expression, REG_EXTENDED | REG_NEWLINE);
    if (result != 0) {
        regerror(result, &take->matcher, reason, sizeof(reason));
        return input_fail(scenario_place(reader), "invalid expression \"%s\": %s", expression,
                          reason);
    }
    take->expression = strdup(expression);
    if (take->expression == NULL) {
        regfree(&take->matcher);
        return fail_memory(reader);
    }
    if (take->matcher.re_nsub != 1)
        return input_fail(scenario_place(reader),
                          "expression \"%s\" has %zu groups, not one, which is the value "
                          "(example: match \"id=([0-9]+)\")",
                          expression, take->matcher.re_nsub);
    return 0;
}

/* Reads what follows the source: the part of the text that is the value. */
static int read_part(const struct scenario_reader *reader, struct scenario_take *take, char *text)
{
    const char *word = take_word(&text), *before, *after, *expression = NULL;
    bool good = true;

    if (strcmp(word, "between") == 0) {
        before = take_quoted(&text);
        after = before != NULL ? take_quoted(&text) : NULL;
        good = after != NULL;
        if (good) {
            take->before = strdup(before);
            take->after = strdup(after);
            if (take->before == NULL || take->after == NULL)
                return fail_memory(reader);
        }
        word = take_word(&text);
    }
    if (good && strcmp(word, "match") == 0) {
        expression = take_expression(&text);
        good = expression != NULL;
        word = "";
    }
    if (!good || word[0] != '\0' || text[0] != '\0')
        return input_fail(scenario_place(reader),
                          "only between \"A\" \"B\" and match \"EXPRESSION\" may follow a source "
                          "(example: take id field Location between \"/orders/\" \"\")");
    return expression != NULL ? compile(reader, take, expression) : 0;
}

static int read_take(const struct scenario_reader *reader, char *text)
{
    struct scenario_step *step = reader->step;
    const char *name = take_word(&text);
    struct scenario_take *grown;

    if (!is_name(name))
        return input_fail(scenario_place(reader),
                          "invalid name '%s' of a value (example: take token json user.token)",
                          name);
    grown = grow_by_one(step->takes, step->take_count, sizeof(*grown));
    if (grown == NULL)
        return fail_memory(reader);
    step->takes = grown;
    grown += step->take_count++;
    if (add_variable(reader, name, &grown->variable) != 0 || read_source(reader, grown, &text) != 0)
        return -1;
    return read_part(reader, grown, text);
}

/* ---- The file ---- */

static int read_scenario_line(void *context, char *text, size_t length)
{
    static const struct {
        const char *word;
        int (*read)(const struct scenario_reader *reader, char *text);
    } additions[] = {{"field", read_step_field},
                     {"body", read_step_body},
                     {"expect", read_expect},
                     {"take", read_take},
                     {"think", read_think}};
    struct scenario_reader *reader = context;
    const struct plan *plan = reader->plan;
    const char *word;

    reader->line++;
    if (strlen(text) != length)
        return input_fail(scenario_place(reader), "not text: it contains a NUL byte");
    text[strcspn(text, "\r\n")] = '\0';
    text += strspn(text, " \t");
    if (text[0] == '\0' || text[0] == '#')
        return 0;
    word = take_word(&text);
    if (strcmp(word, "scenario") == 0)
        return complete_scenario(reader, plan) == 0 ? begin_scenario(reader, text) : -1;
    for (size_t i = 0; i < ARRAY_LENGTH(additions); i++) {
        if (strcmp(word, additions[i].word) != 0)
            continue;
        if (reader->step == NULL)
            return input_fail(scenario_place(reader),
                              "'%s' without a step before it (example: GET /)", word);
        return additions[i].read(reader, text);
    }
    return end_step(reader, plan) == 0 ? begin_step(reader, word, text) : -1;
}

int scenario_file_read(struct scenario_set *set, const struct plan *plan, char *why, size_t size)
{
    struct scenario_reader reader = {
        .set = set, .plan = plan, .file = plan->scenario_file, .why = why, .size = size};
    int result = input_each_line(reader.file, read_scenario_line, &reader, why, size);

    if (result == 0)
        result = set->count > 0
                     ? complete_scenario(&reader, plan)
                     : input_fail(scenario_place(&reader),
                                  "no scenario (the first line is: scenario NAME [WEIGHT])");
    return result == 0 && !scenario_set_make_order(set) ? fail_memory(&reader) : result;
}

/* ---- Requests of steps ---- */

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

    if (step->request_number < 0)
        return 0;
    step->request_number = request_plan_add_request(request_plan, &parts, reason, sizeof(reason));
    if (step->request_number >= 0)
        return 0;
    snprintf(why, size, "%s:%u: %s", request_plan->plan->scenario_file, step->file_line, reason);
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
                     request_plan->plan->scenario_file, step->file_line);
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
