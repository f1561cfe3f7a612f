/*
 * Loading by offload threads: a connection's request waits until the file, or a variant of it, is in
 * memory, and is then answered from what was brought. All on the serving thread, but for the loading
 * itself.
 */
#ifndef DAEMON_LOADING_H
#define DAEMON_LOADING_H

#include "daemon/base/offload.h"
#include "daemon/content/resource.h"
#include "daemon/transaction/page.h"
#include "daemon/transaction/transaction.h"

struct load_job {
    struct offload_job job; /* first */
    struct connection *connection;
    struct load_job *next; /* in connection->loaded, once back */
    const struct site *site;
    struct resource *original; /* a reference: CODING of this is loaded or made; NULL: a file */
    enum coding coding;
    struct page_order page; /* with a maker: this is made, at the path before the mark of a page */
    int failed;             /* what resource_load() or resource_load_variant() said */
    struct resource *resource;
    size_t length;
    char path[]; /* the entry's, ended by NUL */
};

/*
 * Gives the loading of PATH (of the variant CODING of ORIGINAL, where that is not NULL) to an offload
 * thread. False: the queue is full, or memory is short.
 */
bool loading_submit(const struct exchange *exchange, struct span path, struct resource *original,
                    enum coding coding);

/* Gives the making of the page at PATH to an offload thread. */
bool loading_submit_page(const struct exchange *exchange, struct span path,
                         const struct page_order *page);

/* What was brought for PATH, if something was: 0 and a reference, or the errno, in *FAILED. */
bool loading_take(struct exchange *exchange, struct span path, struct resource **found,
                  int *failed);

/* The same for the page at PATH. */
bool loading_take_page(struct exchange *exchange, struct span path, struct resource **page,
                       int *failed);

/* The job is back: the connection that is returned has what it brought, and can be resumed. */
struct connection *loading_back(struct load_job *job);

/* Forgets what was brought for the request that is answered now. */
void loading_forget(struct connection *connection, struct cache *cache);

#endif
