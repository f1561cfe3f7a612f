/*
 * The JSON reports against wsload.schema.json. The schema requires every member and allows no
 * other, so a member that only the schema or only the report has is an error. The checker supports
 * the JSON Schema keywords of that file.
 */
#include "common/macros.h"
#include "loadgen/report/json.h"
#include "loadgen/sweep/find.h"
#include "tests/test.h"
#include "tests/unit/loadgen/load_results.h"
#include "tests/unit/loadgen/sweep_results.h"

#include <jansson.h>
#include <math.h>
#include <regex.h>
#include <stdlib.h>

static json_t *schema;

static bool fits(const json_t *rule, const json_t *value);

static bool is_of_type(const char *type, const json_t *value)
{
    if (strcmp(type, "object") == 0)
        return json_is_object(value);
    if (strcmp(type, "array") == 0)
        return json_is_array(value);
    if (strcmp(type, "string") == 0)
        return json_is_string(value);
    if (strcmp(type, "boolean") == 0)
        return json_is_boolean(value);
    if (strcmp(type, "integer") == 0)
        return json_is_integer(value);
    if (strcmp(type, "number") == 0)
        return json_is_number(value);
    assert_string_equal(type, "null");
    return json_is_null(value);
}

static bool fits_type(const json_t *types, const json_t *value)
{
    bool fitting = false;
    const json_t *type;
    size_t i;

    if (json_is_string(types))
        return is_of_type(json_string_value(types), value);
    json_array_foreach(types, i, type) fitting =
        fitting || is_of_type(json_string_value(type), value);
    return fitting;
}

/* The rule for the member NAME; NULL: it is not allowed. */
static const json_t *rule_for(const json_t *rule, const char *name)
{
    const json_t *found = json_object_get(json_object_get(rule, "properties"), name), *one;
    const char *pattern;

    json_object_foreach(json_object_get(rule, "patternProperties"), pattern, one)
    {
        regex_t expression;

        assert_int_equal(regcomp(&expression, pattern, REG_EXTENDED | REG_NOSUB), 0);
        if (found == NULL && regexec(&expression, name, 0, NULL, 0) == 0)
            found = one;
        regfree(&expression);
    }
    return found;
}

static bool fits_members(const json_t *rule, json_t *value)
{
    const json_t *member, *name;
    const char *key;
    size_t i;

    json_array_foreach(json_object_get(rule, "required"), i, name)
    {
        if (json_object_get(value, json_string_value(name)) == NULL) {
            print_message("no member %s\n", json_string_value(name));
            return false;
        }
    }
    json_object_foreach(value, key, member)
    {
        const json_t *its = rule_for(rule, key);

        if (its == NULL || !fits(its, member)) {
            print_message("member %s\n", key);
            return false;
        }
    }
    return true;
}

static bool is_one_of(const json_t *values, const json_t *value)
{
    const json_t *one;
    size_t i;

    json_array_foreach(values, i, one)
    {
        if (json_equal(one, value))
            return true;
    }
    return values == NULL;
}

/* Fails on a keyword that the checker does not support. */
static void check_words(const json_t *rule)
{
    static const char *const known[] = {"$schema",
                                        "title",
                                        "$defs",
                                        "oneOf",
                                        "description",
                                        "type",
                                        "properties",
                                        "required",
                                        "patternProperties",
                                        "additionalProperties",
                                        "items",
                                        "enum",
                                        "minimum"};
    const json_t *value;
    const char *key;

    json_object_foreach((json_t *)(uintptr_t)rule, key, value)
    {
        bool found = false;

        for (size_t i = 0; i < ARRAY_LENGTH(known); i++)
            found = found || strcmp(known[i], key) == 0;
        if (!found)
            fail_msg("%s is not understood", key);
    }
}

static bool fits_one(const json_t *rules, const json_t *value)
{
    const json_t *rule;
    size_t i, fitting = 0;

    json_array_foreach(rules, i, rule) fitting += fits(rule, value);
    return fitting == 1;
}

static bool fits(const json_t *rule, const json_t *value)
{
    const char *reference = json_string_value(json_object_get(rule, "$ref"));
    const json_t *minimum = json_object_get(rule, "minimum"), *item;
    size_t i;

    if (reference != NULL)
        return fits(json_object_get(json_object_get(schema, "$defs"), strrchr(reference, '/') + 1),
                    value);
    check_words(rule);
    if (json_object_get(rule, "oneOf") != NULL)
        return fits_one(json_object_get(rule, "oneOf"), value);
    if (!fits_type(json_object_get(rule, "type"), value) ||
        !is_one_of(json_object_get(rule, "enum"), value) ||
        (minimum != NULL && json_number_value(value) < json_number_value(minimum)))
        return false;
    json_array_foreach(value, i, item)
    {
        if (!fits(json_object_get(rule, "items"), item))
            return false;
    }
    return !json_is_object(value) || fits_members(rule, (json_t *)(uintptr_t)value);
}

static json_t *make_report(void)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    json_t *report;

    assert_non_null(out);
    assert_int_equal(result_write_json(out, &result), 0);
    fclose(out);
    report = json_loadb(text, size, 0, NULL);
    assert_non_null(report);
    free(text);
    return report;
}

static void check_report(void)
{
    json_t *report = make_report();

    assert_true(fits(schema, report));
    json_decref(report);
}

TEST(reports_match_schema)
{
    struct series_entry entry = {.end_ns = NS_PER_S, .answered = 5};
    struct series series = {.entry = &entry, .count = 1};

    fill_good();
    result.series = &series;
    result.server = (struct server_check_result){SERVER_CHECK_SAME, "one", 5, 5, 1.5};
    plan.percentiles[0] = 99.9999;
    plan.percentile_count = 1;
    check_report();
    fill_bad();
    plan.rate = 10;
    check_report();
    begin();
    plan.requests = 0;
    plan.duration_ms = 5;
    check_report();
    fill_good();
    plan.hostile[PLAN_HOSTILE_IDLE] = 5;
    result.hostile[PLAN_HOSTILE_IDLE] = (struct hostile_count){.asked = 5};
    result.alone = &(struct measures){.value = {1}};
    check_report();
    fill_good();
    result.merged = 2;
    check_report();
    fill_good();
    result.scenarios = calloc(1, sizeof(*result.scenarios) + 2 * sizeof(struct scenario_row));
    assert_non_null(result.scenarios);
    result.scenarios->count = 2;
    result.scenarios->row[0] = (struct scenario_row){.name = strdup("a"), .weight = 2};
    result.scenarios->row[1] = (struct scenario_row){.name = strdup("GET /"), .why = "no value"};
    check_report();
    scenario_tally_free(result.scenarios);
    fill_good();
    begin_repeat(5);
    for (uint32_t i = 0; i < 4; i++)
        add_round(1000 + i);
    check_report();
    end_repeat();
}

static json_t *make_sweep(const char *line, double ripple, uint32_t rounds)
{
    const struct invented invented = {.law = {.lambda = 1000, .sigma = 0.05},
                                      .ripple = ripple,
                                      .server_cores = 1,
                                      .machine_percent = NAN,
                                      .cores = 4,
                                      .rounds_done = rounds};
    struct sweep *sweep = invent_sweep(&invented, line);
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    json_t *report;

    assert_non_null(out);
    sweep_plan.format = PLAN_FORMAT_JSON;
    assert_int_equal(sweep_report(out, sweep, false), 0);
    fclose(out);
    report = json_loadb(text, size, 0, NULL);
    assert_non_null(report);
    free(text);
    sweep_free(sweep);
    return report;
}

/* With and without a fitted law, with noise, and with nothing measured. */
TEST(sweeps_match_schema)
{
    static const struct {
        const char *line;
        double ripple;
        uint32_t rounds;
    } sweeps[] = {{"-c 1,2,5,10,20,50 --keepalive both", 0.01, 5},
                  {"-c 1,2 --server-threads 1,2 -n 5", 0.01, 2},
                  {"-c 1,2,5,10,20,50", 0.9, 5},
                  {"-c 1,2", 0, 0}};

    for (size_t i = 0; i < ARRAY_LENGTH(sweeps); i++) {
        json_t *report = make_sweep(sweeps[i].line, sweeps[i].ripple, sweeps[i].rounds);

        assert_true(fits(schema, report));
        json_object_set_new(report, "surprise", json_true());
        assert_false(fits(schema, report));
        json_decref(report);
    }
}

/* Of each kind, found and not found, with trials and without. */
TEST(searches_match_schema)
{
    static const struct plan plans[] = {
        {.urls = {"http://a/"},
         .method = "GET",
         .format = PLAN_FORMAT_JSON,
         .connections_requested = 5,
         .threads_requested = 1,
         .find = {PLAN_FIND_RATE, {.text = "p99<1ms"}}},
        {.urls = {"http://a/"},
         .method = "GET",
         .format = PLAN_FORMAT_JSON,
         .connections_requested = 5,
         .threads_requested = 1,
         .find = {.what = PLAN_FIND_THREADS}},
    };

    for (size_t i = 0; i < 4 * ARRAY_LENGTH(plans); i++) {
        struct find *find = calloc(1, sizeof(*find));
        char *text = NULL;
        size_t size;
        FILE *out = open_memstream(&text, &size);
        json_t *report;

        assert_true(find != NULL && out != NULL);
        find->plan = &plans[i / 4];
        find->count = i % 2;
        find->answer =
            (struct search_answer){i % 4 < 2, 100, 90, i % 2 == 0 ? 110 : INFINITY, false};
        find->note_count = i % 2;
        find->note[0] = (struct sweep_finding){"imprecise", "text"};
        assert_int_equal(find_report(out, find, false), 0);
        fclose(out);
        report = json_loadb(text, size, 0, NULL);
        assert_true(fits(schema, report));
        json_decref(report);
        free(text);
        free(find);
    }
}

TEST(missing_additional_and_mistyped_members_are_found)
{
    json_t *report;
    const char *key;
    json_t *required, *name;
    size_t i;

    fill_good();
    report = make_report();
    required =
        json_object_get(json_object_get(json_object_get(schema, "$defs"), "run"), "required");
    json_array_foreach(required, i, name)
    {
        json_t *without = json_deep_copy(report), *other = json_deep_copy(report);

        key = json_string_value(name);
        json_object_del(without, key);
        assert_false(fits(schema, without));
        json_object_set_new(other, key, json_null());
        assert_int_equal(fits(schema, other),
                         strcmp(key, "server") == 0 || strcmp(key, "due_per_second") == 0 ||
                             strcmp(key, "medians") == 0 || strcmp(key, "rounds") == 0 ||
                             strcmp(key, "merged") == 0 || strcmp(key, "scenarios") == 0);
        json_decref(without);
        json_decref(other);
    }
    json_object_set_new(json_object_get(report, "plan"), "surprise", json_true());
    assert_false(fits(schema, report));
    json_decref(report);
}

static int load_schema(void **state)
{
    json_error_t error;

    (void)state;
    schema = json_load_file(SCHEMA_FILE, JSON_REJECT_DUPLICATES, &error);
    if (schema == NULL)
        print_error("%s:%d: %s\n", SCHEMA_FILE, error.line, error.text);
    return schema == NULL ? -1 : 0;
}

static int free_schema(void **state)
{
    (void)state;
    json_decref(schema);
    return 0;
}

const struct test_fixture test_group_fixture = {load_schema, free_schema};
