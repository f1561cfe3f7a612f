/*
 * Finding what is to be sent: the thread's front table, the worker's cache, what an offload thread
 * brought, the file system. All on the serving thread, but for the loading itself.
 */
#ifndef DAEMON_LOOKUP_H
#define DAEMON_LOOKUP_H

#include "daemon/exchange.h"
#include "daemon/offload.h"
#include "daemon/resource.h"

/* Beside errnos: a job is out, the answer has to wait for it. */
enum { LOOKUP_MUST_WAIT = -1 };

/* A file that an offload thread loads for a connection. */
struct load_job {
    struct offload_job job; /* first */
    struct connection *connection;
    struct load_job *next; /* in connection->loaded, once back */
    const struct site *site;
    int failed; /* what resource_load() said */
    struct resource *resource;
    size_t length;
    char path[]; /* ended by NUL */
};

/*
 * The resource that the front table has for the request's target, unless it has to be loaded anew:
 * then NULL. Borrowed until the next call.
 */
struct resource *lookup_front(struct exchange *exchange);

/* Puts RESOURCE into the front table for the request's target, where that is possible. */
void lookup_store_front(const struct exchange *exchange, struct resource *resource);

/*
 * The file at PATH (canonical, below the root; or an error page's). Returns 0 with a reference in
 * *FOUND, LOOKUP_MUST_WAIT, or an errno (EISDIR for a folder; EBUSY: it is not in the page cache and
 * the offload queue is full). Sets exchange->outcome.
 */
int lookup_path(struct exchange *exchange, const char *path, size_t length,
                struct resource **found);

/* The status for what lookup_path() failed with. */
int lookup_status(int failed);

/* The job is back: the connection that is returned has what it brought, and can be resumed. */
struct connection *lookup_loaded(struct load_job *job);

/* Forgets what was brought for the request that is answered now. */
void lookup_forget(struct connection *connection, struct cache *cache);

#endif
