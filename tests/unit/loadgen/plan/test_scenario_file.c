/* Files of scenarios: what is read from them, the order of the scenarios, and errors. */
#include "plan_fixture.h"

#include "common/macros.h"

static const char *const file = path, *const table = second_path;

static void plan_scenarios(const char *text, bool with_table)
{
    reset_plan();
    plan.scenario_file = file;
    plan.csv_file = with_table ? table : NULL;
    plan.headers[0] = "X-All: 1";
    plan.header_count = 1;
    write_file(file, text);
    write_file(table, "id,name\n1,one\n2,two\n");
}

TEST(steps_are_read_with_their_lines)
{
    const struct scenario_set *set = &request_plan.scenarios;
    const struct scenario_step *step;
    const struct request *request;

    plan_scenarios("# comment\n\nscenario buy 7\r\n"
                   "\tPUT http://b.test/x?y={{id}}\n field A: {{name}} b\n"
                   " body one {{id}}\n body two\n expect 200,404\n"
                   " take t json a.0.b\n take u field Location between \"\\\"/\" \"\" match "
                   "\"a\\.\\\"(b*)\\\\\"\n"
                   " think 1s-2500ms\n/next\n field B: c\nscenario look\nGET /{{name}}\n",
                   true);
    prepare();
    assert_int_equal(set->count, 2);
    assert_string_equal(set->scenarios[0].name, "buy");
    assert_int_equal(set->scenarios[0].weight, 7);
    assert_int_equal(set->scenarios[1].weight, 1);
    assert_int_equal(set->row_count, 5);
    assert_int_equal(set->scenarios[1].report_row, 3);
    step = &set->scenarios[0].steps[0];
    assert_string_equal(step->name, "PUT http://b.test/x");
    assert_string_equal(step->request.body, "one {{id}}\ntwo");
    assert_int_equal(step->file_line, 4);
    assert_int_equal(step->request_number, -1);
    assert_int_equal(step->expect.status_count, 2);
    assert_int_equal(step->take_count, 2);
    assert_string_equal(step->takes[1].before, "\"/");
    assert_string_equal(step->takes[1].after, "");
    assert_string_equal(step->takes[1].expression, "a\\.\"(b*)\\\\");
    assert_true(step->thinks && step->think_min_ms == 1000 && step->think_max_ms == 2500);
    request = &request_plan.requests[set->scenarios[0].steps[1].request_number];
    assert_string_equal(request->message, "GET /next HTTP/1.1\r\nHost: a.test:81\r\n"
                                          "User-Agent: wsload/" WEBSERVERD_VERSION "\r\n"
                                          "Accept: */*\r\nB: c\r\nX-All: 1\r\n\r\n");
    request_plan_free(&request_plan);
}

/* Each pass has each scenario as often as its weight, and no scenario waits for the others. */
TEST(scenarios_start_by_weight)
{
    char text[32] = "";

    plan_scenarios("scenario a 5\n/\nscenario b\n/\nscenario c\n/\n", true);
    prepare();
    for (size_t i = 0; i < 14; i++) {
        struct scenario_start start;

        assert_true(request_plan_next_scenario(&request_plan, &start));
        assert_int_equal(start.table_row, i % 2);
        text[i] = (char)('a' + start.scenario);
    }
    assert_string_equal(text, "aabacaaaabacaa"); /* as in nginx */
    request_plan_free(&request_plan);
}

/* The message is the name of the file and WANTED. */
static void check_invalid(const char *text, bool with_table, const char *wanted)
{
    plan_scenarios(text, with_table);
    check_rejected(file);
    assert_string_equal(why + strlen(file), wanted);
}

TEST(invalid_file_is_an_error_with_its_line)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"", ":0: no scenario (the first line is: scenario NAME [WEIGHT])"},
        {"/\n", ":1: step before the first scenario (example: scenario browse 3)"},
        {"scenario\n", ":1: invalid name '' of a scenario (up to 64 letters, digits, _ - .)"},
        {"scenario a 0\n", ":1: invalid weight '0' (1-1000)"},
        {"scenario a 1001\n", ":1: invalid weight '1001' (1-1000)"},
        {"scenario a 1 2\n", ":1: unexpected word after the weight"},
        {"scenario a\n/\nscenario a\n", ":3: two scenarios have the name 'a'"},
        {"scenario a\nscenario b\n", ":2: scenario 'a' has no step (example: GET /)"},
        {"scenario a\nbody x\n", ":2: 'body' without a step before it (example: GET /)"},
        {"scenario a\nGET\n", ":2: method without a URL"},
        {"scenario a\nGET / 3\n", ":2: unexpected word after the URL"},
        {"scenario a\nCONNECT /\n", ":2: CONNECT is not supported; use another method"},
        {"scenario a\nexpekt 200\n",
         ":2: 'expekt' is not the URL of a step, which begins with / or http://, and not one of "
         "scenario, field, body, expect, take, think"},
        {"scenario a\n/\nfield x\n",
         ":3: invalid header field 'x' (example: field Accept: text/html)"},
        {"scenario a\n/\nfield cookie: a=b\n", ":3: field Cookie: set by wsload itself"},
        {"scenario a\n/\nexpect 2xx\n",
         ":3: invalid statuses '2xx' (up to 16; example: expect 200,302)"},
        {"scenario a\n/\nexpect 200\nexpect 201\n",
         ":4: second line 'expect' of a step (write: expect 200,302)"},
        {"scenario a\n/\nthink soon\n", ":3: invalid think time 'soon' (examples: 1s, 500ms-2s)"},
        {"scenario a\n/\ntake {x} body\n",
         ":3: invalid name '{x}' of a value (example: take token json user.token)"},
        {"scenario a\n/\ntake id body\n", ":3: take id: the table has a column of that name"},
        {"scenario a\n/\ntake x header A\n",
         ":3: unknown source 'header' of a value (field NAME, cookie NAME, json PATH, body)"},
        {"scenario a\n/\ntake x json a..b\n",
         ":3: invalid path 'a..b' of a JSON member (example: items.0.id)"},
        {"scenario a\n/\ntake x cookie\n", ":3: invalid name '' of a cookie"},
        {"scenario a\n/\ntake x body between \"a\n",
         ":3: only between \"A\" \"B\" and match \"EXPRESSION\" may follow a source (example: take "
         "id "
         "field Location between \"/orders/\" \"\")"},
        {"scenario a\n/\ntake x body match \"(a\\\"\n",
         ":3: only between \"A\" \"B\" and match \"EXPRESSION\" may follow a source (example: take "
         "id "
         "field Location between \"/orders/\" \"\")"},
        {"scenario a\n/\ntake x body match \"(a\"\n",
         ":3: invalid expression \"(a\": Unmatched ( or \\("},
        {"scenario a\n/\ntake x body match \"\\(a\\)\"\n",
         ":3: expression \"\\(a\\)\" has 0 groups, not one, which is the value (example: match "
         "\"id=([0-9]+)\")"},
        {"scenario a\n/\ntake x body between \"a\" \"b\" match \"(a)|(b)\"\n",
         ":3: expression \"(a)|(b)\" has 2 groups, not one, which is the value (example: match "
         "\"id=([0-9]+)\")"},
        {"scenario a\n/\ntake x body match \"(a)\\1\"\n",
         ":3: expression \"(a)\\1\": back-references are not supported"},
        {"scenario a\n/\ntake x body match \"(a)\" between \"a\" \"b\"\n",
         ":3: only between \"A\" \"B\" and match \"EXPRESSION\" may follow a source (example: take "
         "id "
         "field Location between \"/orders/\" \"\")"},
        {"scenario a\n/\ntake x body\nscenario b\n/{{x}}\n",
         ":5: no step before takes a value for {{x}}, and the table has no such column"},
        {"scenario a\n/{{x}}\ntake x body\n",
         ":2: no step before takes a value for {{x}}, and the table has no such column"},
        {"scenario a\nhttp://\n", ":2: invalid URL 'http://': No host part in the URL"},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        check_invalid(cases[i].text, true, cases[i].why);
    }
}

TEST(limits_are_errors)
{
    char text[64 * 1024] = "scenario a\n/\n";

    for (int i = 0; i <= SCENARIO_VARIABLES_MAX; i++)
        sprintf(text + strlen(text), "take v%d body\n", i);
    check_invalid(text, false, ":19: scenario 'a' takes more than 16 values");
    strcpy(text, "scenario a\n");
    for (int i = 0; i <= SCENARIO_STEPS_MAX; i++)
        strcat(text, "/\n");
    check_invalid(text, false, ":202: more than 200 steps in all scenarios");
    text[0] = '\0';
    for (int i = 0; i <= SCENARIO_SCENARIOS_MAX; i++)
        sprintf(text + strlen(text), "scenario s%d\n/\n", i);
    check_invalid(text, false, ":101: more than 50 scenarios");
}
