/*
 * Page loads (--page-loads): a browser loads the pages of a recording. A request begins when the
 * response to the one that caused it is complete, or its first bytes have arrived (struct cause), in
 * recorded order, on the first idle one of its slots: six connections over HTTP/1.1, the streams of
 * a connection over HTTP/2. A visit loads all pages, one after another; it begins without
 * connections, as that of another visitor.
 *
 * A browser has as many consecutive slots as the plan has streams and belongs to the first of them,
 * which the driver starts. The client thread.
 */
#ifndef LOADGEN_PAGE_LOAD_H
#define LOADGEN_PAGE_LOAD_H

#include "loadgen/engine/slot.h"

/* A row for each page, which has no steps. Returns NULL if out of memory. */
struct scenario_tally *page_tally_create(const struct request_plan *request_plan);

/* The browser of SLOT, its first one. Returns NULL if out of memory. */
struct browser *browser_create(const struct driver *driver, struct slot *slot);

/* BROWSER may be NULL. */
void browser_free(struct browser *browser);

/* Begins a visit that is due at DUE_NS on SLOT, the first of an idle browser. */
void browser_begin_visit(struct driver *driver, struct slot *slot, uint64_t due_ns,
                         uint64_t now_ns);

/* Whether SLOT has a browser whose visit is not complete. */
bool browser_is_visiting(const struct slot *slot);

/* Begins the next page of the visit. */
void browser_begin_page(struct driver *driver, struct slot *slot, uint64_t due_ns, uint64_t now_ns);

/*
 * A part of the body arrived on SLOT, any of a browser: begins those that waited for it, in the next
 * loop iteration.
 */
void browser_see_body(const struct driver *driver, const struct slot *slot);

/*
 * The request of SLOT, any of a browser, ended: begins those that waited for it. Returns the first
 * slot of the browser if the page is complete, else NULL.
 */
struct slot *browser_end_request(struct driver *driver, struct slot *slot,
                                 const struct transaction *transaction, uint64_t now_ns);

/* Ends the visit, if SLOT has a browser with one, before its end. */
void browser_leave(struct driver *driver, struct slot *slot);

#endif
