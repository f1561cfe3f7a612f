/* OpenAPI descriptions: the requests that are made from them, what is skipped, and errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "scratch_file.h"

#include "common/macros.h"
#include "loadgen/plan/prepare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct request_plan request_plan;
static struct plan plan;
static char why[1024];

/* Reads a description with this text between its version and its end. */
static int prepare(const char *text)
{
    char whole[4096];

    plan = (struct plan){
        .urls = {"http://a.test:81/base"},
        .url_count = 1,
        .method = "GET",
        .keepalive = true,
        .openapi_file = path,
    };
    snprintf(whole, sizeof(whole), "{\"openapi\": \"3.0.3\", %s}", text);
    write_file(path, whole);
    return request_plan_prepare(&request_plan, &plan, why, sizeof(why));
}

/* Entry I: method, path, own fields and body, separated by '|'. */
static const char *request(size_t i)
{
    static char text[1024];
    const struct request *request = &request_plan.requests[request_plan.entries[i].request];
    size_t used = (size_t)snprintf(text, sizeof(text), "%s %s", request->method,
                                   strchr(request->target.text + strlen("http://"), '/'));

    for (const struct curl_slist *field = request->own_fields; field; field = field->next)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "|%s", field->data);
    if (request->body != NULL)
        snprintf(text + used, sizeof(text) - used, "|%.*s", (int)request->body_length,
                 request->body);
    return text;
}

/* The only request of a description with one operation, or why there is none. */
static const char *one(const char *text)
{
    static char result[1024];
    bool good = prepare(text) == 0;

    snprintf(result, sizeof(result), "%s", good ? request(0) : why);
    if (good)
        assert_int_equal(request_plan.entry_count, 1);
    request_plan_free(&request_plan);
    return good ? result : result + strlen(path);
}

static void parameters_have_their_examples(void **state)
{
    (void)state;
    assert_string_equal(
        one("\"paths\": {\"/p/{a}/{b}\": {\"parameters\": ["
            "{\"name\": \"a\", \"in\": \"path\", \"example\": \"x y/z\"},"
            "{\"name\": \"q\", \"in\": \"query\", \"example\": 1}],"
            "\"get\": {\"parameters\": ["
            "{\"name\": \"b\", \"in\": \"path\", \"examples\": {\"e\": {\"value\": [1, 2]}}},"
            "{\"name\": \"q\", \"in\": \"query\", \"schema\": {\"default\": true}},"
            "{\"name\": \"l\", \"in\": \"query\", \"schema\": {\"example\": [\"a\", \"b&\"]}},"
            "{\"name\": \"m\", \"in\": \"query\", \"explode\": false, \"example\": [1, 2]},"
            "{\"name\": \"none\", \"in\": \"query\"},"
            "{\"name\": \"X-H\", \"in\": \"header\", \"example\": \"h\"},"
            "{\"name\": \"Authorization\", \"in\": \"header\", \"example\": \"h\"},"
            "{\"name\": \"c\", \"in\": \"cookie\", \"schema\": {\"examples\": [7]}},"
            "{\"name\": \"d\", \"in\": \"cookie\", \"example\": 8}]}}}"),
        "GET /p/x%20y%2Fz/1,2?q=true&l=a&l=b%26&m=1,2|X-H: h|Cookie: c=7; d=8");
}

static void references_are_followed(void **state)
{
    (void)state;
    assert_string_equal(one("\"paths\": {\"/{id}\": {\"get\": {\"parameters\": ["
                            "{\"$ref\": \"#/components/parameters/a~1b\"}]}}}, \"components\": "
                            "{\"parameters\": {\"a/b\": {\"name\": \"id\", \"in\": \"path\", "
                            "\"schema\": {\"$ref\": \"#/components/schemas/Id\"}}}, \"schemas\": "
                            "{\"Id\": {\"example\": 5}}}"),
                        "GET /5");
    assert_string_equal(one("\"paths\": {\"/\": {\"get\": {\"parameters\": ["
                            "{\"$ref\": \"#/x\"}]}}}, \"x\": {\"$ref\": \"#/x\"}"),
                        "GET /");
}

static void bodies_have_their_examples(void **state)
{
    (void)state;
    assert_string_equal(
        one("\"paths\": {\"/\": {\"post\": {\"requestBody\": {\"required\": true, \"content\": {"
            "\"text/csv\": {}, \"application/json\": {\"example\": {\"a\": [1, \"b\"]}}}}}}}"),
        "POST /|Content-Type: application/json|{\"a\":[1,\"b\"]}");
    assert_string_equal(one("\"paths\": {\"/\": {\"put\": {\"requestBody\": {\"content\": {"
                            "\"application/x-www-form-urlencoded\": {\"schema\": {\"example\": "
                            "{\"a\": \"x y\", \"b\": 2}}}}}}}}"),
                        "PUT /|Content-Type: application/x-www-form-urlencoded|a=x%20y&b=2");
    assert_string_equal(one("\"paths\": {\"/\": {\"patch\": {\"requestBody\": {\"content\": {"
                            "\"text/plain\": {\"examples\": {\"e\": {\"value\": \"text\"}}}}}}}}"),
                        "PATCH /|Content-Type: text/plain|text");
    assert_string_equal(one("\"paths\": {\"/\": {\"post\": {\"requestBody\": {\"content\": {"
                            "\"text/plain\": {}}}}}}"),
                        "POST /");
}

static void path_of_the_server_comes_first(void **state)
{
    (void)state;
    assert_string_equal(one("\"servers\": [{\"url\": \"https://b.test/v1/\"}], "
                            "\"paths\": {\"/x\": {\"get\": {}}}"),
                        "GET /v1/x");
    assert_string_equal(one("\"servers\": [{\"url\": \"https://b.test\"}], "
                            "\"paths\": {\"/x\": {\"get\": {}}}"),
                        "GET /x");
    assert_string_equal(one("\"servers\": [{\"url\": \"/no\"}], \"paths\": {\"/x\": {\"servers\": "
                            "[{\"url\": \"/{v}/\", \"variables\": {\"v\": {\"default\": "
                            "\"v2\"}}}], \"delete\": {}}}"),
                        "DELETE /v2/x");
    assert_string_equal(one("\"servers\": [{\"url\": \"/{v}\"}], \"paths\": {\"/x\": "
                            "{\"get\": {}}}"),
                        ": the server '/{v}' has a variable without a default");
}

static void operation_without_examples_is_skipped(void **state)
{
    (void)state;
    assert_int_equal(prepare("\"paths\": {\"/a/{id}\": {\"get\": {\"parameters\": "
                             "[{\"name\": \"id\", \"in\": \"path\"}]}, \"head\": {}}, "
                             "\"/b\": {\"get\": {\"parameters\": [{\"name\": \"q\", \"in\": "
                             "\"query\", \"required\": true, \"example\": {}}]}, \"post\": "
                             "{\"requestBody\": {\"required\": true}}}, \"/c\": {\"get\": {}}, "
                             "\"x-own\": 1}"),
                     0);
    assert_int_equal(request_plan.entry_count, 1);
    assert_string_equal(request(0), "GET /c");
    assert_int_equal(request_plan.skipped, 4);
    assert_string_equal(request_plan.skipped_names,
                        "GET /a/{id} (no example for the path parameter 'id'), HEAD /a/{id} (no "
                        "parameter for '{id}'), GET /b (no example for the query parameter 'q'), "
                        "POST /b (no example for the body)");
    request_plan_free(&request_plan);
}

static void invalid_description_is_an_error(void **state)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"x", ":1: not an OpenAPI description in JSON: '[' or '{' expected near 'x'"},
        {"[]", ": not an OpenAPI description of version 3.0 or 3.1"},
        {"{\"openapi\": 3}", ": not an OpenAPI description of version 3.0 or 3.1"},
        {"{\"openapi\": \"4.0.0\"}", ": not an OpenAPI description of version 3.0 or 3.1"},
        {"{\"swagger\": \"2.0\"}", ": not an OpenAPI description of version 3.0 or 3.1: it is of "
                                   "version 2 (swagger); convert it"},
        {"{\"openapi\": \"3.1.0\"}", ": not an OpenAPI description: no object paths"},
        {"{\"openapi\": \"3.1.0\", \"paths\": {\"a\": {}}}",
         ": invalid path 'a': a path begins with /"},
        {"{\"openapi\": \"3.1.0\", \"paths\": {}}",
         ": no operation has all examples that it needs"},
        {"{\"openapi\": \"3.1.0\", \"paths\": {\"/{a}\": {\"get\": {}}}}",
         ": no operation has all examples that it needs: GET /{a} (no parameter for '{a}')"},
    };

    (void)state;
    prepare("\"paths\": {}");
    request_plan_free(&request_plan);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        write_file(path, cases[i].text);
        assert_int_equal(request_plan_prepare(&request_plan, &plan, why, sizeof(why)), -1);
        assert_memory_equal(why, path, strlen(path));
        assert_string_equal(why + strlen(path), cases[i].why);
        request_plan_free(&request_plan);
    }
    plan.openapi_file = "shop.YAML";
    assert_int_equal(request_plan_prepare(&request_plan, &plan, why, sizeof(why)), -1);
    assert_string_equal(why, "shop.YAML: YAML is not supported: convert the description to JSON "
                             "(yq -o json)");
    request_plan_free(&request_plan);
    plan.openapi_file = "/missing";
    assert_int_equal(request_plan_prepare(&request_plan, &plan, why, sizeof(why)), -1);
    assert_string_equal(why, "cannot read '/missing': No such file or directory");
    request_plan_free(&request_plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_have_their_examples),
        cmocka_unit_test(references_are_followed),
        cmocka_unit_test(bodies_have_their_examples),
        cmocka_unit_test(path_of_the_server_comes_first),
        cmocka_unit_test(operation_without_examples_is_skipped),
        cmocka_unit_test(invalid_description_is_an_error),
    };

    return cmocka_run_group_tests(tests, make_files, remove_files);
}
