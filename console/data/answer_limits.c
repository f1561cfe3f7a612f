#include "console/data/answer_limits.h"

#include "common/clock.h"
#include "common/units.h"

void answer_print_limits(const char *command, const json_t *answer, FILE *out)
{
    const json_t *list = json_object_get(answer, "limits");

    (void)command;
    if (json_array_size(list) == 0)
        fprintf(out, "no client has a limit of its own");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *limit = json_array_get(list, i);
        uint64_t left_s = (uint64_t)json_integer_value(json_object_get(limit, "remaining_s"));
        char left[UNITS_TEXT], rate[UNITS_TEXT] = "blocked";

        if (!json_is_true(json_object_get(limit, "blocked")))
            snprintf(rate, sizeof(rate), "%lld/s",
                     (long long)json_integer_value(json_object_get(limit, "requests_per_second")));
        fprintf(out, "%s%-24s %-10s for another %s, %lld rejected", i > 0 ? "\n" : "",
                json_string_value(json_object_get(limit, "client")), rate,
                units_format_age(left, sizeof(left), left_s * NS_PER_S),
                (long long)json_integer_value(json_object_get(limit, "rejected")));
    }
}
