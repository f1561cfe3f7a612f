#include "common/tables.h"

#include "tests/test.h"

static const char *const asked[] = {
#define CONFIRM(command, when, by, question) command,
#include "console/scene/confirmations.def"
#undef CONFIRM
};

/* No key and no typed line changes the server without a question. */
TEST(every_change_has_a_question)
{
    for (int i = 0; i < COMMAND_COUNT; i++)
        if ((table_find(command_table[i].name, asked, sizeof(asked) / sizeof(asked[0])) >= 0) !=
            (command_table[i].changes != NEVER))
            fail_msg("confirmations.def and commands.def differ about '%s'", command_table[i].name);
}
