/*
 * What the steps of a transaction share; transaction.c calls them. In this order: access, handlers,
 * the lookup of files and the offload jobs that load them, and the composition of the response.
 */
#ifndef DAEMON_TRANSACTION_INTERNAL_H
#define DAEMON_TRANSACTION_INTERNAL_H

#include "daemon/content/listing.h"
#include "daemon/http/target.h"
#include "daemon/transaction/transaction.h"

/* Access: the rules of [access] and [cors] */

/*
 * Verifies the credentials of the request against the users of RULE, if it has any. Returns 0;
 * LOOKUP_MUST_WAIT, an offload thread verifies the password; or the status to send: 401, 429, 503.
 * The owning thread.
 */
int access_authenticate(struct transaction *transaction, const struct config_access *rule);

/*
 * Decides about the file at PATH, which may be another one than the request names: an index file, a
 * fallback. The client needs the rules of both paths. Returns as lookup_path().
 */
int access_check_file(struct transaction *transaction, const char *path);

/* The same for an error page or a variant, which can be left out: if a password is needed, false. */
bool access_permits_now(struct transaction *transaction, const char *path);

/* True if the request, for a path with a rule, is a preflight. */
bool cors_is_preflight(const struct request *request);

/* True if the rule of the path permits the origin of the request. */
bool cors_allows(const struct transaction *transaction);

enum { CORS_FIELDS_MAX = 1536 };

/*
 * Writes the field lines for the response, at most CORS_FIELDS_MAX bytes, and returns their length.
 * Unless every origin is permitted, Vary tells caches that the origin decides, also if it is not.
 */
size_t cors_write(const struct transaction *transaction, char *lines);

/*
 * Handlers: they respond to the requests that the thread cache cannot serve, one for each kind of
 * content. A handler composes a response; or it submits an offload job and returns
 * TRANSACTION_WAITING, and is called again with the same request when the job is done.
 */

/* TARGET is the request's, decoded and canonical. */
typedef enum transaction_result handler(struct transaction *transaction,
                                        const struct target *target);

/* Files and directories below the root. */
handler handler_files;

/* What a rule of [redirect] says: another URL, or a status. */
handler handler_redirect;

/* Exact arithmetic, below [arithmetic] prefix. */
handler handler_arithmetic;

/* True if PATH belongs to handler_arithmetic(). */
bool handler_arithmetic_owns(const struct config *config, const char *path);

/*
 * Answers the request, before anything else looks at it, if it is for the pending challenge of
 * ACME. Returns true if so, with *RESULT.
 */
bool handler_challenge(struct transaction *transaction, enum transaction_result *result);

/* Lookup of files */

/* Results besides 0 and errnos. */
enum {
    LOOKUP_MUST_WAIT = -1, /* an offload job has been submitted; the request must wait for it */
    LOOKUP_NOT_ACCEPTABLE = -2, /* no variant has a content coding that the request accepts */
};

/* [access] refuses the file with STATUS, which lookup_status() returns. */
#define LOOKUP_REFUSED(status) (-(status))

/*
 * The thread cache's resource for the request's target and accepted codings. NULL if it has none or
 * must load it again; transaction->waiting is set if the loading has begun. Borrowed until the next
 * call.
 */
struct resource *lookup_in_thread_cache(struct transaction *transaction);

/*
 * Puts RESOURCE into the thread cache for the request's target and accepted codings, if possible;
 * until a file may have appeared that the lookups of the request did not find.
 */
void lookup_store_in_thread_cache(const struct transaction *transaction, struct resource *resource);

/*
 * Finds the file at PATH (canonical, below the root; or an error page's), which ends with a NUL, and
 * decides by [access] whether the client may have it. Returns 0 with a
 * reference in *FOUND, LOOKUP_MUST_WAIT, or an errno: EISDIR for a directory; EBUSY if it is not in
 * the page cache and the offload queue is full. Sets transaction->outcome.
 */
int lookup_path(struct transaction *transaction, const char *path, size_t length,
                struct resource **found);

/* Removes PATH from the paths without a file, and what was loaded for the request. */
void lookup_forget(const struct transaction *transaction, const char *path, size_t length);

/* The codings in the request's Accept-Encoding, by preference (RFC 9110 section 12.5.3). */
coding_preference lookup_accepted_codings(struct transaction_context *context,
                                          const struct request *request);

/* The same for a request with a Range, of which ACCEPTS are the codings. */
coding_preference lookup_codings_of_range(const struct request *request, coding_preference accepts);

/*
 * Proactive negotiation (RFC 9110 section 12.1): replaces *RESOURCE, a file, by the variant that
 * the client prefers: the file itself, a precompressed file beside it, or one made by an offload
 * thread, for which the first request waits. The caller's reference moves to the variant. Returns
 * 0; or LOOKUP_MUST_WAIT, LOOKUP_NOT_ACCEPTABLE or an errno, and then the reference has been
 * released.
 */
int lookup_variant(struct transaction *transaction, struct resource **resource);

/* The status for a result other than 0 and LOOKUP_MUST_WAIT. */
int lookup_status(int failed);

/*
 * Pages: a page is a resource that an offload thread generates for one response. It is never
 * cached.
 */

struct page_spec;

/*
 * Generates the page at PATH of SITE. Returns 0 with *PAGE holding one reference for the caller, or
 * an errno. Any thread; may block.
 */
typedef int page_maker(const struct site *site, const struct page_spec *spec, struct span path,
                       struct resource **page);

struct arithmetic_query {
    const struct arithmetic_function *function;
    int64_t n;
    uint64_t work_ns; /* processor time to use */
};

/* What to generate; copied into the job. */
struct page_spec {
    page_maker *make;
    enum thread_state state; /* state of the offload thread meanwhile */
    struct listing_order listing;
    struct arithmetic_query arithmetic;
    enum coding coding; /* of the body, if that makes it smaller */
    bool may_code;      /* the request decides about the coding */
    bool json;          /* JSON instead of HTML or text */
};

/*
 * Submits the generation of the page at PATH. Returns false if the queue is full or out of memory.
 */
bool loading_submit_page(struct transaction *transaction, struct span path,
                         const struct page_spec *spec);

/*
 * Returns true if the page at PATH has been generated for the request. Then *FAILED is 0 and *PAGE
 * a reference, or *FAILED is an errno.
 */
bool loading_take_page(struct transaction *transaction, struct span path, struct resource **page,
                       int *failed);

/*
 * Reply: composes a response in the thread's output buffer: the head in the encoding of the
 * request's HTTP version, and the body as a source.
 */

/*
 * Composes the response for a file as the request's preconditions and Range require: 200, 206, 304,
 * 412, 416. If OWNED, it takes over the caller's reference. May wait, for an error page.
 */
enum transaction_result reply_resource(struct transaction *transaction, struct resource *resource,
                                       bool owned);

/*
 * Composes the response for a page and owns its reference: STATUS; instead of a 200 also 304 or
 * 412.
 */
enum transaction_result reply_page(struct transaction *transaction, int status,
                                   struct resource *page);

/*
 * Composes a redirect with STATUS to LOCATION (a URI reference, at most REPLY_LOCATION_MAX bytes)
 * with the page NOTE as body, and owns its reference.
 */
enum { REPLY_LOCATION_MAX = 6 * 1024 };
enum transaction_result reply_redirect(struct transaction *transaction, int status,
                                       struct span location, struct resource *note);

/*
 * Composes an error response with the configured error page if there is one, else the built-in one.
 * May wait.
 */
enum transaction_result reply_error(struct transaction *transaction, int status);

/* Composes a 503 with the page of the command maintenance, else as reply_error(). May wait. */
enum transaction_result reply_maintenance(struct transaction *transaction);

/* Composes a 503, counted as rejected, because the offload queue is full. Does not wait. */
enum transaction_result reply_queue_full(struct transaction *transaction);

/*
 * Composes the response to OPTIONS for any path or for the server as a whole (RFC 9110 section
 * 9.3.7). Every path has the same methods, even one at which nothing exists.
 */
enum transaction_result reply_options(struct transaction *transaction);

#endif
