#include "loadgen/plan/internal.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/units.h"

#include "loadgen/plan/input.h"

#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WEIGHT_MAX = 10000 };

struct list_reader {
    struct request_plan *request_plan;
    const char *file;
    uint32_t line;
    bool times;
    bool is_log; /* a line of a log was read */
    char *why;
    size_t size;
};

/* A request of a log. */
struct logged {
    char method[16];
    const char *target;
    double unix_s; /* NAN: unknown */
};

static struct input_place line_place(const struct list_reader *reader)
{
    return (struct input_place){reader->file, reader->line, reader->why, reader->size};
}

/* ---- Lists ---- */

static int read_weight(const struct list_reader *reader, const char *word, uint64_t *weight)
{
    *weight = 1;
    if (word == NULL)
        return 0;
    if (units_parse_number(word, weight) != 0 || *weight < 1 || *weight > WEIGHT_MAX)
        return input_fail(line_place(reader), "invalid weight '%s' (1-%d)", word, WEIGHT_MAX);
    return 0;
}

static bool is_method(const char *word)
{
    return word[strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-")] == '\0';
}

static int read_listed(const struct list_reader *reader, char *text)
{
    struct request_parts parts = {0};
    const char *weight_word;
    char why[256], *rest = NULL;
    uint64_t weight;

    parts.url = strtok_r(text, " \t", &rest);
    if (is_method(parts.url)) {
        parts.method = parts.url;
        parts.url = strtok_r(NULL, " \t", &rest);
    }
    if (parts.url == NULL)
        return input_fail(line_place(reader), "method without a URL");
    weight_word = strtok_r(NULL, " \t", &rest);
    if (read_weight(reader, weight_word, &weight) != 0)
        return -1;
    if (strtok_r(NULL, " \t", &rest) != NULL)
        return input_fail(line_place(reader), "unexpected word after the weight");
    for (; weight > 0; weight--)
        if (request_plan_add(reader->request_plan, &parts,
                             (struct request_entry){.file_line = reader->line}, why,
                             sizeof(why)) != 0)
            return input_fail(line_place(reader), "%s", why);
    return 0;
}

/* ---- Logs ---- */

/* Splits "GET /path HTTP/1.1" in place; the version may be missing. */
static bool read_request_line(char *text, struct logged *logged)
{
    char *rest = NULL, *method = strtok_r(text, " ", &rest);
    char *target = method != NULL ? strtok_r(NULL, " ", &rest) : NULL;

    if (target == NULL || strlen(method) >= sizeof(logged->method) || !is_method(method))
        return false;
    strcpy(logged->method, method);
    logged->target = target;
    return true;
}

/* Undoes \xHH, \" and \\ in place. */
static void unescape_log(char *text)
{
    char *to = text;

    for (const char *at = text; *at != '\0'; at++) {
        if (at[0] == '\\' && at[1] == 'x' && isxdigit((unsigned char)at[2]) &&
            isxdigit((unsigned char)at[3])) {
            const char digits[3] = {at[2], at[3], '\0'};

            *to++ = (char)strtoul(digits, NULL, 16);
            at += 3;
        } else {
            if (at[0] == '\\' && at[1] != '\0')
                at++;
            *to++ = *at;
        }
    }
    *to = '\0';
}

/* The first quoted string, unescaped in place; or NULL. */
static char *take_log_quoted(char *text)
{
    char *open = strchr(text, '"'), *close;

    if (open == NULL)
        return NULL;
    for (close = open + 1; *close != '\0' && *close != '"'; close++)
        if (*close == '\\' && close[1] != '\0')
            close++;
    if (*close == '\0')
        return NULL;
    *close = '\0';
    unescape_log(open + 1);
    return open + 1;
}

/*
 * Seconds since 1970 as a number, "2026-11-21T06:18:30.123Z", or the time of a common log in
 * brackets.
 */
static double read_json_time(const json_t *value)
{
    const char *text = json_string_value(value);
    double seconds;

    if (json_is_number(value))
        return json_number_value(value);
    seconds = text != NULL ? timestamp_read_iso(text) : NAN;
    return text != NULL && isnan(seconds) ? timestamp_read_log(text) : seconds;
}

/* The first member of OBJECT that has one of these names. */
static const json_t *member(const json_t *object, const char *const *names)
{
    const json_t *found = NULL;

    for (; found == NULL && *names != NULL; names++)
        found = json_object_get(object, *names);
    return found;
}

/* Parses TEXT and overwrites it with the strings of *logged. */
static bool read_json(char *text, struct logged *logged)
{
    static const char *const targets[] = {"target", "uri", "url", "path", NULL};
    static const char *const times[] = {"time", "timestamp", "ts", NULL};
    json_t *object = json_loads(text, 0, NULL);
    const char *line = json_string_value(json_object_get(object, "request"));
    const char *method = json_string_value(json_object_get(object, "method"));
    const char *target = json_string_value(member(object, targets));
    bool good = false;

    logged->unix_s = read_json_time(member(object, times));
    if (line != NULL) {
        memmove(text, line, strlen(line) + 1); /* shorter than TEXT, which contains it */
        good = read_request_line(text, logged);
    } else if (method != NULL && target != NULL && is_method(method) &&
               strlen(method) < sizeof(logged->method)) {
        strcpy(logged->method, method);
        logged->target = strcpy(text, target);
        good = true;
    }
    json_decref(object);
    return good;
}

static bool read_line_of_log(char *text, struct logged *logged)
{
    char *line;

    if (text[0] == '{')
        return read_json(text, logged);
    logged->unix_s = timestamp_read_log(text);
    line = take_log_quoted(text);
    return line != NULL && read_request_line(line, logged);
}

/* Whether the request can be sent without a body, which a log does not have. */
static bool can_be_sent(const struct logged *logged)
{
    return strcmp(logged->method, "GET") == 0 || strcmp(logged->method, "HEAD") == 0 ||
           strcmp(logged->method, "OPTIONS") == 0;
}

static int skip(const struct list_reader *reader)
{
    reader->request_plan->skipped++;
    return 0;
}

static int read_logged(const struct list_reader *reader, char *text)
{
    struct logged logged;
    struct request_entry entry = {.file_line = reader->line};
    struct request_parts parts;
    char why[256];
    int result;

    if (!read_line_of_log(text, &logged) || !can_be_sent(&logged) || logged.target[0] != '/')
        return skip(reader);
    if (reader->times && !(logged.unix_s >= 0))
        return reader->request_plan->entry_count > 0
                   ? skip(reader)
                   : input_fail(line_place(reader),
                                "no time in this line, which --replay needs; use -f to send the "
                                "requests without timing");
    entry.due_ns = (uint64_t)(logged.unix_s * 1e9);
    parts = (struct request_parts){.method = logged.method, .path = logged.target};
    result = request_plan_add(reader->request_plan, &parts, entry, why, sizeof(why));
    if (result > 0)
        return skip(reader);
    return result == 0 ? 0 : input_fail(line_place(reader), "%s", why);
}

static bool is_of_log(const char *text)
{
    return (text[0] == '{' && text[1] != '{') || strchr(text, '"') != NULL;
}

static int read_listed_line(void *context, char *text, size_t length)
{
    struct list_reader *reader = context;
    bool cut = strlen(text) != length; /* a NUL byte, as in a log after a crash of the machine */

    reader->line++;
    text += strspn(text, " \t");
    text[strcspn(text, "\r\n")] = '\0';
    if (cut)
        return reader->is_log || reader->times || is_of_log(text)
                   ? skip(reader)
                   : input_fail(line_place(reader), "not text: it contains a NUL byte");
    if (text[0] == '\0' || text[0] == '#')
        return 0;
    reader->is_log = reader->is_log || is_of_log(text);
    if (reader->is_log)
        return is_of_log(text) ? read_logged(reader, text) : skip(reader);
    if (reader->times)
        return input_fail(
            line_place(reader),
            "not a line of an access log, which --replay needs; use -f for a list of URLs");
    return read_listed(reader, text);
}

/* ---- Times of a replay ---- */

static int compare_entries(const void *one, const void *other)
{
    const struct request_entry *a = one, *b = other;

    if (a->due_ns != b->due_ns)
        return a->due_ns < b->due_ns ? -1 : 1;
    return a->file_line < b->file_line ? -1 : a->file_line > b->file_line;
}

/*
 * Logs are written when responses end, often with times in whole seconds: sorts the entries,
 * spreads those of one second evenly over it, and makes the times relative to the first.
 */
static void set_times(struct request_plan *request_plan)
{
    uint64_t first;
    double speed = request_plan->plan->replay_speed;

    qsort(request_plan->entries, request_plan->entry_count, sizeof(*request_plan->entries),
          compare_entries);
    first = request_plan->entry_count > 0 ? request_plan->entries[0].due_ns : 0;
    for (size_t i = 0, end; i < request_plan->entry_count; i = end) {
        uint64_t due_ns = request_plan->entries[i].due_ns;

        for (end = i + 1;
             end < request_plan->entry_count && request_plan->entries[end].due_ns == due_ns; end++)
            continue;
        for (size_t k = i; k < end; k++) {
            double spread = due_ns % NS_PER_S == 0 ? (double)(k - i) / (double)(end - i) * 1e9 : 0;

            request_plan->entries[k].due_ns =
                (uint64_t)(((double)(due_ns - first) + spread) / speed);
        }
    }
}

int request_file_read(struct request_plan *request_plan, const char *file, bool times, char *why,
                      size_t size)
{
    struct list_reader reader = {request_plan, file, 0, times, false, why, size};
    int result = input_each_line(file, read_listed_line, &reader, why, size);

    if (result == 0 && times)
        set_times(request_plan);
    return result;
}
