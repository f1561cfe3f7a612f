/* The Priority field: RFC 9218 section 4, RFC 8941 section 3.2. */
#include "daemon/http2/priority.h"

#include "common/macros.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void field_gives_urgency_and_incremental(void **state)
{
    static const struct {
        const char *field;
        int urgency;
        bool incremental;
    } cases[] = {
        {"", 3, false},
        {"u=0", 0, false},
        {"u=7", 7, false},
        {"u=8", 3, false},
        {"u=-1", 3, false},
        {"u=1.0", 3, false},
        {"u=\"1\"", 3, false},
        {"u", 3, false},
        {"i", 3, true},
        {"i=?1", 3, true},
        {"i=?0", 3, false},
        {"i=1", 3, false},
        {"u=5, i", 5, true},
        {"u=5,i", 5, true},
        {"  u=5\t,\ti  ", 5, true},
        {"i, u=5", 5, true},
        {"u=5;x=1, i;y", 5, true},
        {"u=1, u=2", 2, false}, /* the last one counts */
        {"i, i=?0", 3, false},
        {"x=\"a, i, u=1\", u=2", 2, false},
        {"x=\"\\\", i\", u=2", 2, false},
        {"x=(1 2 \"a,)\"), u=2", 2, false},
        {"_a=1, u=2", 2, false},
        {"-a=1, u=2", 2, false},
        {".a=1, u=2", 2, false},
        {"*a=1, u=2", 2, false},
        {"az09=1, u=2", 2, false},
        {"x=(1, i), u=2", 2, false},
        {"u=2, X=1", 3, false}, /* not a dictionary: all of it is ignored */
        {"u=2 i", 3, false},
        {"u=2, a b", 3, false},
        {"u=2,", 3, false},
        {"u=2,,i", 3, false},
        {"=2", 3, false},
        {"2=u", 3, false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct span field = {cases[i].field, strlen(cases[i].field)};
        struct http2_priority priority = http2_priority_read(field);

        if (priority.urgency != cases[i].urgency || priority.incremental != cases[i].incremental)
            fail_msg("'%s' is u=%d, i=%d", cases[i].field, priority.urgency, priority.incremental);
    }
}

/* In the header block other bytes follow. */
static void bytes_after_the_field_do_not_count(void **state)
{
    static const struct {
        const char *text;
        size_t length;
        int urgency;
    } cases[] = {
        {"u=2,i", 3, 2}, {"u=2 ,", 3, 2},     {"u=2 ,", 4, 2},   {"u=25", 3, 2},
        {"u=2x", 3, 2},  {"ua", 1, 3},        {"u=2, i", 5, 3},  {"u=2;a,", 5, 2},
        {" u", 1, 3},    {"u=2, a=1,", 8, 2}, {"u=2,a,", 5, 2},  {"u=2,a=\"\\xx", 8, 2},
        {"u=2 x", 3, 2}, {"u=2,ax", 5, 2},    {"u=2,a=5", 5, 2},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct span field = {cases[i].text, cases[i].length};
        struct http2_priority priority = http2_priority_read(field);

        if (priority.urgency != cases[i].urgency || priority.incremental)
            fail_msg("'%s' is u=%d, i=%d", cases[i].text, priority.urgency, priority.incremental);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(field_gives_urgency_and_incremental),
        cmocka_unit_test(bytes_after_the_field_do_not_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
