/* Windows of renewal information, as an authority may send them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/macros.h"
#include "daemon/acme/renewal_info.h"

#include <stdio.h>

static int read_times(const char *start, const char *end, struct renewal_window *window)
{
    json_t *json = json_pack("{s:{s:s, s:s}}", "suggestedWindow", "start", start, "end", end);
    int failed = renewal_info_read(json, window);

    json_decref(json);
    return failed;
}

static void times_are_those_of_rfc_3339(void **state)
{
    static const struct {
        const char *end;
        int64_t end_s; /* 0: not valid */
    } examples[] = {
        {"2025-01-03T04:00:00Z", 1735876800},
        {"2025-01-03T04:00:00z", 1735876800},
        {"2025-01-03T04:00:00.123456789Z", 1735876800},
        {"2025-01-03T04:00:00+01:30", 1735871400},
        {"2025-01-03T04:00:00-01:30", 1735882200},
        {"2025-01-03T04:00:00", 0},
        {"2025-01-03T04:00:00+1:30", 0},
        {"2025-01-03T04:00:00+01:3", 0},
        {"2025-01-03T04:00:00+01:300", 0},
        {"2025-01-03T04:00:00+99:00", 0},
        {"2025-01-03T04:00:00+-1:30", 0},
        {"2025-01-03 04:00:00Z", 0},
        {"2025-13-03T04:00:00Z", 0},
        {"2025-01-03T04:00:00ZZ", 0},
        {"soon", 0},
        {"", 0},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(examples); i++) {
        struct renewal_window window = {0};
        int failed = read_times("2025-01-02T00:00:00Z", examples[i].end, &window);

        if (failed != (examples[i].end_s > 0 ? 0 : -1) || window.end_s != examples[i].end_s)
            fail_msg("'%s': %d, %ld", examples[i].end, failed, (long)window.end_s);
    }
}

static void start_must_be_before_end(void **state)
{
    struct renewal_window window = {.start_s = 7, .end_s = 8};

    (void)state;
    assert_int_equal(read_times("2025-01-03T00:00:00Z", "2025-01-02T00:00:00Z", &window), -1);
    assert_int_equal(read_times("2025-01-02T00:00:00Z", "2025-01-02T00:00:00Z", &window), -1);
    assert_int_equal(read_times("1960-01-02T00:00:00Z", "2025-01-02T00:00:00Z", &window), -1);
    assert_int_equal(window.start_s, 7);
    assert_int_equal(window.end_s, 8);
    assert_int_equal(read_times("2025-01-01T00:00:00Z", "2025-01-02T00:00:00Z", &window), 0);
    assert_int_equal(window.start_s, 1735689600);
}

static void anything_else_is_refused(void **state)
{
    static const char *const texts[] = {"{}", "{\"suggestedWindow\": null}",
                                        "{\"suggestedWindow\": [1, 2]}",
                                        "{\"suggestedWindow\": {\"start\": 1, \"end\": 2}}",
                                        "{\"suggestedWindow\": {\"start\": {}, \"end\": []}}"};
    struct renewal_window window = {0};

    (void)state;
    assert_int_equal(renewal_info_read(NULL, &window), -1);
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
        json_t *json = json_loads(texts[i], 0, NULL);

        assert_int_equal(renewal_info_read(json, &window), -1);
        json_decref(json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_those_of_rfc_3339),
        cmocka_unit_test(start_must_be_before_end),
        cmocka_unit_test(anything_else_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
