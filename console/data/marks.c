#include "console/data/marks.h"

#include "common/macros.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

const struct mark_info mark_table[MARK_KINDS] = {
#define MARK(name, letter, severe, help) {#name, letter, severe, help},
#include "console/data/marks.def"
#undef MARK
};

static const struct {
    enum mark_kind kind;
    const char *pattern;
} rules[] = {
#define MARK_EVENT(name, pattern) {MARK_##name, pattern},
#include "console/data/marks.def"
#undef MARK_EVENT
};

void marks_add(struct marks *marks, enum mark_kind kind, uint64_t time_ns, const char *text)
{
    size_t at = marks->count;

    while (at > 0 && marks->mark[at - 1].time_ns > time_ns)
        at--;
    for (size_t i = at; i > 0 && marks->mark[i - 1].time_ns == time_ns; i--)
        if (strcmp(marks->mark[i - 1].text, text) == 0)
            return;
    if (marks->count == MARKS_MAX) {
        if (at == 0)
            return; /* older than all */
        at--;
        memmove(&marks->mark[0], &marks->mark[1], at * sizeof(marks->mark[0]));
    } else {
        memmove(&marks->mark[at + 1], &marks->mark[at],
                (marks->count - at) * sizeof(marks->mark[0]));
        marks->count++;
    }
    marks->mark[at] = (struct mark){.time_ns = time_ns, .kind = kind};
    snprintf(marks->mark[at].text, sizeof(marks->mark[at].text), "%s", text);
}

enum mark_kind marks_kind_of(const char *text)
{
    for (size_t i = 0; i < ARRAY_LENGTH(rules); i++)
        if (fnmatch(rules[i].pattern, text, 0) == 0)
            return rules[i].kind;
    return MARK_KINDS;
}

void marks_take_events(struct marks *marks, const struct event_list *list, size_t count)
{
    const struct event_row *rows[EVENT_LIST_SINGLE];

    count = count < EVENT_LIST_SINGLE ? count : EVENT_LIST_SINGLE;
    count = count > 0 ? event_list_rows(list, true, LEVEL_DEBUG, UINT64_MAX, rows, count) : 0;
    while (count-- > 0) {
        enum mark_kind kind = marks_kind_of(rows[count]->text);

        if (kind != MARK_KINDS)
            marks_add(marks, kind, rows[count]->last_ns, rows[count]->text);
    }
}

const struct mark *marks_between(const struct marks *marks, size_t count, uint64_t from_ns,
                                 uint64_t to_ns)
{
    const struct mark *found = NULL;

    for (size_t i = count; i > 0; i--) {
        const struct mark *mark = &marks->mark[i - 1];

        if (mark->time_ns > to_ns)
            continue;
        if (mark->time_ns <= from_ns)
            break;
        if (found == NULL || mark->kind < found->kind)
            found = mark;
    }
    return found;
}

const struct mark *marks_next(const struct marks *marks, uint64_t time_ns, bool earlier)
{
    const struct mark *found = NULL;

    for (size_t i = 0; i < marks->count; i++) {
        const struct mark *mark = &marks->mark[i];

        if (earlier && mark->time_ns < time_ns)
            found = mark;
        if (!earlier && mark->time_ns > time_ns)
            return mark;
    }
    return found;
}
