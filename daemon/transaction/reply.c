#include "daemon/transaction/internal.h"

#include "common/macros.h"
#include "common/segment_writer.h"
#include "common/units.h"
#include "daemon/http/conditional.h"
#include "daemon/http/range.h"
#include "daemon/http/response.h"
#include "daemon/http/target.h"
#include "daemon/transaction/accounting.h"
#include "daemon/transaction/admission.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/* The methods of every resource. */
#define ALLOWED_FIELD "Allow: GET, HEAD, OPTIONS\r\n"

enum { EXTRA_FIELDS_MAX = 128, CONTENT_FIELDS_MAX = 128, PARTIAL_FIELDS_MAX = 192 };

/*
 * Parts of a response: begin_head(), fields, end_head(), account_response(), and then the body. A
 * head must fit in OUTPUT_RESPONSE_MAX.
 */

static bool connection_persists(const struct transaction *transaction)
{
    struct transaction_context *context = transaction->context;
    const struct config *config = context->worker->config;
    struct client *client = transaction->client;

    return transaction->request->keep_alive && config->connections_keepalive && !client->closing &&
           !context->closing_connections && !(client->secure && context->closing_secure) &&
           (config->connections_keepalive_max_open == 0 || admission_allows_keepalive(context)) &&
           (config->connections_keepalive_requests == 0 ||
            client->requests + 1 < config->connections_keepalive_requests) &&
           (LIKELY(!client->transferred) || !admission_exceeds_limits(context->worker, client));
}

static enum prefix_form prefix_form(const struct transaction *transaction)
{
    const struct request *request = transaction->request;

    if (request->version == HTTP_2)
        return PREFIX_HPACK;
    if (transaction->client->closing)
        return PREFIX_CLOSE;
    return request->minor_version == 0 ? PREFIX_KEEP_ALIVE : PREFIX_DEFAULT;
}

/* Writes fields that are already in the encoding of the request's version. */
static void put_prepared(const struct transaction *transaction, struct span fields)
{
    output_put(&transaction->context->output, fields.start, fields.length);
}

/* Writes LINES ("Name: value CRLF" each) in the encoding of the request's version. */
static void put_fields(const struct transaction *transaction, struct span lines)
{
    struct output_buffer *output = &transaction->context->output;

    if (transaction->request->version == HTTP_2)
        output->used =
            (size_t)(hpack_put_lines(output->bytes + output->used, lines) - output->bytes);
    else
        put_prepared(transaction, lines);
}

static void put_cors_fields(const struct transaction *transaction)
{
    char lines[CORS_FIELDS_MAX];

    put_fields(transaction, (struct span){lines, cors_write(transaction, lines)});
}

/* Writes the status, Date, Server and Connection. Decides whether the connection persists. */
static void begin_head(const struct transaction *transaction, int status)
{
    struct output_buffer *output = &transaction->context->output;
    struct client *client = transaction->client;

    client->closing = !connection_persists(transaction);
    if (client->closing && transaction->request->keep_alive)
        client->linger_wanted =
            true; /* the client has not received the response yet and may send more */
    output->used += response_prefix(&transaction->context->prefixes, status,
                                    prefix_form(transaction), output->bytes + output->used);
    if (client->secure && transaction->site->hsts.length > 0)
        put_fields(transaction, transaction->site->hsts);
    if (UNLIKELY(transaction->cors != NULL))
        put_cors_fields(transaction);
}

/*
 * Writes the configured fields for a response with STATUS and the request's path, except those that
 * describe the content.
 */
static void put_configured_fields(const struct transaction *transaction, int status)
{
    char lines[HEADER_RULES_MAX] UNINITIALIZED;
    enum header_part part = status < 400                     ? HEADER_OF_RESPONSE
                            : response_is_of_request(status) ? HEADER_OF_REQUEST_ERROR
                                                             : HEADER_OF_ERROR;
    size_t length = header_rules_write(&transaction->site->headers, transaction->path, part, lines);

    put_fields(transaction, (struct span){lines, length});
}

static void end_head(const struct transaction *transaction)
{
    if (transaction->request->version == HTTP_1)
        put_prepared(transaction, SPAN("\r\n"));
}

/* The pieces of the head of RESOURCE in the encoding of the request's version. */
static const struct head_pieces *pieces_of(const struct transaction *transaction,
                                           const struct resource *resource)
{
    return &resource->pieces[transaction->request->version];
}

static bool wants_body(const struct transaction *transaction)
{
    return transaction->request->method != METHOD_HEAD;
}

/* Packs the log record, after the head. BODY_BYTES: length of the body, even if HEAD omits it. */
static void account_response(const struct transaction *transaction, int status,
                             enum outcome outcome, enum coding coding, uint64_t body_bytes)
{
    accounting_pack(transaction, status, outcome, coding, wants_body(transaction) ? body_bytes : 0);
}

static void release_resource(const struct transaction *transaction, struct resource *resource)
{
    resource_release(transaction->context->worker->cache, resource);
}

/* Sets PART of RESOURCE as the body. If OWNED, it takes over the caller's reference. */
static void put_body(const struct transaction *transaction, struct resource *resource,
                     struct byte_range part, bool owned)
{
    const char *memory = resource->body != NULL ? resource->body + part.first : NULL;

    if (wants_body(transaction))
        transaction->context->output.body =
            (struct body_source){resource, owned, memory, part.first, part.length, NULL};
    else if (owned)
        release_resource(transaction, resource);
}

static void put_whole_body(const struct transaction *transaction, struct resource *resource,
                           bool owned)
{
    if (UNLIKELY(resource->saved_bytes > 0) && wants_body(transaction))
        metric_add(transaction->context->metrics, METRIC_bytes_saved, resource->saved_bytes);
    put_body(transaction, resource, (struct byte_range){0, resource->body_length}, owned);
}

/* Errors */

/*
 * Fields that certain statuses require (RFC 9110 sections 15.5.2, 15.5.6, 12.5.5, 15.5.17, 15.6.4;
 * RFC 6585 section 4).
 */
static void write_extra_fields(const struct transaction *transaction, int status, char *fields)
{
    const char *vary = status == 406 || transaction->varies ? "Vary: Accept-Encoding\r\n" : "";

    snprintf(fields, EXTRA_FIELDS_MAX, "%s", vary);
    if (status == 405)
        snprintf(fields, EXTRA_FIELDS_MAX, ALLOWED_FIELD);
    else if (status == 416)
        snprintf(fields, EXTRA_FIELDS_MAX, "Content-Range: bytes */%" PRIu64 "\r\n%s",
                 transaction->representation_bytes, vary);
    else if (status == 401)
        snprintf(fields, EXTRA_FIELDS_MAX,
                 "WWW-Authenticate: Basic realm=\"%s\", charset=\"UTF-8\"\r\n", transaction->realm);
    else if (status == 429 || status == 503)
        snprintf(fields, EXTRA_FIELDS_MAX, "Retry-After: %" PRIu32 "\r\n",
                 transaction->retry_after_s);
}

static void put_error_head(const struct transaction *transaction, int status, enum coding coding,
                           uint64_t length)
{
    char extra[EXTRA_FIELDS_MAX], content[CONTENT_FIELDS_MAX];
    bool coded = coding != CODING_IDENTITY;
    int content_length = snprintf(content, sizeof(content),
                                  "Content-Type: text/html; charset=utf-8\r\n%s%s%s"
                                  "Content-Length: %" PRIu64 "\r\n",
                                  coded ? "Content-Encoding: " : "", coding_names[coding].start,
                                  coded ? "\r\n" : "", length);

    write_extra_fields(transaction, status, extra);
    begin_head(transaction, status);
    put_configured_fields(transaction, status);
    if (response_is_of_request(status))
        put_fields(transaction, SPAN("Cache-Control: no-store\r\n"));
    put_fields(transaction, span_of(extra));
    put_fields(transaction, (struct span){content, (size_t)content_length});
    end_head(transaction);
    account_response(transaction, status, OUTCOME_ERROR, coding, length);
}

/*
 * Writes "/errors/404.html" and returns its length; 0 if [files] error_pages is unset or the path
 * is too long.
 */
static size_t error_page_path(const struct transaction *transaction, int status, char *path)
{
    static const char ending[] = ".html";
    const char *directory = transaction->site->error_pages;
    size_t length = strlen(directory);
    char *at;

    if (length > 0 && directory[length - 1] == '/')
        length--;
    at = path + length;
    if (directory[0] != '/' || length + DECIMAL_MAX + sizeof(ending) >= TARGET_PATH_MAX)
        return 0;
    memcpy(path, directory, length);
    *at++ = '/';
    at = decimal_put(at, (uint64_t)status);
    memcpy(at, ending, sizeof(ending));
    return (size_t)(at - path) + sizeof(ending) - 1;
}

/* Replaces *PAGE, an error page, by the variant that the client prefers, if it accepts any. */
static int choose_page_variant(struct transaction *transaction, struct resource **page)
{
    struct resource *variant = *page;
    int failed;

    cache_acquire(&variant->entry); /* for lookup_variant(), which releases it or returns it */
    failed = lookup_variant(transaction, &variant);
    if (failed == 0 || failed == LOOKUP_MUST_WAIT)
        release_resource(transaction, *page);
    if (failed == 0)
        *page = variant;
    return failed == LOOKUP_MUST_WAIT ? failed : 0;
}

/* PAGE has no coding, and stays until the end of the response. */
static enum transaction_result put_error_page(struct transaction *transaction, int status,
                                              struct span page)
{
    put_error_head(transaction, status, CODING_IDENTITY, page.length);
    if (wants_body(transaction))
        transaction->context->output.body =
            (struct body_source){.memory = page.start, .left = page.length};
    return TRANSACTION_DONE;
}

/* GIVEN: the page; no bytes: that of the site, else the built-in one. */
static enum transaction_result put_error(struct transaction *transaction, int status,
                                         struct span given)
{
    char path[TARGET_PATH_MAX] UNINITIALIZED;
    size_t length = error_page_path(transaction, status, path);
    enum outcome of_request = transaction->outcome;
    bool varies = transaction->varies;
    struct resource *page;
    int failed = ENOENT;

    if (given.length > 0)
        return put_error_page(transaction, status, given);
    if (length > 0 && access_permits_now(transaction, path))
        failed = lookup_path(transaction, path, length, &page);
    if (failed == 0 && page->coded_only) {
        release_resource(transaction, page);
        failed = ENOENT;
    }
    if (failed == 0)
        failed = choose_page_variant(transaction, &page);
    transaction->outcome = of_request; /* not the outcome of the lookup of the error page */
    if (failed == LOOKUP_MUST_WAIT)
        return TRANSACTION_WAITING;
    if (failed != 0)
        return put_error_page(transaction, status, response_error_page(status));
    transaction->varies |= page->varies;
    put_error_head(transaction, status, page->coding, page->body_length);
    transaction->varies = varies;
    put_whole_body(transaction, page, true);
    return TRANSACTION_DONE;
}

/* A request that is refused before its path is looked up still gets the fields for its path. */
static enum transaction_result reply_error_with(struct transaction *transaction, int status,
                                                struct span page)
{
    struct target target UNINITIALIZED;
    const char *known = transaction->path;
    enum transaction_result result;

    if (known == NULL && transaction->request->target.start != NULL &&
        target_canonical(transaction->request->target, &target) == 0)
        transaction->path = target.path;
    result = put_error(transaction, status, page);
    transaction->path = known;
    return result;
}

enum transaction_result reply_error(struct transaction *transaction, int status)
{
    return reply_error_with(transaction, status, (struct span){NULL, 0});
}

enum transaction_result reply_maintenance(struct transaction *transaction)
{
    const struct segment *segment = transaction->context->worker->segment;

    transaction->retry_after_s = segment_maintenance(segment)->retry_after_s;
    return reply_error_with(transaction, 503, segment_maintenance_page(segment));
}

enum transaction_result reply_queue_full(struct transaction *transaction)
{
    metric_add(transaction->context->metrics, METRIC_offload_rejected, 1);
    transaction->may_wait = false; /* when processed again it would be counted again */
    return reply_error(transaction, 503);
}

/* Files */

static enum transaction_result put_whole(struct transaction *transaction, struct resource *resource,
                                         bool owned)
{
    begin_head(transaction, 200);
    put_prepared(transaction, resource->head[transaction->request->version]);
    account_response(transaction, 200, transaction->outcome, resource->coding,
                     resource->body_length);
    put_whole_body(transaction, resource, owned);
    return TRANSACTION_DONE;
}

static enum transaction_result put_not_modified(struct transaction *transaction,
                                                struct resource *resource, bool owned)
{
    begin_head(transaction, 304);
    put_prepared(transaction, pieces_of(transaction, resource)->validators);
    end_head(transaction);
    account_response(transaction, 304, transaction->outcome, CODING_IDENTITY, 0);
    if (owned)
        release_resource(transaction, resource);
    return TRANSACTION_DONE;
}

static enum transaction_result put_refusal(struct transaction *transaction,
                                           struct resource *resource, bool owned, int status)
{
    const char *of_target = transaction->path;
    enum transaction_result result;

    if (!owned)
        cache_acquire(&resource->entry); /* an error page may need the memory of the caches */
    transaction->representation_bytes = resource->body_length;
    transaction->varies = resource->varies;
    transaction->path = resource->file_path.start;
    result = reply_error(transaction, status);
    transaction->path = of_target;
    release_resource(transaction, resource);
    return result;
}

/* A client that sends If-Range has the representation's other fields (RFC 9110 section 15.3.7). */
static bool has_fields(const struct transaction *transaction)
{
    return (transaction->request->present & REQUEST_IF_RANGE) != 0;
}

static enum transaction_result put_part(struct transaction *transaction, struct resource *resource,
                                        bool owned, struct byte_range part)
{
    const struct head_pieces *pieces = pieces_of(transaction, resource);
    char fields[PARTIAL_FIELDS_MAX];
    int length =
        snprintf(fields, sizeof(fields),
                 "Content-Range: bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64
                 "\r\nContent-Length: %" PRIu64 "\r\n",
                 part.first, part.first + part.length - 1, resource->body_length, part.length);

    begin_head(transaction, 206);
    put_fields(transaction, (struct span){fields, (size_t)length});
    if (has_fields(transaction)) {
        put_prepared(transaction, pieces->validators);
    } else {
        put_prepared(transaction, pieces->type_fields);
        put_prepared(transaction, pieces->common_fields);
    }
    end_head(transaction);
    account_response(transaction, 206, transaction->outcome, resource->coding, part.length);
    put_body(transaction, resource, part, owned);
    return TRANSACTION_DONE;
}

static enum transaction_result put_parts(struct transaction *transaction, struct resource *resource,
                                         bool owned, struct byteranges *parts)
{
    const struct head_pieces *pieces = pieces_of(transaction, resource);
    char fields[PARTIAL_FIELDS_MAX];
    int length = snprintf(fields, sizeof(fields),
                          "Content-Length: %" PRIu64 "\r\n"
                          "Content-Type: multipart/byteranges; boundary=%s\r\n",
                          parts->length, parts->boundary);

    begin_head(transaction, 206);
    put_fields(transaction, (struct span){fields, (size_t)length});
    put_prepared(transaction, has_fields(transaction) ? pieces->validators : pieces->common_fields);
    end_head(transaction);
    account_response(transaction, 206, transaction->outcome, resource->coding, parts->length);
    transaction->context->output.body =
        (struct body_source){.resource = resource, .owned = owned, .parts = parts};
    return TRANSACTION_DONE;
}

/* Composes the response to a GET whose Range applies. */
static enum transaction_result put_range(struct transaction *transaction, struct resource *resource,
                                         bool owned)
{
    struct byteranges *parts;
    struct range_set set;

    switch (range_parse(transaction->request->range, resource->body_length, &set)) {
    case RANGE_UNSATISFIABLE:
        return put_refusal(transaction, resource, owned, 416);
    case RANGE_PARTIAL:
        if (set.count == 1)
            return put_part(transaction, resource, owned, set.range[0]);
        parts = byteranges_new(&set, resource->pieces[HTTP_1].type_fields, resource->body_length);
        if (parts != NULL)
            return put_parts(transaction, resource, owned, parts);
        break;
    case RANGE_WHOLE:
        break;
    }
    return put_whole(transaction, resource, owned);
}

/* Evaluates preconditions and Range in the order of RFC 9110 section 13.2.2. */
static enum transaction_result put_conditional(struct transaction *transaction,
                                               struct resource *resource, bool owned)
{
    struct validators validators = {resource->etag, resource->dated, resource->modified_s,
                                    resource->modified_text};
    int64_t now = transaction->context->prefixes.second;
    const struct request *request = transaction->request;

    switch (conditional_verdict(request, &validators, now)) {
    case VERDICT_PRECONDITION_FAILED:
        return put_refusal(transaction, resource, owned, 412);
    case VERDICT_NOT_MODIFIED:
        return put_not_modified(transaction, resource, owned);
    case VERDICT_PROCEED:
        break;
    }
    /* All codings have the same date, so that of If-Range does not tell which one the client has. */
    validators.dated &= !(transaction->uncoded && resource->varies);
    if (request_has_range(request) && conditional_range_holds(request, &validators, now))
        return put_range(transaction, resource, owned);
    return put_whole(transaction, resource, owned);
}

enum transaction_result reply_resource(struct transaction *transaction, struct resource *resource,
                                       bool owned)
{
    static const uint8_t conditions = REQUEST_IF_MATCH | REQUEST_IF_NONE_MATCH |
                                      REQUEST_IF_MODIFIED_SINCE | REQUEST_IF_UNMODIFIED_SINCE |
                                      REQUEST_RANGE;

    if (LIKELY((transaction->request->present & conditions) == 0))
        return put_whole(transaction, resource, owned);
    return put_conditional(transaction, resource, owned);
}

/* Redirects, pages and options */

enum transaction_result reply_redirect(struct transaction *transaction, int status,
                                       struct span location, struct resource *note)
{
    char field[REPLY_LOCATION_MAX + 32] UNINITIALIZED;
    int length =
        snprintf(field, sizeof(field), "Location: %.*s\r\n", (int)location.length, location.start);

    begin_head(transaction, status);
    put_configured_fields(transaction, status);
    put_fields(transaction, (struct span){field, (size_t)length});
    put_prepared(transaction, note->head[transaction->request->version]);
    account_response(transaction, status, transaction->outcome, note->coding, note->body_length);
    put_whole_body(transaction, note, true);
    return TRANSACTION_DONE;
}

static enum transaction_result put_page_not_modified(struct transaction *transaction,
                                                     enum outcome outcome, struct resource *page)
{
    begin_head(transaction, 304);
    put_configured_fields(transaction, 304);
    put_prepared(transaction, pieces_of(transaction, page)->validators);
    end_head(transaction);
    account_response(transaction, 304, outcome, CODING_IDENTITY, 0);
    release_resource(transaction, page);
    return TRANSACTION_DONE;
}

enum transaction_result reply_page(struct transaction *transaction, int status,
                                   struct resource *page)
{
    static const struct validators none = {.dated = false}; /* so only "*" matches a page */
    enum verdict verdict = VERDICT_PROCEED;
    enum outcome outcome = status >= 400                             ? OUTCOME_ERROR
                           : transaction->outcome == OUTCOME_OFFLOAD ? OUTCOME_OFFLOAD
                                                                     : OUTCOME_MISS;

    transaction->outcome = OUTCOME_ERROR; /* neither a cache hit nor a miss */
    if (status == 200) /* preconditions do not apply to errors (section 13.2.1) */
        verdict =
            conditional_verdict(transaction->request, &none, transaction->context->prefixes.second);
    if (verdict == VERDICT_PRECONDITION_FAILED) {
        release_resource(transaction, page);
        transaction->may_wait = false; /* when processed again it would generate the page again */
        return reply_error(transaction, 412);
    }
    if (verdict == VERDICT_NOT_MODIFIED)
        return put_page_not_modified(transaction, outcome, page);
    begin_head(transaction, status);
    put_configured_fields(transaction, status);
    put_prepared(transaction, page->head[transaction->request->version]);
    account_response(transaction, status, outcome, page->coding, page->body_length);
    put_whole_body(transaction, page, true);
    return TRANSACTION_DONE;
}

enum transaction_result reply_options(struct transaction *transaction)
{
    begin_head(transaction, 200);
    put_configured_fields(transaction, 200);
    put_fields(transaction, SPAN(ALLOWED_FIELD "Content-Length: 0\r\n"));
    end_head(transaction);
    account_response(transaction, 200, OUTCOME_HIT, CODING_IDENTITY, 0);
    return TRANSACTION_DONE;
}
