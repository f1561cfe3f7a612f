#include "daemon/lookup.h"
#include "daemon/reply.h"
#include "daemon/target.h"
#include "daemon/thread.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

enum { EXTRA_FIELDS_MAX = 80 };

/* What an answer of this status has to say beside (RFC 9110 sections 15.5.6, 12.5.5, 15.5.17,
 * 15.6.4; RFC 6585 section 4). */
static void write_extra(const struct exchange *exchange, int status, char *extra)
{
    extra[0] = '\0';
    if (status == 405)
        snprintf(extra, EXTRA_FIELDS_MAX, "Allow: " REPLY_ALLOWED "\r\n");
    else if (status == 406)
        snprintf(extra, EXTRA_FIELDS_MAX, "Vary: Accept-Encoding\r\n");
    else if (status == 416)
        snprintf(extra, EXTRA_FIELDS_MAX, "Content-Range: bytes */%" PRIu64 "\r\n",
                 exchange->representation_bytes);
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
    output->used += (size_t)snprintf(output->buffer + output->used, RESPONSE_BODY_MAX,
                                     "%sContent-Type: text/html; charset=utf-8\r\n"
                                     "Content-Length: %" PRIu64 "\r\n\r\n",
                                     extra, length);
    reply_account(exchange, status, OUTCOME_ERROR, length);
}

static void answer_built_in(const struct exchange *exchange, int status)
{
    char page[RESPONSE_BODY_MAX];
    size_t length = response_error_page(status, page);

    put_error_head(exchange, status, length);
    if (reply_wants_body(exchange))
        output_put(&exchange->thread->output, page, length);
}

enum exchange_result reply_error(struct exchange *exchange, int status)
{
    const char *folder = exchange->thread->site->config->files_error_pages;
    char path[TARGET_PATH_MAX];
    int length = snprintf(path, sizeof(path), "%s/%d.html", folder, status);
    enum outcome of_request = exchange->outcome;
    struct resource *page;
    int failed = ENOENT;

    if (folder[0] == '/' && (size_t)length < sizeof(path))
        failed = lookup_path(exchange, path, (size_t)length, &page);
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
