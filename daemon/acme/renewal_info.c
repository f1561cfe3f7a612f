#include "daemon/acme/renewal_info.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* The offset of "Z" or "+01:30", in seconds. Returns false if TEXT is something else. */
static bool read_offset(const char *text, int64_t *offset_s)
{
    unsigned hours, minutes;
    int used = 0;

    *offset_s = 0;
    if (strcmp(text, "Z") == 0 || strcmp(text, "z") == 0)
        return true;
    if ((text[0] != '+' && text[0] != '-') || !isdigit((unsigned char)text[1]) ||
        !isdigit((unsigned char)text[4]) ||
        sscanf(text + 1, "%2u:%2u%n", &hours, &minutes, &used) != 2 || used != 5 ||
        text[6] != '\0' || hours > 23 || minutes > 59)
        return false;
    *offset_s = (int64_t)(hours * 60 + minutes) * (text[0] == '+' ? 60 : -60);
    return true;
}

/* A time of RFC 3339, in seconds since 1970. */
static bool read_time(const char *text, int64_t *time_s)
{
    struct tm fields = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &fields);
    int64_t offset_s;

    if (rest == NULL)
        return false;
    if (*rest == '.')
        rest += 1 + strspn(rest + 1, "0123456789");
    if (!read_offset(rest, &offset_s))
        return false;
    *time_s = (int64_t)timegm(&fields) - offset_s;
    return true;
}

int renewal_info_read(const json_t *json, struct renewal_window *window)
{
    const json_t *suggested = json_object_get(json, "suggestedWindow");
    int64_t start_s, end_s;

    if (!read_time(authority_text(suggested, "start"), &start_s) ||
        !read_time(authority_text(suggested, "end"), &end_s) || start_s <= 0 || end_s <= start_s)
        return -1;
    window->start_s = start_s;
    window->end_s = end_s;
    return 0;
}

int renewal_info_fetch(struct authority *authority, const char *id, struct renewal_window *window)
{
    struct authority_answer answer;
    char url[2 * AUTHORITY_URL_MAX];
    int failed;

    snprintf(url, sizeof(url), "%s/%s", authority->renewal_info, id);
    failed = authority_get(authority, url, &answer);
    window->check_after_s = failed == 0 ? answer.retry_after_s : authority->retry_after_s;
    if (failed != 0)
        return -1;
    failed = renewal_info_read(answer.json, window);
    authority_answer_free(&answer);
    return failed == 0 ? 0 : authority_fail(authority, "%.100s has no valid suggestedWindow", url);
}
