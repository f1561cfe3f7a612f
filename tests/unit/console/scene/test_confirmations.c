#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/tables.h"
#include "console/scene/confirmations.h"

/* No key and no typed line changes the server without a question. */
static void every_change_has_a_question(void **state)
{
    (void)state;
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (confirmation_exists(command_table[i].name) != (command_table[i].changes != NEVER))
            fail_msg("confirmations.def and commands.def differ about '%s'", command_table[i].name);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_change_has_a_question),
    };

    return cmocka_run_group_tests_name("confirmations", tests, NULL, NULL);
}
