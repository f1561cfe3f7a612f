#include "loadgen/engine/page_load.h"

#include <stdlib.h>
#include <string.h>

enum entry_state {
    ENTRY_WAITS,
    ENTRY_SENT,
    ENTRY_ARRIVES, /* the first bytes of its body have arrived */
    ENTRY_GOOD,    /* a complete response with an expected status */
    ENTRY_ODD,     /* a complete response with another one: what it caused is requested, too */
    ENTRY_FAILED,
};

struct browser {
    bool visiting, loading; /* a page; between two pages of a visit it may think */
    bool counted;           /* the page is not part of the warm-up */
    size_t page;            /* the current or next one */
    uint32_t in_flight;
    uint64_t begun_ns;
    struct event *arrival; /* begins what an incomplete response causes */
    uint8_t state[];       /* enum entry_state of each entry of the plan */
};

struct scenario_tally *page_tally_create(const struct request_plan *request_plan)
{
    struct scenario_tally *tally = scenario_tally_allocate(request_plan->page_count);

    for (size_t i = 0; tally != NULL && i < request_plan->page_count; i++) {
        tally->row[i].weight = 1;
        tally->row[i].name = strdup(request_plan->pages[i].name);
        if (tally->row[i].name == NULL) {
            scenario_tally_free(tally);
            return NULL;
        }
    }
    return tally;
}

bool browser_is_visiting(const struct slot *slot)
{
    return slot->browser != NULL && slot->browser->visiting;
}

static struct scenario_row *page_row(const struct driver *driver, const struct browser *browser)
{
    return &driver->config.scenario_tally->row[browser->page];
}

/* Whether entry NUMBER is to be sent: what caused it has its response, or enough of it. */
static bool is_caused(const struct request_plan *request_plan, const struct browser *browser,
                      size_t number)
{
    const struct cause *cause = &request_plan->causes[number];

    if (browser->state[number] != ENTRY_WAITS)
        return false;
    if (cause->entry == REQUEST_PLAN_NO_CAUSE)
        return true;
    return browser->state[cause->entry] == ENTRY_GOOD ||
           browser->state[cause->entry] == ENTRY_ODD ||
           (cause->early && browser->state[cause->entry] == ENTRY_ARRIVES);
}

static bool has_caused(const struct request_plan *request_plan, const struct browser *browser)
{
    const struct page *page = &request_plan->pages[browser->page];

    for (size_t i = page->first; i < page->first + page->count; i++)
        if (is_caused(request_plan, browser, i))
            return true;
    return false;
}

/* Begins the requests of the page that are to be sent, while slots are idle. */
static void send_caused(struct driver *driver, struct slot *first, uint64_t due_ns, uint64_t now_ns)
{
    const struct request_plan *request_plan = driver->config.request_plan;
    struct browser *browser = first->browser;
    const struct page *page = &request_plan->pages[browser->page];
    uint32_t number = first->number, end = number + driver->config.plan->streams;

    for (size_t i = page->first; i < page->first + page->count; i++) {
        if (!is_caused(request_plan, browser, i))
            continue;
        while (number < end && driver->slots[number]->state == SLOT_BUSY)
            number++;
        if (number == end)
            return;
        browser->state[i] = ENTRY_SENT;
        browser->in_flight++;
        driver->slots[number]->list_position = i;
        slot_begin_entry(driver, number, &request_plan->entries[i], due_ns, now_ns);
    }
}

static void on_arrival(evutil_socket_t fd, short events, void *context)
{
    struct slot *first = context;
    struct driver *driver = first->driver;
    uint64_t now_ns = clock_monotonic_ns();

    (void)fd;
    (void)events;
    if (!first->browser->loading || !budget_share_allows(driver->config.share, now_ns))
        return;
    send_caused(driver, first, now_ns, now_ns);
    driver->config.engine->flush(driver->engine);
}

void browser_see_body(const struct driver *driver, const struct slot *slot)
{
    struct browser *browser = slot_leader(driver, slot->number)->browser;

    if (browser->state[slot->list_position] != ENTRY_SENT)
        return;
    browser->state[slot->list_position] = ENTRY_ARRIVES;
    event_active(browser->arrival, EV_TIMEOUT, 0);
}

struct browser *browser_create(const struct driver *driver, struct slot *slot)
{
    struct browser *browser =
        calloc(1, sizeof(*browser) + driver->config.request_plan->entry_count);

    if (browser != NULL)
        browser->arrival = event_new(driver->config.base, -1, 0, on_arrival, slot);
    if (browser != NULL && browser->arrival != NULL)
        return browser;
    free(browser);
    return NULL;
}

void browser_free(struct browser *browser)
{
    if (browser != NULL)
        event_free(browser->arrival);
    free(browser);
}

void browser_begin_page(struct driver *driver, struct slot *slot, uint64_t due_ns, uint64_t now_ns)
{
    struct browser *browser = slot->browser;

    browser->loading = true;
    browser->begun_ns = due_ns;
    browser->counted = driver_is_counted(driver, due_ns);
    slot->state = SLOT_WAITING;
    page_row(driver, browser)->begun += browser->counted ? 1 : 0;
    send_caused(driver, slot, due_ns, now_ns);
}

void browser_begin_visit(struct driver *driver, struct slot *slot, uint64_t due_ns, uint64_t now_ns)
{
    const struct driver_config *config = &driver->config;

    for (uint32_t i = slot->number; i < slot->number + config->plan->streams; i++)
        config->engine->close(driver->engine, i);
    memset(slot->browser->state, ENTRY_WAITS, config->request_plan->entry_count);
    slot->browser->visiting = true;
    slot->browser->page = 0;
    driver->running++;
    browser_begin_page(driver, slot, due_ns, now_ns);
}

static void end_visit(struct driver *driver, struct browser *browser)
{
    browser->visiting = false;
    driver->running--;
}

static void end_page(struct driver *driver, struct browser *browser, uint64_t now_ns)
{
    const struct request_plan *request_plan = driver->config.request_plan;
    const struct page *page = &request_plan->pages[browser->page];
    struct scenario_row *row = page_row(driver, browser);
    bool good = true;

    for (size_t i = page->first; good && i < page->first + page->count; i++)
        good = browser->state[i] == ENTRY_GOOD;
    if (browser->counted) {
        row->good += good ? 1 : 0;
        row->failed += good ? 0 : 1;
        if (good)
            histogram_record(&row->times, now_ns - browser->begun_ns);
    }
    browser->loading = false;
    if (++browser->page == request_plan->page_count)
        end_visit(driver, browser);
}

struct slot *browser_end_request(struct driver *driver, struct slot *slot,
                                 const struct transaction *transaction, uint64_t now_ns)
{
    uint32_t streams = driver->config.plan->streams;
    struct slot *first = driver->slots[slot->number - slot->number % streams];
    struct browser *browser = first->browser;

    slot->state = SLOT_WAITING;
    browser->in_flight--;
    browser->state[slot->list_position] = transaction->error != ERROR_KIND_NONE ? ENTRY_FAILED
                                          : transaction->bad_status || transaction->bad_content
                                              ? ENTRY_ODD
                                              : ENTRY_GOOD;
    if (budget_share_allows(driver->config.share, now_ns))
        send_caused(driver, first, now_ns, now_ns);
    if (browser->in_flight > 0)
        return NULL;
    if (has_caused(driver->config.request_plan, browser)) { /* the run is over */
        browser_leave(driver, first);
        return NULL;
    }
    end_page(driver, browser, now_ns);
    return first;
}

void browser_leave(struct driver *driver, struct slot *slot)
{
    struct browser *browser = slot->browser;

    if (!browser_is_visiting(slot))
        return;
    page_row(driver, browser)->open += browser->loading && browser->counted ? 1 : 0;
    browser->loading = false;
    end_visit(driver, browser);
}
