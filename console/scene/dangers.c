#include "console/scene/dangers.h"

#include "common/macros.h"
#include "common/units.h"
#include "console/data/tunables.h"

#include <stdio.h>
#include <string.h>

enum when { ALWAYS, FEWER };

static const struct {
    const char *command;
    enum when when;
    const char *question;
} dangers[] = {
#define DANGER(command, when, question) {command, when, question},
#include "console/scene/dangers.def"
#undef DANGER
};

static bool is_fewer(const char *const *words, int count, const struct watch *watch)
{
    enum tunable tunable = strcmp(words[0], "workers") == 0 ? TUNABLE_WORKERS : TUNABLE_THREADS;
    uint64_t number;

    return count > 1 && units_parse_number(words[1], &number) == 0 &&
           number + 1 < watch_wanted(watch, tunable);
}

/* What the daemon is sure to refuse, in words of its own, is not asked back. */
static bool is_refused(const char *const *words, int count)
{
    bool of_workers = strcmp(words[0], "drain") == 0 || strcmp(words[0], "restart") == 0;
    uint64_t number;

    if (count < 2 || strcmp(words[1], "all") == 0)
        return false;
    return units_parse_number(words[1], &number) != 0 || (number == 0 && !of_workers);
}

bool danger_question(const char *const *words, int count, const struct watch *watch, char *buffer,
                     size_t size)
{
    for (size_t i = 0; i < ARRAY_LENGTH(dangers); i++) {
        const char *where = strstr(dangers[i].question, "%s");

        if (strcmp(words[0], dangers[i].command) != 0 ||
            (dangers[i].when == FEWER && !is_fewer(words, count, watch)) ||
            is_refused(words, count))
            continue;
        if (where == NULL)
            snprintf(buffer, size, "%s", dangers[i].question);
        else
            snprintf(buffer, size, "%.*s%s%s", (int)(where - dangers[i].question),
                     dangers[i].question, count > 1 ? words[1] : "(all)", where + 2);
        return true;
    }
    return false;
}
