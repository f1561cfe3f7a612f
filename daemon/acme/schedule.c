#include "daemon/acme/internal.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* The part of VALUE, from none to all, that RANDOM selects. */
static int64_t random_part(int64_t value, uint32_t random)
{
    return (int64_t)((double)value * ((double)random / UINT32_MAX));
}

int64_t schedule_renewal(int64_t not_before_s, int64_t not_after_s, uint32_t random)
{
    int64_t life = not_after_s - not_before_s;

    return not_before_s + life * 2 / 3 - random_part(life / 20, random);
}

int64_t schedule_window(int64_t start_s, int64_t end_s, uint32_t random)
{
    return start_s + random_part(end_s - start_s, random);
}

int64_t schedule_after_failure(uint32_t failures, uint32_t retry_s, uint32_t after_s,
                               uint32_t random)
{
    int64_t delay = retry_s;

    for (uint32_t i = 1; i < failures && delay < SCHEDULE_RETRY_MAX_S; i++)
        delay *= 2;
    if (delay > SCHEDULE_RETRY_MAX_S)
        delay = SCHEDULE_RETRY_MAX_S;
    delay += random_part(delay / 10, random);
    return delay > after_s ? delay : after_s;
}

int64_t schedule_planned(int64_t planned_s, int64_t now_s)
{
    return planned_s > now_s + SCHEDULE_WAIT_MAX_S ? now_s : planned_s;
}

/* Renewal information */

/* The offset of "Z" or "+01:30", in seconds. Returns false if TEXT is something else. */
static bool read_utc_offset(const char *text, int64_t *offset_s)
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
static bool read_rfc3339(const char *text, int64_t *time_s)
{
    struct tm fields = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &fields);
    int64_t offset_s;

    if (rest == NULL)
        return false;
    if (*rest == '.')
        rest += 1 + strspn(rest + 1, "0123456789");
    if (!read_utc_offset(rest, &offset_s))
        return false;
    *time_s = (int64_t)timegm(&fields) - offset_s;
    return true;
}

int renewal_info_read(const json_t *json, struct renewal_window *window)
{
    const json_t *suggested = json_object_get(json, "suggestedWindow");
    int64_t start_s, end_s;

    if (!read_rfc3339(authority_text(suggested, "start"), &start_s) ||
        !read_rfc3339(authority_text(suggested, "end"), &end_s) || start_s <= 0 || end_s <= start_s)
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
