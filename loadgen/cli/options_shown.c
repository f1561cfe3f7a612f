/* What is shown, and where; and what is taken while it runs. */
#include "loadgen/cli/options_take.h"

#include "common/units.h"

#include <stdlib.h>
#include <string.h>

static const char *const format_names[] = {
#define FORMAT(id, name, ending) [PLAN_FORMAT_##id] = (name),
#include "loadgen/plan/formats.def"
#undef FORMAT
};

bool take_format(struct reading *reading, struct typed typed)
{
    char names[64] = "";

    for (size_t i = 0; i < PLAN_FORMAT_COUNT; i++) {
        size_t used = strlen(names);

        if (strcmp(typed.value, format_names[i]) == 0) {
            reading->plan->format = (enum plan_format)i;
            return true;
        }
        snprintf(names + used, sizeof(names) - used, "%s%s", i > 0 ? ", " : "", format_names[i]);
    }
    return options_refuse(reading, "%s %s: needs one of %s", typed.spelling, typed.value, names);
}

bool take_json(struct reading *reading, struct typed typed)
{
    (void)typed;
    reading->plan->format = PLAN_FORMAT_JSON;
    return true;
}

bool take_compare(struct reading *reading, struct typed typed)
{
    reading->plan->compare = typed.value;
    return true;
}

bool take_progress(struct reading *reading, struct typed typed)
{
    (void)typed;
    reading->plan->progress_lines = true;
    return true;
}

bool take_quiet(struct reading *reading, struct typed typed)
{
    (void)typed;
    reading->plan->quiet = true;
    return true;
}

bool take_no_tui(struct reading *reading, struct typed typed)
{
    (void)typed;
    reading->plan->no_tui = true;
    return true;
}

bool take_no_color(struct reading *reading, struct typed typed)
{
    (void)typed;
    reading->plan->no_color = true;
    return true;
}

bool take_verbose(struct reading *reading, struct typed typed)
{
    (void)typed;
    reading->plan->verbose = true;
    return true;
}

bool take_fps(struct reading *reading, struct typed typed)
{
    uint64_t number;

    if (units_parse_number(typed.value, &number) != 0 || number < 1 || number > 60)
        return options_refuse(reading, "%s %s: needs a number from 1 to 60", typed.spelling,
                              typed.value);
    reading->plan->frames_per_second = (uint32_t)number;
    return true;
}

bool take_output(struct reading *reading, struct typed typed)
{
    if (typed.value[0] == '\0')
        return options_refuse(reading, "%s: needs the name of a file", typed.spelling);
    for (size_t i = 0; i < PLAN_FORMAT_COUNT; i++)
        if (strcmp(typed.value, format_names[i]) == 0)
            return options_refuse(reading,
                                  "%s %s: needs the name of a file; say --format %s for the "
                                  "format, or %s ./%s",
                                  typed.spelling, typed.value, typed.value, typed.spelling,
                                  typed.value);
    reading->plan->output = strcmp(typed.value, "-") == 0 ? NULL : typed.value;
    return true;
}

static bool add_percentile(struct plan *plan, const char *word)
{
    char *end;
    double percent = strtod(word, &end);

    if (strspn(word, "0123456789.") != strlen(word) || end == word || *end != '\0' ||
        percent <= 0 || percent >= 100 || plan->percentile_count == PLAN_PERCENTILES_MAX)
        return false;
    plan->percentiles[plan->percentile_count++] = percent;
    return true;
}

bool take_percentiles(struct reading *reading, struct typed typed)
{
    struct plan *plan = reading->plan;
    char text[256], *rest = NULL;
    bool good = strlen(typed.value) < sizeof(text);

    plan->percentile_count = 0;
    snprintf(text, sizeof(text), "%s", typed.value);
    for (char *word = strtok_r(text, ",", &rest); word && good; word = strtok_r(NULL, ",", &rest))
        good = add_percentile(plan, word);
    if (!good || plan->percentile_count == 0)
        return options_refuse(reading,
                              "%s %s: needs up to %d numbers between 0 and 100, such as "
                              "50,95,99.9; a body from a file is sent with --body-file",
                              typed.spelling, typed.value, PLAN_PERCENTILES_MAX);
    return true;
}

bool take_control_fd(struct reading *reading, struct typed typed)
{
    uint64_t fd;

    if (units_parse_number(typed.value, &fd) != 0 || fd > 1000000 || fd == 1 || fd == 2)
        return options_refuse(reading,
                              "%s %s: needs the number of an open descriptor; 0 is "
                              "standard input",
                              typed.spelling, typed.value);
    reading->plan->control_fd = (int)fd;
    return true;
}
