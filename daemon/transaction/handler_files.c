#include "common/escape.h"
#include "daemon/transaction/handler.h"
#include "daemon/transaction/lookup.h"
#include "daemon/transaction/negotiation.h"
#include "daemon/transaction/reply.h"
#include "daemon/worker/thread.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { LOCATION_MAX = 6 * 1024 };

/* Folders */

/* "/folder/", with the query; returns the length, above LOCATION_MAX when there is no room for it. */
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

/* "/folder" becomes "/folder/", with its query. */
static enum exchange_result answer_folder_redirect(struct exchange *exchange,
                                                   const struct target *target)
{
    char location[LOCATION_MAX];
    size_t length = write_location(location, target);

    if (length > LOCATION_MAX)
        return reply_error(exchange, 414);
    reply_begin(exchange, 301);
    reply_put_headers(exchange);
    reply_put(exchange, SPAN("Location: "));
    reply_put(exchange, (struct span){location, length});
    reply_put(exchange, SPAN("\r\nContent-Length: 0\r\n\r\n"));
    reply_account(exchange, 301, exchange->outcome, 0);
    return EXCHANGE_ANSWERED;
}

/* Paths that don't exist */

/* What one-page applications call a page; the names of files have an ending. */
static bool names_a_page(const char *path)
{
    return strchr(strrchr(path, '/'), '.') == NULL;
}

/* The thread cache must not know it by this target: a file may come to be there. */
static enum exchange_result answer_missing(struct exchange *exchange, const struct target *target)
{
    const char *fallback = exchange->thread->site->config->files_fallback;
    struct resource *resource;
    int failed;

    if (fallback[0] == '\0' || !names_a_page(target->path))
        return reply_error(exchange, 404);
    failed = lookup_path(exchange, fallback, strlen(fallback), &resource);
    if (failed == 0)
        failed = negotiation_choose(exchange, &resource);
    if (failed == LOOKUP_MUST_WAIT)
        return EXCHANGE_WAITING;
    if (failed != 0)
        return reply_error(exchange, failed == EISDIR ? 404 : lookup_status(failed));
    return reply_resource(exchange, resource, true);
}

/* The index file is missing: the folder itself may be there, to be listed, or not to be shown. */
static enum exchange_result answer_without_index(struct exchange *exchange,
                                                 const struct target *target)
{
    struct resource *none;
    int failed = lookup_path(exchange, target->path, target->length, &none);

    if (failed == LOOKUP_MUST_WAIT)
        return EXCHANGE_WAITING;
    if (failed == 0)
        reply_drop(exchange, none);
    if (failed != EISDIR)
        return answer_missing(exchange, target);
    return exchange->thread->site->config->files_autoindex ? handler_listing(exchange, target)
                                                           : reply_error(exchange, 403);
}

/* Files */

/* The file's path: the target's, and for a folder its index. False when that is too long. */
static bool file_path(const struct exchange *exchange, const struct target *target, char *path,
                      size_t *length)
{
    const char *index = target->directory ? exchange->thread->site->config->server_index : "";
    size_t index_length = strlen(index);

    *length = target->length + index_length;
    if (*length >= TARGET_PATH_MAX)
        return false;
    memcpy(path, target->path, target->length);
    memcpy(path + target->length, index, index_length + 1);
    return true;
}

enum exchange_result handler_files(struct exchange *exchange, const struct target *target)
{
    char path[TARGET_PATH_MAX];
    struct resource *resource;
    size_t length;
    int failed;

    if (!file_path(exchange, target, path, &length))
        return reply_error(exchange, 404);
    if (files_is_hidden(path) && exchange->thread->site->config->files_dotfiles == DOTFILES_DENY)
        return reply_error(exchange, 404);
    failed = lookup_path(exchange, path, length, &resource);
    if (failed == EISDIR && !target->directory)
        return answer_folder_redirect(exchange, target);
    if (failed == EISDIR || (failed == ENOENT && target->directory))
        return answer_without_index(exchange, target);
    if (failed == ENOENT || failed == ENOTDIR)
        return answer_missing(exchange, target);
    if (failed == 0)
        failed = negotiation_choose(exchange, &resource);
    if (failed == LOOKUP_MUST_WAIT)
        return EXCHANGE_WAITING;
    if (failed != 0)
        return reply_error(exchange, lookup_status(failed));
    lookup_store_front(exchange, resource);
    return reply_resource(exchange, resource, true);
}
