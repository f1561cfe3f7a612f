/*
 * The handlers of all content but arithmetic: redirects, the challenge of ACME, files and
 * directories.
 */
#include "common/escape.h"
#include "common/macros.h"
#include "common/segment_reader.h"
#include "daemon/base/memory_file.h"
#include "daemon/http/negotiation.h"
#include "daemon/transaction/internal.h"
#include "daemon/transaction/shortage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Redirects by rules, and of directories to their path with a slash */

enum { NOTE_LOCATION_MAX = 1024 };

/* A URI reference while it is composed; it has failed if it is longer than REPLY_LOCATION_MAX. */
struct location {
    size_t length;
    char text[REPLY_LOCATION_MAX + 1];
};

static void append_span(struct location *location, struct span text)
{
    if (location->length + text.length <= REPLY_LOCATION_MAX)
        memcpy(location->text + location->length, text.start, text.length);
    location->length += text.length;
}

static void append_path(struct location *location, const char *path)
{
    if (location->length <= REPLY_LOCATION_MAX)
        location->length += escape_path(location->text + location->length,
                                        REPLY_LOCATION_MAX - location->length, path);
}

static void append_query(struct location *location, const struct target *target)
{
    if (target->query.start == NULL)
        return;
    append_span(location, SPAN("?"));
    if (location->length <= REPLY_LOCATION_MAX)
        location->length += escape_query(location->text + location->length,
                                         REPLY_LOCATION_MAX - location->length, target->query);
}

/*
 * The short note of RFC 9110 section 15.4.2, with a link unless LOCATION is long: a client can put
 * anything into the query.
 */
static int make_note(struct span path, int status, const char *location, const char *link,
                     struct resource **note)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    int failed = ENOMEM;

    if (out == NULL)
        return ENOMEM;
    fprintf(out,
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">"
            "<title>%d %s</title></head>\n<body><h1>%d %s</h1>",
            status, response_reason(status), status, response_reason(status));
    if (strlen(location) <= NOTE_LOCATION_MAX) {
        fputs("<p><a href=\"", out);
        escape_html(out, location);
        fprintf(out, "\">%s</a></p>", link);
    }
    fputs("</body>\n</html>\n", out);
    if (memstream_close(out, &text) == 0)
        failed = resource_new_page(path, "Content-Type: text/html; charset=utf-8\r\n", text, length,
                                   note);
    free(text);
    return failed;
}

static enum transaction_result respond_redirect(struct transaction *transaction,
                                                const struct target *target, int status,
                                                const char *link, struct location *location)
{
    struct resource *note;
    int failed;

    if (location->length > REPLY_LOCATION_MAX)
        return reply_error(transaction, 414);
    location->text[location->length] = '\0';
    failed =
        make_note((struct span){target->path, target->length}, status, location->text, link, &note);
    if (failed == 0)
        return reply_redirect(transaction, status, (struct span){location->text, location->length},
                              note);
    if (failed == ENOMEM)
        memory_make_room(transaction->context); /* for the next request */
    return reply_error(transaction, lookup_status(failed));
}

/* To the path of TARGET and MORE, with its query. */
static enum transaction_result redirect_path(struct transaction *transaction,
                                             const struct target *target, const char *more)
{
    struct location location UNINITIALIZED;

    location.length = 0;
    append_path(&location, target->path);
    append_span(&location, span_of(more));
    append_query(&location, target);
    return respond_redirect(transaction, target, 301, "The new URL", &location);
}

enum transaction_result handler_redirect(struct transaction *transaction,
                                         const struct target *target)
{
    const struct config_redirect *rule = transaction->rule;
    struct location location UNINITIALIZED;

    if (rule->action == REDIRECT_STATUS)
        return reply_error(transaction, rule->status);
    location.length = 0;
    if (strcmp(rule->target, "https:") != 0) {
        append_span(&location, span_of(rule->target));
        if (rule->rest)
            append_path(&location, redirect_rest(rule, target->path));
    } else if (transaction->request->host.length > 0) {
        append_span(&location, SPAN("https://")); /* on the default port */
        append_span(&location, site_host_name(transaction->request->host));
        append_path(&location, target->path);
    } else {
        return reply_error(transaction, 400); /* HTTP/1.0 without Host: there is no URL */
    }
    if (strchr(rule->target, '?') == NULL)
        append_query(&location, target);
    return respond_redirect(transaction, target, rule->status, "The new URL", &location);
}

/* The challenge of ACME */

/*
 * The response to http-01, by which the ACME authority sees that this server has the name (RFC 8555
 * section 8.3). Only the token that the master published is answered; all other paths are served as
 * ever.
 */
bool handler_challenge(struct transaction *transaction, enum transaction_result *result)
{
    const struct request *request = transaction->request;
    struct challenge_copy challenge;
    char target[64 + sizeof(challenge.token)];
    char text[sizeof(challenge.token) + sizeof(challenge.thumbprint)];
    struct resource *page;
    int length;

    if (!segment_read_challenge(transaction->context->worker->segment, &challenge) ||
        challenge.kind != CHALLENGE_HTTP_01 ||
        (request->method != METHOD_GET && request->method != METHOD_HEAD))
        return false;
    length = snprintf(target, sizeof(target), "/.well-known/acme-challenge/%s", challenge.token);
    if (!span_is(request->target, (struct span){target, (size_t)length}))
        return false;
    length = snprintf(text, sizeof(text), "%s.%s", challenge.token, challenge.thumbprint);
    if (resource_new_page(request->target,
                          "Content-Type: application/octet-stream\r\nCache-Control: no-store\r\n",
                          text, (size_t)length, &page) == 0) {
        *result = reply_page(transaction, 200, page);
        return true;
    }
    memory_make_room(transaction->context); /* for the authority's next request */
    *result = reply_error(transaction, 503);
    return true;
}

enum { LISTING_FIELDS_MAX = 192, RETRIES_MAX = 20 };

/* Files and directories */

/*
 * The files that a request is for, the first that exists: one at its path, or at its path with one
 * of [files] extensions; for a directory, an index file.
 */
static size_t candidate_count(const struct site *site, const struct target *target)
{
    return target->directory ? site->index.count : 1 + site->extensions.count;
}

/* Writes the path of candidate NUMBER and returns its length; 0: it is too long. */
static size_t write_candidate(const struct site *site, const struct target *target, size_t number,
                              char *path)
{
    const char *dot = target->directory || number == 0 ? "" : ".";
    const char *name = target->directory ? site->index.item[number]
                       : number == 0     ? ""
                                         : site->extensions.item[number - 1];

    if (target->length + strlen(dot) + strlen(name) >= TARGET_PATH_MAX)
        return 0;
    memcpy(path, target->path, target->length);
    return (size_t)(stpcpy(stpcpy(path + target->length, dot), name) - path);
}

/* As lookup_path(), for the first candidate that exists. If there is none: the first one's error. */
static int lookup_candidates(struct transaction *transaction, const struct target *target,
                             struct resource **found)
{
    char path[TARGET_PATH_MAX] UNINITIALIZED;
    int first = ENOENT;

    for (size_t i = 0; i < candidate_count(transaction->site, target); i++) {
        size_t length = write_candidate(transaction->site, target, i, path);
        int failed = length > 0 ? lookup_path(transaction, path, length, found) : ENOENT;

        if (failed != ENOENT && failed != EISDIR)
            return failed;
        if (i == 0)
            first = failed;
    }
    return first;
}

/*
 * The directory has an index file, which the lookup did not find, or not yet: another directory was
 * renamed to this path in between. Looks it up again.
 */
static enum transaction_result respond_again(struct transaction *transaction,
                                             const struct target *target)
{
    char path[TARGET_PATH_MAX] UNINITIALIZED;

    if (transaction->state->retries++ == RETRIES_MAX)
        return reply_error(transaction, 503);
    for (size_t i = 0; i < candidate_count(transaction->site, target); i++)
        lookup_forget(transaction, path, write_candidate(transaction->site, target, i, path));
    return handler_files(transaction, target);
}

/* Listings */

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

/* Replaces *TEXT by its form in CODING if that is smaller; otherwise returns CODING_IDENTITY. */
static enum coding compress_listing(const struct site *site, enum coding coding, char **text,
                                    size_t *length)
{
    size_t compressed_length;
    char *compressed;

    if (coding == CODING_IDENTITY || *length < COMPRESSION_MIN_BYTES ||
        compression_run(coding, site->source.levels.level[coding], (struct span){*text, *length},
                        &compressed, &compressed_length) != 0)
        return CODING_IDENTITY;
    free(*text);
    *text = compressed;
    *length = compressed_length;
    return coding;
}

/* Writes the fields of a listing, whose body has CODING. */
static void write_listing_fields(const struct page_spec *spec, const struct listing *listing,
                                 enum coding coding, char *fields)
{
    int length = snprintf(fields, LISTING_FIELDS_MAX, "Content-Type: %s\r\n",
                          spec->json ? "application/json" : "text/html; charset=utf-8");

    if (coding != CODING_IDENTITY)
        length += snprintf(fields + length, LISTING_FIELDS_MAX - (size_t)length,
                           "Content-Encoding: %s\r\n", coding_names[coding].start);
    length += snprintf(fields + length, LISTING_FIELDS_MAX - (size_t)length, "Vary: Accept%s\r\n",
                       spec->may_code ? ", Accept-Encoding" : "");
    if (spec->json)
        snprintf(fields + length, LISTING_FIELDS_MAX - (size_t)length, "X-Total-Count: %zu\r\n",
                 listing->total);
}

/* Generates the page: a page_maker. */
static int make_listing(const struct site *site, const struct page_spec *spec, struct span path,
                        struct resource **page)
{
    bool hidden = site->config->files_dotfiles == DOTFILES_ALLOW;
    char directory[TARGET_PATH_MAX], fields[LISTING_FIELDS_MAX], *text = NULL;
    enum coding coding = CODING_IDENTITY;
    struct listing listing;
    size_t length, plain_length;
    int failed;

    snprintf(directory, sizeof(directory), "%.*s", (int)path.length, path.start);
    failed = listing_read(&site->root, directory, &site->index, hidden, &spec->listing, &listing);
    if (failed != 0)
        return failed;
    failed = write_listing(&listing, spec, directory, &text, &length);
    plain_length = length;
    if (failed == 0)
        coding = compress_listing(site, spec->coding, &text, &length);
    write_listing_fields(spec, &listing, coding, fields);
    if (failed == 0)
        failed = resource_new_page(path, fields, text, length, page);
    if (failed == 0) {
        (*page)->saved_bytes = (uint32_t)(plain_length - length);
        (*page)->coding = coding;
    }
    free(text);
    listing_free(&listing);
    return failed;
}

/* FAILED is a result of a lookup other than LOOKUP_MUST_WAIT. */
static enum transaction_result respond_failed(struct transaction *transaction, int failed)
{
    if (failed == ENOMEM)
        memory_make_room(transaction->context); /* for the next request */
    return reply_error(transaction, lookup_status(failed));
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

    if (loading_take_page(transaction, path, &page, &failed)) {
        if (failed == EEXIST)
            return respond_again(transaction, target);
        return failed == 0 ? reply_page(transaction, 200, page)
                           : respond_failed(transaction, failed);
    }
    spec.json = accept_prefers_json(transaction->request, SPAN("html"));
    spec.may_code = compression_is_on(&transaction->site->source.levels);
    spec.coding = compression_for_page(&transaction->site->source.levels, transaction->accepts);
    if (transaction->may_wait && loading_submit_page(transaction, path, &spec))
        return TRANSACTION_WAITING;
    return reply_queue_full(transaction);
}

/* Missing files */

/*
 * Without a fallback the response is an error with STATUS. The fallback is not stored in the thread
 * cache under this target, because clients can invent targets without end.
 */
static enum transaction_result respond_missing(struct transaction *transaction,
                                               const struct target *target, int status)
{
    const struct config_redirect *rule = transaction->rule;
    const char *fallback = rule != NULL ? rule->target : transaction->site->fallback;
    int missing = rule != NULL ? rule->status : status, failed;
    struct resource *resource;

    /* Single-page applications route paths without an extension themselves; files have one. */
    if (fallback == NULL || fallback[0] == '\0' ||
        (rule == NULL && strchr(strrchr(target->path, '/'), '.') != NULL))
        return reply_error(transaction, missing);
    failed = lookup_path(transaction, fallback, strlen(fallback), &resource);
    if (failed == 0)
        failed = lookup_variant(transaction, &resource);
    if (failed == LOOKUP_MUST_WAIT)
        return TRANSACTION_WAITING;
    if (failed != 0)
        return reply_error(transaction,
                           failed == EISDIR || failed == ENOENT ? missing : lookup_status(failed));
    return reply_resource(transaction, resource, true);
}

/*
 * Listings are off. Looks once more for the index files, which does not wait long: the names were
 * just looked up.
 */
static enum transaction_result respond_unlisted(struct transaction *transaction,
                                                const struct target *target)
{
    const struct site *site = transaction->site;
    struct file directory;
    int failed = files_find(&site->root, target->path, FILES_MAY_BLOCK, &directory);
    bool has_index;

    if (failed != 0)
        return respond_failed(transaction, failed);
    has_index = files_has_any(directory.fd, &site->index);
    close(directory.fd);
    return has_index ? respond_again(transaction, target)
                     : respond_missing(transaction, target, 403);
}

/* Called if no index file exists: lists the directory, if it exists and listings are on. */
static enum transaction_result respond_without_index(struct transaction *transaction,
                                                     const struct target *target)
{
    struct resource *unused;
    int failed = lookup_path(transaction, target->path, target->length, &unused);

    if (failed == LOOKUP_MUST_WAIT)
        return TRANSACTION_WAITING;
    if (failed == 0)
        resource_release(transaction->context->worker->cache, unused);
    if (failed != EISDIR || transaction->rule != NULL)
        return respond_missing(transaction, target, 404);
    return transaction->site->autoindex ? respond_listing(transaction, target)
                                        : respond_unlisted(transaction, target);
}

/* True if RULE looks for a file, or a DIRECTORY, at the path of the request. */
static bool tries(const struct config_redirect *rule, bool directory)
{
    return rule == NULL ||
           (directory ? rule->try_directory : rule->try_file || rule->try_directory);
}

/* Paths without an extension or index file */

/* The length of the path without one of [files] extensions, or without an index file; 0: neither. */
static size_t shorter_length(const struct site *site, const struct target *target)
{
    const char *name = strrchr(target->path, '/') + 1;
    const char *dot = strrchr(name, '.');

    for (size_t i = 0; i < site->index.count; i++)
        if (strcmp(name, site->index.item[i]) == 0)
            return (size_t)(name - target->path);
    for (size_t i = 0; dot != NULL && dot > name && i < site->extensions.count; i++)
        if (strcmp(dot + 1, site->extensions.item[i]) == 0)
            return (size_t)(dot - target->path);
    return 0;
}

/*
 * True if FILE, which was found at the path of TARGET, is the answer to a shorter path, which is
 * then in *SHORTER; LOOKUP_MUST_WAIT if an offload thread looks.
 */
static int find_shorter(struct transaction *transaction, const struct target *target,
                        const struct resource *file, struct target *shorter)
{
    const struct site *site = transaction->site;
    const struct config_redirect *rule;
    struct resource *found;
    int failed, is_same;

    shorter->length = shorter_length(site, target);
    if (shorter->length == 0)
        return false;
    shorter->query = target->query;
    memcpy(shorter->path, target->path, shorter->length);
    shorter->path[shorter->length] = '\0';
    shorter->directory = shorter->path[shorter->length - 1] == '/';
    rule = redirect_find(site->config, site->number, shorter->path, transaction->client->secure);
    if (rule != NULL && rule->action <= REDIRECT_STATUS)
        return false;
    failed = lookup_candidates(transaction, shorter, &found);
    if (failed != 0)
        return failed == LOOKUP_MUST_WAIT ? LOOKUP_MUST_WAIT : false;
    is_same = span_is(found->file_path, file->file_path);
    resource_release(transaction->context->worker->cache, found);
    return is_same;
}

/* Responds with FILE, of which it owns the reference. */
static enum transaction_result respond_with_file(struct transaction *transaction,
                                                 const struct target *target, struct resource *file)
{
    struct target shorter UNINITIALIZED;
    int failed, redirects = false;

    if (transaction->site->config->files_redirect_extensions)
        redirects = find_shorter(transaction, target, file, &shorter);
    if (redirects != false) {
        resource_release(transaction->context->worker->cache, file);
        return redirects == LOOKUP_MUST_WAIT ? TRANSACTION_WAITING
                                             : redirect_path(transaction, &shorter, "");
    }
    failed = lookup_variant(transaction, &file);
    if (failed == LOOKUP_MUST_WAIT)
        return TRANSACTION_WAITING;
    if (failed != 0)
        return respond_failed(transaction, failed);
    lookup_store_in_thread_cache(transaction, file);
    return reply_resource(transaction, file, true);
}

/* True if RULE is for TARGET, perhaps a directory, and all below it. */
static bool begins_rule(const struct config_redirect *rule, const struct target *target)
{
    return rule != NULL && rule->below && strlen(rule->path) == target->length;
}

enum transaction_result handler_files(struct transaction *transaction, const struct target *target)
{
    struct resource *resource;
    int failed;

    if (transaction->rule != NULL && transaction->rule->action == REDIRECT_PASS)
        transaction->rule = NULL;
    if (!tries(transaction->rule, target->directory))
        return respond_missing(transaction, target, 404);
    if (files_is_hidden(target->path) && transaction->site->config->files_dotfiles == DOTFILES_DENY)
        return reply_error(transaction, 404);
    failed = lookup_candidates(transaction, target, &resource);
    if (failed == EISDIR && !tries(transaction->rule, true) &&
        !begins_rule(transaction->rule, target))
        return respond_missing(transaction, target, 404);
    if (failed == EISDIR && !target->directory)
        return redirect_path(transaction, target, "/");
    if (failed == EISDIR || (failed == ENOENT && target->directory))
        return respond_without_index(transaction, target);
    if (failed == ENOENT || failed == ENOTDIR)
        return respond_missing(transaction, target, 404);
    if (failed == LOOKUP_MUST_WAIT)
        return TRANSACTION_WAITING;
    return failed == 0 ? respond_with_file(transaction, target, resource)
                       : respond_failed(transaction, failed);
}
