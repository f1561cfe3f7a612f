/*
 * Lookup: finds the representation to send in the thread cache (L1), the worker's cache (L2), the
 * results of offload threads for the request, or the file system; negotiates the content coding.
 * Called on the owning thread; an offload thread loads.
 */
#ifndef DAEMON_TRANSACTION_LOOKUP_H
#define DAEMON_TRANSACTION_LOOKUP_H

#include "daemon/transaction/transaction.h"

/* Results besides 0 and errnos. */
enum {
    LOOKUP_MUST_WAIT = -1, /* an offload job has been submitted; the request must wait for it */
    LOOKUP_NOT_ACCEPTABLE = -2, /* no variant has a content coding that the request accepts */
};

/*
 * Prefetch for lookup_in_thread_cache(): call the first as soon as a request's TARGET is known, the
 * second some time later, before the request is processed.
 */
void lookup_prefetch_set(const struct transaction_context *context, struct span target);
void lookup_prefetch_entry(const struct transaction_context *context);

/*
 * The thread cache's resource for the request's target and accepted codings. NULL if it has none or
 * must load it again; transaction->waiting is set if the loading has begun. Borrowed until the next
 * call.
 */
struct resource *lookup_in_thread_cache(struct transaction *transaction);

/*
 * Puts RESOURCE into the thread cache for the request's target and accepted codings, if possible.
 */
void lookup_store_in_thread_cache(const struct transaction *transaction, struct resource *resource);

/*
 * Finds the file at PATH (canonical, below the root; or an error page's). Returns 0 with a
 * reference in *FOUND, LOOKUP_MUST_WAIT, or an errno: EISDIR for a directory; EBUSY if it is not in
 * the page cache and the offload queue is full. Sets transaction->outcome.
 */
int lookup_path(struct transaction *transaction, const char *path, size_t length,
                struct resource **found);

/* Forgets that there is no file at PATH, and what was loaded for the request. */
void lookup_forget(const struct transaction *transaction, const char *path, size_t length);

/* The codings in the request's Accept-Encoding, by preference (RFC 9110 section 12.5.3). */
coding_preference lookup_accepted_codings(struct transaction_context *context,
                                          const struct request *request);

/*
 * Proactive negotiation (RFC 9110 section 12.1): replaces *RESOURCE, a file, by the variant that
 * the client prefers: the file itself, a precompressed file beside it, or gzip made by an offload
 * thread, for which the first request waits. The caller's reference moves to the variant. Returns
 * 0; or LOOKUP_MUST_WAIT, LOOKUP_NOT_ACCEPTABLE or an errno, and then the reference has been
 * released.
 */
int lookup_variant(struct transaction *transaction, struct resource **resource);

/* The status for a result other than 0 and LOOKUP_MUST_WAIT. */
int lookup_status(int failed);

#endif
