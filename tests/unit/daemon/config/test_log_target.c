#include "daemon/config/value.h"

#include "common/macros.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <syslog.h>

static void log_target_of_each_kind_is_parsed(void **state)
{
    static const struct {
        const char *text;
        enum log_target_kind kind;
        int facility;
        const char *path;
        bool word;
    } cases[] = {
        {"/var/log/a.log", LOG_TARGET_FILE, 0, "/var/log/a.log", false},
        {"syslogs", LOG_TARGET_FILE, 0, "syslogs", false},
        {"journald.log", LOG_TARGET_FILE, 0, "journald.log", false},
        {"-", LOG_TARGET_FILE, 0, "-", true},
        {"off", LOG_TARGET_OFF, 0, "off", true},
        {"syslog:", LOG_TARGET_SYSLOG, LOG_DAEMON, "/dev/log", true},
        {"syslog:local7", LOG_TARGET_SYSLOG, LOG_LOCAL7, "/dev/log", true},
        {"syslog:@/run/x", LOG_TARGET_SYSLOG, LOG_DAEMON, "/run/x", true},
        {"syslog:user@/run/x", LOG_TARGET_SYSLOG, LOG_USER, "/run/x", true},
        {"journald", LOG_TARGET_JOURNALD, 0, "/run/systemd/journal/socket", true},
        {"journald:@/run/j", LOG_TARGET_JOURNALD, 0, "/run/j", true},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct log_target target;

        assert_null(log_target_parse(cases[i].text, &target));
        assert_int_equal(target.kind, cases[i].kind);
        assert_int_equal(target.syslog_facility, cases[i].facility);
        assert_string_equal(target.path, cases[i].path);
        assert_int_equal(log_target_is_word(cases[i].text), cases[i].word);
    }
}

static void bad_log_target_names_the_fault(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {{"", "no path"},
                 {"syslog:local9", "unknown syslog facility"},
                 {"syslog:localhost:514", "unknown syslog facility"},
                 {"syslog:local1@run/x", "begins with '@/'"},
                 {"journald:/run/j", "begins with '@/'"}};
    struct log_target target;
    char text[256] = "syslog:@/";

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        const char *problem = log_target_parse(cases[i].text, &target);

        assert_non_null(problem);
        assert_non_null(strstr(problem, cases[i].message));
    }
    memset(text + strlen(text), 'x', 120);
    assert_non_null(strstr(log_target_parse(text, &target), "107 bytes"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(log_target_of_each_kind_is_parsed),
        cmocka_unit_test(bad_log_target_names_the_fault),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
