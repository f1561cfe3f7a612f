#include "common/units.h"
#include "daemon/http/target.h"
#include "daemon/transaction/lookup.h"
#include "daemon/transaction/reply.h"
#include "daemon/worker/thread.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { EXTRA_FIELDS_MAX = 80 };

/* What an answer of this status has to say beside (RFC 9110 sections 15.5.6, 12.5.5, 15.5.17,
 * 15.6.4; RFC 6585 section 4). */
static void write_extra(const struct exchange *exchange, int status, char *extra)
{
    const char *vary = status == 406 || exchange->varies ? "Vary: Accept-Encoding\r\n" : "";

    snprintf(extra, EXTRA_FIELDS_MAX, "%s", vary);
    if (status == 405)
        snprintf(extra, EXTRA_FIELDS_MAX, "Allow: " REPLY_ALLOWED "\r\n");
    else if (status == 416)
        snprintf(extra, EXTRA_FIELDS_MAX, "Content-Range: bytes */%" PRIu64 "\r\n%s",
                 exchange->representation_bytes, vary);
    else if (status == 429 || status == 503)
        snprintf(extra, EXTRA_FIELDS_MAX, "Retry-After: %" PRIu32 "\r\n", exchange->retry_after_s);
}

static void put_error_head(const struct exchange *exchange, int status, uint64_t length)
{
    struct output *output = &exchange->thread->output;
    char extra[EXTRA_FIELDS_MAX];

    write_extra(exchange, status, extra);
    reply_begin(exchange, status);
    reply_put_headers(exchange);
    output_put(output, extra, strlen(extra));
    reply_put(exchange, SPAN("Content-Type: text/html; charset=utf-8\r\nContent-Length: "));
    output->used = (size_t)(decimal_put(output->buffer + output->used, length) - output->buffer);
    reply_put(exchange, SPAN("\r\n\r\n"));
    reply_account(exchange, status, OUTCOME_ERROR, length);
}

static void answer_built_in(const struct exchange *exchange, int status)
{
    struct span page = response_error_page(status);

    put_error_head(exchange, status, page.length);
    if (reply_wants_body(exchange))
        reply_put(exchange, page);
}

/* "/errors/404.html"; returns its length, 0 where the site has no folder for such. */
static size_t error_page_path(const struct exchange *exchange, int status, char *path)
{
    static const char ending[] = ".html";
    const char *folder = exchange->thread->site->config->files_error_pages;
    size_t length = strlen(folder);
    char *at = path + length;

    if (folder[0] != '/' || length + DECIMAL_MAX + sizeof(ending) >= TARGET_PATH_MAX)
        return 0;
    memcpy(path, folder, length);
    *at++ = '/';
    at = decimal_put(at, (uint64_t)status);
    memcpy(at, ending, sizeof(ending));
    return (size_t)(at - path) + sizeof(ending) - 1;
}

enum exchange_result reply_overloaded(struct exchange *exchange)
{
    metric_add(exchange->thread->metrics, METRIC_offload_rejected, 1);
    exchange->may_wait = false; /* a second look might find room, and would count twice if not */
    return reply_error(exchange, 503);
}

enum exchange_result reply_error(struct exchange *exchange, int status)
{
    char path[TARGET_PATH_MAX];
    size_t length = error_page_path(exchange, status, path);
    enum outcome of_request = exchange->outcome;
    struct resource *page;
    int failed = ENOENT;

    if (length > 0)
        failed = lookup_path(exchange, path, length, &page);
    exchange->outcome = of_request; /* not of its error page */
    if (failed == LOOKUP_MUST_WAIT)
        return EXCHANGE_WAITING;
    if (failed != 0) {
        answer_built_in(exchange, status);
        return EXCHANGE_ANSWERED;
    }
    put_error_head(exchange, status, page->body_length);
    reply_body(exchange, page, (struct byte_range){0, page->body_length}, true);
    return EXCHANGE_ANSWERED;
}
