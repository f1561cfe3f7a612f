/* Files, directory redirects and directory listings. */
#include "common/escape.h"
#include "daemon/base/memstream.h"
#include "daemon/http/accept.h"
#include "daemon/transaction/handler.h"
#include "daemon/transaction/loading.h"
#include "daemon/transaction/lookup.h"
#include "daemon/transaction/reply.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOCATION_MAX = 6 * 1024, LISTING_FIELDS_MAX = 128 };

/* Listings */

static void write_listing_fields(char *fields, const struct listing *listing, bool json)
{
    if (json)
        snprintf(fields, LISTING_FIELDS_MAX,
                 "Content-Type: application/json\r\nVary: Accept\r\nX-Total-Count: %zu\r\n",
                 listing->total);
    else
        snprintf(fields, LISTING_FIELDS_MAX,
                 "Content-Type: text/html; charset=utf-8\r\nVary: Accept\r\n");
}

/* Returns 0 with the text in *TEXT, which the caller frees; or an errno. */
static int write_listing(const struct listing *listing, const struct page_spec *spec,
                         const char *path, char **text, size_t *length)
{
    FILE *out = open_memstream(text, length);

    if (out == NULL)
        return ENOMEM;
    if (spec->json)
        listing_write_json(listing, out);
    else
        listing_write_html(listing, &spec->listing, path, out);
    return memstream_close(out, text);
}

/* Generates the page: a page_maker. */
static int make_listing(const struct worker_context *worker, const struct page_spec *spec,
                        struct span path, struct resource **page)
{
    bool hidden = worker->config->files_dotfiles == DOTFILES_ALLOW;
    char directory[TARGET_PATH_MAX], fields[LISTING_FIELDS_MAX], *text = NULL;
    struct listing listing;
    size_t length;
    int failed;

    snprintf(directory, sizeof(directory), "%.*s", (int)path.length, path.start);
    failed = listing_read(&worker->root, directory, hidden, &spec->listing, &listing);
    if (failed != 0)
        return failed;
    failed = write_listing(&listing, spec, directory, &text, &length);
    if (failed == 0) {
        write_listing_fields(fields, &listing, spec->json);
        failed = page_new(path, fields, text, length, page);
    }
    free(text);
    listing_free(&listing);
    return failed;
}

static enum transaction_result respond_listing(struct transaction *transaction,
                                               const struct target *target)
{
    struct span path = {target->path, target->length};
    struct page_spec spec = {.make = make_listing,
                             .state = THREAD_STATE_FILE,
                             .listing = listing_order_read(target->query)};
    struct resource *page = NULL;
    int failed = 0;

    if (loading_take_page(transaction, path, &page, &failed))
        return failed == 0 ? reply_page(transaction, 200, page)
                           : reply_error(transaction, lookup_status(failed));
    spec.json = accept_prefers_json(transaction->request, SPAN("html"));
    if (transaction->may_wait && loading_submit_page(transaction, path, &spec))
        return TRANSACTION_WAITING;
    return reply_queue_full(transaction);
}

/* Redirects */

/*
 * Writes "/directory/" with the query. Returns the length; above LOCATION_MAX if it does not fit.
 */
static size_t write_location(char *location, const struct target *target)
{
    size_t length = escape_path(location, LOCATION_MAX, target->path);

    if (length + 2 > LOCATION_MAX)
        return LOCATION_MAX + 1;
    location[length++] = '/';
    if (target->query.start == NULL)
        return length;
    location[length++] = '?';
    return length + escape_query(location + length, LOCATION_MAX - length, target->query);
}

/* Redirects "/directory" to "/directory/". */
static enum transaction_result respond_redirect(struct transaction *transaction,
                                                const struct target *target)
{
    char location[LOCATION_MAX];
    size_t length = write_location(location, target);

    if (length > LOCATION_MAX)
        return reply_error(transaction, 414);
    reply_begin(transaction, 301);
    reply_put_configured_fields(transaction);
    reply_put(transaction, SPAN("Location: "));
    reply_put(transaction, (struct span){location, length});
    reply_put(transaction, SPAN("\r\nContent-Length: 0\r\n\r\n"));
    reply_account(transaction, 301, transaction->outcome, 0);
    return TRANSACTION_DONE;
}

/* Missing files */

/* Single-page applications route paths without an extension themselves; files have one. */
static bool has_no_extension(const char *path)
{
    return strchr(strrchr(path, '/'), '.') == NULL;
}

/*
 * The fallback is not stored in the thread cache under this target, because a file may appear
 * there.
 */
static enum transaction_result respond_missing(struct transaction *transaction,
                                               const struct target *target)
{
    const char *fallback = transaction->context->worker->config->files_fallback;
    struct resource *resource;
    int failed;

    if (fallback[0] == '\0' || !has_no_extension(target->path))
        return reply_error(transaction, 404);
    failed = lookup_path(transaction, fallback, strlen(fallback), &resource);
    if (failed == 0)
        failed = lookup_variant(transaction, &resource);
    if (failed == LOOKUP_MUST_WAIT)
        return TRANSACTION_WAITING;
    if (failed != 0)
        return reply_error(transaction, failed == EISDIR ? 404 : lookup_status(failed));
    return reply_resource(transaction, resource, true);
}

/* Called if the index file is missing: lists the directory, if it exists and listings are on. */
static enum transaction_result respond_without_index(struct transaction *transaction,
                                                     const struct target *target)
{
    const struct worker_context *worker = transaction->context->worker;
    struct resource *unused;
    int failed = lookup_path(transaction, target->path, target->length, &unused);

    if (failed == LOOKUP_MUST_WAIT)
        return TRANSACTION_WAITING;
    if (failed == 0)
        resource_release(worker->cache, unused);
    if (failed != EISDIR)
        return respond_missing(transaction, target);
    return worker->config->files_autoindex ? respond_listing(transaction, target)
                                           : reply_error(transaction, 403);
}

/* Files */

/*
 * Writes the path of the file: the target's path, or for a directory that of its index file.
 * Returns false if it is too long.
 */
static bool file_path(const struct config *config, const struct target *target, char *path,
                      size_t *length)
{
    const char *index = target->directory ? config->server_index : "";
    size_t index_length = strlen(index);

    *length = target->length + index_length;
    if (*length >= TARGET_PATH_MAX)
        return false;
    memcpy(path, target->path, target->length);
    memcpy(path + target->length, index, index_length + 1);
    return true;
}

enum transaction_result handler_files(struct transaction *transaction, const struct target *target)
{
    const struct config *config = transaction->context->worker->config;
    char path[TARGET_PATH_MAX];
    struct resource *resource;
    size_t length;
    int failed;

    if (!file_path(config, target, path, &length))
        return reply_error(transaction, 404);
    if (files_is_hidden(path) && config->files_dotfiles == DOTFILES_DENY)
        return reply_error(transaction, 404);
    failed = lookup_path(transaction, path, length, &resource);
    if (failed == EISDIR && !target->directory)
        return respond_redirect(transaction, target);
    if (failed == EISDIR || (failed == ENOENT && target->directory))
        return respond_without_index(transaction, target);
    if (failed == ENOENT || failed == ENOTDIR)
        return respond_missing(transaction, target);
    if (failed == 0)
        failed = lookup_variant(transaction, &resource);
    if (failed == LOOKUP_MUST_WAIT)
        return TRANSACTION_WAITING;
    if (failed != 0)
        return reply_error(transaction, lookup_status(failed));
    lookup_store_in_thread_cache(transaction, resource);
    return reply_resource(transaction, resource, true);
}
