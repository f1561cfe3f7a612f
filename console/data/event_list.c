#include "console/data/event_list.h"

#include "common/escape.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct event_list {
    struct event_row kind[EVENT_LIST_KINDS]; /* unordered */
    size_t kinds;
    struct event_row single[EVENT_LIST_SINGLE]; /* a ring */
    uint64_t singles;
    uint64_t totals[LEVEL_COUNT];
    uint64_t missed;
    uint64_t next; /* number of the event to read next */
};

struct event_list *event_list_create(void)
{
    return calloc(1, sizeof(struct event_list));
}

void event_list_destroy(struct event_list *list)
{
    free(list);
}

void event_list_attach(struct event_list *list)
{
    list->next = 0;
}

/* True if the texts are equal except for the numbers. */
static bool alike(const char *a, const char *b)
{
    while (*a != '\0' && *b != '\0') {
        if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
            a += strspn(a, "0123456789");
            b += strspn(b, "0123456789");
        } else if (*a++ != *b++) {
            return false;
        }
    }
    return *a == *b;
}

static struct event_row *kind_of(struct event_list *list, const struct event_row *row)
{
    struct event_row *oldest = &list->kind[0];

    for (size_t i = 0; i < list->kinds; i++) {
        struct event_row *kind = &list->kind[i];

        if (kind->level == row->level && kind->role == row->role && alike(kind->text, row->text))
            return kind;
        if (kind->last_ns < oldest->last_ns)
            oldest = kind;
    }
    if (list->kinds < EVENT_LIST_KINDS)
        oldest = &list->kind[list->kinds++];
    *oldest = *row;
    oldest->count = 0;
    return oldest;
}

void event_list_add(struct event_list *list, const struct event_record *event)
{
    struct event_row row = {.first_ns = event->time_ns,
                            .last_ns = event->time_ns,
                            .count = 1,
                            .level = event->level < LEVEL_COUNT ? event->level : LEVEL_ERROR,
                            .role = event->role < ROLE_COUNT ? event->role : ROLE_MASTER,
                            .pid = event->pid};
    struct event_row *kind;

    escape_bytes(row.text, sizeof(row.text), event->text, strnlen(event->text, EVENT_TEXT_BYTES));
    kind = kind_of(list, &row);
    row.first_ns = kind->first_ns;
    row.count = kind->count + 1;
    *kind = row;
    row.first_ns = row.last_ns;
    row.count = 1;
    list->single[list->singles++ % EVENT_LIST_SINGLE] = row;
    list->totals[row.level]++;
}

size_t event_list_read(struct event_list *list, const struct segment_reader *reader,
                       uint64_t wall_ns)
{
    const struct event_ring *ring = segment_events(&reader->map);
    struct event_record event;
    size_t taken = 0;
    int result;

    for (uint64_t before = list->next;
         (result = event_ring_read(ring, &list->next, wall_ns, &event)) != 0; before = list->next) {
        if (result > 0) {
            event_list_add(list, &event);
            taken++;
        } else {
            list->missed += list->next - before;
        }
    }
    return taken;
}

static int newer_first(const void *a, const void *b)
{
    const struct event_row *left = *(const struct event_row *const *)a;
    const struct event_row *right = *(const struct event_row *const *)b;

    if (left->last_ns != right->last_ns)
        return left->last_ns > right->last_ns ? -1 : 1;
    return strcmp(left->text, right->text);
}

static bool wanted(const struct event_row *row, enum level min_level, uint64_t until_ns)
{
    return row->level >= (uint8_t)min_level && row->first_ns <= until_ns;
}

static size_t single_rows(const struct event_list *list, enum level min_level, uint64_t until_ns,
                          const struct event_row **rows, size_t room)
{
    uint64_t kept = list->singles < EVENT_LIST_SINGLE ? list->singles : EVENT_LIST_SINGLE;
    size_t count = 0;

    for (uint64_t back = 1; back <= kept && count < room; back++) {
        const struct event_row *row = &list->single[(list->singles - back) % EVENT_LIST_SINGLE];

        if (wanted(row, min_level, until_ns))
            rows[count++] = row;
    }
    return count;
}

size_t event_list_rows(const struct event_list *list, bool single, enum level min_level,
                       uint64_t until_ns, const struct event_row **rows, size_t room)
{
    const struct event_row *all[EVENT_LIST_KINDS];
    size_t count = 0;

    if (single)
        return single_rows(list, min_level, until_ns, rows, room);
    for (size_t i = 0; i < list->kinds; i++)
        if (wanted(&list->kind[i], min_level, until_ns))
            all[count++] = &list->kind[i];
    qsort(all, count, sizeof(*all), newer_first);
    count = count < room ? count : room;
    memcpy(rows, all, count * sizeof(*all));
    return count;
}

uint64_t event_list_total(const struct event_list *list, enum level level)
{
    return list->totals[level];
}

uint64_t event_list_missed(const struct event_list *list)
{
    return list->missed;
}
