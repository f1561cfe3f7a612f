#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/tables.h"

static const char *const asked[] = {
#define CONFIRM(command, when, by, question) command,
#include "console/scene/confirmations.def"
#undef CONFIRM
};

/* No key and no typed line changes the server without a question. */
static void every_change_has_a_question(void **state)
{
    (void)state;
    for (int i = 0; i < COMMAND_COUNT; i++)
        if ((table_find(command_table[i].name, asked, sizeof(asked) / sizeof(asked[0])) >= 0) !=
            (command_table[i].changes != NEVER))
            fail_msg("confirmations.def and commands.def differ about '%s'", command_table[i].name);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_change_has_a_question),
    };

    return cmocka_run_group_tests_name("confirmations", tests, NULL, NULL);
}
