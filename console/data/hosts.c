#include "console/data/hosts.h"

#include "common/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BASE_NS (5 * NS_PER_S)

bool hosts_counted(const struct segment_reader *reader)
{
    return segment_count(&reader->map, SEGMENT_HOSTS) > 0 &&
           atomic_load_explicit(&segment_host(&reader->map, 0)->id, memory_order_relaxed) != 0;
}

/* Workers write the counts: one that decreases does not count. */
static uint64_t increase(uint64_t now, uint64_t before)
{
    return now > before ? now - before : 0;
}

/* Makes *INTO the increase from BEFORE to NOW. */
static void subtract(const struct host_totals *now, const struct host_totals *before,
                     struct host_totals *into)
{
    *into = *now;
    for (int i = 0; i < HOST_METRIC_COUNT; i++)
        into->values[i] = increase(now->values[i], before->values[i]);
    for (int i = 0; i < HISTOGRAM_COARSE_BUCKETS; i++)
        into->latency[i] = increase(now->latency[i], before->latency[i]);
}

/*
 * What TOTALS has in BASE, whose entries ascend as those of the caller do: *AT moves on. A host
 * that was added since then had counted nothing.
 */
static const struct host_totals *find_before(const struct host_base *base, size_t *at,
                                             const struct host_totals *totals)
{
    static const struct host_totals nothing;

    while (*at < base->count && base->all[*at].entry < totals->entry)
        (*at)++;
    return *at < base->count && base->all[*at].entry == totals->entry &&
                   base->all[*at].id == totals->id
               ? &base->all[*at]
               : &nothing;
}

static void fill_rates(struct host_row *row, const struct host_totals *increase, double seconds)
{
    static const enum host_metric classes[HOST_CLASSES] = {
        HOST_METRIC_responses_2xx, HOST_METRIC_responses_3xx, HOST_METRIC_responses_4xx,
        HOST_METRIC_responses_5xx};
    bool any = host_totals_requests(increase) > 0;

    row->requests_per_s = 0;
    for (int i = 0; i < HOST_CLASSES; i++) {
        row->class_per_s[i] = (double)increase->values[classes[i]] / seconds;
        row->requests_per_s += row->class_per_s[i];
    }
    row->sent_per_s = (double)increase->values[HOST_METRIC_body_bytes] / seconds;
    if (any) {
        row->p50_ns = (double)host_totals_percentile(increase, 50);
        row->p99_ns = (double)host_totals_percentile(increase, 99);
    }
}

static void fill_row(struct host_row *row, const struct host_totals *now)
{
    *row = (struct host_row){.id = now->id,
                             .requests_per_s = NAN,
                             .sent_per_s = NAN,
                             .share = NAN,
                             .p50_ns = NAN,
                             .p99_ns = NAN,
                             .requests = host_totals_requests(now),
                             .sent = now->values[HOST_METRIC_body_bytes]};
    for (int i = 0; i < HOST_CLASSES; i++)
        row->class_per_s[i] = NAN;
    memcpy(row->name, now->name, sizeof(row->name));
}

static int more_requests(const void *a, const void *b)
{
    const struct host_row *left = a, *right = b;

    if (left->requests != right->requests)
        return left->requests > right->requests ? -1 : 1;
    return strcmp(left->name, right->name);
}

static void fill_rows(struct host_list *list, const struct host_base *now)
{
    struct host_totals difference;
    double all_per_s = 0;
    size_t at = 0;

    list->interval_ns = list->older.time_ns > 0 ? now->time_ns - list->older.time_ns : 0;
    list->count = now->count;
    for (size_t i = 0; i < now->count; i++) {
        fill_row(&list->rows[i], &now->all[i]);
        if (list->interval_ns == 0)
            continue;
        subtract(&now->all[i], find_before(&list->older, &at, &now->all[i]), &difference);
        fill_rates(&list->rows[i], &difference, (double)list->interval_ns / (double)NS_PER_S);
    }
    for (size_t i = 0; i < list->count; i++)
        all_per_s += list->rows[i].requests_per_s;
    for (size_t i = 0; i < list->count && all_per_s > 0; i++)
        list->rows[i].share = list->rows[i].requests_per_s / all_per_s;
    if (list->count > 0)
        qsort(list->rows, list->count, sizeof(*list->rows), more_requests);
}

static void set_base(struct host_base *base, struct host_base value)
{
    free(base->all);
    *base = value;
}

/* NOW becomes a base, or is freed. */
static void keep_base(struct host_list *list, struct host_base *now)
{
    if (list->older.time_ns == 0) {
        list->older = *now;
    } else if (list->newer.time_ns == 0) {
        list->newer = *now;
    } else if (now->time_ns >= list->newer.time_ns + BASE_NS) {
        set_base(&list->older, list->newer);
        list->newer = *now;
    } else {
        free(now->all);
    }
}

static int make_host_room(struct host_list *list, size_t count)
{
    struct host_row *rows;

    if (count <= list->room)
        return 0;
    rows = realloc(list->rows, count * sizeof(*rows));
    if (rows == NULL)
        return -1;
    list->rows = rows;
    list->room = count;
    return 0;
}

int host_list_take(struct host_list *list, const struct segment_reader *reader, uint64_t now_ns)
{
    struct host_base now = {.time_ns = now_ns};
    uint64_t last_ns = list->newer.time_ns > 0 ? list->newer.time_ns : list->older.time_ns;

    if (now_ns < last_ns || now_ns - last_ns > 2 * BASE_NS) {
        set_base(&list->older, (struct host_base){.all = NULL});
        set_base(&list->newer, (struct host_base){.all = NULL});
    }
    if (now_ns == list->older.time_ns)
        return 0; /* a recording that stands still */
    if (hosts_counted(reader))
        now.all = host_totals_read_all(&reader->map, &now.count);
    if (make_host_room(list, now.count) != 0) {
        free(now.all);
        list->count = 0;
        return -1;
    }
    fill_rows(list, &now);
    keep_base(list, &now);
    return 0;
}

void host_list_release(struct host_list *list)
{
    free(list->rows);
    free(list->older.all);
    free(list->newer.all);
    *list = (struct host_list){.rows = NULL};
}

/* Names: an open hash table of strings */

enum { NAMES_MAX = 65536, FIRST_PLACES = 64 };

struct host_names {
    char **place; /* at most three quarters of them are used */
    size_t places, count;
};

struct host_names *host_names_create(void)
{
    return calloc(1, sizeof(struct host_names));
}

void host_names_destroy(struct host_names *names)
{
    for (size_t i = 0; names != NULL && i < names->places; i++)
        free(names->place[i]);
    if (names != NULL)
        free(names->place);
    free(names);
}

/* The place of NAME, or the free one for it. */
static char **find_place(char **place, size_t places, const char *name)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    size_t at;

    for (const char *byte = name; *byte != '\0'; byte++)
        hash = (hash ^ (unsigned char)*byte) * 1099511628211u;
    at = (size_t)(hash ^ hash >> 32) % places;
    while (place[at] != NULL && strcmp(place[at], name) != 0)
        at = (at + 1) % places;
    return &place[at];
}

static int grow_name_table(struct host_names *names)
{
    size_t places = names->places == 0 ? FIRST_PLACES : 2 * names->places;
    char **place = calloc(places, sizeof(*place));

    if (place == NULL)
        return -1;
    for (size_t i = 0; i < names->places; i++)
        if (names->place[i] != NULL)
            *find_place(place, places, names->place[i]) = names->place[i];
    free(names->place);
    names->place = place;
    names->places = places;
    return 0;
}

const char *host_names_keep(struct host_names *names, const char *name)
{
    char **place;

    if (names->count + 1 > names->places / 4 * 3 && grow_name_table(names) != 0)
        return "";
    place = find_place(names->place, names->places, name);
    if (*place == NULL && names->count < NAMES_MAX && (*place = strdup(name)) != NULL)
        names->count++;
    return *place != NULL ? *place : "";
}
