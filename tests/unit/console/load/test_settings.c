/* The settings of a load run, and the wsload arguments made from them. */
#include "common/macros.h"
#include "console/load/settings.h"
#include "tests/test.h"

#include <stdio.h>
#include <string.h>

static void assert_arguments(const struct load_settings *settings, const char *expected)
{
    const char *argv[LOAD_ARGUMENTS_MAX];
    char line[512] = "";

    load_settings_arguments(settings, "http://127.0.0.1:8080/", NULL, argv);
    for (size_t i = 0; argv[i] != NULL; i++) {
        strncat(line, i > 0 ? " " : "", sizeof(line) - strlen(line) - 1);
        strncat(line, argv[i], sizeof(line) - strlen(line) - 1);
    }
    assert_string_equal(line, expected);
}

TEST(settings_become_arguments)
{
    struct load_settings settings;
    char why[128], brief[128];

    load_settings_init(&settings);
    assert_arguments(&settings, "wsload --json --progress --connections 50 --duration 30s "
                                "http://127.0.0.1:8080/");
    assert_int_equal(load_settings_set(&settings, LOAD_REQUESTS, "50k", why, sizeof(why)), 0);
    assert_int_equal(load_settings_set(&settings, LOAD_DURATION, "", why, sizeof(why)), 0);
    assert_int_equal(load_settings_set(&settings, LOAD_KEEPALIVE, "off", why, sizeof(why)), 0);
    assert_int_equal(load_settings_set(&settings, LOAD_TARGET, "http://x/", why, sizeof(why)), 0);
    assert_arguments(&settings, "wsload --json --progress --connections 50 --requests 50k "
                                "--no-keepalive http://x/");
    assert_string_equal(load_settings_summary(&settings, brief, sizeof(brief)),
                        "50 connections, 50k requests, no keep-alive");
}

TEST(invalid_value_is_rejected)
{
    static const struct {
        enum load_field field;
        const char *text, *why;
    } cases[] = {
        {LOAD_CONNECTIONS, "many", "connections: invalid value 'many' (examples: 500, 50k)"},
        {LOAD_CONNECTIONS, "0", "connections: invalid value '0' (examples: 500, 50k)"},
        {LOAD_DURATION, "5x", "duration: invalid value '5x' (examples: 30s, 2m)"},
        {LOAD_KEEPALIVE, "yes", "keep-alive: invalid value 'yes' (on or off)"},
        {LOAD_KEEPALIVE, "", "keep-alive: no value (on or off)"},
        {LOAD_TARGET, "--help", "target: must not begin with a dash"},
    };
    struct load_settings settings, before;
    char why[256];

    load_settings_init(&settings);
    before = settings;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        assert_int_equal(
            load_settings_set(&settings, cases[i].field, cases[i].text, why, sizeof(why)), -1);
        assert_string_equal(why, cases[i].why);
        assert_memory_equal(&settings, &before, sizeof(before));
    }
}

TEST(every_preset_is_valid)
{
    struct load_settings settings, typed;
    char why[256];

    for (size_t i = 0; i < load_preset_count; i++) {
        load_settings_init(&settings);
        load_settings_preset(&settings, i);
        typed = settings;
        for (int field = 0; field < LOAD_FIELDS; field++)
            assert_int_equal(load_settings_set(&typed, (enum load_field)field, settings.text[field],
                                               why, sizeof(why)),
                             0);
        assert_true(settings.text[LOAD_REQUESTS][0] != '\0' ||
                    settings.text[LOAD_DURATION][0] != '\0');
    }
}

TEST(target_matches_listen_addresses)
{
    static const struct {
        const char *listening, *target;
    } cases[] = {
        {"127.0.0.1:8080 [::1]:8080", "http://127.0.0.1:8080/"},
        {"*:80", "http://127.0.0.1:80/"},
        {"unix:/run/x [::1]:81", "http://[::1]:81/"},
        {"unix:/run/x", ""},
        {"", ""},
    };
    char url[LOAD_TEXT_BYTES];

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
        assert_string_equal(load_target_default(cases[i].listening, url, sizeof(url)),
                            cases[i].target);
    assert_true(load_target_matches("http://127.0.0.1:8080/x?y", "127.0.0.1:8080"));
    assert_true(load_target_matches("http://localhost:8080", "[::1]:8080 127.0.0.1:8080"));
    assert_true(load_target_matches("http://example.org/", "*:80"));
    assert_true(load_target_matches("[::1]:81/", "[::1]:81"));
    assert_false(load_target_matches("http://127.0.0.1:8081/", "127.0.0.1:8080"));
    assert_false(load_target_matches("http://example.org:8080/", "127.0.0.1:8080"));
    assert_false(load_target_matches("http://example.org/", ""));
}
