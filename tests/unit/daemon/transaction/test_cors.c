/* Which requests are preflights, and which fields permit pages of other origins to read a response. */
#include "daemon/transaction/cors.h"

#include "common/macros.h"
#include "daemon/config/rules.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define ORIGIN "Origin: https://a.example\r\n"
#define ASKS   "Access-Control-Request-Method: PUT\r\n"
#define VARIES "Vary: Origin\r\n"

static char every[] = "*";
static char some[] = "https://a.example, http://b.example:8080, https://c.example";

static bool is_preflight(enum http_method method, const char *lines)
{
    const struct request request = {.method = method, .fields = {lines, strlen(lines)}};

    return cors_is_preflight(&request);
}

static void preflight_is_options_with_both_fields(void **state)
{
    (void)state;
    assert_true(is_preflight(METHOD_OPTIONS, ORIGIN ASKS));
    assert_true(is_preflight(METHOD_OPTIONS, "Host: x\r\n" ASKS ORIGIN));
    assert_false(is_preflight(METHOD_OPTIONS, ORIGIN));
    assert_false(is_preflight(METHOD_OPTIONS, ASKS));
    assert_false(is_preflight(METHOD_OPTIONS, ""));
    assert_false(is_preflight(METHOD_GET, ORIGIN ASKS));
}

/* A transaction with the field LINES, for a path with RULE. */
struct scene {
    struct request request;
    struct transaction transaction;
    char fields[CORS_FIELDS_MAX + 1];
};

static void open_scene(struct scene *scene, const struct config_cors *rule, const char *lines)
{
    *scene = (struct scene){.request.fields = {lines, strlen(lines)}};
    scene->transaction.request = &scene->request;
    scene->transaction.cors = rule;
}

static bool allows(char *origins, const char *lines)
{
    const struct config_cors rule = {.origins = origins};
    struct scene scene;

    open_scene(&scene, &rule, lines);
    return cors_allows(&scene.transaction);
}

static void every_origin_is_allowed(void **state)
{
    (void)state;
    assert_true(allows(every, ORIGIN));
    assert_true(allows(every, "Origin: null\r\n"));
    assert_true(allows(every, ""));
}

static void only_listed_origins_are_allowed(void **state)
{
    static const char *const others[] = {
        "",
        "Origin:\r\n",
        "Origin: *\r\n",
        "Origin: null\r\n",
        "Origin: https://A.example\r\n",
        "Origin: https://a.exampl\r\n",
        "Origin: https://a.example.\r\n",
        "Origin: http://b.example\r\n",
        "Origin: https://a.example, http://b.example:8080\r\n",
        "Origin: https://a.example\r\nOrigin: https://a.example\r\n",
    };

    (void)state;
    assert_true(allows(some, ORIGIN));
    assert_true(allows(some, "Origin: http://b.example:8080\r\n"));
    assert_true(allows(some, "Origin: https://c.example\r\n"));
    for (size_t i = 0; i < ARRAY_LENGTH(others); i++)
        assert_false(allows(some, others[i]));
}

static const char *write_fields(struct scene *scene)
{
    size_t length = cors_write(&scene->transaction, scene->fields);

    assert_true(length <= CORS_FIELDS_MAX);
    scene->fields[length] = '\0';
    return scene->fields;
}

static void response_to_every_origin_does_not_vary(void **state)
{
    const struct config_cors rule = {.origins = every};
    struct scene scene;

    (void)state;
    open_scene(&scene, &rule, "");
    assert_string_equal(write_fields(&scene), "Access-Control-Allow-Origin: *\r\n");
}

static void response_names_the_origin_and_what_pages_may_read(void **state)
{
    static char expose[] = "Content-Range, ETag";
    struct config_cors rule = {
        .origins = some, .expose = expose, .has_credentials = true, .credentials = true};
    struct scene scene;

    (void)state;
    open_scene(&scene, &rule, ORIGIN);
    assert_string_equal(write_fields(&scene),
                        VARIES "Access-Control-Allow-Origin: https://a.example\r\n"
                               "Access-Control-Allow-Credentials: true\r\n"
                               "Access-Control-Expose-Headers: Content-Range, ETag\r\n");
    rule.credentials = false;
    rule.expose = NULL;
    assert_string_equal(write_fields(&scene),
                        VARIES "Access-Control-Allow-Origin: https://a.example\r\n");
}

/* Caches must not give what one origin got to another. */
static void response_to_another_origin_only_varies(void **state)
{
    const struct config_cors rule = {.origins = some, .credentials = true, .expose = every};
    struct scene scene;

    (void)state;
    open_scene(&scene, &rule, "Origin: https://d.example\r\n");
    assert_string_equal(write_fields(&scene), VARIES);
    scene.transaction.preflight = true;
    assert_string_equal(write_fields(&scene), VARIES);
    open_scene(&scene, &rule, "");
    assert_string_equal(write_fields(&scene), VARIES);
}

static void preflight_is_answered_with_the_rule(void **state)
{
    static char methods[] = "GET, PUT", fields[] = "Range, X-Requested-With", expose[] = "ETag";
    const struct config_cors rule = {.origins = some,
                                     .methods = methods,
                                     .fields = fields,
                                     .expose = expose,
                                     .has_max_age = true,
                                     .max_age_s = 3600,
                                     .credentials = true};
    struct scene scene;

    (void)state;
    open_scene(&scene, &rule, ORIGIN);
    scene.transaction.preflight = true;
    assert_string_equal(write_fields(&scene),
                        VARIES "Access-Control-Allow-Origin: https://a.example\r\n"
                               "Access-Control-Allow-Credentials: true\r\n"
                               "Access-Control-Allow-Methods: GET, PUT\r\n"
                               "Access-Control-Allow-Headers: Range, X-Requested-With\r\n"
                               "Access-Control-Max-Age: 3600\r\n");
}

static void preflight_permits_get_and_head_by_default(void **state)
{
    const struct config_cors rule = {.origins = every};
    struct scene scene;

    (void)state;
    open_scene(&scene, &rule, ORIGIN ASKS);
    scene.transaction.preflight = true;
    assert_string_equal(write_fields(&scene), "Access-Control-Allow-Origin: *\r\n"
                                              "Access-Control-Allow-Methods: GET, HEAD\r\n");
}

/* A browser then asks before each request. */
static void max_age_of_zero_is_written(void **state)
{
    const struct config_cors rule = {.origins = every, .has_max_age = true};
    struct scene scene;

    (void)state;
    open_scene(&scene, &rule, ORIGIN ASKS);
    scene.transaction.preflight = true;
    assert_non_null(strstr(write_fields(&scene), "\r\nAccess-Control-Max-Age: 0\r\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(preflight_is_options_with_both_fields),
        cmocka_unit_test(every_origin_is_allowed),
        cmocka_unit_test(only_listed_origins_are_allowed),
        cmocka_unit_test(response_to_every_origin_does_not_vary),
        cmocka_unit_test(response_names_the_origin_and_what_pages_may_read),
        cmocka_unit_test(response_to_another_origin_only_varies),
        cmocka_unit_test(preflight_is_answered_with_the_rule),
        cmocka_unit_test(preflight_permits_get_and_head_by_default),
        cmocka_unit_test(max_age_of_zero_is_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
