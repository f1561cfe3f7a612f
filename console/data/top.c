#include "console/data/top.h"

#include "common/clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const top_list_names[TOP_LISTS] = {"paths",    "clients", "agents",
                                               "referers", "errors",  "slowest"};

struct pane {
    uint64_t number; /* time / TOP_PANE_S, plus 1; 0: never used */
    double seen, missed;
    struct sketch list[TOP_LISTS];
};

struct top {
    struct pane *pane[TOP_PANES]; /* made when first used */
    uint64_t since_ns;            /* what is known begins here; 0: with the first pane */
};

struct top *top_create(void)
{
    return calloc(1, sizeof(struct top));
}

void top_destroy(struct top *top)
{
    if (top == NULL)
        return;
    for (size_t i = 0; i < TOP_PANES; i++)
        free(top->pane[i]);
    free(top);
}

static uint64_t pane_number(uint64_t time_ns)
{
    return time_ns / (TOP_PANE_S * NS_PER_S) + 1;
}

/* The pane of TIME_NS, emptied if it was an older one's; NULL when that time is past, or no memory. */
static struct pane *pane_at(struct top *top, uint64_t time_ns)
{
    uint64_t number = pane_number(time_ns);
    struct pane **place = &top->pane[number % TOP_PANES];

    if (*place == NULL)
        *place = calloc(1, sizeof(**place));
    if (*place == NULL || (*place)->number > number)
        return NULL;
    if ((*place)->number < number) {
        memset(*place, 0, sizeof(**place));
        (*place)->number = number;
    }
    return *place;
}

/* The path of a request line: the second word, without its query. */
static struct span path_of(const char *request)
{
    const char *start = strchr(request, ' ');

    start = start == NULL ? request : start + 1;
    return (struct span){start, strcspn(start, " ?")};
}

static void count_key(struct pane *pane, enum top_list list, struct span key,
                      const struct tail_line *line)
{
    struct sketch_item item = {.key = key.start,
                               .length = key.length,
                               .count = 1,
                               .bytes = (double)line->body_bytes,
                               .duration_ns = (double)line->duration_ns,
                               .longest_ns = (double)line->duration_ns};

    sketch_add(&pane->list[list], list == TOP_SLOWEST ? SKETCH_BY_LONGEST : SKETCH_BY_COUNT, &item);
}

static void count_text(struct pane *pane, enum top_list list, const char *text,
                       const struct tail_line *line)
{
    if (text[0] != '\0')
        count_key(pane, list, (struct span){text, strlen(text)}, line);
}

static void count_error(struct pane *pane, struct span path, const struct tail_line *line)
{
    char key[TAIL_REQUEST_BYTES + 8];

    snprintf(key, sizeof(key), "%d %.*s", (int)line->status, (int)path.length, path.start);
    count_text(pane, TOP_ERRORS, key, line);
}

void top_add(struct top *top, const struct tail_line *line)
{
    struct pane *pane = pane_at(top, line->time_ns);
    struct span path = path_of(line->request);
    char address[TAIL_ADDRESS_TEXT];

    if (pane == NULL)
        return;
    pane->seen++;
    count_key(pane, TOP_PATHS, path, line);
    count_key(pane, TOP_SLOWEST, path, line);
    count_text(pane, TOP_CLIENTS, tail_address(line, address), line);
    count_text(pane, TOP_AGENTS, line->agent, line);
    count_text(pane, TOP_REFERERS, line->referer, line);
    if (line->status >= 400)
        count_error(pane, path, line);
}

void top_miss(struct top *top, uint64_t time_ns, uint64_t count)
{
    struct pane *pane = count > 0 ? pane_at(top, time_ns) : NULL;

    if (pane != NULL)
        pane->missed += (double)count;
}

static void collect_pane(struct top_view *into, enum top_list list, const struct pane *pane)
{
    const struct sketch *from = &pane->list[list];
    enum sketch_order order = list == TOP_SLOWEST ? SKETCH_BY_LONGEST : SKETCH_BY_COUNT;
    double scale = pane->seen > 0 ? (pane->seen + pane->missed) / pane->seen : 1;

    for (uint32_t i = 0; i < from->used; i++) {
        const struct sketch_entry *entry = &from->entry[i];
        struct sketch_item item = {.key = entry->key,
                                   .length = strlen(entry->key),
                                   .count = entry->count * scale,
                                   .error = entry->error * scale,
                                   .bytes = entry->bytes * scale,
                                   .duration_ns = entry->duration_ns * scale,
                                   .longest_ns = entry->longest_ns};

        sketch_add(&into->sketch, order, &item);
    }
    into->seen += pane->seen;
    into->missed += pane->missed;
}

void top_know_since(struct top *top, uint64_t time_ns)
{
    top->since_ns = time_ns > top->since_ns ? time_ns : top->since_ns;
}

bool top_known(const struct top *top)
{
    return top->since_ns > 0;
}

/* Seconds of the window of so many PANES that ends at END_NS. */
static uint64_t window_of(const struct top *top, uint64_t end_ns, uint64_t panes)
{
    uint64_t window = (panes - 1) * TOP_PANE_S + end_ns / NS_PER_S % TOP_PANE_S + 1;
    uint64_t known = end_ns > top->since_ns ? (end_ns - top->since_ns) / NS_PER_S + 1 : 1;

    return window < known ? window : known;
}

int top_collect(const struct top *top, enum top_list list, uint64_t end_ns, int seconds,
                struct top_view *into)
{
    uint64_t last = pane_number(end_ns), first = pane_number(top->since_ns);
    uint64_t panes = (uint64_t)(seconds + TOP_PANE_S - 1) / TOP_PANE_S;

    memset(into, 0, sizeof(*into));
    panes = panes < 1 ? 1 : panes > TOP_PANES - 1 ? TOP_PANES - 1 : panes;
    for (uint64_t i = 0; i < panes && i < last && last - i >= first; i++) {
        const struct pane *pane = top->pane[(last - i) % TOP_PANES];

        if (pane != NULL && pane->number == last - i)
            collect_pane(into, list, pane);
    }
    sketch_sort(&into->sketch, list == TOP_SLOWEST ? SKETCH_BY_LONGEST : SKETCH_BY_COUNT);
    return (int)window_of(top, end_ns, panes);
}

unsigned top_one_in(const struct top_view *view)
{
    return view->seen > 0 ? (unsigned)lround((view->seen + view->missed) / view->seen) : 1;
}
