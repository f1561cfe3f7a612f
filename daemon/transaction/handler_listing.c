#include "daemon/base/memory_file.h"
#include "daemon/http/accept.h"
#include "daemon/transaction/handler.h"
#include "daemon/transaction/loading.h"
#include "daemon/transaction/lookup.h"
#include "daemon/transaction/page.h"
#include "daemon/transaction/reply.h"
#include "daemon/worker/thread.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

enum { FIELDS_MAX = 128 };

static void write_fields(char *fields, const struct listing *listing, bool json)
{
    if (json)
        snprintf(fields, FIELDS_MAX,
                 "Content-Type: application/json\r\nVary: Accept\r\nX-Total-Count: %zu\r\n",
                 listing->total);
    else
        snprintf(fields, FIELDS_MAX, "Content-Type: text/html; charset=utf-8\r\nVary: Accept\r\n");
}

/* 0 with the text in *TEXT, which the caller frees; or an errno. */
static int write_text(const struct listing *listing, const struct page_order *order,
                      const char *path, char **text, size_t *length)
{
    FILE *out = open_memstream(text, length);

    if (out == NULL)
        return ENOMEM;
    if (order->json)
        listing_write_json(listing, out);
    else
        listing_write_html(listing, &order->listing, path, out);
    return memory_file_close(out, text);
}

/* A page_maker. */
static int make_listing(const struct site *site, const struct page_order *order, struct span path,
                        struct resource **page)
{
    bool hidden = site->config->files_dotfiles == DOTFILES_ALLOW;
    char folder[TARGET_PATH_MAX], fields[FIELDS_MAX], *text = NULL;
    struct listing listing;
    size_t length;
    int failed;

    snprintf(folder, sizeof(folder), "%.*s", (int)path.length, path.start);
    failed = listing_read(&site->root, folder, hidden, &order->listing, &listing);
    if (failed != 0)
        return failed;
    failed = write_text(&listing, order, folder, &text, &length);
    if (failed == 0) {
        write_fields(fields, &listing, order->json);
        failed = page_new(path, fields, text, length, page);
    }
    free(text);
    listing_free(&listing);
    return failed;
}

enum exchange_result handler_listing(struct exchange *exchange, const struct target *target)
{
    struct span path = {target->path, target->length};
    struct page_order order = {.make = make_listing,
                               .state = THREAD_STATE_FILE,
                               .listing = listing_order_read(target->query)};
    struct resource *page = NULL;
    int failed = 0;

    if (loading_take_page(exchange, path, &page, &failed))
        return failed == 0 ? reply_page(exchange, 200, page)
                           : reply_error(exchange, lookup_status(failed));
    order.json = accept_prefers_json(exchange->request, SPAN("html"));
    if (exchange->may_wait && loading_submit_page(exchange, path, &order))
        return EXCHANGE_WAITING;
    return reply_overloaded(exchange);
}
