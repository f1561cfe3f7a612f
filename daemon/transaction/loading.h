/*
 * Loading by offload threads: a request waits until a file, a variant of it, or a generated page is
 * in memory, and is then processed again. Called on the owning thread; the loading itself runs on
 * an offload thread.
 *
 * A page is a resource that is generated for one response and never cached, such as a directory
 * listing.
 */
#ifndef DAEMON_TRANSACTION_LOADING_H
#define DAEMON_TRANSACTION_LOADING_H

#include "daemon/content/listing.h"
#include "daemon/transaction/arithmetic.h"
#include "daemon/transaction/transaction.h"

struct page_spec;

/*
 * Generates the page at PATH of SITE. Returns 0 with *PAGE holding one reference for the caller, or an
 * errno. Any thread; may block.
 */
typedef int page_maker(const struct site *site, const struct page_spec *spec, struct span path,
                       struct resource **page);

/* What to generate; copied into the job. */
struct page_spec {
    page_maker *make;
    enum thread_state state; /* state of the offload thread meanwhile */
    struct listing_order listing;
    struct arithmetic_query arithmetic;
    bool json; /* JSON instead of HTML or text */
};

/*
 * Returns 0 with *PAGE: a page with this body and these FIELDS ("Name: value\r\n" each,
 * Content-Type first, without Content-Length); or ENOMEM. Any thread.
 */
int page_new(struct span path, const char *fields, const char *body, size_t length,
             struct resource **page);

/*
 * Submits the loading of PATH or, if ORIGINAL is not NULL, of its variant CODING. Returns false if
 * the queue is full or out of memory.
 */
bool loading_submit(struct transaction *transaction, struct span path, struct resource *original,
                    enum coding coding);

/* Submits the generation of the page at PATH. */
bool loading_submit_page(struct transaction *transaction, struct span path,
                         const struct page_spec *spec);

/*
 * Returns true if PATH has been loaded for the request. Then *FAILED is 0 and *FOUND a reference,
 * or *FAILED is an errno.
 */
bool loading_take(struct transaction *transaction, struct span path, struct resource **found,
                  int *failed);

/* The same for the page at PATH. */
bool loading_take_page(struct transaction *transaction, struct span path, struct resource **page,
                       int *failed);

/* Frees what was loaded for a request, after its response. Any thread that owns STATE. */
void loading_discard(struct transaction_state *state, struct cache *cache);

#endif
