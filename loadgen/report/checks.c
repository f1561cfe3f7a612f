#include "loadgen/report/checks.h"

#include "common/units.h"

#include <inttypes.h>
#include <string.h>

enum { CHECKS_MAX = PLAN_CONDITIONS_MAX * 2 + 2, CHECK_TEXT = 160 };

struct check {
    const char *name;
    bool failed;
    char text[CHECK_TEXT]; /* what was measured */
};

struct checks {
    struct check of[CHECKS_MAX];
    size_t count;
};

static struct check *add(struct checks *checks, const char *name, bool failed)
{
    struct check *check = &checks->of[checks->count++];

    *check = (struct check){.name = name, .failed = failed};
    return check;
}

static bool is_time(const struct condition *condition)
{
    return condition->metric == CONDITION_PERCENTILE || condition->metric == CONDITION_MEAN ||
           condition->metric == CONDITION_MAX;
}

static const char *format_value(char *text, size_t size, const struct condition *condition,
                                double value)
{
    if (is_time(condition))
        return units_format_ns(text, size, value);
    snprintf(text, size, "%.6g", value);
    return text;
}

static void add_conditions(struct checks *checks, const struct result *result,
                           const struct condition *conditions, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct condition *condition = &conditions[i];
        bool failed = tally_meets_condition(&result->tally, condition, result->elapsed_ns) ||
                      result->aborted_by == condition;
        struct check *check = add(checks, condition->text, failed);
        char value[UNITS_TEXT], limit[UNITS_TEXT];
        double number;

        if (!tally_condition_value(&result->tally, condition, result->elapsed_ns, &number))
            snprintf(check->text, CHECK_TEXT, "not measured");
        else
            snprintf(check->text, CHECK_TEXT, "measured: %s, limit: %s",
                     format_value(value, sizeof(value), condition, number),
                     format_value(limit, sizeof(limit), condition, condition->limit));
    }
}

static void fill(struct checks *checks, const struct result *result)
{
    const struct plan *plan = result->plan;
    uint64_t answered = tally_get(&result->tally, TALLY_answered);
    double percent = result_bad_percent(result);

    checks->count = 0;
    snprintf(add(checks, "responses", answered == 0)->text, CHECK_TEXT,
             "%" PRIu64 " of %" PRIu64 " requests were answered", answered,
             tally_get(&result->tally, TALLY_begun));
    snprintf(add(checks, "errors", percent > plan->max_errors)->text, CHECK_TEXT,
             "%" PRIu64 " errors (%.3g%%), allowed: %g%%", tally_bad(&result->tally), percent,
             plan->max_errors);
    add_conditions(checks, result, plan->fail_if, plan->fail_if_count);
    add_conditions(checks, result, plan->abort_on, plan->abort_on_count);
}

static size_t count_failed(const struct checks *checks)
{
    size_t failed = 0;

    for (size_t i = 0; i < checks->count; i++)
        failed += checks->of[i].failed;
    return failed;
}

/* ---- JUnit ---- */

/* Characters that XML 1.0 excludes become question marks. */
static void put_xml(FILE *out, const char *text)
{
    for (; *text != '\0'; text++)
        switch (*text) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        default:
            fputc((unsigned char)*text >= 0x20 ? *text : '?', out);
        }
}

int result_write_junit(FILE *out, const struct result *result)
{
    double seconds = (double)result->elapsed_ns / 1e9;
    struct checks checks;

    fill(&checks, result);
    fprintf(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    fprintf(out, "  <testsuite name=\"wsload\" tests=\"%zu\" failures=\"%zu\" time=\"%.3f\">\n",
            checks.count, count_failed(&checks), seconds);
    for (size_t i = 0; i < checks.count; i++) {
        fputs("    <testcase classname=\"", out);
        put_xml(out, result->url);
        fputs("\" name=\"", out);
        put_xml(out, checks.of[i].name);
        fprintf(out, "\" time=\"%.3f\">\n      <%s>", seconds,
                checks.of[i].failed ? "failure" : "system-out");
        put_xml(out, checks.of[i].text);
        fprintf(out, "</%s>\n    </testcase>\n", checks.of[i].failed ? "failure" : "system-out");
    }
    fputs("  </testsuite>\n</testsuites>\n", out);
    return 0;
}
