/*
 * Finding what is to be sent: the thread cache, the worker's cache, what an offload thread
 * brought, the file system. All on the serving thread, but for the loading itself.
 */
#ifndef DAEMON_LOOKUP_H
#define DAEMON_LOOKUP_H

#include "daemon/content/resource.h"
#include "daemon/transaction/transaction.h"

/* Beside errnos. */
enum {
    LOOKUP_MUST_WAIT = -1,      /* a job is out, the answer has to wait for it */
    LOOKUP_NOT_ACCEPTABLE = -2, /* there is no variant that the request accepts */
};

/*
 * So that lookup_front() need not wait for memory: the first for what was just read, which begins with a
 * request as a rule; the second some time later, before that is answered.
 */
void lookup_expect(const struct serving_thread *thread, const char *data, size_t length);
void lookup_fetch(const struct serving_thread *thread);

/*
 * The resource that the thread cache has for the request's target and codings, unless it has to be loaded anew:
 * then NULL. Borrowed until the next call.
 */
struct resource *lookup_front(struct exchange *exchange);

/* Puts RESOURCE into the thread cache for the request's target and codings, where that is possible. */
void lookup_store_front(const struct exchange *exchange, struct resource *resource);

/*
 * The file at PATH (canonical, below the root; or an error page's). Returns 0 with a reference in
 * *FOUND, LOOKUP_MUST_WAIT, or an errno (EISDIR for a folder; EBUSY: it is not in the page cache and
 * the offload queue is full). Sets exchange->outcome.
 */
int lookup_path(struct exchange *exchange, const char *path, size_t length,
                struct resource **found);

/*
 * The variant of ORIGINAL in CODING, which lies beside the file or can be made. Results as above; EBUSY
 * when the offload queue is full.
 */
int lookup_form(struct exchange *exchange, struct resource *original, enum coding coding,
                struct resource **found);

/* The status for what one of these failed with. */
int lookup_status(int failed);

#endif
